"""Finds results files under a folder. What cannot be read is reported, never dropped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from decabench.leaderboard.result import Entry, Unreadable, entry_from_json
from decabench.metrics.errors import DecabenchError

__all__ = ["Found", "LeaderboardError", "Refused", "home_of", "read"]

_DEPTH = 4
"""Folders below the submissions folder that are looked into: `<group>/<submission>/results/<split>`."""

_LARGEST = 16 * 2**20
"""Bytes; a results file has a few thousand."""


class LeaderboardError(DecabenchError, ValueError):
    """The board cannot be built: there is no such folder."""


@dataclass(frozen=True)
class Refused:
    """Something that is not on the board, and why."""

    path: str
    """Relative to the submissions folder."""
    reason: str
    """For a person."""


@dataclass(frozen=True)
class Found:
    """Everything under a submissions folder, in the order of paths."""

    entries: tuple[Entry, ...] = ()
    """Results files that can stand on the board."""
    unreadable: tuple[Refused, ...] = ()
    """Files that look like results and are not."""
    not_evaluated: tuple[str, ...] = ()
    """Folders with a `submission.toml` and no results file."""


def read(submissions: Path, names: Sequence[str]) -> Found:
    """Read every results file: `results*.json`, `*.results.json`, and any `*.json` in a folder `results`."""
    if not submissions.is_dir():
        raise LeaderboardError(f"There is no folder {submissions}; give the one that holds the submissions.")
    entries: list[Entry] = []
    unreadable: list[Refused] = []
    evaluated: set[str] = set()
    seen: set[tuple[str, bytes]] = set()
    for path, shown in _candidates(submissions, unreadable):
        try:
            content, data = _json(path)
            if _is_of_another_kind(data):
                continue
            evaluated.add(home_of(shown))
            if (home_of(shown), content) in seen:
                continue
            seen.add((home_of(shown), content))
            entries.append(entry_from_json(data, shown, names))
        except Unreadable as error:
            evaluated.add(home_of(shown))
            unreadable.append(Refused(_printable(shown), str(error)))
    waiting = (folder for folder in _submission_folders(submissions) if folder not in evaluated)
    return Found(
        tuple(entries),
        tuple(sorted(unreadable, key=lambda refused: refused.path)),
        tuple(_printable(folder) for folder in waiting),
    )


def _candidates(submissions: Path, unreadable: list[Refused]) -> list[tuple[Path, str]]:
    """(file, path to show), each file once however many links lead to it."""
    found: dict[str, tuple[Path, str]] = {}
    for path, shown in sorted(_walk(submissions, unreadable), key=lambda pair: (pair[1].count("/"), pair[1])):
        if _is_results_name(path):
            found.setdefault(os.path.realpath(path), (path, shown))
    return sorted(found.values(), key=lambda pair: pair[1])


def _submission_folders(submissions: Path) -> list[str]:
    manifests = (shown for path, shown in _walk(submissions, []) if path.name == "submission.toml")
    return sorted(home_of(shown) for shown in manifests)


def _walk(submissions: Path, unreadable: list[Refused]) -> Iterator[tuple[Path, str]]:
    def refuse(error: OSError) -> None:
        folder = os.path.relpath(error.filename or submissions, submissions)
        unreadable.append(Refused(_printable(folder), error.strerror or "cannot be opened"))

    for folder, folders, files in os.walk(submissions, onerror=refuse, followlinks=True):
        here = Path(folder)
        depth = len(here.relative_to(submissions).parts)
        folders[:] = sorted(name for name in folders if depth < _DEPTH and not name.startswith("."))
        for name in sorted(files):
            yield here / name, (here / name).relative_to(submissions).as_posix()


def _is_results_name(path: Path) -> bool:
    name = path.name
    if name.startswith(".") or not name.endswith(".json"):
        return False
    return name.startswith("results") or name.endswith(".results.json") or path.parent.name == "results"


def home_of(shown: str) -> str:
    """The submission's folder that a file belongs to; `.` is the submissions folder itself."""
    parts = Path(shown).parent.parts
    return Path(*(parts[: parts.index("results")] if "results" in parts else parts)).as_posix()


def _json(path: Path) -> tuple[bytes, Any]:
    """The bytes and their JSON. Raises Unreadable."""
    try:
        if not path.is_file():
            raise Unreadable("not a regular file")
        if path.stat().st_size > _LARGEST:
            raise Unreadable(f"larger than {_LARGEST // 2**20} MiB")
        content = path.read_bytes()
        return content, json.loads(
            content.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_no_constant
        )
    except Unreadable:
        raise
    except OSError as error:
        raise Unreadable(error.strerror or "cannot be opened") from None
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Unreadable("not a results file: nested too deeply") from None
    except ValueError:
        raise Unreadable("not JSON: a number too long to read") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise Unreadable("not clear: a key stands twice in one object")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise Unreadable(f"not JSON: {name} is no number")


def _is_of_another_kind(data: object) -> bool:
    """Whether it is some other file of decabench's, such as the times kept beside the results."""
    kind = data.get("format") if isinstance(data, dict) else None
    return (
        isinstance(kind, str) and kind.startswith("decabench.") and kind.split("/")[0] != "decabench.results"
    )


def _printable(path: str) -> str:
    return "".join(
        c if c.isprintable() else "\ufffd" for c in path.encode("utf-8", "replace").decode("utf-8")
    )
