"""The files of a task whose data lies on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from decabench.tasks.errors import MissingDataError
from decabench.tasks.sources.digests import digests_of
from decabench.tasks.sources.fetch import Fetched
from decabench.tasks.sources.files import LocalFiles, scratch_in
from decabench.tasks.sources.record import record_of
from decabench.tasks.task import Task

__all__ = ["local_files"]


def local_files(task: Task, splits: Sequence[str], scratch: Path) -> Fetched:
    """The files of a task with a `folder`, read where they lie. Raises MissingDataError."""
    folder = task.folder or Path()
    source = task.sources[0]
    files = {file.name: file for split in splits for file in source.files.get(split, ())}
    if absent := [name for name in files if not (folder / name).is_file()]:
        raise MissingDataError(f"{task.name} names {', '.join(absent)}, which {folder} has not.")
    records = tuple(
        record_of(file, f"local:{name}", digests_of(folder / name, ())) for name, file in files.items()
    )
    paths = {name: folder / name for name in files}
    return Fetched(LocalFiles(paths, scratch_in(scratch), source.members), source, records)
