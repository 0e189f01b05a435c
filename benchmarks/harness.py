"""Measure time and memory of the harness: every command in a process of its own, in one run.

    python benchmarks/harness.py MIRROR
    python benchmarks/harness.py --rows 100000,300000,1000000

Prints a Markdown table: wall time (the best of the runs) and the peak memory of the largest single process.

With `--rows`, files in the form of SST's and SQuAD's are made up with so many examples, and `prepare`, `predict` and
`evaluate` take one task each: CPU seconds, and the peak memory of the process. SQuAD's answers have three references.
The evaluated submission has half of its answers right.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from timing import describe_machine

COMMAND = (sys.executable, "-m", "decabench")
Figures = tuple[float, float]
"""Seconds and megabytes."""


def measured(arguments: tuple[str, ...], runs: int = 1) -> Figures:
    """Return the best wall time of some runs, and the peak memory of all of them."""
    best, peak = float("inf"), 0.0
    for _ in range(runs):
        begun = time.perf_counter()
        child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
        best = min(best, time.perf_counter() - begun)
        peak = max(peak, usage.ru_maxrss / 1024)
    return best, peak  # which includes the workers that a process waited for


def steps(mirror: str, folder: Path) -> list[tuple[str, tuple[str, ...], int]]:
    """Return a name, a command and a number of runs for each step."""
    home, lead, majority = (str(folder / name) for name in ("home", "lead-3", "majority"))
    data = ("--home", home)
    return [
        ("import decabench.metrics", (sys.executable, "-c", "import decabench.metrics"), 5),
        ("decabench --help", (*COMMAND, "--help"), 5),
        ("decabench tasks", (*COMMAND, "tasks", *data), 5),
        ("decabench metrics selftest", (*COMMAND, "metrics", "selftest"), 3),
        ("prepare, all ten, mirror", (*COMMAND, "prepare", "--mirror", mirror, *data), 1),
        ("prepare again", (*COMMAND, "prepare", "--mirror", mirror, *data), 3),
        (
            "predict majority, validation",
            (*COMMAND, "predict", "--predictor", "majority", "--output", majority, *data),
            1,
        ),
        (
            "predict lead-3, validation",
            (*COMMAND, "predict", "--predictor", "lead-3", "--output", lead, *data),
            1,
        ),
        ("check lead-3", (*COMMAND, "check", "--submission", lead, *data), 3),
        ("evaluate lead-3, all cores", (*COMMAND, "evaluate", "--submission", lead, *data), 3),
        ("evaluate lead-3, --jobs 1", (*COMMAND, "evaluate", "--submission", lead, "--jobs", "1", *data), 3),
        ("verify lead-3", (*COMMAND, "verify", "--submission", lead, *data), 1),
        ("compare majority lead-3", (*COMMAND, "compare", majority, lead, *data), 1),
    ]


def main(mirror: str) -> None:
    print("| what | seconds | peak MB |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for what, arguments, runs in steps(mirror, Path(folder)):
            seconds, megabytes = measured(arguments, runs)
            print(f"| {what} | {seconds:.2f} | {megabytes:,.0f} |", flush=True)


# One task with many made-up examples


def words(drawn: random.Random, count: int) -> str:
    """Draw words of three to eight letters; there are few short ones and many long ones."""
    return " ".join(f"{drawn.getrandbits(drawn.randrange(12, 32)):x}" for _ in range(count))


def write_sst(path: Path, rows: int) -> Iterator[tuple[str, str]]:
    """Write a file in the form of SST's; yield ids and answers, half of them right."""
    drawn = random.Random(rows)
    with path.open("w", encoding="utf-8") as file:
        file.write("label,sentence\n")
        for index in range(rows):
            label = drawn.randrange(2)
            file.write(f"{label},{words(drawn, 18)}.\n")
            yield f"sst.validation.{index}", ("negative", "positive")[label ^ drawn.randrange(2)]


def write_squad(path: Path, rows: int) -> Iterator[tuple[str, str]]:
    """Write a file in the form of SQuAD's: 5 questions a paragraph, 44 paragraphs an article."""
    drawn = random.Random(rows)
    with path.open("w", encoding="utf-8") as file:
        file.write('{"version": "1.1", "data": [')
        for article, start in enumerate(range(0, rows, 220)):
            paragraphs = []
            for first in range(start, min(start + 220, rows), 5):
                context, questions = words(drawn, 120), []
                for _ in range(first, min(first + 5, rows)):
                    at = drawn.randrange(100)
                    given = [
                        " ".join(context.split()[at : at + length])
                        for length in drawn.choices((1, 2, 3, 4), k=3)
                    ]
                    answers = [{"answer_start": context.index(text), "text": text} for text in given]
                    id_ = f"{drawn.getrandbits(96):024x}"
                    questions.append({"id": id_, "question": f"{words(drawn, 10)}?", "answers": answers})
                    yield id_, given[0] if drawn.randrange(2) else words(drawn, 3)
                paragraphs.append({"context": context, "qas": questions})
            file.write(
                f"{', ' if article else ''}{json.dumps({'title': f'Article_{article}', 'paragraphs': paragraphs})}"
            )
        file.write("]}")


MADE_UP = {"sst": ("dev_binary_sent.csv", write_sst), "squad": ("dev-v1.1.json", write_squad)}


def used(arguments: tuple[str, ...]) -> Figures:
    """Return the CPU seconds and the peak memory of a command."""
    child = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def scale(sizes: list[int]) -> None:
    """Print what one task takes with so many examples."""
    print(describe_machine())
    print("| task | examples | prepare, CPU s | MB | predict, CPU s | MB | evaluate, CPU s | MB |")
    print("|---|---|---|---|---|---|---|---|")
    for task, (name, write) in MADE_UP.items():
        for rows in sizes:
            with tempfile.TemporaryDirectory(prefix="decabench-") as temporary:
                folder = Path(temporary)
                (folder / "mirror" / task).mkdir(parents=True)
                answers = folder / "answers" / "predictions" / f"{task}.validation.jsonl"
                answers.parent.mkdir(parents=True)
                with answers.open("w", encoding="utf-8") as file:
                    for id_, answer in write(folder / "mirror" / task / name, rows):
                        file.write(json.dumps({"id": id_, "answer": answer}, ensure_ascii=False) + "\n")
                about = 'format = "decabench.submission/1"\nname = "made-up"\n'
                (folder / "answers" / "submission.toml").write_text(about, encoding="utf-8")
                common = ("--home", str(folder / "home"))
                chosen = ("--tasks", task, "--output", str(folder / "lead-3"), "--predictor", "lead-3")
                figures = [
                    used(
                        (
                            *COMMAND,
                            "prepare",
                            task,
                            "--split",
                            "validation",
                            "--mirror",
                            str(folder / "mirror"),
                            *common,
                        )
                    ),
                    used((*COMMAND, "predict", *chosen, *common)),
                    used((*COMMAND, "evaluate", str(folder / "answers"), "--jobs", "1", *common)),
                ]
            cells = " | ".join(f"{seconds:.1f} | {megabytes:,.0f}" for seconds, megabytes in figures)
            print(f"| {task} | {rows:,} | {cells} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mirror", nargs="?")
    parser.add_argument("--rows", help="numbers of examples, separated by commas")
    given = parser.parse_args()
    if given.rows:
        scale([int(rows) for rows in given.rows.split(",")])
    elif given.mirror:
        main(given.mirror)
    else:
        parser.error("give MIRROR or --rows")
