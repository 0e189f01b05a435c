"""Publish a site, and list what changed since the previous build.

A site is built next to the earlier site, and two renames swap them. If a build is killed, the earlier site remains; if
it is killed between the two renames, the next build restores it. A folder is replaced only if it is a site, with a
`site.json` that lists its files. Other files at the top of the folder, such as `CNAME`, are carried over. Anything else
that isn't part of the site stops the build.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from decabench.errors import DecabenchError, StorageError
from decabench.files import lock_file, make_folder, storage_errors, temporary_folder
from decabench.leaderboard.entries import LeaderboardError
from decabench.untrusted import read_json

SITE_FORMAT = "decabench.site/2"

MARKER = "site.json"
"""The file that marks a folder as a site."""

CHANGES = "changes.json"
"""The file that lists a site's builds."""

File = tuple[str, bytes | Path]
"""A file's path in the site, and its content or the path of a file to copy."""

_LARGEST = 64 << 20

_DAMAGED = (DecabenchError, OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors that reading an arbitrary JSON file can raise."""

_PATIENCE = 600.0
"""Seconds to wait for another build of the same site."""


def static_files() -> Iterator[tuple[str, bytes]]:
    """Yield the style sheet, the scripts and the icon of all pages."""
    for path in sorted((Path(__file__).parent / "static").iterdir()):
        yield f"static/{path.name}", path.read_bytes()


def publish(files: Iterable[File], output: Path, about: Mapping[str, Any] | None = None) -> None:
    """Write the files of a site, replacing the site at `output`, if any.

    `about` is stored in the site for `read_whole_site`. Raises LeaderboardError if replacing `output`
    would delete other files, and StorageError if the site can't be written.
    """
    site = Path(os.path.realpath(output))
    before = site.with_name(f".decabench-{site.name}.before")
    find_others(site)
    make_folder(site.parent, "--output")
    refusal = (
        f"Another build is still writing to {site}. Wait until it has finished, or choose another folder."
    )
    with lock_file(site, refusal, _PATIENCE), storage_errors(site):
        if before.is_dir() and not site.exists():
            os.rename(before, site)
        shutil.rmtree(before, ignore_errors=True)
        with temporary_folder(site.parent, site.name) as temporary:
            built = temporary / "site"
            sizes = dict(_write(built, files))
            marker = {"format": SITE_FORMAT, **(about or {}), "files": dict(sorted(sizes.items()))}
            (built / MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
            for name in find_others(site):
                if (built / name).exists():
                    raise LeaderboardError(
                        f"{site / name} has the same name as a page of the site. Rename the file, or move it out of "
                        "the folder."
                    )
                shutil.copy2(site / name, built / name)
            if site.exists():
                os.rename(site, before)
            try:
                os.rename(built, site)
            except OSError:
                os.rename(before, site)
                raise
        shutil.rmtree(before, ignore_errors=True)


def _write(folder: Path, files: Iterable[File]) -> Iterator[tuple[str, int]]:
    folder.mkdir()
    folders = set()
    for name, content in files:
        path = folder / name
        if path.parent not in folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            folders.add(path.parent)
        if isinstance(content, bytes):
            path.write_bytes(content)
            yield name, len(content)
            continue
        try:
            os.link(content, path)
        except OSError:  # not every file system supports hard links
            shutil.copy2(content, path)
        yield name, path.stat().st_size


def read_whole_site(site: Path) -> Mapping[str, Any] | None:
    """Return the data that `publish` stored about a site, or None if any file is missing or has the wrong size."""
    try:
        marker: dict[str, Any] = read_json(site / MARKER, _LARGEST)
        is_whole = all(os.stat(f"{site}/{name}").st_size == size for name, size in marker["files"].items())
        return marker if is_whole else None
    except _DAMAGED:
        return None


def find_others(site: Path) -> list[str]:
    """Return the names of files that are not part of a site, such as `CNAME`, but are kept when it is replaced.

    Raises LeaderboardError if the folder is neither empty nor a site, or contains other files that can't be kept.
    Raises StorageError if `site` is a file.
    """
    if os.path.lexists(site) and not site.is_dir():
        raise StorageError(f"{site} is not a folder. Choose a folder for the board.")
    if site.is_dir() and any(site.iterdir()):
        _read_names(site)  # check this first, because a folder that isn't a site may be too large to search
    found: set[str] = set()
    for here, folders, names in os.walk(site):
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        within = Path(here).relative_to(site)
        found.update((within / name).as_posix() for name in (*names, *links))
    if not found:
        return []
    others = sorted(found - {*_read_names(site), MARKER})
    strange = [name for name in others if "/" in name or (site / name).is_symlink()]
    if strange:
        shown = ", ".join(strange[:3]) + (f" and {len(strange) - 3} more" if len(strange) > 3 else "")
        raise LeaderboardError(
            f"The board in {site} can't be replaced, because the folder also contains other files: {shown}. Only "
            "regular files directly in the folder, such as CNAME, can be kept. Move the listed files, or choose "
            "another folder for the board."
        )
    return others


def _read_names(site: Path) -> Mapping[str, int]:
    path = site / MARKER
    if not path.is_file():
        raise LeaderboardError(
            f"{site} is not empty and is not a board built by decabench. Choose an empty or new folder for the board."
        )
    try:
        names: dict[str, int] = dict(read_json(path, _LARGEST, SITE_FORMAT)["files"])
    except _DAMAGED as error:
        raise LeaderboardError(
            f"{path} is not the record of a board built by this version ({error}). If the folder contains "
            f"only a board, delete the folder and build again. Otherwise, choose an empty or new folder for the board."
        ) from error
    return names


# Changes since the last build

Build = dict[str, Any]
"""A build's `date` and its `changes`.

Each change has the title of the `board`, the `page` and `name` of the row, and a description in `words`.
"""


def list_builds(boards: Mapping[str, Mapping[str, Any]], site: Path) -> list[Build]:
    """Return up to 50 builds that changed something, newest first.

    `boards` contains the new boards as JSON values, by file name. The earlier boards and builds are read from the site
    at `site`, if there is one.
    """

    def read(name: str) -> Any:
        try:
            return read_json(site / name, _LARGEST)
        except _DAMAGED:
            return {}

    try:
        builds: list[Build] = list(read(CHANGES)["builds"])
    except _DAMAGED:
        builds = []
    changes = [
        change
        for file, board in boards.items()
        if isinstance(before := read(f"{file}.json"), dict) and isinstance(before.get("submissions"), list)
        for change in _compare(before, board)
    ]
    if not changes:
        return builds
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [{"date": date, "changes": changes}, *builds][:50]


def _compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    earlier, rows = ({row["page"]: row for row in board["submissions"]} for board in (before, after))
    board = after["suite"]["title"]
    for page, row in rows.items():
        if words := _describe_change(earlier.get(page), row):
            yield {"board": board, "page": page, "name": row["name"], "words": words}
    for page in earlier.keys() - rows.keys():
        name = str(earlier[page]["name"])
        yield {"board": board, "page": "", "name": name, "words": "withdrawn or renamed"}


def _describe_change(before: Mapping[str, Any] | None, row: Mapping[str, Any]) -> str:
    if before is None:
        total = "" if row["total"] is None else f", total {row['total']:.6g}"
        return f"new{total}" + ("" if row["rank"] is None else f", rank {row['rank']}")
    words = []
    for name in ("total", "rank"):
        if before.get(name) != row[name]:
            old, new = ("none" if each is None else f"{each:.6g}" for each in (before.get(name), row[name]))
            words.append(f"{name} {old} → {new}")
    old_scores, scores = (
        {task: each.get("score") for task, each in one["tasks"].items()} for one in (before, row)
    )
    tasks = [task for task in scores if old_scores.get(task) != scores[task]]
    if tasks and before.get("total") == row["total"]:
        words.append(f"changed scores: {', '.join(tasks)}")
    return "; ".join(words)


def write_changes(builds: Sequence[Build]) -> bytes:
    """Return the builds as JSON, for the next build and for other programs."""
    return (json.dumps({"format": "decabench.changes/1", "builds": builds}, indent=1) + "\n").encode("ascii")


_NOT_XML = re.compile("[^\\t\\n\\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_feed(title: str, builds: Sequence[Build], newest: str) -> bytes:
    """Return an Atom feed (RFC 4287) with an entry for each build. Without builds, the feed is dated `newest`."""
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
