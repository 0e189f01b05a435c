"""A query in what a model says."""

from __future__ import annotations

import re

__all__ = ["find_sql"]

_BLOCK = re.compile(r"```(?:\w+)?[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_SELECT = re.compile(r"\bselect\b", re.IGNORECASE)
_SELECT_LINE = re.compile(r"^[ \t>*`\"'-]*\bselect\b", re.IGNORECASE | re.MULTILINE)
_GOES_ON = re.compile(
    r"(?:from|where|and|or|group|order|having|limit|(?:inner |left |right |outer |cross )*join|on|union)\b|[),]",
    re.IGNORECASE,
)
_IS_OPEN = re.compile(r"(?:\b(?:select|distinct|from|where|and|or|by|on|having)|[=<>,(])\s*$", re.IGNORECASE)
_WRAPS = ("**", "`", '"', "'")


def find_sql(text: str) -> str | None:
    """The statement on one line, from SELECT to its end; of code blocks, the last that has one. None where none is."""
    blocks = [block for block in _BLOCK.findall(text) if _SELECT.search(block)]
    if blocks:
        return _statement(_uncommented(blocks[-1]), in_block=True)
    return _statement(text, in_block=False)


def _uncommented(block: str) -> str:
    return "\n".join(line for line in block.splitlines() if not line.lstrip().startswith(("--", "#")))


def _statement(text: str, in_block: bool) -> str | None:
    start = _SELECT_LINE.search(text) or _SELECT.search(text)
    if start is None:
        return None
    begin = start.end() - len("select")
    before = text[:begin].rpartition("\n")[2].strip()
    lines = text[begin:].splitlines()
    kept = [lines[0].rstrip()]
    for line in lines[1:]:
        ended = kept[-1].endswith(";") or not line.strip()
        if ended or not (in_block or _GOES_ON.match(line.strip()) or _IS_OPEN.search(kept[-1])):
            break
        kept.append(line.strip())
    statement = " ".join(kept)
    statement = statement.removesuffix(";").rstrip() if statement.endswith(";") else statement
    return _without_end_of(before, statement)


def _without_end_of(before: str, statement: str) -> str:
    """Without the second of a pair of marks whose first stands before the statement."""
    for mark in _WRAPS:
        if before.endswith(mark) and statement.endswith(mark):
            return statement.removesuffix(mark).rstrip().removesuffix(";").rstrip()
    return statement
