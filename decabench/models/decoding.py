"""Answers, token by token: greedily, or with a beam. What is known of the past is kept, never computed again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from decabench.models.batches import Batch
from decabench.models.layers import KeysValues
from decabench.models.mqan import MQAN, Decoded, DecoderLayer, Encoding, State
from decabench.models.words import EOS, INIT, PAD, UNKNOWN

__all__ = ["Answers", "beam_search", "greedy", "word_numbers"]

_FORBIDDEN = [PAD, UNKNOWN, INIT]
"""What no answer contains: they are masked out of every distribution that a word is chosen from."""


@dataclass(frozen=True)
class Answers:
    """What a model said to a batch."""

    outputs: Tensor
    """(B, n) numbers below v + o on the CPU; <eos> ends an answer, and what follows it is <eos> too"""
    finished: list[bool]
    """Whether an answer came to its <eos> within the limit"""
    weights: Tensor | None = None
    """(B, n, 3): what generating, the context's and the question's pointer weighed at each step, where asked for"""
    context_attention: Tensor | None = None
    """(B, n, l), where asked for"""
    question_attention: Tensor | None = None
    """(B, n, m), where asked for and the model has it"""


@dataclass
class _Past:
    """Everything of the answers so far that the next step needs; rows are examples, or hypotheses of them."""

    batch: Batch
    encoded: Encoding
    context: list[KeysValues]
    """Keys and values of the context, for each layer, (B, p, l, d)"""
    said: list[KeysValues]
    """Room for keys and values of what was said, for each layer, (B, p, steps, d)"""
    state: State
    length: int = 0
    """How many steps `said` holds"""

    def select(self, rows: Tensor, same_examples: bool = False) -> None:
        """Keeps these rows, in this order; `same_examples` where only what was said differs between them."""

        def pick(tensor: Tensor) -> Tensor:
            return tensor[rows]

        self.said = [(pick(k), pick(v)) for k, v in self.said]
        self.state = State(*map(pick, self.state))
        if same_examples:
            return
        self.context = [(pick(k), pick(v)) for k, v in self.context]
        old, batch = self.encoded, self.batch
        self.encoded = Encoding(
            pick(old.context),
            pick(old.context_mask),
            None if old.question is None else pick(old.question),
            pick(old.question_mask),
            pick(old.h),
            pick(old.c),
        )
        outputs = {name: pick(getattr(batch, name)) for name in ("context_output", "question_output")}
        self.batch = replace(batch, **outputs)


def _begin(model: MQAN, batch: Batch, steps: int) -> _Past:
    encoded = model.encoder(batch)
    layers = [cast(DecoderLayer, layer) for layer in model.decoder.layers]
    context = [layer.over_context.keys_values(encoded.context) for layer in layers]
    rows, heads, _, d = context[0][0].shape if context else (0, 0, 0, 0)
    room = [tuple(k.new_zeros(rows, heads, steps, d) for _ in range(2)) for k, _ in context]
    return _Past(batch, encoded, context, cast("list[KeysValues]", room), model.decoder.start(encoded))


def _step(model: MQAN, past: _Past, last: Tensor) -> Decoded:
    """One more step after the words `last`, (B,) numbers below v + o."""
    decoder, at = model.decoder, past.length
    x = decoder.represent(model.words(last[:, None], past.batch), at)  # (B, 1, d)
    mask = past.encoded.context_mask[:, None, None, :]
    for layer, context, (keys, values) in zip(decoder.layers, past.context, past.said, strict=True):
        layer = cast(DecoderLayer, layer)
        key, value = layer.over_answer.keys_values(x)
        keys[:, :, at], values[:, :, at] = key[:, :, 0], value[:, :, 0]
        said = keys[:, :, : at + 1], values[:, :, : at + 1]
        everything = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=x.device)
        x = layer(x, said, context, mask, everything)
    h, context_state, attention, past.state = decoder.recur(x, past.encoded, past.state)
    past.length += 1
    return decoder.point(x, h, context_state, attention, past.encoded)


def _scores(model: MQAN, past: _Past, decoded: Decoded) -> Tensor:
    """p(w) of the step, (B, v + o), zero for what no answer contains."""
    p = model.distribution(decoded, past.batch)[:, 0]
    p[:, _FORBIDDEN] = 0
    return p


@torch.inference_mode()
def greedy(model: MQAN, batch: Batch, limit: int | None = None, trace: bool = False) -> Answers:
    """The likeliest word at every step, until every answer has ended or has `limit` tokens.

    Rows that have ended leave the batch as soon as they are half of it. `trace` keeps switches and attentions.
    """
    model.eval()
    steps = limit or model.config.max_answer_tokens
    past = _begin(model, batch, steps)
    device = past.encoded.context.device
    alive = torch.arange(len(batch), device=device)
    outputs = torch.full((len(batch), steps), EOS, device=device)
    last = torch.full((len(batch),), INIT, device=device)
    done = torch.zeros(len(batch), dtype=torch.bool, device=device)
    traces: list[Decoded] = []
    for step in range(steps):
        decoded = _step(model, past, last)
        if trace:
            traces.append(decoded)
        last = _scores(model, past, decoded).argmax(-1).masked_fill(done, EOS)
        outputs[alive, step] = last
        done = last == EOS
        ended = int(done.sum())
        if ended == len(done):
            break
        if 2 * ended >= len(done) and not trace:
            rows = (~done).nonzero().squeeze(1)
            past.select(rows)
            alive, last, done = alive[rows], last[rows], done[rows]
    outputs = outputs[:, : step + 1].cpu()
    answers = Answers(outputs, (outputs == EOS).any(1).tolist())
    return _with_trace(answers, traces) if trace else answers


def _with_trace(answers: Answers, traces: list[Decoded]) -> Answers:
    gamma = torch.cat([decoded.vocabulary_gate.sigmoid() for decoded in traces], 1)
    lam, rest = (torch.cat([decoded.pointers[at] for decoded in traces], 1) for at in (0, 1))
    questions = [q for decoded in traces if (q := decoded.question_attention) is not None]
    return replace(
        answers,
        weights=torch.stack([gamma, (1 - gamma) * lam, (1 - gamma) * rest], -1).cpu(),
        context_attention=torch.cat([decoded.context_attention for decoded in traces], 1).cpu(),
        question_attention=torch.cat(questions, 1).cpu() if questions else None,
    )


@dataclass
class _Beam:
    """The answers so far that are still in the running, for each example the likeliest first."""

    score: Tensor
    """(B, width): the sum of log-probabilities"""
    lengths: Tensor
    """(B, width): tokens, <eos> included"""
    done: Tensor
    """(B, width)"""
    outputs: Tensor
    """(B, width, steps)"""
    greedy: Tensor
    """(B,): which of them greedy decoding would have"""

    @classmethod
    def begin(cls, count: int, width: int, steps: int, device: torch.device) -> _Beam:
        score = torch.full((count, width), -torch.inf, device=device)
        score[:, 0] = 0  # all hypotheses are the same at first
        outputs = torch.full((count, width, steps), EOS, device=device)
        greedy = torch.zeros(count, dtype=torch.long, device=device)
        return cls(score, torch.zeros_like(score), torch.zeros_like(score, dtype=torch.bool), outputs, greedy)

    def extend(self, p: Tensor, step: int) -> Tensor:
        """Takes the best that p, (B, width, v + o), leads to; returns what each goes on from, (B, width)."""
        size = p.shape[-1]
        # What has ended goes on with <eos> alone, at no cost.
        only_eos = torch.full((size,), -torch.inf, device=p.device)
        only_eos[EOS] = 0
        total = self.score[..., None] + torch.where(self.done[..., None], only_eos, p.log())
        longer = (self.lengths + ~self.done)[..., None].expand_as(total)
        mean = torch.where(total.isinf(), -torch.inf, total / longer)
        word = p.argmax(-1).masked_fill(self.done, EOS).gather(1, self.greedy[:, None]).squeeze(1)
        best = mean.flatten(1).topk(self.score.shape[1]).indices
        chosen, self.greedy = _with_greedy(best, self.greedy * size + word)
        parent, words = chosen // size, chosen % size
        self.score = total.flatten(1).gather(1, chosen)
        self.lengths = longer.flatten(1).gather(1, chosen)
        self.outputs = self.outputs.gather(1, parent[..., None].expand_as(self.outputs))
        self.outputs[:, :, step] = words
        self.done = self.done.gather(1, parent) | (words == EOS)
        return parent


def _with_greedy(chosen: Tensor, greedy: Tensor) -> tuple[Tensor, Tensor]:
    """`chosen`, (B, width), where `greedy`, (B,), has the last place if it had none; and its place, (B,)."""
    found = chosen == greedy[:, None]
    missing = ~found.any(1)
    chosen[missing, -1] = greedy[missing]
    found[missing, -1] = True
    return chosen, found.long().argmax(1)


@torch.inference_mode()
def beam_search(model: MQAN, batch: Batch, width: int, limit: int | None = None) -> Answers:
    """The likeliest answer of those that a beam of `width` finds, by the mean log-probability of its tokens.

    Greedy decoding's answer never leaves the beam, so what is found is at least as likely. The paper decodes
    greedily; a width of 1 does the same.
    """
    model.eval()
    steps = limit or model.config.max_answer_tokens
    past = _begin(model, batch, steps)
    count, device = len(batch), past.encoded.context.device
    past.select(torch.arange(count, device=device).repeat_interleave(width))
    first = torch.arange(count, device=device)[:, None] * width  # (B, 1): each example's first row
    beam = _Beam.begin(count, width, steps, device)
    last = torch.full((count * width,), INIT, device=device)
    for step in range(steps):
        p = _scores(model, past, _step(model, past, last)).view(count, width, -1)
        parent = beam.extend(p, step)
        past.select((first + parent).flatten(), same_examples=True)
        last = beam.outputs[:, :, step].flatten()
        if bool(beam.done.all()):
            break
    best = beam.outputs[:, 0, : step + 1].cpu()
    return Answers(best, (best == EOS).any(1).tolist())


def word_numbers(model: MQAN, answers: Answers, batch: Batch) -> list[list[int]]:
    """Each answer as numbers of the lexicon, for `Lexicon.decode`."""
    table = torch.cat([torch.arange(model.generate.out_features), batch.other_words])
    return cast("list[list[int]]", table[answers.outputs].tolist())
