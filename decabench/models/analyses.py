"""Analyses of trained models for `decabench analyze`.

Each analysis writes a JSON file of numbers and a figure. The `pointers` and `attention` analyses work only with
MQAN. They show where MQAN copies words from (Figure 3 of the decathlon paper) and what it attends to (Figures 6
and 7).
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
from torch.nn import functional as F

from decabench.errors import UnknownNameError, require_name, require_package
from decabench.files import atomic_file
from decabench.models.checkpoint import Checkpoint, TrainedModel, batch_by_length
from decabench.models.decoding import GeneratedWords
from decabench.models.mqan import MQAN, Decoded
from decabench.models.mqan_batch import MQANBatch
from decabench.plugins import load_object
from decabench.tasks import Example, Task
from decabench.vectors import EOS, INIT

Samples = Mapping[str, tuple[Task, Sequence[Example]]]
"""Maps each task's name to the task and the examples to analyze."""


@dataclass(frozen=True)
class Analysis:
    """An analysis offered by `decabench analyze NAME`."""

    summary: str
    """A one-line description of what the analysis shows."""
    run: Callable[[TrainedModel, Samples, Path], Iterator[str]]
    """The function that writes the files. It takes the model, the examples and the output folder, and yields messages
    to print."""
    single: bool = False
    """Whether the analysis looks at a single example."""


def find_analysis(checkpoint: Checkpoint, name: str) -> Analysis:
    """Return the analysis with this name from the checkpoint's family.

    The name can also be `package.module:object`. Raises UnknownNameError if there is no such analysis.
    """
    if ":" in name:
        found = load_object(name)
        if not isinstance(found, Analysis):
            raise UnknownNameError(f"{name!r} is {found!r:.100}, not a decabench.models.Analysis.")
        return found
    analyses = checkpoint.family.analyses
    if not analyses:
        raise UnknownNameError(
            f"Unknown analysis {name!r}: the model {checkpoint.config.name} has no analyses."
        )
    kind = f"analysis of the model {checkpoint.config.name}"
    module, _, attribute = analyses[require_name(name, analyses, kind)].partition(":")
    return cast(Analysis, getattr(import_module(module), attribute))


def make_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Any, Any]:
    """Create a matplotlib figure and its axes.

    `width` and `height` are in inches, and `options` are passed to `Figure.subplots`. Raises DecabenchError if
    matplotlib is not installed.
    """
    require_package("A plot", "train", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def write_figure(output: Path, name: str, content: Mapping[str, Any], figure: Any = None) -> Iterator[str]:
    """Write `NAME.json` and, if there is a figure, `NAME.png` to a folder, yielding a message for each file."""
    path = output / f"{name}.json"
    with atomic_file(path) as file:
        text = json.dumps({"format": f"decabench.{name}/1", **content}, ensure_ascii=False, indent=1)
        file.write(text.encode("utf-8", "replace") + b"\n")
    yield f"Wrote {path}."
    if figure is not None:
        path = path.with_suffix(".png")
        with atomic_file(path) as file:
            figure.savefig(file, format="png", dpi=120)
        yield f"Wrote {path}."


def escape_token(token: str) -> str:
    """Return a token as an axis label. A token that contains only whitespace becomes a dot."""
    # matplotlib would treat a dollar sign as the start of a formula.
    return token.strip().replace("$", r"\$") or "·"


# MQAN ----------------------------------------------------------------------------------------------------------------

SOURCES = ("vocabulary", "context", "question")


@torch.inference_mode()
def trace_answers(model: MQAN, batch: MQANBatch) -> tuple[GeneratedWords, Decoded, Tensor]:
    """Answer a batch greedily, and return the answers and the decoder's output at every step.

    Also returns the weights of the sources in SOURCES, of shape (B, n, 3), where n is the number of
    steps.
    """
    found, decoder, encoded = model.decode(batch), model.decoder, model.encoder(batch)
    # The decoder reads the generated answers again, all steps together.
    read = F.pad(found.outputs[:, :-1], (1, 0), value=INIT).to(encoded.context.device)
    a_self = decoder.self_attend(decoder.represent(model.words(read, batch)), encoded)
    h, context, attention, _ = decoder.recur(a_self, encoded)
    decoded = decoder.point(a_self, h, context, attention, encoded)
    gamma, (lam, rest) = decoded.vocabulary_gate.sigmoid(), decoded.pointers
    return found, decoded, torch.stack([gamma, (1 - gamma) * lam, (1 - gamma) * rest], -1).cpu()


@dataclass(frozen=True)
class PointerShares:
    """Statistics on where the words of a task's answers come from, not counting <eos>."""

    words: int
    """The number of words in the answers."""
    chosen: Mapping[str, float]
    """Maps each source in SOURCES to the proportion of words, from 0 to 1, for which it had the largest
    weight (Figure 3).
    """
    weight: Mapping[str, float]
    """Maps each source in SOURCES to its mean weight, from 0 to 1. The weights are gamma, (1 - gamma)
    lambda and (1 - gamma) (1 - lambda), where gamma and lambda are the switches of the paper.
    """


def share_pointers(model: TrainedModel, task: Task, examples: Sequence[Example]) -> PointerShares:
    """Answer a task's examples greedily, and return statistics on where the words come from."""
    items = [model.encode(example, task) for example in examples]
    kept: list[Tensor] = []
    for rows in batch_by_length(np.array([sum(map(len, item.values())) for item in items]), 20_000):
        batch = cast(MQANBatch, model.make_batch(task, [items[row] for row in rows]))
        found, _, weights = trace_answers(cast(MQAN, model.network), batch)
        kept.append(weights[(found.outputs != EOS).cumprod(1).bool()].float())
    of_words = torch.cat(kept)  # (words, 3)
    count = max(1, len(of_words))
    chosen, mean = torch.bincount(of_words.argmax(1), minlength=3) / count, of_words.sum(0) / count
    shares = (dict(zip(SOURCES, own.tolist(), strict=True)) for own in (chosen, mean))
    return PointerShares(len(of_words), *shares)


def _analyze_pointers(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    found = {}
    for name, (task, examples) in samples.items():
        found[name] = share_pointers(model, task, examples)
        shares = ", ".join(f"{source} {share:.1%}" for source, share in found[name].chosen.items())
        yield f"{name}: {shares} of {found[name].words:,} words"
    figure, axes = make_figure(4 + 0.8 * len(found), 3.6)
    bottom = [0.0] * len(found)
    for source, color in zip(SOURCES, ("#4c72b0", "#55a868", "#c44e52"), strict=True):
        heights = [shares.chosen[source] for shares in found.values()]
        axes.bar(list(found), heights, 0.7, bottom, label=source, color=color)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set(ylabel="share of answer words", ylim=(0, 1))
    axes.tick_params(axis="x", rotation=30)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    content = {"tasks": {task: asdict(own) for task, own in found.items()}}
    yield from write_figure(output, "pointers", content, figure)


@dataclass(frozen=True)
class AttentionMap:
    """A model's attention at each step of one answer.

    In shapes, n is the number of steps, l the number of context tokens and m the number of question
    tokens.
    """

    context: Sequence[str]
    """The tokens of the context."""
    question: Sequence[str]
    """The tokens of the question; empty if the model reads the question as part of the context."""
    answer: Sequence[str]
    """The tokens of the answer, including <eos> if the model generated it."""
    context_attention: Sequence[Sequence[float]]
    """The attention over the context at each step, of shape (n, l). Each row sums to 1."""
    question_attention: Sequence[Sequence[float]]
    """The attention over the question at each step, of shape (n, m); empty if the model has no question
    pointer.
    """
    weights: Sequence[Mapping[str, float]]
    """Maps each source in SOURCES to its weight, for each of the n steps."""


def map_attention(model: TrainedModel, task: Task, example: Example) -> AttentionMap:
    """Answer one example greedily, and return the model's attention at each step."""
    item = model.encode(example, task)
    batch = cast(MQANBatch, model.make_batch(task, [item]))
    network = cast(MQAN, model.network)
    generated, decoded, weights = trace_answers(network, batch)
    words = model.words.lexicon.words
    read, asked = ([words[number] for number in item[column]] for column in ("context", "question"))
    split, over_question = network.config.parts.coattention, decoded.question_attention
    return AttentionMap(
        context=read if split else [*read, *asked],
        question=asked if split else [],
        answer=[words[number] for number in network.word_numbers(generated, batch)[0]],
        context_attention=decoded.context_attention[0].tolist(),
        question_attention=[] if over_question is None else over_question[0].tolist(),
        weights=[dict(zip(SOURCES, row, strict=True)) for row in weights[0].tolist()],
    )


def _analyze_attention(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
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
        own.set_xticks(range(len(tokens)), [escape_token(token) for token in tokens], rotation=90, fontsize=7)
        own.set_yticks(range(len(found.answer)), [escape_token(token) for token in found.answer], fontsize=7)
        own.set_title(f"attention over the {name}", fontsize=9)
    yield from write_figure(output, "attention", asdict(found), figure)


POINTERS = Analysis(
    "How often answer words come from the vocabulary, the context and the question", _analyze_pointers
)
ATTENTION = Analysis("The model's attention while it answers one example", _analyze_attention, single=True)
