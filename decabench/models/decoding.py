"""Greedy decoding and beam search for models that generate answers word by word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from decabench.vectors import EOS, INIT

_LOOK_EVERY = 8
"""The number of steps between checks for finished answers on a GPU. Each check waits for the GPU."""


class Past(Protocol):
    """A model's cache for the partly generated answers, with a row for each example or hypothesis."""

    def step(self, last: Tensor) -> Tensor:
        """Append each row's last word, and return the probabilities of its next word.

        `last` has the shape (rows,), and the result has the shape (rows, words).
        """

    def select(self, rows: Tensor, same_examples: bool = False) -> None:
        """Select rows by index, in the given order. Rows can be repeated or left out.

        If `same_examples` is true, every row still belongs to the same example as before, as in beam
        search. Values shared by all rows of an example can then stay unchanged.
        """


@dataclass(frozen=True)
class GeneratedWords:
    """The answers generated for a batch."""

    outputs: Tensor
    """The output id of each generated word, of shape (B, n), on the CPU. An answer ends with <eos>,
    which also fills the rest of its row.
    """
    finished: list[bool]
    """Whether each answer reached <eos> within the limit."""


@torch.inference_mode()
def greedy(past: Past, count: int, limit: int, device: torch.device) -> GeneratedWords:
    """Generate `count` answers by taking the most likely word at every step.

    Decoding stops when all answers have ended or reached `limit` tokens. Finished rows are removed from the
    batch once they make up half of it.
    """
    look_every = 1 if device.type == "cpu" else _LOOK_EVERY
    alive = torch.arange(count, device=device)
    outputs = torch.full((count, limit), EOS, device=device)
    last = torch.full((count,), INIT, device=device)
    done = torch.zeros(count, dtype=torch.bool, device=device)
    for step in range(limit):
        last = past.step(last).argmax(-1).masked_fill(done, EOS)
        outputs[alive, step] = last
        done = last == EOS
        if (step + 1) % look_every:
            continue
        ended = int(done.sum())
        if ended == len(done):
            break
        if 2 * ended >= len(done):
            rows = (~done).nonzero().squeeze(1)
            past.select(rows)
            alive, last, done = alive[rows], last[rows], done[rows]
    return _collect(outputs[:, : step + 1])


def _collect(outputs: Tensor) -> GeneratedWords:
    outputs = outputs.cpu()
    ends = outputs == EOS
    longest = int((~ends).sum(1).max()) + 1 if len(outputs) else 1
    return GeneratedWords(outputs[:, :longest], ends.any(1).tolist())


@torch.inference_mode()
def beam_search(past: Past, count: int, width: int, limit: int, device: torch.device) -> GeneratedWords:
    """Generate `count` answers by beam search, ranked by mean log-probability per token.

    The beam always contains the greedy answer, so the result never scores lower than that answer. A
    `width` of 1 is greedy decoding.
    """
    look_every = 1 if device.type == "cpu" else _LOOK_EVERY
    past.select(torch.arange(count, device=device).repeat_interleave(width))
    first = torch.arange(count, device=device)[:, None] * width  # (B, 1): each example's first row
    beam = _Beam(count, width, limit, device)
    last = torch.full((count * width,), INIT, device=device)
    for step in range(limit):
        parent = beam.extend(past.step(last).view(count, width, -1), step)
        past.select((first + parent).flatten(), same_examples=True)
        last = beam.outputs[:, :, step].flatten()
        if (step + 1) % look_every == 0 and bool(beam.done.all()):
            break
    return _collect(beam.outputs[:, 0, : step + 1])


class _Beam:
    """The hypotheses for each example, most likely first."""

    def __init__(self, count: int, width: int, steps: int, device: torch.device) -> None:
        self.score = torch.full((count, width), -torch.inf, device=device)  # sums of log-probabilities
        self.score[:, 0] = 0  # all hypotheses start out identical, so only the first is extended
        self.lengths = torch.zeros_like(self.score)  # in tokens, including <eos>
        self.done = torch.zeros_like(self.score, dtype=torch.bool)
        self.outputs = torch.full((count, width, steps), EOS, device=device)
        # The greedy answer's position in the beam.
        self.greedy = torch.zeros(count, dtype=torch.long, device=device)

    def extend(self, p: Tensor, step: int) -> Tensor:
        """Extend the hypotheses with the most likely words.

        `p` contains the probabilities of the next words, of shape (B, width, words). Returns the index of
        the old hypothesis that each new hypothesis extends, of shape (B, width).
        """
        size = p.shape[-1]
        # A finished answer can only continue with <eos>, at no cost.
        only_eos = torch.full((size,), -torch.inf, device=p.device)
        only_eos[EOS] = 0
        total = self.score[..., None] + torch.where(self.done[..., None], only_eos, p.log())
        longer = (self.lengths + ~self.done)[..., None].expand_as(total)
        mean = torch.where(total.isinf(), -torch.inf, total / longer)
        word = p.argmax(-1).masked_fill(self.done, EOS).gather(1, self.greedy[:, None]).squeeze(1)
        chosen = mean.flatten(1).topk(self.score.shape[1]).indices
        # If the greedy answer is not among the best hypotheses, it replaces the last one.
        greedy = self.greedy * size + word
        found = chosen == greedy[:, None]
        missing = ~found.any(1)
        chosen[missing, -1] = greedy[missing]
        found[missing, -1] = True
        self.greedy = found.long().argmax(1)
        parent, words = chosen // size, chosen % size
        self.score = total.flatten(1).gather(1, chosen)
        self.lengths = longer.flatten(1).gather(1, chosen)
        self.outputs = self.outputs.gather(1, parent[..., None].expand_as(self.outputs))
        self.outputs[:, :, step] = words
        self.done = self.done.gather(1, parent) | (words == EOS)
        return parent
