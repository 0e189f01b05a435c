"""The documents that commands print with `--json`, and the lines of predictions files.

`tools/schemas.py` generates a JSON schema and documentation from these classes. Fields may be added, but never
renamed or removed. A field with a default may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import Struct, field

if TYPE_CHECKING:  # not at run time, because each command prints only one kind of document
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
    """Base class of documents and of the objects inside them."""

    @classmethod
    def from_value(cls, value: object, **others: Any) -> Self:
        """Return a part whose fields are copied from attributes of `value`, except those given as `others`."""
        same = {name: getattr(value, name) for name in cls.__struct_fields__ if name not in others}
        return cls(**same, **others)


class Document(Part, tag_field="format", frozen=True):
    """A document. Its first key, `format`, identifies its type and version."""


class ErrorFields(Part, frozen=True):
    """An error."""

    kind: str  #: The class of the error, such as UsageError, MissingDataError or SubmissionError.
    message: str  #: The sentence printed on standard error.
    exit_code: int


class ErrorDocument(Document, tag="decabench.error/1", frozen=True):
    """The error that stopped a command. Any command may print this document instead of its own."""

    error: ErrorFields


class LinesDocument(Document, tag="decabench.lines/1", frozen=True):
    """Messages about a completed command, including the paths of the files that it wrote."""

    lines: Sequence[str]


class FaultCount(Part, frozen=True):
    """The number of times that a fault occurs in a file, including occurrences that aren't listed."""

    file: str
    code: str
    count: int


class CheckDocument(Document, tag="decabench.check/1", frozen=True):
    """A report of `check` or `import`. It lists up to 20 faults of each code in each file, and counts all of them."""

    submission: str  #: The name of the folder or archive.
    ok: bool  #: Whether the submission is valid.
    fault_count: int  #: The number of faults, listed or not.
    warning_count: int  #: The number of warnings, listed or not.
    totals: Sequence[FaultCount]
    faults: Sequence[Fault]  #: Problems that make the submission invalid.
    warnings: Sequence[Fault]  #: Problems that don't make the submission invalid.
    files: Sequence[FileCount]  #: The files that were read.


class ComparisonDocument(Document, tag="decabench.comparison/1", frozen=True):
    """The comparison of two submissions."""

    a: str
    b: str
    split: str
    tasks: Mapping[str, Compared]  #: The tasks that were scored in both submissions.
    not_compared: Mapping[str, str]  #: Tasks that were left out, and the reason for each.
    seed: int
    resamples: int  #: The number of resamples used for intervals and p-values.
    a_path: str
    b_path: str
    on_sample: bool  #: Whether any task was scored on the bundled sample.
    decascore: Compared | None = None  #: The decathlon's total; null unless both submissions have all tasks.
    total: Compared | None = None  #: Another suite's total; null unless both submissions have all tasks.
    suite: str = "decathlon"


class LineupDocument(Document, tag="decabench.lineup/1", frozen=True):
    """The comparison of more than two submissions."""

    split: str
    rows: Sequence[LineupRow]  #: The models, best first.
    pairs: Mapping[str, Sequence[ComparedPair]]  #: All pairs of rows, by task and for the suite's total.
    examples: Mapping[str, int]  #: The number of compared examples, by task.
    of: Mapping[str, int]  #: The number of examples in the split, by task, if only some were answered.
    digits: Mapping[str, int]  #: The number of decimals to print, by task.
    not_compared: Mapping[str, str]  #: Tasks that were left out, and the reason for each.
    seed: int
    suite: str


class SuiteFields(Part, frozen=True):
    """The suite that results are reported for."""

    name: str
    title: str
    tasks: Sequence[str]
    total: str  #: How the scores are combined: sum, mean or none.
    total_name: str


class ResultsDocument(Document, tag="decabench.results/1", frozen=True):
    """The content of a results file."""

    decabench: str  #: The version of decabench that computed the scores.
    submission: Mapping[str, Any]  #: The content of submission.toml.
    split: Literal["validation", "test"]
    interval: tuple[float, float] | None  #: The total's 95% interval; null unless all tasks are scored.
    tasks: Mapping[str, TaskResult]
    total: SuiteTotal  #: The suite's total over the scored tasks.
    decascore: float | None = None  #: The total of the decathlon; null unless all ten tasks are scored.
    suite: SuiteFields | None = None  #: The suite, unless it is the decathlon.
    #: Whether extracted answers or the model's whole outputs were scored.
    answers: Literal["extracted", "raw"] = "extracted"


class ConfusionCount(Part, frozen=True):
    """How often a class was predicted for a given gold class."""

    gold: str
    predicted: str  #: The predicted class; empty if there was no answer.
    count: int


class EvaluationDocument(Document, tag="decabench.evaluation/1", frozen=True):
    """The scores that `evaluate` computed."""

    results: ResultsDocument  #: The content of the results file.
    path: str  #: The results file.
    missing: Sequence[str]  #: Tasks in the suite or in --tasks that have no answers.
    remarks: Sequence[str]  #: Remarks on the scores, one sentence each.
    #: With --confusion, the pairs of gold and predicted class for each task with labels or tags, most frequent first.
    confusions: Mapping[str, Sequence[ConfusionCount]] | None = None


class BoardDocument(Document, tag="decabench.leaderboard/1", frozen=True):
    """The board that `leaderboard` wrote."""

    index: str  #: The URI of the first page.
    kinds: Mapping[str, int]  #: The number of rows of each kind: verified, reported, partial or failed.
    refused: Sequence[Refusal]  #: Submissions and results files that were left off the board.
    failed: Sequence[Refusal]  #: Submissions on the board without any score, because all their tasks failed.


class ReviewDocument(Document, tag="decabench.review/1", frozen=True):
    """The outcome of `review request` or `review queue`."""

    problems: Sequence[Problem]  #: Problems with the request itself.
    reviews: Sequence[Review]  #: A review for each submission.


class MetricFields(Part, frozen=True):
    """A metric."""

    definition: str
    range: tuple[float, float | None]  #: The lowest and the highest score; null if there is no highest.
    higher_is_better: bool
    headline: str  #: The name of the metric's main score.
    signature: str  #: All settings that affect a score.
    source: str  #: The scorers that the metric reproduces.


class SelftestCase(Part, frozen=True):
    """An expected score, and the score that this installation computes."""

    name: str
    scorer: str  #: The scorer that the expected score comes from.
    score: str  #: The name of the score.
    expected: float
    got: float
    passed: bool


class SelftestDocument(Document, tag="decabench.selftest/1", frozen=True):
    """The results of `metrics selftest`."""

    cases: Sequence[SelftestCase]
    failed: int  #: The number of cases in which the scores differ.


class PredictionDocument(Document, tag="decabench.prediction/1", frozen=True):
    """The answers that `predict` wrote."""

    submission: str  #: The submission's folder.
    name: str
    split: str
    tasks: Sequence[Tally]
    failed: int  #: The number of examples without an answer.
    remarks: Sequence[str]  #: Warnings about the answers, one sentence each.


class EstimateDocument(Document, tag="decabench.estimate/1", frozen=True):
    """The estimate that `predict --dry-run` made."""

    tasks: Sequence[Estimate]


class ShownPrompt(Part, frozen=True):
    """The prompt of an example."""

    task: str  #: The task, with its variant.
    id: str
    text: str


class PromptDocument(Document, tag="decabench.prompt/1", frozen=True):
    """The prompts that `predict --show-prompt` shows, one for each wording."""

    prompts: Sequence[ShownPrompt]


class PreparedSplit(Part, frozen=True):
    """A prepared split."""

    rows: int
    fingerprint: str  #: The `sha256:…` digest of the examples, in order.
    origin: str  #: upstream, mirror, sample or user.
    source: str  #: The name of the source that the split was read from.
    verified: bool  #: Whether the digest of every file matches the published digest.
    note: str  #: A remark to show with scores on this split.


class PreparedTask(Part, frozen=True):
    """The outcome of `prepare` for a task."""

    task: str
    state: Literal["was ready", "prepared", "partly", "failed"]
    splits: Mapping[str, PreparedSplit]
    missing: Sequence[str]  #: Requested splits that are not prepared.
    altered: Sequence[str]  #: Splits that had been changed or deleted. Those in `splits` were prepared again.
    error: str  #: The reason for a failure; empty if there was none.


class PreparationDocument(Document, tag="decabench.preparation/1", frozen=True):
    """The outcome of `prepare`."""

    home: str  #: The folder with the prepared data.
    tasks: Sequence[PreparedTask]
    skipped: Sequence[str]  #: Tasks without a public split of the requested name.
    ids: str | None  #: The path of the id list, if --export-ids wrote one.


class OutcomeDocument(Document, tag="decabench.outcome/1", frozen=True):
    """The scores and comparisons that `run` computed."""

    submission: str  #: The submission's folder.
    results: ResultsDocument
    comparisons: Mapping[str, ComparisonDocument]  #: Comparisons by baseline. The model is B in each of them.
    not_compared: Mapping[str, str]  #: Baselines without a comparison, and the reason for each.
    faults: bool  #: Whether the submission has faults.
    failed: int  #: The number of examples without an answer.


class ForecastDocument(Document, tag="decabench.forecast/1", frozen=True):
    """The plan that `run --dry-run` made."""

    to_prepare: Mapping[str, Sequence[str]]  #: The splits that would be prepared, by task.
    tasks: Sequence[Estimate]  #: An estimate for each task; empty if data is missing.


class AnswerFields(Part, frozen=True, omit_defaults=True):
    """An answer and its score."""

    prediction: str | None  #: The text that was scored.
    score: float | None  #: The answer's score; null if the metric does not score single examples.
    right: bool | None  #: Whether the answer is right; null if unknown.
    raw: str = ""  #: The model's text, if it differs from the answer.
    reasoning: str = ""  #: The model's reasoning, if it was returned separately from the text.
    flags: Sequence[str] = ()  #: Properties of the answer: empty, cut, refused and so on.


class CourseFields(Part, frozen=True):
    """The state of a dialogue after a turn."""

    before: Sequence[str]  #: The contexts of the earlier turns, in order.
    predicted: str  #: The state according to the answers.
    gold: str
    #: The answer that made the states differ, and its turn; `here` for this turn, or empty if the states are equal.
    parted: str


class ShownExample(Part, frozen=True, omit_defaults=True):
    """An example that `show` printed, with its answer."""

    id: str
    question: str
    context: str
    references: Sequence[str]
    prediction: str | None  #: The text that was scored.
    score: float | None  #: The answer's score; null if the metric does not score single examples.
    right: bool | None  #: Whether the answer is right; null if unknown.
    raw: str = ""  #: The model's text, if it differs from the answer.
    reasoning: str = ""  #: The model's reasoning, if it was returned separately from the text.
    flags: Sequence[str] = ()  #: Properties of the answer: empty, cut, refused and so on.
    course: CourseFields | None = None  #: The state after this turn, if the metric compares states.
    wordings: Mapping[str, AnswerFields] | None = None  #: The answers to other wordings, by variant number.
    against: AnswerFields | None = None  #: The other submission's answer, if --against was used.


class OtherSubmission(Part, frozen=True):
    """The submission given with --against."""

    submission: str
    score: float | None  #: The submission's score on the task.


class BrowsedDocument(Document, tag="decabench.shown/1", kw_only=True, frozen=True, omit_defaults=True):
    """The examples that `show` found."""

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
    #: Brier score, log loss, calibration error and bins of probabilities.
    calibration: Mapping[str, Any] | None = None
    shown: Sequence[ShownExample]  #: The first matching examples, up to --limit.
    against: OtherSubmission | None = None


class PageDocument(Document, tag="decabench.page/1", frozen=True):
    """The page that `show --output` or `show --open` wrote."""

    page: str  #: The URI of the page.


class SuiteHead(Part, frozen=True):
    """The fields that `SuiteDescription` and `SuiteDocument` share."""

    title: str
    description: str
    total: str  #: How the task scores are combined: sum, mean or none.
    total_name: str
    source: str  #: The paper that the published scores come from.
    source_url: str
    notes: Sequence[str]  #: Remarks on the published rows.
    origin: str  #: `decabench` for a suite that comes with decabench, otherwise `user`.


class SuiteDescription(SuiteHead, frozen=True):
    """A suite, as listed by `suites`."""

    tasks: Sequence[str]
    prepared: Sequence[str]  #: The tasks with prepared data.


class SuiteTask(Part, frozen=True):
    """A task of a suite."""

    metric: str
    prepared: bool  #: Whether any of the task's splits is prepared.


class SuiteDocument(SuiteHead, frozen=True):
    """A suite, as shown by `suites show`."""

    tasks: Mapping[str, SuiteTask]
    published: Sequence[PublishedRow]


class TaskDescription(Part, frozen=True):
    """A task, as listed by `tasks`."""

    name: str
    dataset: str
    metric: str
    counts: Mapping[str, int]  #: The published number of examples in each split.
    hidden: Sequence[str]  #: Splits whose labels are not public.
    licence: str
    origin: str  #: `decabench` for a task that comes with decabench, otherwise `user`.
    state: Literal["prepared", "not prepared", "damaged"]
    prepared: Mapping[str, PreparedSplit]


class TasksDocument(Document, tag="decabench.tasks/1", frozen=True):
    """All known tasks."""

    home: str  #: The folder with the prepared data.
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
    facts: Mapping[str, str]  #: Title, output, metric, units, license, citation, sources, notes.
    examples: Sequence[ExampleFields]  #: The first examples of the split; empty if it is not prepared.


class OverlapFields(Part, frozen=True):
    """The overlap of a task's split with data of the same task or another task."""

    task: str
    split: str
    in_: str = field(name="in")  #: The task whose data was searched.
    examples: int  #: The number of examples in the split.
    exact: int  #: The number of examples whose exact text was found.
    normalised: int  #: The number of examples whose text was found, ignoring case, spaces and punctuation.


class OverlapDocument(Document, tag="decabench.overlap/1", frozen=True):
    """The texts that `tasks overlap` found in other data."""

    compare: str  #: The part that was compared: context or example.
    against: Sequence[str]  #: The splits that were searched.
    normalisation: str  #: How texts are normalized.
    not_prepared: Sequence[str]  #: Tasks that were left out because they are not prepared.
    overlap: Sequence[OverlapFields]


class ProofDocument(Document, tag="decabench.proof/1", frozen=True):
    """The outcome of `tasks validate`."""

    task: str
    split: str
    checks: Sequence[ProofStep]
    failed: int  #: The number of checks that failed.


class TrainingDocument(Document, tag="decabench.training/1", frozen=True):
    """The model that `train` trained."""

    output: str  #: The run's folder.
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
    unanswered: Sequence[str] = ()  #: Tasks in the file for which the submission has no answers.
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
    #: The part of the context that the model saw, as character offsets [start, end).
    context_kept: tuple[int, int] | None = None
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
"""The type of document that each command prints. Any command may print an `ErrorDocument` instead."""
