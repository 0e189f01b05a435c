"""Heads: what turns the states of a network into answers, one for each kind of output but free text.

A head is made from a task's `Output` once all of its labels are known. `encode_target` puts an answer into the columns
of an item (TARGETS), `losses` compares with them, `answers` gives texts. B examples, T tokens, d the width of the
states, C labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from decabench.errors import DataError
from decabench.models.family import Item, Losses, TextReader
from decabench.models.layers import token_mask
from decabench.tasks import Label, Number, Output, Tags, Tree

__all__ = [
    "CRF",
    "TARGETS",
    "ClassifierHead",
    "CrfHead",
    "Head",
    "ParserHead",
    "RegressorHead",
    "SoftmaxHead",
    "TaskHeads",
    "encode_target",
]

TARGETS: Mapping[str, Literal["labels", "numbers"]] = {
    "label": "labels",
    "tags": "labels",
    "relations": "labels",
    "heads": "numbers",
    "number": "numbers",
}
"""The columns that `encode_target` makes, as `Family.columns` lists them."""


def encode_target(answer: str, output: Output, reader: TextReader, tokens: int) -> Item:
    """Turn an answer into columns, for a context of so many whitespace tokens. Raises DataError if it does not fit."""
    match output:
        case Label():
            return {"label": reader.labels([answer])}
        case Tags():
            _check_count(answer, tokens, "tags")
            return {"tags": reader.labels(answer.split())}
        case Tree():
            _check_count(answer, tokens, "heads")
            parts = [part.partition(":") for part in answer.split()]
            heads = [int(head) if head.isdecimal() else -1 for head, _, _ in parts]
            if not all(0 <= head <= tokens for head in heads):
                raise DataError(
                    f"An answer has a head that is no number from 0 to {tokens}: {answer!r:.200}."
                )
            return {
                "heads": np.array(heads, dtype=np.int64),
                "relations": reader.labels(relation for _, _, relation in parts),
            }
        case Number():
            try:
                return {"number": np.array([float(answer)], dtype=np.float32)}
            except ValueError:
                raise DataError(f"An answer should be a number, and is {answer!r:.200}.") from None
        case _:
            raise TypeError(f"There is no head for {type(output).__name__}.")


def _check_count(answer: str, tokens: int, what: str) -> None:
    if len(answer.split()) != tokens:
        raise DataError(
            f"An answer has {len(answer.split())} {what} for a context of {tokens} tokens: give one for each token, "
            f"separated by spaces ({answer!r:.200})."
        )


class Head(nn.Module):
    """What every head offers."""

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Compare the states of a batch with its target columns; `lengths`, (B,), counts tokens, on the CPU."""
        raise NotImplementedError

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """Give the answers as texts, one for each example."""
        raise NotImplementedError


class TaskHeads(nn.Module):
    """One head for each task, by its name. In the names of parameters the task's dots are slashes."""

    def __init__(self, outputs: Mapping[str, Output], make: Callable[[Any], Head]) -> None:
        super().__init__()
        for task, output in outputs.items():
            self.add_module(task.replace(".", "/"), make(output))

    def __getitem__(self, task: str) -> Head:
        return cast(Head, self._modules[task.replace(".", "/")])


class ClassifierHead(Head):
    """A softmax over the labels of a task, from one state for each example, (B, d)."""

    def __init__(self, width: int, output: Label) -> None:
        super().__init__()
        self.names = output.names
        self.score = nn.Linear(width, len(self.names))

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Cross-entropy, by example."""
        return {"label": (F.cross_entropy(self.score(x), targets["label"][:, 0], reduction="sum"), len(x))}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """The likeliest label of each example."""
        return [self.names[number] for number in self.score(x).argmax(1).tolist()]


class RegressorHead(Head):
    """A number, from one state for each example, (B, d)."""

    def __init__(self, width: int, output: Number) -> None:
        super().__init__()
        self.output = output
        self.score = nn.Linear(width, 1)

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Squared error, by example."""
        return {"number": (F.mse_loss(self.score(x), targets["number"], reduction="sum"), len(x))}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """The numbers, within the scale, with four decimals."""
        values = self.score(x)[:, 0].clamp(self.output.low, self.output.high)
        return [f"{value:.4f}" for value in values.tolist()]


class SoftmaxHead(Head):
    """A softmax over the tags for each token by itself, from (B, T, d)."""

    def __init__(self, width: int, output: Tags) -> None:
        super().__init__()
        self.names = output.names
        self.score = nn.Linear(width, len(self.names))

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Cross-entropy, by token."""
        mask = token_mask(lengths, x)
        loss = F.cross_entropy(self.score(x[mask]), targets["tags"][mask], reduction="sum")
        return {"tags": (loss, int(lengths.sum()))}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """The likeliest tag of each token."""
        return _join_names(self.score(x).argmax(2).tolist(), lengths, self.names)


class CrfHead(Head):
    """The likeliest sequence of tags, by a linear-chain CRF over the states of the tokens, (B, T, d)."""

    def __init__(self, width: int, output: Tags) -> None:
        super().__init__()
        self.names = output.names
        self.score = nn.Linear(width, len(self.names))
        self.crf = CRF(len(self.names))

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """Minus the log-likelihood of the tags, by token."""
        likelihood = self.crf.log_likelihood(self.score(x), targets["tags"], token_mask(lengths, x))
        return {"tags": (-likelihood.sum(), int(lengths.sum()))}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """The likeliest sequence of each example."""
        return _join_names(
            self.crf.decode(self.score(x), token_mask(lengths, x)).tolist(), lengths, self.names
        )


def _join_names(numbers: Sequence[Sequence[int]], lengths: Tensor, names: Sequence[str]) -> list[str]:
    return [
        " ".join(names[number] for number in row[:length])
        for row, length in zip(numbers, lengths.tolist(), strict=True)
    ]


class CRF(nn.Module):
    """A linear chain over C labels (Lafferty et al. 2001): a score for each label's transition to the next.

    Our own, as the packages for it are unmaintained or bring a framework; the tests compare it with pytorch-crf.
    """

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.empty(labels).uniform_(-0.1, 0.1))
        self.end = nn.Parameter(torch.empty(labels).uniform_(-0.1, 0.1))
        self.transitions = nn.Parameter(torch.empty(labels, labels).uniform_(-0.1, 0.1))  # (from, to)

    def log_likelihood(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """log p(labels) of each example, (B,), from scores (B, T, C), labels (B, T) and a mask, True at tokens."""
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
        """The likeliest labels of each example, (B, T); what stands at padding means nothing (Viterbi)."""
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
    """A head and a relation for each token, from (B, T, d), as in Hashimoto et al. 2017, section 2.4.

    m(t, j) = h_t' W h_j scores j as the head of t, with a learned vector for the root; the relation is classified from
    [h_t; h_head], with the right heads in training.
    """

    def __init__(self, width: int, output: Tree) -> None:
        super().__init__()
        self.names = output.relations
        self.root = nn.Parameter(torch.zeros(width))
        self.match = nn.Linear(width, width, bias=False)
        self.hidden = nn.Linear(2 * width, 2 * width)
        self.relation = nn.Linear(2 * width, len(self.names))

    def losses(self, x: Tensor, targets: Mapping[str, Tensor], lengths: Tensor) -> Losses:
        """-log p of the heads and of the relations, by token."""
        mask, count = token_mask(lengths, x), int(lengths.sum())
        matches, candidates = self._match(x, mask)
        heads = targets["heads"]
        head = F.cross_entropy(matches[mask], heads[mask], reduction="sum")
        relations = self._score_relations(x, candidates, heads)[mask]
        relation = F.cross_entropy(relations, targets["relations"][mask], reduction="sum")
        return {"head": (head, count), "relation": (relation, count)}

    def answers(self, x: Tensor, lengths: Tensor) -> list[str]:
        """`head:relation` for each token, each the likeliest by itself: they need not form a tree."""
        matches, candidates = self._match(x, token_mask(lengths, x))
        heads = matches.argmax(2)
        relations = self._score_relations(x, candidates, heads).argmax(2).tolist()
        return [
            " ".join(f"{head}:{self.names[relation]}" for head, relation in zip(hs[:n], rs[:n], strict=True))
            for hs, rs, n in zip(heads.tolist(), relations, lengths.tolist(), strict=True)
        ]

    def _match(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Scores of every candidate as a token's head, (B, T, T + 1), and the candidates (B, T + 1, d), root first."""
        candidates = torch.cat([self.root.expand(len(x), 1, -1), x], 1)
        matches = self.match(x) @ candidates.transpose(1, 2)
        itself = F.pad(torch.eye(x.shape[1], dtype=torch.bool, device=x.device), (1, 0))
        closed = F.pad(~mask, (1, 0))[:, None, :] | itself
        return matches.masked_fill(closed, -torch.inf), candidates

    def _score_relations(self, x: Tensor, candidates: Tensor, heads: Tensor) -> Tensor:
        """Scores of the relations of each token to its head, (B, T, C)."""
        chosen = candidates.gather(1, heads[..., None].expand_as(x))
        return cast(Tensor, self.relation(self.hidden(torch.cat([x, chosen], 2)).relu()))
