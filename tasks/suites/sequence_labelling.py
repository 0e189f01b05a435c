"""Taggers: parts of speech, chunks and named entities."""

from __future__ import annotations

from decabench.tasks.suite import Suite

__all__ = ["TAGGING"]

TAGGING = Suite(
    name="tagging",
    title="Sequence tagging",
    tasks=("ud.pos", "conll2000", "conll2003", "conll2003.entities", "ontonotes", "ontonotes.entities"),
    description=(
        "One tag for each word: parts of speech, chunks and named entities; and named entities as questions by type. "
        "The texts of CoNLL-2003 and OntoNotes are not published: you need your own copies."
    ),
    notes=(
        "Chen et al. 2018 (Meta Multi-Task Learning for Sequence Modeling, Table 5) report CoNLL-2000, CoNLL-2003 and "
        "the Wall Street Journal; their numbers could not be compared with the paper and are not shown.",
    ),
)
