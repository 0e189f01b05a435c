"""Prepared examples on disk: a parquet file for each split, and a record of where its data came from.

Examples are written and read in batches, so memory use doesn't grow with the dataset.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import islice, pairwise
from json.encoder import encode_basestring
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, overload

from decabench.errors import DataError, MissingDataError, require_name, require_package
from decabench.files import (
    atomic_file,
    cached_digest,
    canonical_json,
    canonical_texts,
    file_digests,
    read_errors,
    shown_path,
    write_file,
)
from decabench.metrics import Item
from decabench.tasks.example import SPLITS, Example
from decabench.tasks.registry import known_tasks
from decabench.tasks.task import Task, available_splits, describe_absent, list_files
from decabench.text import quoted
from decabench.untrusted import open_parquet, parse_json, read_batches, read_json

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa
    from numpy.typing import NDArray

    Array = NDArray[Any]

FORMAT = "decabench.task/2"
_BATCH = 1_000
_COLUMNS = ("id", "question", "context", "answers", "units", "meta")
_GOLD = ["id", "answers", "units", "meta"]
"""The columns needed for scoring."""
_FEW = 50_000
"""The maximum number of examples for which `References` keeps the items of a split in memory."""
_LISTS = ("answers", "units")
_KINDS = {name: "list of strings" if name in _LISTS else "string" for name in _COLUMNS}


def home_folder(given: str | Path | None = None) -> Path:
    """Return the folder for prepared data: `given`, $DECABENCH_HOME or the user's data folder, in that order."""
    chosen = given or os.environ.get("DECABENCH_HOME")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("decabench", appauthor=False)


@dataclass(frozen=True)
class SplitRecord:
    """A prepared split's entry in `task.json`. It contains everything that results record about their data."""

    rows: int
    """The number of examples."""
    fingerprint: str
    """The digest of the examples in order, as `sha256:…`."""
    origin: str
    """Where the data came from: `upstream`, `mirror`, `sample` or `user`."""
    source: str
    """The name of the source that the split was read from."""
    verified: bool
    """Whether every file has its published digest."""
    files: tuple[Mapping[str, Any], ...]
    """The `name`, `url`, `sha256`, `size` and `status` of each file."""
    version: int
    """The task's version when the split was prepared."""
    note: str = ""
    """A remark that is shown with scores, for example that the sample contains other data."""
    units_digest: str = ""
    """The digest of the units in order, as `sha256:…`. The fingerprint covers only the innermost units."""
    salt: str = ""
    """A secret string that is hashed into a hidden split's fingerprint.

    Without it, the fingerprint could be used to confirm guessed labels.
    """
    questions: str = ""
    """The digest of a hidden split's ids, questions and contexts in order, as `sha256:…`."""
    labelled: bool = True
    """Whether the examples have labels. The labels of a hidden split may be missing."""
    checked: str = ""
    """The `check_digest` of the parquet file when it was written."""

    def check_digest(self, path: Path) -> str:
        """Return a sha256 that changes if the parquet file, the fingerprint or the units' digest changes."""
        with read_errors(path):
            whole = f"{cached_digest(path)} {self.fingerprint} {self.units_digest}"
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def stated(self) -> str:
        """The digest that identifies the data in submissions and id lists. It doesn't depend on hidden labels."""
        return self.questions or self.fingerprint


@lru_cache(maxsize=256)
def _read_records(path: Path, *trace: int) -> dict[str, SplitRecord]:
    """Read the records in `task.json`. `trace` is part of the cache key, so a changed file is read again."""
    import msgspec

    return msgspec.convert(read_json(path, format=FORMAT).get("splits"), dict[str, SplitRecord])


def _fingerprint_line(example: Example, context: str, meta: str) -> bytes:
    """Return an example as a line of the text that is hashed into the fingerprint.

    `context` and `meta` are already encoded as JSON. Only the innermost unit is included, so that
    adding outer units to a task doesn't change its fingerprints.
    """
    before = f"{encode_basestring(example.id)},{encode_basestring(example.question)},{context}"
    return f"[{before},{canonical_texts(example.answers)},{encode_basestring(example.units[-1])},{meta}]\n".encode()


class Store:
    """The prepared tasks in a home folder."""

    def __init__(self, home: str | Path | None = None) -> None:
        self.home = home_folder(home)

    def folder(self, task: str) -> Path:
        """Return the folder of a task."""
        return self.home.joinpath("tasks", task)

    def path(self, task: str, split: str) -> Path:
        """Return the path of a split's parquet file."""
        return self.home.joinpath("tasks", task, f"{split}.parquet")

    def write(
        self, task: str, split: str, examples: Iterable[Example], salt: str = ""
    ) -> tuple[int, str, str]:
        """Write a split, and return its number of rows, its fingerprint and the digest of its units.

        The salt is hashed before the examples. Raises DataError for invalid examples, and StorageError if the file
        can't be written.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema(
            [(name, pa.list_(pa.string()) if name in _LISTS else pa.string()) for name in _COLUMNS]
        )
        rows, digest, units_digest = 0, hashlib.sha256(salt.encode()), hashlib.sha256()
        context, context_json = "", '""'
        valid = _validate(examples, f"{task}, {split}", may_lack=bool(salt))
        with atomic_file(self.path(task, split)) as file:
            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                while batch := list(islice(valid, _BATCH)):
                    metas = [canonical_json(dict(each.meta)) if each.meta else "{}" for each in batch]
                    for example, meta in zip(batch, metas, strict=True):
                        if example.context != context:  # consecutive questions often share a context
                            context, context_json = example.context, encode_basestring(example.context)
                        digest.update(_fingerprint_line(example, context_json, meta))
                        units_digest.update(f"{canonical_texts(example.units)}\n".encode())
                    columns: dict[str, list[Any]] = {
                        name: [getattr(example, name) for example in batch] for name in _COLUMNS[:-1]
                    }
                    writer.write_table(pa.table({**columns, "meta": metas}, schema=schema))
                    rows += len(batch)
            if not rows:
                raise DataError(
                    f"The {split} split of {task} has no examples. The files are empty or do not have the expected "
                    "format."
                )
        return rows, f"sha256:{digest.hexdigest()}", f"sha256:{units_digest.hexdigest()}"

    def read(self, task: str, split: str, columns: tuple[str, ...] = _COLUMNS) -> Iterator[dict[str, Any]]:
        """Stream the rows of a prepared split as dicts, with `meta` parsed.

        Raises MissingDataError if the split is not prepared, and DataError if it is damaged.
        """
        record = self.record(task, split)
        try:
            for batch in read_batches(
                self.path(task, split), {name: _KINDS[name] for name in columns}, _BATCH
            ):
                for row in batch.to_pylist():
                    if "meta" in row:
                        row["meta"] = parse_json(row["meta"])
                    yield row
        except (OSError, ValueError) as error:
            raise DataError(
                f"The {split} split of {task} is damaged ({error}). {prepare_again(task, record, self.home)}."
            ) from error

    def examples(self, task: str, split: str) -> Iterator[Example]:
        """Stream the examples of a prepared split. Raises the same errors as `read`."""
        for row in self.read(task, split):
            yield Example(**{**row, **{name: tuple(row[name]) for name in _LISTS}})

    def prompts(self, task: str, split: str) -> dict[str, tuple[str, str]]:
        """Return the question and the context of each example of a prepared split, by id."""
        rows = self.read(task, split, ("id", "question", "context"))
        return {row["id"]: (row["question"], row["context"]) for row in rows}

    def ids(self, task: str, split: str) -> list[str]:
        """Return the ids of a prepared split, in order."""
        return [row["id"] for row in self.read(task, split, ("id",))]

    def references(self, task: str, split: str) -> References:
        """Return the gold answers of a prepared split.

        Raises the same errors as `require_content`.
        """
        import pyarrow as pa

        self.require_content(task, split)
        with open_parquet(self.path(task, split)) as file:
            table = file.read(_GOLD, use_threads=False)
        pa.default_memory_pool().release_unused()  # reading the file takes more memory than the resulting columns
        return References(table)

    def is_unaltered(self, task: str, split: str) -> bool:
        """Return whether a prepared split's file still matches its record.

        This detects accidental changes. Anyone who changes data on purpose can also change the record.
        """
        record, path = self.records(task).get(split), self.path(task, split)
        return record is not None and path.exists() and record.checked in ("", record.check_digest(path))

    def require_content(self, task: str, split: str) -> None:
        """Raise DataError if a prepared split has been changed, and MissingDataError if it is not prepared."""
        record = self.record(task, split)
        if not self.is_unaltered(task, split):
            again = prepare_again(task, record, self.home)
            raise DataError(f"The {split} split of {task} has changed since it was prepared. {again}.")

    def require_current(self, task: Task, split: str) -> None:
        """Raise DataError if a user's task was prepared from other files, or if its files have changed since.

        Deleted files and data from other sources are not checked.
        """
        record = self.records(task.name).get(split)
        if task.folder is None or record is None or record.origin != "user":
            return
        run = f"Run decabench prepare {task.name}{include_option(task)}{home_option(self.home)}"
        if is_of_other_files(task, split, record):
            raise DataError(
                f"{task.name} was prepared from the files of another task with the same name "
                f"({', '.join(str(file['name']) for file in record.files)}). {run}, or rename one of the tasks."
            )
        if changed := changed_files(task.folder, record):
            raise DataError(f"{changed[0]} has changed since {task.name} was prepared. {run}.")

    def records(self, task: str) -> dict[str, SplitRecord]:
        """Read the records of a task's prepared splits, if any. Raises DataError for a damaged file."""
        path = self.folder(task) / "task.json"
        try:
            found = path.stat()
            return dict(
                _read_records(path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            )
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path} is damaged ({error}). Run decabench prepare {task} again, with the same --mirror or --sample "
                "if you used one."
            ) from error

    def readable_records(self, task: str) -> dict[str, SplitRecord]:
        """Read the records of a task's prepared splits. Returns an empty dict if their file is missing or damaged."""
        try:
            return self.records(task)
        except DataError:
            return {}

    def record(self, task: str, split: str) -> SplitRecord:
        """Read the record of a split. Raises MissingDataError if it is not prepared, and DataError if it is damaged."""
        record = self.records(task).get(split)
        if record is None or not self.path(task, split).exists():
            raise MissingDataError(self.advise(task, split))
        return record

    def hides(self, task: str | Task, split: str) -> bool:
        """Return whether a split's labels are hidden, either now or when the split was prepared."""
        if isinstance(task, Task) and split in task.hidden:
            return True
        record = self.records(_name(task)).get(split)
        return record is not None and bool(record.salt)

    def require_labels(self, task: str, split: str) -> None:
        """Raise MissingDataError if a prepared split contains only questions."""
        if not self.record(task, split).labelled:
            raise MissingDataError(
                f"The {split} labels of {task} are hidden and not available here. Only someone who "
                "has the labels can score this split."
            )

    def require(self, tasks: Iterable[str | Task], split: str) -> None:
        """Raise MissingDataError if the split of any task is not prepared, naming all of these tasks.

        A user's own task must be passed as a `Task`, because its name alone can't be looked up.
        """
        missing = [task for task in tasks if not self._has(_name(task), split)]
        absent = [task for task in missing if not _has_split(_find(task), split)]
        if len(missing) == 1 or absent:
            raise MissingDataError(self.advise((absent or missing)[0], split))
        if missing:
            names, found = [_name(task) for task in missing], [_find(task) for task in missing]
            is_local = all(task is not None and task.folder is not None for task in found)
            offline = "" if is_local else ", with --mirror or --sample if you are offline"
            raise MissingDataError(
                f"The {split} splits of {', '.join(names)} are not prepared in {self.home}. Run decabench prepare "
                f"{' '.join(names)}{''.join(map(include_option, found))}{home_option(self.home)}{offline}."
            )

    def _has(self, task: str, split: str) -> bool:
        return split in self.records(task) and self.path(task, split).exists()

    def advise(self, given: str | Task, split: str) -> str:
        """Explain how to prepare a missing split or, if the task doesn't have it, list the task's splits."""
        name, task = _name(given), _find(given)
        missing = f"The {split} split of {name} is not prepared in {self.home}"
        if task is None:
            return (
                f"{missing}. Run decabench prepare {name} --include FILE{home_option(self.home)}, where FILE defines "
                "the task."
            )
        if not _has_split(task, split):
            return (
                f"{describe_absent(task, split)}. Use --split {' or --split '.join(available_splits(task))}."
            )
        run = f"decabench prepare {name}{include_option(task)}{home_option(self.home)}"
        if task.folder is not None:
            return f"{missing}. Run {run}."
        if not any(source.urls for source in task.sources):
            return (
                f"{missing}, and the files can't be downloaded. Put your own copies "
                f"({list_files(task.sources, [split])}) into the folder DIR/{task.files_folder} and run {run} "
                "--mirror DIR."
            )
        sample = " or --sample" if (Path(__file__).parent / "sample" / task.files_folder).is_dir() else ""
        return f"{missing}. Run {run}, with --mirror{sample} if you are offline."

    def write_records(self, task: Task, records: Mapping[str, SplitRecord]) -> None:
        """Replace a task's `task.json`. Raises StorageError if the file can't be written."""
        content = {
            "format": FORMAT,
            "task": task.name,
            "dataset": task.dataset,
            "licence": task.licence,
            "citation": task.citation,
            "published_counts": dict(task.counts),
            "splits": {split: asdict(record) for split, record in records.items()},
        }
        write_file(
            self.folder(task.name) / "task.json",
            json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n",
        )


class References(Sequence[Item]):
    """The gold answers of a split, in order.

    They are stored in columns, which take a quarter of the memory of `Item` objects. For a small split, the objects are
    created once. For a large split, they are created whenever they are used.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def ids(self) -> list[str]:
        """The ids of all examples."""
        found: list[str] = self._table.column("id").to_pylist()
        return found

    def unit_numbers(self) -> NDArray[Any]:
        """Return the index of each example's unit at each level, as in `number_units`.

        The array has shape (examples, levels).
        """
        import numpy as np
        import pyarrow as pa

        units = self._table.column("units")
        codes = pa.chunked_array([chunk.flatten() for chunk in units.chunks], pa.string()).dictionary_encode()
        labels = np.concatenate([np.from_dlpack(chunk.indices) for chunk in codes.chunks])
        labels = labels.reshape(len(self), -1)
        if labels.shape[1] == 1:
            return labels  # already numbered in order of first occurrence
        return np.stack([level.astype(np.int32) for level in nest_units(labels)], axis=1)

    @cached_property
    def _items(self) -> list[Item]:
        return list(_make_items(self._table))

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items) if len(self) <= _FEW else _make_items(self._table)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: Any) -> Any:
        if len(self) <= _FEW:
            return self._items[index]
        places = range(len(self))[index]
        if isinstance(places, int):
            return next(_make_items(self._table.slice(places, 1)))
        if places.step == 1:
            return list(_make_items(self._table.slice(places.start, len(places))))
        return [self[place] for place in places]


def number_units(units: Sequence[Sequence[str]]) -> Array:
    """Number the units of each level from 0, in order of first occurrence.

    Equal inner units in different outer units get different numbers. If there are no units, each row is
    its own unit. Returns an array of shape (examples, levels).
    """
    import numpy as np

    if not units[0]:
        return np.arange(len(units))[:, None]
    labels = []
    for level in range(len(units[0])):
        numbers: dict[str, int] = {}
        labels.append([numbers.setdefault(names[level], len(numbers)) for names in units])
    return np.stack(list(nest_units(np.array(labels).T)), axis=1)


def nest_units(labels: Array) -> Iterator[Array]:
    """Yield the index of each example's unit, level by level, outermost first, as in `number_units`.

    Each array has shape (examples,). `labels` is an integer array of shape (examples, levels). Inner
    labels only have to be distinct within an outer unit.
    """
    import numpy as np

    outer = np.zeros(len(labels), dtype=np.int64)
    for column in labels.T:
        # The inner labels are renumbered from 0, so that each pair gets its own number.
        _, inner = np.unique(column, return_inverse=True)
        pairs = outer * (int(inner.max(initial=0)) + 1) + inner
        _, first, unit = np.unique(pairs, return_index=True, return_inverse=True)
        outer = np.argsort(np.argsort(first))[unit]
        yield outer


def _make_items(table: pa.Table) -> Iterator[Item]:
    for batch in table.to_batches(_BATCH):
        ids, metas = (batch.column(name).to_pylist() for name in ("id", "meta"))
        answers, units = (_tuples(batch.column(name)) for name in ("answers", "units"))
        # Most examples have no meta. Meta is not checked again, because it was validated when it was written.
        read = ({} if meta == "{}" else json.loads(meta) for meta in metas)
        yield from map(Item, answers, ids, units, read)


def _tuples(column: pa.ListArray) -> list[tuple[str, ...]]:
    """Convert a column of lists to tuples.

    All strings are converted at once and then split up, because pyarrow is slow at converting single
    lists.
    """
    texts: list[str] = column.flatten().to_pylist()
    ends: list[int] = column.offsets.to_pylist()
    first = ends[0] if ends else 0
    return [tuple(texts[start - first : end - first]) for start, end in pairwise(ends)]


def _name(task: str | Task) -> str:
    return task if isinstance(task, str) else task.name


def _find(task: str | Task) -> Task | None:
    return known_tasks().get(task) if isinstance(task, str) else task


def _has_split(task: Task | None, split: str) -> bool:
    """Return whether a task has a split. An unknown task is assumed to have every split."""
    return task is None or not task.sources or split in available_splits(task)


def is_of_other_files(task: Task, split: str, record: SplitRecord) -> bool:
    """Return whether a split of a TOML task was prepared from files other than those that the task lists.

    This happens if two task files define a task of the same name, or if a task file now lists other files.
    """
    if task.definition is None or record.origin != "user":
        return False
    own = [[file.name for file in source.files.get(split, ())] for source in task.sources]
    return sorted(str(file["name"]) for file in record.files) not in map(sorted, own)


def changed_files(folder: Path, record: SplitRecord) -> list[str]:
    """Return the names of the files in a folder that have changed since a split was prepared from them.

    Deleted files are not included.
    """
    found = [(folder / str(file["name"]), file) for file in record.files]
    return [
        str(file["name"])
        for path, file in found
        if path.is_file()
        and (path.stat().st_size != file["size"] or file_digests(path)["sha256"] != file["sha256"])
    ]


def home_option(home: Path) -> str:
    """Return ` --home DIR` for a folder that commands don't use by default, otherwise an empty string."""
    return "" if home == home_folder() else f" --home {quote(shown_path(home))}"


def include_option(task: Task | None) -> str:
    """Return ` --include FILE` for a task defined in a file, otherwise an empty string."""
    if task is None or task.origin == "decabench" or task.name in known_tasks():
        return ""
    return f" --include {quote(shown_path(task.definition)) if task.definition else 'FILE'}"


def prepare_again(task: str, record: SplitRecord, home: Path) -> str:
    """Return advice on replacing data that doesn't match its record."""
    option = " --sample" if record.origin == "sample" else include_option(known_tasks().get(task))
    force = "--force and the same --mirror" if record.origin == "mirror" else "--force"
    return f"Run decabench prepare {task}{option}{home_option(home)}, and add {force} if that does not help"


def _validate(examples: Iterable[Example], name: str, may_lack: bool) -> Iterator[Example]:
    """Yield the examples. Raises DataError if an example is invalid.

    Every example must have labels, unless `may_lack` is set and none of the examples has any.
    """
    levels, are_bare = 0, False
    seen: dict[bytes, int] = {}  # digests, so that memory use doesn't depend on the length of the ids
    for number, example in enumerate(examples):
        if not number:
            are_bare = may_lack and not example.answers
        if fault := _find_fault(example, are_bare):
            raise DataError(f"{name}, example {number}: {fault}. Got {example!r:.200}.")
        levels = levels or len(example.units)
        if len(example.units) != levels:
            raise DataError(
                f"{name}: all examples must have the same number of units, but example {number} has "
                f"{len(example.units)} and earlier examples have {levels}."
            )
        first = seen.setdefault(hashlib.blake2b(example.id.encode(), digest_size=8).digest(), number)
        if first != number:
            raise DataError(
                f"{name}: examples {first:,} and {number:,} (counted from 0) have the same id, "
                f"{quoted(example.id)}. Each id must be unique."
            )
        yield example


def _find_fault(example: Example, is_bare: bool) -> str:
    if is_bare and example.answers:
        return "the example has an answer, but the preceding examples have none"
    if not (example.answers or is_bare) or not all([isinstance(answer, str) for answer in example.answers]):
        return "'answers' must contain one or more strings"
    if not (isinstance(example.id, str) and example.id and example.question):
        return "'id' and 'question' must be non-empty strings"
    if not isinstance(example.units, tuple | list) or not example.units:
        return "'units' must contain one or more strings, outermost first, such as ('article', 'paragraph')"
    try:  # JSON escapes may contain half of a surrogate pair, which UTF-8 can't encode
        for text in (example.question, example.context, *example.units, example.id, *example.answers):
            if not str.isascii(text):
                text.encode()
    except (TypeError, UnicodeEncodeError):
        return "every field must be valid Unicode text"
    return ""


def load(task: str, split: str = "validation", home: str | Path | None = None) -> datasets.Dataset:
    """Load a prepared split as a memory-mapped `datasets.Dataset`.

    Columns: id, question, context, answers (a list), units (a list), meta (a JSON string). Raises MissingDataError if
    the split is not prepared, UnknownNameError for an unknown split or a task that is neither known nor prepared,
    DataError for damaged data, and DecabenchError if the package `datasets` (extra `datasets`) is not installed.
    """
    require_package("decabench.load", "datasets", "datasets")
    import datasets

    store = Store(home)
    require_name(split, SPLITS, "split")
    if not store.records(task):
        require_name(task, known_tasks(), "task")
    # The name contains the digests, so that an old file is never used for data that was prepared again.
    record = store.record(task, split)
    digests = (value.removeprefix("sha256:")[:16] for value in (record.fingerprint, record.units_digest))
    path = store.home / "arrow" / f"{task}.{split}.{'.'.join(digests)}.arrow"
    if not path.exists():
        _write_arrow(store.path(task, split), path, prepare_again(task, record, store.home))
    return datasets.Dataset.from_file(str(path))


def _write_arrow(source: Path, target: Path, remedy: str) -> None:
    import pyarrow as pa

    try:
        with open_parquet(source) as file, atomic_file(target) as sink:
            with pa.ipc.new_stream(sink, file.schema_arrow) as writer:
                for batch in file.iter_batches(1_000):
                    writer.write_batch(batch)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{source} is damaged ({error}). {remedy}.") from error
