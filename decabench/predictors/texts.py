"""Text that comes from a server or a program, made fit for a sentence and for a file."""

from __future__ import annotations

__all__ = ["excerpt", "well_formed"]


def excerpt(text: str, limit: int = 200) -> str:
    """The beginning of a text on one line, with nothing that a terminal would act on."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text[: 8 * limit]).split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def well_formed(text: str) -> str:
    """The text with U+FFFD for half surrogate pairs, which JSON can say and UTF-8 cannot."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
