"""The bundled sample: a small mirror inside the package, in upstream's own formats."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["SAMPLE_FOLDER", "sample_note", "sample_sources"]

SAMPLE_FOLDER = Path(__file__).parent / "sample"
"""Laid out as a mirror: one folder a task, upstream's file names."""


@cache
def sample_sources() -> dict[str, Any]:
    """Source, licence and remarks of every task's sample, from the one file that has them."""
    with (SAMPLE_FOLDER / "SOURCES.toml").open("rb") as file:
        return tomllib.load(file)


def sample_note(task: str) -> str:
    """What must be said wherever a task's sample shows: that it is a stand-in. Empty for real rows."""
    return str(sample_sources().get(task, {}).get("note", ""))
