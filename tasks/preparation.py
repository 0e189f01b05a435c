"""Several tasks prepared at once, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import active_children, get_context
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from decabench.errors import DataError, MissingDataError
from decabench.files import atomic_file, make_folder, storage_errors
from decabench.metrics import DecabenchError
from decabench.tasks.example import SPLITS
from decabench.tasks.registry import known_tasks
from decabench.tasks.store import SplitRecord, Store
from decabench.tasks.task import Task
from decabench.workers import interrupts_held

if TYPE_CHECKING:
    from decabench.tasks.sources import Fetched

__all__ = [
    "SAMPLE_FOLDER",
    "Outcome",
    "Request",
    "available_splits",
    "is_prepared",
    "local_files",
    "prepare_all",
    "prepare_task",
    "requested_splits",
    "sample_note",
    "sample_sources",
]

# ---- samples

SAMPLE_FOLDER = Path(__file__).parent / "sample"
"""Laid out as a mirror: one folder a task, upstream's file names."""


@cache
def sample_sources() -> dict[str, Any]:
    """Source, licence and remarks of every task's sample, from the one file that has them."""
    with (SAMPLE_FOLDER / "SOURCES.toml").open("rb") as file:
        return tomllib.load(file)


def sample_note(task: str) -> str:
    """What must be said wherever a task's sample shows: that it is a stand-in. Empty for real rows."""
    return str(sample_sources().get(task, {}).get("note", ""))


# ---- local


def local_files(task: Task, splits: Sequence[str], scratch: Path) -> Fetched:
    """The files of a task with a `folder`, read where they lie. Raises MissingDataError."""
    from decabench.tasks.sources import Fetched, LocalFiles, digests_of, record_of, scratch_in

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


# ---- prepare

_WEB = ("http://", "https://")


@dataclass(frozen=True)
class Request:
    """What `decabench prepare` was asked for."""

    home: Path
    """Where prepared data goes."""
    split: str | None = None
    """Only this split; else every public one."""
    mirror: str | None = None
    """A folder or an HTTP(S) address with the files under upstream's names."""
    sample: bool = False
    """The bundled sample instead of the data."""
    force: bool = False
    """Again, even where nothing has changed."""
    progress: bool = True
    """Whether downloads show a bar."""

    @property
    def origin(self) -> str:
        """What results will say of the data."""
        return "sample" if self.sample else "mirror" if self.mirror else "upstream"

    @property
    def place(self) -> str:
        """Names where the files come from, to notice when that changes."""
        if self.sample:
            return "sample"
        if self.mirror is None:
            return "upstream"
        return self.mirror if self.mirror.startswith(_WEB) else str(Path(self.mirror).expanduser().resolve())

    @property
    def mirror_place(self) -> str | None:
        """The mirror to read from; the sample is one too."""
        return str(SAMPLE_FOLDER) if self.sample else self.mirror


def available_splits(task: Task) -> tuple[str, ...]:
    """The splits that some source of the task has, in the usual order."""
    return tuple(split for split in SPLITS if any(split in source.files for source in task.sources))


def requested_splits(task: Task, request: Request) -> tuple[str, ...]:
    """The splits to prepare; empty where the one asked for is not public."""
    return tuple(split for split in available_splits(task) if request.split in (None, split))


def is_prepared(task: Task, request: Request) -> bool:
    """Whether all that was asked for is there, from the same files, by the same adapter."""
    return not _due_splits(task, request)


def _due_splits(task: Task, request: Request) -> tuple[str, ...]:
    """Of the splits asked for, those to prepare: an interrupted run goes on where it stopped."""
    store, splits = Store(request.home), requested_splits(task, request)
    try:
        records, inputs = store.records(task.name), _read_inputs(store, task)
    except DataError:
        return splits
    return tuple(
        split
        for split in splits
        if request.force or not _is_current(store, task, split, records, inputs, request)
    )


def prepare_task(task: Task, request: Request) -> dict[str, SplitRecord]:
    """Prepares what is not there yet; returns the records of the splits asked for.

    Raises MissingDataError, DataError or StorageError; whatever was prepared before stays as it was.
    """
    store = Store(request.home)
    splits = requested_splits(task, request)
    if not splits:
        raise MissingDataError(
            f"{task.name} has no public {request.split} split: its authors keep it. "
            f"It has {', '.join(available_splits(task))}."
        )
    if not is_prepared(task, request):  # else nothing is touched, for the home may be read-only
        _refuse_sample_over_data(task, request, store)
        folder = make_folder(store.folder(task.name))
        with _locked(folder):
            if due := _due_splits(task, request):
                for leftover in folder.glob(".*.tmp"):  # of a run that was killed
                    leftover.unlink(missing_ok=True)
                _prepare_splits(task, due, request, store)
    records = store.records(task.name)
    return {split: records[split] for split in splits if split in records}


def _refuse_sample_over_data(task: Task, request: Request, store: Store) -> None:
    """A sample is small and quick; what it would replace may have taken hours."""
    if not request.sample or request.force:
        return
    try:
        origins = {record.origin for record in store.records(task.name).values()} & {"mirror", "upstream"}
    except DataError:
        return
    if origins:
        raise DecabenchError(
            f"{task.name} is prepared from {' and '.join(sorted(origins))} in {request.home}: name another folder with "
            "--home for the sample, or replace the data with --force."
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time prepares a task; another waits."""
    from filelock import FileLock

    with storage_errors(folder):
        lock = FileLock(folder.parent / f".{folder.name}.lock")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _fetch(task: Task, splits: tuple[str, ...], request: Request) -> Fetched:
    from decabench.tasks.sources import fetch

    raw = request.home / "raw" / task.name
    if task.folder is not None:
        return local_files(task, splits, raw)
    return fetch(
        task.name,
        task.sources,
        splits,
        raw,
        mirror=request.mirror_place,
        progress=request.progress,
        force=request.force,
    )


def _prepare_splits(task: Task, splits: tuple[str, ...], request: Request, store: Store) -> None:
    with _fetch(task, splits, request) as fetched:
        for split in splits:
            if split in fetched.missing:
                continue
            names = {file.name for file in fetched.source.files[split]}
            files = [file for file in fetched.records if file.name in names]
            _write_inputs(store, task, {split: None})  # a run that is killed now must not look ready
            rows, fingerprint = store.write(task.name, split, fetched.source.read(fetched.files, split))
            record = SplitRecord(
                rows=rows,
                fingerprint=fingerprint,
                origin="user" if task.folder else request.origin,
                source=fetched.source.name,
                verified=bool(files) and all(file.status == "verified" for file in files),
                files=tuple(file.to_dict() for file in files),
                version=task.version,
                note=sample_note(task.name) if request.sample else "",
            )
            _record_split(store, task, split, record, request)
    if fetched.missing:
        raise MissingDataError(
            f"{task.name}: {fetched.source.name} is the only form that can be had, and it has no split "
            f"{', '.join(fetched.missing)}; the others are prepared."
        )


def _record_split(store: Store, task: Task, split: str, record: SplitRecord, request: Request) -> None:
    try:
        records = store.records(task.name)
    except DataError:  # a damaged record is replaced by what was just prepared
        records = {}
    store.write_records(task, {**records, split: record})
    _write_inputs(store, task, {split: {"place": request.place, "files": _stamps(task, record, request)}})


def _write_inputs(store: Store, task: Task, changed: Mapping[str, Any]) -> None:
    inputs = {**_read_inputs(store, task), **changed}
    with atomic_file(_inputs_path(store, task)) as file:
        file.write(json.dumps(inputs, indent=1, sort_keys=True).encode())


def _inputs_path(store: Store, task: Task) -> Path:
    # Beside task.json and not in it: modification times would make its bytes differ from run to run.
    return store.folder(task.name) / "inputs.json"


def _read_inputs(store: Store, task: Task) -> dict[str, Any]:
    try:
        content = json.loads(_inputs_path(store, task).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _stamps(task: Task, record: SplitRecord, request: Request) -> dict[str, list[int]]:
    """Size and time of the files of a folder, to notice a change without reading them again."""
    mirror = request.mirror_place
    if task.folder is not None:
        folder = task.folder
    elif mirror is not None and not mirror.startswith(_WEB):
        folder = Path(mirror, task.name)
    else:
        return {}
    paths = {file["name"]: folder / file["name"] for file in record.files}
    return {
        name: [path.stat().st_size, path.stat().st_mtime_ns] for name, path in paths.items() if path.exists()
    }


def _is_current(
    store: Store,
    task: Task,
    split: str,
    records: Mapping[str, SplitRecord],
    inputs: Mapping[str, Any],
    request: Request,
) -> bool:
    record, entry = records.get(split), inputs.get(split)
    if record is None or not isinstance(entry, dict) or not store.path(task.name, split).exists():
        return False
    return (
        record.version == task.version
        and entry.get("place") == request.place
        and entry.get("files") == _stamps(task, record, request)
    )


# ---- parallel

_ENDED = 130


@dataclass(frozen=True)
class Outcome:
    """What became of one task."""

    task: str
    """Its name."""
    records: Mapping[str, SplitRecord] = field(default_factory=dict)
    """Its prepared splits; empty where it failed."""
    was_ready: bool = False
    """Whether there was nothing to do."""
    error: str = ""
    """The sentence that says why it failed."""
    exit_code: int = 0
    """What the command should end with because of it."""


def prepare_all(
    tasks: Sequence[Task],
    request: Request,
    jobs: int,
    include: Sequence[Path] = (),
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Prepares tasks, reporting each as it ends; one that fails does not stop the others."""
    ready = [task for task in tasks if is_prepared(task, request)]
    waiting = [task for task in tasks if task not in ready]
    outcomes = [_attempt(task, request, was_ready=True) for task in ready]
    for outcome in outcomes:
        report(outcome)
    if jobs > 1 and len(waiting) > 1:
        outcomes += _in_processes([task.name for task in waiting], request, jobs, include, report)
    else:
        for task in waiting:
            outcomes.append(_attempt(task, request))
            report(outcomes[-1])
    order = [task.name for task in tasks]
    return sorted(outcomes, key=lambda outcome: order.index(outcome.task))


def _attempt(task: Task, request: Request, was_ready: bool = False) -> Outcome:
    try:
        return Outcome(task.name, prepare_task(task, request), was_ready)
    except DecabenchError as error:
        return Outcome(task.name, error=str(error), exit_code=error.exit_code)
    except Exception as error:  # an adapter met data in a form that nobody foresaw: the others go on
        if os.environ.get("DECABENCH_DEBUG"):
            raise
        sentence = (
            f"{task.name} could not be read ({type(error).__name__}: {error}): its files are in another form than "
            "expected; run again with --debug for the place."
        )
        return Outcome(task.name, error=sentence, exit_code=DataError.exit_code)


def _attempt_by_name(name: str, request: Request, include: Sequence[Path]) -> Outcome:
    try:
        return _attempt(known_tasks(include)[name], request)
    except SystemExit:
        # What was half-written is removed by now. The pool would take the exit for a result and go on.
        os._exit(_ENDED)


def _end_quietly(signum: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # nothing may stop the cleaning
    sys.exit(_ENDED)


def _start_worker() -> None:
    # A worker that its parent ends after a Ctrl-C cleans up and says nothing.
    signal.signal(signal.SIGTERM, _end_quietly)


def _outcome(future: Future[Outcome], name: str) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:  # one process that is killed takes the whole pool with it
        sentence = f"{name} is not prepared: a process was killed, for want of memory perhaps; run again with --jobs 1."
        return Outcome(name, error=sentence, exit_code=DataError.exit_code)


def _in_processes(
    names: Sequence[str],
    request: Request,
    jobs: int,
    include: Sequence[Path],
    report: Callable[[Outcome], None],
) -> list[Outcome]:
    outcomes = []
    with ProcessPoolExecutor(min(jobs, len(names)), get_context("spawn"), _start_worker) as pool:
        try:
            with interrupts_held():
                pending = {
                    pool.submit(_attempt_by_name, name, request, tuple(include)): name for name in names
                }
            while pending:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    outcomes.append(_outcome(future, pending.pop(future)))
                    report(outcomes[-1])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in active_children():
                if child.pid is not None:
                    os.kill(child.pid, signal.SIGTERM)
            raise
    return outcomes
