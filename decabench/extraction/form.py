"""What form an answer has: the value that a template carries and that extraction follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["EXTRACTION_VERSION", "KINDS", "AnswerForm", "Extracted", "Kind"]

EXTRACTION_VERSION = 1
"""Raised whenever the same raw text would give another answer."""

Kind = Literal["raw", "span", "line", "text", "label", "sql", "state"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""raw: as it is. span: words on one line. line: a sentence on one line. text: all of it. label: one of a few.
sql: a SELECT. state: `slot: value, slot: value; request, request`, or None."""


@dataclass(frozen=True)
class AnswerForm:
    """How the answer to a task looks, so that it can be found in what a model says."""

    kind: Kind = "span"
    """One of `KINDS`."""
    labels: tuple[str, ...] = ()
    """label: the labels. state: the slots. span: answers that stand for a whole line, as `unanswerable` does."""
    labels_from_question: bool = False
    """label: the question names its own (`Bob or Charlie?`); `labels` serve where it does not."""
    markers: tuple[str, ...] = ()
    """What may introduce an answer, beside `Answer:` and its kin: `Summary:`."""
    unquote: bool = False
    """span, line: quotation marks around all of it are taken away; not where an answer may be a quotation."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """An answer, and the rules that made it."""

    answer: str
    """The answer; the best effort where the form was not found."""
    rule: str
    """Rules in the order applied, joined with `+`; the last may be `empty`, `unparseable` or `refused`."""
