from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from decabench.tasks.example import Example
from decabench.tasks.preparation import SAMPLE_FOLDER, Request, _find_due
from decabench.tasks.registry import TASKS
from decabench.tasks.sources.published import SourceFiles
from decabench.tasks.task import Files, RemoteFile, Source, Task

__all__ = [
    "SAMPLED",
    "FolderFiles",
    "in_form",
    "is_prepared",
    "lines_task",
    "read_form",
    "read_sample",
    "tar_bytes",
    "triples",
    "write_csv",
    "write_jsonl",
    "write_lines",
    "write_parquet",
]


def is_prepared(task: Task, request: Request) -> bool:
    """Return whether `prepare` would have nothing to do."""
    return not _find_due(task, request).splits


SAMPLED = tuple(name for name, task in TASKS.items() if (SAMPLE_FOLDER / task.files_folder).is_dir())
"""The built-in tasks that the bundled sample includes."""


class FolderFiles:
    """A folder as readers see it: members of archives are files in it, and nothing is fetched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.folder / name

    def rows(self, name: str, columns: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a parquet file."""
        import pyarrow.parquet as pq

        yield from pq.read_table(self.folder / name, columns=list(columns) or None).to_pylist()


def in_form(task: Task, form: str, examples: Iterable[Example]) -> list[str]:
    """Return the answers in a form of the task, each made from the examples before it in the same unit."""
    texts: list[str] = []
    for _, run in groupby(examples, key=lambda example: example.units):
        unit = list(run)
        texts += [task.target_forms[form](example, unit[:at]) for at, example in enumerate(unit)]
    return texts


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write a text file with these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    """Write a file with one JSON value per line."""
    return write_lines(path, (json.dumps(row, ensure_ascii=False) for row in rows))


def write_csv(path: Path, rows: Iterable[Sequence[str]], delimiter: str = ",") -> Path:
    """Write a CSV table, with quotes where necessary."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    return path


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write a parquet file with these rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def tar_bytes(members: Mapping[str, bytes], mode: str = "w:gz") -> bytes:
    """Return a tar archive with these members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def read_form(task: Task, form: str, split: str, files: Files) -> list[Example]:
    """Return the examples of a split, read by the source with this name."""
    source = next(source for source in task.sources if source.name == form)
    return list(source.read(files, split))


def read_sample(task: Task, split: str, scratch: Path) -> list[Example]:
    """Return the examples of a split of the bundled sample."""
    folder = SAMPLE_FOLDER / task.files_folder
    for source in task.sources:
        names = {file.name for files in source.files.values() for file in files}
        if all((folder / name).is_file() for name in names):
            with SourceFiles(source, {name: folder / name for name in names}, scratch) as files:
                return list(source.read(files, split))
    raise AssertionError(f"The sample has no form of {task.name}.")


def triples(examples: Iterable[Example]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return (question, context, answers) for each example."""
    return [(example.question, example.context, example.answers) for example in examples]


def lines_task(name: str = "lines", read: Callable[[Files, str], Iterator[Example]] | None = None) -> Task:
    """Return a task with three splits, each a file `<split>.txt` with one answer per line. It needs a mirror."""

    def read_answers(files: Files, split: str) -> Iterator[Example]:
        for index, line in enumerate(files.path(f"{split}.txt").read_text(encoding="utf-8").splitlines()):
            id = f"{name}.{split}.{index}"
            yield Example(id, "Which word?", "", (line,), (id,))

    files = {split: (RemoteFile(f"{split}.txt"),) for split in ("train", "validation", "test")}
    source = Source("words", files, read or read_answers)
    return replace(TASKS["sst"], name=name, dataset="Words", counts={}, sources=(source,))
