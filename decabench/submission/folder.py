"""Open and write submissions.

A submission is a folder or an archive with these files:

submission.toml                     the metadata
predictions/<task>.<split>.jsonl    {"id": "...", "answer": "..."}; also .jsonl.gz and .jsonl.zst
variants/<K>/predictions/...        the same for other wordings of the questions
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from decabench.errors import SubmissionError, UnknownNameError, require_name
from decabench.files import (
    SUFFIXES,
    Compression,
    atomic_file,
    by_dotted_key,
    file_digest,
    is_within,
    lock_file,
    require_machine,
    require_within,
    storage_errors,
    temporary_folder,
    write_file,
)
from decabench.submission.answers import (
    FOLDER,
    VARIANTS,
    Limits,
    Marks,
    PredictionFile,
    describe_surrogate,
    predictions_folder,
)
from decabench.submission.archive import ARCHIVE_SUFFIXES, is_archive, unpack
from decabench.submission.faults import WARNINGS, Fault, group_faults
from decabench.tasks import SPLITS
from decabench.text import kind_of, printable, quoted, with_full_stop
from decabench.untrusted import parse_toml

# submission.toml

FORMAT = "decabench.submission/1"
METADATA_NAME = "submission.toml"
TIME = "time"
"""The key of the answering times in a predictor's record: the time in `seconds` and the number
of `answers`, by `<task>.<split>`.
"""
METADATA_LIMIT = 1 << 16
"""The maximum size of submission.toml, in bytes."""


@dataclass(frozen=True)
class SubmissionInfo:
    """The content of submission.toml."""

    name: str
    """The name shown on leaderboards. It must be a single line that is not empty."""
    authors: tuple[str, ...] = ()
    """The authors."""
    description: str = ""
    """A description of how the system works."""
    url: str = ""
    """A link (http or https) to more information."""
    model_size: int | None = None
    """The number of parameters."""
    training_data: str = ""
    """The data that the model was trained on."""
    date: str = ""
    """The date on which the answers were generated, as YYYY-MM-DD."""
    predictor: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the predictor (name, version, seed, ...). They must be JSON values."""
    data: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint (`sha256:...`) of the data that was answered, by `<task>.<split>`."""
    partial: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each limited run, by `<task>.<split>`: the number of examples that were `answered`, the number in the split
    (`of`), and how they were `chosen`."""
    incomplete: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each run with failures, by `<task>.<split>`: the number of examples that `failed`, the number that were asked
    (`of`), and the most common `error`. Failed examples have no line in the answer file."""

    def described(self) -> dict[str, Any]:
        """Return all fields as JSON values, without `partial` and `incomplete` if they are empty.

        The predictor's times are left out, so that the same answers give the same results.
        """
        plain = asdict(self)
        plain["predictor"].pop(TIME, None)
        return {key: value for key, value in plain.items() if value or key not in ("partial", "incomplete")}

    def marks(self, task: str, split: str, variant: int = 0) -> Marks:
        """Return the entries in submission.toml about missing answers in a file.

        A limit applies to all variants, and failures apply to a single variant.
        """
        key = f"{task}.{split}"
        partial = self.partial.get(key)
        if not variant:
            return Marks(partial, self.incomplete.get(key))
        if partial:  # other variants also answered the examples that failed in variant 0
            failed = self.incomplete.get(key, {}).get("failed", 0)
            partial = {**partial, "answered": partial["answered"] + failed}
        return Marks(partial, self.incomplete.get(f"{key}.variant{variant}"))


def render_metadata(info: SubmissionInfo) -> bytes:
    """Return the content of submission.toml. Raises SubmissionError if the content would be invalid."""
    import tomli_w

    table: dict[str, Any] = {"format": FORMAT, **vars(info), "authors": list(info.authors)}
    for key in ("predictor", "data", "partial", "incomplete"):
        table[key] = _sorted(table[key])
    table = {key: value for key, value in table.items() if value not in ("", None, [], {})}
    try:
        raw = tomli_w.dumps(table).encode()
    except (TypeError, ValueError) as error:
        raise SubmissionError(f"The metadata can't be stored in submission.toml: {error}.") from error
    _, faults = parse_metadata(raw)
    for fault in faults:
        raise SubmissionError(f"{fault}.")
    return raw


def _sorted(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _sorted(value) if isinstance(value, Mapping) else value
        for key, value in sorted(table.items())
        if value is not None
    }


@lru_cache(maxsize=8)  # a submission is opened for each split that is scored
def parse_metadata(raw: bytes) -> tuple[SubmissionInfo | None, list[Fault]]:
    """Parse submission.toml, and return the metadata and all faults.

    The metadata is None if there are faults other than warnings.
    """
    if len(raw) > METADATA_LIMIT:
        return None, [Fault("too-large", f"it is larger than {METADATA_LIMIT:,} bytes", METADATA_NAME)]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return None, [Fault("bad-encoding", "it is not UTF-8; save the file as UTF-8", METADATA_NAME, line)]
    try:
        table = parse_toml(text)
    except ValueError as error:
        reason = str(error)
        at = re.search(r"at line (\d+)", reason)
        line = int(at[1]) if at else text.count("\n") + 1
        return None, [Fault("bad-toml", f"it is not valid TOML: {reason}", METADATA_NAME, line)]
    faults: list[Fault] = []
    lines = _number_keys(text)

    def note(key: str, message: str, code: str = "bad-metadata") -> None:
        faults.append(Fault(code, message, METADATA_NAME, lines.get(key)))

    # The fields are checked by hand, because no library reports all faults with their lines and advice.
    for key, (is_valid, wanted) in _FIELDS.items():
        if (key in table or key in ("format", "name")) and not is_valid(table.get(key)):
            if key not in table:
                lines.pop(key, None)  # a key of the same name in [predictor] or another table
            note(key, f"{key!r} must be {wanted}, but is {_shown(table.get(key))}")
            table.pop(key, None)
    predictor: dict[str, Any] = {}
    try:
        plain = json.dumps(table.get("predictor", {}), default=lambda time: time.isoformat(), allow_nan=False)
        predictor = json.loads(plain)
    except ValueError:
        note("predictor", "'predictor' must contain only finite numbers, strings, lists and tables")
    data = by_dotted_key(table.get("data", {}))
    for key, value in data.items():
        if not isinstance(value, str) or not re.fullmatch("sha256:[0-9a-f]{64}", value):
            note(
                key,
                f'the data entry {quoted(key)} must be "sha256:" followed by 64 hex digits, but is {_shown(value)}',
            )
    marks: dict[str, dict[str, dict[str, Any]]] = {"partial": {}, "incomplete": {}}
    for name, entries in marks.items():
        count, text, least = _MARKS[name]
        # by dotted key, so that [partial.squad.validation] works without quotes
        for path, value in by_dotted_key(table.get(name, {})).items():
            key, _, inner = path.rpartition(".")
            entry = entries.setdefault(key, {})
            if inner in (count, "of", text):
                entry[inner] = value
            else:
                message = (
                    f"the field {quoted(inner)} in the {name} entry {quoted(key)} is unknown and was ignored"
                )
                note(inner, message, "unknown-key")
        for key, entry in entries.items():
            for fault in _mark_faults(entry, count, text, least):
                note(name, f"the {name} entry {quoted(key)} {fault}")
    for key in (key for key in table if key not in _FIELDS):
        note(key, f"the field {quoted(key)} is unknown and was ignored", "unknown-key")
    if not all(fault.code in WARNINGS for fault in faults):
        return None, faults
    fields = {key: value for key, value in table.items() if key in _FIELDS and key != "format"}
    fields |= {"predictor": predictor, "data": data, "date": str(table.get("date", "")), **marks}
    return SubmissionInfo(**{**fields, "authors": tuple(table.get("authors", ()))}), faults


_KEY = re.compile(r"""[ \t]*\[?[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([\w-]+))[ \t]*[=.\]]""")


def _number_keys(text: str) -> dict[str, int]:
    """Return the number of the line on which each key first occurs.

    All keys are found in a single pass, because a file may have thousands of wrong keys.
    """
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if at := _KEY.match(line):
            lines.setdefault(at[1] or at[2] or at[3], number)
    return lines


def _mark_faults(entry: Mapping[str, Any], count: str, text: str, least: int) -> Iterator[str]:
    lowest = {count: least, "of": 1}
    wrong = [key for key in lowest if type(entry.get(key)) is not int or entry[key] < lowest[key]]
    for key in wrong:
        fault = f"an invalid {key!r} ({_shown(entry[key])})" if key in entry else f"no {key!r}"
        yield f"has {fault}; specify a number of examples, such as {key} = 100"
    if (
        not wrong and entry[count] >= entry["of"] + least
    ):  # all examples can fail, but a limited run can't answer all
        most = "at most" if least else "less than"
        yield f"has {count} = {entry[count]}, but {count!r} must be {most} 'of' ({entry['of']})"
    if not isinstance(entry.get(text, ""), str):
        yield f"has an invalid {text!r} ({_shown(entry[text])}); use a string in quotes"


def _is_date(value: Any) -> bool:
    if not isinstance(value, str):
        return type(value) is datetime.date
    try:
        return not value or datetime.date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "format": (lambda value: value == FORMAT, f'"{FORMAT}" for this version'),
    "name": (
        lambda value: isinstance(value, str) and bool(value.strip()) and value.isprintable(),
        "one line of text in quotes",
    ),
    "authors": (
        lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
        'a list of strings, such as ["A. Author"]',
    ),
    "description": (lambda value: isinstance(value, str), "a string in quotes"),
    "url": (
        lambda value: isinstance(value, str) and re.fullmatch(r"(https?://[!-~]+)?", value) is not None,
        "an address that begins with https:// or http://",
    ),
    "model_size": (
        lambda value: type(value) is int and value >= 0,
        "the number of parameters, such as 110_000_000",
    ),
    "training_data": (lambda value: isinstance(value, str), "a string in quotes"),
    "date": (_is_date, "a date in the form YYYY-MM-DD"),
    **{name: (lambda value: isinstance(value, dict), f"a table, [{name}]") for name in ("predictor", "data")},
    **{
        name: (
            lambda value: isinstance(value, dict),
            f'a table for each split, such as [{name}."sst.validation"]',
        )
        for name in ("partial", "incomplete")
    },
}
"""For each field of submission.toml: a function that checks its value, and a description of valid values."""

_MARKS = {"partial": ("answered", "chosen", 0), "incomplete": ("failed", "error", 1)}
"""For each table about missing answers: the key of its count, the key of its description (a
string), and the smallest valid count.
"""


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, datetime.date | datetime.time):
        return "a date or time"
    return "a table" if isinstance(value, dict) else kind_of(value)


# Folders and archives

RESULTS = "results"
"""The name of the folder in a submission where `decabench evaluate` writes results."""

Files = dict[tuple[str, str], PredictionFile]
"""The answer file for each (task, split)."""


@dataclass(frozen=True)
class Submission:
    """A submission's metadata and answer files."""

    info: SubmissionInfo
    """The content of submission.toml."""
    files: Mapping[tuple[str, str], PredictionFile]
    """The answer file for each (task, split)."""
    variants: Mapping[int, Mapping[tuple[str, str], PredictionFile]] = field(default_factory=dict)
    """The answer files for other wordings of the questions, by wording number from 1."""
    folder: Path | None = None
    """The submission's folder, which is temporary for an archive; None if the submission was not opened."""

    def files_of(self, task: str, split: str) -> dict[str, Path]:
        """Return the paths on disk of a split's answer files, including variants, by path in the submission."""
        files = (found.get((task, split)) for found in (self.files, *self.variants.values()))
        return {file.name: file.path for file in files if file is not None}


@contextmanager
def open_submission(path: str | Path) -> Iterator[Submission]:
    """Open a submission. Archives are unpacked into a temporary folder, which is removed when the block ends.

    Raises SubmissionError for faults in submission.toml and file names. Answers are not checked; use `check_submission`
    for that.
    """
    with submission_folder(Path(path)) as root:
        info, faults = read_metadata(root)
        name = Path(path).resolve().name
        if info is None and is_unfinished(root):
            raise SubmissionError(f"{name}: {faults[0].message}.")
        files, misnamed = find_predictions(root)
        variants, stray = find_variants(root)
        found = [each for each in (*faults, *misnamed, *stray) if each.code not in WARNINGS]
        if not files and not misnamed:
            found.append(Fault("no-predictions", describe_no_predictions()))
        if info is None or found or not files:
            raise SubmissionError(_describe_faults(name, found))
        yield Submission(info, files, variants, root)


def describe_no_predictions(splits: Collection[str] = (), others: Collection[str] = ()) -> str:
    """Explain that there are no answers for some splits. `others` are the splits that have answers."""
    wanted = " or ".join(splits)
    where = f"no answers for {wanted}" if wanted else "no answers"
    only = f", only for {' and '.join(sorted(others))}" if others else ""
    advice = f"choose --split {sorted(others)[-1]}, or write" if others else "write"
    return (
        f"{FOLDER}/ has {where}{only}; {advice} "
        f"{FOLDER}/<task>.{next(iter(splits), 'validation')}.jsonl with a line such as "
        f'{{"id": "…", "answer": "…"}} for each example'
    )


_MOST_FAULTS = 8


def _describe_faults(name: str, faults: Sequence[Fault]) -> str:
    if len(faults) < 2:
        return with_full_stop(
            f"{name}: {faults[0] if faults else f'no-predictions: {describe_no_predictions()}'}"
        )
    alike = group_faults(faults)
    lines = [f"- {sentence}" for sentence, _ in alike[:_MOST_FAULTS]]
    more = sum(count for _, count in alike[_MOST_FAULTS:])
    lines += [f"- and {more:,} more"] if more else []
    return f"{name} is not a valid submission:\n" + "\n".join(lines)


@contextmanager
def submission_folder(path: Path) -> Iterator[Path]:
    """Provide the folder with submission.toml: `path` itself, or a temporary folder with the unpacked archive.

    Raises SubmissionError if `path` doesn't exist or is not a submission.
    """
    kinds = ", ".join(ARCHIVE_SUFFIXES)
    if (folder := _folder_around(path)) is not None:
        raise SubmissionError(f"{path} is inside the submission {folder}. Specify {folder}.")
    if path.is_dir():
        yield path
    elif not path.exists():
        raise SubmissionError(f"There is no {path}. Specify a folder or an archive ({kinds}).")
    elif _NAME.fullmatch(path.name):
        raise SubmissionError(
            f"{printable(path.name)} is an answer file, not a submission. Move the file to "
            f"DIR/{FOLDER}/TASK.SPLIT.jsonl, write DIR/{METADATA_NAME} with the lines format = "
            f'"{FORMAT}" and name = "my model", and then specify DIR.'
        )
    elif not is_archive(path):
        raise SubmissionError(
            f"{printable(path.name)} is not a submission. Specify a folder or an archive ({kinds})."
        )
    else:
        with temporary_folder() as temporary:
            unpack(path, temporary)
            top = _top(temporary)
            if is_archive(top):
                raise SubmissionError(
                    f"{printable(path.name)} contains only another archive. Unpack {printable(path.name)} and "
                    f"specify {printable(top.name)}."
                )
            yield top


def _folder_around(path: Path) -> Path | None:
    """Return the submission that a path without submission.toml is part of, or None if there is none."""
    if (path / METADATA_NAME).exists() or not path.exists() or is_archive(path):
        return None
    is_plain = path.parts and ".." not in path.parts
    above = (path if is_plain else path.resolve()).parents[:_DEPTH]
    return next((folder for folder in above if (folder / METADATA_NAME).is_file()), None)


_DEPTH = 4
"""The number of folders between a submission and the deepest of its files, `variants/<K>/predictions/<file>`."""

_ADDED = (".", "__MACOSX", "Thumbs.db", "desktop.ini")
"""Name prefixes of files and folders that operating systems add."""


def _top(folder: Path) -> Path:
    """Skip folders whose only entry is another folder or an archive, and return the folder or archive inside."""
    entries = [path for path in folder.iterdir() if not path.name.startswith(_ADDED)]
    if len(entries) != 1 or entries[0].name == FOLDER:
        return folder
    only = entries[0]
    return _top(only) if only.is_dir() else only if is_archive(only) else folder


def is_unfinished(root: Path) -> bool:
    """Return whether a folder contains the journal of a run, but no submission yet."""
    return (
        (root / "journal").is_dir() and not (root / METADATA_NAME).exists() and not (root / FOLDER).exists()
    )


def read_metadata(root: Path) -> tuple[SubmissionInfo | None, list[Fault]]:
    """Read submission.toml, and return the metadata and all faults.

    The metadata is None if there are faults other than warnings.
    """
    path = root / METADATA_NAME
    if is_unfinished(root):
        message = (
            "decabench predict is still running, was interrupted or failed; its answers so far are in "
            "journal/. Run the same command again to continue"
        )
        return None, [Fault("no-submission-toml", message)]
    if not _is_plain_file(root, path):
        return None, [
            Fault(
                "no-submission-toml",
                f"there is no {METADATA_NAME} in the submission; write this file, with at least the lines "
                f'format = "{FORMAT}" and name = "my model"',
            )
        ]
    try:
        with open(path, "rb") as handle:
            info, faults = parse_metadata(handle.read(METADATA_LIMIT + 1))
            return info, list(faults)
    except OSError as error:
        require_machine(error, path)
        return None, [Fault("unreadable-file", f"it can't be read: {error.strerror}", METADATA_NAME)]


# Finding the answer files by their names


@dataclass(frozen=True)
class Scope:
    """A filter for the files of a submission."""

    known_tasks: Collection[str] | None = None
    """The names of all tasks; None to accept any name."""
    tasks: Collection[str] | None = None
    """The tasks to include; None for all."""
    splits: Collection[str] | None = None
    """The splits to include; None for all."""

    def includes(self, task: str, split: str) -> bool:
        """Return whether a file is included. Files without a valid split in their name are not filtered by split."""
        return (self.tasks is None or task in self.tasks) and (
            self.splits is None or split in self.splits or split not in SPLITS
        )


_EVERYTHING = Scope()
_NAME = re.compile(r"(?P<stem>.+)\.jsonl(\.gz|\.zst)?")
_SPLIT_ALIASES = {"dev": "validation", "val": "validation", "valid": "validation", "eval": "test"}


def file_name(task: str, split: str) -> str:
    """Return `<task>.<split>.jsonl`. Raises SubmissionError if a name is invalid."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", task, re.ASCII):
        raise SubmissionError(
            f"{quoted(task)} is not a valid task name. Use letters, digits, dots, hyphens and underscores."
        )
    if split not in SPLITS:
        raise SubmissionError(f"{quoted(split)} is not a split. Use one of {', '.join(SPLITS)}.")
    return f"{task}.{split}.jsonl"


def find_predictions(root: Path, scope: Scope = _EVERYTHING) -> tuple[Files, list[Fault]]:
    """Find the answer files in `predictions/`, sorted by name, and report unknown files."""
    faults = [
        Fault("unknown-file", f"answer files belong in {FOLDER}/; move the file there", printable(path.name))
        for path in sorted(root.iterdir())
        if _NAME.fullmatch(path.name) and not path.name.startswith(".")
    ]
    return find_files(root, FOLDER, scope, faults), faults


def find_variants(root: Path, scope: Scope = _EVERYTHING) -> tuple[dict[int, Files], list[Fault]]:
    """Find the files in `variants/<K>/predictions/`, sorted by K, and report unknown files."""
    folder, numbers, faults = root / VARIANTS, [], []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if re.fullmatch(r"[1-9][0-9]{0,2}", path.name) and path.is_dir() and is_within(root, path):
            numbers.append(int(path.name))
        elif not path.name.startswith("."):
            reason = (
                f"it is not the folder of a variant; use the variant's number, as in {VARIANTS}/1/{FOLDER}/"
            )
            faults.append(Fault("unknown-file", reason, f"{VARIANTS}/{printable(path.name)}"))
    return {
        number: find_files(root, predictions_folder(number), scope, faults, number)
        for number in sorted(numbers)
    }, faults


def find_files(root: Path, name: str, scope: Scope, faults: list[Fault], variant: int = 0) -> Files:
    """Return the answer files in a folder, by task and split.

    Appends a fault to `faults` for each unknown, misnamed or duplicate file.
    """
    found: Files = {}
    folder = root / name
    is_inside = is_within(root, folder)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith("."):
            continue
        code = reason = ""
        match = _NAME.fullmatch(path.name)
        is_plain = path.is_file() and ((is_inside and not path.is_symlink()) or is_within(root, path))
        if match is None or not is_plain:
            code, reason = "unknown-file", _why_unknown(root, path)
        else:
            task, split = _task_and_split(match["stem"], scope)
            if not scope.includes(task, split):
                continue
            code, reason = _name_fault(task, split, scope)
            if not code:
                file = PredictionFile(path, task, split, variant)
                if (first := found.setdefault((task, split), file)) is not file:
                    code = "duplicate-file"
                    reason = f"{first.name} contains answers for the same split; keep only one of the files"
        if code:
            faults.append(Fault(code, reason, f"{name}/{printable(path.name)}"))
    return found


def _task_and_split(stem: str, scope: Scope) -> tuple[str, str]:
    """Split `<task>.<split>` into its parts. The split is empty if it is missing, as in `iwslt.en.de`."""
    task, _, split = stem.rpartition(".")
    is_task = not task or (scope.known_tasks is not None and stem in scope.known_tasks)
    return (stem, "") if is_task else (task, split)


def _name_fault(task: str, split: str, scope: Scope) -> tuple[str, str]:
    if not split:
        meant = quoted(f"{task}.validation.jsonl")
        return "unknown-split", f"the file name has no split; add the split, as in {meant}"
    if split not in SPLITS:
        meant = _SPLIT_ALIASES.get(split.casefold(), split.casefold())
        return "unknown-split", _unknown("split", split, meant, SPLITS)
    if scope.known_tasks is not None and task not in scope.known_tasks:
        own = " To use your own task, specify its task file with --include."
        return "unknown-task", _unknown("task", task, task.casefold(), scope.known_tasks) + own
    return "", ""


def _unknown(kind: str, name: str, meant: str, known: Collection[str]) -> str:
    try:
        return f"There is no {kind} {quoted(name)}. Did you mean {require_name(meant, known, kind)}?"
    except UnknownNameError as error:
        return str(error)


def _why_unknown(root: Path, path: Path) -> str:
    if path.is_dir():
        return f"it is a folder; put the files directly into {printable(path.parent.name)}/"
    if path.is_symlink() and not _is_plain_file(root, path):
        return "it is a link that points outside the submission; replace the link with a copy of the file"
    if not path.is_file():
        return "it is not a regular file"
    packed = " or ".join(f".jsonl{suffix}" for suffix in SUFFIXES.values())
    return f"its name does not end in {packed}; rename or remove the file"


def _is_plain_file(root: Path, path: Path) -> bool:
    return path.is_file() and is_within(root, path)


# Writing


@contextmanager
def lock_submission(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock, so that only one process writes to a submission at a time.

    Raises DecabenchError if another process still holds the lock after `patience` seconds, and StorageError if
    locking fails.
    """
    is_new = not folder.exists()
    refusal = (
        f"Another process is writing to {folder}. Wait until it has finished, or choose another --output."
    )
    try:
        with lock_file(folder / METADATA_NAME, refusal, patience, "--output"):
            yield
    finally:
        if is_new:
            remove_if_empty(folder)


def write_submission(
    folder: str | Path,
    info: SubmissionInfo | str,
    predictions: Mapping[tuple[str, str], Iterable[tuple[str, str] | Mapping[str, Any]]],
    compress: Compression = None,
) -> Submission:
    """Write answers and submission.toml.

    `predictions` maps (task, split) to (id, answer) pairs, or to mappings with at least the keys `id` and `answer`.
    Files for other splits are kept. Raises SubmissionError for invalid answers or metadata, and StorageError if the
    folder can't be written.
    """
    folder = Path(folder)
    info = SubmissionInfo(info) if isinstance(info, str) else info
    metadata = render_metadata(info)
    with lock_submission(folder):
        write_predictions(folder, predictions, compress)
        write_file(folder / METADATA_NAME, metadata)
    return Submission(info, find_predictions(folder)[0])


def write_predictions(
    folder: Path,
    predictions: Mapping[tuple[str, str], Iterable[tuple[str, str] | Mapping[str, Any]]],
    compress: Compression = None,
) -> None:
    """Write answer files to `predictions/`, replacing each file atomically.

    Raises SubmissionError for invalid answers, and StorageError if a file can't be written or a link leads
    out of the folder.
    """
    require_within(folder, folder / FOLDER)
    paths = {pair: folder / FOLDER / file_name(*pair) for pair in predictions}
    for pair, answers in predictions.items():
        bare = paths[pair]
        with atomic_file(bare.with_name(bare.name + SUFFIXES[compress]), compress) as handle:
            _write_answers(handle, answers)
        for other, suffix in SUFFIXES.items():
            if other != compress:
                bare.with_name(bare.name + suffix).unlink(missing_ok=True)


def _write_answers(handle: IO[bytes], answers: Iterable[tuple[str, str] | Mapping[str, Any]]) -> None:
    """Write a line for each answer, given as an (id, answer) pair or as a mapping with at least the keys id and answer.

    Raises SubmissionError if an answer is invalid or an id occurs twice.
    """
    seen: set[str] = set()
    for number, given in enumerate(answers, start=1):
        line = given if isinstance(given, Mapping) else {"id": given[0], "answer": given[1]}
        id_, answer = line["id"], line["answer"]
        if not isinstance(id_, str) or not isinstance(answer, str):
            raise SubmissionError(f"{_unwritten(number, id_)}: 'id' and 'answer' must both be strings.")
        if id_ in seen:
            fault = f"duplicate-id: the id {quoted(id_)} is used more than once; keep only one answer."
            raise SubmissionError(f"{_unwritten(number, id_)}: {fault}")
        seen.add(id_)
        try:
            raw = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        except UnicodeEncodeError as error:
            raise SubmissionError(
                f"{_unwritten(number, id_)}: bad-encoding: {describe_surrogate(error)}."
            ) from error
        if len(raw) > (most := Limits().line_bytes):
            raise SubmissionError(
                f"{_unwritten(number, id_)}: too-large: the line would be longer than {most:,} bytes; shorten "
                "the answer."
            )
        handle.write(raw)


def _unwritten(number: int, id_: object) -> str:
    return f"Answer {number} (id {quoted(str(id_))}) was not written"


def changed_answers(
    old: tuple[Path, SubmissionInfo], new: tuple[Path, SubmissionInfo], pairs: Iterable[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Return the (task, split) pairs for which two folders differ in answers, data or entries about missing answers."""
    (folder, info), (other, other_info) = old, new
    return {
        (task, split)
        for task, split in pairs
        if info.data.get(f"{task}.{split}") != other_info.data.get(f"{task}.{split}")
        or _marks(info, task, split) != _marks(other_info, task, split)
        or _digests(folder, file_name(task, split)) != _digests(other, file_name(task, split))
    }


def _marks(info: SubmissionInfo, task: str, split: str) -> list[tuple[str, Mapping[str, Any]]]:
    marks = (*info.partial.items(), *info.incomplete.items())
    name = f"{task}.{split}"
    return [(key, mark) for key, mark in marks if key == name or key.startswith(f"{name}.variant")]


def _digests(folder: Path, name: str) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): file_digest(path)
        for pattern in (f"{FOLDER}/{name}*", f"{VARIANTS}/*/{FOLDER}/{name}*")
        for path in folder.glob(pattern)
        if path.is_file()
    }


def remove_results(folder: Path, splits: Collection[str] = SPLITS) -> tuple[str, ...]:
    """Remove a submission's results for the given splits, and return the folders that contained them.

    Other files are kept. Raises StorageError if a file can't be removed.
    """
    found = sorted(
        path
        for path in (folder / RESULTS).glob("*")
        if path.is_dir() and path.name.partition("-")[0] in splits
    )
    stale = []
    for results in found:
        rows = (*results.glob("statistics/*.parquet"), *results.glob("examples/*.jsonl.gz"))
        stale += [results / "results.json", results / "run.json", *rows]
    require_within(folder, *stale)
    with storage_errors(folder):
        for path in stale:
            path.unlink(missing_ok=True)
        for results in found:
            remove_if_empty(results / "statistics", results / "examples", results)
        remove_if_empty(folder / RESULTS)
    return tuple(results.relative_to(folder).as_posix() for results in found)


def remove_if_empty(*folders: Path) -> None:
    """Remove each folder that is empty. Links are kept."""
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()
