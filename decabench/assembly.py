"""From a journal to a file of answers: extraction, the dataset's own labels, the order of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from decabench.predictor import Answer, Outcome, Question

if TYPE_CHECKING:
    from decabench.extraction import AnswerForm

__all__ = ["prediction", "predictions"]

RELABELLED = "relabelled"
"""The rule that says that a variant's label word was turned into the dataset's."""


def predictions(
    questions: Iterable[Question],
    outcomes: Mapping[str, Outcome],
    form: AnswerForm | None,
    relabel: Callable[[str], str] | None,
) -> Iterator[dict[str, Any]]:
    """One line for each example that has an answer, in the order of the questions. A failure has no line."""
    for question in questions:
        outcome = outcomes.get(question.id)
        if isinstance(outcome, Answer):
            yield prediction(question, outcome, form, relabel)


def prediction(
    question: Question, answer: Answer, form: AnswerForm | None, relabel: Callable[[str], str] | None
) -> dict[str, Any]:
    """What one line of `predictions/<task>.<split>.jsonl` holds.

    `form` is how the answer stands in the text; None takes the text as it is. `relabel` turns a variant's label
    words into the dataset's.
    """
    text, rules = answer.text, []
    if form is not None:
        from decabench.extraction import extract

        extracted = extract(answer.text, form, question.question, answer.finish)
        text, rules = extracted.answer, [extracted.rule]
    if relabel is not None and (renamed := relabel(text)) != text:
        text = renamed
        rules.append(RELABELLED)
    line: dict[str, Any] = {"id": question.id, "answer": text}
    if text != answer.text:
        line["raw"] = answer.text
    if rules:
        line["rule"] = "+".join(rules)
    if answer.finish != "stop":
        line["finish"] = answer.finish
    if answer.context_kept is not None:
        line["context_kept"] = list(answer.context_kept)
    return line
