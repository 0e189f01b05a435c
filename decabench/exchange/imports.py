"""Turn answers in another program's file into a submission: match every row to an example by its id, and write them.

A file with a row that is not the answer to exactly one example is refused as a whole, with every such row; nothing is
written then. Examples without an answer are no obstacle: `decabench check` reports them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import decabench
from decabench.errors import DecabenchError, SubmissionError, UnknownNameError, require_name
from decabench.exchange.foreign_files import (
    FORMATS,
    ForeignAnswer,
    ForeignFile,
    HeadingError,
    Places,
    frame_answers,
    open_foreign,
)
from decabench.files import (
    Paths,
    atomic_file,
    file_digest,
    names_in,
    remove_file,
    require_within,
    temporary_folder,
)
from decabench.prompts import (
    EXTRACTION_VERSION,
    ReasoningTags,
    check_reasoning_tags,
    extract,
    load_template,
    make_prompting,
    settle_form,
)
from decabench.scoring import drop_results
from decabench.submission import (
    METADATA_NAME,
    CheckReport,
    Fault,
    Limits,
    SubmissionInfo,
    changed_answers,
    check_submission,
    describe_other_form,
    find_predictions,
    lock_submission,
    read_metadata,
    render_metadata,
    write_predictions,
)
from decabench.tasks import SPLITS, Label, Number, Store, Task, get_task, home_folder, known_tasks
from decabench.text import excerpt, printable, quoted

__all__ = ["ImportReport", "ImportSettings", "RefusedImportError", "import_answers"]

IMPORTED = "imported"
"""The name of the predictor in the submission.toml of an import."""

_PATIENCE = 60.0
"""Seconds to wait for another process that writes to the folder, which most often is another import."""

_SHOWN = 20
_NOTE_LENGTH = 2_000


_UNKNOWN = "\nCheck the task and the split, or leave out rows without an example with --ignore-unknown."
_IN_ORDER = "If the rows are in the order of the data, one for each example, match them with --in-order."


class RefusedImportError(SubmissionError):
    """Rows that are not the answer to exactly one example; nothing was imported."""

    def __init__(self, name: str, faults: list[Fault], reason: str = "") -> None:
        self.faults = tuple(faults)
        """Every faulty row."""
        most = 3 if reason else _SHOWN
        shown = "".join(f"\n  {fault}" for fault in faults[:most])
        rest = len(faults) - most
        more = f"\n  … and {rest:,} more: list them all with --report FILE" if rest > 0 else ""
        rows = "1 row is" if len(faults) == 1 else f"{len(faults):,} rows are"
        why = reason or f"{rows} not the answer to exactly one example"
        if {fault.code for fault in faults} == {"wrong-count"}:
            why = "it has not one row for each example"
        advice = ""
        if reason or {fault.code for fault in faults} == {"missing-field"}:
            advice = f"\n{'Check the task and the split. ' if reason else ''}{_IN_ORDER}"
        elif any(fault.code == "unknown-id" for fault in faults):
            advice = _UNKNOWN
        super().__init__(f"{name} was not imported: {why}. Nothing was written.{shown}{more}{advice}")


@dataclass(frozen=True)
class ImportSettings:
    """How the rows of a file become answers."""

    places: Places = field(default_factory=Places)
    """Where ids and answers are in the file."""
    in_order: bool = False
    """Match rows to examples by their order and not by id; there must be one for each."""
    extract: bool | None = None
    """Whether to extract answers from a model's text; None for what the format holds: raw output or answers."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Answer in the file to the dataset's own word for it, such as 1 to positive."""
    ignore_unknown: bool = False
    """Leave out rows whose id no example of the split has; their number is recorded."""
    partial: bool = False
    """Mark the file as a limited run, which is scored on the examples that it answers and never ranked."""
    force: bool = False
    """Replace the answers that an earlier import left for the same split."""
    note: str = ""
    """What the submission is to say about where the answers come from."""
    reasoning_tags: ReasoningTags = ()
    """Pairs of tags around a model's reasoning, besides the known ones; for answers that are extracted."""


@dataclass(frozen=True)
class ImportReport:
    """What was imported."""

    folder: Path
    """The submission."""
    task: str
    """The task's name."""
    split: str
    """The split."""
    imported: int
    """Answers written."""
    examples: int
    """Examples of the split."""
    left_out: int
    """Rows left out because no example has their id."""
    words: str
    """What was done, as the submission records it."""
    check: CheckReport
    """What `decabench check` says about the task's answers."""
    removed: tuple[str, ...] = ()
    """Results that were removed since their answers changed."""


def import_answers(
    source: Any,
    task: str | Task,
    output: str | Path,
    name: str = "",
    split: str = "validation",
    format: str = "",
    settings: ImportSettings | None = None,
    home: str | Path | None = None,
    include: Paths = (),
) -> ImportReport:
    """Import the answers to one split of a task into a submission's folder, which may hold imports of other tasks.

    `source` is a file in one of the formats (`squad`, `csv`, `text`, `lm-eval`, `inspect`), or a table in memory: a
    DataFrame, a `datasets.Dataset` or a mapping of columns. `name` names a new submission. Raises RefusedImportError
    with every faulty row, SubmissionError if the file or folder cannot be used, MissingDataError if the split is not
    prepared. The same import again changes nothing.
    """
    known = known_tasks(include)
    chosen = task if isinstance(task, Task) else get_task(task, known)
    settings = settings or ImportSettings()
    store, folder = Store(home_folder(home)), Path(output)
    require_name(split, SPLITS, "split")
    _check_settings(settings, chosen)
    store.require([chosen], split)
    fingerprint, key = store.record(chosen.name, split).stated, f"{chosen.name}.{split}"
    _occupant(folder, name)  # before anything is read
    given = _open(source, format, chosen, settings)
    ids = store.ids(chosen.name, split)
    upstream = _upstream_ids(store, chosen.name, split)
    try:
        matched = _match(given.file, given.title, ids, upstream, settings)
    except HeadingError as error:
        if {*ids, *upstream}.isdisjoint(error.heading):
            raise
        raise SubmissionError(
            f"{given.title} begins with an answer: add a first line that names the columns, such as id,answer."
        ) from error
    if not matched.rows:
        raise SubmissionError(
            f"{given.title} has no answer to any of the {len(ids):,} examples of {chosen.name}, {split}."
        )
    is_raw = given.file.is_raw if settings.extract is None else settings.extract
    if settings.reasoning_tags and not is_raw:
        raise DecabenchError("--reasoning-tags is for answers that are extracted: add --extract.")
    replaced: set[str] = set()
    lines = list(_lines(store, chosen, split, matched.rows, is_raw, settings, replaced))
    if faults := list(_unwritable(lines, given.title, matched.rows)):
        raise RefusedImportError(given.title, faults)
    words = _words(matched, len(ids), is_raw, settings, replaced)
    about = _describe(given, matched, words, settings)
    with lock_submission(folder, _PATIENCE):
        before = _occupant(folder, name)  # with what other processes have imported meanwhile
        earlier = _imports(before)
        info = replace(
            before,
            predictor={"name": IMPORTED, "imports": {**earlier, key: about}},
            data={**before.data, key: fingerprint},
            partial=_partial(before, key, len(matched.rows), len(ids), settings.partial),
        )
        pair = (chosen.name, split)
        changed = _changed(folder, before, info, pair, lines)
        is_there = pair in find_predictions(folder)[0]
        is_repeated = is_there and not changed and _is_same(earlier.get(key), about)
        if is_there and not is_repeated and not settings.force:
            raise SubmissionError(
                f"{folder} has other answers for {chosen.name}, {split}, already: replace them with --force."
            )
        removed = () if is_repeated else _write(folder, info, pair, lines, changed)
    report = check_submission(
        folder,
        {(chosen.name, split): ids},
        known,
        tasks=[chosen.name],
        splits=[split],
        fingerprints={(chosen.name, split): fingerprint},
    )
    return ImportReport(
        folder, chosen.name, split, len(matched.rows), len(ids), matched.left_out, words, report, removed
    )


@dataclass(frozen=True)
class _Source:
    """What is imported."""

    file: ForeignFile
    """Its rows."""
    title: str
    """Its name, for messages."""
    format: str
    """The name of its format; `table` for one in memory."""
    origin: Mapping[str, Any]
    """Name, size and digest, for the submission to keep."""


def _open(source: Any, format: str, task: Task, settings: ImportSettings) -> _Source:
    if not isinstance(source, str | Path):
        opened = frame_answers(source, settings.places, isinstance(task.output, Number))
        return _Source(opened, "The table", "table", {"name": type(source).__name__})
    path = Path(source)
    if not format:
        raise UnknownNameError(f"Which format does {path.name} have? Give format: {', '.join(FORMATS)}.")
    opened = open_foreign(path, format, settings.places)
    origin = {"name": printable(path.name), "bytes": path.stat().st_size, "sha256": file_digest(path)}
    return _Source(opened, path.name, format, origin)


def _describe(given: _Source, matched: _Matched, words: str, settings: ImportSettings) -> dict[str, Any]:
    """Return what the submission keeps of an import."""
    optional = {
        "facts": {key: excerpt(value) for key, value in given.file.facts.items()},
        "labels": dict(settings.labels),
        "reasoning_tags": [list(pair) for pair in settings.reasoning_tags],
        "note": settings.note,
    }
    return {
        "format": given.format,
        "file": dict(given.origin),
        "rows": len(matched.rows) + matched.left_out,
        "imported": len(matched.rows),
        "left_out": matched.left_out,
        "words": words,
        "decabench": decabench.__version__,
        **{key: value for key, value in optional.items() if value},
    }


def _imports(info: SubmissionInfo) -> Mapping[str, Any]:
    """Return what a submission keeps of its imports, by task and split."""
    found = info.predictor.get("imports")
    return found if isinstance(found, Mapping) else {}


def _is_same(earlier: Any, about: Mapping[str, Any]) -> bool:
    """Whether an import is an earlier one again, by whatever version."""
    return isinstance(earlier, Mapping) and {**earlier, "decabench": ""} == {**about, "decabench": ""}


def _partial(
    info: SubmissionInfo, key: str, answered: int, whole: int, is_partial: bool
) -> dict[str, Mapping[str, Any]]:
    """Return the marks of limited runs, with that of this import if it is one."""
    marks = {other: mark for other, mark in info.partial.items() if other != key}
    if is_partial and answered < whole:
        marks[key] = {"answered": answered, "of": whole, "chosen": "the examples in the imported file"}
    return marks


def _check_settings(settings: ImportSettings, task: Task) -> None:
    check_reasoning_tags(settings.reasoning_tags)
    if len(settings.note) > _NOTE_LENGTH:
        raise DecabenchError(
            f"The note has {len(settings.note):,} characters: write at most {_NOTE_LENGTH:,}."
        )
    names = task.output.names if isinstance(task.output, Label) else ()
    if names and (strange := sorted(set(settings.labels.values()) - set(names))):
        raise DecabenchError(
            f"{', '.join(map(quoted, strange))} cannot be a label of {task.name}: its labels are {', '.join(names)}."
        )


def _occupant(folder: Path, name: str) -> SubmissionInfo:
    """Return what a folder's submission says of itself, or that of a new one. Raises SubmissionError."""
    if folder.is_dir() and names_in(folder) and not (folder / METADATA_NAME).exists():
        raise SubmissionError(f"{folder} is neither empty nor a submission: give another folder.")
    if folder.exists() and not folder.is_dir():
        raise SubmissionError(f"{folder} is a file: give a folder.")
    if not (folder / METADATA_NAME).exists():
        if not name:
            raise DecabenchError(f"{folder} is a new submission: name it with --name.")
        return SubmissionInfo(name)
    info, faults = read_metadata(folder)
    if info is None:
        raise SubmissionError(f"{folder} holds a submission that cannot be read: {faults[0]}.")
    if info.predictor.get("name") != IMPORTED:
        raise SubmissionError(
            f"{folder} holds {quoted(info.name)}, whose answers were not imported: give another folder."
        )
    if name and name != info.name:
        raise SubmissionError(
            f"{folder} holds {quoted(info.name)}: leave out --name, or give another folder."
        )
    return info


# Matching


@dataclass(frozen=True)
class _Matched:
    """Rows by the id of their example."""

    rows: Mapping[str, ForeignAnswer]
    """Id to its row."""
    left_out: int
    """Rows without an example."""
    in_order: bool
    """Whether rows were matched by order."""


def _upstream_ids(store: Store, task: str, split: str) -> dict[str, str]:
    """Return upstream's id of each example to ours, where ours are others since upstream's tell the answers."""
    found: dict[str, str] = {}
    repeated = set()
    for row in store.read(task, split, ("id", "meta")):
        upstream = row["meta"].get("id")
        if not isinstance(upstream, str):
            return {}
        if found.setdefault(upstream, row["id"]) != row["id"]:
            repeated.add(upstream)
    return {upstream: id_ for upstream, id_ in found.items() if upstream not in repeated}


def _match(
    opened: ForeignFile, name: str, ids: list[str], upstream: Mapping[str, str], settings: ImportSettings
) -> _Matched:
    """Match every row to an example. Raises RefusedImportError with all rows that match none, or that match twice."""
    in_order = opened.in_order or settings.in_order
    rows: dict[str, ForeignAnswer] = {}
    faults: list[Fault] = []
    known, left_out, number = set(ids), 0, 0
    for number, row in enumerate(opened.rows, 1):
        if number > 1_000_000 + 10 * len(ids):
            raise SubmissionError(f"{name} has more than {number - 1:,} rows for {len(ids):,} examples.")
        if row.problem is not None and not (in_order and row.problem[0] == "missing-field"):
            faults.append(Fault(*row.problem, name, row.line))
            continue
        id_ = row.id
        if in_order:
            at = number - 1 if row.position is None else row.position
            id_ = ids[at] if 0 <= at < len(ids) else None
        if id_ is None:
            continue  # beyond the last example, which the count below reports
        id_ = id_ if id_ in known else upstream.get(id_, id_)
        if id_ not in known:
            left_out += 1
            if not settings.ignore_unknown:
                form = describe_other_form(id_, known)
                faults.append(
                    Fault("unknown-id", form or f"no example has the id {quoted(id_)}", name, row.line)
                )
        elif id_ in rows:
            before = rows[id_].line
            where = f" (first on line {before})" if before else ""
            same = "the same answer" if rows[id_].answer == row.answer else "another answer"
            message = f"the id {quoted(row.id or id_)} occurs again, with {same}{where}"
            faults.append(Fault("duplicate-id", message, name, row.line))
        else:
            rows[id_] = row
    if in_order and number != len(ids):
        message = f"{number:,} rows for {len(ids):,} examples: matched by order, there must be one for each"
        raise RefusedImportError(name, [*faults, Fault("wrong-count", message, name)])
    if number and left_out == number:
        like = f"ids look like {quoted(ids[0])}" if ids else "the split has no examples"
        raise RefusedImportError(
            name, faults, f"none of its {number:,} rows has the id of an example ({like})"
        )
    if faults:
        raise RefusedImportError(name, faults)
    return _Matched(rows, left_out, in_order)


def _words(
    matched: _Matched, examples: int, is_raw: bool, settings: ImportSettings, replaced: set[str]
) -> str:
    how = "by the order of the data" if matched.in_order else "by id"
    parts = [f"{len(matched.rows):,} of {examples:,} examples matched {how}"]
    if matched.left_out:
        rows = "1 row" if matched.left_out == 1 else f"{matched.left_out:,} rows"
        parts.append(f"{rows} without an example left out")
    if is_raw:
        parts.append(f"answers extracted from the model's text (version {EXTRACTION_VERSION})")
    else:
        parts.append("answers taken as they are")
    if used := {theirs: ours for theirs, ours in settings.labels.items() if theirs in replaced}:
        parts.append(f"labels replaced: {_pairs(used)}")
    if unused := [theirs for theirs in settings.labels if theirs not in replaced]:
        parts.append(f"no answer was {excerpt(' or '.join(unused), 500)}")
    return "; ".join(parts) + "."


def _pairs(labels: Mapping[str, str]) -> str:
    return excerpt(", ".join(f"{ours} for {theirs}" for theirs, ours in labels.items()), 500)


# Writing


def _lines(
    store: Store,
    task: Task,
    split: str,
    rows: Mapping[str, ForeignAnswer],
    is_raw: bool,
    settings: ImportSettings,
    replaced: set[str],
) -> Iterator[dict[str, Any]]:
    """Yield the lines of the predictions file, in the order of the data; labels that occur are added to `replaced`."""
    form = settle_form(make_prompting(task, load_template("default")).form, task.output)
    form = replace(form, reasoning_tags=check_reasoning_tags(settings.reasoning_tags))
    labels = settings.labels
    columns = ("id", "question", "context") if is_raw else ("id",)
    for example in store.read(task.name, split, columns):
        row = rows.get(example["id"])
        if row is None:
            continue
        text = row.answer or ""
        line: dict[str, Any] = {"id": example["id"], "answer": text}
        whole = text if row.raw is None else row.raw
        rules = []
        if is_raw:
            found = extract(text, form, example["question"], row.finish, example["context"])
            line["answer"], rules = found.answer, [found.rule]
        if line["answer"] in labels:
            replaced.add(line["answer"])
            line["answer"] = labels[line["answer"]]
            rules.append("relabelled")
        if whole != line["answer"]:
            line["raw"] = whole
        if rules:
            line["rule"] = "+".join(rules)
        if row.finish != "stop":
            line["finish"] = row.finish
        yield line


def _unwritable(
    lines: Iterable[Mapping[str, Any]], name: str, rows: Mapping[str, ForeignAnswer]
) -> Iterator[Fault]:
    """Yield a fault for each line that a submission cannot hold."""
    most = Limits().line_bytes
    for line in lines:
        row = rows[line["id"]].line
        try:
            size = len(json.dumps(line, ensure_ascii=False).encode()) + 1
        except UnicodeEncodeError:
            message = (
                f"the answer to {quoted(line['id'])} has half of a surrogate pair, which is not a character"
            )
            yield Fault("bad-encoding", message, name, row)
        else:
            if size > most:
                message = (
                    f"the answer to {quoted(line['id'])} takes {size:,} bytes; at most {most:,} can be kept"
                )
                yield Fault("too-large", message, name, row)


def _changed(
    folder: Path,
    before: SubmissionInfo,
    info: SubmissionInfo,
    pair: tuple[str, str],
    lines: Sequence[Mapping[str, Any]],
) -> set[tuple[str, str]]:
    """Return the pair if these lines differ from what is there for it, and nothing if they are the same."""
    with temporary_folder() as made:
        write_predictions(made, {pair: lines})
        return changed_answers((folder, before), (made, info), [pair])


def _write(
    folder: Path,
    info: SubmissionInfo,
    pair: tuple[str, str],
    lines: Sequence[Mapping[str, Any]],
    changed: set[tuple[str, str]],
) -> tuple[str, ...]:
    """Write submission.toml and the answers; return which results that removed.

    What an earlier import left for the split goes first, with its results if the answers change.
    """
    metadata = render_metadata(info)
    old = find_predictions(folder)[0].get(pair)
    if old is not None:
        require_within(folder, old.path)
    removed = drop_results(folder, changed, info)
    if old is not None:
        remove_file(old.path)
    with atomic_file(folder / METADATA_NAME) as file:
        file.write(metadata)
    write_predictions(folder, {pair: lines})
    return removed
