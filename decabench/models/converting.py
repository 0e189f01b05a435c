"""Word vectors in the form that opens fastest: a matrix in `.npy`, mapped, and its words in `.txt` beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from decabench.models.vectors import Words
from decabench.tasks.home import atomic_file

__all__ = ["index_path", "write_words"]


def index_path(path: Path) -> Path:
    """Where the words of a `.npy` stand."""
    return path.with_suffix(".txt")


def write_words(path: Path, vectors: Words) -> list[str]:
    """Writes `path` and its index; returns the words that are left out, since no line can hold them."""
    in_order = sorted(vectors.index.items(), key=_row)
    kept = [(word, row) for word, row in in_order if _is_line(word)]
    rows = [row for _, row in kept]
    with atomic_file(index_path(path)) as file:
        file.writelines(f"{word}\n".encode() for word, _ in kept)
    with atomic_file(path) as file:
        np.save(file, np.ascontiguousarray(vectors.matrix[rows], dtype=np.float32), allow_pickle=False)
    return [word for word, _ in in_order if not _is_line(word)]


def _row(item: tuple[str, int]) -> int:
    return item[1]


def _is_line(word: str) -> bool:
    """Whether a line of UTF-8 can hold it; readers of text take a carriage return for the end of a line too."""
    if "\n" in word or "\r" in word:
        return False
    try:
        word.encode()
    except UnicodeEncodeError:  # half of a character, out of an escape in JSON
        return False
    return True
