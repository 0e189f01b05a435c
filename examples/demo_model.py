"""The model in demo-model/, or its recorded answers if torch is not installed."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from decabench.predictors import Answer, ModelOptions, Setting, make_backend
from decabench.tasks import Question

FOLDER = Path(__file__).with_name("demo-model")


def can_run() -> bool:
    """Whether the model can run here."""
    try:
        import_module("torch")
        import_module("safetensors")
    except ImportError:
        return False
    return (FOLDER / "model.safetensors").exists()  # source archives leave it out


class Recorded:
    """Gives the model's recorded answers to the bundled sample."""

    def __init__(self, setting: Setting) -> None:
        path = FOLDER / "answers" / "predictions" / f"{setting.task.name}.{setting.split}.jsonl"
        rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        self.answers = {row["id"]: row["answer"] for row in rows}

    def predict(self, questions: Sequence[Question]) -> list[str]:
        return [self.answers[question.id] for question in questions]


class DemoModel:
    """A predictor: `decabench predict --predictor examples.demo_model:DemoModel`."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @classmethod
    def describe(cls) -> dict[str, Any]:
        """Describe the model, or say that the answers are recorded."""
        if can_run():
            return dict(make_backend(f"trained:{FOLDER}", ModelOptions()).describe())
        print("torch or the weights are missing: using the model's recorded answers.", file=sys.stderr)
        return {"answers": "recorded"}

    def stream(self, questions: Iterator[Question]) -> Iterator[tuple[str, Answer]]:
        """Answer the questions of one task."""
        if not can_run():
            asked = list(questions)
            yield from zip(
                (each.id for each in asked), map(Answer, Recorded(self.setting).predict(asked)), strict=True
            )
            return
        with ExitStack() as stack:
            make = stack.enter_context(make_backend(f"trained:{FOLDER}", ModelOptions()).open())
            yield from make(self.setting).stream(questions)
