"""Figures from four papers, for models trained with decabench: `decabench analyze papers.figures:ROUTES RUN …`.

- `ACTIVATIONS`: MQAN's encoder on one example per task, after coattention and before the decoder (Figure 5 of
  McCann et al. 2018).
- `FUSION`: a recurrent classifier's predictions after each word of a text, and its fusion gate (Figure 3 of Liu
  et al. 2016).
- `CHANGES`: how much the matrices that a Meta-LSTM generates change at each word (Figure 4 of Chen et al. 2018).
- `ROUTES`: the sub-networks through which each task's words are routed (Figure 4 of Xu et al. 2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from decabench.errors import DecabenchError
from decabench.models import (
    Analysis,
    ColumnBatch,
    Samples,
    TrainedModel,
    batch_by_length,
    escape_token,
    make_figure,
    write_figure,
)
from decabench.tasks import Example, Label, Task

# MQAN ----------------------------------------------------------------------------------------------------------------

LAYERS = {
    "context, after coattention": ("coattention", 2),
    "context, before the decoder": ("final.context", 0),
    "question, after coattention": ("coattention", 3),
    "question, before the decoder": ("final.question", 0),
}
"""Where activations are recorded: a module of the encoder, and the index of its output."""


@torch.inference_mode()
def encoder_activations(model: TrainedModel, task: Task, example: Example) -> dict[str, np.ndarray]:
    """Return the activations of MQAN's encoder for an example. Each of LAYERS has an array of shape (tokens, d).

    Raises DecabenchError for models without coattention and self-attention over both texts.
    """
    encoder: Any = getattr(model.network, "encoder", None)
    modules = dict(encoder.named_modules()) if encoder is not None else {}
    if not all(name in modules for name, _ in LAYERS.values()):
        raise DecabenchError(
            f"The model {model.config.name} does not have MQAN's layers. Choose an MQAN model."
        )
    batch: Any = model.make_batch(task, [model.encode(example, task)])
    seen: dict[str, Any] = {}
    hooks = [
        modules[name].register_forward_hook(
            lambda _module, _given, made, name=name: seen.update({name: made})
        )
        for name in dict.fromkeys(name for name, _ in LAYERS.values())
    ]
    model.network.eval()
    try:
        encoder(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return {layer: seen[name][at][0].float().cpu().numpy() for layer, (name, at) in LAYERS.items()}


def shared_use(activations: Sequence[np.ndarray]) -> float:
    """Return how similarly tasks use a layer's units, as the mean correlation over pairs of tasks, -1 to 1.

    `activations` contains an array of shape (tokens, d) for each task. A unit's use is its mean absolute
    activation.
    """
    use = np.corrcoef([np.abs(own).mean(0) for own in activations])
    return float(use[np.triu_indices(len(use), 1)].mean())


def _analyze_activations(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    found = {
        name: [encoder_activations(model, task, example) for example in examples]
        for name, (task, examples) in samples.items()
    }
    alike = {}
    figure, axes = make_figure(2 * len(found) + 1, 7, len(LAYERS), len(found), squeeze=False)
    for row, layer in zip(axes, LAYERS, strict=True):
        limit = max(float(np.abs(own[0][layer]).max()) for own in found.values())
        for panel, own in zip(row, found.values(), strict=True):
            panel.imshow(own[0][layer].T, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit)
            panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(layer.replace(", ", "\n"), fontsize=8)
        if len(found) > 1:
            of_tasks = [np.concatenate([one[layer] for one in own]) for own in found.values()]
            alike[layer] = shared_use(of_tasks)
            yield f"{layer}: tasks use the units alike with a mean correlation of {alike[layer]:.2f}"
    for panel, task in zip(axes[0], found, strict=True):
        panel.set_title(task, fontsize=9)
    shown = {task: examples[0].id for task, (_, examples) in samples.items()}
    yield from write_figure(output, "activations", {"examples": shown, "shared_use": alike}, figure)


# Shared memory and Meta-LSTM -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FusionTrace:
    """A model's predictions after each word of a text."""

    words: Sequence[str]
    """The T words, as read by the model."""
    labels: Sequence[str]
    """The task's labels."""
    probabilities: Sequence[Sequence[float]]
    """The probability of each label, computed from each word's state, (T, labels).

    In a bidirectional model, the state covers the words up to and including this word, and the words from this
    word on.
    """
    answer: str
    """The model's answer."""
    gates: Sequence[Sequence[float]]
    """The fusion gate at each word, 0–1, (T, width). The units of the forward direction come first. Empty for a model
    without external memory."""


@torch.inference_mode()
def trace_fusion(model: TrainedModel, task: Task, example: Example) -> FusionTrace:
    """Record a model's predictions after each word of an example.

    Raises DecabenchError if the model doesn't read word by word, or if the task has no labels.
    """
    network, output = model.network, model.outputs.get(task.name)
    trace = getattr(network, "trace", None)
    if trace is None:
        raise DecabenchError(
            f"The model {model.config.name} does not read word by word. Choose a recurrent model, such as arc-i or "
            "lstm."
        )
    model.check_task(task)
    if not isinstance(output, Label):
        raise DecabenchError(
            f"The output of {task.name} is {type(output).__name__}, not labels. Choose a task with labels."
        )
    item = model.encode(example, task)
    if not len(item["text"]):
        raise DecabenchError(f"{example.id} of {task.name} has no words. Choose another example with --id.")
    batch: Any = model.make_batch(task, [item])
    network.eval()
    states, gates = trace(batch)
    scores = cast(Any, network.heads)[task.name].output.score(states[0])
    (reply,) = network.answers(batch)
    return FusionTrace(
        words=[model.words.lexicon.words[number].strip() for number in item["text"]],
        labels=output.names,
        probabilities=scores.float().softmax(1).tolist(),
        answer=reply.text,
        gates=[] if gates is None else gates[0].float().tolist(),
    )


def _analyze_fusion(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    ((task, (example,)),) = samples.values()
    found = trace_fusion(model, task, example)
    yield f"{task.name} {example.id}: {' '.join(found.words)}"
    yield f"answer: {found.answer}; gold: {' or '.join(example.answers)}"
    rows = 2 if found.gates else 1
    figure, panels = make_figure(
        min(40.0, 3 + 0.3 * len(found.words)), 2.6 * rows, rows, sharex=True, squeeze=False
    )
    above, *below = panels.flat
    at = range(len(found.words))
    is_binary = len(found.labels) == 2
    for label in [1] if is_binary else range(len(found.labels)):
        above.plot(at, [row[label] for row in found.probabilities], marker=".", label=found.labels[label])
    if is_binary:
        above.axhline(0.5, color="red", linewidth=1)
    title = f"{model.config.name}, {task.name} {example.id}: {found.answer}"
    above.set(ylim=(0, 1), ylabel="probability", title=title)
    above.legend(fontsize="x-small")
    for panel in below:
        units = [list(unit) for unit in zip(*found.gates, strict=True)]
        image = panel.imshow(units, aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        panel.set(ylabel="unit of the fusion gate")
        figure.colorbar(image, ax=panel)
    panels.flat[-1].set_xticks(at, [escape_token(word) for word in found.words], rotation=90, fontsize=7)
    content = {"task": task.name, "id": example.id, "model": model.config.name, **asdict(found)}
    yield from write_figure(output, "fusion", content, figure)


@dataclass(frozen=True)
class MatrixChanges:
    """How much the matrices W(z) that a Meta-LSTM generates for a task change from word to word."""

    words: Sequence[str]
    """The T words."""
    means: Sequence[float]
    """The mean of |W(z_t) - W(z_t-1)| / |W(z_t-1)| over all entries, for each word from the second on (Eq. 54).

    Entries near 0 dominate the mean.
    """
    norms: Sequence[float]
    """The norm of W(z_t) - W(z_t-1), divided by the norm of W(z_t-1), for each word from the second on."""


@torch.inference_mode()
def measure_changes(model: TrainedModel, task: Task, example: Example) -> MatrixChanges:
    """Measure how a Meta-LSTM's matrices change from word to word.

    In a bidirectional model, only the forward direction is measured. Raises DecabenchError if the model is not a
    meta-lstm.
    """
    network: Any = model.network
    if model.config.name != "meta-lstm":
        raise DecabenchError(
            f"The model {model.config.name} generates no matrices. Choose a meta-lstm model."
        )
    model.check_task(task)
    item = model.encode(example, task)
    batch: Any = model.make_batch(task, [item])
    network.eval()
    x = network.embed(batch, "text")[0].double()
    meta, basic = network.shared[0], network.heads[task.name].networks[0]
    states = network.trace(batch)[0][0, :, : basic.P.shape[1]].double()
    W_m, b_m, W_z, P, Q = (part.double() for part in (meta.weight, meta.bias, meta.project, basic.P, basic.Q))
    own = cell = x.new_zeros(W_z.shape[1])
    before, means, norms = x.new_empty(0), [], []
    for t in range(len(x)):
        h = states[t - 1] if t else torch.zeros_like(states[0])
        o, i, f, g = (W_m @ torch.cat([x[t], h, own]) + b_m).chunk(4)  # Eq. 30
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        own = o.sigmoid() * cell.tanh()
        now = P * (W_z @ own) @ Q  # Eq. 28: the matrices of the four gates
        if t:
            change = (now - before).abs()
            means.append((change / before.abs()).mean().item())
            norms.append((change.norm() / before.norm()).item())
        before = now
    words = [model.words.lexicon.words[number].strip() for number in item["text"]]
    return MatrixChanges(words, means, norms)


def _analyze_changes(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    ((task, (example,)),) = samples.values()
    found, traced = measure_changes(model, task, example), trace_fusion(model, task, example)
    yield f"{task.name} {example.id}: {' '.join(found.words)}"
    yield f"answer: {traced.answer}; gold: {' or '.join(example.answers)}"
    figure, (above, below) = make_figure(min(40.0, 3 + 0.3 * len(found.words)), 5.2, 2, sharex=True)
    at = range(len(found.words))
    for label, name in enumerate(traced.labels):
        above.plot(at, [row[label] for row in traced.probabilities], marker=".", label=name)
    above.set(ylim=(0, 1), ylabel="probability", title=f"{task.name} {example.id}: {traced.answer}")
    above.legend(fontsize="x-small")
    below.plot(at[1:], found.means, marker=".", label="mean change of an entry (Eq. 54)")
    below.plot(at[1:], found.norms, marker=".", label="norm of the change")
    below.set(yscale="log", ylabel="change of W(z)")
    below.legend(fontsize="x-small")
    below.set_xticks(at, [escape_token(word) for word in found.words], rotation=90, fontsize=7)
    content = {"task": task.name, "id": example.id, **asdict(found), "probabilities": traced.probabilities}
    yield from write_figure(output, "changes", content, figure)


# Recurrent modules ---------------------------------------------------------------------------------------------------

STEPS = 6
"""The number of time steps in Figure 4."""


@dataclass(frozen=True)
class TaskRoutes:
    """Statistics on the open connections between the sub-encoders and a task's decoder."""

    texts: Sequence[int]
    """The number of texts with a word at each of the first STEPS time steps.

    If labels are read at the last word, a text counts only at the step of its last word.
    """
    steps: Sequence[Sequence[Sequence[float]]]
    """The share of the texts in `texts`, 0–1, that open the connection to each sub-encoder, (STEPS, m - 1, n).
    """
    words: int
    """The number of words read."""
    sub_encoders: Sequence[Sequence[float]]
    """The share of words, 0–1, that open the connection to each sub-encoder, (m - 1, n)."""
    encoder: float
    """The share of open connections inside the shared encoder, over all words."""


def measure_routes(model: TrainedModel, task: Task, examples: Sequence[Example]) -> TaskRoutes:
    """Measure which connections a model opens when answering a task's examples, without noise."""
    network: Any = model.network
    network.eval()
    part = network.heads[task.name]
    decoder, is_tagger = part.extension, bool(part.by_token)
    grid = decoder.layers, decoder.modules_per_layer
    items = [model.encode(example, task) for example in examples]
    lengths = np.array([len(item["text"]) for item in items])
    texts, opened = torch.zeros(STEPS), torch.zeros(STEPS, *grid)
    everywhere, encoder, words = torch.zeros(grid), 0.0, 0
    for rows in batch_by_length(lengths, 20_000):
        batch = cast(ColumnBatch, model.make_batch(task, [items[row] for row in rows]))
        with torch.inference_mode():
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
    """Return each task's share of the open connections to every sub-encoder, (m - 1, n).

    For each sub-encoder, the shares of all tasks add up to 1, or are 0 if no task uses it.
    """
    values = {task: np.array(own.sub_encoders) for task, own in routes.items()}
    total = np.sum(list(values.values()), axis=0)
    return {task: (own / np.where(total > 0, total, 1)).tolist() for task, own in values.items()}


def _analyze_routes(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    config = model.config
    if not getattr(config, "is_modular", False):
        raise DecabenchError(
            f"The model {config.name} has no routes. Analyze a model trained with model.extension=rmn or rrn."
        )
    found = {}
    for name, (task, examples) in samples.items():
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
    content = {"tasks": {task: asdict(own) for task, own in found.items()}, "shares": task_shares(found)}
    yield from write_figure(output, "routes", content, figure)


ACTIVATIONS = Analysis("The activations of MQAN's encoder, one example per task", _analyze_activations)
FUSION = Analysis(
    "The model's predictions after each word, and its fusion gate", _analyze_fusion, single=True
)
CHANGES = Analysis(
    "How much the matrices that a Meta-LSTM generates change at each word", _analyze_changes, single=True
)
ROUTES = Analysis("The sub-networks through which each task's words are routed", _analyze_routes)
