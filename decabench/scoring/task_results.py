"""Score one task: read and check an answer file, and apply metrics to it on the prepared data."""

from __future__ import annotations

import gc
import hashlib
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import decabench
from decabench.errors import DataError, MetricError, SubmissionError, UnknownNameError, require_name
from decabench.files import cached_digest, canonical_json, file_digest, import_zstd, require_machine
from decabench.metrics import METRICS, REFUSED, Item, Metric, Reference, Row, fold_label, score_rows
from decabench.plugins import load_entry_point, load_object, plugin_names
from decabench.prompts import options as list_options
from decabench.scoring.answer_details import (
    calibrate,
    context_ceiling,
    count_item_faults,
    describe_samples,
    vote,
)
from decabench.scoring.examples import line_flags
from decabench.scoring.results import (
    DataUsed,
    LimitedRun,
    SampleScores,
    TaskResult,
    VariantScores,
    hidden_decimals,
)
from decabench.scoring.significance import Layout, Sample, describe_units
from decabench.submission import (
    AlignedAnswers,
    AnswerKind,
    AnswerLine,
    AnswerReader,
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

Array = NDArray[Any]

Example = TypeVar("Example", bound=Reference)


@dataclass(frozen=True)
class Job:
    """An answer file to score, with everything that affects the result except the code."""

    task: Task
    """The task."""
    file: PredictionFile
    """The answer file for the dataset's own wording."""
    store: Store
    """The prepared data."""
    submission: Submission
    """The open submission."""
    answers: AnswerKind
    """Whether to score the extracted answers or the model's raw output."""

    @cached_property
    def files(self) -> dict[str, str]:
        """The SHA-256 of each answer file, including other wordings, by path in the submission."""
        return _digests(self.submission, self.task.name, self.file.split)

    @cached_property
    def data(self) -> SplitRecord:
        """The record of the prepared split."""
        return self.store.record(self.task.name, self.file.split)

    def require_same(self, submission: Submission) -> None:
        """Raise SubmissionError if a submission's files have changed since this job first read them."""
        if _digests(submission, self.task.name, self.file.split) != self.files:
            raise _changed_error(self.task.name)

    @property
    def hidden(self) -> bool:
        """Whether the labels are hidden."""
        return bool(self.data.salt)

    @cached_property
    def key(self) -> str:
        """The result's name in the ledger, or an empty string if third-party code of unknown version affects it."""
        task, data, split = self.task, self.data, self.file.split
        metrics = (task.metric, *task.secondary)
        if not METRICS.keys() >= {*metrics} or not type(task.output).__module__.startswith("decabench."):
            return ""
        pair, info = (task.name, split), self.submission.info
        wordings = [0, *(number for number, files in self.submission.variants.items() if pair in files)]
        content = [
            *(code_digest(), sys.version, task.name, split, self.answers, sorted(self.files.items())),
            [vars(info.marks(*pair, number)) for number in wordings],
            *(
                data.fingerprint,
                data.units_digest,
                data.salt,
                data.origin,
                data.verified,
                data.rows,
                data.note,
            ),
            [[name, METRICS[name].full_signature] for name in metrics],
            *(repr(task.output), list(task.unit_names), task.counts.get(split)),
            *([variant.retired for variant in task.variants], _own_code(task)),
        ]
        return hashlib.sha256(canonical_json(content).encode("utf-8", "surrogatepass")).hexdigest()[:40]

    @cached_property
    def references(self) -> References:
        """The references of the whole split, which all jobs of this process share."""
        name, split = self.task.name, self.file.split
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
        name, split = self.task.name, self.file.split
        instead = MetricError(
            f"{self.task.metric} can't score the {split} split, whose labels are hidden. To see why, run decabench "
            f"tasks validate {name} --split {split} --hidden, but only if no one else can read the output."
        )
        with unquoted(True, instead):
            found = score_task(metrics, texts, references, pool, refused)
        span = find_metric(self.task.metric).range
        cut = {name: round(score, hidden_decimals(span, score)) for name, score in found.scores.items()}
        return replace(found, scores=cut)

    def read(self, file: PredictionFile) -> AlignedAnswers:
        """Read an answer file. Raises _FaultyFileError if it has faults."""
        marks, ids = self.submission.info.marks(file.task, file.split, file.variant), ids_of(self.references)
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
    readers = [getattr(source.read, "func", source.read) for source in task.sources]  # of a partial
    modules = {getattr(reader, "__module__", "") for reader in readers}
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


def _digests(submission: Submission, task: str, split: str) -> dict[str, str]:
    """Return the SHA-256 of each answer file of a split, by path in the submission.

    A file that can't be read is left out, because reading its answers will report the fault. Raises SubmissionError
    if a file is missing.
    """
    found = {}
    for name, path in submission.files_of(task, split).items():
        try:
            found[name] = cached_digest(path)
        except FileNotFoundError:
            raise _changed_error(task) from None
        except OSError as error:
            require_machine(error, path)
    return found


class _FaultyFileError(SubmissionError):
    def __init__(self, reason: str, faults: int) -> None:
        super().__init__(reason)
        self.faults = faults


@dataclass(frozen=True)
class ReadAnswers:
    """The scored answers of a task with their references, both in the order of the data."""

    references: Sequence[Item] = ()
    """The references of the scored examples."""
    predictions: Sequence[str] = ()
    """The answer to each example; empty if the task failed."""
    wordings: Mapping[int, AlignedAnswers] = field(default_factory=dict)
    """The answers as they were read, by wording number."""


@dataclass(frozen=True)
class ScoredTask:
    """A scored task of a submission, with the data behind its score."""

    task: Task
    """The task."""
    result: TaskResult
    """The task's entry in the results."""
    sample: Sample | None = None
    """The statistics by sampled unit; None if the task failed."""
    rows: Any = ()
    """(examples, columns): the statistics of each example."""
    units: Any = None
    """(examples, levels): the index of each example's unit on every level; None if the task failed."""
    read: Callable[[], ReadAnswers] = ReadAnswers
    """A function that returns the answers. If the result is from the ledger, its first call reads the files.
    """
    variant_rows: Mapping[int, Any] = field(default_factory=dict)
    """The statistics of each example for other wordings, by wording number."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each answer file, including files for other wordings, by path in the submission."""
    hidden: bool = False
    """Whether the labels are hidden. If so, nothing about individual examples may be written or shown."""
    key: str = ""
    """The name of the entry in the ledger; empty if there is no entry."""

    @property
    def references(self) -> Sequence[Item]:
        """The references of the scored examples, in the order of the data."""
        return self.read().references

    @property
    def predictions(self) -> Sequence[str]:
        """The answer to each example; empty if the task failed."""
        return self.read().predictions


def score_job(job: Job, pool: Executor | None) -> ScoredTask:
    """Score an answer file.

    Raises SubmissionError if the answers change during scoring, and DataError if the data changes.
    """
    files, data, name = job.files, job.data, job.task.name  # before answers and references are read
    found = _score_file(job, pool)
    job.require_same(job.submission)
    if job.store.record(name, job.file.split) != data:
        raise DataError(f"The data for {name} was prepared again during scoring. Evaluate again.")
    return replace(found, files=files, key=job.key)


def _score_file(job: Job, pool: Executor | None) -> ScoredTask:
    task, split, record = job.task, job.file.split, job.data
    metric, published = find_metric(task.metric), task.counts.get(split)
    data = DataUsed(record.fingerprint, record.origin, record.verified, record.rows, published, record.note)
    result = TaskResult("failed", task.metric, metric.headline, data)
    limits = job.submission.info.partial.get(f"{task.name}.{split}")
    samples = ceiling = None
    try:
        if limits and job.hidden:
            raise _FaultyFileError(
                "its labels are hidden, and the score of a limited run would reveal some of them; answer all examples",
                1,
            )
        aligned = job.read(job.file)
        references = select(job.references, aligned.places)  # limited runs answer only some examples
        texts, details = aligned.texts(job.answers), aligned.details
        found = job.score((task.metric, *task.secondary), aligned, references, pool)
        has_samples = any(each.samples for each in details.values())
        if has_samples and job.answers == "extracted" and not job.hidden:
            found, samples = _score_samples(aligned.series, found, references, pool)
    except (_FaultyFileError, MetricError) as error:  # a metric may be unable to score the gold answers
        faults = error.faults if isinstance(error, _FaultyFileError) else 1
        failed = ReadAnswers(job.references)
        return ScoredTask(task, replace(result, reason=str(error), faults=faults), read=lambda: failed)
    ids = ids_of(references)
    counts, empty = count_flags(texts, details)
    if isinstance(task.output, Label):
        names, questions = task.output.names, label_questions(task, job.store, split)
        given = Counter((text, questions.get(id_, "")) for id_, text in zip(ids, texts, strict=True))
        for (text, question), count in given.items():
            labels = names or list_options(question)
            if labels and fold_label(text) not in map(fold_label, labels):
                counts["other_label"] += count
    elif isinstance(task.output, Tags | Tree):
        golds, known = [item.answers[0] for item in references], texts
        if job.hidden:  # use only the number of items in each gold answer
            golds = [" ".join("?" for _ in gold.split()) for gold in golds]
        else:
            known = [item.answers[0] for item in job.references]
        counts.update(count_item_faults(task.output, texts, golds, known))
    kept = {str(line.id): line.context_kept for line in details.values() if line.context_kept is not None}
    if kept and task.extractive and not job.hidden:  # a ceiling would reveal where answers are
        ceiling = context_ceiling(kept, references, job.store.read(task.name, split, ("id", "context")))
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
        empty=empty,
        predictions=texts_digest(ids, texts),
        answers=dict(+counts),  # without zeros
        ceiling=ceiling,
        samples=samples,
        calibration=calibrate(details, references) if details and not job.hidden else None,
        partial=LimitedRun(**limits) if limits else None,
        variants=variants,
        units=describe_units(sample, task.unit_names),
    )
    answered = ReadAnswers(references, texts, {0: aligned, **reworded})
    return ScoredTask(
        task, result, sample, found.rows, units, lambda: answered, variant_rows, hidden=job.hidden
    )


def count_flags(texts: Sequence[str], details: Mapping[int, AnswerLine]) -> tuple[Counter[str], int]:
    """Count the answers with each flag, and the empty answers that are neither unparseable nor refused.

    Returns the counts by flag, and the number of these empty answers.
    """
    flags = {at: line_flags(line) for at, line in details.items()}
    named = {at for at, each in flags.items() if "unparseable" in each or "refused" in each}
    counts = Counter(flag for each in flags.values() for flag in each)
    return counts, sum(not text.strip() and at not in named for at, text in enumerate(texts))


def _score_samples(
    series: Sequence[Sequence[str]],
    found: TaskScores,
    references: Sequence[Item],
    pool: Executor | None,
) -> tuple[TaskScores, SampleScores | None]:
    if len(series) < 2:  # at least one line has no samples
        return found, None

    def score(metrics: Sequence[str], texts: Sequence[str]) -> TaskScores:
        refused = [place for place, text in enumerate(texts) if text == REFUSED]
        plain = ["" if text == REFUSED else text for text in texts]
        return score_task(metrics, plain, references, pool, refused)

    metrics, (main, *_) = list(found.signatures), found.signatures
    scored = [found, *(score(metrics, texts) for texts in series[1:])]
    # An example's row is the mean of its samples' rows, so intervals and tests resample examples.
    rows = {name: np.mean([each.statistics[name] for each in scored], axis=0) for name in found.statistics}
    voted = score((main,), vote(series))
    headlines = [each.scores[each.headline] for each in scored]
    metric = find_metric(main).for_data(references)
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
        file = files.get((job.task.name, job.file.split))
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


def label_questions(task: Task, store: Store, split: str) -> dict[str, str]:
    """Return a task's questions by example id if each question names its own labels, else an empty dict."""
    if not isinstance(task.output, Label) or task.output.names:
        return {}
    return {row["id"]: row["question"] for row in store.read(task.name, split, ("id", "question"))}


# Metrics

_CHUNK = 500
_WORTH_SECONDS = 8.0
"""The minimum remaining work, in seconds of CPU time, for which processes are used.

Starting them takes a second.
"""
_WORTH_A_PROCESS = 2_000
"""The minimum number of examples, over all tasks, for which processes are started."""


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
    """The statistics by metric name, starting with the main metric. Each array has shape (examples,
    columns).
    """

    @property
    def rows(self) -> Any:
        """The statistics of the main metric."""
        return next(iter(self.statistics.values()))

    @classmethod
    def of_rows(cls, statistics: Mapping[str, Any], references: Sequence[Reference]) -> TaskScores:
        """Compute scores from each metric's rows.

        If several metrics have a score of the same name, the first metric's score is used.
        """
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
    if metric.scope != "example":
        return np.asarray(metric.statistics(predictions, references), dtype=float)
    parts, items, begun = list[Any](), iter(references), time.process_time()
    for start in range(0, len(predictions), _CHUNK):  # tuples take four times as much memory as arrays
        texts = predictions[start : start + _CHUNK]
        parts.append(np.asarray(metric.statistics(texts, list(islice(items, len(texts)))), dtype=float))
        seconds = (time.process_time() - begun) / _CHUNK * (len(predictions) - _CHUNK)
        if pool is not None and not start and seconds >= _WORTH_SECONDS:
            rest = range(_CHUNK, len(predictions), _CHUNK)
            parts += pool.map(
                _statistics,
                [name] * len(rest),
                [list(predictions[start : start + _CHUNK]) for start in rest],
                [list(references[start : start + _CHUNK]) for start in rest],
            )
            break
    return np.concatenate(parts)


def _statistics(name: str, predictions: list[str], references: list[Reference]) -> Sequence[Row]:
    return find_metric(name).statistics(predictions, references)


@contextmanager
def worker_pool(jobs: int, examples: int) -> Iterator[Executor | None]:
    """Provide a pool of `jobs` processes, or None if `jobs` is 1 or there are too few examples."""
    if jobs < 2 or examples < _WORTH_A_PROCESS:
        yield None
        return
    with process_pool(jobs) as pool:
        yield pool


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector inside the block.

    It would otherwise scan all examples repeatedly without finding any garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def ids_of(references: Sequence[Item]) -> list[str]:
    """Return the ids of references. If references are stored in columns, no items are created."""
    return references.ids if isinstance(references, References) else [item.id for item in references]


def unit_numbers(references: Sequence[Item]) -> Any:
    """Return the index of each reference's unit on every level, of shape (examples, levels)."""
    if isinstance(references, References):
        return references.unit_numbers()
    return number_units([item.units for item in references])


def select(references: Sequence[Example], places: Sequence[int]) -> Sequence[Example]:
    """Return the references at the given positions, in order."""
    if len(places) == len(references):
        return references
    wanted = set(places)
    return [item for at, item in enumerate(references) if at in wanted]


# The ledger

_OLD_SECONDS = 7 * 24 * 3600

_Packed = tuple[str, tuple[int, ...], bytes]
"""An array's type, shape and content."""


@dataclass(frozen=True)
class _Entry:
    key: str
    result: TaskResult
    columns: tuple[str, ...]
    rows: _Packed
    units: _Packed
    variant_rows: dict[int, _Packed]


class Ledger:
    """A cache of results and statistics, so that the same answers are not scored twice.

    `$DECABENCH_HOME/ledger/<code>/<key>` contains the result of one task. The key is a digest of everything that
    affects the result. The ledger can be deleted at any time and is never part of a submission. Damaged or misnamed
    entries are ignored.
    """

    def __init__(self, home: Path) -> None:
        self._folder = home / "ledger" / code_digest()[:16]

    def find(self, job: Job) -> ScoredTask | None:
        """Return the stored result of a job, without its answers, or None if there is no valid entry."""
        import msgspec

        zstd = import_zstd()
        try:
            content = zstd.decompress((self._folder / job.key).read_bytes()) if job.key else b""
            entry = msgspec.msgpack.decode(content, type=_Entry)
            if entry.key != job.key:
                return None
            rows, (units, layout) = _unpack(entry.rows), _lay_out(entry.units)
            reworded = {number: _unpack(packed) for number, packed in entry.variant_rows.items()}
        except (OSError, ValueError, msgspec.MsgspecError, zstd.ZstdError):
            return None
        metric = METRICS[job.task.metric].for_columns(entry.columns)
        sample = Sample.of_layout(metric, rows, layout, job.task.name)
        return ScoredTask(
            job.task,
            entry.result,
            sample,
            rows,
            units,
            variant_rows=reworded,
            files=job.files,
            hidden=job.hidden,
            key=job.key,
        )

    def has(self, job: Job) -> bool:
        """Return whether there is an entry for a job. The entry can still turn out to be damaged."""
        return (self._folder / job.key).is_file()

    def keep(self, job: Job, found: ScoredTask) -> None:
        """Store a result. Does nothing if the task failed, if the job has no key, or if the file can't be written."""
        import msgspec

        if found.sample is None or not job.key:
            return
        entry = _Entry(
            job.key,
            found.result,
            found.sample.metric.columns,
            _pack(found.rows),
            _pack(found.units),
            {number: _pack(rows) for number, rows in found.variant_rows.items()},
        )
        zstd = import_zstd()
        options = {zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.checksum_flag: 1}
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            # not flushed to disk, because that takes longer than scoring; a damaged entry is ignored
            (self._folder / job.key).write_bytes(
                zstd.compress(msgspec.msgpack.encode(entry), options=options)
            )
            _sweep(self._folder)


def _pack(array: Array) -> _Packed:
    return array.dtype.str, array.shape, array.tobytes()


def _unpack(packed: _Packed) -> Array:
    kind, shape, content = packed
    return np.frombuffer(content, kind).reshape(shape)


@lru_cache(maxsize=64)
def _lay_out(units: _Packed) -> tuple[Array, Layout]:
    found = _unpack(units)
    return found, Layout.of(found)


@lru_cache(maxsize=16)  # runs once per home
def _sweep(ours: Path) -> None:
    """Remove the entries of other code versions, except versions that wrote an entry in the last week."""
    with suppress(OSError):
        for other in ours.parent.iterdir():
            is_old = time.time() - other.stat().st_mtime > _OLD_SECONDS
            if other != ours and not other.is_symlink() and is_old:
                shutil.rmtree(other, ignore_errors=True)
