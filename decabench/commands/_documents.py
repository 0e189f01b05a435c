"""What `--json` prints: a document for each command, described in docs/json.md and docs/schemas/output/.

Fields may be added, but never renamed, removed or given another meaning: that would be a new format. A field with a
default may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from decabench.commands._formats import (
    BrowsedDocument,
    CheckDocument,
    ComparisonDocument,
    MetricFields,
    OutcomeDocument,
    OverlapDocument,
    ResultsDocument,
    SuiteDescription,
    SuiteDocument,
)
from decabench.scoring import Discrepancy, ProofStep, TaskCheck

__all__ = [
    "DOCUMENTS",
    "AnalysisDocument",
    "BoardDocument",
    "BundleDocument",
    "EstimateDocument",
    "EvaluationDocument",
    "ExportDocument",
    "ExportedResultsDocument",
    "ExportedTasksDocument",
    "ForecastDocument",
    "PageDocument",
    "PredictionDocument",
    "PreparationDocument",
    "PreparedTask",
    "PromptDocument",
    "ProofDocument",
    "SelftestDocument",
    "TaskDocument",
    "TasksDocument",
    "TrainingDocument",
    "VectorsDocument",
    "VerificationDocument",
    "VerifiedFile",
]


@dataclass(frozen=True, kw_only=True)
class AnalysisDocument:
    """What `analyze` wrote."""

    format: Literal["decabench.analysis/1"] = "decabench.analysis/1"
    analysis: str
    """The name of the analysis."""
    checkpoint: str
    """The checkpoint that was analyzed."""
    output: str
    """The folder of figures and numbers."""
    examples: Mapping[str, int]
    """The number of examples of each task."""
    lines: Sequence[str]
    """What the analysis says, line by line."""


@dataclass(frozen=True, kw_only=True)
class EvaluationDocument:
    """What `evaluate` scored and wrote."""

    format: Literal["decabench.evaluation/1"] = "decabench.evaluation/1"
    results: ResultsDocument | Mapping[str, Any]
    """The content of the results file: the new scores, and the earlier ones that still hold."""
    path: str
    """The results file."""
    scored: Sequence[str]
    """Tasks that were scored now."""
    missing: Sequence[str]
    """Tasks of the suite, or of --tasks, without answers."""
    kept: Sequence[str]
    """Tasks whose earlier results were kept."""
    again: Sequence[str]
    """Tasks that were scored again because no manifest bound their earlier results."""
    left_out: Sequence[str]
    """Earlier results that no longer hold, each with the reason."""
    remarks: Sequence[str]
    """What readers of the scores must know, a sentence each."""
    signature: str | None
    """The signature file, with --sign-with."""
    confusions: Mapping[str, Sequence[ConfusionCount]] | None = None
    """With --confusion: for each task of labels or tags, each pair of gold and predicted class, the most frequent
    first."""


@dataclass(frozen=True, kw_only=True)
class ConfusionCount:
    """How often a class was predicted for another, or for itself."""

    gold: str
    """The class of the reference."""
    predicted: str
    """The class that was predicted; empty for none."""
    count: int
    """How often."""


@dataclass(frozen=True, kw_only=True)
class ExportDocument:
    """What `export weights` wrote."""

    format: Literal["decabench.exported/1"] = "decabench.exported/1"
    path: str
    """The folder of the copy."""
    bytes: int
    """Its size."""
    words: int
    """The number of words with a vector in it."""
    shards: int
    """The number of files that hold the weights."""


@dataclass(frozen=True, kw_only=True)
class ExportedResultsDocument:
    """What `export results` wrote."""

    format: Literal["decabench.exported-results/1"] = "decabench.exported-results/1"
    form: str
    """The form of the text: markdown, latex or model-index."""
    path: str | None
    """The file that has it; null if none was asked for."""
    text: str
    """The table, or the model-index."""


@dataclass(frozen=True, kw_only=True)
class ExportedTasksDocument:
    """What `export tasks` wrote."""

    format: Literal["decabench.exported-tasks/1"] = "decabench.exported-tasks/1"
    harness: str
    """The harness that runs them: lm-eval or inspect."""
    path: str
    """The folder."""
    files: Sequence[str]
    """The files in it."""


@dataclass(frozen=True, kw_only=True)
class RefusedFile:
    """A results file that was left off a board."""

    path: str
    """Its path, relative to the submissions folder."""
    reason: str
    """What is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class BoardDocument:
    """What `leaderboard` wrote."""

    format: Literal["decabench.board/1"] = "decabench.board/1"
    index: str
    """The first page, as a URI."""
    kinds: Mapping[str, int]
    """The number of rows by evidence: verified, consistent, self-reported; those without scores: partial, failed."""
    refused: Sequence[RefusedFile]
    """Files that were left off, with the reasons."""
    too_deep: Sequence[str]
    """Folders whose results lie too deep, and were not read."""
    not_evaluated: Sequence[str]
    """Folders of submissions that have not been scored yet."""


@dataclass(frozen=True, kw_only=True)
class SelftestCase:
    """An expected score, and the score that this installation computes."""

    name: str
    """The case."""
    scorer: str
    """The scorer that the expected score comes from."""
    score: str
    """The name of the score."""
    expected: float
    """That scorer's value."""
    got: float
    """This installation's value."""
    passed: bool
    """Whether the two agree."""


@dataclass(frozen=True, kw_only=True)
class SelftestDocument:
    """What `metrics selftest` found."""

    format: Literal["decabench.selftest/1"] = "decabench.selftest/1"
    cases: Sequence[SelftestCase]
    """All cases."""
    failed: int
    """The number of those that differ."""


@dataclass(frozen=True, kw_only=True)
class AskedTask:
    """What a run answered of one task in one wording."""

    task: str
    """The task's name, and the variant unless it is the dataset's own wording."""
    total: int
    """Examples to answer."""
    resumed: int
    """Answers that were in the journal."""
    answered: int
    """Answers given in this run."""
    failed: int
    """Examples that failed in this run."""
    prompt_tokens: int
    """Tokens in the prompts, if counted."""
    completion_tokens: int
    """Tokens generated, if counted."""
    cut: int
    """Answers with a context that was cut to fit."""
    truncated: int
    """Answers that reached the limit of new tokens."""
    unparseable: int
    """Answers in which the extraction found nothing of the task's form."""
    refused: int
    """Answers that the model, or a filter of its server, declined to give."""
    empty: int
    """Empty answers that were not refused."""
    cut_reasoning: int
    """Empty answers that reached the limit of new tokens during reasoning."""
    only_reasoning: int
    """Empty answers that consist of reasoning alone."""
    served_by: list[str]
    """The models that answered, according to the server."""
    other_label: int
    """Answers that are none of the labels that the question offers."""
    other_label_example: str
    """A sentence about the first of them."""
    answer_format: str
    """A sentence about the format that most answers seem to be in, such as HTML; empty if they are plain."""
    template: int
    """Answers from which role headers or chat-template tokens were removed."""
    tool_calls: int
    """Answers that call a tool, and are therefore unparseable."""
    seconds: float
    """Wall time."""
    commonest_error: str
    """The most common error among the failures."""
    cost: float | None
    """The price of the tokens, if prices were given."""


@dataclass(frozen=True, kw_only=True)
class PredictionDocument:
    """What `predict` answered and wrote."""

    format: Literal["decabench.prediction/1"] = "decabench.prediction/1"
    submission: str
    """The submission's folder."""
    name: str
    """The submission's name."""
    split: str
    """The split."""
    tasks: Sequence[AskedTask]
    """What was answered, by task and wording."""
    failed: int
    """Examples without an answer."""
    remarks: Sequence[str]
    """What is missing from the submission, a sentence each."""


@dataclass(frozen=True, kw_only=True)
class EstimatedTask:
    """What a run would ask of one task."""

    task: str
    """The task's name, with its variant."""
    examples: int
    """Selected examples."""
    answered: int
    """Examples already answered in the journal."""
    prompt_tokens: int | None
    """Tokens in the prompts of the rest; null if there are no prompts."""
    completion_tokens: int | None
    """The maximum number of generated tokens; null if there is none."""
    is_counted: bool
    """Whether the model's tokenizer counted; otherwise a token is taken to be four characters."""
    seconds: float | None
    """Time at the speed of the last run in this folder; null if there was none."""
    cost: float | None
    """The most that it may cost, if prices were given."""


@dataclass(frozen=True, kw_only=True)
class EstimateDocument:
    """What `predict --dry-run` estimates."""

    format: Literal["decabench.estimate/1"] = "decabench.estimate/1"
    tasks: Sequence[EstimatedTask]
    """By task and wording."""


@dataclass(frozen=True, kw_only=True)
class ShownPrompt:
    """What would be sent for one example."""

    task: str
    """The task, with its variant."""
    id: str
    """The example's id."""
    text: str
    """The prompt, as --show-prompt prints it."""


@dataclass(frozen=True, kw_only=True)
class PromptDocument:
    """What `predict --show-prompt` shows."""

    format: Literal["decabench.prompt/1"] = "decabench.prompt/1"
    prompts: Sequence[ShownPrompt]
    """One for each wording."""


@dataclass(frozen=True, kw_only=True)
class PreparedSplit:
    """A prepared split."""

    rows: int
    """The number of examples."""
    fingerprint: str
    """`sha256:…` over the examples in order."""
    origin: str
    """upstream, mirror, sample or user."""
    source: str
    """The name of the source it was read from."""
    verified: bool
    """Whether every file has its published digest."""
    note: str
    """What readers of a score must know."""


@dataclass(frozen=True, kw_only=True)
class PreparedTask:
    """One task, as `prepare` left it."""

    task: str
    """Its name."""
    state: Literal["was ready", "prepared", "partly", "failed"]
    """What became of it."""
    splits: Mapping[str, PreparedSplit]
    """The splits that are prepared."""
    missing: Sequence[str]
    """The splits that were asked for and are not prepared."""
    altered: Sequence[str]
    """The splits that were changed or deleted since they were prepared: those in `splits` were prepared again."""
    error: str
    """Why it failed; empty if it did not."""


@dataclass(frozen=True, kw_only=True)
class PreparationDocument:
    """What `prepare` did."""

    format: Literal["decabench.preparation/1"] = "decabench.preparation/1"
    home: str
    """The folder of prepared data."""
    tasks: Sequence[PreparedTask]
    """The tasks that were asked for."""
    skipped: Sequence[str]
    """Tasks that have no such public split."""
    ids: str | None
    """The id list that was written, with --export-ids."""


@dataclass(frozen=True, kw_only=True)
class ForecastDocument:
    """What `run --dry-run` would do."""

    format: Literal["decabench.forecast/1"] = "decabench.forecast/1"
    to_prepare: Mapping[str, Sequence[str]]
    """Task to its splits that would be prepared."""
    tasks: Sequence[EstimatedTask]
    """What would be asked; empty as long as data is missing."""


@dataclass(frozen=True, kw_only=True)
class PageDocument:
    """What `show --output` wrote, or `--open` serves."""

    format: Literal["decabench.page/1"] = "decabench.page/1"
    page: str | None
    """The page as a URI; null if it is served only."""
    address: str | None
    """The address of the server, until Ctrl-C; null with --output alone."""


@dataclass(frozen=True, kw_only=True)
class TaskDescription:
    """A task, as `tasks` lists it."""

    name: str
    """Its name."""
    dataset: str
    """The dataset."""
    metric: str
    """Its metric."""
    counts: Mapping[str, int]
    """The published number of examples by split."""
    hidden: Sequence[str]
    """Splits whose labels are not public."""
    licence: str
    """The licence of the data."""
    origin: str
    """decabench, or user."""
    state: Literal["prepared", "not prepared", "outdated", "damaged"]
    """Whether it is prepared; outdated data is that of an earlier version."""
    prepared: Mapping[str, PreparedSplit]
    """The splits that are prepared."""


@dataclass(frozen=True, kw_only=True)
class TasksDocument:
    """What `tasks` lists."""

    format: Literal["decabench.tasks/1"] = "decabench.tasks/1"
    home: str
    """The folder of prepared data."""
    tasks: Sequence[TaskDescription]
    """All known tasks."""


@dataclass(frozen=True, kw_only=True)
class ExampleFields:
    """An example."""

    id: str
    """Its id."""
    question: str
    """The question."""
    context: str
    """The context."""
    answers: Sequence[str]
    """All references; none where labels are hidden."""


@dataclass(frozen=True, kw_only=True)
class TaskDocument:
    """What `tasks show` shows."""

    format: Literal["decabench.task/1"] = "decabench.task/1"
    task: TaskDescription
    """The task."""
    facts: Mapping[str, str]
    """What there is to know about it: title, output, metric, units, licence, citation, sources, notes."""
    examples: Sequence[ExampleFields]
    """The first examples of the split; none if it is not prepared."""


@dataclass(frozen=True, kw_only=True)
class ProofDocument:
    """What `tasks validate` checked."""

    format: Literal["decabench.proof/1"] = "decabench.proof/1"
    task: str
    """The task."""
    split: str
    """The split."""
    checks: Sequence[ProofStep]
    """All checks."""
    failed: int
    """The number of those that failed."""


@dataclass(frozen=True, kw_only=True)
class TrainingDocument:
    """What `train` made."""

    format: Literal["decabench.training/1"] = "decabench.training/1"
    output: str
    """The folder of the run."""
    step: int
    """The last step."""
    checkpoint: str
    """The best checkpoint, or the last one if nothing was validated."""
    best: float | None
    """The best score; null if there is none."""
    scores: Mapping[str, float]
    """The scores of the last validation, by task."""


@dataclass(frozen=True, kw_only=True)
class BundleDocument:
    """What `train --bundle` wrote."""

    format: Literal["decabench.bundling/1"] = "decabench.bundling/1"
    bundle: str
    """The folder."""
    bytes: int
    """Its size."""
    weights_bytes: int
    """What the weights will take in half precision."""
    code: str
    """The digest of the code in it, for --trust."""
    cut: Sequence[str]
    """What was cut to fit, a sentence each."""


@dataclass(frozen=True, kw_only=True)
class VectorsDocument:
    """What `vectors ngrams` and `vectors convert` wrote."""

    format: Literal["decabench.vectors/1"] = "decabench.vectors/1"
    paths: Sequence[str]
    """The files."""
    vectors: int
    """The number of vectors: of n-grams or of words."""
    dimension: int
    """Their dimension."""
    left_out: Sequence[str]
    """Words that a line of text cannot hold."""


@dataclass(frozen=True, kw_only=True)
class VerifiedFile:
    """What verification found about one results file."""

    path: str
    """The file."""
    ok: bool
    """Whether it is verified, and signed if that was asked for."""
    verdict: str
    """The result in one line, or why it could not be verified."""
    tasks: Mapping[str, TaskCheck]
    """By task."""
    other: Sequence[Discrepancy]
    """Differences that concern no single task."""
    lacking: Sequence[str]
    """Tasks that the submission answers, but the file has no result for."""
    signed_by: str | None
    """Who signed the manifest, with --signed-by."""


@dataclass(frozen=True, kw_only=True)
class VerificationDocument:
    """What `verify` found."""

    format: Literal["decabench.verification/1"] = "decabench.verification/1"
    files: Sequence[VerifiedFile]
    """The results files."""


DOCUMENTS: Mapping[str, Sequence[Any]] = {
    "analyze": [AnalysisDocument],
    "check": [CheckDocument],
    "compare": [ComparisonDocument],
    "evaluate": [EvaluationDocument],
    "export results": [ExportedResultsDocument],
    "export tasks": [ExportedTasksDocument],
    "export weights": [ExportDocument],
    "import": [CheckDocument],
    "leaderboard": [BoardDocument],
    "metrics": [Mapping[str, MetricFields]],
    "metrics selftest": [SelftestDocument],
    "metrics show": [MetricFields],
    "predict": [PredictionDocument, EstimateDocument, PromptDocument],
    "prepare": [PreparationDocument],
    "run": [OutcomeDocument, ForecastDocument],
    "show": [BrowsedDocument, PageDocument],
    "suites": [Mapping[str, SuiteDescription]],
    "suites show": [SuiteDocument],
    "tasks": [TasksDocument],
    "tasks overlap": [OverlapDocument],
    "tasks show": [TaskDocument],
    "tasks validate": [ProofDocument],
    "train": [TrainingDocument, BundleDocument],
    "vectors convert": [VectorsDocument],
    "vectors ngrams": [VectorsDocument],
    "verify": [VerificationDocument],
}
"""Command to the documents that it may print. Any of them may print an ErrorDocument instead."""
