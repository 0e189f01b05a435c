"""Worked examples for a prompt, drawn from the training split, never from the evaluated split."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from decabench.errors import MissingDataError
from decabench.tasks import Example, Task

__all__ = ["FEW_LABELS", "LONGEST", "SHARED_CONTEXT", "Shot", "select_shots"]

LONGEST = 2_000
"""The length of a shot in characters (some 500 tokens); longer ones are used only if too few are shorter."""

SHARED_CONTEXT = 40
"""The minimum length of a context, in bytes, for excluding training examples because the evaluated split shares
it."""

FEW_LABELS = 10
"""Up to this many different answers are treated as labels, and the shots show each in turn."""

_Key = tuple[int, int]
"""(characters over the limit, digest): examples with the smallest keys are drawn."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One worked example."""

    id: str
    """The id of the training example."""
    question: str
    """The question."""
    context: str
    """The text that the question is about."""
    answer: str
    """Its first answer."""


def _normal(text: str) -> bytes:
    return " ".join(text.casefold().split()).encode("utf-8", "surrogatepass")


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=16).digest()


class _Evaluated:
    """The questions and contexts of the evaluated split, as digests; case and spacing are ignored."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._latest: tuple[str, bytes, int] | None = None
        self._pairs: set[bytes] = set()
        self._contexts: set[bytes] = set()
        for question, context in pairs:
            digest, _ = self._context(context)
            self._pairs.add(_digest(digest + _normal(question)))
            self._contexts.add(digest)

    def has(self, question: str, context: str) -> bool:
        """Return whether the split contains this example or, if the split has many contexts, this example's
        context."""
        digest, length = self._context(context)
        if len(self._contexts) > 1 and length >= SHARED_CONTEXT and digest in self._contexts:
            return True
        return _digest(digest + _normal(question)) in self._pairs

    def _context(self, context: str) -> tuple[bytes, int]:
        """Return digest and length; the last is cached, because questions about a context follow one another."""
        if self._latest is None or self._latest[0] != context:
            normal = _normal(context)
            self._latest = (context, _digest(normal), len(normal))
        return self._latest[1:]


class _Best:
    def __init__(self, n: int) -> None:
        self._n = n
        self._heap: list[tuple[int, int, Shot]] = []  # negative keys: the worst is on top

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
    """Draw n worked examples from the training split, in the order to show them; none is in the evaluated
    split.

    `evaluated` are pairs of question and context. The draw depends on the sha256 of seed, task and id, so it is
    the same everywhere, whatever the order of the data. If there are only a few different answers, each is
    shown in turn. `training` is read once, with n examples in memory (ten times n for labels). Raises
    MissingDataError if there are too few.
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
            f"({excluded:,} are also in the evaluated split): use fewer shots."
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
