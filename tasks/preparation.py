"""Prepare splits: get the data files, read them with the task's reader, and store the examples."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DataError, DecabenchError, MissingDataError, StorageError
from decabench.files import (
    Paths,
    as_paths,
    canonical_texts,
    lock_file,
    make_folder,
    sweep_temporary,
    write_file,
)
from decabench.metrics import METRICS, MetricError
from decabench.tasks.builtin_suites import DECATHLON
from decabench.tasks.example import Example
from decabench.tasks.outputs import MOST_FAULTS, compares_words, describe_rows, find_alike, find_fault
from decabench.tasks.registry import known_tasks, select_tasks
from decabench.tasks.store import SplitRecord, Store, changed_files, home_folder, is_of_other_files
from decabench.tasks.task import (
    HIDDEN_ADVICE,
    RemoteFile,
    Task,
    available_splits,
    describe_absent,
    published_files,
    unquoted,
)
from decabench.untrusted import read_json

if TYPE_CHECKING:
    from decabench.tasks.sources.published import SourceFiles

SAMPLE_FOLDER = Path(__file__).parent / "sample"
"""The bundled sample, a mirror with one folder per task and files under their published names."""


def sample_sources() -> dict[str, Any]:
    """Return the source and license of each folder in the sample, and a note if it replaces the published texts."""
    with (SAMPLE_FOLDER / "SOURCES.toml").open("rb") as file:
        return tomllib.load(file)


def is_web_address(mirror: str) -> bool:
    """Return whether a mirror is an HTTP(S) URL rather than a folder."""
    return mirror.startswith(("http://", "https://"))


@dataclass(frozen=True)
class Request:
    """The data to prepare, and where to get it."""

    home: Path
    """The folder for prepared data."""
    split: str | None = None
    """The split to prepare. By default, every public split is prepared."""
    mirror: str | None = None
    """A folder or HTTP(S) URL that contains one folder per task, with files under their published names."""
    sample: bool = False
    """Whether to use the bundled sample instead of the full data."""
    force: bool = False
    """Whether to prepare data again even if nothing has changed."""
    progress: bool = True
    """Whether to show a progress bar for downloads."""
    hidden: bool = False
    """Whether error messages may quote the labels of a hidden split."""

    def __post_init__(self) -> None:
        if self.mirror and self.sample:
            raise DecabenchError("Use either --mirror or --sample, not both.")

    def require_place(self) -> None:
        """Raise DecabenchError if the mirror is a folder that doesn't exist."""
        if self.mirror and not is_web_address(self.mirror) and not Path(self.mirror).expanduser().is_dir():
            raise DecabenchError(
                f"--mirror must be a folder or an http(s) URL, but the folder {self.mirror} does not exist."
            )

    @property
    def origin(self) -> str:
        """The origin of the data, as recorded in results."""
        return "sample" if self.sample else "mirror" if self.mirror else "upstream"

    @property
    def place(self) -> str:
        """Where the files come from. If this changes, prepared data is out of date."""
        if self.sample or self.mirror is None:
            return self.origin
        return self.mirror if is_web_address(self.mirror) else str(Path(self.mirror).expanduser().resolve())

    def keeps(self, record: SplitRecord, task: Task) -> bool:
        """Return whether a prepared split is kept because it comes from a mirror and the request names no source.

        A split that was prepared by an earlier version of the task's reader is not kept.
        """
        return self.origin == "upstream" and record.origin == "mirror" and record.version == task.version

    def folder(self, task: Task) -> Path | None:
        """Return the folder whose files are read in place, or None if the task's files are downloaded."""
        if task.folder is not None:
            return task.folder
        mirror = str(SAMPLE_FOLDER) if self.sample else self.mirror
        if mirror is None or is_web_address(mirror):
            return None
        return Path(mirror).expanduser() / task.files_folder

    def absent_splits(self, task: Task) -> tuple[str, ...]:
        """Return the splits that must be prepared before a run, because they are missing or come from another source.

        If the request names no source, data from any source is accepted.
        """
        if self.origin != "upstream":
            return _find_due(task, self).splits
        ready = Store(self.home).records(task.name)
        return tuple(split for split in requested_splits(task, self) if split not in ready)


def tasks_with_split(names: Iterable[str], split: str, known: Mapping[str, Task]) -> list[str]:
    """Return the names of the tasks that have the given split."""
    return [name for name in names if split in available_splits(known[name])]


def requested_splits(task: Task, request: Request) -> tuple[str, ...]:
    """Return the splits to prepare, or an empty tuple if the task doesn't have the requested split."""
    return tuple(split for split in available_splits(task) if request.split in (None, split))


@dataclass(frozen=True)
class Preparation:
    """The result of preparing a task."""

    task: str
    """The task's name."""
    records: Mapping[str, SplitRecord] = field(default_factory=dict)
    """The records of the requested splits that are prepared.

    After a failure, they include only splits that are up to date.
    """
    was_ready: bool = False
    """Whether the data was already up to date."""
    altered: tuple[str, ...] = ()
    """Splits that were changed or deleted after they were prepared.

    If a split is also in `records`, it was prepared again.
    """
    error: str = ""
    """Why preparation failed, or an empty string on success."""
    exit_code: int = 0
    """The exit code for the command line."""


def prepare(
    tasks: str | Task | Iterable[str | Task] | None = None,
    split: str | None = None,
    mirror: str | None = None,
    sample: bool = False,
    home: str | Path | None = None,
    force: bool = False,
    jobs: int = 1,
    include: Paths = (),
) -> dict[str, Mapping[str, SplitRecord]]:
    """Prepare tasks (by default the decathlon's) from their published files, and return the split records by task.

    With `split`, only that split is prepared, and tasks that don't publish it are skipped. The data comes
    from the internet, from `mirror` (a folder or URL), or from the bundled `sample`. `force` prepares data
    again even if it is up to date. With `jobs` above 1, worker processes are started, so a script needs an
    `if __name__ == "__main__":` guard.

    Raises UnknownNameError for an unknown task. If a task fails, the other tasks are still prepared, and then
    DataError is raised with the reasons.
    """
    files = as_paths(include)
    known = known_tasks(files)
    chosen = select_tasks(DECATHLON.tasks if tasks is None else tasks, known)
    request = Request(home_folder(home), split, mirror, sample, force)
    if any(known.get(task.name) != task for task in chosen):
        jobs = 1  # other processes can't look up a task that the script defines
    ended = prepare_all([task for task in chosen if requested_splits(task, request)], request, jobs, files)
    if failed := [preparation for preparation in ended if preparation.error]:
        raise DataError(" ".join(f"{preparation.task}: {preparation.error}" for preparation in failed))
    return {preparation.task: preparation.records for preparation in ended}


def prepare_all(
    tasks: Sequence[Task],
    request: Request,
    jobs: int,
    include: Sequence[Path] = (),
    report: Callable[[Preparation], None] = lambda preparation: None,
) -> list[Preparation]:
    """Prepare tasks in `jobs` processes, and report each result as it finishes. A failed task doesn't stop the others.

    `include` lists the files that define tasks; every process loads them again. Raises DecabenchError if data
    must be prepared from a mirror folder that doesn't exist.
    """
    due = {task.name: _find_due(task, request) for task in tasks}
    waiting = [name for name, found in due.items() if found.splits]
    if waiting:
        request.require_place()
    pooled = waiting if jobs > 1 and len(waiting) > 1 else []
    ended: dict[str, Preparation] = {}

    def end(preparation: Preparation) -> None:
        found = due[preparation.task]
        was_ready = not found.splits and not preparation.error
        ended[preparation.task] = replace(preparation, altered=found.altered, was_ready=was_ready)
        report(ended[preparation.task])

    for task in sorted(tasks, key=lambda task: task.name in waiting):
        if task.name not in pooled:
            end(_try_to_prepare(task, request))
    if pooled:
        _prepare_in_processes(pooled, request, jobs, include, end)
    return [ended[task.name] for task in tasks]


def _prepare_in_processes(
    waiting: Sequence[str],
    request: Request,
    jobs: int,
    include: Sequence[Path],
    end: Callable[[Preparation], None],
) -> None:
    # Imported here, because loading process pools takes longer than listing the tasks, which imports this
    # module.
    from concurrent.futures import as_completed
    from concurrent.futures.process import BrokenProcessPool

    from decabench.workers import process_pool

    with process_pool(min(jobs, len(waiting))) as pool:
        names = {pool.submit(_prepare_by_name, name, request, tuple(include)): name for name in waiting}
        for future in as_completed(names):
            try:
                end(future.result())
            except BrokenProcessPool:  # a single killed process breaks the whole pool
                sentence = (
                    f"{names[future]} was not prepared. A worker process was killed, perhaps because memory ran out. "
                    "Run again with --jobs 1."
                )
                end(Preparation(names[future], error=sentence, exit_code=DataError.exit_code))


def _prepare_by_name(name: str, request: Request, include: Sequence[Path]) -> Preparation:
    return _try_to_prepare(known_tasks(include)[name], request)


def _try_to_prepare(task: Task, request: Request) -> Preparation:
    try:
        return Preparation(task.name, prepare_task(task, request))
    except DecabenchError as error:
        records = _current_records(task, request)
        return Preparation(task.name, records, error=str(error), exit_code=error.exit_code)
    except Exception as error:  # the reader failed on the data: continue with the other tasks
        if os.environ.get("DECABENCH_DEBUG"):
            raise
        sentence = (
            f"{task.name} can't be read ({type(error).__name__}: {error}). The files may not have "
            "the expected format. Run again with --debug for the traceback."
        )
        return Preparation(task.name, error=sentence, exit_code=DataError.exit_code)


def prepare_task(task: Task, request: Request) -> dict[str, SplitRecord]:
    """Prepare the splits that are missing or out of date, and return the records of all requested splits.

    Raises MissingDataError, DataError or StorageError if a split can't be prepared. Earlier data of that split is kept.
    """
    store, requested = Store(request.home), requested_splits(task, request)
    if not requested:
        raise MissingDataError(
            f"{describe_absent(task, request.split or '')}. Available splits: {', '.join(available_splits(task))}."
        )
    if _find_due(task, request).splits:  # otherwise write nothing, because the home folder may be read-only
        _refuse_sample_over_data(task, request, store)
        folder = make_folder(store.folder(task.name))
        with _lock(folder):
            due = _find_due(task, request)  # another process may have prepared them in the meantime
            if due.splits:
                sweep_temporary(folder)
            by_mirror: dict[str | None, list[str]] = {}
            for split in due.splits:
                by_mirror.setdefault(due.mirrors.get(split, request.mirror), []).append(split)
            for mirror, splits in by_mirror.items():
                _prepare_splits(task, tuple(splits), replace(request, mirror=mirror), store)
    records = store.records(task.name)
    return {split: records[split] for split in requested if split in records}


@dataclass(frozen=True)
class _Due:
    splits: tuple[str, ...]
    """The splits that must be prepared."""
    altered: tuple[str, ...] = ()
    """The splits that must be prepared only because their prepared files were changed or deleted."""
    mirrors: Mapping[str, str] = field(default_factory=dict)
    """The mirror to rebuild each altered split from, by split, if the request names no source."""


def _find_due(task: Task, request: Request) -> _Due:
    store, splits = Store(request.home), requested_splits(task, request)
    records, places = store.readable_records(task.name), _read_places(store, task)

    def is_current(split: str) -> bool:
        record = records.get(split)
        if request.force or record is None or record.version != task.version:
            return False
        if bool(record.salt) != (split in task.hidden) or is_of_other_files(task, split, record):
            return False
        if request.keeps(record, task):
            return True
        folder = request.folder(task)
        return places.get(split) == _place(task, request) and not (folder and changed_files(folder, record))

    current = [split for split in splits if is_current(split)]
    altered = tuple(split for split in current if not store.is_unaltered(task.name, split))
    kept = [split for split in altered if task.folder is None and request.keeps(records[split], task)]
    due = tuple(split for split in splits if split not in current or split in altered)
    return _Due(due, altered, {split: places[split] for split in kept if split in places})


def _refuse_sample_over_data(task: Task, request: Request, store: Store) -> None:
    # Full data may have taken hours to prepare, so the sample must not replace it.
    if not request.sample or request.force:
        return
    records = store.readable_records(task.name).values()
    if origins := {record.origin for record in records} & {"mirror", "upstream"}:
        raise DecabenchError(
            f"{request.home} already contains the full data of {task.name} (origin: {', '.join(sorted(origins))}). "
            "Choose another folder for the sample with --home, or replace the data with --force."
        )


def _current_records(task: Task, request: Request) -> dict[str, SplitRecord]:
    try:
        due = _find_due(task, replace(request, force=False)).splits
    except DecabenchError:
        return {}
    records, requested = Store(request.home).readable_records(task.name), requested_splits(task, request)
    return {split: records[split] for split in requested if split in records and split not in due}


def _prepare_splits(task: Task, splits: tuple[str, ...], request: Request, store: Store) -> None:
    opened = _open_files(task, splits, request)
    try:
        with opened:
            for split in splits:
                if split not in opened.missing:
                    _prepare_split(task, split, request, store, opened)
    except StorageError:
        raise
    except Exception as error:
        opened.forget()
        if isinstance(error, DataError) and (differing := opened.describe_differing()):
            raise DataError(f"{error} {differing} Copy the data again.") from error
        raise
    if opened.missing:
        missing = ", ".join(opened.missing)
        lacking = [file.name for split in opened.missing for file in opened.source.files.get(split, ())]
        if folder := request.folder(task):
            lacking = [name for name in lacking if not (folder / name).is_file()]
        reason = f"The only working source ({opened.source.name}) has no {missing} split"
        if lacking:
            reason = f"{request.folder(task)} does not contain {', '.join(dict.fromkeys(lacking))}"
        raise MissingDataError(
            f"{reason}, so {missing} could not be prepared. The other splits were prepared."
        )


def _open_files(task: Task, splits: tuple[str, ...], request: Request) -> SourceFiles:
    # Tasks that share files use a lock, so that they don't download the same files at once.
    from decabench.tasks.sources.published import fetch, read_folder

    raw = request.home / "raw" / task.files_folder
    with _lock(make_folder(raw)) if task.shared_folder else nullcontext():
        sweep_temporary(raw, recursive=True)
        if folder := request.folder(task):
            if request.sample and task.folder is None and not folder.is_dir():
                raise MissingDataError(
                    f"The bundled sample does not include {task.name}. Omit --sample, or use --mirror "
                    "instead."
                )
            origin = "local" if task.folder else "mirror"
            return read_folder(task.files_folder, task.sources, splits, folder, raw, origin)
        # Imported here, because the HTTP libraries take longer to load than a small task takes to prepare.
        from decabench.tasks.sources.download import Downloads

        downloads = Downloads(raw, progress=request.progress, force=request.force)
        return fetch(task.files_folder, task.sources, splits, downloads, request.mirror)


def _lock(folder: Path) -> AbstractContextManager[None]:
    notice = f"Waiting for another process that is preparing {folder.name}."
    return lock_file(folder, notice, math.inf, "--home")


def _prepare_split(task: Task, split: str, request: Request, store: Store, opened: SourceFiles) -> None:
    source = opened.source
    names = {file.name for file in source.files[split]}
    files = [record for record in opened.records if record.name in names]
    is_verified = bool(files) and all(file.status == "verified" for file in files)
    published = source.counts.get(split, task.counts.get(split, 0))
    is_counted = request.origin == "upstream" and task.folder is None and not is_verified
    facts = _SplitFacts(task, split, least=published if is_counted else 0)
    examples = facts.collect(source.read(opened, split))
    records = store.readable_records(task.name)
    salt = ""
    if split in task.hidden:
        salt = (split in records and records[split].salt) or secrets.token_hex(16)
    instead = DataError(f"The {split} split of {task.name} can't be prepared. {HIDDEN_ADVICE}")
    with unquoted(bool(salt) and not request.hidden, instead):
        rows, fingerprint, units_digest = store.write(task.name, split, examples, salt)
    record = SplitRecord(
        rows=rows,
        fingerprint=fingerprint,
        origin="user" if task.folder else request.origin,
        source=source.name,
        verified=is_verified,
        files=tuple(asdict(file) for file in files),
        version=task.version,
        note=sample_sources().get(task.files_folder, {}).get("note", "") if request.sample else facts.note,
        units_digest=units_digest,
        salt=salt,
        questions=f"sha256:{facts.asked.hexdigest()}" if salt else "",
        labelled=facts.labelled,
    )
    record = replace(record, checked=record.check_digest(store.path(task.name, split)))
    store.write_records(task, {**records, split: record})
    places = {**_read_places(store, task), split: _place(task, request)}
    write_file(_places_path(store, task), json.dumps(places, indent=1, sort_keys=True))


_WORKING = re.compile(
    r"\S.{20,}(####|\\boxed\{|</think>|answer(?: is|:))\s*\S[^\n]{0,60}\s*", re.IGNORECASE | re.DOTALL
)
"""Matches worked solutions that end with a marker and a short answer, as in GSM8K and MATH."""


@dataclass
class _SplitFacts:
    """The facts for a split's record, collected while its examples are read and checked."""

    task: Task
    split: str
    least: int
    """The minimum number of examples, or 0 if the number is not checked, for example because the files are verified."""
    rows: int = 0
    """The number of examples already read."""
    labelled: bool = True
    """Whether the data has labels."""
    asked: Any = field(default_factory=hashlib.sha256)
    """The digest of the ids, questions and contexts of a split with hidden labels, updated with each example."""
    marks: Counter[str] = field(default_factory=Counter)
    """How often each marker occurs in gold answers that are worked solutions, which no model reproduces exactly."""

    def collect(self, examples: Iterable[Example]) -> Iterator[Example]:
        """Check the examples and yield them. Raises DataError if there are too few, or if they can't be scored."""
        task, name = self.task, f"{self.task.name}, {self.split}"
        metrics = task.metrics
        is_own = task.origin == "user"
        has_words = is_own and compares_words(task.output, task.metric)
        # The reader of a task file checks its own answers.
        checks_answers = is_own and task.definition is None
        if checks_answers and (fault := find_alike(task.output, task.metric)):
            raise DataError(fault)
        finders = [METRICS[metric].find_classes for metric in metrics if metric in METRICS]
        classes: list[tuple[Any, dict[str, Example]]] = [(find, {}) for find in finders if find is not None]
        faults: dict[str, list[str]] = {}
        for example in examples:
            if not self.rows and task.unit_names and len(task.unit_names) != len(example.units):
                raise DataError(
                    f"{task.name} declares the unit names {', '.join(task.unit_names)}, but an example has "
                    f"a different number of units: {', '.join(map(repr, example.units))}. Use one name for "
                    "each unit."
                )
            if example.answers:
                for find, first in classes:
                    for found in find([example]):
                        first.setdefault(found, example)
                if checks_answers and (fault := find_fault(example, task.output, metrics)):
                    faults.setdefault(fault, []).append(example.id)
                    if len(faults) > MOST_FAULTS:
                        break
            yield example
            self.rows += 1
            if self.split in task.hidden:
                asked = f"{canonical_texts((example.id, example.question, example.context))}\n"
                self.asked.update(asked.encode("utf-8", "surrogatepass"))
                self.labelled = bool(example.answers)
            if has_words and example.answers and (working := _WORKING.fullmatch(example.answers[0])):
                self.marks[working[1]] += 1
        if faults:
            raise DataError(describe_rows(name, faults))
        for find, first in classes:  # before predictions are made, which can take hours
            try:
                find(list(first.values()))
            except MetricError as error:
                raise DataError(f"{name}: {error}") from error
        if self.rows < self.least:
            raise DataError(
                f"The {self.split} split of {task.name} has only {self.rows:,} of {self.least:,} examples. "
                "Download the files again with --force."
            )

    @property
    def note(self) -> str:
        """A warning if most gold answers are worked solutions, otherwise an empty string."""
        if 2 * (count := self.marks.total()) <= self.rows:
            return ""
        mark = self.marks.most_common(1)[0][0]
        return (
            f"{count:,} of {self.rows:,} gold answers end in `{mark}` and a short answer; the metric compares the "
            f"whole text, so keep only the part after `{mark}` as the answer"
        )


def describe_missing(task: Task, split: str, record: SplitRecord) -> str:
    """Describe how a split's number of examples differs from the published number.

    Returns an empty string if the numbers agree, and for the sample and the user's own tasks.
    """
    published = task.counts.get(split, 0)
    if record.rows == published or not published or record.origin in ("sample", "user"):
        return ""
    found = f"{record.rows:,} of the {published:,} published examples"
    if record.rows > published:
        found = f"{record.rows:,} examples, {record.rows - published:,} more than published"
    forms = [source for source in task.sources if source.name == record.source]
    if any(record.rows == source.counts.get(split) for source in forms):
        return f"{split} has {found}, as expected from this source"
    published_as = published_files(forms)
    differing = [
        f"{name}{published_as.get(name, RemoteFile(name)).describe_size(file.get('size'))}"
        for file in record.files
        if file["status"] == "mirror-differs" and (name := str(file["name"]))
    ]
    if not differing:
        return f"{split} has {found} (read from {', '.join(str(file['name']) for file in record.files)})"
    is_other = "is not the published file" if len(differing) == 1 else "are not the published files"
    return f"{split} has {found}, because {', '.join(differing)} {is_other}"


def _place(task: Task, request: Request) -> str:
    return request.place if task.folder is None else str(task.folder)


def _places_path(store: Store, task: Task) -> Path:
    # Not in task.json, because the paths of mirrors would make its bytes differ between machines.
    return store.folder(task.name) / "places.json"


def _read_places(store: Store, task: Task) -> dict[str, str]:
    """Return a mapping from split to the `place` that it was prepared from."""
    try:
        return read_json(_places_path(store, task))
    except (OSError, ValueError):
        return {}
