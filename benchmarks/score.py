"""Time the scoring of full-size submissions, by stage and in comparison with other scorers, in CPU seconds.

    python benchmarks/score.py --home HOME [--split validation] [--runs 5] [--plot PATH]
    python benchmarks/score.py --home HOME --board 200 --folder FOLDER [--jobs 1]

The data must be prepared. Two submissions are made from its gold answers: 30% of the answers come from other
examples, and 20% lack a word. The scorers run in turn, on one thread. Prints Markdown tables of medians, ranges,
ratios to decabench's median, and memory. Scorers that are not installed are left out. To install all of them: pip
install rouge-score rouge-score-rs sacrebleu bleuscore seqeval torchmetrics.

With --board, builds a board of that many submissions, builds it again, and builds it again after one submission has
changed. Prints the time and memory of each build. Submissions that are not in FOLDER yet are made and evaluated first.
"""

from __future__ import annotations

import argparse
import random
import re
import resource
import shutil
import string
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from timing import Timed, describe_machine, peak_memory, time_in_turn

from decabench.errors import MissingDataError
from decabench.metrics import METRICS, Item
from decabench.scoring import Sample, ScoringOptions, compare, score_submission
from decabench.submission import write_submission
from decabench.tasks import DECATHLON, Store, number_units

Sides = dict[str, Callable[[], object]]
"""The functions to time, by name, starting with decabench's."""


def make_answers(references: Sequence[Item], seed: int, wrong: float = 0.3) -> Iterator[tuple[str, str]]:
    """Yield an answer for each example. Some answers are wrong, a fifth lack a word, and the rest are gold."""
    drawn = random.Random(seed)
    for item in references:
        answer, kind = item.answers[0], drawn.random()
        if kind < wrong:
            answer = drawn.choice(references).answers[0]
        elif kind < wrong + 0.2 and len(words := answer.split()) > 1:
            del words[drawn.randrange(len(words))]
            answer = " ".join(words)
        yield item.id, answer


def tasks_of(store: Store, split: str) -> list[str]:
    """Return the decathlon tasks that are prepared with this split."""
    return [task for task in DECATHLON.tasks if split in store.records(task)]


def make_submission(folder: Path, store: Store, split: str, seed: int, wrong: float = 0.3) -> Path:
    """Write a submission for all prepared tasks."""
    answers = {
        (task, split): list(make_answers(store.references(task, split), seed, wrong))
        for task in tasks_of(store, split)
    }
    write_submission(folder, f"made-up-{seed}", answers)
    return folder


def evaluate(folder: Path, options: ScoringOptions) -> None:
    """Score a submission without using the ledger, and write all files that `decabench evaluate` writes."""
    results, _ = score_submission(folder, replace(options, again=True))
    results.write()


def stages(home: Path, split: str, a: Path, b: Path) -> Sides:
    """Return a function for each stage of decabench's scoring, by name."""
    store = Store(home)
    options = ScoringOptions(split, home=home)
    tasks = tasks_of(store, split)
    return {
        "evaluate": partial(evaluate, a, options),
        "evaluate, second submission": partial(evaluate, b, options),
        "references": lambda: [store.references(task, split) for task in tasks],
        "compare, already scored": lambda: compare(a, b, split, home=home, flips=3),
    }


def measure_board(home: Path, split: str, folder: Path, count: int, jobs: int) -> None:
    """Print the time and memory needed to build a board of `count` submissions, and to build it again twice."""
    store, options = Store(home), ScoringOptions(split, home=home)
    for number in range(count):
        path = folder / "submissions" / f"{number:03}"
        if not (path / "results").is_dir():
            evaluate(make_submission(path, store, split, number, 0.1 + 0.6 * number / count), options)
    rows = sum(store.record(task, split).rows for task in tasks_of(store, split))
    command = [sys.executable, "-m", "decabench", "leaderboard", "--jobs", str(jobs), "--home", str(home)]
    command += ["--submissions", str(folder / "submissions"), "--output", str(folder / "site")]
    print(
        f"\n| {count} submissions of {rows:,} rows, --jobs {jobs} | CPU seconds | seconds | MB |\n|---|---|---|---|"
    )
    for title in ("first board", "second run, nothing changed", "third run, one submission changed"):
        if title.startswith("third"):
            path = folder / "submissions" / "000"
            shutil.rmtree(path)
            evaluate(make_submission(path, store, split, random.getrandbits(32), 0.25), options)
        time.sleep(3)  # a build trusts the timestamps of files only if they are a few seconds old
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        used, took = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begun
        cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        print(f"| {title} | {cpu:.1f} | {took:.1f} | {used.ru_maxrss / 1024:.0f} |", flush=True)


def named(package: str) -> str:
    """Return a package's name and version."""
    return f"{package} {version(package)}"


def references_of(store: Store, task: str, split: str, most: int | None = None) -> tuple[Sequence[Item], str]:
    """Return the references of the split, or of another split that is prepared, and a description of them."""
    records = store.records(task)
    chosen = next((name for name in (split, "validation", "test") if name in records), split)
    references = store.references(task, chosen)[:most]
    return references, f"{len(references):,} of {task}, {chosen}"


def rouge_sides(store: Store, split: str) -> tuple[str, Sides]:
    """Return a note on the data, and the functions to time for ROUGE-1, ROUGE-2 and summary-level ROUGE-L.

    All of them use stems.
    """
    summaries, note = references_of(store, "cnn_dailymail", split, 3_000)
    texts = [answer for _, answer in make_answers(summaries, 1)]
    pairs = [(one.answers[0], text) for one, text in zip(summaries, texts, strict=True)]
    kinds = ["rouge1", "rouge2", "rougeLsum"]
    sides: Sides = {"ours, as ROUGE-1.5.5": lambda: METRICS["rouge"].statistics(texts, summaries)}
    try:
        from rouge_score_rs.rouge_scorer import RougeScorer as Compiled

        compiled = Compiled(kinds, use_stemmer=True)
        sides[named("rouge-score-rs")] = lambda: [compiled.score(*pair) for pair in pairs]
    except ImportError:
        pass
    try:
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer(kinds, use_stemmer=True)
        sides[named("rouge-score")] = lambda: [scorer.score(*pair) for pair in pairs]
    except ImportError:
        pass
    return note, sides


def bleu_sides(store: Store, split: str) -> tuple[str, Sides]:
    """Return a note on the data, and the functions to time for corpus BLEU.

    decabench scores cased and uncased text in a single pass.
    """
    segments, note = references_of(store, "iwslt.en.de", split)
    lines, golds = [answer for _, answer in make_answers(segments, 1)], [one.answers[0] for one in segments]
    one_each = [[gold] for gold in golds]
    sides: Sides = {"ours, both cases": lambda: METRICS["bleu"].statistics(lines, segments)}
    try:
        import bleuscore

        sides[f"{named('bleuscore')}, one case"] = lambda: bleuscore.compute(one_each, lines)
    except ImportError:
        pass
    from sacrebleu.metrics import BLEU
    from sacrebleu.tokenizers import tokenizer_13a, tokenizer_re

    def official(lowercase: bool) -> object:
        for kept in (tokenizer_13a.Tokenizer13a, tokenizer_re.TokenizerRegexp):
            kept.__call__.cache_clear()  # without this, only the first run would tokenize
        return BLEU(lowercase=lowercase).corpus_score(lines, [golds])

    sides[f"{named('sacrebleu')}, one case"] = partial(official, True)
    try:
        from torchmetrics.text import SacreBLEUScore

        sides[f"{named('torchmetrics')}, one case"] = lambda: SacreBLEUScore(lowercase=True)(lines, one_each)
    except ImportError:
        pass
    return note, sides


def interval_sides(store: Store, split: str) -> tuple[str, Sides]:
    """Return a note on the data, and the functions to time for BLEU with a 95% interval.

    sacrebleu uses 1,000 resamples for its interval.
    """
    from sacrebleu.metrics import BLEU

    segments, note = references_of(store, "iwslt.en.de", split)
    lines, golds = [answer for _, answer in make_answers(segments, 1)], [one.answers[0] for one in segments]
    bleu = METRICS["bleu"]

    def ours() -> object:
        rows = np.asarray(bleu.statistics(lines, segments), dtype=float)
        return Sample.of_levels(bleu, rows, number_units([one.units for one in segments])).interval

    return note, {
        "ours, with its interval": ours,
        f"{named('sacrebleu')}, 1,000 resamples": lambda: BLEU(lowercase=True).corpus_score(
            lines, [golds], n_bootstrap=1_000
        ),
    }


def squad_sides(store: Store, split: str) -> tuple[str, Sides]:
    """Return a note on the data, and the functions to time for F1 and exact match.

    decabench is compared with SQuAD's evaluate-v1.1.
    """
    questions, note = references_of(store, "squad", split)
    texts = [answer for _, answer in make_answers(questions, 1)]

    def normalize(text: str) -> str:
        left_out = set(string.punctuation)
        kept = "".join(letter for letter in text.lower() if letter not in left_out)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())

    def f1(text: str, gold: str) -> float:
        ours, theirs = normalize(text).split(), normalize(gold).split()
        same = sum((Counter(ours) & Counter(theirs)).values())
        return 2 * same / (len(ours) + len(theirs)) if same else 0.0

    def official() -> object:
        return [
            (
                max(f1(text, gold) for gold in one.answers),
                max(normalize(text) == normalize(gold) for gold in one.answers),
            )
            for text, one in zip(texts, questions, strict=True)
        ]

    return note, {
        "ours, nF1 and EM": lambda: METRICS["nf1"].statistics(texts, questions),
        "as SQuAD's evaluate-v1.1": official,
    }


def tag_sides() -> tuple[str, Sides]:
    """Return a note on the data, and the functions to time for entity F1.

    The data consists of 2,000 random sentences of 24 tags each.
    """
    drawn = random.Random(0)
    tags = ("O", "O", "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG")
    golds = [drawn.choices(tags, k=24) for _ in range(2_000)]
    given = [[tag if drawn.random() < 0.9 else drawn.choice(tags) for tag in gold] for gold in golds]
    items, texts = [Item([" ".join(gold)]) for gold in golds], [" ".join(one) for one in given]
    sides: Sides = {"ours, entity F1": lambda: METRICS["sequence_f1"].statistics(texts, items)}
    try:
        from seqeval.metrics import f1_score

        sides[named("seqeval")] = lambda: f1_score(golds, given)
    except ImportError:
        pass
    return "2,000 random sentences", sides


def single_sides(store: Store, split: str) -> tuple[str, Sides]:
    """Return a note on the data, and functions that make a hundred calls with a single example each.

    Training loops use metrics in this way.
    """
    found: Sides = {}
    for name, task in (("nf1", "squad"), ("bleu", "iwslt.en.de"), ("rouge", "cnn_dailymail")):
        item = references_of(store, task, split)[0][0]
        call = getattr(__import__("decabench.metrics", fromlist=[name]), name)
        golds, answer = [list(item.answers)], [f"{item.answers[0]} again"]
        found[f"{name}, 100 calls"] = lambda call=call, answer=answer, golds=golds: [
            call(answer, golds) for _ in range(100)
        ]
    return "one answer per call", found


def print_table(title: str, timed: dict[str, Timed], memory: dict[str, float]) -> None:
    """Print a row for each side, with ratios to the first side."""
    print(
        f"\n| {title} | CPU seconds, median (range) | ratio to the first | additional MB |\n|---|---|---|---|"
    )
    first = next(iter(timed.values())).median
    for name, found in timed.items():
        print(f"| {name} | {found} | {found.median / first:.1f} | {memory[name]:.0f} |", flush=True)


def draw_plot(path: Path, tables: dict[str, dict[str, Timed]]) -> None:
    """Plot each scorer's CPU time as a multiple of decabench's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [
        (f"{title}: {name}", found, next(iter(timed.values())).median)
        for title, timed in tables.items()
        for name, found in timed.items()
    ][::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.32 * len(rows) + 1), layout="constrained")
    for at, (name, found, first) in enumerate(rows):
        low, high = (end / first for end in (min(found.seconds), max(found.seconds)))
        middle = found.median / first
        color = "tab:blue" if "ours" in name else "tab:gray"
        axes.barh(at, middle, xerr=[[middle - low], [high - middle]], color=color, ecolor="black", capsize=2)
        axes.text(high * 1.1, at, f"{middle:.1f}", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(right=axes.get_xlim()[1] * 2)
    axes.set_xlabel("CPU time relative to ours (median and range)")
    figure.savefig(path, dpi=120)


TABLES: dict[str, Callable[[Store, str], tuple[str, Sides]]] = {
    "ROUGE": rouge_sides,
    "BLEU": bleu_sides,
    "BLEU intervals": interval_sides,
    "SQuAD": squad_sides,
    "tags": lambda store, split: tag_sides(),
    "single calls": single_sides,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--split", default="validation")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--only", help=f"tables, separated by commas: {', '.join(('stages', *TABLES))}")
    parser.add_argument("--board", type=int, metavar="COUNT")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    if given.board and given.folder is None:
        parser.error("--board needs --folder for its submissions")
    store = Store(given.home)
    print(describe_machine())
    if given.board:
        measure_board(given.home, given.split, given.folder, given.board, given.jobs)
        print(f"\nAt the end: {describe_machine()}")
        return
    only = set(given.only.split(",")) if given.only else {"stages", *TABLES}
    if "stages" in only:
        with tempfile.TemporaryDirectory() as folder:
            a, b = (
                make_submission(Path(folder) / name, store, given.split, n) for n, name in enumerate("ab")
            )
            sides = stages(given.home, given.split, a, b)
            timed = time_in_turn(sides, max(given.runs // 2, 1))
            rows = sum(store.record(task, given.split).rows for task in tasks_of(store, given.split))
            measured = {name: peak_memory(run) for name, run in sides.items()}
            print_table(f"stages, {rows:,} rows of {given.split}", timed, measured)
    tables: dict[str, dict[str, Timed]] = {}
    for title in [title for title in TABLES if title in only]:
        try:
            note, others = TABLES[title](store, given.split)
        except MissingDataError as error:
            print(f"\n{title}: skipped. {error}")
            continue
        tables[title] = time_in_turn(others, given.runs)
        measured = {name: peak_memory(run) for name, run in others.items()}
        print_table(f"{title}: {note}", tables[title], measured)
    if given.plot:
        tables.pop("single calls", None)
        draw_plot(given.plot, tables)
    print(f"\nAt the end: {describe_machine()}")


if __name__ == "__main__":
    main()
