"""Score one task: read and check an answer file, and apply metrics to it on the prepared data."""

from __future__ import annotations

import gc
import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import decabench
from decabench.errors import DataError, MetricError, SubmissionError, UnknownNameError, require_name
from decabench.files import canonical_json, file_digest, require_machine
from decabench.metrics import (
    METRICS,
    REFUSED,
    Item,
    Metric,
    Reference,
    Row,
    count_faults,
    score_rows,
)
from decabench.plugins import load_entry_point, load_object, plugin_names
from decabench.prompts import is_other_label
from decabench.scoring.answer_details import calibrate, context_ceiling, describe_samples, vote
from decabench.scoring.examples import label_questions, line_flags
from decabench.scoring.results import (
    DataUsed,
    LimitedRun,
    SampleScores,
    TaskResult,
    VariantScores,
    hidden_decimals,
)
from decabench.scoring.significance import Sample, describe_units
from decabench.submission import (
    AlignedAnswers,
    AnswerKind,
    AnswerReader,
    Marks,
    PredictionFile,
    Submission,
    texts_digest,
)
from decabench.tasks import (
    METRIC_GROUP,
    Label,
    References,
    SplitRecord,
    Store,
    Tags,
    Task,
    Tree,
    number_units,
    unquoted,
)
from decabench.workers import process_pool

Example = TypeVar("Example", bound=Reference)
Value = TypeVar("Value")


class Deferred(Sequence[Value]):
    """A sequence that is read on first use."""

    def __init__(self, read: Callable[[], Sequence[Value]]) -> None:
        self.read = cache(read)

    def __getitem__(self, index: Any) -> Any:
        return self.read()[index]

    def __len__(self) -> int:
        return len(self.read())

    def __iter__(self) -> Iterator[Value]:
        return iter(self.read())


@dataclass(frozen=True)
class Job:
    """An answer file to score, with everything that affects the result except the code."""

    task: Task
    """The task."""
    data: SplitRecord
    """The record of the prepared split."""
    split: str
    """The split."""
    files: Mapping[str, str]
    """The SHA-256 of each answer file, by path in the submission."""
    marks: Sequence[Marks]
    """The entries in submission.toml about missing answers, by wording, starting with the dataset's own."""
    answers: AnswerKind
    """Whether to score the extracted answers or the model's raw output."""
    file: PredictionFile
    """The answer file for the dataset's own wording."""
    traces: Sequence[tuple[int, ...]]
    """Values that change whenever one of the files is written or replaced."""
    store: Store
    """The prepared data."""
    submission: Submission
    """The open submission."""

    @classmethod
    def of(
        cls, task: Task, file: PredictionFile, store: Store, submission: Submission, answers: AnswerKind
    ) -> Job:
        """Return a job with everything that affects the result.

        Raises SubmissionError if an answer file is removed while this runs.
        """
        files = submission.files_of(task.name, file.split)
        others = (number for number, each in submission.variants.items() if (task.name, file.split) in each)
        marks = [submission.info.marks(task.name, file.split, number) for number in (0, *others)]
        try:
            traces = _traces(files.values())
            digests = _digests(files)
        except FileNotFoundError:
            raise _changed_error(task.name) from None
        data = store.record(
            task.name, file.split
        )  # read before the references, to detect changes to the data
        return cls(task, data, file.split, digests, marks, answers, file, traces, store, submission)

    def require_same(self, submission: Submission) -> None:
        """Raise SubmissionError if a submission's files have changed since this job was made."""
        try:
            found = _digests(submission.files_of(self.task.name, self.split))
        except FileNotFoundError:
            found = {}
        if found != self.files:
            raise _changed_error(self.task.name)

    @property
    def hidden(self) -> bool:
        """Whether the labels are hidden."""
        return bool(self.data.salt)

    @cached_property
    def key(self) -> str:
        """The result's name in the ledger, or an empty string if third-party code of unknown version affects it."""
        task, data = self.task, self.data
        metrics = task.metrics
        if not METRICS.keys() >= {*metrics} or not type(task.output).__module__.startswith("decabench."):
            return ""
        content = [
            *(code_digest(), sys.version, task.name, self.split, self.answers),
            *(sorted(self.files.items()), [[marks.partial, marks.incomplete] for marks in self.marks]),
            *(
                data.fingerprint,
                data.units_digest,
                data.salt,
                data.origin,
                data.verified,
                data.rows,
                data.note,
            ),
            {name: METRICS[name].full_signature for name in metrics},
            *(list(metrics), repr(task.output), list(task.unit_names), task.counts.get(self.split)),
            *(task.extractive, [variant.retired for variant in task.variants], _own_code(task)),
        ]
        return hashlib.sha256(canonical_json(content).encode("utf-8", "surrogatepass")).hexdigest()[:40]

    @cached_property
    def references(self) -> References:
        """The references of the whole split, which all jobs of this process share."""
        name, split = self.task.name, self.split
        self.store.require_content(name, split)
        return _read_references(
            self.store.home, name, split, self.data.check_digest(self.store.path(name, split))
        )

    def score(
        self,
        metrics: Sequence[str],
        aligned: AlignedAnswers,
        references: Sequence[Item],
        pool: Executor | None,
    ) -> TaskScores:
        """Score answers. If the labels are hidden, errors don't quote them and scores are rounded."""
        texts = aligned.texts(self.answers)
        refused = aligned.refused if self.answers == "extracted" else ()
        if not self.hidden:
            return score_task(metrics, texts, references, pool, refused)
        span = find_metric(self.task.metric).range
        name, split = self.task.name, self.split
        instead = MetricError(
            f"{self.task.metric} can't score the {split} split, whose labels are hidden. To see why, run decabench "
            f"tasks validate {name} --split {split} --hidden, but only if no one else can read the output."
        )
        with unquoted(True, instead):
            found = score_task(metrics, texts, references, pool, refused)
        cut = {name: round(score, hidden_decimals(span, score)) for name, score in found.scores.items()}
        return replace(found, scores=cut)

    def read(self, file: PredictionFile) -> AlignedAnswers:
        """Read an answer file. Raises _FaultyFileError if it has faults."""
        marks, ids = self.submission.info.marks(file.task, file.split, file.variant), ids_of(self.references)
        if marks == Marks() and (plain := AlignedAnswers.read_plain(file.path, ids)):
            return plain
        reader = AnswerReader(file, ids, marks)
        aligned = AlignedAnswers.read(reader, ids)
        if reader.fault_count:
            raise _FaultyFileError(reader.reason, reader.fault_count)
        return aligned


@lru_cache(maxsize=32)
def _read_references(home: Path, task: str, split: str, digest: str) -> References:
    """Read the references of a split. `digest` is part of the cache key, so that changed data is read again."""
    return Store(home).references(task, split)


def _own_code(task: Task) -> list[str]:
    modules = {getattr(source.read, "__module__", "") for source in task.sources}
    own = [sys.modules.get(name) for name in sorted(modules) if not name.startswith("decabench.")]
    return [file_digest(Path(module.__file__)) for module in own if module and module.__file__]


_CODE = ("metrics", "prompts", "scoring", "submission", "tasks")
"""The packages whose code affects results, in addition to the top-level modules."""


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return a digest of all code that affects results. Any change to the code invalidates the ledger."""
    digest = hashlib.sha256()
    for path in sorted(_code_files(Path(decabench.__file__).parent)):
        digest.update(f"{path.name}\n{file_digest(path)}\n".encode())
    return digest.hexdigest()


def _code_files(package: Path) -> Iterator[Path]:
    yield from package.glob("*.py")
    for room in _CODE:
        for path in (package / room).resolve().rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and "sample" not in path.parts:
                yield path


def _changed_error(task: str) -> SubmissionError:
    return SubmissionError(
        f"The answers for {task} changed while they were being scored. Evaluate again when no process is writing to "
        "the submission."
    )


def _digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each file by its path in the submission.

    A file that can't be read is left out, because reading its answers will report the fault. Raises FileNotFoundError
    if a file is missing.
    """
    found = {}
    for name, path in files.items():
        try:
            found[name] = _file_digest(path, *_trace(path))
        except FileNotFoundError:
            raise
        except OSError as error:
            require_machine(error, path)
    return found


def _traces(files: Iterable[Path]) -> list[tuple[int, ...]]:
    """Return values that change whenever a file is written or replaced, even if its content stays the same."""
    return [_trace(path) for path in files]


def _trace(path: Path) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@lru_cache(maxsize=10_000)
def _file_digest(path: Path, *trace: int) -> str:
    """Return a file's SHA-256. `trace` is part of the cache key, so a changed file is read again."""
    return file_digest(path)


class _FaultyFileError(SubmissionError):
    def __init__(self, reason: str, faults: int) -> None:
        super().__init__(reason)
        self.faults = faults


@dataclass(frozen=True)
class ScoredTask:
    """A scored task of a submission, with the data behind its score."""

    result: TaskResult
    """The task's entry in the results."""
    references: Sequence[Item]
    """The references of the scored examples, in the order of the data."""
    predictions: Sequence[str] = ()
    """The answer to each example; empty if the task failed."""
    sample: Sample | None = None
    """The statistics by sampled unit; None if the task failed."""
    rows: Any = ()
    """(examples, columns): the statistics of each example."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each answer file, including files for other wordings, by path in the submission."""
    variant_rows: Mapping[int, Any] = field(default_factory=dict)
    """The statistics of each example for other wordings, by wording number."""
    aligned: Callable[[], Mapping[int, AlignedAnswers]] = dict
    """A function that returns the answers as they were read, by wording number."""
    units: Any = None
    """(examples, levels): the numbers of each example's units; None if the task failed."""
    hidden: bool = False
    """Whether the labels are hidden, so that nothing about single examples can be written or shown."""
    key: str = ""
    """The name of the entry in the ledger; empty if there is no entry."""


def score_job(job: Job, pool: Executor | None) -> ScoredTask:
    """Score an answer file.

    Raises SubmissionError if the answers change while they are scored, DataError if the data changes.
    """
    name, files = job.task.name, job.submission.files_of(job.task.name, job.split)
    try:
        found = replace(_score_file(job, pool), files=job.files, key=job.key)
        changed = _traces(files.values()) != job.traces
    except FileNotFoundError:
        changed = True
    if changed:
        raise _changed_error(name)
    if job.store.record(name, job.split) != job.data:
        raise DataError(f"The data for {name} was prepared again during scoring. Evaluate again.")
    return found


def _score_file(job: Job, pool: Executor | None) -> ScoredTask:
    task, metric = job.task, find_metric(job.task.metric)
    record, published = job.data, task.counts.get(job.split)
    data = DataUsed(record.fingerprint, record.origin, record.verified, record.rows, published, record.note)
    result = TaskResult("failed", task.metric, metric.headline, data)
    limits = job.submission.info.partial.get(f"{task.name}.{job.split}")
    try:
        if limits and job.hidden:
            raise _FaultyFileError(
                "its labels are hidden, and the score of a limited run would reveal some of them; answer all examples",
                1,
            )
        aligned = job.read(job.file)
        references = select(job.references, aligned.places)  # limited runs answer only some examples
        texts = aligned.texts(job.answers)
        found = job.score(task.metrics, aligned, references, pool)
        samples = None
        if (
            not job.hidden
            and job.answers == "extracted"
            and any(each.samples for each in aligned.details.values())
        ):
            found, samples = _score_samples(task, aligned.series, found, references, pool)
    except (_FaultyFileError, MetricError) as error:  # a metric may be unable to score the gold answers
        faults = error.faults if isinstance(error, _FaultyFileError) else 1
        return ScoredTask(replace(result, reason=str(error), faults=faults), job.references)
    ids = ids_of(references)
    details = aligned.details.values()
    counts = _count_other_forms(job, ids, texts)
    named = set[str]()  # unparseable and refused answers, which aren't counted as empty too
    for line in details:
        counts.update(flags := line_flags(line))
        if "unparseable" in flags or "refused" in flags:
            named.add(str(line.id))
    context_kept = {str(line.id): line.context_kept for line in details if line.context_kept is not None}
    ceiling = None
    if context_kept and task.extractive and not job.hidden:  # a ceiling would reveal where answers are
        contexts = job.store.read(task.name, job.split, ("id", "context"))
        ceiling = context_ceiling(context_kept, references, contexts)
    score = found.scores[found.headline]
    units = unit_numbers(references)
    sample = Sample.of_levels(metric.for_data(references), found.rows, units, task.name)
    variants, variant_rows, reworded = _score_variants(job, aligned, references, score, pool)
    result = replace(
        result,
        status="partial" if limits else "scored",
        n=len(references),
        score=score,
        scores=found.scores,
        signature=found.signatures[task.metric],
        signatures=found.signatures,
        empty=sum(not text.strip() and id_ not in named for id_, text in zip(ids, texts, strict=True)),
        predictions=texts_digest(ids, texts),
        answers=dict(+counts),  # without zeros
        ceiling=ceiling,
        samples=samples,
        calibration=calibrate(aligned.details, references) if aligned.details and not job.hidden else None,
        partial=LimitedRun(**limits) if limits else None,
        variants=variants,
        units=describe_units(sample, task.unit_names),
    )
    return ScoredTask(
        result,
        references,
        texts,
        sample,
        found.rows,
        variant_rows=variant_rows,
        aligned=lambda: {0: aligned, **reworded},
        units=units,
        hidden=job.hidden,
    )


def _score_samples(
    task: Task,
    series: Sequence[Sequence[str]],
    found: TaskScores,
    references: Sequence[Item],
    pool: Executor | None,
) -> tuple[TaskScores, SampleScores | None]:
    if len(series) < 2:  # at least one line has no samples
        return found, None
    import numpy as np

    def score(metrics: Sequence[str], texts: Sequence[str]) -> TaskScores:
        refused = [place for place, text in enumerate(texts) if text == REFUSED]
        plain = ["" if text == REFUSED else text for text in texts]
        return score_task(metrics, plain, references, pool, refused)

    metrics = task.metrics
    scored = [found, *(score(metrics, texts) for texts in series[1:])]
    # An example's row is the mean of its samples' rows, so intervals and tests resample examples.
    rows = {name: np.mean([each.statistics[name] for each in scored], axis=0) for name in found.statistics}
    voted = score((task.metric,), vote(series))
    headlines = [each.scores[each.headline] for each in scored]
    metric = find_metric(task.metric).for_data(references)
    described = describe_samples(
        metric, [each.rows for each in scored], headlines, voted.scores[voted.headline]
    )
    return TaskScores.of_rows(rows, references), described


def _score_variants(
    job: Job, first: AlignedAnswers, references: Sequence[Item], score: float, pool: Executor | None
) -> tuple[VariantScores | None, dict[int, Any], dict[int, AlignedAnswers]]:
    """Score the answers to other wordings, given the answers to the dataset's own wording and their score.

    Returns the scores (None if there are no other wordings), and the statistics and the answers by wording number.
    """
    scores, digests, failed = {"0": score}, {}, {}
    rows: dict[int, Any] = {}
    answers: dict[int, AlignedAnswers] = {}
    for number, files in job.submission.variants.items():
        file = files.get((job.task.name, job.split))
        if file is None:
            continue
        try:
            if number > len(job.task.variants):
                raise SubmissionError(
                    f"{job.task.name} has {len(job.task.variants)} variants, but the answers are for variant {number}."
                )
            aligned = job.read(file)
            if aligned.places != first.places:
                raise SubmissionError(f"{file.name} and {job.file.name} answer different examples.")
        except SubmissionError as error:
            failed[str(number)] = str(error)
            continue
        found = job.score((job.task.metric,), aligned, references, pool)
        scores[str(number)] = found.scores[found.headline]
        digests[str(number)] = texts_digest(ids_of(references), aligned.texts(job.answers))
        rows[number], answers[number] = found.rows, aligned
    if len(scores) == 1 and not failed:
        return None, rows, answers
    higher_is_better = find_metric(job.task.metric).higher_is_better
    summed = VariantScores.of(scores, higher_is_better, job.task.retired_variants)
    return replace(summed, predictions=digests, failed=failed), rows, answers


def _count_other_forms(job: Job, ids: Sequence[str], texts: Sequence[str]) -> Counter[str]:
    """Count answers that aren't labels, or malformed items of tags and trees; see `TaskResult.answers`.

    If labels are hidden, only the number of items in each gold answer is used, not the items themselves.
    """
    output = job.task.output
    counts = Counter[str]()
    if isinstance(output, Label):
        questions = label_questions(job.task, job.store, job.split)
        given = Counter((text, questions.get(id_, "")) for id_, text in zip(ids, texts, strict=True))
        counts["other_label"] = sum(
            count for (text, question), count in given.items() if is_other_label(text, output, question)
        )
    if isinstance(output, Tags | Tree):
        golds, known = {item.id: item.answers[0] for item in job.references}, texts
        if job.store.hides(job.task, job.split):
            golds = {id_: " ".join("?" for _ in gold.split()) for id_, gold in golds.items()}
        else:
            known = list(golds.values())
        tags = {tag for text in known for tag in text.lower().split()} if isinstance(output, Tags) else None
        kinds = ("missing_items", "extra_items", "unknown_items", "outside_heads")
        faults = [astuple(count_faults(text, golds[id_], tags)) for id_, text in zip(ids, texts, strict=True)]
        counts.update(dict(zip(kinds, map(sum, zip(*faults, strict=True)), strict=True)))
    return counts


def restricted(scored: ScoredTask, ids: Sequence[str], kept: Collection[str]) -> ScoredTask:
    """Return a scored task limited to the examples in `kept`, with only the scores of its main metric."""
    sample = scored.sample
    if len(kept) == len(ids) or sample is None:
        return scored
    places = [place for place, id_ in enumerate(ids) if id_ in kept]
    references = select(scored.references, places)
    predictions = [scored.predictions[place] for place in places]
    metric, rows = sample.metric, scored.rows[places]
    # Rows of dialogues are kept, because earlier turns affect them. Rows of corpus metrics depend on all examples.
    if metric.scope == "corpus":
        metric = find_metric(scored.result.metric).for_data(references)
        rows = _to_array(metric.statistics(predictions, references))
    units = unit_numbers(references)
    part = Sample.of_levels(metric, rows, units, sample.name)
    result = replace(
        scored.result,
        score=part.score,
        scores=score_rows(metric, rows).details,
        n=len(places),
        empty=sum(not text.strip() for text in predictions),
        partial=LimitedRun(len(places), scored.result.data.rows),
        units=None,
        calibration=None,
        samples=None,
        variants=None,
        ceiling=None,
    )
    return replace(
        scored,
        result=result,
        references=references,
        predictions=predictions,
        sample=part,
        rows=rows,
        units=units,
        variant_rows={},
        aligned=lambda: {0: scored.aligned()[0].only(places)},
    )


# Metrics

_CHUNK = 500
_WORTH_SECONDS = 8.0
"""Work that takes less than this number of seconds is not divided among processes, which take a second to start."""
_WORTH_A_PROCESS = 2_000
"""If there are fewer examples than this, over all tasks, no processes are started."""


@dataclass(frozen=True)
class TaskScores:
    """All scores of one task."""

    headline: str
    """The name of the task's main score."""
    scores: Mapping[str, float]
    """All scores by name, 0–100 unless the metric has another range."""
    signatures: Mapping[str, str]
    """The signatures by metric name."""
    statistics: Mapping[str, Any]
    """The statistics by metric name, (examples, columns), starting with the main metric."""

    @property
    def rows(self) -> Any:
        """The statistics of the main metric."""
        return next(iter(self.statistics.values()))

    @classmethod
    def of_rows(cls, statistics: Mapping[str, Any], references: Sequence[Reference]) -> TaskScores:
        """Compute scores from each metric's rows. If metrics share the name of a score, the first metric is used."""
        metrics = {name: find_metric(name).for_data(references) for name in statistics}
        scores: dict[str, float] = {}
        for name, rows in statistics.items():
            scores = {**score_rows(metrics[name], rows).details, **scores}
        signatures = {name: metric.full_signature for name, metric in metrics.items()}
        return cls(next(iter(metrics.values())).headline, scores, signatures, statistics)


def find_metric(name: str) -> Metric:
    """Return a built-in metric, a metric from an installed package, or the metric at `package.module:object`.

    Raises UnknownNameError if it can't be found.
    """
    if name in METRICS:
        return METRICS[name]
    if ":" in name:
        metric = load_object(name)
    else:
        points = plugin_names(METRIC_GROUP)
        metric = load_entry_point(points[require_name(name, (*METRICS, *points), "metric")])
    if not isinstance(metric, Metric):
        raise UnknownNameError(
            f"{name!r} refers to {metric!r:.100}, which is not a decabench.metrics.Metric."
        )
    return metric


def score_task(
    metrics: Sequence[str],
    predictions: Sequence[str],
    references: Sequence[Reference],
    pool: Executor | None,
    refused: Sequence[int] = (),
) -> TaskScores:
    """Score answers with the first metric, which is the main metric, and add the scores of the other metrics.

    `refused` contains the positions of refused answers, which are wrong even if an empty answer would be right.
    """
    statistics: dict[str, Any] = {}
    known: set[str] = set()
    for name in metrics:
        metric = find_metric(name).for_data(references)
        if metric.headline in known:
            continue  # em, nem and nf1 share their rows
        texts = predictions
        if refused and metric.empty_may_be_right:
            texts = list(predictions)
            for at in refused:
                texts[at] = REFUSED
        statistics[name] = rows = _compute_rows(name, metric, texts, references, pool)
        known |= score_rows(metric, rows[:1]).details.keys()
    return TaskScores.of_rows(statistics, references)


def _compute_rows(
    name: str,
    metric: Metric,
    predictions: Sequence[str],
    references: Sequence[Reference],
    pool: Executor | None,
) -> Any:
    import numpy as np

    if metric.scope != "example":
        return _to_array(metric.statistics(predictions, references))
    if pool is None:
        if name in METRICS and isinstance(references, References) and len(references) <= _MOST_KNOWN:
            return _to_array(_compute_new_rows(metric, predictions, references))
        return np.concatenate([*_parts_of_rows(metric, predictions, references)])
    begun = time.process_time()
    rows = list(metric.statistics(predictions[:_CHUNK], references[:_CHUNK]))
    left = max(len(references) - _CHUNK, 0)
    if (time.process_time() - begun) / _CHUNK * left < _WORTH_SECONDS:
        rest = _parts_of_rows(metric, predictions[_CHUNK:], references[_CHUNK:])
        return np.concatenate([_to_array(rows), *rest])
    starts = range(_CHUNK, len(references), _CHUNK)
    parts = pool.map(
        _statistics,
        [name] * len(starts),
        [list(predictions[start : start + _CHUNK]) for start in starts],
        [list(references[start : start + _CHUNK]) for start in starts],
    )
    return _to_array(rows + [row for part in parts for row in part])


_MOST_KNOWN = 50_000
"""The maximum number of rows to keep in memory for a split."""

_known_rows: WeakKeyDictionary[References, dict[Any, dict[tuple[int, str], Row]]] = WeakKeyDictionary()
"""The rows that were computed for a split's references, by metric function and by (position, answer)."""


def _compute_new_rows(metric: Metric, predictions: Sequence[str], references: References) -> Sequence[Row]:
    """Compute rows, reusing rows that were computed for another system with the same answer to the same example."""
    known = _known_rows.setdefault(references, {}).setdefault(metric.statistics, {})
    keys, items = list(enumerate(predictions)), list(references)
    new = [key for key in keys if key not in known]
    found = metric.statistics([text for _, text in new], [items[place] for place, _ in new])
    made = dict(zip(new, found, strict=True))
    rows = [made[key] if key in made else known[key] for key in keys]
    if len(known) + len(made) <= _MOST_KNOWN:
        known |= made
    return rows


_PART = 10_000
"""The number of examples to score before converting rows to an array. Tuples take four times as much memory."""


def _parts_of_rows(
    metric: Metric, predictions: Sequence[str], references: Sequence[Reference]
) -> Iterator[Any]:
    items = iter(references)
    for start in range(0, len(predictions), _PART):
        part = predictions[start : start + _PART]
        yield _to_array(metric.statistics(part, list(islice(items, len(part)))))


def _to_array(rows: Sequence[Row]) -> Any:
    import numpy as np

    return np.asarray(rows, dtype=float)


def _statistics(name: str, predictions: list[str], references: list[Reference]) -> Sequence[Row]:
    return find_metric(name).statistics(predictions, references)


@contextmanager
def worker_pool(jobs: int, examples: int) -> Iterator[Executor | None]:
    """Provide a pool of processes, or None if there are too few jobs or examples."""
    if jobs < 2 or examples < _WORTH_A_PROCESS:
        yield None
        return
    with process_pool(jobs) as pool:
        yield pool


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, which would repeatedly scan all examples without finding any garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def ids_of(references: Sequence[Item]) -> list[str]:
    """Return the ids of references. If references are stored in columns, no items are created."""
    while isinstance(references, Deferred):
        references = references.read()
    return references.ids if isinstance(references, References) else [item.id for item in references]


def unit_numbers(references: Sequence[Item]) -> Any:
    """Return the numbers of the units that each reference belongs to, (examples, levels)."""
    if isinstance(references, References):
        return references.unit_numbers()
    return number_units([item.units for item in references])


def select(references: Sequence[Example], places: Sequence[int]) -> Sequence[Example]:
    """Return the references at the given positions, in order."""
    if len(places) == len(references):
        return references
    wanted = set(places)
    return [item for at, item in enumerate(references) if at in wanted]
