"""A reversible tokenizer, and a lexicon that assigns ids to words."""

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
from decabench.files import write_file
from decabench.text import excerpt
from decabench.untrusted import parse_json, read_text

_HALF = " "
_PRIORITY = {"L": 7, "N": 5, "S": 3, "P": 1, "Z": -1, "C": -3}
"""The priority of each kind of token, by the letter of its Unicode class.

If there is no space between two tokens, the token with the higher priority gets a half-space. In this case, invisible
characters (line breaks, control characters) never get one.
"""

_RUN = re.compile(r"L+|N+|S+|P|Z|C| +")
_HALVES = re.compile(" +")


class _Classes(dict[int, str]):
    """A cache that maps code points to the letter of their Unicode class."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        letter = _HALF if character == _HALF else unicodedata.category(character)[0].replace("M", "L")
        self[code] = letter
        return letter


_CLASSES = _Classes()


def split_words(text: str) -> list[str]:
    """Split a text into tokens without spaces: `the cat,` becomes ["the", "cat", ","]."""
    return [word for token in tokenize(text) if (word := token.strip())]


def tokenize(text: str) -> list[str]:
    """Split a text into tokens with half-spaces: `the cat,` becomes [" the ", " cat ", ","].

    As in RevTok, every token contains half of each space next to it, so `detokenize` can restore the text exactly.
    """
    tokens: list[str] = []
    priority = 0  # the priority of the previous token
    after_space = False
    for run in _RUN.finditer(text.translate(_CLASSES)):
        letter, (start, end) = run.group()[0], run.span()
        if letter == _HALF:
            # k spaces are 2k half-spaces. The tokens on both sides get one each; the rest become separate tokens.
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
    """Join tokens into text. For tokens from `tokenize`, the result is the original text."""
    return _HALVES.sub(lambda run: _HALF * (len(run.group()) // 2), "".join(tokens))


Ids = npt.NDArray[np.int32]
"""An array of word ids, in the order of the text."""

SPECIALS = ("<pad>", "<unk>", "<init>", "<eos>")
"""Words that can't occur in a text, because the tokenizer would split each of them into three tokens."""
PAD, UNKNOWN, INIT, EOS = range(4)

FORMAT = "decabench.vocabulary/1"


_LIMIT, _BRACKETS = 1 << 25, 10_000
"""The maximum size of a vocabulary file in bytes, which is enough for millions of words, and the maximum number of
brackets in it."""


class Lexicon:
    """A growing list of words and their ids, which begins with the model's vocabulary.

    The first `size` words are the vocabulary (v in Eq. 11). The id of a word is its index in the list
    and never changes.
    """

    def __init__(self, vocabulary: Sequence[str] = ()) -> None:
        """Start with a vocabulary, given without the special words. Raises DataError if a word occurs twice."""
        self.words: list[str] = [*SPECIALS, *vocabulary]
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) < len(self.words):
            twice = next(word for number, word in enumerate(self.words) if self._numbers[word] != number)
            raise DataError(
                f"The vocabulary contains {excerpt(twice)!r} more than once. Remove the duplicates."
            )
        self.size = len(self.words)
        self.counts: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """The number of times each word occurs in the training data; empty if unknown, as in a checkpoint."""

    def __len__(self) -> int:
        return len(self.words)

    def number(self, words: Iterable[str]) -> array[int]:
        """Return the id of each word, adding new words to the lexicon."""
        numbers, found = self._numbers, array("i")
        for word in words:
            number = numbers.get(word)
            if number is None:
                number = numbers[word] = len(self.words)
                self.words.append(word)
            found.append(number)
        return found

    def encode(self, text: str, limit: int | None = None) -> Ids:
        """Return the ids of <init>, the lower-cased text's tokens (at most `limit`) and <eos>.

        New words are added to the lexicon.
        """
        found = array("i", [INIT])
        found += self.number(tokenize(text.lower())[:limit])
        found.append(EOS)
        return np.frombuffer(found, dtype=np.int32)

    def decode(self, numbers: Iterable[int]) -> str:
        """Decode word ids to text, up to the first <eos> and without special words."""
        kept: list[str] = []
        for number in numbers:
            if number == EOS:
                break
            if number >= len(SPECIALS):
                kept.append(self.words[number])
        return detokenize(kept)

    def write(self, path: Path) -> None:
        """Write the vocabulary as JSON, without words added later."""
        content = {"format": FORMAT, "words": self.words[len(SPECIALS) : self.size]}
        write_file(path, json.dumps(content, ensure_ascii=True, indent=0) + "\n")

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """Read a vocabulary written by `write`. Raises DataError if the file is missing or damaged."""
        try:
            text = read_text(path, _LIMIT)
            if text.count("[") + text.count("{") > _BRACKETS:  # empty lists can take gigabytes of memory
                raise ValueError(
                    f"it contains more than {_BRACKETS:,} brackets, so it is not a list of words"
                )
            content: Any = parse_json(text, surrogates=True)
            words = content["words"]
            if content["format"] != FORMAT:
                raise ValueError(f"'format' is {str(content['format'])[:60]!r}, not {FORMAT!r}")
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise ValueError("not all words are strings")
            return cls(words)
        except (OSError, ValueError, KeyError, TypeError, DataError) as error:
            reason = str(error).rstrip(".")
            raise DataError(
                f"{path} is not a vocabulary ({reason}). Use an unmodified copy of the checkpoint."
            ) from error
