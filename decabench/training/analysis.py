"""How a trained model answers: what it points at (Figure 3) and where it looks (Figures 6 and 7)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from decabench.errors import DataError, DecabenchError
from decabench.files import atomic_file
from decabench.models import EOS, NO_ANSWER, Answerer, Encoded, autocast, by_length, greedy, word_numbers
from decabench.tasks import Example

__all__ = [
    "AttentionMap",
    "Pointing",
    "attention_map",
    "find_example",
    "pointing",
    "write_attention",
    "write_pointing",
]

SOURCES = ("vocabulary", "context", "question")


@dataclass(frozen=True)
class Pointing:
    """Where a task's answer words came from, over the words of greedy answers without their <eos>."""

    words: int
    """How many words."""
    chosen: Mapping[str, float]
    """The share of words for which each of SOURCES weighed most: Figure 3's bars."""
    weight: Mapping[str, float]
    """The mean weight of each: gamma, (1 - gamma) lambda, (1 - gamma) (1 - lambda)."""


@dataclass(frozen=True)
class AttentionMap:
    """One example's answer, and what each of its words looked at."""

    context: Sequence[str]
    """l tokens"""
    question: Sequence[str]
    """m tokens; none where the model reads it as part of the context"""
    answer: Sequence[str]
    """n tokens, <eos> included where there is one"""
    context_attention: Sequence[Sequence[float]]
    """(n, l), rows sum to 1"""
    question_attention: Sequence[Sequence[float]]
    """(n, m); empty where the model has no question pointer"""
    weights: Sequence[Mapping[str, float]]
    """For each answer token the weight of each of SOURCES"""


def _encoded(answerer: Answerer, example: Example, limit: int | None) -> Encoded:
    encode = answerer.collate.table.lexicon.encode
    return Encoded(encode(example.context, limit), encode(example.question), NO_ANSWER)


def pointing(answerer: Answerer, examples: Sequence[Example], limit: int | None = None) -> Pointing:
    """What a model points at when it answers a task's examples, with contexts cut to `limit` tokens."""
    encoded = [_encoded(answerer, example, limit) for example in examples]
    kept: list[Tensor] = []
    for rows in by_length(encoded, 20_000):
        batch = answerer.collate([encoded[row] for row in rows]).to(answerer.device)
        with autocast(answerer.device, answerer.precision):
            said = greedy(answerer.model, batch, trace=True)
        assert said.weights is not None
        kept.append(said.weights[(said.outputs != EOS).cumprod(1).bool()].float())
    weights = torch.cat(kept)  # (words, 3)
    if not len(weights):
        return Pointing(0, dict.fromkeys(SOURCES, 0.0), dict.fromkeys(SOURCES, 0.0))
    counts = torch.bincount(weights.argmax(1), minlength=3) / len(weights)
    means = weights.mean(0)
    return Pointing(
        len(weights),
        dict(zip(SOURCES, counts.tolist(), strict=True)),
        dict(zip(SOURCES, means.tolist(), strict=True)),
    )


def attention_map(answerer: Answerer, example: Example, limit: int | None = None) -> AttentionMap:
    """Where a model looks when it answers one example."""
    encoded = _encoded(answerer, example, limit)
    batch = answerer.collate([encoded])
    with autocast(answerer.device, answerer.precision):
        said = greedy(answerer.model, batch.to(answerer.device), trace=True)
    numbers = word_numbers(answerer.model, said, batch)[0]
    words = answerer.collate.table.lexicon.words
    read = [words[number] for number in encoded.context]
    asked = [words[number] for number in encoded.question]
    assert said.weights is not None and said.context_attention is not None
    split = answerer.collate.split_input
    return AttentionMap(
        context=read if split else [*read, *asked],
        question=asked if split else [],
        answer=[words[number] for number in numbers],
        context_attention=said.context_attention[0].tolist(),
        question_attention=[] if said.question_attention is None else said.question_attention[0].tolist(),
        weights=[dict(zip(SOURCES, row, strict=True)) for row in said.weights[0].tolist()],
    )


def find_example(examples: Sequence[Example], id: str) -> Example:
    """The example of an id, or the first for no id. Raises DataError."""
    for example in examples:
        if id in ("", example.id):
            return example
    raise DataError(f"There is no example {id!r}: ids are {', '.join(e.id for e in examples[:3])}, ...")


def write_pointing(output: Path, found: Mapping[str, Pointing]) -> list[Path]:
    """Writes `pointers.json` and `pointers.png`."""
    figure, axes = _figure(4 + 0.8 * len(found), 3.6)
    bottom = [0.0] * len(found)
    for source, colour in zip(SOURCES, ("#4c72b0", "#55a868", "#c44e52"), strict=True):
        heights = [pointed.chosen[source] for pointed in found.values()]
        axes.bar(list(found), heights, 0.7, bottom, label=source, color=colour)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set(ylabel="share of answer words", ylim=(0, 1))
    axes.tick_params(axis="x", rotation=30)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    content = {"format": "decabench.pointers/1", "tasks": {task: asdict(p) for task, p in found.items()}}
    return _written(output, "pointers", content, figure)


def write_attention(output: Path, found: AttentionMap) -> list[Path]:
    """Writes `attention.json` and `attention.png`."""
    maps = [("context", found.context, found.context_attention)]
    if found.question_attention:
        maps.append(("question", found.question, found.question_attention))
    widest = max(len(tokens) for _, tokens, _ in maps)
    figure, axes = _figure(
        min(40.0, 2 + 0.22 * widest), len(maps) * (1.2 + 0.25 * len(found.answer)), len(maps)
    )
    for at, (name, tokens, values) in enumerate(maps):
        own = axes[at] if len(maps) > 1 else axes
        own.imshow(values, aspect="auto", cmap="viridis", vmin=0, vmax=1)
        own.set_xticks(range(len(tokens)), [_shown(token) for token in tokens], rotation=90, fontsize=7)
        own.set_yticks(range(len(found.answer)), [_shown(token) for token in found.answer], fontsize=7)
        own.set_title(f"attention over the {name}", fontsize=9)
    content = {"format": "decabench.attention/1", **asdict(found)}
    return _written(output, "attention", content, figure)


def _shown(token: str) -> str:
    # A dollar sign would begin a formula.
    return token.strip().replace("$", r"\$") or "·"


def _figure(width: float, height: float, rows: int = 1) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DecabenchError("Plots need matplotlib: pip install 'decabench[train]'.") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, 1)


def _written(output: Path, name: str, content: Mapping[str, Any], figure: Any) -> list[Path]:
    with atomic_file(output / f"{name}.json") as file:
        file.write(json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n")
    with atomic_file(output / f"{name}.png") as file:
        figure.savefig(file, format="png", dpi=120)
    return [output / f"{name}.json", output / f"{name}.png"]
