"""Whole submissions made up over the bundled sample: answers, results, intervals and statistics, for tests and demos.

python -m tests.leaderboard.synthetic HOME FOLDER COUNT [GROUPS]      (HOME has the prepared sample)

With GROUPS, the statistics of a task are drawn again from the sample's groups until there are that many, as large data
would have; the answers are then left out.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from decabench.metrics import METRICS
from decabench.scoring.results import DataUsed, Results, TaskResult, write_results_file
from decabench.scoring.significance import Sample, describe_units, score_interval, total_interval
from decabench.submission import SubmissionInfo, answers_digest, read_answers, write_submission
from decabench.tasks import DECATHLON, TASKS, number_units
from decabench.tasks.example import Example
from decabench.tasks.store import Store

HOSTILE = "<img src=x onerror=alert(1)>"
HOSTILE_ANSWER = "</script><script>alert(1)</script> ]]> \u2028 -->"


def submissions(home: Path, folder: Path, count: int, groups: int = 0) -> Path:
    """`count` systems, the oracle and a baseline; the second system is hostile, the last one partial."""
    store = Store(home)
    data = {task: list(store.examples(task, "validation")) for task in DECATHLON.tasks}
    for number in range(count):
        generator = random.Random(number)
        skill = 0.25 + 0.6 * (count - number) / count
        tasks = [task for task in DECATHLON.tasks if number != count - 1 or task != "sst"]
        answers = {task: _answers(data[task], skill, generator, number) for task in tasks}
        _write(store, folder / f"system-{number:02}", _info(number), data, answers, groups)
    gold = {task: [example.answers[0] for example in data[task]] for task in DECATHLON.tasks}
    _write(
        store, folder / "oracle", SubmissionInfo("oracle", predictor={"name": "oracle"}), data, gold, groups
    )
    floor = {task: [data[task][0].answers[0]] * len(data[task]) for task in DECATHLON.tasks}
    _write(
        store,
        folder / "majority",
        SubmissionInfo("majority", predictor={"name": "majority"}),
        data,
        floor,
        groups,
    )
    return folder


def _info(number: int) -> SubmissionInfo:
    name = HOSTILE if number == 1 else f"system {number:02}"
    return SubmissionInfo(
        name,
        authors=("A. Author", HOSTILE) if number == 1 else ("A. Author",),
        description=f"{HOSTILE} {{{{ 7*7 }}}}" if number == 1 else f"Made up, number {number}.",
        url="https://example.org/system" if number % 2 else "",
        model_size=(29_000_000, 350_000_000, 7_000_000_000, None)[number % 4],
        date=f"{2018 + number % 8}-05-01",
        predictor={"name": "made_up:Predictor", "open_weights": number % 3 == 0},
    )


def _answers(examples: Sequence[Example], skill: float, generator: random.Random, number: int) -> list[str]:
    """Gold with the chance of the skill (hard examples are hard for all), else part of it, another's, or nothing."""
    made = []
    for index, example in enumerate(examples):
        hard = hashlib.sha256(example.id.encode()).digest()[0] / 255 - 0.5
        drawn = generator.random() + 0.4 * hard
        if drawn < skill:
            made.append(example.answers[0])
        elif drawn < skill + 0.15:
            words = example.answers[0].split()
            made.append(" ".join(words[: max(1, len(words) - 1)]) + " indeed")
        elif drawn > 1.1:
            made.append("")
        else:
            made.append(generator.choice(examples).answers[0])
        if number == 1 and index % 5 == 0:
            made[-1] = HOSTILE_ANSWER
    return made


def _write(
    store: Store,
    folder: Path,
    info: SubmissionInfo,
    data: dict[str, list[Example]],
    answers: dict[str, list[str]],
    groups: int,
) -> None:
    pairs = {
        (task, "validation"): [(example.id, text) for example, text in zip(data[task], texts, strict=True)]
        for task, texts in answers.items()
    }
    written = None if groups else write_submission(folder, info, pairs)
    tasks, samples = {}, []
    target = folder / "results" / "validation"
    (target / "statistics").mkdir(parents=True, exist_ok=True)
    for task, texts in answers.items():
        rows, numbers = _statistics(task, data[task], texts, groups)
        sample = Sample.of_levels(METRICS[TASKS[task].metric], rows, numbers, task)
        samples.append(sample)
        digest = answers_digest(read_answers(written.files[task, "validation"])) if written else ""
        tasks[task] = _task(store, task, sample, texts, len(rows), digest)
        _parquet(target / "statistics" / f"{task}.parquet", task, rows, numbers)
    whole = total_interval(samples) if len(tasks) == len(DECATHLON.tasks) else None
    write_results_file(
        target, Results(info.described(), "validation", tasks, (whole.low, whole.high) if whole else None)
    )


def _statistics(task: str, examples: Sequence[Example], texts: Sequence[str], groups: int) -> tuple[Any, Any]:
    """(rows, numbers of units by level)."""
    metric = METRICS[TASKS[task].metric]
    rows = np.asarray(metric.statistics(texts, examples), dtype=float)
    numbers = number_units([example.units for example in examples]).astype(np.int32)
    if not groups:
        return rows, numbers
    picked = np.random.default_rng(1).integers(0, len(rows), groups)
    return rows[picked], np.arange(groups, dtype=np.int32)[:, None].repeat(numbers.shape[1], axis=1)


def _task(store: Store, task: str, sample: Sample, texts: Sequence[str], n: int, digest: str) -> TaskResult:
    record, metric = store.record(task, "validation"), METRICS[TASKS[task].metric]
    found, published = score_interval(sample), TASKS[task].counts.get("validation")
    return TaskResult(
        "scored",
        metric.name,
        metric.headline,
        DataUsed(
            record.fingerprint if n == record.rows else f"sha256:{n}",
            record.origin,
            record.verified,
            n,
            published,
            record.note,
        ),
        n=n,
        score=min(100.0, sample.score),
        scores={metric.headline: sample.score},
        interval=found.ends if found else None,
        signature=metric.full_signature,
        signatures={metric.name: metric.full_signature},
        empty=sum(not text for text in texts),
        predictions=digest,
        units=describe_units(sample),
    )


def _parquet(path: Path, task: str, rows: Any, numbers: Any) -> None:
    names = METRICS[TASKS[task].metric].columns
    columns = {name: pa.array(rows[:, index]) for index, name in enumerate(names)}
    units = {f"unit_{level}": pa.array(column) for level, column in enumerate(numbers.T, start=1)}
    pq.write_table(pa.table({**units, **columns}), path)


if __name__ == "__main__":
    submissions(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), *(int(text) for text in sys.argv[4:]))
