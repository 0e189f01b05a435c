"""Generate answers to a batch of questions from one task.

On a CPU with float32, a prompt's scores differ slightly depending on the batch, by a few millionths of the largest
score, because the order of summation changes. Greedy decoding then gives a different answer if the two best tokens are
that close, about once in ten thousand tokens. To avoid this, the gap between the two best tokens is recorded at every
step. If a gap is too small, the prompt is run again by itself and the second answer is used, so answers don't depend on
the batch size.
"""

from __future__ import annotations

import gc
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from decabench.predictors.hf.constraint import Constraint, make_constraint
from decabench.predictors.hf.weights import Loaded, padded
from decabench.predictors.protocol import (
    Answer,
    Failure,
    Finish,
    add_tokens,
    before_stops,
    is_cut_in_reasoning,
)
from decabench.tasks import Question

if TYPE_CHECKING:
    from decabench.prompts import Message, Prompting


def is_no_memory(error: Exception) -> bool:
    """Return whether an error means that a device ran out of memory.

    accelerate's `should_reduce_batch_size` doesn't recognize MemoryError or the MPS message about a large buffer, and
    trained models run without accelerate.
    """
    import torch

    kind = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    if isinstance(error, (MemoryError, kind)):
        return True
    # On CPU and MPS, torch raises a plain RuntimeError.
    words = ("can't allocate memory", "not enough memory", "out of memory", "Invalid buffer size")
    return isinstance(error, RuntimeError) and any(text in str(error) for text in words)


def is_lost_device(error: Exception) -> bool:
    """Return whether an error means that the GPU can no longer be used, for example after a failed assertion."""
    words = ("CUDA error", "device-side assert", "HIP error")
    return not is_no_memory(error) and any(word in str(error) for word in words)


def free() -> None:
    """Release unused memory on the device."""
    import torch

    gc.collect()
    with suppress(RuntimeError):  # the device can no longer be used, which has already been reported
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        elif torch.backends.mps.is_available():
            torch.mps.empty_cache()


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
"""A fixed date and time, by strftime directive, for chat templates that print the current date.

It keeps answers from changing from day to day. The date is the default in Llama's template.
"""


@dataclass(frozen=True)
class Prompt:
    """A tokenized question."""

    question: Question
    """The question."""
    ids: Sequence[int]
    """Token ids of the prompt."""
    kept: tuple[int, int] | None
    """The part of the context in the prompt, as character offsets [start, end); None for the whole context."""


@dataclass(frozen=True)
class Prompter:
    """Builds the prompts of a single task."""

    tokenizer: Any
    """The model's tokenizer."""
    prompting: Prompting
    """The rules for turning the task's questions into prompts."""
    chat: bool
    """Whether to use the tokenizer's chat template instead of plain text."""
    budget: int | None = None
    """The maximum prompt length in tokens; None for no limit."""
    effort: str | None = None
    """The reasoning effort, for chat templates that support it; None for the template's default."""

    def prompts(self, questions: Sequence[Question]) -> list[Prompt | Failure]:
        """Return a prompt for each question, or a Failure if the question doesn't fit even without its context."""
        # Tokenizing all texts together is several times faster than tokenizing them one by one.
        all_ids = self.tokenize([self._text(question, None) for question in questions])
        return [self._fit(question, ids) for question, ids in zip(questions, all_ids, strict=True)]

    def text_of(self, prompt: Prompt) -> str:
        """Return a prompt's text."""
        context = None if prompt.kept is None else prompt.question.context[slice(*prompt.kept)]
        return self._text(prompt.question, context)

    def count(self, question: Question) -> int:
        """Return the number of tokens in a question's prompt, including the whole context."""
        return len(self._ids(question, None))

    def schema(self, prompt: Prompt) -> dict[str, Any]:
        """Return the JSON schema for the answer to a prompt."""
        question, kept = prompt.question, prompt.kept
        return self.prompting.schema(question, question.context[slice(*kept)] if kept else question.context)

    def _fit(self, question: Question, ids: Sequence[int]) -> Prompt | Failure:
        from decabench.prompts import PromptTooLongError, fit

        if self.budget is None or len(ids) <= self.budget:
            return Prompt(question, ids, None)
        try:
            kept = fit(question, self.budget, lambda context: len(self._ids(question, context)))
        except PromptTooLongError as error:
            return Failure(str(error))
        shown = question.context if kept is None else question.context[slice(*kept)]
        return Prompt(question, self._ids(question, shown), kept)

    def _ids(self, question: Question, context: str | None) -> Sequence[int]:
        return self.tokenize([self._text(question, context)])[0]

    def tokenize(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """Tokenize strings.

        The special tokens at the beginning of a prompt are added only if prompts are plain text.
        """
        # A chat template adds the special tokens to the text, so they must not be added twice. Truncation is
        # disabled regardless of the tokenizer's saved settings, because only `fit` truncates prompts, and
        # records it.
        found: Sequence[Sequence[int]] = self.tokenizer(
            list(texts), add_special_tokens=not self.chat, truncation=False, padding=False, verbose=False
        )["input_ids"]
        return found

    def _text(self, question: Question, context: str | None) -> str:
        if not self.chat:
            return self.prompting.text(question, context)
        switches = {}
        if self.effort is not None:  # templates ignore variables they don't use
            switches = {"reasoning_effort": self.effort, "enable_thinking": self.effort != "none"}
        return _render_chat(self.tokenizer, self.prompting.messages(question, context), switches)


def room(positions: int | None, advised: int | None, asked: int | None, answer: int) -> int | None:
    """Return the maximum prompt length in tokens, or None for no limit.

    `positions` is the model's maximum sequence length. `advised` is the limit saved with the tokenizer; it is
    ignored if the user requested a limit (`asked`). `answer` is the number of tokens to reserve for the answer.
    """
    windows = (positions, advised if asked is None else None)
    limits = [window - answer for window in windows if window is not None]
    return min(limits if asked is None else [*limits, asked], default=None)


def _render_chat(tokenizer: Any, messages: Sequence[Message], switches: Mapping[str, Any]) -> str:
    """Apply the chat template. A system message that it rejects or drops is moved into the first user turn."""
    from jinja2 import TemplateError

    def render(turns: Sequence[Mapping[str, str]]) -> str:
        text: str = tokenizer.apply_chat_template(
            list(turns),
            chat_template=_stop_clock(tokenizer.get_chat_template()),
            tokenize=False,
            add_generation_prompt=True,
            **switches,
        )
        return text

    turns = [{"role": message.role, "content": message.content} for message in messages]
    if turns[0]["role"] != "system":
        return render(turns)
    system, first, *others = turns
    with suppress(TemplateError):
        if (text := render(turns)) and system["content"].strip() in text:
            return text
    return render([{**first, "content": f"{system['content']}\n\n{first['content']}"}, *others])


def _stop_clock(template: str) -> str:
    """Replace a template's clock with a macro that returns DAY, because templates can't be given functions."""
    if "strftime_now" not in template:
        return template
    filters = "".join(f"|replace('{code}', '{value}')" for code, value in DAY.items())
    return (
        f"{{% macro strftime_now(format) %}}{{{{ format{filters} }}}}{{% endmacro %}}{{{{ '' }}}}{template}"
    )


CLOSE = 2e-5
"""The largest gap between the two best scores at which the batch might change the answer.

The gap is relative to the largest score. This value is five times the largest difference measured.
"""


@dataclass(frozen=True)
class Decoding:
    """Settings for choosing tokens and ending answers."""

    task: str
    """The task name, which is part of the random seed."""
    max_new_tokens: int
    """The maximum answer length in tokens."""
    stop: tuple[str, ...] = ()
    """Strings that end an answer and are removed from it."""
    temperature: float = 0.0
    """The sampling temperature; 0 for greedy decoding."""
    top_p: float | None = None
    """The cumulative probability for nucleus sampling."""
    seed: int = 0
    """The random seed for sampling."""
    reasoning_room: int = 0
    """The number of additional tokens for answers that were cut off during reasoning."""
    positions: int | None = None
    """The model's maximum sequence length in tokens; None for no limit."""

    def with_room(
        self,
        prompts: Sequence[Prompt],
        answers: list[Answer],
        prompter: Prompter,
        ask: Callable[[Decoding, Sequence[Prompt]], list[Answer]],
    ) -> list[Answer]:
        """Return the answers, after regenerating those that were cut off during reasoning.

        The new answers may be longer by up to `reasoning_room` tokens. `ask` generates them.
        """
        cut = [row for row, prompt in enumerate(prompts) if self._is_cut(prompt, answers[row], prompter)]
        most = max((len(prompts[row].ids) for row in cut), default=0) + self.max_new_tokens
        room = (
            self.reasoning_room if self.positions is None else min(self.reasoning_room, self.positions - most)
        )
        if not cut or room <= 0:
            return answers
        longer = replace(self, max_new_tokens=self.max_new_tokens + room, reasoning_room=0)
        again = dict(zip(cut, ask(longer, [prompts[row] for row in cut]), strict=True))
        return [
            add_tokens(again[row], [answer]) if row in again else answer for row, answer in enumerate(answers)
        ]

    def _is_cut(self, prompt: Prompt, answer: Answer, prompter: Prompter) -> bool:
        if not self.reasoning_room or answer.finish != "length":
            return False
        shown = prompter.text_of(prompt).rstrip()
        last = shown[max(shown.rfind("<"), shown.rfind("[")) :]
        # Some templates start the reasoning in the prompt.
        opens = is_cut_in_reasoning(Answer(last, "length"))
        return is_cut_in_reasoning(answer, last if opens else "")


@dataclass(frozen=True)
class Generator:
    """A model prepared for a single task."""

    loaded: Loaded
    """The model and its tokenizer."""
    decoding: Decoding
    """The decoding settings."""
    watchful: bool
    """Whether to generate an answer again on its own if the rest of the batch may have changed it."""
    prompter: Prompter
    """Builds the prompts."""
    enforces: bool = False
    """Whether to enforce the JSON schemas of answers."""

    def answers(self, prompts: Sequence[Prompt]) -> list[Answer]:
        """Return the answers to a batch of prompts, in order. Errors from torch are not caught."""
        answers, sure = self._run(prompts)
        for row, is_sure in enumerate(sure):
            if not is_sure:
                answers[row] = self._run([prompts[row]])[0][0]
        return self.decoding.with_room(
            prompts,
            answers,
            self.prompter,
            lambda decoding, cut: replace(self, decoding=decoding).answers(cut),
        )

    def _run(self, prompts: Sequence[Prompt]) -> tuple[list[Answer], list[bool]]:
        """Return the answers and, for each of them, whether it is certain not to depend on the rest of the batch."""
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        model = self.loaded.model
        schemas = map(self.prompter.schema, prompts)
        constraint = make_constraint(self.loaded, list(schemas)) if self.enforces else None
        watch = _Watch(constraint) if self.watchful and len(prompts) > 1 else None
        stops = _Stops(self.loaded.tokenizer, self.decoding.stop, len(prompts))
        inputs = padded(self.loaded, [prompt.ids for prompt in prompts])
        with torch.inference_mode():
            output = model.generate(
                **inputs,
                max_new_tokens=self.decoding.max_new_tokens,
                do_sample=False,
                num_beams=1,
                logits_processor=LogitsProcessorList(
                    [*self._draws(prompts, [constraint] if constraint else []), *([watch] if watch else [])]
                ),
                stopping_criteria=StoppingCriteriaList([stops] if self.decoding.stop else []),
            )
        begin = 1 if self.loaded.is_encoder_decoder else inputs["input_ids"].shape[1]
        rows = output[:, begin:].tolist()
        made = [self._answer(row, ids, prompts[row], stops) for row, ids in enumerate(rows)]
        if watch is None:
            return made, [True] * len(made)
        return made, watch.sure([answer.completion_tokens or 0 for answer in made])

    def _draws(self, prompts: Sequence[Prompt], constraints: list[Constraint]) -> list[Any]:
        decoding = self.decoding
        if not decoding.temperature:
            return constraints
        from transformers import TemperatureLogitsWarper, TopPLogitsWarper

        nucleus = [] if decoding.top_p in (None, 1.0) else [TopPLogitsWarper(decoding.top_p)]
        keys = [f"{decoding.seed}\n{decoding.task}\n{prompt.question.id}" for prompt in prompts]
        return [TemperatureLogitsWarper(float(decoding.temperature)), *constraints, *nucleus, _Gumbel(keys)]

    def _answer(self, row: int, ids: list[int], prompt: Prompt, stops: _Stops) -> Answer:
        end = next((place for place, id_ in enumerate(ids) if id_ in self.loaded.ends), len(ids))
        finish: Finish = "stop" if end < len(ids) else "length"
        made = min(end + 1, len(ids))
        if (stopped := stops.at[row]) is not None and stopped <= end:
            end, finish, made = stopped, "stop", stopped
        text = before_stops(_decode(self.loaded.tokenizer, ids[:end]), self.decoding.stop)
        return Answer(text, finish, prompt.kept, len(prompt.ids), made)


class _Stops:
    """A stopping criterion that ends a row when its answer contains one of the stop strings.

    transformers' `stop_strings` takes half a second to set up for a vocabulary of 50,000, doesn't
    report the number of tokens before the stop, and also matches strings that start in the prompt.
    """

    def __init__(self, tokenizer: Any, texts: tuple[str, ...], rows: int) -> None:
        self.at: list[int | None] = [None] * rows
        """The number of tokens after which each row stopped, or None if it hasn't stopped."""
        self._tokenizer = tokenizer
        self._texts = texts
        self._lasts = {text[-1] for text in texts}
        self._may_end: dict[int, bool] = {}
        self._begin: int | None = None

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Return whether each row is done, as a tensor of shape (batch,).

        A row is decoded only if a stop string may end in its last token.
        """
        import torch

        if self._begin is None:
            self._begin = input_ids.shape[1] - 1
        for row, last in enumerate(input_ids[:, -1].tolist()):
            if self.at[row] is None and self._can_end(last):
                answer = input_ids[row, self._begin :].tolist()
                text = _decode(self._tokenizer, answer)
                if before_stops(text, self._texts) != text:
                    self.at[row] = len(answer)
        return torch.tensor([at is not None for at in self.at], device=input_ids.device)

    def _can_end(self, id_: int) -> bool:
        """Return whether a stop string may end in this token.

        This can't be ruled out if a stop string ends in a space, because decoding may drop spaces, or if
        the token has only some bytes of a character, because it is decoded as U+FFFD.
        """
        if id_ not in self._may_end:
            piece = _decode(self._tokenizer, [id_])
            is_open = " " in self._lasts or "\ufffd" in piece
            self._may_end[id_] = is_open or any(last in piece for last in self._lasts)
        return self._may_end[id_]


class _Watch:
    """A logits processor that records whether the best token of each row leads by a clear margin at each step."""

    def __init__(self, constraint: Constraint | None) -> None:
        self._constraint = constraint
        self._clear: list[Any] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores, of shape (batch, vocabulary), unchanged.

        The best score is temporarily removed in place to avoid a copy.
        """
        import torch

        best, at = scores.max(dim=-1, keepdim=True)
        second = scores.scatter_(1, at, -math.inf).amax(dim=-1, keepdim=True)
        least = scores.scatter_(1, at, best).amin(dim=-1, keepdim=True)
        largest = torch.maximum(best.abs(), torch.where(least.isinf(), best, least).abs())
        if self._constraint:
            largest = torch.maximum(largest, self._constraint.largest)
        self._clear.append((best - second > CLOSE * largest)[:, 0])
        return scores

    def sure(self, lengths: Sequence[int]) -> list[bool]:
        import torch

        rows = torch.stack(self._clear, dim=1).tolist()
        return [all(row[:length]) for row, length in zip(rows, lengths, strict=True)]


class _Gumbel:
    """Samples tokens by adding Gumbel noise to the scores.

    The token with the largest sum is then a draw from the softmax. With transformers' `do_sample`, all rows share a
    random generator. This class uses a separate generator for each row, so an answer depends only on the seed and
    the example.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        import torch

        seeds = [int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big") for key in keys]
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores, of shape (batch, vocabulary), with noise added."""
        import torch

        size = scores.shape[-1]
        draws = torch.stack([torch.empty(size).exponential_(generator=made) for made in self._generators])
        smallest = torch.finfo(draws.dtype).tiny  # a draw of 0 would always select its token
        return scores - draws.clamp_min(smallest).log().to(scores.device)


def _decode(tokenizer: Any, ids: Sequence[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text
