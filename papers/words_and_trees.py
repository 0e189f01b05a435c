"""Counts from the Joint Many-Task model's paper (Hashimoto et al. 2017), for models trained with decabench.

- `UNKNOWN_WORDS`: tags and heads of words that are not in the training data (Tables 14 and 15).
- `NEIGHBOURS`: the closest words before and after each task's W_u (Table 16).
- `ROOTS`: sentences whose parse has no root or several roots (appendix B).

Run each analysis with `decabench analyze papers.words_and_trees:NAME RUN …`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from decabench.errors import DecabenchError
from decabench.metrics import METRICS
from decabench.models import Analysis, Samples, TrainedModel, write_figure
from decabench.tasks import Example, Tags, Task, Tree
from decabench.vectors import SPECIALS

CLOSEST = 5
"""The number of neighbors in Table 16."""


def _network(model: TrainedModel) -> Any:
    if model.config.name != "jmt":
        raise DecabenchError(
            f"The model {model.config.name} does not have a JMT's layers. Choose a jmt model."
        )
    model.network.eval()
    return model.network


# Tables 14 and 15 ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnknownWords:
    """Scores over all words, and over words that don't occur in the training data, ignoring case."""

    words: int
    """The number of words. Punctuation is not counted in trees."""
    unknown: int
    """The number of unknown words."""
    scores: Mapping[str, float]
    """`accuracy` of tags, or `uas` and `las`, 0-100, over all words."""
    unknown_scores: Mapping[str, float]
    """The scores over unknown words. Empty without unknown words."""


def score_unknown_words(model: TrainedModel, task: Task, examples: Sequence[Example]) -> UnknownWords:
    """Score a model's tags or trees, over all words and over unknown words only.

    Raises DecabenchError if the task has neither tags nor trees.
    """
    known = _network(model).embed.parts.words
    if not isinstance(task.output, Tags | Tree):
        raise DecabenchError(f"{task.name} has neither tags nor trees. Choose another task.")
    replies = [reply.text for reply in model.answer(task, examples)]
    is_known = [[word.lower() in known for word in each.context.split()] for each in examples]
    if isinstance(task.output, Tree):
        # The metric leaves out words that are tagged as punctuation.
        whole = METRICS["parsing"].statistics(replies, examples)
        rest = METRICS["parsing"].statistics(
            replies, [_only_unknown(*pair) for pair in zip(examples, is_known, strict=True)]
        )
        sums = [np.array(rows).sum(0) for rows in (whole, rest)]
    else:
        pairs = [
            (own.lower() == gold.lower(), seen)
            for reply, each, marks in zip(replies, examples, is_known, strict=True)
            for own, gold, seen in zip(reply.split(), each.answers[0].split(), marks, strict=True)
        ]
        right, seen = np.array(pairs, dtype=bool).reshape(-1, 2).T
        sums = [np.array([len(each), each.sum()]) for each in (right, right[~seen])]
    names = ("accuracy",) if isinstance(task.output, Tags) else ("uas", "las")
    scores = [
        {name: 100 * float(part / total[0]) for name, part in zip(names, total[1:], strict=True)}
        if total[0]
        else {}
        for total in sums
    ]
    return UnknownWords(int(sums[0][0]), int(sums[1][0]), *scores)


def _only_unknown(example: Example, is_known: Sequence[bool]) -> Example:
    """Return a copy of the example in which only unknown words count.

    All known words are tagged as punctuation, which the metric leaves out.
    """
    tags = example.meta.get("upos") or example.meta.get("pos")
    own = tags.split() if isinstance(tags, str) else tags
    if own is None:
        relations = [token.partition(":")[2].lower() for token in example.answers[0].split()]
        own = ["PUNCT" if relation.partition(":")[0] == "punct" else "X" for relation in relations]
    marks = ["PUNCT" if seen else tag for seen, tag in zip(is_known, own, strict=True)]
    return replace(example, meta={**example.meta, "upos": marks})


def _show(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in scores.items()) or "no score"


def _analyze_unknown_words(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    found = {}
    for name, (task, examples) in samples.items():
        found[name] = own = score_unknown_words(model, task, examples)
        shown, unknown = _show(own.scores), _show(own.unknown_scores)
        yield f"{name}: {shown} of {own.words:,} words; {unknown} of {own.unknown:,} unknown words"
    yield from write_figure(
        output, "unknown_words", {"tasks": {name: asdict(each) for name, each in found.items()}}
    )


# Table 16 ------------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def closest_words(model: TrainedModel, word: str, whole: bool = True) -> dict[str, list[str]]:
    """Return the words closest to a given word by cosine, in the embeddings and after each task's W_u.

    W_u is the candidate's part of the forward LSTM (Eq. 1) in each task's layer. With `whole`, words are
    compared with their n-grams; otherwise, only the words' own vectors are used. Layers that don't read
    words are left out. Raises DecabenchError for a word that is not in the vocabulary.
    """
    network, lexicon = _network(model), model.words.lexicon
    numbers = np.arange(len(SPECIALS), lexicon.size)
    forms = [form.strip() for form in lexicon.words[len(SPECIALS) : lexicon.size]]
    if word not in forms:
        raise DecabenchError(f"The word {word!r} is not in the vocabulary. Choose another word.")
    embed = network.embed
    x = embed.words[embed.parts.rows(numbers).to(embed.words.device)]
    width = x.shape[1]
    if whole and embed.ngrams is not None:
        members, starts = (part.to(x.device) for part in embed.parts.ngram_rows(numbers))
        x = torch.cat([x, F.embedding_bag(members, embed.ngrams, starts, mode="mean")], 1)
        width = x.shape[1]
    spaces = {"embedding": x}
    for task, level in network.levels.items():
        above = model.config.vertical and level > 1
        if level > 1 and not model.config.shortcuts:
            continue
        hidden, start = model.config.hidden, 2 * model.config.hidden * above
        candidate = network.layers[level - 1].lstm.weight_ih_l0[2 * hidden : 3 * hidden]
        spaces[task] = x @ candidate[:, start : start + width].t()
    return {name: _closest(space, forms, forms.index(word)) for name, space in spaces.items()}


def _closest(space: Tensor, forms: Sequence[str], at: int) -> list[str]:
    unit = F.normalize(space, dim=1)
    order = (unit @ unit[at]).argsort(descending=True, stable=True).tolist()
    others = dict.fromkeys(forms[row] for row in order if forms[row].lower() != forms[at].lower())
    return list(others)[:CLOSEST]


def _analyze_neighbours(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    ((_, (example,)),) = samples.values()
    known = {form.strip() for form in model.words.lexicon.words[len(SPECIALS) : model.words.lexicon.size]}
    words = [word for word in dict.fromkeys(example.context.split()) if word in known]
    found = {
        word: {
            "word and n-grams": closest_words(model, word),
            "word": closest_words(model, word, whole=False),
        }
        for word in words
    }
    for word, tables in found.items():
        yield from (
            f"{word}, {name}: {', '.join(close)}" for name, close in tables["word and n-grams"].items()
        )
    yield from write_figure(output, "neighbours", {"id": example.id, "words": found})


# Appendix B ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roots:
    """The number of roots in the parses of a task's sentences."""

    sentences: int
    """The number of sentences."""
    none: Sequence[str]
    """The ids of sentences without a root."""
    several: Sequence[str]
    """The ids of sentences with several roots."""


def count_roots(model: TrainedModel, task: Task, examples: Sequence[Example]) -> Roots:
    """Count the roots in each sentence's parse. Raises DecabenchError for tasks without trees."""
    if not isinstance(task.output, Tree):
        raise DecabenchError(f"{task.name} has no trees. Choose a parsing task.")
    counts = [
        sum(token.partition(":")[0] == "0" for token in reply.text.split())
        for reply in model.answer(task, examples)
    ]
    ids = [example.id for example in examples]
    return Roots(
        len(ids),
        [id_ for id_, count in zip(ids, counts, strict=True) if count == 0],
        [id_ for id_, count in zip(ids, counts, strict=True) if count > 1],
    )


def _analyze_roots(model: TrainedModel, samples: Samples, output: Path) -> Iterator[str]:
    found = {}
    for name, (task, examples) in samples.items():
        if isinstance(task.output, Tree):
            found[name] = own = count_roots(model, task, examples)
            without = f"{len(own.none):,} of {own.sentences:,} sentences without a root"
            yield f"{name}: {without}, {len(own.several):,} with several"
    if not found:
        raise DecabenchError("None of these tasks has trees. Choose a parsing task with --tasks.")
    yield from write_figure(output, "roots", {"tasks": {name: asdict(each) for name, each in found.items()}})


UNKNOWN_WORDS = Analysis(
    "Tags and heads of words that don't occur in the training data", _analyze_unknown_words
)
NEIGHBOURS = Analysis("The closest words before and after each task's W_u", _analyze_neighbours, single=True)
ROOTS = Analysis("Sentences whose parse has several roots, or none", _analyze_roots)
