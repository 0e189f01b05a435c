"""Unpack untrusted .zip and .tar.gz files.

Only regular files and folders are unpacked, inside one folder and up to a size limit. The metadata of an archive is
not trusted. Sizes are counted while unpacking. Modes, owners and times are ignored, and links are refused.
"""

from __future__ import annotations

import re
from pathlib import Path

from decabench.archives import DAMAGE, LargeArchiveError, archive_members
from decabench.errors import DecabenchError, SubmissionError
from decabench.files import read_errors, storage_errors
from decabench.text import quoted

ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz")
"""The suffixes of archives that `unpack` accepts."""
LIMIT_BYTES = 2 << 30
"""The maximum size of an unpacked archive, in bytes."""
LIMIT_MEMBERS = 10_000
"""The maximum number of files and folders in an archive."""

_CHUNK = 1 << 16


def is_archive(path: Path) -> bool:
    """Return whether a file has the name of an archive that `unpack` accepts."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


def unpack(
    path: Path, into: Path, limit_bytes: int = LIMIT_BYTES, limit_members: int = LIMIT_MEMBERS
) -> None:
    """Unpack an archive into a new folder.

    Raises SubmissionError if the archive is damaged, is too large, or contains links or devices, and StorageError if
    the folder can't be written.
    """

    def refusal(why: str) -> SubmissionError:
        return SubmissionError(f"{path.name} was not unpacked: {why}.")

    if not is_archive(path):
        *others, last = ARCHIVE_SUFFIXES
        raise SubmissionError(
            f"{path.name} is not an archive. The name must end in {', '.join(others)} or {last}."
        )
    are_files: dict[str, bool] = {}  # case-folded names, because some file systems ignore case
    try:
        with read_errors(path):
            for count, member in enumerate(archive_members(path, limit_bytes), 1):
                if count > limit_members:
                    raise refusal(f"it contains more than {limit_members:,} files and folders")
                if member.kind == "other":
                    raise refusal(
                        f"{quoted(member.name)} is a link or a device, is encrypted, or uses an unusual compression "
                        "method; pack only regular files"
                    )
                is_file = member.kind == "file"
                try:
                    parts = _parts(member.name)
                except ValueError as error:
                    raise refusal(f"{quoted(member.name)} {error}") from error
                if is_file and not parts:
                    raise refusal("it contains a file without a name")
                for end in range(1, len(parts) + 1):
                    name, is_last = "/".join(parts[:end]).casefold(), is_file and end == len(parts)
                    if name in are_files and (is_last or are_files[name]):
                        raise refusal(f"it contains {quoted(name)} more than once")
                    are_files[name] = is_last
                target = into.joinpath(*parts)
                with storage_errors(into, "TMPDIR"):
                    (target.parent if is_file else target).mkdir(parents=True, exist_ok=True)
                if is_file:
                    with storage_errors(into, "TMPDIR"):
                        handle = open(target, "xb", buffering=0)  # unbuffered, so closing it can't fail
                    with handle:
                        while chunk := member.read(_CHUNK):
                            with storage_errors(into, "TMPDIR"):
                                while chunk:
                                    chunk = chunk[handle.write(chunk) :]
    except DecabenchError:
        raise
    except LargeArchiveError as error:
        raise refusal(f"it unpacks to more than {limit_bytes:,} bytes") from error
    except DAMAGE as error:
        reason = str(error) or "it ends too early"
        raise SubmissionError(
            f"{path.name} is damaged, or its suffix does not match the kind of archive ({reason}). "
            "Pack the archive again."
        ) from error


def _parts(name: str) -> list[str]:
    """Split a member's name into parts.

    Raises ValueError if the path could point outside the folder on any operating system, or if the name is too long or
    unprintable.
    """
    name = name.replace("\\", "/")  # some Windows programs write backslashes
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or any(re.match("[A-Za-z]:", part) for part in parts):
        raise ValueError(
            "would be unpacked outside its folder; create the archive inside the submission's folder, so "
            "that names look like predictions/sst.validation.jsonl"
        )
    if not name.isprintable() or len(name) > 1000 or any(len(part.encode()) > 200 for part in parts):
        raise ValueError("is too long for a file name or contains unprintable characters; rename the file")
    return parts
