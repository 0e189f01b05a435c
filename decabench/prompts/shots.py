"""Worked examples for prompts, drawn from the training split and never from the evaluated split."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from decabench.errors import MissingDataError
from decabench.tasks import Example, Task

__all__ = ["FEW_LABELS", "LONGEST", "SHARED_CONTEXT", "Shot", "select_shots"]

LONGEST = 2_000
"""The maximum length of a shot in characters (about 500 tokens).

Longer examples are used only if there are too few shorter ones.
"""

SHARED_CONTEXT = 40
"""The minimum length of a shared context, in bytes.

Training examples are excluded if they share such a context with the evaluated split.
"""

FEW_LABELS = 10
"""The maximum number of different answers that are treated as labels. Shots then show each label in turn."""

_Key = tuple[int, int]
"""(characters over the limit, digest). Examples with the smallest keys are drawn."""


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


class _Evaluated:
    """Digests of questions and contexts in the evaluated split, ignoring case and whitespace."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._latest: tuple[str, bytes, int] | None = None
        self._pairs: set[bytes] = set()
        self._contexts: set[bytes] = set()
        for question, context in pairs:
            digest, _ = self._context(context)
            self._pairs.add(_digest(digest + _normal(question)))
            self._contexts.add(digest)

    def has(self, question: str, context: str) -> bool:
        """Whether the split contains this example.

        In a split with several contexts, an example with a known context counts as contained.
        """
        digest, length = self._context(context)
        if len(self._contexts) > 1 and length >= SHARED_CONTEXT and digest in self._contexts:
            return True
        return _digest(digest + _normal(question)) in self._pairs

    def _context(self, context: str) -> tuple[bytes, int]:
        """Return the digest and length of a context.

        The latest result is cached because questions about the same context are usually adjacent.
        """
        if self._latest is None or self._latest[0] != context:
            normal = _normal(context)
            self._latest = (context, _digest(normal), len(normal))
        return self._latest[1:]


class _Best:
    def __init__(self, n: int) -> None:
        self._n = n
        self._heap: list[tuple[int, int, Shot]] = []  # negated keys, with the worst on top

    def add(self, key: _Key, shot: Shot) -> None:
        entry = (-key[0], -key[1], shot)
        if len(self._heap) < self._n:
            heapq.heappush(self._heap, entry)
        elif entry[:2] > self._heap[0][:2]:
            heapq.heapreplace(self._heap, entry)

    def sorted(self) -> list[tuple[_Key, Shot]]:
        return sorted(
            (((-excess, -drawn), shot) for excess, drawn, shot in self._heap), key=lambda pair: pair[0]
        )


def select_shots(
    task: Task,
    training: Iterable[Example],
    evaluated: Iterable[tuple[str, str]],
    n: int,
    seed: int = 0,
) -> tuple[Shot, ...]:
    """Draw n worked examples from the training split, in the order to show them.

    `evaluated` contains (question, context) pairs of the evaluated split, whose examples are never drawn. The
    draw depends only on a SHA-256 of the seed, task and id, so it is reproducible regardless of the data's
    order. If there are only a few different answers, they are shown in turn. `training` is read once, keeping
    n examples in memory (ten times as many for labels). Raises MissingDataError if there are too few
    examples.
    """
    if n <= 0:
        return ()
    barred, best, by_answer = _Evaluated(evaluated), _Best(n), dict[str, _Best]()
    excluded = usable = 0
    for example in training:
        if barred.has(example.question, example.context):
            excluded += 1
            continue
        usable += 1
        shot = Shot(example.id, example.question, example.context, example.answers[0])
        size = len(shot.question) + len(shot.context) + len(shot.answer)
        key = (max(0, size - LONGEST), _drawn(seed, task.name, shot.id))
        best.add(key, shot)
        if shot.answer in by_answer or len(by_answer) <= FEW_LABELS:
            by_answer.setdefault(shot.answer, _Best(n)).add(key, shot)
    if usable < n:
        raise MissingDataError(
            f"{task.name}: {n} shots were requested, but only {usable:,} training examples are usable "
            f"({excluded:,} are also in the evaluated split). Use fewer shots."
        )
    few = len(by_answer) <= min(FEW_LABELS, usable // 2)
    drawn = _in_turn([labelled.sorted() for labelled in by_answer.values()], n) if few else best.sorted()
    return tuple(shot for _, shot in sorted(drawn, key=lambda pair: pair[0]))


def _drawn(seed: int, task: str, id: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0{task}\0{id}".encode("utf-8", "surrogatepass")).digest())


def _in_turn(labels: list[list[tuple[_Key, Shot]]], n: int) -> list[tuple[_Key, Shot]]:
    rounds: list[tuple[int, _Key, Shot]] = [
        (place, key, shot) for drawn in labels for place, (key, shot) in enumerate(drawn)
    ]
    return [(key, shot) for _, key, shot in sorted(rounds, key=lambda entry: entry[:2])[:n]]
