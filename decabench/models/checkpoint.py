"""Trained models, on disk and in memory.

A checkpoint is a folder with `model.safetensors`, `vocabulary.json` and `checkpoint.json`. The last file is the
record, which contains the configuration, the fingerprints of the data, the digest of the vectors, the tasks' outputs
and the digests of the other files. Checkpoints of a training run also contain `optimizer.safetensors`. Nothing is
ever unpickled.

A run's folder contains `checkpoints/step-N` for its latest step and its best step. The record of the latest
checkpoint contains the number of the best step.

Loading a checkpoint imports the module of the model's family, which is your own code if the family is custom.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from decabench.errors import DataError, DecabenchError, MissingDataError, StorageError
from decabench.files import file_digest, make_folder, require_machine, storage_errors, write_file
from decabench.models.batches import Integers, Item, TextReader
from decabench.models.devices import pick_device
from decabench.models.family import (
    Batch,
    Count,
    Family,
    ModelReply,
    MultitaskNetwork,
    find_family,
    read_model_config,
    split_of,
)
from decabench.tasks import Example, Label, Number, Output, Question, Tags, Task, Text, Tree
from decabench.untrusted import read_json
from decabench.vectors import JoinedVectors, Lexicon, NoVectors, WordTable, join_vectors, split_name

FORMAT = "decabench.checkpoint/1"
MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
VOCABULARY, RECORD = "vocabulary.json", "checkpoint.json"
FOLDER = "checkpoints"
_STEPS = "step-" + "[0-9]" * 8
_UNREADABLE = "{path} can't be read ({error}). Use an unmodified copy of the checkpoint."


def _check_tasks(family: Family, model: str, outputs: Mapping[str, Output], tasks: Sequence[Task]) -> None:
    family.check_tasks(model, tasks)
    missing = [task.name for task in tasks if task.name not in outputs]
    if family.has_heads and missing:
        raise DecabenchError(
            f"The model {model} has no head for {', '.join(missing)}, because it was trained on {', '.join(outputs)}. "
            "Choose from those tasks, or train the model on "
            f"{' and '.join(missing[:2]) if len(missing) < 3 else 'them'} too."
        )


@dataclass(frozen=True)
class TrainedModel:
    """A network with everything it needs to answer questions."""

    family: Family
    """The model's family."""
    config: Any
    """The configuration from the `[model]` table."""
    network: MultitaskNetwork
    """The network, on `device`."""
    words: WordTable
    """The lexicon, with its word vectors."""
    outputs: Mapping[str, Output]
    """The outputs of the tasks that the model was trained on, including labels."""
    cut_context: Mapping[str, int]
    """The maximum number of context tokens, by task."""
    device: torch.device
    """The device the model runs on."""

    def check_task(self, task: Task) -> None:
        """Raise DecabenchError if the model can't answer a task."""
        _check_tasks(self.family, self.config.name, self.outputs, [task])

    def answer(
        self,
        task: Task,
        questions: Sequence[Question | Example],
        limit: int | None = None,
        batch_tokens: int = 20_000,
        beam: int = 1,
    ) -> list[ModelReply]:
        """Return the answers to a task's questions, in order.

        `limit` is the maximum number of tokens in an answer. `batch_tokens` limits the size of a batch, as in
        `batch_by_length`. In beam search, a question's tokens count once for each of its `beam` hypotheses. Raises
        DecabenchError if the model can't answer the task.
        """
        self.check_task(task)
        reader = self._reader(task)
        items = [self.encode(question, task, reader) for question in questions]
        replies: dict[int, ModelReply] = {}
        self.network.eval()
        lengths = np.array([sum(map(len, item.values())) for item in items])
        for rows in batch_by_length(lengths, batch_tokens // beam):
            batch = self.make_batch(task, [items[row] for row in rows])
            with torch.inference_mode():
                replies |= zip(rows, self.network.answers(batch, limit, beam), strict=True)
        kept = [reader.count_kept(question.context) for question in questions]
        return [replace(replies[row], context_kept=end) for row, end in enumerate(kept)]

    def encode(self, question: Question | Example, task: Task, reader: TextReader | None = None) -> Item:
        """Return the family's encoding of a question, without an answer."""
        reader = reader or self._reader(task)
        asked = Question(question.id, question.question, question.context)
        return self.family.encode(asked, None, task, reader)

    def _reader(self, task: Task) -> TextReader:
        cut, split = self.cut_context.get(task.name), split_of(self.config)
        return TextReader(task, self.words.lexicon, cut, split=split)

    def make_batch(self, task: Task, items: Sequence[Item]) -> Batch:
        """Collate items into a batch on the model's device."""
        return self.family.make_batch(task.name, items, self.words, self.config).to(self.device)


def batch_by_length(lengths: Integers, batch_tokens: int) -> Iterator[list[int]]:
    """Yield batches of row indexes, grouping rows of similar length.

    The number of rows in a batch times the length of its longest row is at most `batch_tokens`, unless a single row is
    longer. A row's length covers all its texts, so a batch can exceed the limit if its texts are padded separately. The
    longest rows come first, so that a batch that is too large for memory fails immediately.
    """
    batch: list[int] = []
    for row in np.argsort(-lengths, kind="stable").tolist():
        if batch and (len(batch) + 1) * int(lengths[batch[0]]) > batch_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def find_checkpoint(path: Path) -> Path:
    """Return the folder of a checkpoint.

    If `path` is a run's folder, returns its best checkpoint, or its latest checkpoint if the best is missing. Raises
    MissingDataError if there is no checkpoint, and DataError if `path` is a file or the run's record is damaged.
    """
    if path.is_file():
        raise DataError(
            f"{path} is a file, not the folder of a checkpoint or training run. Specify the folder "
            "that contains the weights."
        )
    if (path / RECORD).is_file():
        return path
    if (latest := newest_checkpoint(path)) is not None:
        best = (CheckpointRecord.read(latest / RECORD).state or {}).get("best_step")
        folder = path / FOLDER / _step_name(best) if isinstance(best, int) else latest
        return folder if (folder / RECORD).is_file() else latest
    if (path / "train.csv").is_file():
        raise MissingDataError(
            f"The training run in {path} ended before its first checkpoint. Start it again with the "
            "same command, or write checkpoints sooner with --set checkpoint_every=STEPS."
        )
    if not path.is_dir():
        raise MissingDataError(f"The folder {path} doesn't exist. Train a model with decabench train.")
    raise MissingDataError(
        f"{path} is neither a checkpoint nor the folder of a training run (it contains no {RECORD} or {FOLDER}). "
        "Specify the folder that decabench train wrote."
    )


def latest_checkpoint(run: Path) -> Checkpoint | None:
    """Return the checkpoint to resume a run from, or None if the run has no checkpoint yet."""
    folder = newest_checkpoint(run)
    return None if folder is None else Checkpoint.open(folder)


def newest_checkpoint(run: Path) -> Path | None:
    """Return the run's checkpoint folder with the highest step, or None if the run has no checkpoint yet."""
    # A checkpoint is renamed to its final name once it is complete.
    return max((file.parent for file in run.glob(f"{FOLDER}/{_STEPS}/{RECORD}")), default=None)


def _step_name(step: int) -> str:
    return f"step-{step:08d}"


def load_weights(folder: Path, name: str = MODEL) -> dict[str, Tensor]:
    """Load one of a checkpoint's tensor files, by default the weights.

    Half-precision tensors are converted to float32. Raises DataError if the file is damaged or contains
    NaN or infinity.
    """
    path, advice = folder / name, "Use an unmodified copy of the checkpoint"
    try:
        found = {
            key: value.float() if value.is_floating_point() and value.dtype != torch.float64 else value
            for key, value in load_file(path).items()
        }
    except (OSError, SafetensorError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path} can't be read ({error}). {advice}.") from error
    for key, value in found.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise DataError(f"{path} contains a value in {key!r} that is not a finite number. {advice}.")
    return found


def check_size(build: Callable[[], MultitaskNetwork]) -> MultitaskNetwork | None:
    """Build a network without allocating memory, to check that this machine could train it.

    Training needs at least eight bytes per weight: four for the value and four for the gradient. Raises DecabenchError
    if the network is too large.

    Returns the network on torch's meta device, or None if it can't be built there.
    """
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about the tables of an empty vocabulary
            network = build()
    except Exception as error:
        if not re.search("alloc|[Oo]verflow|negative dimension|storage size", str(error)):
            return None
        fault = str(error).splitlines()[0][:200]  # sizes that no machine could allocate
    else:
        size = sum(value.numel() for value in network.state_dict().values())
        if 8 * size <= _memory():
            return network
        fault = f"{size:,} weights"
    raise DecabenchError(
        f"A network with these settings is too large for this machine ({fault}). Choose smaller sizes, for example for "
        "model.dimension or model.layers."
    )


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # unknown, as on Windows
        return 1 << 60


_OUTPUTS: Mapping[str, type[Output]] = {
    kind.__name__.lower(): kind for kind in (Text, Label, Tags, Tree, Number)
}


def output_record(output: Output) -> dict[str, Any]:
    """Return a task's output as JSON values: its kind and its fields."""
    return {"kind": type(output).__name__.lower(), **asdict(output)}


def _output_from_record(record: Mapping[str, Any]) -> Output:
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _OUTPUTS:
        raise ValueError(
            f"an output has the unknown type {str(kind)[:60]!r}; known types are {', '.join(_OUTPUTS)}"
        )
    return msgspec.convert({key: value for key, value in record.items() if key != "kind"}, _OUTPUTS[kind])


def outputs_from_records(records: Mapping[str, Any], tasks: Iterable[str]) -> dict[str, Output]:
    """Return the outputs in a record, in the order of `tasks`.

    A record sorts the outputs by task name, but the order matters to networks that number the tasks
    in the order of training.
    """
    known = [task for task in dict.fromkeys((*tasks, *records)) if task in records]
    return {task: _output_from_record(records[task]) for task in known}


@dataclass(frozen=True)
class CheckpointRecord:
    """The content of `checkpoint.json`.

    Fields that can be None may be missing from files written by earlier versions.
    """

    config: dict[str, Any]
    """The training settings, as returned by `training.to_mapping`."""
    data: dict[str, str]
    """Maps `TASK.SPLIT` to the fingerprint of the prepared data."""
    vectors: str
    """The digest of the word vectors."""
    step: Annotated[int, msgspec.Meta(ge=0)]
    """The number of completed training steps."""
    dimension: int | None = None
    """The length of a word vector."""
    versions: dict[str, str] | None = None
    """The versions of decabench, torch, numpy and Python."""
    outputs: dict[str, dict[str, Any]] | None = None
    """The `output_record` of each task, if the network has a head for each task."""
    state: dict[str, Any] | None = None
    """The progress of the run, as returned by `training.RunState.record`; None in an export."""
    files: dict[str, str] | None = None
    """The digests of the weights, vocabulary and optimizer state, by file name."""
    exported_from: dict[str, Any] | None = None
    """The digests of the original checkpoint's vectors and weights; only in an export."""

    @classmethod
    def read(cls, path: Path) -> CheckpointRecord:
        """Read a record. Raises DataError if the file is not a record or contains invalid values."""
        try:
            record = msgspec.convert(read_json(path, format=FORMAT), cls)
            msgspec.convert(record.config, _Config)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(_UNREADABLE.format(path=path, error=error)) from error
        return record

    def write(self, path: Path) -> None:
        """Write the record atomically."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        write_file(path, json.dumps({**known, "format": FORMAT}, indent=1, sort_keys=True) + "\n")


@dataclass(frozen=True)
class _Config:
    """The settings that every checkpoint must have. The model's family defines the keys of `model`."""

    model: dict[str, Any]
    vectors: list[str]
    tasks: list[str]
    cut_context: dict[str, Count]
    init: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk, whose weights are loaded by `load`."""

    folder: Path
    """The checkpoint's folder."""
    record: CheckpointRecord
    """The content of `checkpoint.json`."""
    config: Any
    """The model's configuration."""
    outputs: Mapping[str, Output]
    """The outputs of the tasks that the model was trained on, including labels; empty if the model has no heads."""

    @classmethod
    def open(cls, path: str | Path) -> Checkpoint:
        """Open the folder of a checkpoint, or the best checkpoint in a run's folder.

        Raises MissingDataError if there is no checkpoint, and DataError if its record can't be read.
        """
        try:
            folder = find_checkpoint(Path(path).expanduser())
        except (OSError, RuntimeError) as error:  # a long name, a loop of links, the home of an unknown user
            require_machine(error, Path(path))
            raise MissingDataError(
                f"The checkpoint {str(path)[:200]} can't be found ({error}). Check the path."
            ) from error
        record = CheckpointRecord.read(folder / RECORD)
        own_family = record.config["model"].get("name")
        if isinstance(own_family, str) and ":" in own_family:
            # Outside `try`, because the file isn't damaged.
            find_family(own_family, f"The checkpoint {folder}")
        try:
            config = read_model_config(record.config["model"])
            outputs = outputs_from_records(record.outputs or {}, record.config["tasks"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, DecabenchError) as error:
            raise DataError(_UNREADABLE.format(path=folder / RECORD, error=error)) from error
        return cls(folder, record, config, outputs)

    def check_tasks(self, tasks: Sequence[Task]) -> None:
        """Raise DecabenchError if the model can't answer one of the tasks. The weights are not loaded."""
        _check_tasks(self.family, self.config.name, self.outputs, tasks)

    @property
    def family(self) -> Family:
        """The model's family."""
        return find_family(self.config.name)

    @property
    def vectors(self) -> tuple[str, ...]:
        """The names of the word vectors and encoders, or their paths if they are in the checkpoint's folder."""

        def own(name: str) -> str:
            prefix, path = split_name(name)
            inside = self.folder / path
            is_there = path == Path(path).name and (inside.is_dir() if prefix else inside.is_file())
            return f"{prefix}{inside}" if path and is_there else name

        return tuple(map(own, self.record.config["vectors"]))

    def digest(self) -> str:
        """Return the SHA-256 digest of the weights and vocabulary, as `sha256:HEX`."""
        return file_digest(*self._files())

    def _files(self) -> list[Path]:
        files = [self.folder / MODEL, self.folder / VOCABULARY]
        if missing := [path.name for path in files if not path.is_file()]:
            raise DataError(
                f"{self.folder} does not contain {', '.join(missing)}. Use a complete copy of the checkpoint."
            )
        return files

    def file_digests(self) -> dict[str, str]:
        """Return a mapping from the weights file's name to its SHA-256 digest, `sha256:HEX`."""
        return {MODEL: file_digest(self.folder / MODEL)}

    def check_files(self, optimizer: bool = False) -> None:
        """Check that the weights and vocabulary have not changed since they were saved.

        If `optimizer` is true, the optimizer state is checked too. A single changed byte in the weights could
        silently change answers. Checkpoints written by earlier versions have no digests and are not checked.
        Raises DataError if a file is missing or has changed.
        """
        files, saved = self._files(), self.record.files
        for path in (*files, *([self.folder / OPTIMIZER] if optimizer else ())) if saved else ():
            wanted = (saved or {}).get(path.name)
            if (wanted or path.name == MODEL) and path.is_file() and (found := file_digest(path)) != wanted:
                raise DataError(
                    f"{path} has changed since it was saved: its digest is {found}, but {RECORD} says {wanted}. Use "
                    "an unmodified copy of the checkpoint."
                )

    def lexicon(self) -> Lexicon:
        """Read the checkpoint's vocabulary. Raises DataError if the file is missing or damaged."""
        return Lexicon.read(self.folder / VOCABULARY)

    def open_vectors(self) -> JoinedVectors:
        """Open the checkpoint's word vectors.

        Raises DecabenchError if they are missing or if the model was trained with other vectors.
        """
        if not self.family.has_fixed_vectors(self.config):  # the network has its own table instead
            if self.record.dimension is None:
                raise DataError(
                    _UNREADABLE.format(
                        path=self.folder / RECORD, error="it does not contain the dimension of its vectors"
                    )
                )
            return JoinedVectors((NoVectors(self.record.dimension),))
        vectors = join_vectors(self.vectors)
        if vectors.digest != self.record.vectors:
            raise DecabenchError(
                f"The vectors {', '.join(self.vectors)} have the digest {vectors.digest}, but {self.folder} was "
                f"trained with vectors that have the digest {self.record.vectors}. Use the original vectors."
            )
        return vectors

    def load(self, device: str = "auto", words: WordTable | None = None) -> TrainedModel:
        """Load the model for answering questions.

        `words` replaces the checkpoint's vocabulary and vectors. Its lexicon must start with the words of that
        vocabulary. Raises DataError if a file is missing or damaged, and DecabenchError if the device or the vectors
        can't be used.
        """
        self.check_files()
        words = words or WordTable(self.lexicon(), self.open_vectors())
        place, weights = pick_device(device), load_weights(self.folder)
        check_size(lambda: self.family.build(self.config, self.outputs, words))
        try:
            network = self.family.build(self.config, self.outputs, words)
            left_out = {
                name: value
                for name, value in network.state_dict().items()
                if name.startswith(self.family.training_only)
            }
            network.load_state_dict({**left_out, **weights})
        except DecabenchError:
            raise
        except Exception as error:  # such as impossible sizes
            raise DataError(
                f"The weights in {self.folder} don't match {RECORD} ({error}). Use an unmodified copy of the "
                "checkpoint."
            ) from error
        cuts = dict(self.record.config["cut_context"])
        network = network.to(place).eval()
        return TrainedModel(self.family, self.config, network, words, self.outputs, cuts, place)


def digest_files(folder: Path) -> dict[str, str]:
    """Return the digests of a checkpoint's weights, vocabulary and optimizer state, by file name."""
    files = (folder / name for name in (MODEL, VOCABULARY, OPTIMIZER))
    return {path.name: file_digest(path) for path in files if path.is_file()}


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    try:
        save_file({key: value.cpu().contiguous() for key, value in tensors.items()}, path)
    except SafetensorError as error:  # raised instead of OSError, for example if the disk is full
        raise StorageError(
            f"{path} can't be written ({error}). Free up disk space, or choose another folder."
        ) from error
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_checkpoint(
    run: Path,
    record: CheckpointRecord,
    weights: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    lexicon: Lexicon,
    best_step: int | None,
) -> None:
    """Write a checkpoint to `checkpoints/step-N`, and remove all other checkpoints except the best."""
    target, part = run / FOLDER / _step_name(record.step), run / FOLDER / ".partial"
    with storage_errors(target):
        shutil.rmtree(part, ignore_errors=True)  # left by a killed run
        make_folder(part)
        for file_name, tensors in ((MODEL, weights), (OPTIMIZER, optimizer)):
            _write_tensors(part / file_name, tensors)
        lexicon.write(part / VOCABULARY)
        replace(record, files=digest_files(part)).write(part / RECORD)
        # Exists if the validation at this step failed before a restart.
        shutil.rmtree(target, ignore_errors=True)
        os.rename(part, target)
    kept = {_step_name(step) for step in (record.step, best_step) if step is not None}
    for folder in (run / FOLDER).glob(_STEPS):
        if folder.name not in kept:
            shutil.rmtree(folder, ignore_errors=True)
