"""Estimate the examples, tokens and time of a run before asking any questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from decabench.predictors import Answer
from decabench.prompts import Prompting
from decabench.runs.journal import Journal
from decabench.runs.plan import Plan, PlannedTask
from decabench.runs.write import RUN_FILE
from decabench.tasks import Question
from decabench.untrusted import read_json

CHARACTERS_A_TOKEN = 4
"""The approximate number of characters per token in English text, for models without a tokenizer."""

_SAMPLE = 500
"""The maximum number of examples per task whose tokens are counted."""


@dataclass(frozen=True)
class Estimate:
    """The estimated tokens, time and cost of a task in one wording."""

    task: str
    """The task name and its variant."""
    examples: int
    """Number of selected examples."""
    answered: int
    """Number of examples already answered in the journal."""
    prompt_tokens: int | None
    """Number of tokens in the remaining prompts; None for predictors without prompts."""
    completion_tokens: int | None
    """The maximum number of generated tokens in the remaining answers; None for predictors without prompts."""
    is_counted: bool
    """Whether tokens were counted with the tokenizer rather than estimated at four characters per token."""
    seconds: float | None
    """Estimated time in seconds, from the speed of the predictor's last run in this folder; None without such a run."""
    cost: float | None = None
    """The maximum cost, if prices were given."""


def estimate_run(plan: Plan) -> list[Estimate]:
    """Estimate each task and wording. Token counts are extrapolated from the first 500 unanswered examples."""
    token_counter = getattr(plan.backend, "token_counter", None)
    counter = token_counter() if token_counter else None
    return [_estimate_task(plan, task, counter) for task in plan.tasks]


def _estimate_task(
    plan: Plan, task: PlannedTask, counter: Callable[[Prompting, Question], int] | None
) -> Estimate:
    outcomes = {} if plan.run.fresh else Journal(plan.run.output, task.key).read()
    prompting = task.prompting
    counted = examples = todo = tokens = 0
    for question in task.questions():
        examples += 1
        if isinstance(outcomes.get(question.id), Answer):
            continue
        todo += 1
        if prompting is not None and counted < _SAMPLE:
            if counter is None:
                tokens += len(prompting.text(question)) // CHARACTERS_A_TOKEN + 1
            else:
                tokens += counter(prompting, question)
            counted += 1
    prompt_tokens = completion_tokens = None
    if prompting is not None:
        prompt_tokens = round(tokens / counted * todo) if counted else 0
        completion_tokens = todo * plan.run.options.new_tokens(prompting.max_new_tokens)
    return Estimate(
        task=task.name,
        examples=examples,
        answered=examples - todo,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        is_counted=counter is not None,
        seconds=_seconds(plan, task, todo),
        cost=plan.run.tariff.cost(prompt_tokens, completion_tokens),
    )


def _seconds(plan: Plan, task: PlannedTask, todo: int) -> float | None:
    try:
        record = read_json(plan.run.output / RUN_FILE)
        if record["fingerprint"] != plan.predictor["fingerprint"]:
            return None
        (row,) = (row for row in record["tasks"] if row["task"] == task.name)
        return float(row["seconds"]) / int(row["answered"]) * todo
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError):
        return None
