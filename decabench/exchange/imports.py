"""Turn answers from another program into a submission.

Each row of the file is matched to an example. A rejected file changes nothing. Missing answers don't prevent
an import; `decabench check` reports them.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import decabench
from decabench.errors import DecabenchError, SubmissionError, UnknownNameError, require_name
from decabench.exchange.foreign_files import FORMATS, frame_answers, open_foreign
from decabench.exchange.foreign_rows import ForeignAnswer, ForeignFile, Places
from decabench.exchange.row_matching import Examples, MatchedRows, match_rows
from decabench.exchange.text_matching import letters_of
from decabench.files import (
    Paths,
    file_digest,
    names_in,
    remove_file,
    require_within,
    temporary_folder,
    write_file,
)
from decabench.prompts import (
    EXTRACTION_VERSION,
    NOT_IN_CONTEXT,
    ReasoningTags,
    check_reasoning_tags,
    extract,
    is_elsewhere,
    load_template,
    make_prompting,
    settle_form,
)
from decabench.submission import (
    METADATA_NAME,
    CheckReport,
    SubmissionInfo,
    changed_answers,
    check_submission,
    find_predictions,
    lock_submission,
    read_metadata,
    remove_results,
    render_metadata,
    write_predictions,
)
from decabench.tasks import SPLITS, Label, Number, Store, Task, get_task, known_tasks
from decabench.text import excerpt, printable, quoted

IMPORTED = "imported"
"""The predictor name in the submission.toml of an import."""

_PATIENCE = 60.0
"""The maximum number of seconds to wait while another process, usually another import, writes to the folder."""

_NOTE_LENGTH = 2_000
_FEW = 5
"""The minimum number of rows for detecting swapped labels. With fewer rows, all labels might differ by chance."""


@dataclass(frozen=True)
class ImportSettings:
    """Settings for turning the rows of a file into answers."""

    places: Places = field(default_factory=Places)
    """The locations of the ids and answers in the file."""
    in_order: bool = False
    """Whether to match rows to examples by order instead of by id.

    The file must then have exactly one row for each example. If a row contains texts, they must match its example.
    """
    extract: bool | None = None
    """Whether to extract answers from a model's output; None for the format's default."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """A mapping from labels in the file to labels of the dataset, such as 1 to positive."""
    ignore_unknown: bool = False
    """Whether to skip rows that match no example of the split. The number of skipped rows is recorded."""
    partial: bool = False
    """Whether to mark the import as a limited run, which is scored only on the answered examples and never ranked.
    """
    force: bool = False
    """Whether to replace the answers of an earlier import for the same split."""
    note: str = ""
    """A note about where the answers come from, stored in the submission."""
    reasoning_tags: ReasoningTags = ()
    """Pairs of tags around a model's reasoning, in addition to the built-in pairs.

    Used only when extracting answers.
    """


@dataclass(frozen=True)
class ImportReport:
    """The outcome of an import."""

    folder: Path
    """The submission's folder."""
    task: str
    """The task name."""
    split: str
    """The split name."""
    imported: int
    """Number of answers written."""
    examples: int
    """Number of examples in the split."""
    left_out: int
    """Number of rows skipped because they match no example."""
    words: str
    """A description of how the rows were matched and turned into answers, as recorded in the submission."""
    check: CheckReport
    """The findings of `decabench check` for the task's answers."""
    removed: tuple[str, ...] = ()
    """Names of results that were removed because their answers changed."""


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
    """Import answers for one split of a task into a submission folder.

    `source` is a file in one of the formats (`squad`, `csv`, `text`, `lm-eval`, `inspect`) or a table in
    memory: a DataFrame, a `datasets.Dataset` or a mapping of columns. The folder may contain imports for
    other tasks; `name` is required for a new submission. Importing the same answers twice changes nothing.

    Raises RefusedImportError listing every faulty row, SubmissionError if the file or folder can't be used,
    and MissingDataError if the split has not been prepared.
    """
    known = known_tasks(include)
    chosen = task if isinstance(task, Task) else get_task(task, known)
    settings = settings or ImportSettings()
    store, folder = Store(home), Path(output)
    require_name(split, SPLITS, "split")
    _check_settings(settings, chosen)
    store.require([chosen], split)
    fingerprint, key = store.record(chosen.name, split).stated, f"{chosen.name}.{split}"
    _occupant(folder, name)  # report an unsuitable folder before reading the file
    given = _open(source, format, chosen, settings)
    examples = Examples(store, chosen, split)
    ids = examples.ids
    matched = match_rows(given.file, given.title, examples, settings.in_order, settings.ignore_unknown)
    if not matched.rows:
        raise SubmissionError(
            f"{given.title} has no answers to the {len(ids):,} {split} examples in {chosen.name}. Check the task "
            "and the split."
        )
    if not settings.labels:
        _refuse_swapped_labels(matched, examples, given.title)
    matched = _with_letters(matched, examples)
    is_raw = given.file.is_raw if settings.extract is None else settings.extract
    if settings.reasoning_tags and not is_raw:
        raise DecabenchError("--reasoning-tags applies only to extracted answers. Add --extract.")
    replaced: set[str] = set()
    lines = list(_lines(store, chosen, split, matched.rows, is_raw, settings, replaced))
    words = _words(matched, len(ids), is_raw, settings, replaced)
    about = _describe(given, matched, words, settings)
    pair, others = (chosen.name, split), {}
    with lock_submission(folder, _PATIENCE):
        before = _occupant(folder, name)  # another process may have changed the folder in the meantime
        if isinstance(found := before.predictor.get("imports"), Mapping):
            others = {**found}
        partial = {**before.partial}
        partial.pop(key, None)
        if settings.partial and len(matched.rows) < len(ids):
            chosen_by = "the examples in the imported file"
            partial[key] = {"answered": len(matched.rows), "of": len(ids), "chosen": chosen_by}
        info = replace(
            before,
            predictor={"name": IMPORTED, "imports": {**others, key: about}},
            data={**before.data, key: fingerprint},
            partial=partial,
        )
        with temporary_folder() as made:
            write_predictions(made, {pair: lines})
            changed = changed_answers((folder, before), (made, info), [pair])
        is_there, earlier = pair in find_predictions(folder)[0], others.get(key)
        is_same = isinstance(earlier, Mapping) and {**earlier, "decabench": decabench.__version__} == about
        is_repeated = is_there and is_same and not changed
        if is_there and not is_repeated and not settings.force:
            raise SubmissionError(
                f"{folder} already has different {split} answers for {chosen.name}. Add --force to replace them."
            )
        removed = () if is_repeated else _write(folder, info, pair, lines, changed)
    report = check_submission(folder, store, known, tasks=[chosen.name], splits=[split])
    return ImportReport(
        folder, chosen.name, split, len(matched.rows), len(ids), matched.left_out, words, report, removed
    )


@dataclass(frozen=True)
class _Source:
    file: ForeignFile
    title: str
    """The file name, for messages."""
    format: str
    """The format name, or `table` for a table in memory."""
    origin: Mapping[str, Any]
    """The file's name, size and digest, or the type of a table in memory, as recorded in the submission."""


def _open(source: Any, format: str, task: Task, settings: ImportSettings) -> _Source:
    if not isinstance(source, str | Path):
        opened = frame_answers(source, settings.places, isinstance(task.output, Number))
        return _Source(opened, "The table", "table", {"name": type(source).__name__})
    path = Path(source)
    if not format:
        raise UnknownNameError(
            f"The format of {path.name} is not specified. Choose one of {', '.join(FORMATS)}."
        )
    opened = open_foreign(path, format, settings.places)
    origin = {"name": printable(path.name), "bytes": path.stat().st_size, "sha256": file_digest(path)}
    return _Source(opened, path.name, format, origin)


def _describe(given: _Source, matched: MatchedRows, words: str, settings: ImportSettings) -> dict[str, Any]:
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


def _check_settings(settings: ImportSettings, task: Task) -> None:
    check_reasoning_tags(settings.reasoning_tags)
    if len(settings.note) > _NOTE_LENGTH:
        raise DecabenchError(
            f"The note has {len(settings.note):,} characters, but the limit is {_NOTE_LENGTH:,}. Shorten the note."
        )
    names = task.output.names if isinstance(task.output, Label) else ()
    if names and (strange := sorted(set(settings.labels.values()) - set(names))):
        raise DecabenchError(
            f"{task.name} has no label {' or '.join(map(quoted, strange))}. Choose from {', '.join(names)}."
        )


def _occupant(folder: Path, name: str) -> SubmissionInfo:
    if folder.is_dir() and names_in(folder) and not (folder / METADATA_NAME).exists():
        raise SubmissionError(
            f"{folder} contains other files and is not a submission. Choose another folder."
        )
    if folder.exists() and not folder.is_dir():
        raise SubmissionError(f"{folder} is a file. Specify a folder for the submission.")
    if not (folder / METADATA_NAME).exists():
        if not name:
            raise DecabenchError(f"A new submission in {folder} must have a name. Add --name.")
        return SubmissionInfo(name)
    info, faults = read_metadata(folder)
    if info is None:
        raise SubmissionError(f"{folder} contains a submission that can't be read: {faults[0]}.")
    if info.predictor.get("name") != IMPORTED:
        raise SubmissionError(
            f"{folder} contains the submission {quoted(info.name)}, which was not created by an import. Choose "
            "another folder."
        )
    if name and name != info.name:
        raise SubmissionError(
            f"{folder} already contains the submission {quoted(info.name)}. Leave out --name, or choose "
            "another folder."
        )
    return info


def _refuse_swapped_labels(matched: MatchedRows, examples: Examples, name: str) -> None:
    """Raise SubmissionError if every row's right answer is a label of the task, but not the label of its example."""
    if len(matched.rows) < _FEW:
        return
    every = set[str]().union(*examples.golds)
    for id_, row in matched.rows.items():
        golds = every.intersection(map(letters_of, row.golds)) - {""}
        if not golds or golds & examples.golds[examples.at[id_]]:
            return
    id_, row = next(iter(matched.rows.items()))
    own = quoted(examples.texts[examples.at[id_]].answers[0])
    raise SubmissionError(
        f"{name} disagrees with the dataset about the right answers in all {len(matched.rows):,} rows, such as "
        f"{quoted(row.golds[-1])} instead of {own}. The file may use the same labels in a different order. "
        "Map the labels with --label FILE=DATASET."
    )


def _with_letters(matched: MatchedRows, examples: Examples) -> MatchedRows:
    """Replace answers with option letters, if all correct answers of the task are letters."""
    letters = {row.letter for row in matched.rows.values() if row.letter is not None}
    answers = set[str]().union(*(example.answers for example in examples.texts))
    if not letters or not answers or not answers <= {*_CAPITALS, *letters}:
        return matched
    rows = {
        id_: row if row.letter is None else row._replace(answer=row.letter)
        for id_, row in matched.rows.items()
    }
    return replace(matched, rows=rows)


_CAPITALS = frozenset(string.ascii_uppercase)


def _words(
    matched: MatchedRows, examples: int, is_raw: bool, settings: ImportSettings, replaced: set[str]
) -> str:
    parts = [f"{len(matched.rows):,} of {examples:,} examples matched {matched.how}"]
    if matched.left_out:
        rows, verb = (
            ("1 row", "matches") if matched.left_out == 1 else (f"{matched.left_out:,} rows", "match")
        )
        parts.append(f"left out {rows} that {verb} no example")
    if any(row.is_likeliest for row in matched.rows.values()):
        parts.append("answers are the likeliest choices, as in lm-eval's acc")
    if tied := sum(row.is_tied for row in matched.rows.values()):
        rows = "1 row has choices" if tied == 1 else f"{tied:,} rows have choices"
        parts.append(f"{rows} that are equally likely; the first counts")
    if is_raw:
        parts.append(f"answers extracted from the model's text (version {EXTRACTION_VERSION})")
    else:
        parts.append("answers used as given")
    if used := [f"{ours} for {theirs}" for theirs, ours in settings.labels.items() if theirs in replaced]:
        parts.append(f"labels replaced: {excerpt(', '.join(used), 500)}")
    if unused := [theirs for theirs in settings.labels if theirs not in replaced]:
        parts.append(f"labels that no answer has: {excerpt(', '.join(unused), 500)}")
    return "; ".join(parts) + "."


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
    """Yield lines of the predictions file in dataset order.

    Labels that were mapped are added to `replaced`.
    """
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
        if row.finish == "refused":
            line["answer"], rules = "", ["refused"]
        elif is_raw:
            found = extract(text, form, example["question"], row.finish, example["context"])
            line["answer"], rules = found.answer, [found.rule]
            if task.extractive and is_elsewhere(found.answer, form, example["context"]):
                rules.append(NOT_IN_CONTEXT)
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


def _write(
    folder: Path,
    info: SubmissionInfo,
    pair: tuple[str, str],
    lines: Sequence[Mapping[str, Any]],
    changed: set[tuple[str, str]],
) -> tuple[str, ...]:
    """Write submission.toml and the answers, and return the names of removed results.

    Answers from an earlier import of the split are deleted first. Results are deleted too if their answers
    change.
    """
    metadata = render_metadata(info)
    old = find_predictions(folder)[0].get(pair)
    if old is not None:
        require_within(folder, old.path)
    removed: tuple[str, ...] = ()
    if old is not None:
        removed = remove_results(folder, {split for _, split in changed})
        remove_file(old.path)
    write_file(folder / METADATA_NAME, metadata)
    write_predictions(folder, {pair: lines})
    return removed
