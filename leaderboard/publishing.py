"""Puts a site in place as a whole: it is built next to the earlier one, and two renames exchange them.

A build that is killed leaves the earlier site; if it is killed between the two renames, the next build restores
it. Only a folder that is a site is ever replaced: `site.json` lists its files. Other files at the top of the
folder, such as `CNAME`, are carried over; anything else that isn't part of the site stops the build.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from decabench.errors import DecabenchError, StorageError
from decabench.files import lock_file, make_folder, storage_errors, temporary_folder
from decabench.leaderboard.entries import LeaderboardError
from decabench.untrusted import read_json

__all__ = ["MARKER", "SITE_FORMAT", "inputs_of", "publish"]

SITE_FORMAT = "decabench.site/2"

MARKER = "site.json"
"""The file that makes a folder a site."""

_LARGEST_MARKER = 16 << 20

_PATIENCE = 600.0
"""How many seconds to wait for another build of the same site."""


def publish(files: Iterable[tuple[str, bytes | Path]], output: Path, inputs: str = "") -> None:
    """Write (path in the site, content) pairs as a site that replaces the one at `output`, if any.

    A content that is a path stands for that file, which may be of the earlier site. `inputs` is a digest of
    everything that decides the files, for `inputs_of`; empty if that is unknown.

    Raises LeaderboardError if something else is there, and StorageError if the site cannot be written.
    """
    site = Path(os.path.realpath(output))
    before = site.with_name(f".decabench-{site.name}.before")
    find_others(site)
    with storage_errors(site):
        if site.parent.exists() and not site.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(site))
    make_folder(site.parent, "--output")
    refusal = f"Another build is still writing to {site}: wait for it to finish, or choose another --output."
    with lock_file(site, refusal, _PATIENCE), storage_errors(site):
        if before.is_dir() and not site.exists():
            os.rename(before, site)
        shutil.rmtree(before, ignore_errors=True)
        with temporary_folder(site.parent, site.name) as temporary:
            built = temporary / "site"
            _write(built, files, inputs)
            for name in find_others(site):
                if (built / name).exists():
                    raise LeaderboardError(
                        f"{site / name} has the same name as a page of the site: move it elsewhere."
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


def _write(folder: Path, files: Iterable[tuple[str, bytes | Path]], inputs: str) -> None:
    sizes = {}
    folder.mkdir()
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            _link(content, path)
        sizes[name] = path.stat().st_size
    marker = {"format": SITE_FORMAT, "inputs": inputs, "files": dict(sorted(sizes.items()))}
    (folder / MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")


def _link(file: Path, path: Path) -> None:
    try:
        os.link(file, path)
    except OSError:  # not everywhere can a file have two names
        shutil.copy2(file, path)


def inputs_of(site: Path) -> str | None:
    """Return the inputs of a site as `publish` was given them; None unless it has all its files in their sizes."""
    try:
        marker = read_json(site / MARKER, _LARGEST_MARKER)
        is_whole = all((site / name).stat().st_size == size for name, size in marker["files"].items())
        return str(marker["inputs"]) if is_whole else None
    except (DecabenchError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def find_others(site: Path) -> list[str]:
    """Return the names of files that are carried over with a site; empty if there is nothing at `site` yet.

    Raises LeaderboardError unless the folder is empty or a site, and StorageError if it is a file.
    """
    if not os.path.lexists(site):
        return []
    if not site.is_dir():
        raise StorageError(f"{site} is not a folder: choose another --output.")
    if not any(site.iterdir()):
        return []
    own = {*_read_marker(site), MARKER}
    others: list[str] = []
    strange: list[str] = []
    for here, folders, names in os.walk(site):
        links = [name for name in folders if Path(here, name).is_symlink()]
        is_empty = not folders and not names
        for path in (Path(here, name) for name in (*names, *links)):
            name = path.relative_to(site).as_posix()
            if name in own and path.is_file() and not path.is_symlink():
                continue
            is_kept = path.parent == site and path.is_file() and not path.is_symlink() and name not in own
            (others if is_kept else strange).append(name)
        if is_empty:
            strange.append(f"{Path(here).relative_to(site).as_posix()}/")
    if strange:
        strange.sort()
        shown = ", ".join(strange[:3]) + (f" and {len(strange) - 3} more" if len(strange) > 3 else "")
        raise LeaderboardError(
            f"The board in {site} is replaced as a whole, but the folder also holds other files: {shown}. "
            "Move it elsewhere, or choose another --output. Only files directly in the folder are kept, such as CNAME."
        )
    return sorted(others)


def _read_marker(site: Path) -> Iterable[str]:
    """Return the names of a site's files. Raises LeaderboardError if the folder is not a site."""
    path = site / MARKER
    advice = "choose an empty or a new folder with --output"
    if not path.is_file() or path.is_symlink():
        raise LeaderboardError(f"{site} is not empty and is not a board built by decabench: {advice}.")
    try:
        content = read_json(path, _LARGEST_MARKER)
        if content["format"] != SITE_FORMAT or not all(isinstance(name, str) for name in content["files"]):
            raise ValueError(f"its format is {content['format']!r:.60}")
    except (DecabenchError, OSError, ValueError, KeyError, TypeError) as error:
        raise LeaderboardError(
            f"{path} is not the record of a board built by this version ({error}): if the folder holds "
            f"nothing but a board, remove it and build again; otherwise {advice}."
        ) from error
    names: list[str] = list(content["files"])  # with their sizes; version 2 was a list of names until lately
    return names
