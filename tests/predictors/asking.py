"""Shared by the tests of predictors: questions, prompting and a setting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from decabench.predictors.protocol import Backend, ModelOptions, Outcome, Setting
from decabench.prompts.messages import Prompting
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.wording import PromptTemplate

PROMPTING = Prompting(
    "sst",
    PromptTemplate(input="{context}\n{question}", max_new_tokens=16, stop=("\n\n",)),
    "test",
    system="Be brief.",
)


def setting(prompting: Prompting | None = PROMPTING, task: str = "sst") -> Setting:
    return Setting(
        task=TASKS[task],
        split="validation",
        training_answers=lambda: iter(()),
        prompting=prompting,
    )


def questions(count: int, context: str = "Some words") -> list[Question]:
    return [Question(f"q{number}", f"Question {number}?", context) for number in range(count)]


def outcomes(backend: Backend, asked: Any, of: Setting | None = None) -> dict[str, Outcome]:
    """Return the outcomes by id. Each question must have exactly one."""
    asked, seed = list(asked), getattr(backend, "options", ModelOptions()).seed
    with backend.open() as make:
        found = list(make(of or replace(setting(), seed=seed)).stream(iter(asked)))
    assert sorted(id for id, _ in found) == sorted(question.id for question in asked)
    return dict(found)
