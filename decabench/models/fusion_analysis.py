"""What a recurrent classifier predicts after each word of a text, and its fusion gate (Figure 3 of Liu et al. 2016)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch

from decabench.errors import DecabenchError, install_hint
from decabench.files import atomic_file
from decabench.models.checkpoint import Analysis, TrainedModel
from decabench.models.devices import autocast
from decabench.models.meta_lstm import MetaLSTM, TaskNetwork
from decabench.models.shared_memory import MemoryNetwork, TaskLayers
from decabench.tasks import Example, Label, Task

__all__ = ["FUSION", "FusionTrace", "trace_fusion"]


@dataclass(frozen=True)
class FusionTrace:
    """What a model makes of a text, word by word."""

    words: Sequence[str]
    """T words, as the model reads them"""
    labels: Sequence[str]
    """The task's labels"""
    probabilities: Sequence[Sequence[float]]
    """(T, labels): what the output layer makes of each word's state. A bidirectional model's state is of both
    directions: the words until this one, and those from it on"""
    answer: str
    """The model's answer"""
    gates: Sequence[Sequence[float]]
    """(T, width): the fusion gate, 0-1, forward states first; empty for a model without an external memory"""


@torch.inference_mode()
def trace_fusion(model: TrainedModel, task: Task, example: Example) -> FusionTrace:
    """Record what a model predicts after each word of one example. Raises DecabenchError for other models and tasks."""
    network, output = model.network, model.outputs.get(task.name)
    if not isinstance(network, MetaLSTM | MemoryNetwork):
        raise DecabenchError(
            f"The model {model.config.name} does not read word by word: choose a recurrent one, such as arc-i or lstm."
        )
    model.check_task(task)
    if not isinstance(output, Label):
        raise DecabenchError(
            f"{task.name} has no labels, but {type(output).__name__}: choose a task with labels."
        )
    item = model.encode(example, task)
    if not len(item["text"]):
        raise DecabenchError(f"{example.id} of {task.name} has no words: choose another with --id.")
    batch: Any = model.make_batch(task, [item])
    network.eval()
    with autocast(model.device, model.precision):
        states, gates = network.trace(batch)
        layers = cast(TaskNetwork | TaskLayers, network.heads[task.name])
        scores = cast(Any, layers.output).score(states[0])
        (reply,) = network.answers(batch)
    return FusionTrace(
        words=[model.words.lexicon.words[number].strip() for number in item["text"]],
        labels=output.names,
        probabilities=scores.float().softmax(1).tolist(),
        answer=reply.text,
        gates=[] if gates is None else gates[0].float().tolist(),
    )


def _analyze_fusion(
    model: TrainedModel, tasks: Mapping[str, tuple[Task, Sequence[Example]]], output: Path
) -> Iterator[str]:
    """Write `fusion.json` and `fusion.png`."""
    ((task, (example,)),) = tasks.values()
    found = trace_fusion(model, task, example)
    yield f"{task.name} {example.id}: {' '.join(found.words)}"
    yield f"answer: {found.answer}; gold: {' or '.join(example.answers)}"
    figure = _plot(found, f"{model.config.name}, {task.name} {example.id}: {found.answer}")
    content = {
        "format": "decabench.fusion/1",
        "task": task.name,
        "id": example.id,
        "model": model.config.name,
        **asdict(found),
    }
    with atomic_file(output / "fusion.json") as file:
        file.write(json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    with atomic_file(output / "fusion.png") as file:
        figure.savefig(file, format="png", dpi=120)
    yield from (f"Wrote {output / f'fusion{suffix}'}." for suffix in (".json", ".png"))


def _plot(found: FusionTrace, title: str) -> Any:
    """Plot the probabilities over the words and, below, the units of the fusion gate."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DecabenchError(f"Plots need matplotlib: {install_hint('train')}.") from error
    rows = 2 if found.gates else 1
    figure = Figure(figsize=(min(40.0, 3 + 0.3 * len(found.words)), 2.6 * rows), layout="constrained")
    above = figure.add_subplot(rows, 1, 1)
    at = range(len(found.words))
    shown = [len(found.labels) - 1] if len(found.labels) == 2 else range(len(found.labels))
    for label in shown:
        above.plot(at, [row[label] for row in found.probabilities], marker=".", label=found.labels[label])
    if len(found.labels) == 2:
        above.axhline(0.5, color="red", linewidth=1)
    above.set(ylim=(0, 1), ylabel="probability", title=title)
    above.legend(fontsize="x-small")
    panels = [above]
    if found.gates:
        below = figure.add_subplot(rows, 1, 2, sharex=above)
        units = [list(unit) for unit in zip(*found.gates, strict=True)]
        image = below.imshow(units, aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        below.set(ylabel="unit of the fusion gate")
        figure.colorbar(image, ax=below)
        panels.append(below)
    for panel in panels:
        # matplotlib would take a dollar sign for the start of a formula.
        names = [word.replace("$", r"\$") for word in found.words]
        panel.set_xticks(at, names, rotation=90, fontsize=7)
    return figure


FUSION = Analysis(
    "What the model predicts after each word, and its fusion gate", _analyze_fusion, single=True
)
