"""Prepared examples on disk: one parquet file a split, and a record of where they came from.

Examples are written and read a batch at a time, so memory does not grow with a dataset.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from decabench.errors import DataError, MissingDataError
from decabench.files import atomic_file, canonical_json
from decabench.tasks.example import Example
from decabench.tasks.task import Task

__all__ = ["FORMAT", "SplitRecord", "Store", "fingerprint_line", "home_folder"]

FORMAT = "decabench.task/1"
_BATCH = 1_000
_COLUMNS = ("id", "question", "context", "answers", "group", "meta")


def home_folder(given: str | Path | None = None) -> Path:
    """The folder of prepared data: as given, else $DECABENCH_HOME, else the platform's user data folder."""
    chosen = given or os.environ.get("DECABENCH_HOME")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("decabench", appauthor=False)


@dataclass(frozen=True)
class SplitRecord:
    """What is known of one prepared split: everything that a result needs to say about its data."""

    rows: int
    """How many examples it has."""
    fingerprint: str
    """`sha256:` over its examples in order."""
    origin: str
    """`upstream`, `mirror`, `sample` or `user`."""
    source: str
    """Which form of the dataset it was read from."""
    verified: bool
    """Whether every file had its published checksum."""
    files: tuple[Mapping[str, Any], ...]
    """Name, address, sha256, size and status of every file."""
    version: int
    """The adapter's version."""
    note: str = ""
    """What a reader of a score must know: a stand-in, a subset."""


def fingerprint_line(example: Example) -> bytes:
    """What one example adds to the fingerprint of its split."""
    values = [example.id, example.question, example.context, list(example.answers), example.group]
    return (canonical_json([*values, dict(example.meta)]) + "\n").encode("utf-8", "surrogatepass")


class _Ids:
    """Finds repeated ids with eight bytes an id, however long the ids are."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, id: str) -> None:
        digest = hashlib.blake2b(id.encode(), digest_size=8).digest()
        self._hashes.append(int.from_bytes(digest, "little", signed=True))

    def repeated(self) -> int:
        import numpy

        return len(self._hashes) - len(numpy.unique(numpy.frombuffer(self._hashes, dtype=numpy.int64)))


def _is_text(value: object) -> bool:
    """Whether it is text that UTF-8 can hold: JSON escapes may leave half of a character."""
    try:
        return isinstance(value, str) and (value.isascii() or bool(value.encode()))
    except UnicodeEncodeError:
        return False


def _checked(examples: Iterable[Example], name: str) -> Iterator[Example]:
    for number, example in enumerate(examples):
        if not example.answers or not all(isinstance(answer, str) for answer in example.answers):
            raise DataError(f"{name}, example {number} ({example.id!r}), has no answer that is text.")
        if not (isinstance(example.id, str) and example.id and example.question):
            raise DataError(f"{name}, example {number}, lacks an id or a question: {example!r:.200}.")
        fields = (example.id, example.question, example.context, example.group, *example.answers)
        if not all(map(_is_text, fields)):
            raise DataError(f"{name}, example {number}, has a field that is not text: {example!r:.200}.")
        yield example


def _columns(batch: list[Example]) -> dict[str, list[Any]]:
    return {
        "id": [example.id for example in batch],
        "question": [example.question for example in batch],
        "context": [example.context for example in batch],
        "answers": [list(example.answers) for example in batch],
        "group": [example.group for example in batch],
        "meta": [canonical_json(dict(example.meta)) for example in batch],
    }


class Store:
    """The prepared tasks below one home folder."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def folder(self, task: str) -> Path:
        return self.home / "tasks" / task

    def path(self, task: str, split: str) -> Path:
        """The parquet file of a split."""
        return self.folder(task) / f"{split}.parquet"

    def write(self, task: str, split: str, examples: Iterable[Example]) -> tuple[int, str]:
        """Writes a split; returns its number of rows and its fingerprint. Raises DataError, StorageError."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema(
            [(name, pa.list_(pa.string()) if name == "answers" else pa.string()) for name in _COLUMNS]
        )
        ids, digest, name = _Ids(), hashlib.sha256(), f"{task}, {split}"
        stream = _checked(examples, name)
        with atomic_file(self.path(task, split)) as file:
            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                while batch := list(islice(stream, _BATCH)):
                    for example in batch:
                        ids.add(example.id)
                        digest.update(fingerprint_line(example))
                    writer.write_table(pa.table(_columns(batch), schema=schema))
            rows = len(ids._hashes)
            if rows == 0:
                raise DataError(f"{name} has no examples: its files are empty or in another form.")
            if repeated := ids.repeated():
                raise DataError(f"{name}: {repeated} ids stand more than once; an id must name one example.")
        return rows, f"sha256:{digest.hexdigest()}"

    def read(self, task: str, split: str, columns: tuple[str, ...] = _COLUMNS) -> Iterator[dict[str, Any]]:
        """The rows of a prepared split as plain dicts, `meta` parsed. Raises MissingDataError, DataError."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.record(task, split)
        try:
            with pq.ParquetFile(self.path(task, split)) as file:
                for batch in file.iter_batches(_BATCH, columns=list(columns)):
                    for row in batch.to_pylist():
                        if "meta" in row:
                            row["meta"] = json.loads(row["meta"])
                        yield row
        except (pa.ArrowException, OSError) as error:
            raise DataError(
                f"The prepared data of {task}, {split}, is damaged ({error}): run decabench prepare {task} --force."
            ) from error

    def examples(self, task: str, split: str) -> Iterator[Example]:
        """The examples of a prepared split. Raises MissingDataError, DataError."""
        for row in self.read(task, split):
            yield Example(**{**row, "answers": tuple(row["answers"])})

    def ids(self, task: str, split: str) -> list[str]:
        """The ids of a prepared split, in order."""
        return [row["id"] for row in self.read(task, split, ("id",))]

    def records(self, task: str) -> dict[str, SplitRecord]:
        """What is recorded of a task's prepared splits; empty where nothing is prepared."""
        path = self.folder(task) / "task.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise DataError(
                    f"{path} has format {content['format']!r}, not {FORMAT!r}: prepare again with --force."
                )
            return {split: _record(value) for split, value in content["splits"].items()}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is damaged ({error}): run decabench prepare {task} --force.") from error

    def record(self, task: str, split: str) -> SplitRecord:
        """What is recorded of one split. Raises MissingDataError where it is not prepared."""
        record = self.records(task).get(split)
        if record is None or not self.path(task, split).exists():
            raise MissingDataError(
                f"{task}, {split}, is not prepared in {self.home}: run decabench prepare {task}, with --mirror or "
                "--sample where there is no internet."
            )
        return record

    def write_records(self, task: Task, records: Mapping[str, SplitRecord]) -> None:
        """Replaces task.json."""
        content = {
            "format": FORMAT,
            "task": task.name,
            "dataset": task.dataset,
            "licence": task.licence,
            "citation": task.citation,
            "published_counts": dict(task.counts),
            "splits": {split: asdict(record) for split, record in records.items()},
        }
        with atomic_file(self.folder(task.name) / "task.json") as file:
            file.write(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n")


def _record(value: Mapping[str, Any]) -> SplitRecord:
    return SplitRecord(**{**value, "files": tuple(value["files"])})
