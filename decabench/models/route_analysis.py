"""An analysis of recurrent modules: which sub-networks the words of each task are routed through (Figure 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from decabench.errors import DecabenchError
from decabench.models.checkpoint import Analysis, TrainedModel, batch_by_length
from decabench.models.devices import autocast
from decabench.models.family import ColumnBatch
from decabench.models.mqan_analyses import make_figure, write_figure
from decabench.models.recurrent_modules import RecurrentModules, TaskDecoder
from decabench.tasks import Example, Task

__all__ = ["ROUTES", "TaskRoutes", "measure_routes", "task_shares"]

STEPS = 6
"""The number of time steps that Figure 4 shows."""


@dataclass(frozen=True)
class TaskRoutes:
    """How the texts of a task are routed from sub-encoders to its decoder."""

    texts: Sequence[int]
    """How many texts have a word at each of the first STEPS time steps; only the last word's step, if labels are read
    there."""
    steps: Sequence[Sequence[Sequence[float]]]
    """(STEPS, m - 1, n): the share of those texts, 0–1, that have the connection to each sub-encoder open; 0 of none"""
    words: int
    """The number of all words read."""
    sub_encoders: Sequence[Sequence[float]]
    """(m - 1, n): the same over all words"""
    encoder: float
    """The share of connections within the shared encoder that are open, over all words."""


def measure_routes(model: TrainedModel, task: Task, examples: Sequence[Example]) -> TaskRoutes:
    """Measure which connections a model opens for a task's examples, without noise, as it answers."""
    network = cast(RecurrentModules, model.network)
    network.eval()
    part = network.heads[task.name]
    decoder, is_tagger = cast(TaskDecoder, part.extension), bool(part.is_tagger)
    grid = decoder.layers, decoder.modules_per_layer
    items = [model.encode(example, task) for example in examples]
    lengths = np.array([len(item["text"]) for item in items])
    texts, opened = torch.zeros(STEPS), torch.zeros(STEPS, *grid)
    everywhere, encoder, words = torch.zeros(grid), 0.0, 0
    for rows in batch_by_length(lengths, 20_000):
        batch = cast(ColumnBatch, model.make_batch(task, [items[row] for row in rows]))
        with torch.inference_mode(), autocast(model.device, model.precision):
            found = network.represent(batch)
        own = cast(Tensor, found.decoder.chosen if found.decoder else None).float().cpu().view(-1, *grid)
        at = torch.cat(
            [torch.arange(n) if is_tagger else torch.tensor([n - 1]) for n in batch.lengths["text"]]
        )
        for step in range(STEPS):
            texts[step] += (at == step).sum()
            opened[step] += own[at == step].sum(0)
        everywhere += own.sum(0)
        if found.encoder is not None:
            encoder += found.encoder.chosen.float().mean(1).sum().item()
        words += len(own)
    return TaskRoutes(
        texts.int().tolist(),
        (opened / texts.clamp_min(1)[:, None, None]).tolist(),
        words,
        (everywhere / max(1, words)).tolist(),
        encoder / max(1, words),
    )


def task_shares(routes: Mapping[str, TaskRoutes]) -> dict[str, list[list[float]]]:
    """Divide what passes through each sub-encoder among tasks, (m - 1, n) each: shares that add up to 1, or all 0."""
    values = {task: np.array(own.sub_encoders) for task, own in routes.items()}
    total = np.sum(list(values.values()), axis=0)
    return {task: (own / np.where(total > 0, total, 1)).tolist() for task, own in values.items()}


def _analyze_routes(
    model: TrainedModel, tasks: Mapping[str, tuple[Task, Sequence[Example]]], output: Path
) -> Iterator[str]:
    """Write `routes.json` and `routes.png`."""
    config = cast(RecurrentModules, model.network).config
    if not config.is_modular:
        raise DecabenchError(
            f"This {config.name} has the extension {config.extension!r} and so no routes: analyze a model that was "
            "trained with model.extension=rmn or rrn."
        )
    found = {}
    for name, (task, examples) in tasks.items():
        found[name] = measure_routes(model, task, examples)
        shares = [share for layer in found[name].sub_encoders for share in layer]
        yield (
            f"{name}: {np.mean(shares):.1%} of connections to the decoder open ({min(shares):.1%} to "
            f"{max(shares):.1%} by sub-encoder), {found[name].encoder:.1%} within the encoder, at "
            f"{found[name].words:,} words"
        )
    layers, modules = config.depth - 1, config.modules
    figure, axes = make_figure(9.0, 1.2 + 0.9 * len(found), columns=2)
    left, right = axes
    picture = np.concatenate(
        [
            np.concatenate([np.array(step).T for step in own.steps], 1)  # a grid of n x (m - 1) for each step
            for own in found.values()
        ]
    )
    image = left.imshow(picture, aspect="auto", cmap="viridis", vmin=0, vmax=1)
    figure.colorbar(image, ax=left)
    left.set_xticks(np.arange(STEPS) * layers + (layers - 1) / 2, [str(step + 1) for step in range(STEPS)])
    left.set_yticks(np.arange(len(found)) * modules + (modules - 1) / 2, list(found))
    for step in range(1, STEPS):
        left.axvline(step * layers - 0.5, color="white", linewidth=1)
    for row in range(1, len(found)):
        left.axhline(row * modules - 0.5, color="white", linewidth=2)
    left.set(
        xlabel=f"time step, and layers 2 to {layers + 1} in each",
        ylabel=f"task, and its {modules} sub-encoders",
        title="share of texts with the connection open",
    )
    names = [f"{layer + 2}.{module + 1}" for layer in range(layers) for module in range(modules)]
    bottom = np.zeros(len(names))
    for name, grid in task_shares(found).items():
        heights = np.ravel(grid)
        right.bar(names, heights, 0.7, bottom, label=name)
        bottom += heights
    right.set(ylabel="share of tasks", ylim=(0, 1), xlabel="sub-encoder (layer.number)")
    right.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    content = {
        "format": "decabench.routes/1",
        "tasks": {task: asdict(own) for task, own in found.items()},
        "shares": task_shares(found),
    }
    yield from write_figure(output, "routes", content, figure)


ROUTES = Analysis("Which sub-networks each task's words are routed through", _analyze_routes)
