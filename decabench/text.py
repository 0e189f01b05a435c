"""Text of unknown origin, made fit for a message, a terminal or a file."""

from __future__ import annotations

__all__ = ["describe_error", "excerpt", "printable", "quoted", "well_formed"]

_ERROR_LENGTH = 300
"""Characters of an exception's text to show: a sentence or two, not a whole tensor or page."""


def excerpt(text: str, limit: int = 200) -> str:
    """Return the beginning of a text on one line, without control characters."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 8 * limit]).split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def quoted(text: str, width: int = 60) -> str:
    """Put a text in quotes, shortened, with control characters escaped."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def printable(text: str) -> str:
    """Return a file name unchanged, or escaped if it contains what a terminal or UTF-8 cannot represent."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def describe_error(error: BaseException) -> str:
    """Return `ValueError: its text` on one line, or the name alone if the error has no text."""
    text = excerpt(str(error), _ERROR_LENGTH)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def well_formed(text: str) -> str:
    """Replace unpaired surrogates, which JSON can hold and UTF-8 cannot, with U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
