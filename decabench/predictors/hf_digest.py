"""What a model on the disk is, whatever its path: a digest of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from decabench.errors import DecabenchError
from decabench.fingerprint import file_digest

__all__ = ["folder_digest"]

DECIDING = {".safetensors", ".json", ".jinja", ".model", ".spm", ".txt", ".tiktoken", ".vocab"}
"""Weights, configuration and tokenizer. What else lies in a folder (a README, a log) decides nothing."""

_known: dict[tuple[str, int, int, int, int], str] = {}
"""Of this process alone: path, inode, size and times of a file to its digest, for it to be read once a run."""


def folder_digest(folder: Path, gguf: str | None) -> str:
    """`sha256:` over the name and sha256 of every file that decides, or of the GGUF file. Raises DecabenchError."""
    try:
        if gguf is not None:
            return _digest(folder / gguf)
        files = sorted(path for path in folder.iterdir() if path.suffix in DECIDING and path.is_file())
        lines = [f"{path.name} {_digest(path)}\n" for path in files]
    except OSError as error:
        raise DecabenchError(f"hf: the model in {folder} cannot be read: {error.strerror}.") from None
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _digest(path: Path) -> str:
    status = path.stat()
    key = (str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key not in _known:
        _known[key] = file_digest(path)
    return _known[key]
