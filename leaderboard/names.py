"""File names of pages: plain, stable, and never a submission's own words unchecked."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["file_stem", "stems"]

_LONGEST = 60


def stems(paths: Iterable[str]) -> dict[str, str]:
    """A name for the pages of each results file: `a/results/validation/results.json` to `a-validation`.

    It follows from the path alone, so that links stay. Names that two paths would share get a digest of the path each.
    """
    short = {path: file_stem("-".join(_telling(path))) for path in paths}
    counts = Counter(short.values())
    return {
        path: stem if stem and counts[stem] == 1 else f"{stem or 'x'}-{_digest(path)}"
        for path, stem in short.items()
    }


def file_stem(text: str) -> str:
    """Lower-case letters, digits and dashes; what had to be left out of a name is kept in a digest."""
    stem = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST].strip("-")
    if re.fullmatch(r"[a-z0-9._ /-]*", text) and len(text) <= _LONGEST:
        return stem
    return f"{stem}-{_digest(text)}" if stem else _digest(text)


def _telling(path: str) -> list[str]:
    *folders, name = path.split("/")
    stem = name.removesuffix(".json").removesuffix(".results")
    parts = [part for part in folders if part != "results"]
    return parts if stem == "results" and parts else [*parts, stem]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
