"""Untrusted text, made safe for a message, a terminal or a file."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ERROR_LENGTH = 300
"""How many characters of an exception's text to show: a sentence or two, not a whole tensor or page."""


_SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
"""Soft hyphens, byte order marks and other characters without a width."""


def bare(text: str) -> str:
    """Return a text without the spaces and invisible characters around it."""
    return text.strip(_SPACES + _INVISIBLE)


def with_full_stop(text: str) -> str:
    """Return a sentence with a full stop, unless it already ends with punctuation."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def excerpt(text: str, limit: int = 200) -> str:
    """Return the beginning of a text on one line, without control characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 8 * limit]).split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def quoted(text: str, width: int = 60) -> str:
    """Put a text in quotation marks, shortened, with control characters escaped."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def short_list(names: Sequence[str]) -> str:
    """Join names with commas. More than six are shortened: `a, b, …, z (26 files)`."""
    if len(names) <= 6:
        return ", ".join(names)
    return f"{', '.join(names[:2])}, …, {names[-1]} ({len(names)} files)"


def fold(text: str, width: int, first: str = "", rest: str = "") -> str:
    """Break each line of a text between words, at `width` columns, but not below 40.

    `first` precedes each line, and `rest` its continuations. A word that is too long, such as a path, stays
    whole so that it can be copied.
    """
    import textwrap  # imported here because short commands do not need it

    return "\n".join(
        textwrap.fill(
            line,
            max(width, 40),
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    )


def printable(text: str) -> str:
    """Return a file name unchanged, or escaped if it contains characters that a terminal or UTF-8 cannot
    represent."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


_ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control a terminal (escapes, bells, carriage returns, tabs, directions) or that UTF-8 cannot
represent."""

_SHORT = {"\t": r"\t", "\r": r"\r"}


def terminal_safe(text: str) -> str:
    r"""Escape every character that controls a terminal, except newlines, as JSON does: `\t`, `\r`, `\u001b`.
    JSON keeps its meaning.
    """
    return _ACTS.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


def describe_error(error: BaseException) -> str:
    """Return `ValueError: its text` on one line, or the name alone if the error has no text."""
    text = excerpt(str(error), _ERROR_LENGTH)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def well_formed(text: str) -> str:
    """Replace unpaired surrogates, which JSON can hold and UTF-8 cannot, with U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
