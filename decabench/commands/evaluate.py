"""`decabench evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands._options import (
    home_option,
    include_option,
    jobs_option,
    output_option,
    processes,
    submission_option,
    tasks_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from decabench.scoring import DataUsed, Results, TaskResult
    from decabench.submission import Answers

__all__ = ["evaluate"]


@click.command()
@submission_option
@tasks_option
@click.option(
    "--split",
    type=click.Choice(["validation", "test"]),
    default="validation",
    show_default=True,
    help="Which split to score.",
)
@output_option(
    "Where results.json goes.  [default: results/<split> in the submission, beside an archive; "
    "results/<split>-raw with --answers raw]",
    required=False,
)
@click.option(
    "--answers",
    type=click.Choice(["extracted", "raw"]),
    default="extracted",
    show_default=True,
    help="What is scored: the answer that was extracted, or all that the model said.",
)
@click.option("--all-scores", is_flag=True, help="Print every score, not only the headline of each task.")
@home_option
@jobs_option
@include_option
@click.pass_context
def evaluate(
    context: click.Context,
    submission: Path,
    tasks: tuple[str, ...],
    suite: str | None,
    split: str,
    output: Path | None,
    answers: Answers,
    all_scores: bool,
    home: Path | None,
    jobs: int | None,
    include: tuple[Path, ...],
) -> None:
    """Score a submission, print the table and write results.json.

    Ends with 1 where a task or a variant failed or one of --tasks has no answers, and with 3 where the data is missing
    or is not the data that the submission was made for. A decaScore needs all ten tasks; else the sum says of how many.
    A task of a limited run is scored on what it answered, marked partial, and in no sum.
    """
    from decabench.commands._console import start_clock, write_run_file
    from decabench.commands._options import chosen_tasks
    from decabench.scoring import Scoring, score_submission, write_results_file, write_statistics
    from decabench.tasks import DECATHLON

    clock = start_clock()
    names = chosen_tasks(tasks, include, suite)
    scoring = Scoring(split, names, home, processes(jobs), include, answers)
    results, scored = score_submission(submission, scoring)
    folder = output or _default_output(submission, split if answers == "extracted" else f"{split}-raw")
    write_statistics(folder, scored)
    path = write_results_file(folder, results)
    write_run_file(folder, clock)
    missing = [name for name in names or DECATHLON.tasks if name not in results.tasks]
    _print(results, missing, all_scores)
    _print_variants(results)
    click.echo(f"Results: {path}")
    whole = results.ok and not any(task.variants.get("failed") for task in results.tasks.values())
    context.exit(0 if whole and not (tasks and names and missing) else 1)


def _default_output(submission: Path, name: str) -> Path:
    folder = submission if submission.is_dir() else submission.parent / f"{submission.name}.results"
    return folder / "results" / name if submission.is_dir() else folder / name


def _print(results: Results, missing: list[str], all_scores: bool) -> None:
    from decabench.commands._console import console

    out = console()
    raw = ", raw answers" if results.answers == "raw" else ""
    out.print(f"{results.submission['name']}, {results.split}{raw}", style="bold")
    out.print(_table(results, all_scores))
    total = results.total
    ends = f" (95 %: {_interval(results.interval)})" if results.interval else ""
    if total.tasks or total.failed or total.partial:
        out.print(
            f"{'decaScore' if total.complete else 'Sum (no decaScore)'}: {total.text}{ends}", style="bold"
        )
    for sentence in _remarks(results, missing):
        out.print(sentence)


def _table(results: Results, all_scores: bool) -> Table:
    from rich.table import Table

    from decabench.commands._console import format_count, format_score

    table = Table("task", "metric", box=None, header_style="bold")
    for heading in ("score", "95 %", "n", "empty"):
        table.add_column(heading, justify="right")
    table.add_column("data")
    if all_scores:
        table.add_column("all scores")
    for name, task in results.tasks.items():
        cells = [
            name,
            task.headline,
            format_score(task.score),
            _interval(task.interval),
            format_count(task.n),
        ]
        cells += [format_count(task.empty), _data(task.data)]
        if task.status == "partial":
            cells[2] += " partial"
        if task.status == "failed":
            cells[2:6] = ["failed", "–", "–", "–"]
        if all_scores:
            cells.append(", ".join(f"{key} {value:.2f}" for key, value in task.scores.items()))
        table.add_row(*cells)
    return table


def _print_variants(results: Results) -> None:
    """The headline under every wording of the questions, where there is more than one."""
    from rich.table import Table

    from decabench.commands._console import console

    asked = {name: task.variants for name, task in results.tasks.items() if task.variants}
    if not asked:
        return
    numbers = sorted({int(number) for variants in asked.values() for number in variants["scores"]})
    table = Table("task", box=None, header_style="bold")
    for heading in ("mean", "worst", "spread", *(f"variant {number}" for number in numbers)):
        table.add_column(heading, justify="right")
    for name, variants in asked.items():
        scores = [variants["scores"].get(str(number)) for number in numbers]
        values = [*(variants[key] for key in ("mean", "worst", "spread")), *scores]
        table.add_row(name, *("–" if value is None else f"{value:.1f}" for value in values))
    out = console()
    out.print("\nOther wordings of the questions (0 is the dataset's own)", style="bold")
    out.print(table)
    for name, variants in asked.items():
        for number, reason in variants.get("failed", {}).items():
            out.print(f"Not scored: {name}, variant {number}: {reason}")


def _interval(ends: tuple[float, float] | None) -> str:
    return "–" if ends is None else f"{ends[0]:.1f} to {ends[1]:.1f}"


def _data(data: DataUsed) -> str:
    if data.origin in ("sample", "user"):
        return data.origin
    return f"{data.origin}, checksums {'verified' if data.verified else 'differ or unknown'}"


def _remarks(results: Results, missing: list[str]) -> Iterator[str]:
    """What keeps the number from being what it looks like."""
    from decabench.scoring import partial_text

    if variant := results.submission.get("predictor", {}).get("variant"):
        yield f"Asked in other words: variant {variant} of the questions, not the datasets' own."
    if missing:
        yield f"No answers for: {', '.join(missing)}"
    for name, task in results.tasks.items():
        if task.status == "failed":
            more = (
                f" (and {task.faults - 1:,} more faults; decabench check lists them)"
                if task.faults > 1
                else ""
            )
            yield f"Failed: {name}: {task.reason}{more}"
    for name, task in results.tasks.items():
        if task.status == "partial":
            yield f"Partial: {name}: a limited run of {partial_text(task)}: in no sum, and never ranked."
        yield from (f"{name}: {sentence}." for sentence in _told(task))
    if any(task.data.origin == "sample" for task in results.tasks.values()):
        yield "Scored on the bundled sample: not to be compared with scores on the datasets."
    for name, task in results.tasks.items():
        data = task.data
        if data.origin != "sample" and data.published_count not in (None, data.rows):
            yield f"{name}: {data.rows:,} examples, published are {data.published_count:,}: not the whole split."
        if data.note:
            yield f"{name}: {data.note}"


_TOLD = {
    "unparseable": "{} unparseable",
    "refused": "{} refused",
    "truncated": "{} cut at the limit of new tokens",
}


def _told(task: TaskResult) -> Iterator[str]:
    """How many answers had a wrong form, as against a wrong answer, and what cut contexts leave."""
    counts = [
        words.format(f"{task.answers[name]:,}") for name, words in _TOLD.items() if name in task.answers
    ]
    if counts:
        yield ", ".join(counts)
    if cut := task.answers.get("context_cut"):
        verb = "context was" if cut == 1 else "contexts were"
        left = (
            ""
            if task.ceiling is None
            else f"the gold answer is still inside for {task.ceiling:.1f} % (ceiling)"
        )
        yield f"{cut:,} {verb} cut{left and f'; {left}'}"
