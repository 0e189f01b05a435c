"""Counts of answers whose form decides their score: unparseable, other labels, missing items, cut contexts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

from decabench.metrics import Item, count_faults
from decabench.prompts import (
    AnswerForms,
    GivenAnswers,
    LabelForms,
    describe_format,
    forms_of,
    is_other_label,
    possible_labels,
    takes_for,
)
from decabench.scoring.examples import label_questions
from decabench.scoring.ledger import ScoredTask
from decabench.scoring.metric_scores import find_metric, ids_of
from decabench.submission import AnswerLine, read_prompts
from decabench.tasks import Label, Store, Tags, Task, Tree

__all__ = [
    "AnswerCounts",
    "context_ceiling",
    "count_answers",
    "count_other_forms",
    "describe_forms",
    "is_reachable",
]


@dataclass(frozen=True)
class AnswerCounts:
    """How many answers of a file came to be in ways that a reader of the score must know."""

    by_kind: Mapping[str, int]
    """How many were `unparseable` (and of these `reasoning_only`, `cut_in_reasoning` or a `tool_call`), `truncated` or
    `refused`, had tokens of a chat `template` or their `context_cut`; 0 is left out."""
    context_kept: Mapping[str, tuple[int, int]]
    """By id, which characters of the context the model was shown, if not all."""


_RULES = {
    "unparseable": "unparseable",
    "reasoning_only": "reasoning-only",
    "cut_in_reasoning": "cut-in-reasoning",
    "tool_call": "tool-call",
    "template": "template",
}
"""Extraction rules that are counted, by the name of the count."""


def count_answers(lines: Iterable[AnswerLine]) -> AnswerCounts:
    """Count the unparseable, truncated and refused answers, those with other rules, and those whose context was cut."""
    counts = dict.fromkeys((*_RULES, "truncated", "refused", "context_cut"), 0)
    kept: dict[str, tuple[int, int]] = {}
    for line in lines:
        rules = line.rule.split("+") if line.rule else ()
        for kind, rule in _RULES.items():
            counts[kind] += rule in rules
        counts["truncated"] += line.finish == "length"
        counts["refused"] += line.finish == "refused" or "refused" in rules
        if line.context_kept is not None:
            counts["context_cut"] += 1
            kept[str(line.id)] = line.context_kept
    return AnswerCounts({kind: count for kind, count in counts.items() if count}, kept)


def count_other_forms(
    task: Task, ids: Sequence[str], texts: Sequence[str], references: Sequence[Item], store: Store, split: str
) -> dict[str, int]:
    """Count answers that are no label, or of tags and trees the missing, extra and unknown items and heads outside.

    Known tags are those of the split. For hidden labels, only their number counts, which is the number of words: no tag
    is unknown.
    """
    output = task.output
    counts: dict[str, int] = {}
    if isinstance(output, Label):
        questions = label_questions(task, store, split)
        counts["other_label"] = sum(
            is_other_label(text, output, questions.get(id_, "")) for id_, text in zip(ids, texts, strict=True)
        )
    if isinstance(output, Tags | Tree):
        golds, known = {item.id: item.answers[0] for item in references}, texts
        if store.hides(task, split):
            golds = {id_: " ".join("?" for _ in gold.split()) for id_, gold in golds.items()}
        else:
            known = list(golds.values())
        tags = {tag for text in known for tag in text.lower().split()} if isinstance(output, Tags) else None
        kinds = ("missing_items", "extra_items", "unknown_items", "outside_heads")
        faults = [astuple(count_faults(text, golds[id_], tags)) for id_, text in zip(ids, texts, strict=True)]
        counts |= dict(zip(kinds, map(sum, zip(*faults, strict=True)), strict=True))
    return {kind: count for kind, count in counts.items() if count}


def describe_forms(task: Task, found: ScoredTask, store: Store, split: str) -> Iterator[str]:
    """Yield sentences about answers in a form that scores as wrong: how many, examples, and advice."""
    if not found.predictions:
        return
    forms = _count_forms(task, found, store, split)
    if forms is not None and (sentence := forms.describe_forms()):
        yield sentence
        if forms.are_most:
            return
    read = partial(read_prompts, store, task.name, split)
    ids, references = ids_of(found.references), None if found.hidden else found.references
    metric, texts = find_metric(task.metric), found.predictions
    given = GivenAnswers(task.output, metric, ids, texts, references, read, lambda: task.answer_form)
    if sentence := describe_format(given):
        yield sentence


def _count_forms(task: Task, found: ScoredTask, store: Store, split: str) -> LabelForms | AnswerForms | None:
    """Count the answers that are labels, numbers, lists or states in another form; None for free text."""
    if not isinstance(task.output, Label):
        others = forms_of(task.output, find_metric(task.metric))
        if others is not None:
            for item, text in zip(found.references, found.predictions, strict=True):
                others.add(item.id, text, "" if found.hidden else item.answers[0])
        return others
    forms = LabelForms(takes_for(find_metric(task.metric)))
    questions = label_questions(task, store, split)
    for id_, text in zip(ids_of(found.references), found.predictions, strict=True):
        question = questions.get(id_, "")
        forms.add(id_, text, possible_labels(task.output, question), question)
    return forms


# Contexts that were cut

_ALWAYS = "unanswerable"
"""QA-ZRE's answer if the context has none; no cut can remove it."""


def context_ceiling(
    kept: Mapping[str, tuple[int, int]], references: Sequence[Item], contexts: Iterable[Mapping[str, Any]]
) -> float:
    """Return the share of examples whose gold answer was not cut off, 0–100.

    Args:
        kept: By id, which characters of the context the model was shown, if not all.
        references: The examples that were scored.
        contexts: Rows with the `id` and `context` of every example of the split.
    """
    golds = {item.id: item.answers for item in references if item.id in kept}
    lost = sum(
        not is_reachable(golds[row["id"]], row["context"], kept[row["id"]])
        for row in contexts
        if row["id"] in golds
    )
    return 100 * (1 - lost / len(references))


def is_reachable(golds: Sequence[str], context: str, kept: tuple[int, int]) -> bool:
    """Return whether a gold answer found in the whole context is still in the part that was kept.

    Also true if the whole context contains none of them verbatim, because then the cut removed none.
    """
    shown = context[slice(*kept)]
    before = [gold for gold in golds if gold == _ALWAYS or _holds(context, gold)]
    return not before or any(gold == _ALWAYS or _holds(shown, gold) for gold in before)


def _holds(text: str, gold: str) -> bool:
    """Return whether the text contains an answer, or each of several joined with `, `, ignoring case and spacing."""
    return _holds_words(text, gold) or all(_holds_words(text, part) for part in gold.split(", "))


def _holds_words(text: str, words: str) -> bool:
    pattern = r"\s+".join(re.escape(word) for word in words.split())
    return re.search(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) is not None
