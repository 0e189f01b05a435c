"""Word vectors in the form that opens fastest: a matrix in `.npy`, mapped, and its words in `.txt` beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from decabench.models.vectors import Words
from decabench.tasks.home import atomic_file

__all__ = ["index_path", "is_line", "write_matrix", "write_words"]


def index_path(path: Path) -> Path:
    """Where the words of a `.npy` stand."""
    return path.with_suffix(".txt")


def write_words(path: Path, vectors: Words) -> list[str]:
    """Writes `path` and its index; returns the words that are left out, since no line can hold them."""
    in_order = sorted(vectors.index.items(), key=_row)
    kept = [(word, row) for word, row in in_order if is_line(word)]
    rows = [row for _, row in kept]
    write_matrix(path, [word for word, _ in kept], vectors.matrix[rows].astype(np.float32))
    return [word for word, _ in in_order if not is_line(word)]


def write_matrix(path: Path, words: Sequence[str], values: npt.NDArray[np.floating[Any]]) -> None:
    """Writes a row for each word to `path`, and the words, each of which a line can hold, to its index."""
    with atomic_file(index_path(path)) as file:
        file.writelines(f"{word}\n".encode() for word in words)
    with atomic_file(path) as file:
        np.save(file, np.ascontiguousarray(values), allow_pickle=False)


def _row(item: tuple[str, int]) -> int:
    return item[1]


def is_line(word: str) -> bool:
    """Whether a line of UTF-8 can hold it; readers of text take a carriage return for the end of a line too."""
    if "\n" in word or "\r" in word:
        return False
    try:
        word.encode()
    except UnicodeEncodeError:  # half of a character, out of an escape in JSON
        return False
    return True
