"""Helpers for the readers in `datasets/`: streaming JSON, and URLs of files in pinned repositories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decabench.errors import DataError
from decabench.tasks.task import Hub, RemoteFile

__all__ = ["github_raw", "hub_file", "stream_items", "stream_lines"]


def stream_items(path: Path, prefix: str) -> Iterator[Any]:
    """Yield the items below `prefix` (in ijson's notation, `data.item`) of one large JSON document."""
    import ijson

    with path.open("rb") as file:
        try:
            yield from ijson.items(file, prefix, use_float=True)
        except (ijson.JSONError, UnicodeDecodeError) as error:
            reason = str(error).partition("\n")[0]  # the next lines draw an arrow to the place
            raise DataError(
                f"{path.name} is not valid JSON ({reason}): prepare again with --force."
            ) from error


def stream_lines(path: Path) -> Iterator[Any]:
    """Yield the values of a file with one JSON value per line."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except ValueError as error:
                raise DataError(f"{path.name}, line {number}, is not JSON ({error}).") from error


def github_raw(repository: str, commit: str, path: str) -> str:
    """Return the URL of a file at a commit of a GitHub repository."""
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def hub_file(hub: Hub, path: str) -> RemoteFile:
    """Return a file of a dataset on the Hugging Face hub, at the pinned commit."""
    return RemoteFile(
        path, (f"https://huggingface.co/datasets/{hub.repository}/resolve/{hub.revision}/{path}",)
    )
