"""Analyses of trained models, for `decabench analyze`: numbers as JSON and a figure of them.

- `pointers`, `attention`: the sources that MQAN points at (Figure 3 of the decathlon paper), and its attention
  (Figures 6 and 7).
- `fusion`: a recurrent classifier's predictions after each word of a text, and its fusion gate (Figure 3 of Liu et al.
  2016).
- `routes`: the sub-networks that each task's words are routed through (Figure 4 of Xu et al. 2021).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from decabench.errors import DecabenchError, UnknownNameError, install_hint, require_name
from decabench.files import atomic_file
from decabench.models.batches import ColumnBatch
from decabench.models.checkpoint import Checkpoint, TrainedModel, batch_by_length
from decabench.models.decoding import GeneratedWords, greedy
from decabench.models.devices import autocast
from decabench.models.meta_lstm import MetaLSTM
from decabench.models.mqan import MQAN, Decoded, DecoderPast
from decabench.models.mqan_batch import MQANBatch
from decabench.models.recurrent_modules import RecurrentModules, TaskDecoder
from decabench.models.shared_memory import MemoryNetwork
from decabench.tasks import Example, Label, Task
from decabench.vectors import EOS

__all__ = [
    "ATTENTION",
    "FUSION",
    "POINTERS",
    "ROUTES",
    "Analysis",
    "AttentionMap",
    "FusionTrace",
    "PointerShares",
    "TaskRoutes",
    "Trace",
    "find_analysis",
    "map_attention",
    "measure_routes",
    "share_pointers",
    "task_shares",
    "trace_answers",
    "trace_fusion",
]

Samples = Mapping[str, tuple[Task, Sequence[Example]]]
"""Task name to the task and the examples to analyze."""


@dataclass(frozen=True)
class Analysis:
    """An analysis that `decabench analyze NAME` offers for the models of a family."""

    summary: str
    """A one-line description of the figure."""
    run: Callable[[TrainedModel, Samples, Path], Iterator[str]]
    """(model, examples, folder to fill) -> messages to print as they arrive."""
    single: bool = False
    """Whether the analysis is of a single example."""


def find_analysis(checkpoint: Checkpoint, name: str) -> Analysis:
    """Find an analysis by name in the family of a checkpoint. Raises UnknownNameError."""
    analyses = checkpoint.family.analyses
    if not analyses:
        raise UnknownNameError(
            f"Unknown analysis {name!r}: the model {checkpoint.config.name} has no analyses."
        )
    kind = f"analysis of the model {checkpoint.config.name}"
    module, _, attribute = analyses[require_name(name, analyses, kind)].partition(":")
    found: Analysis = getattr(import_module(module), attribute)
    return found


def make_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Any, Any]:
    """Make a figure and its axes. Raises DecabenchError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DecabenchError(f"Plots need matplotlib: {install_hint('train')}.") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def write_figure(output: Path, name: str, content: Mapping[str, Any], figure: Any) -> Iterator[str]:
    """Write `NAME.json` and `NAME.png`, and yield messages that say so."""
    with atomic_file(output / f"{name}.json") as file:
        text = json.dumps({"format": f"decabench.{name}/1", **content}, ensure_ascii=False, indent=1)
        file.write(text.encode("utf-8", "replace") + b"\n")
    with atomic_file(output / f"{name}.png") as file:
        figure.savefig(file, format="png", dpi=120)
    yield from (f"Wrote {output / f'{name}{suffix}'}." for suffix in (".json", ".png"))


def _escape(token: str) -> str:
    # matplotlib reads a dollar sign as the start of a formula.
    return token.strip().replace("$", r"\$") or "·"


# MQAN ----------------------------------------------------------------------------------------------------------------

SOURCES = ("vocabulary", "context", "question")


@dataclass(frozen=True)
class Trace:
    """Greedy answers to a batch, with the decoder's weights at each step. Shapes as in mqan.py."""

    found: GeneratedWords
    """The answers."""
    weights: Tensor
    """(B, n, 3): the weights of generating, of the context pointer and of the question pointer."""
    context_attention: Tensor
    """(B, n, l)"""
    question_attention: Tensor | None
    """(B, n, m); None if the model has no question pointer."""


@torch.inference_mode()
def trace_answers(model: MQAN, batch: MQANBatch, limit: int | None = None) -> Trace:
    """Answer a batch greedily and record every step."""
    model.eval()
    steps = limit or model.config.max_answer_tokens
    past = _TracedPast(model, batch, steps)
    found = greedy(past, len(batch), steps, past.encoded.context.device, keep_rows=True)
    # A GPU takes a few extra steps, because reading at each step whether all answers have ended is slow.
    taken = past.steps[: found.outputs.shape[1]]
    gamma = torch.cat([decoded.vocabulary_gate.sigmoid() for decoded in taken], 1)
    lam, rest = (torch.cat([decoded.pointers[at] for decoded in taken], 1) for at in (0, 1))
    questions = [q for decoded in taken if (q := decoded.question_attention) is not None]
    return Trace(
        found,
        torch.stack([gamma, (1 - gamma) * lam, (1 - gamma) * rest], -1).cpu(),
        torch.cat([decoded.context_attention for decoded in taken], 1).cpu(),
        torch.cat(questions, 1).cpu() if questions else None,
    )


class _TracedPast(DecoderPast):
    def __init__(self, model: MQAN, batch: MQANBatch, steps: int) -> None:
        super().__init__(model, batch, steps)
        self.steps: list[Decoded] = []

    def step(self, last: Tensor) -> Tensor:
        p = super().step(last)
        self.steps.append(cast(Decoded, self.decoded))
        return p


@dataclass(frozen=True)
class PointerShares:
    """The sources of the words in a task's answers, not counting <eos>."""

    words: int
    """The number of words."""
    chosen: Mapping[str, float]
    """The share of words, 0–1, for which each of SOURCES had the largest weight: the bars in Figure 3."""
    weight: Mapping[str, float]
    """The mean weight of each source, 0–1: gamma, (1 - gamma) lambda, (1 - gamma) (1 - lambda)."""


def share_pointers(model: TrainedModel, task: Task, examples: Sequence[Example]) -> PointerShares:
    """Measure which sources a model uses in its greedy answers to a task's examples."""
    items = [model.encode(example, task) for example in examples]
    kept: list[Tensor] = []
    for rows in batch_by_length(np.array([sum(map(len, item.values())) for item in items]), 20_000):
        batch = cast(MQANBatch, model.make_batch(task, [items[row] for row in rows]))
        with autocast(model.device, model.precision):
            traced = trace_answers(cast(MQAN, model.network), batch)
        kept.append(traced.weights[(traced.found.outputs != EOS).cumprod(1).bool()].float())
    weights = torch.cat(kept)  # (words, 3)
    if not len(weights):
        return PointerShares(0, dict.fromkeys(SOURCES, 0.0), dict.fromkeys(SOURCES, 0.0))
    counts = torch.bincount(weights.argmax(1), minlength=3) / len(weights)
    return PointerShares(
        len(weights),
        dict(zip(SOURCES, counts.tolist(), strict=True)),
        dict(zip(SOURCES, weights.mean(0).tolist(), strict=True)),
    )


def _analyze_pointers(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    """Write `pointers.json` and `pointers.png`."""
    found = {}
    for name, (task, examples) in samples.items():
        found[name] = share_pointers(model, task, examples)
        shares = ", ".join(f"{source} {share:.1%}" for source, share in found[name].chosen.items())
        yield f"{name}: {shares} of {found[name].words:,} words"
    figure, axes = make_figure(4 + 0.8 * len(found), 3.6)
    bottom = [0.0] * len(found)
    for source, colour in zip(SOURCES, ("#4c72b0", "#55a868", "#c44e52"), strict=True):
        heights = [shares.chosen[source] for shares in found.values()]
        axes.bar(list(found), heights, 0.7, bottom, label=source, color=colour)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set(ylabel="share of answer words", ylim=(0, 1))
    axes.tick_params(axis="x", rotation=30)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    content = {"tasks": {task: asdict(own) for task, own in found.items()}}
    yield from write_figure(output, "pointers", content, figure)


@dataclass(frozen=True)
class AttentionMap:
    """The answer to one example, with the model's attention for each word of the answer."""

    context: Sequence[str]
    """l tokens"""
    question: Sequence[str]
    """m tokens; empty if the model reads the question as part of the context"""
    answer: Sequence[str]
    """n tokens, including <eos> if there is one"""
    context_attention: Sequence[Sequence[float]]
    """(n, l), rows sum to 1"""
    question_attention: Sequence[Sequence[float]]
    """(n, m); empty if the model has no question pointer"""
    weights: Sequence[Mapping[str, float]]
    """The weight of each of SOURCES, for each token of the answer"""


def map_attention(model: TrainedModel, task: Task, example: Example) -> AttentionMap:
    """Record a model's attention while it answers one example."""
    item = model.encode(example, task)
    batch = cast(MQANBatch, model.make_batch(task, [item]))
    network = cast(MQAN, model.network)
    with autocast(model.device, model.precision):
        traced = trace_answers(network, batch)
    words = model.words.lexicon.words
    read, asked = ([words[number] for number in item[column]] for column in ("context", "question"))
    split = network.config.parts.coattention
    question_attention = traced.question_attention
    return AttentionMap(
        context=read if split else [*read, *asked],
        question=asked if split else [],
        answer=[words[number] for number in network.word_numbers(traced.found, batch)[0]],
        context_attention=traced.context_attention[0].tolist(),
        question_attention=[] if question_attention is None else question_attention[0].tolist(),
        weights=[dict(zip(SOURCES, row, strict=True)) for row in traced.weights[0].tolist()],
    )


def _analyze_attention(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    """Write `attention.json` and `attention.png`."""
    ((task, (example,)),) = samples.values()
    found = map_attention(model, task, example)
    yield f"{example.question}\n{''.join(found.answer).strip()}"
    maps = [("context", found.context, found.context_attention)]
    if found.question_attention:
        maps.append(("question", found.question, found.question_attention))
    widest = max(len(tokens) for _, tokens, _ in maps)
    height = len(maps) * (1.2 + 0.25 * len(found.answer))
    figure, axes = make_figure(min(40.0, 2 + 0.22 * widest), height, len(maps), squeeze=False)
    for own, (name, tokens, values) in zip(axes.flat, maps, strict=True):
        own.imshow(values, aspect="auto", cmap="viridis", vmin=0, vmax=1)
        own.set_xticks(range(len(tokens)), [_escape(token) for token in tokens], rotation=90, fontsize=7)
        own.set_yticks(range(len(found.answer)), [_escape(token) for token in found.answer], fontsize=7)
        own.set_title(f"attention over the {name}", fontsize=9)
    yield from write_figure(output, "attention", asdict(found), figure)


# Shared memory and Meta-LSTM -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FusionTrace:
    """A model's predictions after each word of a text."""

    words: Sequence[str]
    """T words, as the model reads them"""
    labels: Sequence[str]
    """The task's labels"""
    probabilities: Sequence[Sequence[float]]
    """(T, labels): the output layer's probabilities for each word's state. A bidirectional model's state has both
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
            f"The model {model.config.name} does not read word by word: choose a recurrent model, such as arc-i or "
            "lstm."
        )
    model.check_task(task)
    if not isinstance(output, Label):
        raise DecabenchError(
            f"{task.name} has no labels, but {type(output).__name__}: choose a task with labels."
        )
    item = model.encode(example, task)
    if not len(item["text"]):
        raise DecabenchError(f"{example.id} of {task.name} has no words: choose another example with --id.")
    batch: Any = model.make_batch(task, [item])
    network.eval()
    with autocast(model.device, model.precision):
        states, gates = network.trace(batch)
        scores = cast(Any, network.heads[task.name]).output.score(states[0])
        (reply,) = network.answers(batch)
    return FusionTrace(
        words=[model.words.lexicon.words[number].strip() for number in item["text"]],
        labels=output.names,
        probabilities=scores.float().softmax(1).tolist(),
        answer=reply.text,
        gates=[] if gates is None else gates[0].float().tolist(),
    )


def _analyze_fusion(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    """Write `fusion.json` and `fusion.png`: probabilities over the words and, below, the units of the fusion gate."""
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
    panels.flat[-1].set_xticks(at, [_escape(word) for word in found.words], rotation=90, fontsize=7)
    content = {"task": task.name, "id": example.id, "model": model.config.name, **asdict(found)}
    yield from write_figure(output, "fusion", content, figure)


# Recurrent modules ---------------------------------------------------------------------------------------------------

STEPS = 6
"""The number of time steps that Figure 4 shows."""


@dataclass(frozen=True)
class TaskRoutes:
    """How the texts of a task are routed from sub-encoders to its decoder."""

    texts: Sequence[int]
    """The number of texts with a word at each of the first STEPS time steps; only the last word's step, if labels are
    read there."""
    steps: Sequence[Sequence[Sequence[float]]]
    """(STEPS, m - 1, n): the share of those texts, 0–1, that have the connection to each sub-encoder open; 0 without
    texts"""
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
    decoder, is_tagger = cast(TaskDecoder, part.extension), bool(part.by_token)
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
    """Return each task's share of every sub-encoder's use, (m - 1, n) each; shares add up to 1, or are all 0."""
    values = {task: np.array(own.sub_encoders) for task, own in routes.items()}
    total = np.sum(list(values.values()), axis=0)
    return {task: (own / np.where(total > 0, total, 1)).tolist() for task, own in values.items()}


def _analyze_routes(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    """Write `routes.json` and `routes.png`."""
    config = cast(RecurrentModules, model.network).config
    if not config.is_modular:
        raise DecabenchError(
            f"This {config.name} has the extension {config.extension!r} and so no routes: analyze a model that was "
            "trained with model.extension=rmn or rrn."
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
    content = {
        "tasks": {task: asdict(own) for task, own in found.items()},
        "shares": task_shares(found),
    }
    yield from write_figure(output, "routes", content, figure)


POINTERS = Analysis(
    "How often answers come from the vocabulary, the context and the question", _analyze_pointers
)
ATTENTION = Analysis("The model's attention while it answers one example", _analyze_attention, single=True)
FUSION = Analysis(
    "The model's predictions after each word, and its fusion gate", _analyze_fusion, single=True
)
ROUTES = Analysis("The sub-networks through which each task's words are routed", _analyze_routes)
