"""What changed since the last build: a page, its data as JSON, and a feed.

A board is compared with the earlier site in its folder. That site's `changes.json` has the builds before, so a site
that is built over the last one keeps its history; a site in a new folder begins without any.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from decabench.errors import DecabenchError
from decabench.untrusted import read_json

__all__ = ["CHANGES", "Build", "list_builds", "write_changes", "write_feed"]

CHANGES = "changes.json"
"""The file of a site that has its builds."""

FORMAT = "decabench.changes/1"

_MOST_BUILDS = 50
"""How many builds are kept."""

_LARGEST = 64 << 20

Build = dict[str, Any]
"""`date`, and `changes`: a list of a board's title, a page, a name and what happened to it, in words."""


def list_builds(boards: Mapping[str, str], site: Path) -> list[Build]:
    """Return the builds of a site that changed something, the newest first.

    `boards` are the new boards as JSON by the name of their file. `site` is where the earlier site is, if there is one.
    """
    try:
        builds: list[Build] = read_json(site / CHANGES, _LARGEST)["builds"]
    except (DecabenchError, OSError, ValueError, KeyError, TypeError):
        builds = []
    changes = [
        change
        for file, text in boards.items()
        for change in _compare(_read_board(site / f"{file}.json"), json.loads(text))
    ]
    if not changes:
        return builds
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [{"date": date, "changes": changes}, *builds][:_MOST_BUILDS]


def _read_board(path: Path) -> Mapping[str, Any] | None:
    try:
        board: Mapping[str, Any] = read_json(path, _LARGEST)
        return board if isinstance(board["submissions"], list) else None
    except (DecabenchError, OSError, ValueError, KeyError, TypeError):
        return None


def _compare(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    if before is None:
        return
    earlier, rows = ({row["page"]: row for row in board["submissions"]} for board in (before, after))
    board = after["suite"]["title"]
    for page, row in rows.items():
        if page not in earlier:
            words = f"new{_standing(row)}"
        elif not (words := _describe_row(earlier[page], row)):
            continue
        yield {"board": board, "page": page, "name": row["name"], "words": words}
    for page in earlier.keys() - rows.keys():
        yield {
            "board": board,
            "page": "",
            "name": str(earlier[page]["name"]),
            "words": "withdrawn or renamed",
        }


def _standing(row: Mapping[str, Any]) -> str:
    total = "" if row["total"] is None else f", total {row['total']:.6g}"
    return total + ("" if row["rank"] is None else f", rank {row['rank']}")


def _describe_row(before: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    words = []
    for name in ("total", "rank"):
        old, new = before.get(name), row[name]
        if old != new:
            shown = ["none" if value is None else f"{value:.6g}" for value in (old, new)]
            words.append(f"{name} {shown[0]} → {shown[1]}")
    scores = [_scores(one) for one in (before, row)]
    tasks = [task for task in scores[1] if scores[0].get(task) != scores[1][task]]
    if tasks and "total" not in " ".join(words):
        words.append(f"other scores of {', '.join(tasks)}")
    return "; ".join(words)


def _scores(row: Mapping[str, Any]) -> dict[str, Any]:
    return {task: found.get("score") for task, found in row["tasks"].items()}


def write_changes(builds: Sequence[Build]) -> bytes:
    """Return the builds as JSON, for the next build and for other programs."""
    return (json.dumps({"format": FORMAT, "builds": builds}, indent=1) + "\n").encode("ascii")


_NOT_XML = re.compile("[^\\t\\n\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_feed(title: str, builds: Sequence[Build], newest: str) -> bytes:
    """Return an Atom feed (RFC 4287) with an entry for each build; without any, it has the date `newest`."""
    feed = Element("feed", xmlns="http://www.w3.org/2005/Atom")

    def add(parent: Element, tag: str, text: str = "", **attributes: str) -> None:
        SubElement(parent, tag, attributes).text = _NOT_XML.sub("", text) or None

    add(feed, "title", f"{title}: what changed")
    add(feed, "id", f"urn:decabench:{title}")
    add(feed, "updated", builds[0]["date"] if builds else f"{newest}T00:00:00Z")
    add(SubElement(feed, "author"), "name", "decabench")
    add(feed, "link", rel="self", href="changes.xml")
    add(feed, "link", href="changes.html")
    for build in builds:
        entry, changes = SubElement(feed, "entry"), build["changes"]
        add(entry, "title", f"{len(changes)} change{'s' if len(changes) > 1 else ''}")
        add(entry, "id", f"urn:decabench:{title}:{build['date']}")
        add(entry, "updated", build["date"])
        add(entry, "link", href=f"changes.html#{build['date']}")
        lines = [f"{each['name']} ({each['board']}): {each['words']}" for each in changes]
        add(entry, "content", "\n".join(lines), type="text")
    text = tostring(feed, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()
