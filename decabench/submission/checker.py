"""Check a submission and report every fault with its file, line and code.

Checks need only the ids of the splits, which come from prepared data or from an id list. Faults never depend on gold
answers.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from decabench.errors import DataError, DecabenchError, MissingDataError, SubmissionError, require_name
from decabench.files import read_errors, write_file
from decabench.metrics import METRICS, Item
from decabench.prompts import GivenAnswers, describe_answers
from decabench.submission.answers import (
    FOLDER,
    AnswerLine,
    AnswerReader,
    Ids,
    Marks,
    PredictionFile,
)
from decabench.submission.faults import CheckReport, Fault, FileCount
from decabench.submission.folder import (
    Files,
    Scope,
    SubmissionInfo,
    describe_no_predictions,
    find_predictions,
    find_variants,
    read_metadata,
    submission_folder,
)
from decabench.tasks import SPLITS, Store, Tags, Task, Tree
from decabench.text import printable, quoted
from decabench.untrusted import parse_json


def check_submission(
    path: str | Path,
    expected: Mapping[tuple[str, str], Ids] | Store,
    known_tasks: Collection[str],
    tasks: Collection[str] | None = None,
    splits: Collection[str] | None = None,
    *,
    fingerprints: Mapping[tuple[str, str], str] | None = None,
    store: Store | None = None,
) -> CheckReport:
    """Check a submission and report all of its faults.

    Args:
        expected: The prepared data, or the ids of each (task, split) whose data is available.
        known_tasks: The names of all tasks, or a mapping from names to tasks.
        tasks, splits: The tasks and splits to check, which must have files. By default, all files are checked.
        fingerprints: The fingerprints of the data, used to warn about answers for other data.
        store: The prepared data, used to compare answers with contexts and gold answers.

    If `expected` is the prepared data, `fingerprints` and `store` come from there.

    Raises SubmissionError if `path` doesn't exist, and UnknownNameError for an unknown task or split.
    """
    path = Path(path)
    for task in tasks or ():
        require_name(task, known_tasks, "task")
    for split in splits or ():
        require_name(split, SPLITS, "split")
    if not path.exists():
        raise SubmissionError(f"There is no {path}. Specify a folder, a .zip or a .tar.gz.")
    scope = Scope(known_tasks, tasks, splits)
    with ExitStack() as stack:
        try:
            root = stack.enter_context(submission_folder(path))
        except SubmissionError as error:
            return CheckReport.of(printable(path.name), [Fault("bad-archive", str(error))], [], {})
        info, faults = read_metadata(root)
        files, misnamed = find_predictions(root, scope)
        variants, stray = find_variants(root, scope)
        every = (*files.values(), *(file for group in variants.values() for file in group.values()))
        if isinstance(expected, Store):
            store, pairs = expected, {(file.task, file.split) for file in every}
            records = {pair: store.records(pair[0]).get(pair[1]) for pair in pairs}
            fingerprints = {pair: record.stated for pair, record in records.items() if record}
            expected = {pair: tuple(store.ids(*pair)) for pair in fingerprints}
        faults = [
            *_other_data(info, files, fingerprints or {}),
            *faults,
            *misnamed,
            *_missing_files(root, files, scope, bool(misnamed)),
            *stray,
        ]
        counts: list[FileCount] = []
        unlisted: Counter[tuple[str, str]] = Counter()
        for file in every:
            own = known_tasks.get(file.task) if isinstance(known_tasks, Mapping) else None
            marks = info.marks(file.task, file.split, file.variant) if info else Marks()
            reader = AnswerReader(file, expected.get((file.task, file.split)), marks)
            if isinstance(own, Task) and file.variant > (last := len(own.variants)):
                known = "the only variant is 1" if last else "the task has no variants"
                known = f"the variants are 1 to {last}" if last > 1 else known
                message = f"{file.task} has no variant {file.variant}; {known}"
                faults.append(Fault("unknown-variant", message, file.name))
            lines, room = list[AnswerLine](), _MOST_CHARACTERS
            for line in reader:
                room -= len(line.answer or "")
                if room >= 0:
                    lines.append(line)
            faults += reader.faults
            if isinstance(own, Task):
                faults += _form_faults(file, own, lines, store)
            unlisted.update(reader.unlisted)
            counts.append(reader.count)
        return CheckReport.of(printable(path.name), faults, counts, unlisted)


_MOST_CHARACTERS = 1 << 26
"""The maximum total length, in characters, of a file's answers that are kept to check their form."""


def _form_faults(
    file: PredictionFile, task: Task, lines: Sequence[AnswerLine], store: Store | None
) -> Iterator[Fault]:
    """Yield faults for answers that are scored as wrong because of their form."""
    if task.metric not in METRICS:
        return
    if store is not None and file.split not in store.records(file.task):
        store = None
    if store is not None and isinstance(task.output, Tags | Tree):
        words = {
            id_: len(context.split()) for id_, (_, context) in store.prompts(task.name, file.split).items()
        }
        pairs = [(line.id or "", len((line.answer or "").split())) for line in lines]
        if wrong := [(id_, given) for id_, given in pairs if words.get(id_, given) != given]:
            fewer = sum(given < words[id_] for id_, given in wrong)
            subject = "1 answer does" if len(wrong) == 1 else f"{len(wrong):,} answers do"
            id_, given = wrong[0]
            message = (
                f"{subject} not have one item for each word ({fewer:,} too short, {len(wrong) - fewer:,} "
                f"too long); for example, {quoted(id_)} has {given:,} instead of {words[id_]:,} items"
            )
            yield Fault("wrong-length", message, file.name)
    references: Sequence[Item] | None = None
    if store is not None and not store.hides(task, file.split):
        references = store.references(task.name, file.split)
        place_of = {id_: at for at, id_ in enumerate(references.ids)}
        lines = [line for line in lines if line.id in place_of]
        lines.sort(key=lambda line: place_of[line.id or ""])
        if len(lines) < len(references):
            references = [references[place_of[line.id or ""]] for line in lines]
    count = min((len(line.samples) for line in lines), default=0)
    given_answers = GivenAnswers(
        task.output,
        METRICS[task.metric],
        [f"line {line.number}" for line in lines],
        [line.answer or "" for line in lines],
        references,  # without gold answers if the split is hidden
        partial(store.prompts, task.name, file.split) if store is not None else None,
        lambda: task.answer_form,
        samples=[[line.samples[at] or "" for line in lines] for at in range(count)],
    )
    for code, sentence in describe_answers(given_answers):
        yield Fault(code, sentence, file.name)


def _missing_files(
    root: Path, files: Collection[tuple[str, str]], scope: Scope, has_misnamed: bool
) -> Iterator[Fault]:
    if scope.tasks is None and not files and not has_misnamed:  # misnamed files are reported separately
        others = {split for _, split in find_predictions(root)[0]}
        yield Fault("no-predictions", describe_no_predictions(scope.splits or (), others))
    for task in scope.tasks or ():
        if scope.splits is None and not any((task, split) in files for split in SPLITS):
            yield Fault(
                "missing-file", f"{task} was requested, but has no file; add {task}.<split>.jsonl", FOLDER
            )
        for split in scope.splits or ():
            if (task, split) not in files:
                message = f"{task}.{split} was requested, but has no file; add {task}.{split}.jsonl"
                yield Fault("missing-file", message, FOLDER)


def _other_data(
    info: SubmissionInfo | None, files: Files, fingerprints: Mapping[tuple[str, str], str]
) -> Iterator[Fault]:
    for pair, file in files.items():
        stated = info.data.get(".".join(pair)) if info else None
        prepared = fingerprints.get(pair)
        if stated and prepared and stated.removeprefix("sha256:") != prepared.removeprefix("sha256:"):
            message = (
                f"the answers are for data with the fingerprint {stated[:19]}…, but the prepared data has "
                f"{prepared[:19]}…"
            )
            yield Fault("other-data", message, file.name)


# Id lists

FORMAT = "decabench.ids/1"
LIMIT_BYTES = 1 << 30


@dataclass(frozen=True)
class IdList:
    """The ids of several splits, with the fingerprints of their data."""

    ids: Mapping[tuple[str, str], tuple[str, ...]]
    """The ids of each (task, split), in the order of the data."""
    fingerprints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The fingerprint of the data of each (task, split), if known."""


def write_id_list(
    path: str | Path,
    ids: Mapping[tuple[str, str], Iterable[str]],
    fingerprints: Mapping[tuple[str, str], str] | None = None,
) -> None:
    """Write an id list (.json or .json.gz). Raises DecabenchError for any other suffix."""
    path = Path(path)
    splits = []
    for (task, split), of_split in sorted(
        ids.items(), key=lambda each: (each[0][0], SPLITS.index(each[0][1]))
    ):
        fingerprint = (fingerprints or {}).get((task, split))
        head = {"task": task, "split": split}
        splits.append(head | ({"fingerprint": fingerprint} if fingerprint else {}) | {"ids": list(of_split)})
    text = json.dumps({"format": FORMAT, "splits": splits}, ensure_ascii=False, indent=0) + "\n"
    write_file(path, text, compress="gz" if _is_packed(path) else None)


@dataclass(frozen=True)
class _Split:
    task: str
    split: Literal["train", "validation", "test"]
    ids: tuple[str, ...]
    fingerprint: str | None = None


@dataclass(frozen=True)
class _File:
    format: Literal["decabench.ids/1"]
    splits: tuple[_Split, ...]


def read_id_list(path: str | Path) -> IdList:
    """Read an id list.

    Raises MissingDataError if the file doesn't exist, DataError if it is damaged, and DecabenchError for any other
    suffix.
    """
    import msgspec

    path = Path(path)
    try:
        with read_errors(path), gzip.open(path, "rb") if _is_packed(path) else open(path, "rb") as handle:
            raw = handle.read(LIMIT_BYTES + 1)
        if len(raw) > LIMIT_BYTES:
            raise ValueError(f"it has more than {LIMIT_BYTES:,} bytes")
        content = parse_json(raw.decode())
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        splits = msgspec.convert(content, _File).splits
        is_listed_once = len({(each.task, each.split) for each in splits}) == len(splits)
        if not is_listed_once or any(len(set(each.ids)) < len(each.ids) for each in splits):
            raise ValueError("it lists a split, or an id within a split, more than once")
    except FileNotFoundError as error:
        raise MissingDataError(f"There is no id list {path}. Check the path.") from error
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"{path.name} is not a valid id list: {error}. Write the list again with decabench prepare "
            "--export-ids or decabench tasks overlap --write."
        ) from error
    return IdList(
        {(each.task, each.split): each.ids for each in splits},
        {(each.task, each.split): each.fingerprint for each in splits if each.fingerprint},
    )


def _is_packed(path: Path) -> bool:
    name = path.name.lower()
    if not name.endswith((".json", ".json.gz")):
        raise DecabenchError(f"{path.name} can't be an id list. The name must end in .json or .json.gz.")
    return name.endswith(".gz")
