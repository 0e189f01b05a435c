"""The page of `decabench show --open`: all examples of a task, loaded in pieces, from disk or from a server."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import decabench
from decabench.leaderboard.datafiles import make_script
from decabench.leaderboard.pages import CONTENT_POLICY, make_environment
from decabench.leaderboard.publishing import publish
from decabench.scoring import Browsed, Chosen, Inspected, ScoredExample, browse_examples

__all__ = ["STATIC_FILES", "write_example_pages"]

STATIC_FILES = ("examples.css", "examples.js")
"""Static files that only this page needs."""

_SHARED = ("board.css", "data.js", "difference.js", "icon.svg", "state.js", "theme.js")

_PIECE = 1 << 18
"""The approximate size of a piece in characters of JSON: a page of examples loads in a moment."""


def write_example_pages(shown: Inspected, output: Path, other: Inspected | None = None) -> Path:
    """Write the page into a folder, replacing an earlier one, and return its index.html.

    Raises LeaderboardError if the folder holds something else, StorageError if it cannot be written.
    """
    publish(_files(shown, other), output)
    return output / "index.html"


def _files(shown: Inspected, other: Inspected | None) -> Iterator[tuple[str, bytes]]:
    examples = list(browse_examples(shown, Chosen()))
    theirs = {row.id: row for row in other.rows} if other is not None else {}
    static = Path(__file__).parent / "static"
    for name in (*_SHARED, *STATIC_FILES):
        yield f"static/{name}", (static / name).read_bytes()
    pieces = list(_pieces(examples, theirs))
    for number, piece in enumerate(pieces):
        yield f"data/piece-{number}.js", make_script(f"piece-{number}", piece)
    yield (
        "data/index.js",
        make_script("index", _index(shown, examples, [len(piece) for piece in pieces], theirs)),
    )
    numbers = sorted({number for each in examples for number in each.wordings})
    page = make_environment().get_template("examples.html")
    content = page.render(
        root="",
        shown=shown,
        other=other,
        numbers=numbers,
        flags=sorted({flag for each in examples for flag in each.row.flags}),
        wrong=sum(each.row.right is False for each in examples),
        policy=CONTENT_POLICY,
        version=decabench.__version__,
    )
    yield "index.html", content.encode("utf-8", "replace")


def _pieces(examples: Sequence[Browsed], theirs: dict[str, ScoredExample]) -> Iterator[list[dict[str, Any]]]:
    """Yield the examples' texts in lists of about equal size."""
    piece: list[dict[str, Any]] = []
    size = 0
    for each in examples:
        record = _record(each, theirs.get(each.row.id))
        piece.append(record)
        size += len(json.dumps(record))
        if size >= _PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _record(each: Browsed, other: ScoredExample | None) -> dict[str, Any]:
    record: dict[str, Any] = {
        "question": each.question,
        "context": each.context,
        "references": list(dict.fromkeys(each.row.references)),
        "answer": _answer(each.row),
        "wordings": [[number, _answer(row)] for number, row in sorted(each.wordings.items())],
    }
    if each.course is not None:
        record |= {
            "before": list(each.before),
            "state": each.course.predicted,
            "goldState": each.course.gold,
            "parted": each.parted,
        }
    if other is not None:
        record["other"] = _answer(other)
    return record


def _answer(row: ScoredExample) -> dict[str, Any]:
    return {
        "text": row.prediction or "",
        "raw": row.raw,
        "score": row.score,
        "right": row.right,
        "flags": list(row.flags),
    }


def _index(
    shown: Inspected, examples: Sequence[Browsed], sizes: Sequence[int], theirs: dict[str, ScoredExample]
) -> dict[str, Any]:
    """Return the properties by which the page filters and sorts, as a list for each property."""
    others = [theirs.get(each.row.id) for each in examples]
    return {
        "headline": shown.head.headline,
        "digits": shown.digits,
        "higherIsBetter": shown.head.higher_is_better,
        "extractive": shown.task.extractive,
        "answers": shown.head.answers,
        "sizes": list(sizes),
        "ids": [each.row.id for each in examples],
        "right": [each.row.right for each in examples],
        "otherRight": [None if row is None else row.right for row in others],
        "loss": [each.loss if math.isfinite(each.loss) else None for each in examples],
        "length": [len(each.row.prediction or "") for each in examples],
        "flags": [
            sorted({flag for row in (each.row, *each.wordings.values()) for flag in row.flags})
            for each in examples
        ],
    }
