"""Documents of `--json` whose text other rooms write: results, comparisons, reports, and lists that are as old as them.

These classes say what is in them, for docs/json.md and docs/schemas/output/; nothing is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from decabench.scoring import Compared, SuiteTotal, TaskResult
from decabench.submission import Fault, FileCount

__all__ = [
    "BrowsedDocument",
    "CheckDocument",
    "ComparisonDocument",
    "ErrorDocument",
    "MetricFields",
    "OutcomeDocument",
    "OverlapDocument",
    "ResultsDocument",
    "SuiteDescription",
    "SuiteDocument",
]

MISSING: Any = None
"""The default of a field that may be missing."""


@dataclass(frozen=True, kw_only=True)
class ErrorFields:
    """What went wrong."""

    kind: str
    """The class of the error, such as UsageError, MissingDataError or SubmissionError."""
    message: str
    """What was wrong, what was given and what to do."""
    exit_code: int
    """The exit status of the command."""


@dataclass(frozen=True, kw_only=True)
class ErrorDocument:
    """What any command prints if it fails before it has a result; the exit status says of which kind."""

    format: Literal["decabench.error/1"] = "decabench.error/1"
    error: ErrorFields
    """The error."""


@dataclass(frozen=True, kw_only=True)
class FaultCount:
    """How often a fault was found in a file."""

    file: str
    """Its path in the submission."""
    code: str
    """The code of the fault."""
    count: int
    """How often it was found, listed or not."""


@dataclass(frozen=True, kw_only=True)
class CheckDocument:
    """What `check` found: up to 20 faults of each code in each file, and the number of all."""

    format: Literal["decabench.check/1"] = "decabench.check/1"
    submission: str
    """The name of the folder or archive."""
    ok: bool
    """Whether the submission is valid."""
    fault_count: int
    """The number of faults, listed or not."""
    warning_count: int
    """The number of warnings, listed or not."""
    totals: Sequence[FaultCount]
    """Faults and warnings by file and code."""
    faults: Sequence[Fault]
    """What makes the submission invalid."""
    warnings: Sequence[Fault]
    """What is odd but leaves it valid."""
    files: Sequence[FileCount]
    """The files that were read."""


@dataclass(frozen=True, kw_only=True)
class ComparisonDocument:
    """What `compare` found."""

    format: Literal["decabench.comparison/1"] = "decabench.comparison/1"
    a: str
    """A's name."""
    b: str
    """B's name."""
    split: str
    """The split."""
    tasks: Mapping[str, Compared]
    """By task, for tasks scored in both submissions."""
    not_compared: Mapping[str, str]
    """Task to the reason why it was left out."""
    seed: int
    """The seed of the resamples."""
    resamples: int
    """The number of resamples behind intervals and p-values."""
    decascore: Compared | None = None
    """The decathlon's total; null unless both have all ten tasks, missing for another suite."""
    total: Compared | None = None
    """The total of another suite; null unless both have all of its tasks."""
    suite: str = "decathlon"
    """The name of the suite."""
    a_path: str
    """Where A was read from."""
    b_path: str
    """Where B was read from."""
    on_sample: bool
    """Whether a task's data are the bundled sample."""


@dataclass(frozen=True, kw_only=True)
class SuiteFields:
    """The suite that results are reported on."""

    name: str
    """Its name."""
    title: str
    """Its title."""
    tasks: Sequence[str]
    """Its tasks."""
    total: str
    """How their scores combine."""
    total_name: str
    """The name of the combined score."""


@dataclass(frozen=True, kw_only=True)
class ResultsDocument:
    """The content of a results.json."""

    format: Literal["decabench.results/1"] = "decabench.results/1"
    decabench: str
    """The version of decabench that scored."""
    submission: Mapping[str, Any]
    """What the submission says about itself: its name, and what is in submission.toml."""
    split: str
    """The split."""
    interval: tuple[float, float] | None
    """The total's 95 % interval; null unless all tasks of the suite are scored."""
    tasks: Mapping[str, TaskResult]
    """By name."""
    total: SuiteTotal
    """The suite's total over the tasks that are scored."""
    decascore: float | None = None
    """The decathlon's total; null unless all ten tasks are scored, missing for another suite."""
    suite: SuiteFields = MISSING
    """The suite, unless it is the decathlon."""
    answers: str = "extracted"
    """Which texts were scored."""


@dataclass(frozen=True, kw_only=True)
class OutcomeDocument:
    """What `run` scored and compared."""

    format: Literal["decabench.outcome/1"] = "decabench.outcome/1"
    submission: str
    """The submission's folder."""
    results: ResultsDocument
    """The scores."""
    comparisons: Mapping[str, ComparisonDocument]
    """Baseline to the comparison with it; the model is B."""
    not_compared: Mapping[str, str]
    """Baseline to the reason why there is no comparison."""
    faults: bool
    """Whether the submission has faults."""
    failed: int
    """Examples without an answer."""


@dataclass(frozen=True, kw_only=True)
class MetricFields:
    """A metric."""

    definition: str
    """What it measures."""
    range: tuple[float, float | None]
    """The lowest and the highest score; null if there is no highest."""
    higher_is_better: bool
    """False for error measures."""
    headline: str
    """Which of its scores is the main one."""
    signature: str
    """Every setting that decides a digit."""
    source: str
    """The scorers that it reproduces."""


@dataclass(frozen=True, kw_only=True)
class AnswerFields:
    """An answer and its score."""

    prediction: str | None
    """The text that was scored."""
    score: float | None
    """Its score; null if the metric scores no single examples."""
    right: bool | None
    """Whether it is right; null if that is not known."""
    raw: str = ""
    """The model's text, if it is another."""
    flags: Sequence[str] = ()
    """What is special about it: empty, cut, refused and so on."""


@dataclass(frozen=True, kw_only=True)
class CourseFields:
    """The state of a dialogue after a turn."""

    before: Sequence[str]
    """The contexts of the earlier turns, in order."""
    predicted: str
    """The state according to the answers."""
    gold: str
    """The state according to the gold answers."""
    parted: str
    """The turn at which the two states diverged, and the answer that caused it; `here` for this turn, empty if they are
    equal.
    """


@dataclass(frozen=True, kw_only=True)
class ShownExample(AnswerFields):
    """An example that `show` printed."""

    id: str
    """Its id."""
    question: str
    """The question."""
    context: str
    """The context."""
    references: Sequence[str]
    """All references."""
    course: CourseFields = MISSING
    """The state that its group's answers add up to, if the metric compares states, as joint_goal_em does."""
    wordings: Mapping[str, AnswerFields] = MISSING
    """The answers to other wordings, by their number."""
    against: AnswerFields = MISSING
    """The answer of the other submission, with --against."""


@dataclass(frozen=True, kw_only=True)
class OtherSubmission:
    """The submission of --against."""

    submission: str
    """Its name."""
    score: float | None
    """Its score on the task."""


@dataclass(frozen=True, kw_only=True)
class BrowsedDocument:
    """What `show` printed."""

    format: Literal["decabench.shown/1"] = "decabench.shown/1"
    submission: str
    """The submission's name."""
    task: str
    """The task."""
    split: str
    """The split."""
    metric: str
    """The task's metric."""
    headline: str
    """Which of its scores is the task's."""
    score: float | None
    """The score of the whole split."""
    examples: int
    """The number of examples."""
    matching: int
    """The number of examples that match the options."""
    shown: Sequence[ShownExample]
    """The first of them."""
    against: OtherSubmission = MISSING
    """The other submission, with --against."""


@dataclass(frozen=True, kw_only=True)
class PublishedFields:
    """Scores that a paper reports."""

    name: str
    """The model."""
    training: str
    """How it was trained."""
    scores: Mapping[str, float]
    """By task."""
    total: float | None
    """The suite's total as printed."""
    source: str
    """The place in the paper."""


@dataclass(frozen=True, kw_only=True)
class SuiteDescription:
    """A suite."""

    title: str
    """Its title."""
    description: str
    """What it measures."""
    tasks: Sequence[str]
    """Its tasks."""
    total: str
    """How their scores combine."""
    total_name: str
    """The name of the combined score."""
    source: str
    """The paper whose scores are published with it."""
    source_url: str
    """The paper's URL."""
    notes: Sequence[str]
    """What readers of the published rows must know."""
    origin: str
    """decabench, or user."""
    prepared: Sequence[str]
    """The tasks that are prepared."""


@dataclass(frozen=True, kw_only=True)
class SuiteTask:
    """A task of a suite."""

    metric: str
    """Its metric."""
    prepared: bool
    """Whether some of its data is prepared."""


@dataclass(frozen=True, kw_only=True)
class SuiteDocument:
    """What `suites show` shows."""

    title: str
    """Its title."""
    description: str
    """What it measures."""
    tasks: Mapping[str, SuiteTask]
    """Its tasks, by name."""
    total: str
    """How their scores combine."""
    total_name: str
    """The name of the combined score."""
    source: str
    """The paper whose scores are published with it."""
    source_url: str
    """The paper's URL."""
    notes: Sequence[str]
    """What readers of the published rows must know."""
    origin: str
    """decabench, or user."""
    published: Sequence[PublishedFields]
    """What papers report."""


@dataclass(frozen=True, kw_only=True)
class OverlapFields:
    """What one split of a task has in common with another task's data."""

    task: str
    """The task."""
    split: str
    """Its split."""
    in_: str
    """The task in whose data the texts were looked for; its key is `in`."""
    examples: int
    """Examples of the split."""
    exact: int
    """Examples whose text is there as it is."""
    normalised: int
    """Examples whose text is there without regard to case, spaces and punctuation."""


@dataclass(frozen=True, kw_only=True)
class OverlapDocument:
    """What `tasks overlap` found."""

    format: Literal["decabench.overlap/1"] = "decabench.overlap/1"
    compare: str
    """What was compared: context or example."""
    against: Sequence[str]
    """The splits in which texts were looked for."""
    normalisation: str
    """How texts are normalised."""
    not_prepared: Sequence[str]
    """Tasks that were left out because they are not prepared."""
    overlap: Sequence[OverlapFields]
    """By task and split."""
