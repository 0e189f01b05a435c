"""Models trained with `decabench train` (`trained:CHECKPOINT`)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DecabenchError, require_torch
from decabench.predictors.protocol import (
    Answer,
    Failure,
    ModelOptions,
    Outcome,
    PredictorFactory,
    Setting,
    chosen_device,
    gpus_for,
    in_batches,
)
from decabench.tasks import Question, Task
from decabench.text import excerpt

if TYPE_CHECKING:
    from decabench.models import TrainedModel

USED = {"device", "batch_size", "max_new_tokens", "beam", "seed"}
"""The names of the options that the predictor uses."""
ADVICE = "Trained models use only --batch-size, --beam, --device, --max-new-tokens and --seed."
"""Advice for users who pass an option that isn't supported."""

_WINDOW = 2048  # questions that are read and sorted by length together
_BATCH_TOKENS = 20_000


def backend(target: str, options: ModelOptions) -> TrainedBackend:
    """Create a backend for the folder of a checkpoint or a training run.

    Raises DecabenchError for an unsupported option, or if a required package isn't installed.
    """
    if not target:
        raise DecabenchError(
            "The predictor 'trained' requires a checkpoint. Write trained:FOLDER, where FOLDER contains a checkpoint "
            "or a training run."
        )
    require_torch("A trained model")
    return TrainedBackend(target, options)


@dataclass(frozen=True)
class TrainedBackend:
    """A checkpoint and its options, before the weights are loaded."""

    target: str
    """The folder of a checkpoint or a training run. The best checkpoint of a run is used."""
    options: ModelOptions
    """The requested options.

    Trained models use only device and batch_size and, if the model family supports them, max_new_tokens and beam. A
    seed is accepted but has no effect, because nothing is sampled.
    """

    prompted = False  # trained models read questions and contexts directly

    @property
    def label(self) -> str:
        """The model's name in a submission, which includes the last part of the folder's path.

        MQAN models have the prefix `mqan:` because older journals use it.
        """
        from decabench.models import Checkpoint, find_family

        is_mqan = Checkpoint.open(self.target).family is find_family("mqan")
        return f"{'mqan' if is_mqan else 'trained'}:{Path(self.target).resolve().name}"

    @property
    def gpus(self) -> float:
        """The number of GPUs per worker."""
        return gpus_for(chosen_device(self.options))

    def check(self, tasks: Sequence[Task]) -> None:
        """Raise DecabenchError if the model can't answer one of the tasks."""
        from decabench.models import Checkpoint

        Checkpoint.open(self.target).check_tasks(tasks)

    def describe(self) -> Mapping[str, Any]:
        """Return the weights' digest, the training configuration and the decoding settings.

        Raises DecabenchError for a decoding option that the model doesn't support.
        """
        from decabench.models import Checkpoint
        from decabench.vectors import short_name

        checkpoint = Checkpoint.open(self.target)
        abilities, record = checkpoint.family.abilities, checkpoint.record
        asked = {"beam": self._beam > 1, "max_new_tokens": self.options.max_new_tokens is not None}
        for option, is_asked in asked.items():
            if is_asked and option not in abilities:
                raise DecabenchError(
                    f"The model {checkpoint.config.name} does not generate text, so it can't use "
                    f"--{option.replace('_', '-')}. Leave out the option."
                )
        if "max_new_tokens" in abilities:
            how: dict[str, Any] = {
                "decoding": "greedy" if self._beam == 1 else {"beam": self._beam},
                "max_new_tokens": self.options.max_new_tokens or checkpoint.config.max_answer_tokens,
            }
        else:  # the answers are labels stored in the checkpoint
            how = {"outputs": record.outputs}
        # File names are enough here because the digests are recorded separately.
        vectors = [short_name(name) for name in record.config["vectors"]]
        original = (record.exported_from or {}).get("weights")
        return {
            "model": checkpoint.config.name,
            "weights": checkpoint.digest(),
            "files": checkpoint.file_digests(),
            "exported_from": original if isinstance(original, str) else None,
            "vectors": record.vectors,
            "config": {**record.config, "vectors": vectors, "init": Path(record.config["init"]).name},
            "step": record.step,
            "training_data": record.data,
            **how,
        }

    @property
    def _beam(self) -> int:
        return self.options.beam or 1

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Load the weights once for all tasks."""
        from decabench.models import Checkpoint

        checkpoint = Checkpoint.open(self.target)
        model = checkpoint.load(self.options.device or "auto")
        learned = checkpoint.record.config["tasks"]

        def make(setting: Setting) -> _Predictor:
            model.check_task(setting.task)
            if setting.task.name not in learned:  # MQAN can try any question, so this is only a warning
                warnings.warn(
                    f"{self.label} was trained on {', '.join(learned)}, not on {setting.task.name}, so its "
                    "answers may be poor.",
                    stacklevel=2,
                )
            return _Predictor(model, setting.task, self.options)

        yield make


@dataclass(frozen=True)
class _Predictor:
    model: TrainedModel
    task: Task
    options: ModelOptions

    def stream(self, questions: Iterable[Question]) -> Iterator[tuple[str, Outcome]]:
        for window in in_batches(questions, lambda: self.options.batch_size or _WINDOW):
            yield from zip((question.id for question in window), self._answer(window), strict=True)

    def _answer(self, window: list[Question]) -> Iterator[Outcome]:
        """Yield an outcome for each question, in order. If memory runs out, each half of the window is answered
        separately.
        """
        from decabench.predictors.hf.generation import free, is_no_memory

        limit, beam = self.options.max_new_tokens, self.options.beam or 1
        tokens = 1 << 62 if self.options.batch_size else _BATCH_TOKENS  # batches of a size that the user set
        try:
            replies = self.model.answer(self.task, window, limit, tokens, beam)
        except Exception as error:
            if not is_no_memory(error):
                raise
            reason = excerpt(str(error))
        else:
            for reply in replies:
                kept = None if reply.context_kept is None else (0, reply.context_kept)
                yield Answer(reply.text, "stop" if reply.finished else "length", kept, reply.read, reply.said)
            return
        free()  # after the `except` block, because the error kept tensors in memory
        if len(window) == 1:
            yield Failure(f"The model ran out of memory, even in a batch of 1 ({reason}).")
            return
        half = len(window) // 2
        yield from self._answer(window[:half])
        yield from self._answer(window[half:])
