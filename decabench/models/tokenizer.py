"""Reversible tokenization: text is cut into words, numbers and signs, and joins back to the same characters.

After RevTok (Bradbury 2018). A real space is two half-spaces, one on each token beside it. Words and numbers carry a
half-space on both sides even where no space was, so that ` cat ` is one token in `the cat,` and in `"cat`; signs carry
one only where a space was. Half-spaces are written as spaces: no character is reserved, so no text can forge one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["detokenize", "tokenize"]

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
