"""The examples behind a score, found again beside the results, or scored now, to be shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from decabench.errors import DataError, DecabenchError
from decabench.files import is_within
from decabench.metrics import Item
from decabench.scoring.evaluator import (
    ScoringOptions,
    digest_answers,
    find_metric,
    known_to,
    open_with_remade,
    score_submission,
)
from decabench.scoring.record import results_home
from decabench.scoring.results import score_digits
from decabench.scoring.scored_examples import (
    Course,
    ExamplesHead,
    ScoredExample,
    examples_path,
    find_courses,
    make_examples,
    open_examples,
    other_text,
)
from decabench.submission import RESULTS, AnswerKind, AnswerLine, Submission, read_lines
from decabench.tasks import Store, Task, get_task, home_folder

__all__ = ["Inspected", "find_examples"]


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
    courses: Mapping[int, Course]
    """By place among the rows, how the answer came to be right or wrong, if its metric compares more than itself."""
    score: float | None
    """The task's score; None if it is not known."""
    is_read: bool
    """Whether the rows are from the file beside the results; otherwise, the task was scored for them."""

    @property
    def digits(self) -> int:
        """How many decimals to print of scores: more than two on short scales and unbounded ones."""
        return score_digits(self.head.task, self.head.metric, least=2)


def find_examples(
    submission: str | Path, task: str, options: ScoringOptions, hidden: bool = False
) -> Inspected:
    """Return the examples of a task: from the file beside the results if it is of these answers, or scored now.

    Raises the errors of `evaluate`, SubmissionError if the task's answers have faults, and DataError for hidden labels
    unless `hidden` says that nobody else will see them.
    """
    submission = Path(submission)
    with open_with_remade(submission, options.remade) as opened:
        known = known_to(opened, replace(options, tasks=[task]))
        name = get_task(task, known).name
        store = Store(home_folder(options.home))
        if store.hides(known[name], options.split) and not hidden:
            raise DataError(
                f"The labels of {name}, {options.split}, are hidden, and examples would give them away: add "
                "--hidden to see them, where nobody else reads the output."
            )
        found = _read_current(submission, opened, known[name], store, options)
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
        score = _score_of(known[name], head, own)
        courses = find_courses(
            find_metric(known[name].metric),
            [row.prediction or "" for row in own],
            [Item(row.references, row.id) for row in own],
        )
        return Inspected(opened.info.name, known[name], head, own, others, texts, courses, score, is_read)


def _score_of(task: Task, head: ExamplesHead, rows: Iterable[ScoredExample]) -> float | None:
    from decabench.metrics import score_rows

    metric = find_metric(task.metric).for_columns(head.columns)
    try:
        score = score_rows(metric, [row.statistics for row in rows]).value
    except (ValueError, ArithmeticError, KeyError):
        return None
    return score if math.isfinite(score) else None


def _read_current(
    submission: Path, opened: Submission, task: Task, store: Store, options: ScoringOptions
) -> tuple[ExamplesHead, list[ScoredExample]] | None:
    """Read the file of examples beside the results, if it is of these answers and this data, and whole.

    An archive has its results beside it, where evaluate writes them, or packed with the answers.
    """
    places = [results_home(submission)]
    if opened.folder is not None and opened.folder != submission:
        places.append(opened.folder / RESULTS)
    is_raw = options.answers == "raw"
    for folder in [found for place in places for found in sorted(place.glob(f"{options.split}*"))]:
        path = examples_path(folder, task.name)
        root = submission if submission.is_dir() else folder.parent
        if folder.name.endswith("-raw") != is_raw or not path.is_file() or not is_within(root, path):
            continue
        try:
            head, made = open_examples(path)
            if _is_current(head, opened, task, store, options):
                rows = list(made)
                lines = _read_answers(head, opened)
                if _are_whole(head, rows, lines, store):
                    return head, _filled(head, rows, lines, store) if head.left_out else rows
        except (DecabenchError, KeyError):  # the task is scored again
            continue
    return None


def _read_answers(head: ExamplesHead, opened: Submission) -> dict[int, dict[str, AnswerLine]]:
    """Return the lines of the answers, by id, of each wording that is scored: those that answer what the first does."""
    pair = head.task, head.split
    files = {
        0: opened.files[pair],
        **{number: found[pair] for number, found in opened.variants.items() if pair in found},
    }
    lines = {number: {str(line.id): line for line in read_lines(file.path)} for number, file in files.items()}
    return {number: own for number, own in lines.items() if own.keys() == lines[0].keys()}


def _are_whole(
    head: ExamplesHead,
    rows: Sequence[ScoredExample],
    lines: Mapping[int, Mapping[str, AnswerLine]],
    store: Store,
) -> bool:
    """Return whether rows are of every answered example once, in every wording, with the answers given."""
    ids: dict[int, list[str]] = {number: [] for number in lines}
    kind = _kind_of(head)
    for row in rows:
        line = lines.get(row.variant, {}).get(row.id)
        if line is None or len(row.statistics) != len(head.columns):
            return False
        if "prediction" not in head.left_out and row.prediction != line.text(kind):
            return False
        ids[row.variant].append(row.id)
    wanted = [id_ for id_ in store.ids(head.task, head.split) if id_ in lines[0]]
    return all(found == wanted for found in ids.values())


def _kind_of(head: ExamplesHead) -> AnswerKind:
    return "raw" if head.answers == "raw" else "extracted"


def _filled(
    head: ExamplesHead,
    rows: Sequence[ScoredExample],
    lines: Mapping[int, Mapping[str, AnswerLine]],
    store: Store,
) -> list[ScoredExample]:
    """Return rows with the texts that were left out of their file, from the submission and the data."""
    golds = {row["id"]: tuple(row["answers"]) for row in store.read(head.task, head.split, ("id", "answers"))}
    kind = _kind_of(head)
    filled = []
    for row in rows:
        line = lines[row.variant][row.id]
        references = () if row.variant else golds[row.id]
        filled.append(
            replace(row, prediction=line.text(kind), raw=other_text(line, kind), references=references)
        )
    return filled


def _is_current(
    head: ExamplesHead, opened: Submission, task: Task, store: Store, options: ScoringOptions
) -> bool:
    """Return whether a file says that it is of these answers, data and metric.

    The file is somebody else's: its metric is compared, and never loaded, as a name may stand for any code.
    """
    return (
        (head.task, head.split, head.answers) == (task.name, options.split, options.answers)
        and head.metric == task.metric
        and head.data == store.record(task.name, options.split).fingerprint
        and head.signature == find_metric(task.metric).full_signature
        and dict(head.files) == digest_answers(opened, task.name, options.split)
    )
