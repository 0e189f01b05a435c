"""Convert exported tasks to Inspect tasks. Requires the inspect-ai package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelName,
    get_model,
)
from inspect_ai.scorer import Score, metric, scorer
from inspect_ai.solver import generate

from decabench.exchange.foreign_rows import FINISHES
from decabench.exchange.task_exports import ExportedTask

_TURNS = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


def make_inspect_task(path: str | Path) -> Any:
    """Return an exported task as an `inspect_ai.Task`.

    The task has one sample per example, one epoch and greedy decoding.
    """
    exported = ExportedTask.read(path)
    samples = [
        Sample(
            id=id_,
            input=[_TURNS[role](content=content) for role, content in row["messages"]],
            target=list(row["answers"]),
        )
        for id_, row in exported.rows.items()
    ]
    return Task(
        dataset=MemoryDataset(samples, name=f"{exported.name}.{exported.split}"),
        solver=generate(),
        scorer=decabench_scorer(str(exported.path)),
        config=GenerateConfig(
            temperature=None if _always_samples() else 0.0,
            top_k=1 if _always_samples() else None,
            max_tokens=exported.max_tokens,
            stop_seqs=list(exported.chat_stop) or None,
        ),
        epochs=1,
    )


def _always_samples() -> bool:
    """Whether the model's provider always samples, as hf does, and therefore rejects a temperature of 0."""
    try:
        return bool(ModelName(get_model()).api == "hf")
    except ValueError:  # no model yet
        return False


def _make_metric() -> Any:
    def compute(scores: list[Any]) -> Any:
        if not scores:
            return {}
        exported = ExportedTask.read(scores[0].score.metadata["file"])
        epochs: dict[int, list[Any]] = {}
        for each in scores:
            epochs.setdefault(each.score.metadata.get("epoch", 1), []).append(each)
        found = [
            exported.scores(
                [(str(each.sample_id), each.score.answer or "") for each in epoch],
                {str(each.sample_id) for each in epoch if each.score.metadata.get("refused")},
            )
            for epoch in epochs.values()
        ]
        return {name: sum(each[name] for each in found) / len(found) for name in found[0]}

    return compute


def _make_scorer(path: str) -> Any:
    exported = ExportedTask.read(path)

    async def score(state: Any, target: Any) -> Any:
        finish = FINISHES.get(state.output.stop_reason, "stop")
        answer = exported.answer(str(state.sample_id), state.output.completion, finish)
        is_refused = finish == "refused"
        value = exported.example_score(str(state.sample_id), answer, is_refused)
        return Score(
            value=value, answer=answer, metadata={"file": path, "refused": is_refused, "epoch": state.epoch}
        )

    return score


decabench_metric = metric(name="decabench", scores="unreduced")(_make_metric)
"""An Inspect metric that scores the answers of each epoch together and returns the mean over epochs."""
decabench_scorer = scorer(metrics=[decabench_metric()], name="decabench")(_make_scorer)
