"""Trained models on disk: weights in safetensors, everything else in JSON. Nothing is ever unpickled.

A checkpoint's folder holds `model.safetensors`, `vocabulary.json` and `checkpoint.json`; a run's folder holds
`best.json`, which names the checkpoint that validated best.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from decabench.errors import DataError, DecabenchError, MissingDataError
from decabench.files import file_digest
from decabench.models.answering import Answerer, pick_device
from decabench.models.batches import Collator, VectorTable
from decabench.models.mqan import MQAN, ModelConfig
from decabench.models.vectors import Joined, Vectors, open_vectors
from decabench.models.words import Lexicon

__all__ = [
    "BEST",
    "FORMAT",
    "LATEST",
    "MODEL",
    "RECORD",
    "VOCABULARY",
    "Saved",
    "find_checkpoint",
    "join_vectors",
    "load_weights",
]

FORMAT = "decabench.checkpoint/1"
MODEL, VOCABULARY, RECORD = "model.safetensors", "vocabulary.json", "checkpoint.json"
BEST, LATEST = "best.json", "latest.json"


def find_checkpoint(path: Path) -> Path:
    """The folder of a checkpoint: the path itself, or the best one of a run's folder. Raises MissingDataError."""
    for candidate in (path, *(_named(path, name) for name in (BEST, LATEST))):
        if candidate is not None and (candidate / RECORD).is_file():
            return candidate
    raise MissingDataError(
        f"{path} is no checkpoint and no folder of a run: it has no {RECORD} and no {BEST}; train one with "
        "decabench train."
    )


def _named(path: Path, name: str) -> Path | None:
    try:
        return path / str(json.loads((path / name).read_text(encoding="utf-8"))["checkpoint"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path / name} names no checkpoint ({error}): give the checkpoint's own folder."
        ) from error


def join_vectors(names: tuple[str, ...]) -> Vectors:
    """Vectors side by side, by the names in a configuration."""
    return Joined(tuple(open_vectors(name) for name in names))


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, in whole precision. Raises DataError."""
    try:
        return {
            name: value.float() if value.is_floating_point() else value
            for name, value in load_file(path).items()
        }
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read ({error}): use a checkpoint that was not changed.") from error


@dataclass(frozen=True)
class Saved:
    """A checkpoint, before its weights are loaded."""

    folder: Path
    """Where it is."""
    record: Mapping[str, Any]
    """`checkpoint.json`."""

    @classmethod
    def open(cls, path: str | Path) -> Saved:
        """The checkpoint of a folder, or the best of a run's folder. Raises MissingDataError, DataError."""
        folder = find_checkpoint(Path(path).expanduser())
        try:
            record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            if record["format"] != FORMAT:
                raise ValueError(f"its format is {record['format']!r}, not {FORMAT!r}")
            ModelConfig(**record["config"]["model"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{folder / RECORD} cannot be read ({error}).") from error
        return cls(folder, record)

    @property
    def model(self) -> ModelConfig:
        """What the model is made of."""
        return ModelConfig(**self.record["config"]["model"])

    @property
    def vectors(self) -> tuple[str, ...]:
        """The names of its vectors; paths of those that it holds itself."""
        names = self.record["config"]["vectors"]
        own = {name: self.folder / name for name in names if name == Path(name).name}
        return tuple(str(own[name]) if name in own and own[name].is_file() else name for name in names)

    @property
    def cut_context(self) -> Mapping[str, int]:
        """Where contexts are cut, by task."""
        return dict(self.record["config"]["cut_context"])

    def digest(self) -> str:
        """`sha256:` over weights and vocabulary."""
        return file_digest(self.folder / MODEL, self.folder / VOCABULARY)

    def lexicon(self) -> Lexicon:
        """Its vocabulary."""
        return Lexicon.read(self.folder / VOCABULARY)

    def open_vectors(self) -> Vectors:
        """Its vectors, which must be those that it was trained with. Raises DecabenchError."""
        vectors = join_vectors(self.vectors)
        if vectors.digest != self.record["vectors"]:
            raise DecabenchError(
                f"The vectors {', '.join(self.vectors)} have digest {vectors.digest}, and {self.folder} was trained "
                f"with {self.record['vectors']}: use those."
            )
        return vectors

    def load(self, device: str = "auto", precision: str = "auto") -> Answerer:
        """The model with all that it needs, ready to answer. Raises DataError, DecabenchError."""
        table = VectorTable(self.lexicon(), self.open_vectors())
        parts, place = self.model.parts, pick_device(device)
        network = MQAN(self.model, table.vocabulary())
        weights = load_weights(self.folder / MODEL)
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(f"The weights of {self.folder} do not fit its {RECORD} ({error}).") from error
        collate = Collator(table, parts.coattention, parts.question_pointer)
        return Answerer(network.to(place).eval(), collate, place, precision)
