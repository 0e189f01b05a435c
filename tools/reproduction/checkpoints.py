"""What a run of `decabench train` leaves beside its logs: its config, and checkpoints with weights and versions."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from math import prod
from pathlib import Path

EMBEDDINGS = re.compile(r"(^|\.)embed\.")
"""Matches the parameters of embeddings, in every family: those of all tasks, or of one (`heads.TASK.embed`)."""

REFERENCES = "reference/"
"""The prefix of tensors that are not weights: the snapshots of successive regularization."""


def counts_epochs(run: Path) -> bool:
    """Return whether a run was validated at the end of each epoch, so that validations can be numbered by epochs."""
    config = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
    return bool(config.get("epochs")) and not config.get("validate_every")


def count_weights(run: Path) -> int | None:
    """Return the number of weights of a run's last checkpoint, without embeddings; None if there is none."""
    files = sorted(run.glob("checkpoints/*/model*.safetensors"))
    latest = [file for file in files if file.parent == files[-1].parent]
    shapes = [
        entry["shape"]
        for file in latest
        for name, entry in _read_header(file).items()
        if name != "__metadata__" and not EMBEDDINGS.search(name) and not name.startswith(REFERENCES)
    ]
    return sum(prod(shape) for shape in shapes) if latest else None


def read_versions(run: Path) -> dict[str, str]:
    """Return the versions of what a run's last checkpoint was made with; empty if there is none."""
    latest = run / "latest.json"
    if not latest.exists():
        return {}
    folder = run / json.loads(latest.read_bytes())["checkpoint"]
    versions: dict[str, str] = json.loads((folder / "checkpoint.json").read_bytes())["versions"]
    return versions


def _read_header(file: Path) -> Mapping[str, Mapping[str, list[int]]]:
    """Read the header of a safetensors file: tensor name to its description."""
    with file.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        header: Mapping[str, Mapping[str, list[int]]] = json.loads(handle.read(length))
        return header
