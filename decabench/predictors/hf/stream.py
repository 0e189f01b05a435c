"""Stream a task's questions through a model: windows sorted by length, batches that grow while they fit."""

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

START = 8
"""Rows of the first batch with `--batch-size auto`."""

GAIN = 1.1
"""How much faster a batch twice as large must be for the batch to keep growing."""

WINDOW = 2048
"""The most questions read ahead for sorting by length, unless one batch has more."""


@dataclass
class BatchSize:
    """The size of the next batch: doubled while that is faster and fits, halved if it does not fit.

    accelerate's `find_executable_batch_size` only halves, starts over after each error, and tunes nothing.
    """

    fixed: int | None
    """The size that was asked for; None for `auto`."""
    most: int
    """The largest size for `auto`."""

    def __post_init__(self) -> None:
        self._too_large: int | None = None
        self.begin()

    def begin(self) -> None:
        """Start a new task: its prompts have other lengths, but what did not fit before will not fit now."""
        self._rows = self.fixed or START
        self._grows = self.fixed is None
        self._best: tuple[float, int] = (0.0, self._rows)

    @property
    def window(self) -> int:
        """The number of questions to read ahead."""
        return max(self._rows, min(32 * self._rows, WINDOW))

    def rows(self, positions: int, remaining: int) -> int:
        """Return the size of the next batch of the remaining prompts, for rows of at most `positions` tokens."""
        rows = min(self._rows, remaining)
        while rows > 1 and self._too_large is not None and rows * positions >= self._too_large:
            rows //= 2
        return rows

    def grow(self, rows: int, positions: int, seconds: float) -> None:
        """Record a batch that succeeded; double the size while that pays."""
        if not self._grows or rows < self._rows:
            return
        speed = rows * positions / max(seconds, 1e-9)
        if speed < GAIN * self._best[0]:
            self._grows, self._rows = False, self._best[1]
            return
        self._best = (speed, rows)
        self._rows = min(2 * rows, self.most)
        self._grows = self._rows > rows

    def shrink(self, rows: int, positions: int) -> None:
        """Record a batch that did not fit; halve the size."""
        self._too_large = min(rows * positions, self._too_large or rows * positions)
        self._grows = False
        self._rows = max(1, rows // 2)


@dataclass
class HfPredictor:
    """Answers the questions of one task."""

    prompter: Prompter
    """Makes the prompts."""
    generator: Generator
    """Makes the answers."""
    size: BatchSize
    """The size of the next batch; shared by the tasks of one model."""

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        """Yield (id, outcome) after every batch, longest prompts first, so that one that cannot fit fails early."""
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
                self.size.shrink(rows, positions)
                continue
            self.size.grow(rows, positions, time.perf_counter() - begun)
            for prompt, outcome in zip(prompts[:rows], outcomes, strict=True):
                yield prompt.question.id, outcome
            prompts = prompts[rows:]

    def _outcomes(self, batch: Sequence[Prompt]) -> Sequence[Outcome] | None:
        """Return one outcome for each prompt; None if they do not fit together.

        A batch that fails for any other reason is tried again one by one.
        """
        answers = self._try(batch)
        if not isinstance(answers, Exception):
            return answers
        lacks_memory = is_no_memory(answers)
        if lacks_memory:
            free()
        if len(batch) > 1:
            if lacks_memory:
                return None
            return [outcome for prompt in batch for outcome in self._outcomes([prompt]) or ()]
        if lacks_memory:
            size = len(batch[0].ids)
            return [Failure(f"a prompt of {size:,} tokens does not fit into memory, even alone")]
        return [Failure(f"{type(answers).__name__}: {excerpt(str(answers))}")]

    def _try(self, batch: Sequence[Prompt]) -> Sequence[Answer] | Exception:
        """Return the answers, or the error without its traceback, which would keep the tensors alive."""
        try:
            return self.generator.answers(batch)
        except Exception as error:
            if is_lost_device(error):
                raise LostDeviceError(
                    f"hf: the device was lost ({excerpt(str(error))}): run the same command again to continue."
                ) from error
            return error.with_traceback(None)
