"""Find validation and test texts that also occur in training data, unchanged or after normalization."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from decabench.tasks.store import Store

if TYPE_CHECKING:
    import numpy as np

Compared = Literal["context", "example"]
"""The text to look for: an example's context alone, or its question and context together."""

NORMALISATION = "NFKC, case folded, letters, marks and digits only"
"""How texts are normalized for comparison. Case, spaces, punctuation and word boundaries are ignored."""

_OTHER_ASCII = re.compile(r"[^a-z0-9]+")


def normalise(text: str) -> str:
    """Normalize a text, so that tokenization and punctuation don't matter: `Do n't !` and `don't` become `dont`."""
    if text.isascii():
        return _OTHER_ASCII.sub("", text.lower())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(char for char in folded if unicodedata.category(char)[0] in "LMN")


@dataclass(frozen=True)
class Overlap:
    """The examples of a split whose text also occurs in other data of the same task or in data of another task."""

    task: str
    """The task that the examples belong to."""
    split: str
    """The split that the examples belong to."""
    source: str
    """The task whose data was searched for the texts."""
    examples: int
    """The number of examples in the split."""
    exact: tuple[str, ...]
    """The ids of examples whose text occurs in the source unchanged."""
    normalised: tuple[str, ...]
    """The ids of examples whose normalized text occurs in the source, including exact matches."""


@dataclass(frozen=True)
class _Digests:
    """64-bit digests of a split's texts, unchanged and normalized. Empty texts have digest 0 and are not compared."""

    exact: np.ndarray
    normalised: np.ndarray


def find_overlap(
    store: Store,
    tasks: Sequence[str],
    splits: Sequence[str] = ("validation", "test"),
    against: Sequence[str] = ("train",),
    compare: Compared = "context",
) -> Iterator[Overlap]:
    """Yield the overlap of each prepared split in `splits` with each task's splits in `against`.

    Overlap with the split's own task is always reported. Overlap with another task is reported only if the two
    tasks share a text. Empty texts are not compared. Memory use is 16 bytes per text, plus the ids of one split.
    Raises DataError for damaged data.
    """
    import numpy as np

    prepared = {task: store.records(task) for task in tasks}
    sources = {
        (task, split): _digest_split(store, task, split, compare)
        for task in tasks
        for split in against
        if split in prepared[task]
    }
    for task in tasks:
        for split in splits:
            if split not in prepared[task]:
                continue
            held_out = sources.get((task, split)) or _digest_split(store, task, split, compare)
            for source in tasks:
                found = [
                    digests
                    for (name, part), digests in sources.items()
                    if name == source and (name, part) != (task, split)
                ]
                if not found:
                    continue
                exact = np.isin(held_out.exact, np.concatenate([each.exact for each in found]))
                alike = np.isin(held_out.normalised, np.concatenate([each.normalised for each in found]))
                exact &= held_out.exact != 0
                alike = exact | (alike & (held_out.normalised != 0))
                if source == task or alike.any():
                    ids = store.ids(task, split) if alike.any() else []
                    yield Overlap(
                        task,
                        split,
                        source,
                        len(alike),
                        tuple(ids[at] for at in np.flatnonzero(exact)),
                        tuple(ids[at] for at in np.flatnonzero(alike)),
                    )


def _digest_split(store: Store, task: str, split: str, compare: Compared) -> _Digests:
    import numpy as np

    exact, normalised = array("Q"), array("Q")
    columns = ("question", "context") if compare == "example" else ("context",)
    for row in store.read(task, split, columns):
        text = "\n".join(row[column] for column in columns)
        exact.append(_digest(text))
        normalised.append(_digest(normalise(text)))
    return _Digests(*(np.frombuffer(values, dtype=np.uint64) for values in (exact, normalised)))


def _digest(text: str) -> int:
    if not text:
        return 0
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") or 1
