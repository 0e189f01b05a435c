"""Puts a site in place as a whole: it is built aside, and its folder is swapped with the one before.

A build that is killed leaves the earlier site as it was, and a temporary folder beside it that the next build removes.
Only a folder that is wholly a site is ever replaced: `site.json` lists every file with its digest, and anything else
but files at the top of the folder, which move along (`CNAME`, `.nojekyll`), stops the build.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from decabench.errors import DecabenchError, StorageError
from decabench.files import (
    file_digest,
    is_temporary,
    make_folder,
    storage_errors,
    temporary_folder,
    try_lock,
)
from decabench.leaderboard.entries import LeaderboardError
from decabench.untrusted import read_json

__all__ = ["MARKER", "SITE_FORMAT", "publish"]

SITE_FORMAT = "decabench.site/2"

MARKER = "site.json"
"""The file that makes a folder a site."""

_BEFORE = "site.before"
"""The previous site in a build's temporary folder, while two renames exchange it with the new one."""

_LARGEST_MARKER = 16 << 20

_ATTEMPTS = 100
"""How often to try again while other builds put their sites in place."""

_OURS = re.compile(
    r"(index|compare|suite-[a-z0-9-]+|(submissions|tasks)/[a-z0-9-]+)\.html"
    r"|(board|suite-[a-z0-9-]+)\.(csv|json)|data/[a-z0-9/-]+\.js|static/[A-Za-z0-9./_-]+|site\.json"
)
"""The files that a site consists of: no list in a folder makes others ours."""


def publish(files: Iterable[tuple[str, bytes]], output: Path) -> None:
    """Write (path in the site, content) pairs as a site that replaces the one at `output`, if there is one.

    Raises LeaderboardError if something else is there, and StorageError if it cannot be written.
    """
    site = Path(os.path.realpath(output))
    _require_site(site)
    with storage_errors(site):
        if site.parent.exists() and not site.parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(site))
    make_folder(site.parent, "--output")
    with storage_errors(site):
        _restore(site)
    with temporary_folder(site.parent, site.name) as temporary, storage_errors(site):
        built = temporary / "site"
        built.mkdir()
        _write(built, files)
        for name in _require_site(site):
            _carry_over(site / name, built / name)
        _put_in_place(built, site)
        if built.exists():  # the site before
            try:
                for name in _require_site(built):
                    if not os.path.lexists(site / name):  # put there since the others were carried over
                        _carry_over(built / name, site / name)
            except LeaderboardError:
                _exchange(built, site)
                raise


def _write(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    digests = {}
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digests[name] = f"sha256:{hashlib.sha256(content).hexdigest()}"
    marker = {"format": SITE_FORMAT, "files": dict(sorted(digests.items()))}
    (folder / MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")


# What may be replaced


def _require_site(site: Path) -> list[str]:
    """Return the names of files beside a site that move along; empty if there is nothing at `site` yet.

    Raises LeaderboardError unless the folder is empty or wholly a site.
    """
    for attempt in range(_ATTEMPTS):
        with _held(site) as before:
            try:
                return _inspect(site)
            except (LeaderboardError, OSError):
                if _identity(site) == before or attempt == _ATTEMPTS - 1:
                    raise  # and not because another build has put its site there meanwhile
    return []


@contextmanager
def _held(site: Path) -> Iterator[tuple[int, int] | None]:
    """Provide the identity of a folder, None if there is none; until the block ends, no other folder gets the same.

    A file system gives the inode of a removed folder to the next one, but not while the folder is open.
    """
    try:
        handle = os.open(site, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        yield _identity(site)
        return
    try:
        yield _identity(handle)
    finally:
        os.close(handle)


def _identity(site: Path | int) -> tuple[int, int] | None:
    try:
        found = os.stat(site)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _inspect(site: Path) -> list[str]:
    if not os.path.lexists(site):
        return []
    if not site.is_dir():
        raise StorageError(f"{site} is not a folder: choose another --output.")
    if not any(site.iterdir()):
        return []
    listed = _read_marker(site)
    strange: list[str] = []
    others: list[str] = []
    for name, path in _files_below(site):
        if name == MARKER:
            continue
        if name in listed:
            if path.is_symlink() or not path.is_file() or file_digest(path) != listed[name]:
                strange.append(f"{name} (changed since it was built)")
        elif "/" not in name and path.is_file() and not path.is_symlink():
            others.append(name)
        else:
            strange.append(name)
    if strange:
        shown = ", ".join(strange[:3]) + (f" and {len(strange) - 3} more" if len(strange) > 3 else "")
        raise LeaderboardError(
            f"The board in {site} is replaced as a whole, but there is also something that is not its own: {shown}. "
            "Move it elsewhere, or choose another --output. Only files directly in the folder are kept, such as CNAME."
        )
    return others


def _read_marker(site: Path) -> Mapping[str, str]:
    """Return the digests of a site's files by name. Raises LeaderboardError if the folder is no site."""
    path = site / MARKER
    advice = "choose an empty or a new folder with --output"
    if not path.is_file() or path.is_symlink():
        raise LeaderboardError(f"{site} is not empty, and not a board that decabench has built: {advice}.")
    try:
        content = read_json(path, _LARGEST_MARKER)
        kind = content["format"]
        if kind != SITE_FORMAT:
            raise ValueError(f"its format is {kind!r:.60}")
        files: dict[str, str] = content["files"]
        if not isinstance(files, dict) or any(
            not _OURS.fullmatch(name) or ".." in PurePosixPath(name).parts for name in files
        ):
            raise ValueError("it lists files that no board has")
    except (DecabenchError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LeaderboardError(
            f"{path} is not that of a board built by this version ({error}): if the folder holds nothing but a board, "
            f"remove it and build again; otherwise {advice}."
        ) from error
    return files


def _files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name, path) of all files, links and empty folders, in order; no link is followed."""
    for here, folders, names in os.walk(folder):
        links = [name for name in folders if Path(here, name).is_symlink()]
        folders[:] = sorted(set(folders) - set(links))
        for name in sorted([*names, *links]):
            path = Path(here, name)
            yield path.relative_to(folder).as_posix(), path
        if not names and not folders and not links:
            yield Path(here).relative_to(folder).as_posix() + "/", Path(here)


def _carry_over(path: Path, target: Path) -> None:
    """Give the new site a file that is kept beside the old one."""
    if target.exists():
        raise LeaderboardError(f"{path} is in the way of a page of that name: move it elsewhere.")
    try:
        os.link(path, target)
    except OSError:  # a file system without hard links
        shutil.copy2(path, target)


# Putting it in place


def _put_in_place(built: Path, site: Path) -> None:
    """Rename a folder to `site`; what was there takes its place."""
    for _ in range(_ATTEMPTS):
        if not os.path.lexists(site) or not any(site.iterdir()):
            try:
                os.rename(built, site)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                continue  # another build has finished meanwhile
        try:
            _exchange(built, site)
            return
        except FileNotFoundError:
            continue
    raise LeaderboardError(f"{site} keeps changing while the board is put in place: build one at a time.")


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders: at once on Linux, by two renames elsewhere."""
    swap = _kernel_exchange()
    if swap is not None and swap(os.fsencode(one), os.fsencode(other)):
        return
    aside = one.with_name(_BEFORE)
    os.rename(other, aside)
    try:
        os.rename(one, other)
    except OSError:
        os.rename(aside, other)
        raise
    os.rename(aside, one)


def _kernel_exchange() -> Callable[[bytes, bytes], bool] | None:
    """Return Linux's renameat2 with RENAME_EXCHANGE as a function of two paths, or None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    here, exchange = -100, 2

    def swap(one: bytes, other: bytes) -> bool:
        if rename(here, one, here, other, exchange) == 0:
            return True
        code = ctypes.get_errno()
        if code in (errno.EINVAL, errno.ENOSYS):  # a file system that cannot
            return False
        raise OSError(code, os.strerror(code), os.fsdecode(other))

    return swap


def _restore(site: Path) -> None:
    """Restore a site whose exchange was killed between its two renames, before the folder that holds it is swept."""
    for folder in sorted(site.parent.glob(".decabench-*.tmp")):
        before = folder / _BEFORE
        if os.path.lexists(site) or not is_temporary(folder.name) or not before.is_dir():
            continue
        if folder.name.startswith(f".decabench-{site.name}.") and not folder.is_symlink():
            handle = os.open(folder, os.O_RDONLY)
            try:
                if try_lock(handle) is not False:
                    os.rename(before, site)
            finally:
                os.close(handle)
