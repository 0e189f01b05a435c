"""Records: the answers, results and notes of every run, one archive per plan and a zip file for each newer run.

`records/PLAN.tar.xz` has the files of all runs under `RUN-seed-N/`. Similar files are next to each other, so that they
compress well. A run that is trained later leaves `records/PLAN/RUN-seed-N.zip`, until `pack` joins the two.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from decabench.errors import DataError
from decabench.files import atomic_file

ROOT = Path(__file__).resolve().parent
RECORDS = ROOT / "records"
_DATE = (1980, 1, 1, 0, 0, 0)


def archive_of(plan: str) -> Path:
    """Return the archive of a plan's records."""
    return RECORDS / f"{plan}.tar.xz"


def read_zip(path: Path) -> dict[str, bytes]:
    """Read a record that is a zip file: name to content. Raises DataError."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a record ({error}).") from None


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a record as a zip file: the same bytes for the same files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED, 9)


def read_archive(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of every file in an archive. Raises DataError."""
    try:
        with tarfile.open(path, "r:xz") as archive:
            for member in archive:
                content = archive.extractfile(member)
                parts = PurePosixPath(member.name).parts
                if content is None or ".." in parts or parts[0] == "/":
                    raise DataError(f"{path} has {member.name}, which is not a file of a run.")
                yield member.name, content.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise DataError(f"{path} cannot be read ({error}): restore it with `git checkout`.") from None


def write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    """Write files as an archive, those with the same name in several runs next to each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    order = sorted(files, key=lambda name: (name.partition("/")[2], name))
    with atomic_file(path) as part, tarfile.open(fileobj=part, mode="w:xz", preset=9) as archive:
        for name in order:
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            archive.addfile(entry, io.BytesIO(files[name]))


def loose_records(plan: str) -> list[Path]:
    """Return the zip files of the runs that are not in the archive yet."""
    return sorted((RECORDS / plan).glob("*.zip"))


def read_records(plan: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of all records of a plan, as `RUN-seed-N/NAME` and content; newer ones come later."""
    if archive_of(plan).exists():
        yield from read_archive(archive_of(plan))
    for path in loose_records(plan):
        for name, content in read_zip(path).items():
            yield f"{path.stem}/{name}", content


def unpack(plan: str, folder: Path, only: Iterable[str] = ()) -> list[str]:
    """Write the records of a plan, or some of them, as folders that are not there yet; return their names."""
    wanted, made = set(only), dict[str, Path]()
    for name, content in read_records(plan):
        run, _, rest = name.partition("/")
        if wanted and run not in wanted:
            continue
        if run not in made:
            if (folder / run).exists():
                continue
            made[run] = folder / f".{run}.part"
            shutil.rmtree(made[run], ignore_errors=True)
        path = made[run] / rest if rest else made[run]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for run, part in made.items():  # whole, or not there
        part.replace(folder / run)
    return list(made)


def pack(plan: str) -> int:
    """Join the newer records of a plan with its archive, and delete their files; return the number of runs."""
    files = dict(read_records(plan))
    write_archive(archive_of(plan), files)
    for path in loose_records(plan):
        path.unlink()
    return len({name.partition("/")[0] for name in files})
