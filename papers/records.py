"""Records: the answers, results and notes of every run, as an archive per plan and a zip file for each newer run.

`records/PLAN.tar.xz` contains the files of all runs as `RUN-seed-N/NAME`. Similar files are adjacent, so
that they compress well. A newer run is stored as `records/PLAN/RUN-seed-N.zip` until `pack` adds it to
the archive.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from decabench.errors import DataError
from decabench.files import atomic_file

RECORDS = Path(__file__).resolve().parent / "records"
_DATE = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Records:
    """The records of a plan."""

    folder: Path
    """The folder of all plans' records."""
    plan: str
    """The name of the plan."""

    @property
    def archive(self) -> Path:
        """The archive, which contains most of the records."""
        return self.folder / f"{self.plan}.tar.xz"

    @property
    def loose(self) -> list[Path]:
        """The zip files of runs that are not in the archive yet."""
        return sorted((self.folder / self.plan).glob("*.zip"))

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files of all records, as `RUN-seed-N/NAME` and content.

        Newer records replace older records. Raises DataError if a record can't be read.
        """
        newer = {path.stem for path in self.loose}
        if self.archive.exists():
            yield from (pair for pair in read_archive(self.archive) if run_of(pair[0]) not in newer)
        for path in self.loose:
            yield from ((f"{path.stem}/{name}", content) for name, content in read_zip(path).items())

    def unpack(self, folder: Path) -> None:
        """Write each record as a folder, unless the folder exists. Raises DataError if a record can't be read."""
        parts = dict[str, Path]()
        for name, content in self.read():
            run, _, rest = name.partition("/")
            if run not in parts:
                if not rest or (folder / run).exists():
                    continue
                parts[run] = folder / f".{run}.part"
                shutil.rmtree(parts[run], ignore_errors=True)
            path = parts[run] / rest
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for run, part in parts.items():  # a folder is complete or missing, never partial
            part.replace(folder / run)

    def add(self, run: str, files: Mapping[str, bytes]) -> Path:
        """Write a run's record as a zip file. The same files always produce the same bytes."""
        path = self.folder / self.plan / f"{run}.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as part, zipfile.ZipFile(part, "w") as archive:
            for name, content in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED, 9)
        return path

    def pack(self) -> int:
        """Add the newer records to the archive, delete their zip files, and return the number of records."""
        files = dict(self.read())
        write_archive(self.archive, files)
        for path in self.loose:
            path.unlink()
        return len({run_of(name) for name in files})


def run_of(name: str) -> str:
    """Return the name of the run that a file in an archive belongs to."""
    return name.partition("/")[0]


def read_zip(path: Path) -> dict[str, bytes]:
    """Return the content of each file in a zip file, by name. Raises DataError if it is not a record."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in map(_safe, archive.namelist())}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a record ({error}).") from None


def read_archive(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of every file in an archive. Raises DataError if it can't be read."""
    try:
        with tarfile.open(path, "r:xz") as archive:
            for member in archive:
                if (content := archive.extractfile(member)) is not None:
                    yield _safe(member.name), content.read()
    except (OSError, EOFError, ValueError, tarfile.TarError) as error:
        raise DataError(f"{path} cannot be read ({error}). Restore it with `git checkout`.") from None


def write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files to an archive, placing files with the same name from different runs next to each other."""
    order = sorted(files, key=lambda name: (name.partition("/")[2], name))
    with atomic_file(path) as part, tarfile.open(fileobj=part, mode="w:xz", preset=9) as archive:
        for name in order:
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            archive.addfile(entry, io.BytesIO(files[name]))


def _safe(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"it contains the unsafe path {name!r}")
    return name
