"""Make untrusted text safe for messages, terminals and files."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ERROR_LENGTH = 300
"""The maximum number of characters to show of an exception's message, which can contain a whole tensor or web page."""


_SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))
INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
"""Soft hyphens, byte order marks and other zero-width characters."""


def bare(text: str) -> str:
    """Strip spaces and invisible characters from both ends of a string."""
    return text.strip(_SPACES + INVISIBLE)


def with_full_stop(text: str) -> str:
    """Add a full stop to a sentence unless it already ends with punctuation."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def show_cost(cost: float) -> str:
    """Return a cost with two decimal places, or with four if it is below 1."""
    return f"{cost:,.4f}" if cost < 1 else f"{cost:,.2f}"


def excerpt(text: str, limit: int = 200) -> str:
    """Return the first `limit` characters of a string on one line, without control characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 8 * limit]).split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def quoted(text: str, width: int = 60) -> str:
    """Shorten a string to `width` characters, put it in quotation marks, and escape control characters."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def kind_of(value: object, nothing: str = "missing") -> str:
    """Describe a JSON value in words, such as `true`, `the number 3` or `a list`.

    `nothing` is the description of null.
    """
    if value is None:
        return nothing
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"the number {str(value)[:30]}"
    kinds: dict[type, str] = {str: "a string", list: "a list", dict: "an object"}
    return kinds.get(type(value), f"of type {type(value).__name__}")


def short_list(names: Sequence[str]) -> str:
    """Join file names with commas. More than six names are shortened to `a, b, …, z (26 files)`."""
    if len(names) <= 6:
        return ", ".join(names)
    return f"{', '.join(names[:2])}, …, {names[-1]} ({len(names)} files)"


def fold(text: str, width: int, first: str = "", rest: str = "") -> str:
    """Wrap each line of a string at `width` columns, or at 40 if `width` is smaller.

    Lines start with `first`, and their continuations with `rest`. Long words such as paths are
    not split, so that they can be copied.
    """
    import textwrap  # most commands don't need it

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
    """Return a string, such as a file name, in escaped form if it contains unprintable characters."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


_ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Matches surrogates, and characters that affect a terminal, such as escapes, bells, tabs and text direction marks."""

_SHORT = {"\t": r"\t", "\r": r"\r"}


def terminal_safe(text: str) -> str:
    r"""Escape terminal control characters except newlines, as in JSON: `\t`, `\r`, `\u001b`.

    If the text is JSON, its meaning doesn't change.
    """
    return _ACTS.sub(lambda found: _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}", text)


def describe_error(error: BaseException) -> str:
    """Describe an exception on one line as `ValueError: message`, or by its class name if it has no message."""
    text = excerpt(str(error), _ERROR_LENGTH)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def well_formed(text: str) -> str:
    """Replace unpaired surrogates, which JSON allows but UTF-8 can't encode, with U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
