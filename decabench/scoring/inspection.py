"""The examples behind a score: rows made from what was scored, written beside the results, and found again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from decabench.errors import DataError, DecabenchError
from decabench.files import file_digest, is_within
from decabench.metrics import Metric, Row
from decabench.prompts import LabelForms, possible_labels, takes_for
from decabench.scoring.evaluator import (
    ScoredTask,
    ScoringOptions,
    find_metric,
    known_to,
    open_with_remade,
    score_submission,
)
from decabench.scoring.scored_examples import (
    ExamplesHead,
    ScoredExample,
    examples_path,
    open_examples,
    save_examples,
)
from decabench.submission import AnswerKind, AnswerLine, Submission, read_lines
from decabench.tasks import Label, Number, Store, Tags, Task, get_task, home_folder

__all__ = ["Inspected", "count_label_forms", "find_examples", "make_examples", "write_examples"]

_EXACT = 0.005
"""How close to the best possible score a right answer is."""


def write_examples(
    folder: Path, submission: Path, scored: Mapping[str, ScoredTask], options: ScoringOptions
) -> None:
    """Write `examples/<task>.jsonl.gz` for every task that has a score. Raises StorageError."""
    with open_with_remade(submission, options.remade) as opened:
        known = known_to(opened, options)
        for name, found in scored.items():
            if found.sample is not None:
                save_examples(folder, *make_examples(opened, known[name], found, options))


def make_examples(
    opened: Submission, task: Task, found: ScoredTask, options: ScoringOptions
) -> tuple[ExamplesHead, Iterator[ScoredExample]]:
    """Return the scored examples of a task: the head of their file, and the rows of every wording."""
    assert found.sample is not None  # tasks that failed have no examples
    metric = found.sample.metric
    low, high = metric.range
    best = high if metric.higher_is_better else low
    head = ExamplesHead(
        task=task.name,
        split=options.split,
        metric=found.result.metric,
        headline=found.result.headline,
        signature=found.result.signature,
        columns=metric.columns,
        best=best if math.isfinite(best) and low >= 0 else None,
        higher_is_better=metric.higher_is_better,
        data=found.result.data.fingerprint,
        files=found.files,
        answers=options.answers,
        left_out=() if options.all_texts or found.result.data.origin == "sample" else _left_out(task),
    )
    return head, _make_rows(opened, task, found, options, head.best)


def _left_out(task: Task) -> tuple[str, ...]:
    """Return the fields whose text may not be passed on: answers, or what may quote the context."""
    if not task.redistributable:
        return "prediction", "raw", "references"
    if task.withhold_texts:
        return ("raw",) if isinstance(task.output, Label | Number | Tags) else ("prediction", "raw")
    return ()


def _make_rows(
    opened: Submission, task: Task, found: ScoredTask, options: ScoringOptions, best: float | None
) -> Iterator[ScoredExample]:
    questions = _questions(task, options)
    wordings = {0: (opened.files[task.name, options.split], found.rows)}
    for number, rows in found.variant_rows.items():
        wordings[number] = opened.variants[number][task.name, options.split], rows
    metric = find_metric(found.result.metric).for_data(found.references)
    for number, (file, rows) in wordings.items():
        lines = {str(line.id): line for line in read_lines(file.path)}
        forms = LabelForms(takes_for(find_metric(found.result.metric)))
        scores = _example_scores(metric, rows) if best is not None else [None] * len(rows)
        for item, row, score in zip(found.references, rows, scores, strict=True):
            line = lines[item.id]
            text = line.text(options.answers)
            labels = possible_labels(task.output, questions.get(item.id, ""))
            form = forms.add(item.id, text, labels, questions.get(item.id, "")) if labels else ""
            exact = text in item.answers and metric.scope != "group"  # earlier turns may be wrong
            yield ScoredExample(
                id=item.id,
                statistics=tuple(row),
                prediction=text,
                raw=_other_text(line, options.answers),
                references=tuple(item.answers) if number == 0 else (),
                score=score,
                right=_is_right(score, best, exact),
                flags=tuple(_flags(line, text, form)),
                variant=number,
            )


def _is_right(score: float | None, best: float | None, exact: bool) -> bool | None:
    if exact or (score is not None and best is not None and abs(best - score) <= _EXACT):
        return True
    return None if score is None else False


def _other_text(line: AnswerLine, answers: AnswerKind) -> str | None:
    return line.raw if answers == "extracted" else line.answer if line.raw is not None else None


def _flags(line: AnswerLine, text: str, form: str) -> Iterator[str]:
    rules = line.rule.split("+") if line.rule else ()
    if not text.strip():
        yield "empty"
    if "unparseable" in rules:
        yield "unparseable"
    if line.finish == "refused" or "refused" in rules:
        yield "refused"
    if line.finish == "length":
        yield "cut"
    if line.context_kept is not None:
        yield "context_cut"
    if form:
        yield form


def _example_scores(metric: Metric, rows: Sequence[Row]) -> list[float | None]:
    """Return the headline of each example alone; None where it has none."""
    import numpy as np

    values = np.asarray(rows, dtype=float)
    columns = {name: values[:, at] for at, name in enumerate(metric.columns)}
    with np.errstate(all="ignore"):
        scores = np.asarray(metric.score(columns)[metric.headline], dtype=float)
    return [round(score, 6) if math.isfinite(score) else None for score in scores.tolist()]


def _questions(task: Task, options: ScoringOptions) -> dict[str, str]:
    """Return the questions by id, if they name the labels."""
    if not isinstance(task.output, Label) or task.output.names:
        return {}
    store = Store(home_folder(options.home))
    return {row["id"]: row["question"] for row in store.read(task.name, options.split, ("id", "question"))}


def count_label_forms(task: Task, found: ScoredTask, options: ScoringOptions) -> LabelForms | None:
    """Count the answers that are labels in a form that scores as wrong; None for tasks without labels."""
    if not isinstance(task.output, Label) or not found.predictions:
        return None
    forms, questions = LabelForms(takes_for(find_metric(task.metric))), _questions(task, options)
    for item, text in zip(found.references, found.predictions, strict=True):
        question = questions.get(item.id, "")
        forms.add(item.id, text, possible_labels(task.output, question), question)
    return forms


# Finding them again


@dataclass(frozen=True)
class Inspected:
    """The scored examples of a task, with the questions and contexts that they are about."""

    submission: str
    """The submission's name."""
    task: Task
    """The task."""
    head: ExamplesHead
    """What the examples are of."""
    rows: Sequence[ScoredExample]
    """The rows of the dataset's own wording, in the order of the data."""
    wordings: Mapping[str, Mapping[int, ScoredExample]]
    """By id, the rows of other wordings, by their number."""
    texts: Mapping[str, Mapping[str, str]]
    """By id, the `question` and the `context`."""
    score: float | None
    """The task's score; None if it is not known."""
    is_read: bool
    """Whether the rows are from the file beside the results; otherwise, the task was scored for them."""


def find_examples(submission: str | Path, task: str, options: ScoringOptions) -> Inspected:
    """Return the examples of a task: from the file beside the results if it is of these answers, or scored now.

    Raises the errors of `evaluate`, and SubmissionError if the task's answers have faults.
    """
    submission = Path(submission)
    with open_with_remade(submission, options.remade) as opened:
        known = known_to(opened, replace(options, tasks=[task]))
        name = get_task(task, known).name
        store = Store(home_folder(options.home))
        found = _read_current(submission, opened, name, store, options)
        is_read = found is not None
        if found is None:
            _, scored = score_submission(submission, replace(options, tasks=[name]))
            if scored[name].sample is None:
                raise DataError(f"{name} cannot be shown: {scored[name].result.reason.rstrip('.')}.")
            head, made = make_examples(opened, known[name], scored[name], replace(options, all_texts=True))
            found = head, list(made)
        head, rows = found
        texts = {row["id"]: row for row in store.read(name, options.split, ("id", "question", "context"))}
        others: dict[str, dict[int, ScoredExample]] = {}
        for row in rows:
            if row.variant:
                others.setdefault(row.id, {})[row.variant] = row
        own = [row for row in rows if not row.variant]
        score = _score_of(head, own)
        return Inspected(opened.info.name, known[name], head, own, others, texts, score, is_read)


def _score_of(head: ExamplesHead, rows: Iterable[ScoredExample]) -> float | None:
    from decabench.metrics import score_rows

    metric = find_metric(head.metric).for_columns(head.columns)
    try:
        return score_rows(metric, [row.statistics for row in rows]).value
    except (ValueError, ZeroDivisionError, KeyError):
        return None


def _read_current(
    submission: Path, opened: Submission, name: str, store: Store, options: ScoringOptions
) -> tuple[ExamplesHead, list[ScoredExample]] | None:
    """Read the file of examples beside the results, if it is of these answers and this data, and whole."""
    if not submission.is_dir():
        return None
    results = submission / "results"
    suffix = "-raw" if options.answers == "raw" else ""
    folders = sorted(results.glob(f"{options.split}*")) if results.is_dir() else []
    for folder in folders:
        path = examples_path(folder, name)
        if (
            folder.name.endswith("-raw") != bool(suffix)
            or not path.is_file()
            or not is_within(submission, path)
        ):
            continue
        try:
            head, made = open_examples(path)
            if _is_current(head, opened, name, store, options):
                rows = list(made)
                ids = set(store.ids(name, options.split))
                if all(row.id in ids and len(row.statistics) == len(head.columns) for row in rows):
                    return head, _filled(head, rows, opened, store) if head.left_out else rows
        except (DecabenchError, KeyError):  # the task is scored again
            continue
    return None


def _filled(
    head: ExamplesHead, rows: Sequence[ScoredExample], opened: Submission, store: Store
) -> list[ScoredExample]:
    """Return rows with the texts that were left out of their file, from the submission and the data."""
    pair = head.task, head.split
    golds = {row["id"]: tuple(row["answers"]) for row in store.read(*pair, ("id", "answers"))}
    files = {
        0: opened.files[pair],
        **{number: found[pair] for number, found in opened.variants.items() if pair in found},
    }
    lines = {number: {str(line.id): line for line in read_lines(file.path)} for number, file in files.items()}
    kind: AnswerKind = "raw" if head.answers == "raw" else "extracted"
    filled = []
    for row in rows:
        line = lines[row.variant][row.id]
        references = () if row.variant else golds[row.id]
        filled.append(
            replace(row, prediction=line.text(kind), raw=_other_text(line, kind), references=references)
        )
    return filled


def _is_current(
    head: ExamplesHead, opened: Submission, name: str, store: Store, options: ScoringOptions
) -> bool:
    files = opened.files_of(name, options.split)
    return (
        (head.task, head.split, head.answers) == (name, options.split, options.answers)
        and head.data == store.record(name, options.split).fingerprint
        and head.signature == find_metric(head.metric).full_signature
        and dict(head.files) == {path: file_digest(file) for path, file in files.items()}
    )
