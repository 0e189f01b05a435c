"""`mqan:CHECKPOINT`: a model that `decabench train` made, asked as any other model is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DecabenchError
from decabench.predictors.protocol import Answer, Failure, ModelOptions, Outcome, PredictorFactory, Setting
from decabench.tasks import Question

if TYPE_CHECKING:
    from decabench.models import Answerer

__all__ = ["MqanBackend", "backend"]

_WINDOW = 2048  # questions that are sorted by length together
_BATCH_TOKENS = 20_000
_HONOURED = {"dtype", "device", "batch_size", "max_new_tokens", "beam", "seed"}
_PRECISIONS = {None: "auto", "auto": "auto", "float32": "float32", "bfloat16": "bfloat16"}


def backend(target: str, options: ModelOptions) -> MqanBackend:
    """The backend of a checkpoint's folder, or of a run's. Raises DecabenchError for options it cannot honour."""
    defaults = ModelOptions()
    given = {
        field.name
        for field in fields(options)
        if getattr(options, field.name) != getattr(defaults, field.name)
    }
    if refused := sorted(given - _HONOURED):
        raise DecabenchError(
            f"A trained MQAN cannot honour {', '.join(refused)}: leave out what is not one of "
            f"{', '.join(sorted(_HONOURED))}."
        )
    if options.dtype not in _PRECISIONS:
        raise DecabenchError(
            f"A trained MQAN computes in float32 or bfloat16, not {options.dtype}: name one of them."
        )
    if options.beam is not None and options.beam < 1:
        raise DecabenchError(f"--beam must be 1 or more, and {options.beam} was given.")
    return MqanBackend(target, options)


@dataclass(frozen=True)
class MqanBackend:
    """A checkpoint, before it is loaded."""

    target: str
    """The checkpoint's folder, or a run's, of which the best is taken."""
    options: ModelOptions
    """Of which it honours device, dtype, batch_size, max_new_tokens and beam; it draws nothing, so any seed will
    do."""

    @property
    def prompted(self) -> bool:
        """It reads question and context as they are."""
        return False

    @property
    def label(self) -> str:
        """What the submission calls it, without the folders above."""
        return f"mqan:{Path(self.target).resolve().name}"

    def describe(self) -> Mapping[str, Any]:
        """The weights' digest, the configuration they were trained with, and how it decodes."""
        from decabench.models import Saved

        saved = Saved.open(self.target)
        return {
            "model": saved.model.name,
            "weights": saved.digest(),
            "vectors": saved.record["vectors"],
            "config": _without_folders(saved.record["config"]),
            "step": saved.record["step"],
            "training_data": saved.record["data"],
            "decoding": "greedy" if self._beam == 1 else {"beam": self._beam},
            "max_new_tokens": self.options.max_new_tokens or saved.model.max_answer_tokens,
            "precision": _PRECISIONS[self.options.dtype],
        }

    @property
    def _beam(self) -> int:
        return self.options.beam or 1

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Loads the weights once for all tasks."""
        from decabench.models import Saved

        saved = Saved.open(self.target)
        answerer = saved.load(self.options.device or "auto", _PRECISIONS[self.options.dtype])
        cuts = saved.cut_context

        def make(setting: Setting) -> _Predictor:
            return _Predictor(answerer, cuts.get(setting.task.name), self.options)

        yield make


def _without_folders(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration as a submission may show it: files by their names; their digests stand beside it."""
    names = {"vectors": [Path(name).name for name in config["vectors"]], "init": Path(config["init"]).name}
    return {**config, **names}


@dataclass(frozen=True)
class _Predictor:
    """Answers a task's questions in windows, each sorted by length."""

    answerer: Answerer
    context_limit: int | None
    options: ModelOptions

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        waiting = iter(questions)
        while window := list(islice(waiting, self.options.batch_size or _WINDOW)):
            yield from zip((question.id for question in window), self._outcomes(window), strict=True)

    def _outcomes(self, window: list[Question]) -> Iterator[Outcome]:
        from decabench.models import kept_characters
        from decabench.predictors.hf.generation import free, is_no_memory

        pairs = [(question.context, question.question) for question in window]
        options = self.options
        tokens = 1 << 62 if options.batch_size else _BATCH_TOKENS  # a given batch is not cut further
        try:
            replies = self.answerer.answer(
                pairs, self.context_limit, options.max_new_tokens, tokens, options.beam or 1
            )
        except Exception as error:
            if not is_no_memory(error):
                raise
            free()
            yield from (Failure(f"The model ran out of memory ({error}).") for _ in window)
            return
        for question, reply in zip(window, replies, strict=True):
            kept = None
            if self.context_limit is not None:
                end = kept_characters(question.context, self.context_limit)
                kept = None if end is None else (0, end)
            yield Answer(reply.text, "stop" if reply.finished else "length", kept, reply.read, reply.said)
