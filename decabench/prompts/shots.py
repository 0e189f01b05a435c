"""Worked examples for prompts, drawn from the training split and never from the evaluated split."""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from decabench.errors import MissingDataError
from decabench.tasks import Example, Task

LONGEST = 2_000
"""The maximum length of a shot in characters (about 500 tokens).

Longer examples are used only if there are too few shorter ones.
"""

SHARED_CONTEXT = 40
"""The minimum length of a shared context, in bytes.

Training examples are excluded if they share such a context with the evaluated split.
"""

FEW_LABELS = 10
"""The maximum number of different answers that are treated as labels.

Shots are drawn from each label in turn.
"""

_Key = tuple[int, int]
"""A sort key: the number of characters over the limit, and a digest. Examples with the smallest keys are drawn."""


@dataclass(frozen=True, slots=True)
class Shot:
    """A worked example."""

    id: str
    """The training example's id."""
    question: str
    """The question."""
    context: str
    """The context of the question."""
    answer: str
    """The first answer."""


def _normal(text: str) -> bytes:
    return " ".join(text.casefold().split()).encode("utf-8", "surrogatepass")


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


@lru_cache(1)  # questions about the same context are usually adjacent
def _digest_context(context: str) -> tuple[bytes, int]:
    """Return the digest and length of a context, ignoring case and whitespace."""
    normal = _normal(context)
    return _digest(normal), len(normal)


class _Evaluated:
    """Digests of questions and contexts in the evaluated split, ignoring case and whitespace."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs: set[bytes] = set()
        self._contexts: set[bytes] = set()
        for question, context in pairs:
            digest, _ = _digest_context(context)
            self._pairs.add(_digest(digest + _normal(question)))
            self._contexts.add(digest)

    def has(self, question: str, context: str) -> bool:
        """Return whether the split contains this example.

        Also returns True if the split has several contexts, and one of them is the example's context and has at least
        SHARED_CONTEXT bytes.
        """
        digest, length = _digest_context(context)
        if len(self._contexts) > 1 and length >= SHARED_CONTEXT and digest in self._contexts:
            return True
        return _digest(digest + _normal(question)) in self._pairs


def _keep(best: list[tuple[_Key, Shot]], key: _Key, shot: Shot, n: int) -> None:
    """Insert a shot into a sorted list of the n shots with the smallest keys."""
    if len(best) < n or key < best[-1][0]:
        insort(best, (key, shot), key=itemgetter(0))
        del best[n:]


def select_shots(
    task: Task,
    training: Iterable[Example],
    evaluated: Iterable[tuple[str, str]],
    n: int,
    seed: int = 0,
) -> tuple[Shot, ...]:
    """Draw n worked examples from the training split, in the order to show them.

    `evaluated` contains (question, context) pairs of the evaluated split, whose examples are never
    drawn. Training examples are ranked by a SHA-256 digest of the seed, task and id, so their order in
    the data doesn't matter. If there are only a few different answers, examples are drawn from each
    answer in turn. `training` is read once, and at most n examples are kept in memory (about ten times
    as many for labels). Raises MissingDataError if there are too few examples.
    """
    if n <= 0:
        return ()
    barred = _Evaluated(evaluated)
    best: list[tuple[_Key, Shot]] = []
    by_answer: dict[str, list[tuple[_Key, Shot]]] = {}
    excluded = usable = 0
    for example in training:
        if barred.has(example.question, example.context):
            excluded += 1
            continue
        usable += 1
        shot = Shot(example.id, example.question, example.context, example.answers[0])
        size = len(shot.question) + len(shot.context) + len(shot.answer)
        key = (max(0, size - LONGEST), _drawn(seed, task.name, shot.id))
        _keep(best, key, shot, n)
        if shot.answer in by_answer or len(by_answer) <= FEW_LABELS:
            _keep(by_answer.setdefault(shot.answer, []), key, shot, n)
    if usable < n:
        raise MissingDataError(
            f"{task.name}: {n:,} shots were requested, but only {usable:,} training examples are usable"
            f"{f' ({excluded:,} are also in the evaluated split)' if excluded else ''}. Use fewer shots."
        )
    few = len(by_answer) <= min(FEW_LABELS, usable // 2)
    drawn = _in_turn([*by_answer.values()], n) if few else best
    return tuple(shot for _, shot in sorted(drawn, key=lambda pair: pair[0]))


def _drawn(seed: int, task: str, id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{task}\0{id}".encode("utf-8", "surrogatepass")).digest())


def _in_turn(labels: list[list[tuple[_Key, Shot]]], n: int) -> list[tuple[_Key, Shot]]:
    rounds: list[tuple[int, _Key, Shot]] = [
        (place, key, shot) for drawn in labels for place, (key, shot) in enumerate(drawn)
    ]
    return [(key, shot) for _, key, shot in sorted(rounds, key=lambda entry: entry[:2])[:n]]
