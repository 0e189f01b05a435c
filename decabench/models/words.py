"""Words and their numbers: a reversible tokenizer, and a lexicon whose first words are the model's vocabulary."""

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

_HALF = " "
_PRIORITY = {"L": 7, "N": 5, "S": 3, "P": 1, "Z": -1, "C": -3}
"""Of two neighbours with no space between them, the one with the higher priority gets the half-space; invisible
characters (line ends, controls) get none."""

_RUN = re.compile(r"L+|N+|S+|P|Z|C| +")
_HALVES = re.compile(" +")


class _Classes(dict[int, str]):
    """Code point to the letter of its Unicode class, filled as characters are met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        letter = _HALF if character == _HALF else unicodedata.category(character)[0].replace("M", "L")
        self[code] = letter
        return letter


_CLASSES = _Classes()


def tokenize(text: str) -> list[str]:
    """Split a text into tokens that keep their half of each space: `the cat,` gives [" the ", " cat ", ","].

    After RevTok: every token carries the spaces on its sides, so that `detokenize` gives back the text exactly.
    """
    tokens: list[str] = []
    priority = 0  # of the previous token
    after_space = False
    for run in _RUN.finditer(text.translate(_CLASSES)):
        letter, (start, end) = run.group()[0], run.span()
        if letter == _HALF:
            # k spaces are 2k half-spaces: one for each neighbour, the others as tokens of their own.
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
    """Join tokens into a text; for the tokens of `tokenize` this is the original text."""
    return _HALVES.sub(lambda run: _HALF * (len(run.group()) // 2), "".join(tokens))


Ids = npt.NDArray[np.int32]
"""Word numbers in order."""

SPECIALS = ("<pad>", "<unk>", "<init>", "<eos>")
"""Words that no text contains: the tokenizer would split each of them into three."""
PAD, UNKNOWN, INIT, EOS = range(4)

FORMAT = "decabench.vocabulary/1"


class Lexicon:
    """A growing list of words. The first `size` are the vocabulary (v of Eq. 11) and keep their numbers for ever."""

    def __init__(self, vocabulary: Sequence[str] = ()) -> None:
        """`vocabulary` comes without the special words; words met later are numbered after it."""
        self.words: list[str] = [*SPECIALS, *vocabulary]
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) < len(self.words):
            raise DataError("The vocabulary lists a word twice: list each word once.")
        self.size = len(self.words)

    def __len__(self) -> int:
        return len(self.words)

    def number(self, words: Iterable[str]) -> array[int]:
        """Number words, learning those that are new."""
        numbers, found = self._numbers, array("i")
        for word in words:
            number = numbers.get(word)
            if number is None:
                number = numbers[word] = len(self.words)
                self.words.append(word)
            found.append(number)
        return found

    def encode(self, text: str, limit: int | None = None) -> Ids:
        """Number <init>, the tokens of the lower-cased text (at most `limit` of them) and <eos>; learn new words."""
        found = array("i", [INIT])
        found += self.number(tokenize(text.lower())[:limit])
        found.append(EOS)
        return np.frombuffer(found, dtype=np.int32)

    def decode(self, numbers: Iterable[int]) -> str:
        """Turn numbers into text, up to the first <eos>; other special words are left out."""
        kept: list[str] = []
        for number in numbers:
            if number == EOS:
                break
            if number >= len(SPECIALS):
                kept.append(self.words[number])
        return detokenize(kept)

    def write(self, path: Path) -> None:
        """Write the vocabulary as JSON, without the words met since."""
        content = {"format": FORMAT, "words": self.words[len(SPECIALS) : self.size]}
        with atomic_file(path) as file:
            file.write(json.dumps(content, ensure_ascii=True, indent=0).encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """Read a vocabulary that `write` wrote. Raises DataError."""
        try:
            content: Any = json.loads(path.read_text(encoding="utf-8"))
            words = content["words"]
            if content["format"] != FORMAT:
                raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
            if not all(isinstance(word, str) for word in words):
                raise ValueError("its words are not all text")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} is not a vocabulary ({error}): use an unchanged copy of the checkpoint."
            ) from error
        return cls(words)
