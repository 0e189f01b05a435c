"""Text shown."""

from __future__ import annotations

__all__ = ["describe_error", "excerpt", "printable", "quoted", "well_formed"]

# ---- texts

_ERROR_LENGTH = 300
"""Characters of an exception's text: a sentence or two; a whole tensor or page belongs into no line."""


def excerpt(text: str, limit: int = 200) -> str:
    """The beginning of a text on one line, with nothing that a terminal would act on."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 8 * limit]).split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def describe_error(error: BaseException) -> str:
    """`ValueError: what it says`, on one line; the name alone where it says nothing."""
    said = excerpt(str(error), _ERROR_LENGTH)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def well_formed(text: str) -> str:
    """The text with U+FFFD for half surrogate pairs, which JSON can say and UTF-8 cannot."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# ---- showing


def quoted(text: str, width: int = 60) -> str:
    """A stranger's text as a message may quote it: in quotes, short, without control characters."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def printable(text: str) -> str:
    """A file name as a report may print it: as it is, or escaped where a terminal or UTF-8 would mind."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
