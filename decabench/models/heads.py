"""Heads, which turn a network's states into answers. There is a class for each kind of output.

A head is built from a task's `Output` once all of its labels are known. `with_target` encodes an
answer as columns of an item (TARGETS), `losses` compares states with those columns, and `answers`
returns strings. `HeadedNetwork` calls `losses` and `answers`.

In shapes, B is the number of examples, T the number of tokens, C the number of labels and d the
width of the states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.errors import DataError
from decabench.models.batches import ColumnBatch, Item, TextReader
from decabench.models.family import Losses, ModelReply, MultitaskNetwork
from decabench.models.layers import token_mask
from decabench.tasks import Label, Number, Output, Tags, Task, Tree

TARGETS: Mapping[str, Literal["labels", "numbers"]] = {
    "label": "labels",
    "tags": "labels",
    "relations": "labels",
    "heads": "numbers",
    "number": "numbers",
}
"""The columns created by `encode_target`, in the form of `Family.columns`."""


def with_target(item: Item, answer: str | None, task: Task, reader: TextReader, tokens: int = 0) -> Item:
    """Return a copy of the item with columns for its answer, or the item unchanged if there is no answer.

    `tokens` is the number of tokens in the item. Raises DataError if the answer does not fit the task's
    output.
    """
    return item if answer is None else {**item, **encode_target(answer, task.output, reader, tokens)}


def encode_target(answer: str, output: Output, reader: TextReader, tokens: int) -> Item:
    """Return the columns of an answer to a context with `tokens` tokens.

    Raises DataError if the answer does not fit the output.
    """
    match output:
        case Label():
            return {"label": reader.labels([answer])}
        case Tags():
            _check_count(answer, tokens, "tags")
            return {"tags": reader.labels(answer.split())}
        case Tree():
            _check_count(answer, tokens, "heads")
            parts = [part.partition(":") for part in answer.split()]
            heads = [int(head) if head.isdecimal() and len(head) < 10 else -1 for head, _, _ in parts]
            if not all(0 <= head <= tokens for head in heads):
                raise DataError(f"A head in the answer is not a number from 0 to {tokens}: {answer!r:.200}.")
            if own := [token for token, head in enumerate(heads, 1) if token == head]:
                raise DataError(f"In the answer, token {own[0]} is its own head: {answer!r:.200}.")
            return {
                "heads": np.array(heads, dtype=np.int64),
                "relations": reader.labels(relation for _, _, relation in parts),
            }
        case Number():
            try:
                number = float(answer)
            except ValueError:
                number = math.nan
            if not math.isfinite(number):
                raise DataError(f"The answer should be a number, but is {answer!r:.200}.")
            return {"number": np.array([number], dtype=np.float32)}
        case _:
            raise TypeError(f"No head supports outputs of type {type(output).__name__}.")


def _check_count(answer: str, tokens: int, what: str) -> None:
    if len(answer.split()) != tokens:
        raise DataError(
            f"The number of {what} in the answer {answer!r:.200} is {len(answer.split())} instead of "
            f"{tokens}. There must be as many {what} as tokens in the context, separated by spaces."
        )


class Head(nn.Module):
    """Base class of all heads."""

    by_token = False
    """Whether answers have an element for each token, such as a tag."""

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Return the losses of a batch, given its states and target columns.

        `lengths`, of shape (B,), contains each example's number of tokens and is on the CPU.
        """
        raise NotImplementedError

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Return the answer to each example, as a string."""
        raise NotImplementedError


class LayeredHead(Head):
    """A head that also holds its task's own layers below the output layer.

    The network runs those layers. `losses` and `answers` run only the output layer.
    """

    output: Head

    @property
    def by_token(self) -> bool:  # type: ignore[override]
        return self.output.by_token

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        return self.output.losses(x, targets, lengths)

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        return self.output.answers(x, lengths)


_TAKEN = nn.ParameterDict()


def part_name(task: str) -> str:
    """Return a task's name as used in the names of parameters.

    Dots become slashes. A slash is appended to names that are already attributes of torch modules, such as
    `train`.
    """
    name = task.replace(".", "/")
    return f"{name}/" if hasattr(_TAKEN, name) else name


class TaskHeads(nn.Module):
    """Heads by task name. Parameter names use `part_name`."""

    def __init__(self, outputs: Mapping[str, Output], make: Callable[[Any], Head]) -> None:
        super().__init__()
        for task, output in outputs.items():
            self.add(task, make(output))

    def add(self, task: str, head: Head) -> None:
        """Add a task's head."""
        self.add_module(part_name(task), head)

    def __getitem__(self, task: str) -> Head:
        return cast(Head, self._modules[part_name(task)])


class HeadedNetwork(MultitaskNetwork):
    """A network with a head for each task."""

    vocabulary_rows: tuple[str, ...] = ("embed.table",)
    heads: TaskHeads

    def head_input(self, batch: ColumnBatch) -> tuple[Tensor, Tensor]:
        """Return the input of the task's head and the lengths of the texts.

        The input has the shape (B, d) or (B, T, d), and the lengths have the shape (B,). If examples have
        two texts, the lengths have the shape (2B,), with all first texts before all second texts.
        """
        raise NotImplementedError

    def losses(self, batch: ColumnBatch) -> Losses:
        x, lengths = self.head_input(batch)
        return self.heads[batch.task].losses(x, batch.columns, lengths)

    def answers(self, batch: ColumnBatch, limit: int | None = None, beam: int = 1) -> list[ModelReply]:
        head, (x, lengths) = self.heads[batch.task], self.head_input(batch)
        read = lengths.view(-1, len(batch)).sum(0).tolist()
        return [
            ModelReply(text, True, n, n if head.by_token else 1)
            for text, n in zip(head.answers(x, lengths), read, strict=True)
        ]


class _NamesHead(Head):
    """Base class of heads with a score for each label or tag."""

    def __init__(self, width: int, output: Label | Tags) -> None:
        super().__init__()
        self.names = output.names
        self.score = nn.Linear(width, len(self.names))


class ClassifierHead(_NamesHead):
    """A softmax over a task's labels. The states have the shape (B, d)."""

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Return the cross-entropy, summed over examples."""
        return {"label": (F.cross_entropy(self.score(x), targets["label"][:, 0], reduction="sum"), len(x))}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Return the most likely label of each example."""
        return [self.names[number] for number in self.score(x).argmax(1).tolist()]


class RegressorHead(Head):
    """A linear map from each example's state to a number. The states have shape (B, d)."""

    def __init__(self, width: int, output: Number) -> None:
        super().__init__()
        self.output = output
        self.score = nn.Linear(width, 1)

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Return the squared error, summed over examples."""
        return {"number": (F.mse_loss(self.score(x), targets["number"], reduction="sum"), len(x))}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Return the numbers, clamped to the scale and rounded to four decimal places."""
        values = self.score(x)[:, 0].clamp(self.output.low, self.output.high)
        return [f"{value:.4f}" for value in values.tolist()]


class SoftmaxHead(_NamesHead):
    """A softmax over the tags of each token, from states of shape (B, T, d).

    Each tag is chosen independently.
    """

    by_token = True

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Return the cross-entropy, summed over tokens."""
        mask = token_mask(lengths, x)
        loss = F.cross_entropy(self.score(x[mask]), targets["tags"][mask], reduction="sum")
        return {"tags": (loss, int(lengths.sum()))}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Return the most likely tag of each token."""
        return _join_names(self.score(x).argmax(2).tolist(), lengths, self.names)


class CrfHead(_NamesHead):
    """A linear-chain CRF that predicts all tags of a sequence jointly, from states of shape (B, T, d)."""

    by_token = True

    def __init__(self, width: int, output: Tags) -> None:
        super().__init__(width, output)
        self.crf = CRF(len(self.names))

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Return the negative log-likelihood of the tags, summed over examples, and the number of tokens."""
        likelihood = self.crf.log_likelihood(self.score(x), targets["tags"], token_mask(lengths, x))
        return {"tags": (-likelihood.sum(), int(lengths.sum()))}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Return the most likely sequence of tags for each example."""
        return _join_names(
            self.crf.decode(self.score(x), token_mask(lengths, x)).tolist(), lengths, self.names
        )


def _join_names(numbers: Sequence[Sequence[int]], lengths: Tensor, names: Sequence[str]) -> list[str]:
    return [
        " ".join(names[number] for number in row[:length])
        for row, length in zip(numbers, lengths.tolist(), strict=True)
    ]


class CRF(nn.Module):
    """A linear-chain CRF over C labels (Lafferty et al. 2001), with a score for each transition."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(labels).uniform_(-0.1, 0.1))
        self.end = nn.Parameter(torch.empty(labels).uniform_(-0.1, 0.1))
        self.transitions = nn.Parameter(torch.empty(labels, labels).uniform_(-0.1, 0.1))  # (from, to)

    def log_likelihood(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the log-probability of each example's labels, of shape (B,).

        `scores` has the shape (B, T, C), and `labels` has the shape (B, T). `mask`, of shape (B, T), is
        True at tokens.
        """
        own = (scores.gather(2, labels[..., None]).squeeze(2) * mask).sum(1)
        moves = (self.transitions[labels[:, :-1], labels[:, 1:]] * mask[:, 1:]).sum(1)
        last = labels.gather(1, (mask.sum(1, keepdim=True) - 1).clamp_min(0)).squeeze(1)
        path = self.start[labels[:, 0]] + own + moves + self.end[last]
        total = self.start + scores[:, 0]  # log of the sum over all paths to each label, (B, C)
        for t in range(1, scores.shape[1]):
            onward = (total[:, :, None] + self.transitions).logsumexp(1) + scores[:, t]
            total = torch.where(mask[:, t, None], onward, total)
        return (path - (total + self.end).logsumexp(1)) * mask[:, 0]

    def decode(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Return the most likely label sequence of each example, (B, T), found by the Viterbi algorithm.

        The values at padding are meaningless.
        """
        best, came_from = self.start + scores[:, 0], []
        stay = torch.arange(scores.shape[2], device=scores.device)
        for t in range(1, scores.shape[1]):
            value, parent = (best[:, :, None] + self.transitions).max(1)
            best = torch.where(mask[:, t, None], value + scores[:, t], best)
            came_from.append(torch.where(mask[:, t, None], parent, stay))
        path = [(best + self.end).argmax(1)]
        for parent in reversed(came_from):
            path.append(parent.gather(1, path[-1][:, None]).squeeze(1))
        return torch.stack(path[::-1], 1)


class ParserHead(Head):
    """A dependency parser that predicts each token's head and relation, from states of shape (B, T, d).

    It follows Hashimoto et al. 2017, section 2.4: m(t, j) = h_t' W h_j scores j as the head of t, with
    a learned vector for the root. The relation is classified from [h_t; h_head], using the gold heads
    in training. Heads are predicted independently, so the result isn't always a tree.
    """

    by_token = True

    def __init__(self, width: int, output: Tree) -> None:
        super().__init__()
        self.names = output.relations
        self.root = nn.Parameter(torch.zeros(width))
        self.match = nn.Linear(width, width, bias=False)
        self.hidden = nn.Linear(2 * width, 2 * width)
        self.relation = nn.Linear(2 * width, len(self.names))

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Return the negative log-likelihoods of heads and relations, each summed over tokens."""
        mask, count = token_mask(lengths, x), int(lengths.sum())
        matches, candidates = self._match(x, mask)
        heads = targets["heads"]
        head = F.cross_entropy(matches[mask], heads[mask], reduction="sum")
        relations = self._score_relations(x, candidates, heads)[mask]
        relation = F.cross_entropy(relations, targets["relations"][mask], reduction="sum")
        return {"head": (head, count), "relation": (relation, count)}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Return the most likely `head:relation` of each token."""
        matches, candidates = self._match(x, token_mask(lengths, x))
        heads = matches.argmax(2)
        relations = self._score_relations(x, candidates, heads).argmax(2).tolist()
        return [
            " ".join(f"{head}:{self.names[relation]}" for head, relation in zip(hs[:n], rs[:n], strict=True))
            for hs, rs, n in zip(heads.tolist(), relations, lengths.tolist(), strict=True)
        ]

    def _match(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Score every candidate as the head of every token.

        Returns the scores, of shape (B, T, T + 1), and the candidates, of shape (B, T + 1, d), which are
        the root followed by all tokens. Padding and the token itself are scored -inf.
        """
        candidates = torch.cat([self.root.expand(len(x), 1, -1), x], 1)
        matches = self.match(x) @ candidates.transpose(1, 2)
        itself = F.pad(torch.eye(x.shape[1], dtype=torch.bool, device=x.device), (1, 0))
        closed = F.pad(~mask, (1, 0))[:, None, :] | itself
        return matches.masked_fill(closed, -torch.inf), candidates

    def _score_relations(self, x: Tensor, candidates: Tensor, heads: Tensor) -> Tensor:
        chosen = candidates.gather(1, heads[..., None].expand_as(x))
        return cast(Tensor, self.relation(self.hidden(torch.cat([x, chosen], 2)).relu()))
