"""What a run's answers depend on, as one digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["file_digest", "fingerprint"]


def fingerprint(content: Mapping[str, Any]) -> str:
    """`sha256:` over canonical JSON: the order of keys does not matter, every value does."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def file_digest(path: Path) -> str:
    """`sha256:` over the bytes of a file, read a block at a time."""
    with open(path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
