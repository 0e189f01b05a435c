"""Words and their numbers: the generative vocabulary first, then every other word that was met."""

from __future__ import annotations

import json
import re
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from decabench.errors import DataError
from decabench.files import atomic_file

__all__ = ["EOS", "INIT", "PAD", "SPECIALS", "UNKNOWN", "Ids", "Lexicon", "detokenize", "tokenize"]

# ---- tokenizer

_HALF = " "
_PRIORITY = {"L": 7, "N": 5, "S": 3, "P": 1, "Z": -1, "C": -3}
"""Of two neighbours without a space between them, the one with the higher takes the half-space; signs of text
that no reader sees (line ends, controls) take none from each other."""

_RUN = re.compile(r"L+|N+|S+|P|Z|C| +")


class _Classes(dict[int, str]):
    """Code point to the letter of its class, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        letter = _HALF if character == _HALF else unicodedata.category(character)[0].replace("M", "L")
        self[code] = letter
        return letter


_CLASSES = _Classes()
_HALVES = re.compile(" +")


def tokenize(text: str) -> list[str]:
    """The tokens of a text, with their half-spaces: `the cat,` gives [" the ", " cat ", ","]."""
    tokens: list[str] = []
    priority = 0  # of the token before
    after_space = False
    for run in _RUN.finditer(text.translate(_CLASSES)):
        letter, (start, end) = run.group()[0], run.span()
        if letter == _HALF:
            # k spaces are 2k half-spaces: one to each neighbour, the others as tokens of their own.
            tokens[-1:] = [tokens[-1] + _HALF] if tokens else [_HALF]
            tokens += [_HALF * 2] * (end - start - 1)
            after_space = True
            continue
        piece, own = text[start:end], _PRIORITY[letter]
        if after_space:
            piece = _HALF + piece
        elif max(own, priority) > 0 and own < priority:
            tokens[-1] += _HALF
        elif max(own, priority) > 0:
            piece = _HALF + piece
        tokens.append(piece)
        priority, after_space = own, False
    if after_space:
        tokens.append(_HALF)
    elif priority > 0:
        tokens[-1] += _HALF
    return tokens


def detokenize(tokens: Iterable[str]) -> str:
    """The text of tokens; for tokens of `tokenize` it is the text they were made of."""
    return _HALVES.sub(lambda run: _HALF * (len(run.group()) // 2), "".join(tokens))


# ---- lexicon

Ids = npt.NDArray[np.int32]
"""Word numbers in order."""

SPECIALS = ("<pad>", "<unk>", "<init>", "<eos>")
"""What no text contains: the tokenizer would cut each of them into three."""
PAD, UNKNOWN, INIT, EOS = range(4)

FORMAT = "decabench.vocabulary/1"


class Lexicon:
    """A growing list of words. Numbers below `size` are the generative vocabulary (v of Eq. 11) and never change."""

    def __init__(self, vocabulary: Sequence[str] = ()) -> None:
        """`vocabulary` without the special words; what is met later is numbered after it."""
        self.words: list[str] = [*SPECIALS, *vocabulary]
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) < len(self.words):
            raise DataError("A vocabulary has a word twice: write each once.")
        self.size = len(self.words)

    def __len__(self) -> int:
        return len(self.words)

    def learn(self, words: Iterable[str]) -> None:
        """Numbers words after those that are known."""
        for word in words:
            if word not in self._numbers:
                self._numbers[word] = len(self.words)
                self.words.append(word)

    def encode(self, text: str, limit: int | None = None) -> Ids:
        """<init>, the numbers of the lower-cased text's tokens (the first `limit`), <eos>. Learns new words."""
        numbers, found = self._numbers, array("i", [INIT])
        for word in tokenize(text.lower())[:limit]:
            number = numbers.get(word)
            if number is None:
                number = numbers[word] = len(self.words)
                self.words.append(word)
            found.append(number)
        found.append(EOS)
        return np.frombuffer(found, dtype=np.int32)

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of numbers, up to the first <eos>; other special words are left out."""
        kept: list[str] = []
        for number in numbers:
            if number == EOS:
                break
            if number >= len(SPECIALS):
                kept.append(self.words[number])
        return detokenize(kept)

    def copy(self) -> Lexicon:
        """The vocabulary alone, without words met since."""
        return Lexicon(self.words[len(SPECIALS) : self.size])

    def write(self, path: Path) -> None:
        """Writes the vocabulary as JSON."""
        content = {"format": FORMAT, "words": self.words[len(SPECIALS) : self.size]}
        with atomic_file(path) as file:
            file.write(json.dumps(content, ensure_ascii=True, indent=0).encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """The vocabulary that `write` wrote. Raises DataError."""
        try:
            content: Any = json.loads(path.read_text(encoding="utf-8"))
            words = content["words"]
            if content["format"] != FORMAT or not all(isinstance(word, str) for word in words):
                raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} is no vocabulary ({error}): use a checkpoint that was not changed."
            ) from error
        return cls(words)
