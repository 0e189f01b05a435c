"""Tokens in, text out: one batch through the model.

On a CPU in float32 the same prompt gives, alone and among others, scores that differ by some millionths of the
largest: sums are taken in another order. Greedy decoding turns that into another answer wherever two tokens come
that close, about once in ten thousand tokens. So while a batch runs, the distance between the two best tokens is
watched, and a prompt for which it was ever too small to be sure is run once more alone. Its answer alone is the
answer, and so no answer depends on the size of the batch.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from decabench.predictor import Answer, Finish
from decabench.predictors.hf_loading import Loaded
from decabench.predictors.hf_prompts import Prompt

__all__ = ["CLOSE", "Decoding", "Generator"]

CLOSE = 2e-5
"""Two scores are close below this part of the largest: five times the worst difference that was measured."""


@dataclass(frozen=True)
class Decoding:
    """How the next token is chosen, and when there is none."""

    task: str
    """The task's name; draws depend on it."""
    max_new_tokens: int
    """The most tokens of an answer."""
    stop: tuple[str, ...] = ()
    """Texts that end an answer, and are not part of it."""
    temperature: float = 0.0
    """0 is greedy."""
    top_p: float | None = None
    """Nucleus sampling."""
    seed: int = 0
    """For draws."""


@dataclass(frozen=True)
class Generator:
    """A model set to one task."""

    loaded: Loaded
    """What generates."""
    decoding: Decoding
    """How."""
    watchful: bool
    """Whether an answer that the batch may have changed is made again alone."""

    def answers(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """One answer a prompt. Raises what torch raises."""
        answers, sure = self._run(prompts)
        for row, is_sure in enumerate(sure):
            if not is_sure:
                answers[row] = self._run([prompts[row]])[0][0]
        return answers

    def _run(self, prompts: Sequence[Prompt]) -> tuple[list[Answer], list[bool]]:
        """The answers, and of which it is sure that the prompts beside them did not matter."""
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        model = self.loaded.model
        watch = _Watch() if self.watchful and len(prompts) > 1 else None
        stops = _Stops(self.loaded.tokenizer, self.decoding.stop, len(prompts))
        inputs = self._padded(prompts)
        with torch.inference_mode():
            output = model.generate(
                **inputs,
                max_new_tokens=self.decoding.max_new_tokens,
                do_sample=False,
                num_beams=1,
                logits_processor=LogitsProcessorList([*self._draws(prompts), *([watch] if watch else [])]),
                stopping_criteria=StoppingCriteriaList([stops] if self.decoding.stop else []),
            )
        begin = 1 if self.loaded.is_encoder_decoder else inputs["input_ids"].shape[1]
        rows = output[:, begin:].tolist()
        made = [self._answer(row, ids, prompts[row], stops) for row, ids in enumerate(rows)]
        if watch is None:
            return made, [True] * len(made)
        return made, watch.sure([answer.completion_tokens or 0 for answer in made])

    def _padded(self, prompts: Sequence[Prompt]) -> dict[str, Any]:
        """Tensors (batch, longest): on the left for causal models, whose answer must follow the prompt at once."""
        import torch

        longest = max(len(prompt.ids) for prompt in prompts)
        ids = torch.full((len(prompts), longest), self.loaded.pad, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            length = len(prompt.ids)
            at = slice(0, length) if self.loaded.is_encoder_decoder else slice(longest - length, longest)
            ids[row, at] = torch.tensor(prompt.ids, dtype=torch.long)
            mask[row, at] = 1
        device = self.loaded.model.device
        return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}

    def _draws(self, prompts: Sequence[Prompt]) -> list[Any]:
        """Nothing for greedy decoding; else what makes the best token of the scores a draw from them."""
        decoding = self.decoding
        if not decoding.temperature:
            return []
        from transformers import TemperatureLogitsWarper, TopPLogitsWarper

        nucleus = [] if decoding.top_p in (None, 1.0) else [TopPLogitsWarper(decoding.top_p)]
        keys = [f"{decoding.seed}\n{decoding.task}\n{prompt.question.id}" for prompt in prompts]
        return [TemperatureLogitsWarper(float(decoding.temperature)), *nucleus, _Gumbel(keys)]

    def _answer(self, row: int, ids: list[int], prompt: Prompt, stops: _Stops) -> Answer:
        end = next((place for place, id_ in enumerate(ids) if id_ in self.loaded.ends), len(ids))
        finish: Finish = "stop" if end < len(ids) else "length"
        made = min(end + 1, len(ids))
        if (stopped := stops.at[row]) is not None and stopped <= end:
            end, finish, made = stopped, "stop", stopped
        text = stops.cut(_decoded(self.loaded.tokenizer, ids[:end]))
        return Answer(text, finish, prompt.kept, len(prompt.ids), made)


class _Stops:
    """Ends a row where one of the texts has appeared in its answer."""

    def __init__(self, tokenizer: Any, texts: tuple[str, ...], rows: int) -> None:
        self.at: list[int | None] = [None] * rows
        """After how many tokens each row was stopped."""
        self._tokenizer = tokenizer
        self._texts = texts
        self._lasts = {text[-1] for text in texts}
        self._may_end: dict[int, bool] = {}
        self._begin: int | None = None

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Which rows are done, (batch,). Called once a token; only tokens that can end a text are looked at."""
        import torch

        if self._begin is None:
            self._begin = input_ids.shape[1] - 1
        for row, last in enumerate(input_ids[:, -1].tolist()):
            if self.at[row] is None and self._can_end(last):
                answer = input_ids[row, self._begin :].tolist()
                if any(text in _decoded(self._tokenizer, answer) for text in self._texts):
                    self.at[row] = len(answer)
        return torch.tensor([at is not None for at in self.at], device=input_ids.device)

    def cut(self, text: str) -> str:
        """The answer up to the first of the texts."""
        return text[: min((at for stop in self._texts if (at := text.find(stop)) >= 0), default=len(text))]

    def _can_end(self, id_: int) -> bool:
        """Whether the token holds the last character of a text; a piece may hide a space, so a space always may."""
        if id_ not in self._may_end:
            piece = _decoded(self._tokenizer, [id_])
            self._may_end[id_] = " " in self._lasts or any(last in piece for last in self._lasts)
        return self._may_end[id_]


class _Watch:
    """Notes at every step whether each row's best token was clearly the best."""

    def __init__(self) -> None:
        self._clear: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """The scores, (batch, vocabulary), as they are: the best is taken out for a moment, which saves a copy."""
        import torch

        best, at = scores.max(dim=-1, keepdim=True)
        second = scores.scatter_(1, at, -math.inf).amax(dim=-1, keepdim=True)
        least = scores.scatter_(1, at, best).amin(dim=-1, keepdim=True)
        largest = torch.maximum(best.abs(), torch.where(least.isinf(), best, least).abs())
        self._clear.append((best - second > CLOSE * largest)[:, 0])
        return scores

    def sure(self, lengths: Sequence[int]) -> list[bool]:
        """Whether every token of an answer was clear, for answers of these lengths."""
        import torch

        rows = torch.stack(self._clear, dim=1).tolist()
        return [all(row[:length]) for row, length in zip(rows, lengths, strict=True)]


class _Gumbel:
    """Adds to every score a draw of Gumbel's distribution: the best of the sums is a draw from the softmax.

    Each row draws from a generator of its own, so that an answer depends on the seed and its example alone.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        import torch

        seeds = [int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big") for key in keys]
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """The scores, (batch, vocabulary), each with its draw."""
        import torch

        size = scores.shape[-1]
        draws = torch.stack([torch.empty(size).exponential_(generator=made) for made in self._generators])
        return scores - draws.clamp_min(math.ulp(0.0)).log().to(scores.device)


def _decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text
