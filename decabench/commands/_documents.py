"""The documents of `--json`, and lines of files that no other class describes.

`tools/schemas.py` makes schemas and documentation from them. Fields may be added, but never renamed or removed;
a field with a default may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import Struct, field

if TYPE_CHECKING:  # a command that prints one document needs none of the others' types
    from decabench.leaderboard import Problem, Refusal, Review
    from decabench.runs import Estimate, Tally
    from decabench.scoring import (
        Compared,
        ComparedPair,
        Discrepancy,
        LineupRow,
        ProofStep,
        SuiteTotal,
        TaskResult,
    )
    from decabench.submission import Fault, FileCount
    from decabench.tasks import PublishedRow


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a document."""

    @classmethod
    def from_value(cls, value: object, **others: Any) -> Self:
        """Return a part whose fields are the attributes of a value with the same names, except for `others`."""
        same = {name: getattr(value, name) for name in cls.__struct_fields__ if name not in others}
        return cls(**same, **others)


class Document(Part, tag_field="format", frozen=True):
    """A document; its first key is its format."""


class ErrorFields(Part, frozen=True):
    """An error."""

    kind: str  #: The class of the error, such as UsageError, MissingDataError or SubmissionError.
    message: str  #: The sentence printed on standard error.
    exit_code: int


class ErrorDocument(Document, tag="decabench.error/1", frozen=True):
    """Why a command has no result. Any command may print it; the exit status says which kind."""

    error: ErrorFields


class LinesDocument(Document, tag="decabench.lines/1", frozen=True):
    """Sentences about a completed command, with the paths of the files that it wrote."""

    lines: Sequence[str]


class FaultCount(Part, frozen=True):
    """The number of times that a fault was found in a file, including those not listed."""

    file: str
    code: str
    count: int


class CheckDocument(Document, tag="decabench.check/1", frozen=True):
    """A report of `check` or `import`: up to 20 faults of each code in each file, and the total number."""

    submission: str  #: The name of the folder or archive.
    ok: bool  #: Whether the submission is valid.
    fault_count: int  #: The number of faults, listed or not.
    warning_count: int  #: The number of warnings, listed or not.
    totals: Sequence[FaultCount]
    faults: Sequence[Fault]  #: Faults make the submission invalid.
    warnings: Sequence[Fault]  #: Warnings leave it valid.
    files: Sequence[FileCount]  #: The files that were read.


class ComparisonDocument(Document, tag="decabench.comparison/1", frozen=True):
    """The comparison of two submissions."""

    a: str
    b: str
    split: str
    tasks: Mapping[str, Compared]  #: The tasks that were scored in both submissions.
    not_compared: Mapping[str, str]  #: Why a task was left out, by task.
    seed: int
    resamples: int  #: The number of resamples behind intervals and p-values.
    a_path: str
    b_path: str
    on_sample: bool  #: Whether the data of any task is the bundled sample.
    decascore: Compared | None = None  #: The decathlon's total; null unless both have all ten tasks.
    total: Compared | None = None  #: The total of another suite; null unless both have all of its tasks.
    suite: str = "decathlon"


class LineupDocument(Document, tag="decabench.lineup/1", frozen=True):
    """The comparison of more than two submissions."""

    split: str
    rows: Sequence[LineupRow]  #: The models, best first.
    pairs: Mapping[str, Sequence[ComparedPair]]  #: All pairs of rows, by task and for the suite's total.
    examples: Mapping[str, int]  #: The number of compared examples, by task.
    of: Mapping[str, int]  #: The number of examples in the split, by task, if only some were answered.
    digits: Mapping[str, int]  #: The number of decimals to print, by task.
    not_compared: Mapping[str, str]  #: Why a task was left out, by task.
    seed: int
    suite: str


class SuiteFields(Part, frozen=True):
    """The suite that results are reported on."""

    name: str
    title: str
    tasks: Sequence[str]
    total: str  #: How the scores combine.
    total_name: str


class ResultsDocument(Document, tag="decabench.results/1", frozen=True):
    """The content of a results file."""

    decabench: str  #: The version of decabench that scored.
    submission: Mapping[str, Any]  #: The content of submission.toml.
    split: Literal["validation", "test"]
    interval: tuple[float, float] | None  #: The total's 95% interval; null unless all tasks are scored.
    tasks: Mapping[str, TaskResult]
    total: SuiteTotal  #: The suite's total over the scored tasks.
    decascore: float | None = None  #: The decathlon's total; null unless all ten tasks are scored.
    suite: SuiteFields | None = None  #: The suite, unless it is the decathlon.
    answers: Literal["extracted", "raw"] = "extracted"  #: Which texts were scored.


class ConfusionCount(Part, frozen=True):
    """How often one class was predicted for another, or for itself."""

    gold: str
    predicted: str  #: Empty for none.
    count: int


class EvaluationDocument(Document, tag="decabench.evaluation/1", frozen=True):
    """The scores of `evaluate`."""

    results: ResultsDocument  #: The content of the results file.
    path: str  #: The results file.
    missing: Sequence[str]  #: Tasks of the suite, or of --tasks, without answers.
    remarks: Sequence[str]  #: Remarks that readers of the scores need, one sentence each.
    #: With --confusion: pairs of gold and predicted class for each task of labels or tags, most frequent first.
    confusions: Mapping[str, Sequence[ConfusionCount]] | None = None


class BoardDocument(Document, tag="decabench.board/1", frozen=True):
    """The board that `leaderboard` wrote."""

    index: str  #: The first page, as a URI.
    kinds: Mapping[str, int]  #: The number of rows by evidence, and of partial and failed rows.
    refused: Sequence[Refusal]  #: Submissions and results files that were left off.


class ReviewDocument(Document, tag="decabench.review/1", frozen=True):
    """The outcome of `review request` or `review queue`."""

    problems: Sequence[Problem]  #: What is wrong with the request itself.
    reviews: Sequence[Review]  #: A review for each submission.


class MetricFields(Part, frozen=True):
    """A metric."""

    definition: str
    range: tuple[float, float | None]  #: The lowest and the highest score; null if there is no highest.
    higher_is_better: bool
    headline: str  #: The name of its main score.
    signature: str  #: Every setting that affects a digit.
    source: str  #: The scorers that it reproduces.


class SelftestCase(Part, frozen=True):
    """An expected score, and the score that this installation computes."""

    name: str
    scorer: str  #: The scorer that the expected score comes from.
    score: str  #: The name of the score.
    expected: float
    got: float
    passed: bool


class SelftestDocument(Document, tag="decabench.selftest/1", frozen=True):
    """The cases of `metrics selftest`."""

    cases: Sequence[SelftestCase]
    failed: int  #: The number of cases that differ.


class PredictionDocument(Document, tag="decabench.prediction/1", frozen=True):
    """The answers that `predict` wrote."""

    submission: str  #: The submission's folder.
    name: str
    split: str
    tasks: Sequence[Tally]
    failed: int  #: Examples without an answer.
    remarks: Sequence[str]  #: One sentence for each part that is missing from the submission.


class EstimateDocument(Document, tag="decabench.estimate/1", frozen=True):
    """The estimate of `predict --dry-run`."""

    tasks: Sequence[Estimate]


class ShownPrompt(Part, frozen=True):
    """The prompt of an example."""

    task: str  #: The task, with its variant.
    id: str
    text: str


class PromptDocument(Document, tag="decabench.prompt/1", frozen=True):
    """The prompts of `predict --show-prompt`, one for each wording."""

    prompts: Sequence[ShownPrompt]


class PreparedSplit(Part, frozen=True):
    """A prepared split."""

    rows: int
    fingerprint: str  #: `sha256:…` over the examples in order.
    origin: str  #: upstream, mirror, sample or user.
    source: str  #: The name of the source it was read from.
    verified: bool  #: Whether every file has its published digest.
    note: str  #: A remark that readers of a score need.


class PreparedTask(Part, frozen=True):
    """A task, as `prepare` left it."""

    task: str
    state: Literal["was ready", "prepared", "partly", "failed"]
    splits: Mapping[str, PreparedSplit]
    missing: Sequence[str]  #: Requested splits that are not prepared.
    altered: Sequence[str]  #: Splits that were changed or deleted; those in `splits` were prepared again.
    error: str  #: The reason for a failure, or empty.


class PreparationDocument(Document, tag="decabench.preparation/1", frozen=True):
    """The tasks of `prepare`."""

    home: str  #: The folder of prepared data.
    tasks: Sequence[PreparedTask]
    skipped: Sequence[str]  #: Tasks that have no such public split.
    ids: str | None  #: The id list that was written, with --export-ids.


class OutcomeDocument(Document, tag="decabench.outcome/1", frozen=True):
    """The scores and comparisons of `run`."""

    submission: str  #: The submission's folder.
    results: ResultsDocument
    comparisons: Mapping[str, ComparisonDocument]  #: By baseline; the model is B.
    not_compared: Mapping[str, str]  #: Why there is no comparison, by baseline.
    faults: bool  #: Whether the submission has faults.
    failed: int  #: Examples without an answer.


class ForecastDocument(Document, tag="decabench.forecast/1", frozen=True):
    """The plan of `run --dry-run`."""

    to_prepare: Mapping[str, Sequence[str]]  #: The splits that would be prepared, by task.
    tasks: Sequence[Estimate]  #: Empty as long as data is missing.


class AnswerFields(Part, frozen=True, omit_defaults=True):
    """An answer and its score."""

    prediction: str | None  #: The text that was scored.
    score: float | None  #: Null if the metric does not score single examples.
    right: bool | None  #: Null if unknown.
    raw: str = ""  #: The model's text, if it differs from the answer.
    flags: Sequence[str] = ()  #: Properties of the answer: empty, cut, refused and so on.


class CourseFields(Part, frozen=True):
    """The state of a dialogue after a turn."""

    before: Sequence[str]  #: The contexts of the earlier turns, in order.
    predicted: str  #: The state according to the answers.
    gold: str
    parted: (
        str  #: The turn and answer where the states diverged: `here` for this turn, empty if they are equal.
    )


class ShownExample(Part, frozen=True, omit_defaults=True):
    """An example that `show` printed, with its answer."""

    id: str
    question: str
    context: str
    references: Sequence[str]
    prediction: str | None  #: The text that was scored.
    score: float | None  #: Null if the metric does not score single examples.
    right: bool | None  #: Null if unknown.
    raw: str = ""  #: The model's text, if it differs from the answer.
    flags: Sequence[str] = ()  #: Properties of the answer: empty, cut, refused and so on.
    course: CourseFields | None = None  #: The state after this turn, if the metric compares states.
    wordings: Mapping[str, AnswerFields] | None = None  #: The answers to other wordings, by their number.
    against: AnswerFields | None = None  #: The answer of the other submission, with --against.


class OtherSubmission(Part, frozen=True):
    """The submission of --against."""

    submission: str
    score: float | None  #: Its score on the task.


class BrowsedDocument(Document, tag="decabench.shown/1", kw_only=True, frozen=True, omit_defaults=True):
    """The examples of `show`."""

    submission: str
    task: str
    split: str
    metric: str
    headline: str  #: The name of the task's main score.
    score: float | None  #: The score of the whole split.
    examples: int  #: The number of examples.
    matching: int  #: The number of examples that match the options.
    predictor: Mapping[str, Any]  #: Model, protocol, samples, tokens and cost, as far as they are recorded.
    flags: Mapping[str, int]  #: How often each flag occurs.
    calibration: Mapping[str, Any] | None = None  #: Brier score, log loss, error and bins of probabilities.
    shown: Sequence[ShownExample]  #: The first of the matching examples.
    against: OtherSubmission | None = None


class PageDocument(Document, tag="decabench.page/1", frozen=True):
    """The page of `show --output` or `--open`."""

    page: str  #: The page as a URI.


class SuiteHead(Part, frozen=True):
    """A suite."""

    title: str
    description: str
    total: str  #: How the scores of its tasks combine.
    total_name: str
    source: str  #: The paper whose scores are published with it.
    source_url: str
    notes: Sequence[str]  #: Remarks that readers of the published rows need.
    origin: str  #: decabench, or user.


class SuiteDescription(SuiteHead, frozen=True):
    """A suite, as listed by `suites`."""

    tasks: Sequence[str]
    prepared: Sequence[str]  #: The tasks that are prepared.


class SuiteTask(Part, frozen=True):
    """A task of a suite."""

    metric: str
    prepared: bool  #: Whether some of its data is prepared.


class SuiteDocument(SuiteHead, frozen=True):
    """A suite, as shown by `suites show`."""

    tasks: Mapping[str, SuiteTask]
    published: Sequence[PublishedRow]


class TaskDescription(Part, frozen=True):
    """A task, as listed by `tasks`."""

    name: str
    dataset: str
    metric: str
    counts: Mapping[str, int]  #: The published number of examples by split.
    hidden: Sequence[str]  #: Splits whose labels are not public.
    licence: str
    origin: str  #: decabench, or user.
    state: Literal[
        "prepared", "not prepared", "outdated", "damaged"
    ]  #: An earlier version prepared outdated data.
    prepared: Mapping[str, PreparedSplit]


class TasksDocument(Document, tag="decabench.tasks/1", frozen=True):
    """All known tasks."""

    home: str  #: The folder of prepared data.
    tasks: Sequence[TaskDescription]


class ExampleFields(Part, frozen=True):
    """An example."""

    id: str
    question: str
    context: str
    answers: Sequence[str]  #: All references; empty if labels are hidden.


class TaskDocument(Document, tag="decabench.task/1", frozen=True):
    """A task, as shown by `tasks show`."""

    task: TaskDescription
    facts: Mapping[str, str]  #: Title, output, metric, units, licence, citation, sources, notes.
    examples: Sequence[ExampleFields]  #: The first examples of the split; empty if it is not prepared.


class OverlapFields(Part, frozen=True):
    """The examples of a task's split that also occur in another task's data."""

    task: str
    split: str
    in_: str = field(name="in")  #: The task whose data was searched.
    examples: int  #: Examples of the split.
    exact: int  #: Examples whose exact text is there.
    normalised: int  #: Examples whose text is there, ignoring case, spaces and punctuation.


class OverlapDocument(Document, tag="decabench.overlap/1", frozen=True):
    """The texts that `tasks overlap` found in other data."""

    compare: str  #: The part that was compared: context or example.
    against: Sequence[str]  #: The splits that were searched.
    normalisation: str  #: How texts are normalised.
    not_prepared: Sequence[str]  #: Tasks that were left out because they are not prepared.
    overlap: Sequence[OverlapFields]


class ProofDocument(Document, tag="decabench.proof/1", frozen=True):
    """The checks of `tasks validate`."""

    task: str
    split: str
    checks: Sequence[ProofStep]
    failed: int  #: The number of checks that failed.


class TrainingDocument(Document, tag="decabench.training/1", frozen=True):
    """The model that `train` made."""

    output: str  #: The folder of the run.
    step: int  #: The last step.
    checkpoint: str  #: The best checkpoint, or the last one if nothing was validated.
    best: float | None  #: The best score; null if there is none.
    scores: Mapping[str, float]  #: The scores of the last validation, by task.


class VerifiedFile(Part, frozen=True):
    """The result of verifying a results file."""

    path: str
    ok: bool
    verdict: str  #: The result in one line, or why it could not be verified.
    scored: Sequence[str] = ()  #: Tasks in the file that were scored again.
    unanswered: Sequence[str] = ()  #: Tasks in the file that the submission has no answers to.
    differences: Sequence[Discrepancy] = ()


class VerificationDocument(Document, tag="decabench.verification/1", frozen=True):
    """The results files that `verify` checked."""

    files: Sequence[VerifiedFile]


class SubmittedAnswer(Struct, frozen=True):
    """A line of `predictions/<task>.<split>.jsonl`. Other keys are ignored."""

    id: str
    answer: str
    raw: str = ""  #: The model's text, if it differs from the answer.
    rule: str = ""  #: The rule that extracted the answer.
    finish: Literal["stop", "length", "refused"] = "stop"
    context_kept: tuple[int, int] | None = (
        None  #: The characters of the context that the model saw, [start, end).
    )
    reasoning: str = ""


DOCUMENTS: Mapping[str, Any] = {
    "error": ErrorDocument,
    "analyze": LinesDocument,
    "check": CheckDocument,
    "compare": ComparisonDocument,
    "compare --each": LineupDocument,
    "evaluate": EvaluationDocument,
    "export results": LinesDocument,
    "export tasks": LinesDocument,
    "export weights": LinesDocument,
    "import": CheckDocument,
    "leaderboard": BoardDocument,
    "metrics": Mapping[str, MetricFields],
    "metrics selftest": SelftestDocument,
    "metrics show": MetricFields,
    "predict": PredictionDocument,
    "predict --dry-run": EstimateDocument,
    "predict --show-prompt": PromptDocument,
    "prepare": PreparationDocument,
    "review queue": ReviewDocument,
    "review request": ReviewDocument,
    "run": OutcomeDocument,
    "run --dry-run": ForecastDocument,
    "show": BrowsedDocument,
    "show --output": PageDocument,
    "suites": Mapping[str, SuiteDescription],
    "suites show": SuiteDocument,
    "tasks": TasksDocument,
    "tasks overlap": OverlapDocument,
    "tasks show": TaskDocument,
    "tasks validate": ProofDocument,
    "train": TrainingDocument,
    "vectors convert": LinesDocument,
    "vectors ngrams": LinesDocument,
    "verify": VerificationDocument,
}
"""The document that each command prints; any command may print the error instead."""
