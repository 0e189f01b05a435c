"""Word vectors from files and character n-grams, and tables of vectors for a lexicon."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from decabench.vectors.tokenizer import SPECIALS, Ids, Lexicon

Matrix = npt.NDArray[np.float32]
"""A matrix with one row for each word."""


CONTEXTUAL = "contextual:"
"""The prefix of the names of contextual vectors. The rest of the name is a folder."""


def is_contextual(name: str) -> bool:
    """Return whether a name in a configuration refers to contextual vectors."""
    return name.startswith(CONTEXTUAL)


def split_name(name: str) -> tuple[str, str]:
    """Split a name into its prefix and the rest.

    The prefix is `contextual:`, or an empty string for other vectors.
    """
    prefix = CONTEXTUAL if is_contextual(name) else ""
    return prefix, name.removeprefix(prefix)


class Vectors(Protocol):
    """A source of word vectors."""

    @property
    def dimension(self) -> int:
        """The length of a vector."""

    @property
    def digest(self) -> str:
        """The SHA-256 digest of everything that affects a vector, as `sha256:HEX`, or `none:DIMENSION` for random
        vectors."""

    def rows(self, words: Sequence[str]) -> Matrix:
        """Return the vectors of words, of shape (words, dimension). Words without a vector get zeros."""


@dataclass(frozen=True)
class _IndexedRows:
    matrix: Matrix
    """The matrix of shape (rows, dimension), in memory or mapped from a file."""
    index: Mapping[str, int]
    """Maps each word or n-gram to its row."""
    digest: str
    """The SHA-256 digest of the files, as `sha256:HEX`."""

    @property
    def dimension(self) -> int:
        return int(self.matrix.shape[1])


class WordVectors(_IndexedRows):
    """Word vectors stored in a matrix with one row per word."""

    def rows(self, words: Sequence[str]) -> Matrix:
        """Return the vectors of words, of shape (words, dimension), ignoring half-spaces.

        Words are looked up as written, then in lower case. Words without a vector get zeros.
        """
        found = np.fromiter((self._row(word.strip()) for word in words), dtype=np.int64, count=len(words))
        made = np.zeros((len(words), self.dimension), dtype=np.float32)
        made[found >= 0] = self.matrix[found[found >= 0]]
        return made

    def _row(self, word: str) -> int:
        row = self.index.get(word, -1)
        return row if row >= 0 else self.index.get(word.lower(), -1)


class NgramVectors(_IndexedRows):
    """Character n-gram vectors stored in a matrix with one row per n-gram.

    The vector of a word is the mean of its n-grams' vectors (Hashimoto et al. 2017).
    """

    def rows(self, words: Sequence[str]) -> Matrix:
        """Return the mean vector of each word's known n-grams, of shape (words, dimension).

        Words without any known n-gram get zeros.
        """
        made = np.zeros((len(words), self.dimension), dtype=np.float32)
        for at, word in enumerate(words):
            known = [row for gram in ngrams(word.strip()) if (row := self.index.get(gram, -1)) >= 0]
            if known:
                made[at] = self.matrix[known].mean(0)
        return made


def ngrams(word: str) -> Iterator[str]:
    """Yield the names of the 2-, 3- and 4-grams of a word, such as `2gram-#BEGIN#c` or `2gram-ca`.

    The names have the same form as in the `charNgram` file of Hashimoto et al. (2017).
    """
    characters = ["#BEGIN#", *word, "#END#"]
    for n in (2, 3, 4):
        for start in range(len(characters) - n + 1):
            yield f"{n}gram-{''.join(characters[start : start + n])}"


@dataclass(frozen=True)
class NoVectors:
    """Pseudo-random vectors that depend only on the word, for tests and as a baseline."""

    dimension: int = 64
    """The length of a vector."""

    @property
    def digest(self) -> str:
        return f"none:{self.dimension}"

    def rows(self, words: Sequence[str]) -> Matrix:
        """Return vectors with standard normal entries, of shape (words, dimension)."""
        made = np.zeros((len(words), self.dimension), dtype=np.float32)
        for at, word in enumerate(words):
            made[at] = _draw(word, self.dimension)
        return made


@dataclass(frozen=True)
class JoinedVectors:
    """Vectors from several sources, concatenated for each word.

    The decathlon paper concatenates GloVe and character n-gram vectors in this way.
    """

    parts: tuple[Vectors, ...]
    """The sources, in order. There must be at least one."""
    contextual: tuple[Vectors, ...] = ()
    """Encoders, whose vectors depend on the whole text. Their `rows` method takes the words of one text."""

    @property
    def dimension(self) -> int:
        """The length of a word's vector, not counting contextual vectors."""
        return sum(part.dimension for part in self.parts)

    @property
    def digest(self) -> str:
        return "+".join(part.digest for part in (*self.parts, *self.contextual))

    def rows(self, words: Sequence[str]) -> Matrix:
        """Return the vectors of words, of shape (words, sum of the sources' dimensions).

        Special words get random vectors, except <pad>, which gets zeros. The decathlon paper gives no vectors for
        <init> and <eos>, and zeros would make them look like unknown words.
        """
        made = np.concatenate([part.rows(words) for part in self.parts], axis=1)
        for at, word in enumerate(words):
            if word in SPECIALS:
                made[at] = 0 if word == SPECIALS[0] else _draw(word, self.dimension)
        return made


def _draw(word: str, dimension: int) -> Matrix:
    seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dimension, dtype=np.float32)


class WordTable:
    """The vectors of a lexicon's words. Words that are added to the lexicon later are looked up when needed."""

    def __init__(self, lexicon: Lexicon, vectors: JoinedVectors) -> None:
        self.lexicon = lexicon
        self.vectors = vectors
        self._rows = np.zeros((0, vectors.dimension), dtype=np.float32)
        self._known = 0

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self.vectors.dimension

    @property
    def contextual_dimension(self) -> int:
        """The length of a word's contextual vector; 0 if there are no contextual vectors."""
        return sum(part.dimension for part in self.vectors.contextual)

    def contextual(self, texts: Sequence[Ids], length: int) -> Matrix:
        """Return the contextual vectors of texts, of shape (texts, length, contextual dimension).

        Vectors after the end of a text are zero.
        """
        made = np.zeros((len(texts), length, self.contextual_dimension), dtype=np.float32)
        for text, own in zip(texts, made, strict=True):
            words = [self.lexicon.words[number] for number in text.tolist()]
            own[: len(words)] = np.concatenate([part.rows(words) for part in self.vectors.contextual], axis=1)
        return made

    def __getitem__(self, numbers: npt.NDArray[np.int64]) -> Matrix:
        self._fill()
        return self._rows[numbers]

    def vocabulary(self) -> Matrix:
        """Return a copy of the vocabulary's vectors, of shape (v, dimension)."""
        self._fill()
        return self._rows[: self.lexicon.size].copy()

    def _fill(self) -> None:
        if self._known < len(self.lexicon):
            new = self.vectors.rows(self.lexicon.words[self._known :])
            if len(self.lexicon) > len(self._rows):
                # Allocate 50% more, so that vectors are not copied each time a batch adds words.
                grown = np.zeros((len(self.lexicon) * 3 // 2, self.dimension), dtype=np.float32)
                grown[: self._known] = self._rows[: self._known]
                self._rows = grown
            self._rows[self._known : self._known + len(new)] = new
            self._known += len(new)
