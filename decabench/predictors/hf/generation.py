"""Tokens in, text out: one batch through the model.

On a CPU in float32 the same prompt gives, alone and among others, scores that differ by some millionths of the
largest: sums are taken in another order. Greedy decoding turns that into another answer wherever two tokens come
that close, about once in ten thousand tokens. So while a batch runs, the distance between the two best tokens is
watched, and a prompt for which it was ever too small to be sure is run once more alone. Its answer alone is the
answer, and so no answer depends on the size of the batch.
"""

from __future__ import annotations

import gc
import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from decabench.predictors.hf.weights import Loaded
from decabench.predictors.protocol import Answer, Failure, Finish
from decabench.tasks import Question

if TYPE_CHECKING:
    from decabench.prompts import Message, Prompting

__all__ = [
    "CLOSE",
    "DAY",
    "Decoding",
    "Generator",
    "Prompt",
    "Prompter",
    "free",
    "is_lost_device",
    "is_no_memory",
    "room",
]

# ---- hf_memory

_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "Invalid buffer size")
"""What torch says where it has no class of error for it: on CPU and MPS."""


def is_no_memory(error: Exception) -> bool:
    """Whether it says that something did not fit, on any device."""
    import torch

    kind = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    if isinstance(error, (MemoryError, kind)):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _WORDS)


def is_lost_device(error: Exception) -> bool:
    """Whether the GPU refuses all further work of this process, as it does after a failed assertion in a kernel."""
    words = ("CUDA error", "device-side assert", "HIP error")
    return not is_no_memory(error) and any(word in str(error) for word in words)


def free() -> None:
    """Gives back what nothing refers to any more."""
    import torch

    gc.collect()
    with suppress(RuntimeError):  # a device that is lost cannot be tidied, and its error has been told
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        elif torch.backends.mps.is_available():
            torch.mps.empty_cache()


# ---- hf_prompts

DAY = {
    "%Y": "2024",
    "%y": "24",
    "%m": "07",
    "%B": "July",
    "%b": "Jul",
    "%d": "26",
    "%A": "Friday",
    "%a": "Fri",
    "%H": "00",
    "%M": "00",
    "%S": "00",
}
"""What templates that show the date are told: Llama's own default. An answer must not depend on the day."""


@dataclass(frozen=True)
class Prompt:
    """A question, ready for the model."""

    question: Question
    """What was asked."""
    ids: Sequence[int]
    """Its tokens."""
    kept: tuple[int, int] | None
    """Which characters of the context are in it, where not all."""


@dataclass(frozen=True)
class Prompter:
    """Makes prompts for one task."""

    tokenizer: Any
    """The model's."""
    prompting: Prompting
    """How the task is put."""
    chat: bool
    """Whether by the tokenizer's chat template; else as plain text."""
    budget: int | None = None
    """The most tokens of a prompt; None where nothing limits it."""

    def prompts(self, questions: Sequence[Question]) -> list[Prompt | Failure]:
        """One a question, tokenized together: that is several times faster. Failure where no context would fit."""
        all_ids = self._tokens([self._text(question, None) for question in questions])
        return [self._fitted(question, ids) for question, ids in zip(questions, all_ids, strict=True)]

    def count(self, question: Question) -> int:
        """The tokens of the whole prompt."""
        return len(self._of(question, None))

    def _fitted(self, question: Question, ids: Sequence[int]) -> Prompt | Failure:
        from decabench.prompts import PromptTooLongError, fit

        if self.budget is None or len(ids) <= self.budget:
            return Prompt(question, ids, None)
        try:
            kept = fit(question, self.budget, lambda context: len(self._of(question, context)))
        except PromptTooLongError as error:
            return Failure(str(error))
        shown = question.context if kept is None else question.context[slice(*kept)]
        return Prompt(question, self._of(question, shown), kept)

    def _of(self, question: Question, context: str | None) -> Sequence[int]:
        return self._tokens([self._text(question, context)])[0]

    def _tokens(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """The template wrote the special tokens of a chat into the text; a second beginning would be a fault.

        Truncation is off whatever the tokenizer was saved with: a cut is made and told by `fit` alone.
        """
        found: Sequence[Sequence[int]] = self.tokenizer(
            list(texts), add_special_tokens=not self.chat, truncation=False, padding=False, verbose=False
        )["input_ids"]
        return found

    def _text(self, question: Question, context: str | None) -> str:
        if not self.chat:
            return self.prompting.text(question, context)
        return _rendered(self.tokenizer, self.prompting.messages(question, context))


def room(positions: int | None, advised: int | None, asked: int | None, answer: int) -> int | None:
    """The most tokens of a prompt; None where nothing limits it.

    `positions` is how many the model has, `advised` what its tokenizer was saved with, which the number that was
    `asked` for overrules, and `answer` the tokens to leave free where prompt and answer share the window.
    """
    windows = (positions, advised if asked is None else None)
    limits = [window - answer for window in windows if window is not None]
    return min(limits if asked is None else [*limits, asked], default=None)


def _rendered(tokenizer: Any, messages: Sequence[Message]) -> str:
    """The chat as text. A template that refuses or drops the system text gets it with the first of the user's."""
    from jinja2 import TemplateError

    turns = [{"role": message.role, "content": message.content} for message in messages]
    if turns[0]["role"] != "system":
        return _applied(tokenizer, turns)
    try:
        text = _applied(tokenizer, turns)
    except TemplateError:
        text = ""
    if turns[0]["content"].strip() in text and text:
        return text
    system, first, *others = turns
    return _applied(tokenizer, [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *others])


def _applied(tokenizer: Any, turns: Sequence[Mapping[str, str]]) -> str:
    text: str = tokenizer.apply_chat_template(
        list(turns),
        chat_template=_dated(tokenizer.get_chat_template()),
        tokenize=False,
        add_generation_prompt=True,
    )
    return text


def _dated(template: str) -> str:
    """The template with a clock that stands still, where it looks at one: a macro in the place of the function."""
    if "strftime_now" not in template:
        return template
    filters = "".join(f"|replace('{code}', '{value}')" for code, value in DAY.items())
    return (
        f"{{% macro strftime_now(format) %}}{{{{ format{filters} }}}}{{% endmacro %}}{{{{ '' }}}}{template}"
    )


# ---- hf_generation

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
