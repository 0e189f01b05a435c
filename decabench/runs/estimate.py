"""What a run will take, before anything is asked: examples, tokens, and the time at the speed of the last run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from decabench.predictors import Answer
from decabench.runs.journal import Journal
from decabench.runs.plan import Part, Plan
from decabench.tasks import Question

if TYPE_CHECKING:
    from decabench.prompts import Prompting

__all__ = ["CHARACTERS_A_TOKEN", "Estimate", "estimate"]

CHARACTERS_A_TOKEN = 4
"""Of English text, about, where there is no tokenizer to ask."""

_SAMPLE = 500

Counter = Callable[["Prompting", Question], int]


@dataclass(frozen=True)
class Estimate:
    """What one task will take."""

    task: str
    """The task's name, with its variant."""
    examples: int
    """Chosen examples."""
    answered: int
    """Those that the journal has an answer to."""
    prompt_tokens: int | None
    """Tokens to be given for the others; None where there are no prompts."""
    completion_tokens: int | None
    """The most tokens to be made: the limit of each answer."""
    is_counted: bool
    """Whether the model's tokenizer counted; else four characters are taken for a token."""
    seconds: float | None
    """At the speed of the last run in this folder; None where there was none."""


def estimate(planned: Plan) -> list[Estimate]:
    """One for each task and wording. Tokens are those of the first 500 examples, taken on to all."""
    counter = _counter(planned)
    return [_of_part(planned, part, counter) for part in planned.parts]


def _counter(planned: Plan) -> Counter | None:
    counter: Callable[[], Counter | None] | None = getattr(planned.backend, "token_counter", None)
    return counter() if counter else None


def _of_part(planned: Plan, part: Part, counter: Counter | None) -> Estimate:
    answered = _answered(planned, part)
    count = examples = todo = tokens = 0
    for question in part.questions(planned.run):
        examples += 1
        if question.id in answered:
            continue
        todo += 1
        if part.prompting is not None and count < _SAMPLE:
            tokens += (counter or _estimated)(part.prompting, question)
            count += 1
    prompting = part.prompting
    limit = planned.run.options.max_new_tokens or (prompting.max_new_tokens if prompting else 0)
    return Estimate(
        task=part.name,
        examples=examples,
        answered=examples - todo,
        prompt_tokens=round(tokens / count * todo) if count else (None if prompting is None else 0),
        completion_tokens=None if prompting is None else todo * limit,
        is_counted=counter is not None,
        seconds=_seconds(planned, part, todo),
    )


def _answered(planned: Plan, part: Part) -> set[str]:
    from decabench.runs.write import FRESH

    journal = Journal(planned.run.output, part.key, FRESH if planned.run.fresh else "")
    if not journal.path.exists():
        return set()
    return {id_ for id_, outcome in journal.read().items() if isinstance(outcome, Answer)}


def _estimated(prompting: Prompting, question: Question) -> int:
    return len(prompting.text(question)) // CHARACTERS_A_TOKEN + 1


def _seconds(planned: Plan, part: Part, todo: int) -> float | None:
    """Of the same task in the last run that this folder has a record of."""
    from decabench.runs.write import RUN_FILE

    try:
        record = json.loads((planned.run.output / RUN_FILE).read_text(encoding="utf-8"))
        if record["fingerprint"] != planned.predictor["fingerprint"]:
            return None
        (row,) = (row for row in record["tasks"] if row["task"] == part.name)
        return float(row["seconds"]) / int(row["answered"]) * todo
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return None
