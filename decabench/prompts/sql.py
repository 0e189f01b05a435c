"""SQL: the SELECT statement in a text."""

from __future__ import annotations

import re

__all__ = ["find_sql"]

_BLOCK = re.compile(r"```(?:\w*[ \t]*\n|sql\b[ \t]*)?(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_WITH = re.compile(r"\bwith\s+(?:recursive\s+)?\w+\s*(?:\([^()]*\)\s*)?as\s*\(", re.IGNORECASE)
"""A named subquery: the SELECT inside it is not the statement, and the SELECT after it is only a part."""
_HAS_TABLE = re.compile(r"\bfrom\s+\S", re.IGNORECASE)
_SELECT = re.compile(r"\bselect\b", re.IGNORECASE)
_SELECT_LINE = re.compile(r"^[ \t>*`\"'-]*\bselect\b", re.IGNORECASE | re.MULTILINE)
_SELECT_WITHIN = re.compile(r"(?<=[:`\"'*\uff1a])\s*select\b(?=[^\n]*\bfrom\b)", re.IGNORECASE)
_SELECT_CAPITALS = re.compile(r"\bSELECT\b")
_GOES_ON = re.compile(
    r"(?:from|where|and|or|group|order|having|limit|(?:inner |left |right |outer |cross )*join|on|union)\b|[),]",
    re.IGNORECASE,
)
_IS_OPEN = re.compile(r"(?:\b(?:select|distinct|from|where|and|or|by|on|having)|[=<>,(])\s*$", re.IGNORECASE)


def find_sql(text: str) -> str | None:
    """Return a SELECT statement on one line, from the last code block that has one, else from the text itself.

    In the middle of a sentence, `select` is a statement only in capitals, or after a colon or a quotation mark.
    """
    blocks = [block for block in _BLOCK.findall(text) if _SELECT.search(block)]
    if not blocks:
        return _find_statement(text, in_block=False)
    uncommented = [line for line in blocks[-1].splitlines() if not line.lstrip().startswith(("--", "#"))]
    return _find_statement("\n".join(uncommented), in_block=True)


def _find_statement(text: str, in_block: bool) -> str | None:
    start = _SELECT_LINE.search(text) or _SELECT_WITHIN.search(text) or _SELECT_CAPITALS.search(text)
    if start is None:
        return None
    begin = start.end() - len("select")
    if _WITH.search(text[:begin]):
        return None
    lines = text[begin:].splitlines()
    kept = [lines[0].rstrip()]
    for line in lines[1:]:
        ended = kept[-1].endswith(";") or not line.strip()
        if ended or not (in_block or _GOES_ON.match(line.strip()) or _IS_OPEN.search(kept[-1])):
            break
        kept.append(line.strip())
    statement = " ".join(kept)
    if statement.endswith(";"):
        statement = statement.removesuffix(";").rstrip()
    before = text[:begin].rpartition("\n")[2].strip()
    if before.endswith("("):
        return _within_parentheses(statement)
    if before.endswith("`") and not before.endswith("``"):
        return _within_ticks(statement)
    for mark in ("**", "`", '"', "'"):
        closed = statement.rstrip(".,:!") if before.endswith(mark) else ""
        if closed.endswith(mark):  # a pair of marks around the statement
            return closed.removesuffix(mark).rstrip().removesuffix(";").rstrip()
    return statement


_TICKS = 40
"""The maximum number of backticks to try."""


def _within_ticks(statement: str) -> str:
    """Return the text before the backtick that closes a statement, which may itself contain pairs: `SELECT `a`
    FROM t`."""
    parts = statement.split("`", _TICKS)
    kept = next(
        (part for count in range(1, len(parts), 2) if _HAS_TABLE.search(part := "`".join(parts[:count]))),
        parts[0],
    )
    return kept.rstrip().removesuffix(";").rstrip()


def _within_parentheses(statement: str) -> str | None:
    """Return the text before the parenthesis that closes a statement; None if the statement continues after it."""
    depth = 1
    for place, mark in enumerate(statement):
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if not depth:
            return None if statement[place + 1 :].strip(" .;`*") else statement[:place].rstrip(" ;")
    return statement
