"""manifest.json: the digests that bind a submission's results to their statistics, answers, data and metrics.

There is one manifest for each submission: beside submission.toml, or beside the results of an archive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import decabench
from decabench.errors import DataError, SubmissionError
from decabench.files import atomic_file, file_digest, is_within, require_machine
from decabench.scoring.results import (
    STATISTICS,
    InvalidResultsError,
    Results,
    read_results_file,
    statistics_path,
)
from decabench.submission import MANIFEST, METADATA_NAME, RESULTS, SIGNATURE, answers_digest, read_answers
from decabench.tasks import is_task_name
from decabench.text import printable, quoted
from decabench.untrusted import parse_json

__all__ = [
    "BoundResults",
    "BoundTask",
    "InvalidManifestError",
    "Manifest",
    "ManifestFault",
    "bind_task",
    "check_manifest",
    "read_manifest",
    "results_under_manifest",
    "write_manifest",
]

FORMAT = "decabench.manifest/1"
LIMIT_BYTES = 4 << 20
"""The most that is read of a file; honest ones have a few thousand bytes."""

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


class InvalidManifestError(DataError):
    """A file that is not a manifest."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} is not a valid manifest: {reason}. Run decabench evaluate again.")
        self.reason = reason
        """What is wrong, without the name of the file."""


@dataclass(frozen=True)
class BoundTask:
    """What the result of one task rests on."""

    data: str
    """The fingerprint of the data."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """Metric name to signature, for all metrics that were computed."""
    answers: str = ""
    """The digest of the answers, as in the results; empty for a failed task."""
    predictions: Mapping[str, str] = field(default_factory=dict)
    """Files of answers, other wordings and withheld digests included: path in the submission to sha256."""
    statistics: str = ""
    """The sha256 of `statistics/<task>.parquet`; empty for a task that has none."""
    decabench: str = ""
    """The version of decabench that scored it."""
    basis: Literal["", "statistics", "stated"] = ""
    """What the digests rest on, if the result was not scored when they were first written: its `statistics`, which give
    its score, for answers that were not at hand; or nothing, for a result that was bound as it was `stated`."""


@dataclass(frozen=True)
class BoundResults:
    """One results file and what it rests on."""

    split: str
    """`validation` or `test`."""
    results: str
    """The sha256 of `results.json`."""
    tasks: Mapping[str, BoundTask]
    """By name."""
    replaced: str = ""
    """The sha256 of the `results.json` that this one is replacing: only a killed process leaves it."""


@dataclass(frozen=True)
class Manifest:
    """The content of a `manifest.json`."""

    results: Mapping[str, BoundResults]
    """By folder, relative to the manifest: `results/validation`."""
    decabench: str = decabench.__version__
    """The version of decabench that wrote the manifest."""

    def to_json(self) -> str:
        """Return canonical JSON: sorted keys, empty fields left out, and a final newline."""
        content = {
            "format": FORMAT,
            "decabench": self.decabench,
            "results": {
                folder: {
                    **{key: value for key, value in asdict(bound).items() if value or key != "replaced"},
                    "tasks": {
                        name: {key: value for key, value in asdict(task).items() if value}
                        for name, task in bound.tasks.items()
                    },
                }
                for folder, bound in self.results.items()
            },
        }
        return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


_ABSENT = f"its statistics are missing, but {MANIFEST} has their digest"


@dataclass(frozen=True)
class ManifestFault:
    """Something in a submission that contradicts its manifest."""

    folder: str
    """The folder of the results, relative to the manifest; empty if it is the manifest itself."""
    task: str
    """The task; empty if it concerns the whole folder."""
    reason: str
    """What is wrong, in a sentence without a full stop."""
    in_results: bool = False
    """Whether results.json is not valid in itself, whatever the manifest says."""

    @property
    def is_absent(self) -> bool:
        """Whether it is that statistics are missing, which scoring the answers again gives."""
        return self.reason == _ABSENT

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.folder, self.task) if part)
        return f"{place}: {self.reason}" if place else self.reason


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest in a folder; None if there is none. Raises InvalidManifestError."""
    import msgspec

    path = folder / MANIFEST
    if not path.exists() and not path.is_symlink():
        return None
    if not path.is_file() or not is_within(folder, path):
        raise InvalidManifestError(path, "it is not a regular file of the submission")
    try:
        with open(path, "rb") as file:
            raw = file.read(LIMIT_BYTES + 1)
        if len(raw) > LIMIT_BYTES:
            raise InvalidManifestError(path, f"it is larger than {LIMIT_BYTES >> 20} MiB")
        record = parse_json(raw.decode("utf-8"))
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InvalidManifestError(path, f"its format is not {FORMAT!r}")
        manifest = msgspec.convert({key: record.get(key) for key in ("results", "decabench")}, Manifest)
    except OSError as error:
        require_machine(error, path)
        raise InvalidManifestError(path, f"it cannot be read ({error.strerror})") from error
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidManifestError(path, printable(str(error))) from error
    for reason in _invalid_parts(manifest):
        raise InvalidManifestError(path, reason)
    return manifest


def _invalid_parts(manifest: Manifest) -> Iterator[str]:
    for folder, bound in manifest.results.items():
        files = [file for task in bound.tasks.values() for file in task.predictions]
        for name in (folder, *files, *bound.tasks):
            if not name.isprintable() or name.startswith("/") or ".." in Path(name).parts or "\\" in name:
                yield f"it names {printable(name[:80])!r}, which is not a path inside the submission"
        for name in bound.tasks:
            if not is_task_name(name):
                yield f"it names {quoted(name)}, which cannot be the name of a task"
        tasks = bound.tasks.values()
        optional = (bound.replaced, *(task.statistics for task in tasks))
        digests = [bound.results, *(digest for digest in optional if digest)]
        for digest in (*digests, *(digest for task in tasks for digest in task.predictions.values())):
            if not _DIGEST.fullmatch(digest):
                yield f"it has {printable(digest[:80])!r} in place of a digest"


def write_manifest(folder: Path, manifest: Manifest, signed: bytes | None = None) -> Path:
    """Write a manifest into a folder and return its path. Raises StorageError.

    `signed` is the manifest that was there before: its signature stays if the same bytes are written again.
    """
    path, content = folder / MANIFEST, manifest.to_json().encode("utf-8")
    if signed != content:
        (folder / SIGNATURE).unlink(missing_ok=True)
    with atomic_file(path) as file:
        file.write(content)
    return path


# Holding a submission against its manifest


def check_manifest(folder: str | Path, digest: Callable[[Path], str] = file_digest) -> list[ManifestFault]:
    """Return everything in a submission that contradicts its manifest; none if it has no manifest.

    Answers that are not there are no contradiction, since some may not be passed on. Neither are answers that were only
    compressed or ordered differently. `digest` computes the sha256 of a file.
    """
    folder = Path(folder)
    try:
        manifest = read_manifest(folder)
    except InvalidManifestError as error:
        return [ManifestFault("", "", f"{MANIFEST}: {error.reason}")]
    if manifest is None:
        return []
    return [fault for name in manifest.results for fault in _check_folder(folder, manifest, name, digest)] + [
        ManifestFault(name, "", f"{MANIFEST} does not mention its results.json")
        for path in results_under_manifest(folder)
        if (name := path.parent.relative_to(folder).as_posix()) not in manifest.results
    ]


def results_under_manifest(folder: Path) -> list[Path]:
    """Find the results files that belong under a manifest in this folder: a submission's, or those of an archive."""
    above = folder / RESULTS if (folder / METADATA_NAME).exists() else folder
    return [path for path in sorted(above.glob("*/results.json")) if not (path.parent / MANIFEST).exists()]


def _check_folder(
    root: Path, manifest: Manifest, name: str, digest: Callable[[Path], str]
) -> Iterator[ManifestFault]:
    bound, folder = manifest.results[name], root / name
    path = folder / "results.json"
    if not path.is_file() or not is_within(root, path):
        yield ManifestFault(name, "", f"its results.json is missing, but {MANIFEST} has its digest")
        return
    try:
        if digest(path) not in (bound.results, bound.replaced):
            yield ManifestFault(name, "", f"its results.json is not the one whose digest is in {MANIFEST}")
        results = read_results_file(path)
    except InvalidResultsError as error:
        yield ManifestFault(name, "", error.reason, in_results=True)
        return
    except OSError as error:
        require_machine(error, path)
        yield ManifestFault(name, "", f"its results.json cannot be read: {error.strerror}")
        return
    for task in sorted({*results.tasks, *bound.tasks}):
        for reason in _check_task(root, folder, task, results, bound, digest):
            yield ManifestFault(name, task, reason)
    statistics = folder / STATISTICS
    for file in sorted(statistics.glob("*.parquet")) if is_within(root, statistics) else ():
        task = file.name.removesuffix(".parquet")
        if task not in bound.tasks or not bound.tasks[task].statistics:
            yield ManifestFault(name, task, f"{MANIFEST} does not mention its statistics")


def _check_task(
    root: Path,
    folder: Path,
    task: str,
    results: Results,
    bound: BoundResults,
    digest: Callable[[Path], str],
) -> Iterator[str]:
    if task not in bound.tasks:
        yield f"{MANIFEST} does not mention its result"
        return
    if task not in results.tasks:
        yield f"results.json has no result for it, but {MANIFEST} mentions one"
        return
    stated, held = results.tasks[task], bound.tasks[task]
    for what, in_results, in_manifest in (
        ("the data", stated.data.fingerprint, held.data),
        ("the metrics", dict(stated.signatures), dict(held.signatures)),
        ("the answers", stated.predictions, held.answers),
    ):
        if in_results != in_manifest:
            yield f"results.json and {MANIFEST} differ about {what} behind it"
    path = statistics_path(folder, task)
    if held.statistics:
        try:
            if not path.is_file() or not is_within(root, path):
                yield _ABSENT
            elif digest(path) != held.statistics:
                yield f"its statistics are not those whose digest is in {MANIFEST}"
        except OSError as error:
            require_machine(error, path)
            yield f"its statistics cannot be read: {error.strerror}"
    for name, stated_digest in held.predictions.items():
        file = root / name
        try:
            if file.is_file() and is_within(root, file) and digest(file) != stated_digest:
                if not _has_answers(file, name, results, held):
                    yield f"{name} has changed since it was scored"
        except OSError as error:
            require_machine(error, file)
            yield f"{name} cannot be read: {error.strerror}"


def _has_answers(file: Path, name: str, results: Results, held: BoundTask) -> bool:
    """Return whether a changed file still has the answers that were scored; only that of the dataset's wording may."""
    if not name.startswith("predictions/"):
        return False
    try:
        return answers_digest(read_answers(file, results.answers)) == held.answers
    except SubmissionError:
        return False


def bind_task(root: Path, folder: Path, task: str, results: Results, files: Mapping[str, str]) -> BoundTask:
    """Return the digests behind one result; `files` maps the paths of its answers in the submission to their sha256."""
    found = results.tasks[task]
    path = statistics_path(folder, task)
    has_rows = found.status == "scored" and path.is_file() and is_within(root, path)
    return BoundTask(
        data=found.data.fingerprint,
        signatures=dict(found.signatures),
        answers=found.predictions,
        predictions=dict(sorted(files.items())),
        statistics=file_digest(path) if has_rows else "",
        decabench=decabench.__version__,
    )
