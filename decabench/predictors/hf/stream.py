"""Streams questions through a model, a sorted window at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from decabench.errors import LostDeviceError
from decabench.predictors.hf.generation import Generator, Prompt, Prompter, free, is_lost_device, is_no_memory
from decabench.predictors.protocol import Answer, Failure, Outcome
from decabench.tasks import Question
from decabench.text import excerpt

__all__ = ["BatchSize", "HfPredictor"]

# ---- hf_batching

START = 8
"""The first batch of `auto`."""

GAIN = 1.1
"""A batch twice as large must be so many times as fast, or growing ends."""

WINDOW = 2048
"""The most questions that are read ahead, to be sorted by length, unless one batch has more."""


@dataclass
class BatchSize:
    """Grows while that is faster and fits, halves where it does not fit, and remembers what did not."""

    fixed: int | None
    """The number that was asked for; None is `auto`."""
    most: int
    """The largest batch of `auto`."""

    def __post_init__(self) -> None:
        self._too_large: int | None = None
        self.begin()

    def begin(self) -> None:
        """A new task: its prompts are of another length, but the memory is the same."""
        self._rows = self.fixed or START
        self._grows = self.fixed is None
        self._best: tuple[float, int] = (0.0, self._rows)

    @property
    def window(self) -> int:
        """How many questions to read ahead."""
        return max(self._rows, min(32 * self._rows, WINDOW))

    def rows(self, positions: int, left: int) -> int:
        """The next batch's size, for prompts and answers of at most so many positions, of those that are left."""
        rows = min(self._rows, left)
        while rows > 1 and self._too_large is not None and rows * positions >= self._too_large:
            rows //= 2
        return rows

    def fitted(self, rows: int, positions: int, seconds: float) -> None:
        """A batch went through."""
        if not self._grows or rows < self._rows:
            return
        speed = rows * positions / max(seconds, 1e-9)
        if speed < GAIN * self._best[0]:
            self._grows, self._rows = False, self._best[1]
            return
        self._best = (speed, rows)
        self._rows = min(2 * rows, self.most)
        self._grows = self._rows > rows

    def overflowed(self, rows: int, positions: int) -> None:
        """A batch did not fit."""
        self._too_large = min(rows * positions, self._too_large or rows * positions)
        self._grows = False
        self._rows = max(1, rows // 2)


# ---- hf_predictor


@dataclass
class HfPredictor:
    """Answers one task."""

    prompter: Prompter
    """Makes its prompts."""
    generator: Generator
    """Makes its answers."""
    size: BatchSize
    """How many at once; shared by the tasks of one model."""

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """(id, outcome) after every batch. Of a window the longest come first: what cannot fit shows at once."""
        self.size.begin()
        remaining = iter(questions)
        while window := list(islice(remaining, self.size.window)):
            prompts = []
            for question, prompt in zip(window, self.prompter.prompts(window), strict=True):
                if isinstance(prompt, Failure):
                    yield question.id, prompt
                elif max(prompt.ids, default=0) >= self.generator.loaded.tokens:
                    yield question.id, Failure("the tokenizer has tokens that the model does not know")
                else:
                    prompts.append(prompt)
            yield from self._batches(sorted(prompts, key=lambda prompt: -len(prompt.ids)))

    def _batches(self, prompts: Sequence[Prompt]) -> Iterator[tuple[str, Outcome]]:
        while prompts:
            positions = len(prompts[0].ids) + self.generator.decoding.max_new_tokens
            rows = self.size.rows(positions, len(prompts))
            begun = time.perf_counter()
            outcomes = self._outcomes(prompts[:rows])
            if outcomes is None:
                self.size.overflowed(rows, positions)
                continue
            self.size.fitted(rows, positions, time.perf_counter() - begun)
            for prompt, outcome in zip(prompts[:rows], outcomes, strict=True):
                yield prompt.question.id, outcome
            prompts = prompts[rows:]

    def _outcomes(self, batch: Sequence[Prompt]) -> Sequence[Outcome] | None:
        """One outcome a prompt; None where they do not fit together. What else goes wrong is tried one by one."""
        made = self._tried(batch)
        if not isinstance(made, Exception):
            return made
        lacks_memory = is_no_memory(made)
        if lacks_memory:
            free()
        if len(batch) == 1:
            return [_failure(batch[0], made, lacks_memory)]
        if lacks_memory:
            return None
        return [outcome for prompt in batch for outcome in self._outcomes([prompt]) or ()]

    def _tried(self, batch: Sequence[Prompt]) -> Sequence[Answer] | Exception:
        """The answers, or the error without its trace, which would hold on to the tensors."""
        try:
            return self.generator.answers(batch)
        except Exception as error:
            if is_lost_device(error):
                raise LostDeviceError(
                    f"hf: the device is lost ({excerpt(str(error))}): run the same command again to go on."
                ) from error
            return error.with_traceback(None)


def _failure(prompt: Prompt, error: Exception, lacks_memory: bool) -> Failure:
    if lacks_memory:
        return Failure(f"a prompt of {len(prompt.ids):,} tokens does not fit into the memory, even alone")
    return Failure(f"{type(error).__name__}: {excerpt(str(error))}")
