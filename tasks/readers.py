"""Addresses of files in pinned repositories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decabench.errors import DataError
from decabench.tasks.task import Hub, RemoteFile

__all__ = ["github_raw", "hub_file", "stream_items", "stream_lines"]

# ---- jsonfiles


def stream_items(path: Path, prefix: str) -> Iterator[Any]:
    """The items below `prefix` (ijson's notation, `data.item`) of one large JSON document."""
    import ijson

    with path.open("rb") as file:
        try:
            yield from ijson.items(file, prefix, use_float=True)
        except (ijson.JSONError, UnicodeDecodeError) as error:
            told = str(error).partition("\n")[0]  # below it stands a drawing of the place
            raise DataError(f"{path.name} is not whole JSON ({told}): prepare again with --force.") from error


def stream_lines(path: Path) -> Iterator[Any]:
    """The values of a file with one JSON value a line."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                raise DataError(f"{path.name}, line {number}, is not JSON ({error}).") from error


# ---- urls


def github_raw(repository: str, commit: str, path: str) -> str:
    """The bytes of a file at a commit of a GitHub repository."""
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def hub_file(hub: Hub, path: str) -> RemoteFile:
    """A file of a dataset on the Hugging Face hub, at the pinned commit."""
    return RemoteFile(
        path, (f"https://huggingface.co/datasets/{hub.repository}/resolve/{hub.revision}/{path}",)
    )
