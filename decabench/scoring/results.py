"""Read and write `results.json`, which contains a submission's scores on one split and the total of its suite.

The same inputs always give the same bytes. Totals are never read from the file, but computed from the tasks' scores.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import decabench
from decabench.errors import DataError, DecabenchError, MissingDataError, require_name, require_package
from decabench.files import canonical_json, require_machine, write_file
from decabench.metrics import METRICS
from decabench.scoring.examples import ExamplesHead, ScoredExample, examples_frame
from decabench.scoring.significance import SampledUnits, show_interval
from decabench.submission import AnswerKind
from decabench.tasks import DECATHLON, SUITES, TASKS, Suite, is_task_name
from decabench.text import excerpt, printable, quoted, terminal_safe
from decabench.untrusted import parse_json

if TYPE_CHECKING:
    import pandas

FORMAT = "decabench.results/1"

Source = Callable[[str], tuple[ExamplesHead, Iterable[ScoredExample]]]
"""A function that returns the scored examples of a task."""

STATISTICS = "statistics"
"""The folder for statistics next to `results.json`."""

EXAMPLES = "examples"
"""The folder for scored examples next to `results.json`."""

LIMIT_BYTES = 16 << 20
"""The maximum size of a results file in bytes. Real files have a few thousand bytes."""


@dataclass(frozen=True)
class DataUsed:
    """The data that a task was scored on."""

    fingerprint: str
    """The `sha256:` digest of the split's examples."""
    origin: str
    """Where the data came from: `upstream`, `mirror`, `sample` or `user`."""
    verified: bool
    """Whether the checksums of all files matched the published checksums."""
    rows: int
    """The number of examples in the prepared split."""
    published_count: int | None
    """The number of examples in the published split, if known."""
    note: str = ""
    """A note for readers of the score, for example that the data is a substitute for the published data."""


@dataclass(frozen=True)
class LimitedRun:
    """The part of a split that was scored, if the run was limited or examples were left out."""

    answered: int
    """The number of answered examples, not counting those in `without`."""
    of: int
    """The number of examples in the split."""
    chosen: str | None = None
    """The submission's description of the answered examples, such as `limit 100`."""
    without: tuple[str, ...] = ()
    """The ids of answered examples that the user left out of the score."""


@dataclass(frozen=True)
class VariantScores:
    """The headline scores for all wordings of the questions."""

    scores: Mapping[str, float]
    """The headline scores by wording number, without retired wordings; `0` is the dataset's own wording."""
    mean: float
    """The mean of the headline scores."""
    worst: float
    """The worst headline score."""
    spread: float
    """The difference between the best and the worst headline score."""
    predictions: Mapping[str, str] = field(default_factory=dict)
    """The `sha256:` digests of the answers to the wordings other than the dataset's own, by wording number.
    """
    failed: Mapping[str, str] = field(default_factory=dict)
    """The reasons why answers to a wording could not be scored, by wording number."""
    retired: Mapping[str, float] = field(default_factory=dict)
    """The headline scores for retired wordings, by wording number. They don't affect `mean`, `worst` and `spread`."""

    @classmethod
    def of(
        cls, headlines: Mapping[str, float], higher_is_better: bool, retired: Collection[str] = ()
    ) -> VariantScores:
        """Summarize the headline scores of all wordings, keeping retired wordings separate."""
        scores = {number: score for number, score in headlines.items() if number not in retired}
        apart = {number: score for number, score in headlines.items() if number in retired}
        values = list(scores.values())
        best, worst = max(values), min(values)
        if not higher_is_better:
            best, worst = worst, best
        mean = math.fsum(values) / len(values)
        return cls(scores, mean, worst, abs(best - worst), retired=apart)


@dataclass(frozen=True)
class ConfidenceBin:
    """A row of a reliability table, for answers with similar confidence (a bin of width 0.1)."""

    n: int
    """The number of answers."""
    confidence: float
    """The mean of the answers' highest label probabilities."""
    accuracy: float
    """The proportion of right answers, 0–1."""


@dataclass(frozen=True)
class Calibration:
    """Calibration measures for the probabilities of labels."""

    n: int
    """The number of answers with probabilities."""
    brier: float
    """The mean squared difference between given and gold probabilities, summed over labels, 0–2 (Brier 1950)."""
    log_loss: float
    """The mean negative logarithm of the gold label's probability."""
    error: float
    """The expected calibration error over ten bins of equal width, 0–1 (Guo et al. 2017)."""
    bins: tuple[ConfidenceBin, ...]
    """The bins with answers, from the lowest confidence to the highest."""


@dataclass(frozen=True)
class SampleScores:
    """The headline scores of several samples of a task's answers.

    The task's score is computed from the mean of their statistics. It is the mean of `scores` if the metric averages
    over examples."""

    scores: tuple[float, ...]
    """The headline score of each sample."""
    majority: float
    """The headline score of the most frequent answer to each example, or of the earliest answer in case of a tie."""
    pass_at: Mapping[str, float] = field(default_factory=dict)
    """The probability, by k, that at least one of k samples is entirely right, 0–100 (Chen et al. 2021); empty unless
    the metric scores single examples on a bounded scale."""
    between_samples: float = 0.0
    """The standard deviation of `scores`."""
    within_examples: float | None = None
    """The standard deviation between samples of the same example; None if `pass_at` is empty."""
    between_examples: float | None = None
    """The standard deviation of the examples' means; None if `pass_at` is empty."""


@dataclass(frozen=True)
class TaskResult:
    """The result of one task. Failed tasks have a reason instead of a score."""

    status: Literal["scored", "failed", "partial"]
    """Whether the task was scored. `partial` means that only some examples were scored.

    Partial tasks are never part of a total.
    """
    metric: str
    """The metric's name."""
    headline: str
    """The name of the task's main score."""
    data: DataUsed
    """The data that the task was scored on."""
    n: int = 0
    """The number of scored examples."""
    score: float | None = None
    """The headline score, 0–100 unless the metric has another range."""
    interval: tuple[float, float] | None = None
    """The 95% interval of the headline score, computed on the log-odds scale with Student's t over
    the sampled units.
    """
    scores: Mapping[str, float] = field(default_factory=dict)
    """All scores by name."""
    signature: str = ""
    """The signature of the headline metric, with all settings that can affect its scores."""
    signatures: Mapping[str, str] = field(default_factory=dict)
    """The signatures of all computed metrics, by metric name."""
    empty: int = 0
    """The number of empty answers, excluding those counted in `answers` as unparseable or refused."""
    predictions: str = ""
    """The `sha256:` digest of the answers, which doesn't depend on their order or compression."""
    reason: str = ""
    """The reason why the task failed."""
    faults: int = 0
    """The number of faults in the answer file."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """The number of answers with each problem; zeros are left out.

    Keys: `unparseable` (which includes `reasoning_only`, `cut_in_reasoning` and `tool_call`),
    `truncated`, `refused`, `not_in_context` (for extractive tasks), `template` (the answer
    contains tokens of a chat template), `context_cut` (the context was truncated) and
    `other_label` (the answer is not one of the question's labels). For tags and trees, the keys
    also include `missing_items`, `extra_items`, `unknown_items` (tags that no gold answer has,
    or unreadable words of trees) and `outside_heads`.
    """
    ceiling: float | None = None
    """The percentage of examples whose gold answer is still in the context, if contexts were truncated."""
    calibration: Calibration | None = None
    """The calibration of label probabilities, if labels were chosen by likelihood."""
    partial: LimitedRun | None = None
    """The scored examples, if the run was limited or examples were left out."""
    samples: SampleScores | None = None
    """The scores of several samples, if each question was answered several times."""
    variants: VariantScores | None = None
    """The scores for all wordings, if the questions were also asked in other wordings."""
    units: SampledUnits | None = None
    """The units that the interval treats as sampled."""


@dataclass(frozen=True)
class SuiteTotal:
    """A suite's total over its scored tasks."""

    score: float | None
    """The sum or mean of the headline scores of the scored tasks; None if the suite has no total."""
    of: int
    """The highest possible total: 100 for each scored task if scores are summed, or 100 for a mean."""
    tasks: int
    """The number of the suite's tasks that are scored."""
    complete: bool
    """Whether all of the suite's tasks are scored."""
    text: str
    """The total as a string: `590.5`, `412.3 of 700 (7 of 10 tasks)` or `81.2 (mean of 16)`."""
    missing: tuple[str, ...]
    """The suite's tasks without an answer file."""
    failed: tuple[str, ...]
    """The tasks in the suite whose answer files have faults."""
    partial: tuple[str, ...] = ()
    """The tasks in the suite that are left out of the total because only some of their examples were scored.
    """
    on_subsets: float | None = None
    """The total including partial tasks. It is never ranked.

    None if no task is partial, if a task of the suite has no score, or if the suite has no total.
    """


@dataclass(frozen=True)
class Results:
    """The content of a `results.json`."""

    submission: Mapping[str, Any]
    """The submission's metadata."""
    split: str
    """The split: `validation` or `test`."""
    tasks: Mapping[str, TaskResult]
    """Results by task, starting with the suite's tasks in order."""
    interval: tuple[float, float] | None = None
    """The total's 95% interval; None unless all tasks of the suite are scored."""
    decabench: str = decabench.__version__
    """The version of decabench that scored the submission."""
    answers: AnswerKind = "extracted"
    """Whether the extracted answers or the model's whole output were scored."""
    suite: Suite = DECATHLON
    """The suite that the total is computed for."""
    source: Source | None = field(default=None, compare=False)
    """A function that returns the scored examples of a task; None for results from a file."""
    writer: Callable[[Results, Path | None], Path] | None = field(default=None, compare=False)
    """A function that writes new results with their statistics and examples; None for results from a file."""
    unknown_tasks: tuple[str, ...] = field(default=(), compare=False)
    """Unknown tasks with answers in this split of the submission. Not part of `results.json`."""

    def __post_init__(self) -> None:
        names = (*self.suite.tasks, *sorted(self.tasks.keys() - set(self.suite.tasks)))
        object.__setattr__(self, "tasks", {name: self.tasks[name] for name in names if name in self.tasks})

    @property
    def decascore(self) -> float | None:
        """The sum of the decathlon's ten headline scores, 0–1000, or None unless all ten tasks are scored."""
        total = self.total
        return total.score if total.complete and self.suite == DECATHLON else None

    @property
    def total(self) -> SuiteTotal:
        """The suite's total over the scored tasks."""
        suite = self.suite
        by_status: dict[str, list[str]] = {"scored": [], "failed": [], "partial": [], "missing": []}
        for name in suite.tasks:
            by_status[self.tasks[name].status if name in self.tasks else "missing"].append(name)
        scores = [score for name in by_status["scored"] if (score := self.tasks[name].score) is not None]
        score, of = None, 0
        if suite.total == "sum":
            score, of = math.fsum(scores), 100 * len(scores)
        elif suite.total == "mean":
            score, of = (math.fsum(scores) / len(scores), 100) if scores else (0.0, 0)
        complete = len(scores) == len(suite.tasks)
        return SuiteTotal(
            score=score,
            of=of,
            tasks=len(scores),
            complete=complete,
            text=self._total_text(score, of, len(scores), len(by_status["partial"])),
            missing=tuple(by_status["missing"]),
            failed=tuple(by_status["failed"]),
            partial=tuple(by_status["partial"]),
            on_subsets=suite.combine(self._scores("scored", "partial")) if by_status["partial"] else None,
        )

    def _scores(self, *statuses: str) -> dict[str, float]:
        found = {name: task.score for name, task in self.tasks.items() if task.status in statuses}
        return {name: score for name, score in found.items() if score is not None}

    @property
    def total_digits(self) -> int:
        """The number of decimal places to print for the total."""
        scored = (task for task in self.suite.tasks if task in self.tasks)
        return max((score_digits(task, self.tasks[task].metric) for task in scored), default=1)

    def _total_text(self, score: float | None, of: int, count: int, partial: int) -> str:
        suite = self.suite
        complete = count == len(suite.tasks)
        tasks = f"{count} of {len(suite.tasks)} tasks"
        if score is None:
            return f"no total ({tasks})"
        shown = f"{score:.{self.total_digits}f}"
        if suite.total == "mean":
            left_out = f"; {partial} partial, not averaged" if partial else ""
            return f"{shown} (mean of {count if complete else tasks}{left_out})"
        left_out = f"; {partial} partial, not summed" if partial else ""
        return shown if complete else f"{shown} of {of} ({tasks}{left_out})"

    @property
    def ok(self) -> bool:
        """Whether no task failed. Limited runs are not failures."""
        return all(task.status != "failed" for task in self.tasks.values())

    def examples(self, task: str) -> pandas.DataFrame:
        """Return a task's scored examples as a DataFrame, with a row for each example and wording.

        Columns: `id`, `prediction`, `raw`, `reasoning`, `references`, `score`, `right`, `flags`,
        `variant`, and `statistics.<name>`. Raises UnknownNameError if the task has no results,
        MissingDataError if there are no examples, and DataError if the task failed or its labels are hidden.
        """
        require_name(task, self.tasks, "task with results")
        if self.source is None:
            raise MissingDataError(
                "Results files don't contain examples. Use the results that decabench.evaluate returns."
            )
        return examples_frame(*self.source(task))

    def write(self, folder: str | Path | None = None) -> Path:
        """Write `results.json` and the files of statistics and examples next to it, and return its path.

        By default, results are written to the submission's results folder. Results that were read from a file have no
        statistics or examples and require `folder`. Raises MissingDataError if `folder` is required but not given,
        and StorageError if a file can't be written.
        """
        place = None if folder is None else Path(folder)
        if self.writer is not None:
            return self.writer(self, place)
        if place is None:
            raise MissingDataError(
                "These results were read from a file, so there is no default folder. Specify the folder to write to."
            )
        return write_results_file(place, self)

    def __repr__(self) -> str:
        return show_lines(self._title, [(row[0], row[1], row[2]) for row in self._rows()])

    def _repr_html_(self) -> str:
        return show_html(self._title, ("task", "metric", "score", "95%", "n", "empty"), self._rows())

    @property
    def _title(self) -> str:
        total, name = self.total, f"{self.submission['name']}, {self.split}"
        if total.score is None:
            return name
        return f"{name}: {self.suite.total_name if total.complete else self.suite.total} {total.text}"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for name, task in self.tasks.items():
            digits = score_digits(name, task.metric)
            score = task.status if task.score is None else f"{task.score:.{max(2, digits)}f}"
            yield (
                name,
                task.headline,
                score,
                show_interval(task.interval, digits),
                f"{task.n:,}",
                f"{task.empty:,}",
            )

    def to_json(self) -> str:
        """Return canonical JSON, with sorted keys, the shortest exact floats and a final newline."""
        content: dict[str, Any] = {
            "format": FORMAT,
            "decabench": self.decabench,
            "submission": self.submission,
            "split": self.split,
            "interval": self.interval,
            "tasks": {name: plain_record(task, _OMITTED) for name, task in self.tasks.items()},
            "total": plain_record(self.total, {"partial": (), "on_subsets": None}),
        }
        if self.suite == DECATHLON:
            content["decascore"] = self.decascore
        else:
            fields = ("name", "title", "tasks", "total", "total_name")
            content["suite"] = {key: getattr(self.suite, key) for key in fields}
        if self.answers != "extracted":
            content["answers"] = self.answers
        return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str = "results.json") -> Results:
        """Parse the output of `to_json`.

        Raises InvalidResultsError if the string is invalid; the message mentions `name`.
        """
        return parse_results(text, name)[1]


_OMITTED: Mapping[str, object] = {
    **dict.fromkeys(
        ("calibration", "samples", "ceiling", "chosen", "level", "partial", "units", "variants", "within")
    ),
    "answers": {},
    "failed": {},
    "fixed": 0,
    "retired": {},
    "without": (),
}
"""Fields of a task's result to leave out of the JSON if they have these values."""


def plain_record(value: Any, omitted: Mapping[str, object]) -> dict[str, Any]:
    """Return a dataclass as JSON values, omitting fields that have the values in `omitted`."""
    return asdict(
        value,
        dict_factory=lambda fields: {
            key: each for key, each in fields if key not in omitted or each != omitted[key]
        },
    )


def score_digits(task: str, metric: str, least: int = 1) -> int:
    """Return the number of decimal places to print for a score.

    The number is 3 if the scale is narrow or unbounded, and `least` otherwise.
    """
    low, high = _score_range(task, metric)
    return least if 20 <= high - low < math.inf else 3


def hidden_decimals(span: tuple[float, float], *values: float, least: int = 2) -> int:
    """Return the number of decimal places to keep in scores on hidden labels.

    Scores are rounded because exact scores would reveal labels. On an unbounded scale, `values` keep
    at most four significant digits, because the score of a huge answer such as 1e9 would otherwise
    reveal its label.
    """
    low, high = span
    if 20 <= high - low < math.inf:
        return least
    largest = max(map(abs, values), default=0.0)
    return min(3, 3 - math.floor(math.log10(largest))) if 0 < largest < math.inf else 3


SAMPLE_NOTE = "Scored on the bundled sample: not comparable with scores on the full datasets."
"""The note that is shown with every score on the sample."""


def describe_partial(run: LimitedRun) -> str:
    """Describe the examples that a limited run answered, as in `100 of 872 examples, limit 100`."""
    shown = re.sub("(sha256:[0-9a-f]{12})[0-9a-f]{52}", r"\1…", printable(run.chosen or ""))
    left_out = f", {len(run.without):,} left out" if run.without else ""
    return f"{run.answered:,} of {run.of:,} examples" + (f", {shown}" if shown else "") + left_out


def statistics_path(folder: Path, task: str) -> Path:
    """Return the path of a task's statistics in a folder of results."""
    return folder / STATISTICS / f"{task}.parquet"


def examples_path(folder: Path, task: str) -> Path:
    """Return the path of a task's scored examples in a folder of results."""
    return folder / EXAMPLES / f"{task}.jsonl.gz"


def write_results_file(folder: Path, results: Results) -> Path:
    """Write `results.json` to a folder, and return its path. Raises StorageError if it can't be written."""
    path = folder / "results.json"
    write_file(path, results.to_json())
    return path


def show_html(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table of escaped text, with the first two columns aligned left."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} style="text-align: {"left" if at < 2 else "right"}">{escape(terminal_safe(cell))}</{tag}>'
            for at, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    caption = f'<caption style="text-align: left">{escape(terminal_safe(title))}</caption>'
    return f"<table>{caption}<thead><tr>{cells('th', headings)}</tr></thead><tbody>{body}</tbody></table>"


def show_lines(title: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a plain-text table, with a title followed by a line for each row."""
    found = [[terminal_safe(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in found)
    return "\n".join([terminal_safe(title), *(f"  {line}" for line in lines)])


# Runs of one system

_OF_A_RUN = frozenset({"decabench", "fingerprint", "seed", "served_by", "time", "usage"})
"""Keys of a predictor's record that differ between runs of the same system."""

_OF_A_PROMPT = frozenset({"extraction", "prompts", "reasoning_tags", "variant"})
"""Additional keys that may differ between runs of the same model."""

_OF_WEIGHTS = frozenset({"config", "exported_from", "files", "step", "weights"})
"""Keys of a trained model's record (`backend`) that differ if the model is trained again with another seed."""


def _identity(predictor: object, left_out: frozenset[str]) -> dict[str, Any] | None:
    """Return the keys that identify a model, or None if the predictor's record doesn't say which model answered."""
    if not isinstance(predictor, Mapping) or not isinstance(predictor.get("backend"), Mapping):
        return None
    kept = {key: value for key, value in predictor.items() if key not in left_out}
    backend = {key: value for key, value in kept["backend"].items() if key not in ("decabench", "seed")}
    return {**kept, "backend": backend}


def model_of(predictor: object) -> str | None:
    """Return a key shared by all runs of a model, regardless of seeds, prompts and wordings.

    Returns None if the predictor's record doesn't say which model answered.
    """
    identity = _identity(predictor, _OF_A_RUN | _OF_A_PROMPT)
    return None if identity is None else canonical_json(identity)


def system_and_seed(predictor: object) -> tuple[str, str] | None:
    """Return a key shared by runs that differ only in their seeds, and the seed of this run.

    For a model trained with `decabench train`, the seed is the training seed, because its
    answers are not sampled. Returns None if the predictor's record doesn't say which model
    answered.
    """
    identity = _identity(predictor, _OF_A_RUN)
    if identity is None or not isinstance(predictor, Mapping):
        return None
    seed = predictor.get("seed")
    backend = identity["backend"]
    config = backend.get("config")
    if "training_data" in backend and isinstance(config, Mapping):
        seed = config.get("seed")
        config = {key: value for key, value in config.items() if key != "seed"}
        backend = {key: value for key, value in backend.items() if key not in _OF_WEIGHTS}
        identity = {**identity, "name": None, "backend": {**backend, "config": config}}
    return canonical_json(identity), canonical_json(seed)


# Reading


class InvalidResultsError(DataError):
    """Raised if a file is not a results file, or contradicts itself."""

    def __init__(self, name: str, reason: str, kind: str = "") -> None:
        super().__init__(f"{name} is not a valid results file: {reason}. Run decabench evaluate again.")
        self.reason = reason
        """A description of the fault, without the file's name."""
        self.kind = kind
        """The file's format, such as `decabench.run/1`, if it is not a results file."""


def read_results_file(path: Path) -> Results:
    """Read a `results.json`. Raises InvalidResultsError if the file is invalid."""
    return Results.from_json(read_bounded(path), str(path))


def read_bounded(path: Path) -> str:
    """Return the text of a results file.

    Raises InvalidResultsError if the file is too large, is not a regular file, is not UTF-8, or can't be read.
    """
    try:
        if path.exists() and not path.is_file():
            raise InvalidResultsError(str(path), "it is not a regular file")
        with open(path, "rb") as file:
            content = file.read(LIMIT_BYTES + 1)
        if len(content) > LIMIT_BYTES:
            raise InvalidResultsError(str(path), f"it is larger than {LIMIT_BYTES >> 20} MiB")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidResultsError(str(path), "it is not UTF-8") from error
    except OSError as error:
        require_machine(error, path)
        raise InvalidResultsError(str(path), f"it can't be read ({error.strerror})") from error


@dataclass(frozen=True, kw_only=True)
class _File:
    submission: Mapping[str, Any]
    split: Literal["train", "validation", "test"]
    tasks: Mapping[str, Any]
    interval: tuple[float, float] | None = None
    decabench: str = ""
    answers: AnswerKind = "extracted"
    suite: Suite = DECATHLON


def parse_results(text: str, name: str) -> tuple[dict[str, Any], Results]:
    """Parse a results file, and return its JSON and its results. Totals are computed from the tasks.

    Raises InvalidResultsError if the file is invalid.
    """
    import msgspec

    try:
        record = parse_json(text)
    except ValueError as error:
        raise InvalidResultsError(name, f"it is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise InvalidResultsError(name, "its JSON is not an object")
    if (stated := record.get("format")) != FORMAT:
        reason = f"its format is {excerpt(repr(stated), 60)}; this version reads {FORMAT!r}"
        raise InvalidResultsError(name, reason, stated if isinstance(stated, str) else "")
    try:
        file = msgspec.convert(record, _File)
    except (msgspec.ValidationError, DecabenchError) as error:  # Suite raises DecabenchError
        raise InvalidResultsError(name, f"a value is invalid: {excerpt(str(error))}") from error
    given = file.submission.get("name")
    if not isinstance(given, str) or not any(char.isprintable() and not char.isspace() for char in given):
        raise InvalidResultsError(name, "its submission has no name")
    for task in (*file.tasks, *file.suite.tasks):
        if not is_task_name(task):
            raise InvalidResultsError(name, f"{quoted(task)} is not a valid task name")
    suite = SUITES.get(file.suite.name, file.suite)
    if (suite.tasks, suite.total) != (file.suite.tasks, file.suite.total):
        suite = file.suite
    try:
        tasks = {task: _parse_task(task, value) for task, value in file.tasks.items()}
        results = Results(**{**vars(file), "tasks": tasks, "suite": suite})
        _ = results.total  # the sum of the scores may overflow
    except (ValueError, OverflowError) as error:
        raise InvalidResultsError(name, str(error)) from error
    return record, results


def _parse_task(name: str, value: Any) -> TaskResult:
    import msgspec

    try:
        task = msgspec.convert(value, TaskResult)
        for fault in _task_faults(name, task):
            raise ValueError(fault)
    except ValueError as error:
        raise ValueError(f"{printable(name[:80])}: {error}") from error
    if task.variants and name in TASKS and task.metric in METRICS:  # wordings may have been retired since
        headlines, retired = {**task.variants.scores, **task.variants.retired}, TASKS[name].retired_variants
        summed = VariantScores.of(headlines, METRICS[task.metric].higher_is_better, retired)
        stated = {key: getattr(task.variants, key) for key in ("predictions", "failed")}
        task = replace(task, variants=replace(summed, **stated))
    return task


def _task_faults(name: str, task: TaskResult) -> Iterator[str]:
    """Yield the contradictions in a result. NaN and infinity have already been rejected by `parse_json`."""
    low, high = _score_range(name, task.metric)
    scores = [task.score, *(task.interval or ())]
    if variants := task.variants:
        numbers = [*variants.scores, *variants.retired]
        scores += [*variants.scores.values(), *variants.retired.values()]
        if "0" not in variants.scores or not all(re.fullmatch("0|[1-9][0-9]{0,2}", each) for each in numbers):
            yield "its variants must have numbers from 0 to 999, including 0"
    if (task.score is None) != (task.status == "failed"):
        yield f"its status is {task.status}, but its score is {task.score}"
    for score in scores:  # a perfect BLEU is 100.00000000000004
        if score is not None and not low - 1e-6 <= score <= high + 1e-6:
            yield f"it has a score or interval bound of {score}, which is not between {low:g} and {high:g}"
    if task.interval and task.interval[0] > task.interval[1] + 1e-6:
        yield f"its interval is {list(task.interval)}, but the lower end must come first"
    counts = (task.n, task.empty, task.faults, task.data.rows, *task.answers.values())
    if not all(0 <= count < 1e12 for count in counts):
        yield "one of its counts is negative or impossibly large"
    if task.status != "failed" and not task.data.fingerprint:
        yield "it has a score, but no fingerprint of its data"
    if task.status == "partial" and not (task.partial and 0 < task.partial.answered < task.partial.of):
        yield "its status is partial, but the number of answered examples or of all examples is missing or invalid"


def _score_range(task: str, metric: str) -> tuple[float, float]:
    known = METRICS.get(TASKS[task].metric if task in TASKS else metric)
    return known.range if known else (-math.inf, math.inf)


def read_results(folder: str | Path) -> pandas.DataFrame:
    """Read every `results.json` below a folder into a DataFrame, with a row for each submission, split and task.

    The status of a task is `scored`, `partial`, `failed` or `missing`. Scores are not checked; use `verify` for that.
    Raises MissingDataError if there is no results file, InvalidResultsError if a file is invalid, and DecabenchError
    if pandas (extra `pandas`) is not installed.
    """
    require_package("read_results", "pandas", "pandas")
    import pandas

    paths = sorted(Path(folder).glob("**/results.json"))
    if not paths:
        raise MissingDataError(
            f"There is no results.json in {folder} or its subfolders. Run decabench evaluate first."
        )
    rows = [row for path in paths for row in _table_rows(path, read_results_file(path))]
    return pandas.DataFrame(rows).sort_values(
        ["decascore", "submission"], ascending=[False, True], kind="stable", ignore_index=True
    )


def _table_rows(path: Path, results: Results) -> Iterator[dict[str, Any]]:
    total = results.total
    common = {
        "submission": results.submission["name"],
        "split": results.split,
        "decascore": results.decascore,
        "complete": total.complete,
        "total": total.score,
        "path": str(path),
    }
    for name, task in results.tasks.items():
        yield {
            **common,
            "task": name,
            "status": task.status,
            "metric": task.headline,
            "score": task.score,
            "n": task.n,
            "empty": task.empty,
            "origin": task.data.origin,
            "verified": task.data.verified,
            "fingerprint": task.data.fingerprint,
            "predictions": task.predictions,
            "scores": dict(task.scores),
            "answers": results.answers,
            "suite": results.suite.name,
        }
    for name in total.missing:
        yield {**common, "task": name, "status": "missing", "suite": results.suite.name}
