"""Score full-size submissions, by stage and against other scorers: CPU seconds of one thread, in one run.

    python benchmarks/score.py --home HOME [--split validation] [--runs 3]

The data must be prepared. Two submissions are made from its gold answers, two in ten of them perturbed and three taken
from other examples. Stages take turns, a run each, so that on a busy machine all have the same share of the
disturbance. Prints Markdown: medians, ranges, ratios, peak memory. Scorers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from decabench.metrics import METRICS, Item
from decabench.scoring import ScoringOptions, compare, record_scores, score_submission
from decabench.submission import write_submission
from decabench.tasks import DECATHLON, Store, read_references

Side = tuple[str, Callable[[], object]]
"""A name, and what to time."""


def make_answers(references: list[Item], seed: int) -> Iterator[tuple[str, str]]:
    """Yield an answer for each example: half of them gold."""
    drawn = random.Random(seed)
    for item in references:
        answer, kind = item.answers[0], drawn.random()
        if kind < 0.3:
            answer = drawn.choice(references).answers[0]
        elif kind < 0.5 and len(words := answer.split()) > 1:
            del words[drawn.randrange(len(words))]
            answer = " ".join(words)
        yield item.id, answer


def make_submission(folder: Path, store: Store, split: str, seed: int) -> Path:
    """Write a submission for all tasks that are prepared."""
    tasks = [task for task in DECATHLON.tasks if split in store.records(task)]
    answers = {(task, split): list(make_answers(read_references(store, task, split), seed)) for task in tasks}
    write_submission(folder, f"made-up-{seed}", answers)
    return folder


def evaluate(folder: Path, options: ScoringOptions) -> None:
    """Score a submission and write everything that `decabench evaluate` writes."""
    results, scored = score_submission(folder, options)
    record_scores(folder, folder / "results" / options.split, results, scored, options)


def stages(home: Path, split: str, a: Path, b: Path) -> list[Side]:
    """Return the stages of ours."""
    store = Store(home)
    options = ScoringOptions(split, home=home)
    tasks = [task for task in DECATHLON.tasks if split in store.records(task)]
    return [
        ("references", lambda: [read_references(store, task, split) for task in tasks]),
        ("evaluate", partial(evaluate, a, options)),
        ("evaluate, the other", partial(evaluate, b, options)),
        ("compare, scored before", lambda: compare(a, b, split, home=home, flips=3)),
    ]


def scorers(store: Store, split: str) -> list[list[Side]]:
    """Return, for each kind of score, ours and the others on the same texts."""
    found = []
    summaries = read_references(store, "cnn_dailymail", split)[:3_000]
    texts = [answer for _, answer in make_answers(summaries, 1)]
    found.append([("rouge, here", lambda: METRICS["rouge"].statistics(texts, summaries))])
    try:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer(["rouge1", "rouge2", "rougeLsum"], use_stemmer=True)
        found[-1].append(
            (
                "rouge-score",
                lambda: [
                    scorer.score(one.answers[0], text) for one, text in zip(summaries, texts, strict=True)
                ],
            )
        )
    except ImportError:
        pass
    segments = read_references(store, "iwslt.en.de", split)
    lines = [answer for _, answer in make_answers(segments, 1)]
    found.append([("bleu, both cases, here", lambda: METRICS["bleu"].statistics(lines, segments))])
    try:
        from sacrebleu.metrics import BLEU

        golds = [[one.answers[0] for one in segments]]
        found[-1].append(
            (
                "sacrebleu, both cases",
                lambda: [BLEU(lowercase=lower).corpus_score(lines, golds) for lower in (True, False)],
            )
        )
    except ImportError:
        pass
    return found


def measure(sides: list[Side], runs: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each side's runs."""
    seconds: dict[str, list[float]] = {name: [] for name, _ in sides}
    for _ in range(runs):
        for name, run in sides:
            begun = time.process_time()
            run()
            seconds[name].append(time.process_time() - begun)
    return seconds


def print_rows(seconds: dict[str, list[float]]) -> None:
    """Print a row for each side; ratios are to the first."""
    first = statistics.median(next(iter(seconds.values())))
    for name, all_ in seconds.items():
        middle = statistics.median(all_)
        print(
            f"| {name} | {middle:.2f} | {min(all_):.2f}-{max(all_):.2f} | {middle / first:.2f} |", flush=True
        )


def main() -> None:
    """Print a Markdown table of the stages, and one of the scorers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    store = Store(given.home)
    with tempfile.TemporaryDirectory() as folder:
        a, b = (make_submission(Path(folder) / name, store, given.split, n) for n, name in enumerate("ab"))
        load = os.getloadavg()[0]
        print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {load:.1f}\n")
        print("| stage or scorer | CPU seconds, median | range | to the first |\n|---|---|---|---|")
        print_rows(measure(stages(given.home, given.split, a, b), given.runs))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for sides in scorers(store, given.split):
            print_rows(measure(sides, given.runs))
    print(f"\nPeak memory of the stages: {peak:.0f} MB")


if __name__ == "__main__":
    main()
