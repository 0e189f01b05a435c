"""`decabench run`: from data to a compared score, as one file says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands._console import (
    TableColumn,
    echo,
    folded,
    is_set,
    note,
    print_json,
    print_table,
    start_clock,
    write_json,
)

if TYPE_CHECKING:
    from rich.console import Console

    from decabench.runs import Experiment, Forecast, Outcome, Plan, Report
    from decabench.scoring import Comparison, TaskResult

__all__ = ["run"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting in place of the file's, such as predict.limit=20 or output=runs/one; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be prepared and asked, and write nothing.")
@click.pass_context
def run(context: click.Context, file: Path | None, settings: tuple[str, ...], dry_run: bool) -> None:
    """Prepare data, ask a model, check, score and compare its answers, as FILE (TOML) says.

    \b
    predictor = "hf:Qwen/Qwen3-0.6B"      # as for decabench predict
    output = "runs/qwen"                  # the submission
    tasks = ["sst", "squad"]              # or suite = "decathlon"
    baselines = ["majority"]              # names, or folders of submissions
    [prepare]
    mirror = "/data/decabench"
    [predict]                             # any option of decabench predict
    shots = 3

    What is done is not done again: after an interruption, run the same command once more. FILE is kept in the
    submission as run.toml. Without FILE, all comes from --set. Exits as decabench predict and decabench evaluate do.
    """
    from decabench.workers import watched_process

    if context.obj == "console":  # now, before a library starts threads
        context.with_resource(watched_process())

    from decabench.commands.predict import Prices, show_progress, write_record
    from decabench.runs import forecast, read_experiment, run_experiment

    if file is None and not settings:
        raise click.UsageError("Give a file, or settings as --set KEY=VALUE.")
    experiment = read_experiment(file, settings)
    if dry_run:
        _print_forecast(experiment, forecast(experiment))
        return
    clock = start_clock()

    def record(plan: Plan, report: Report) -> None:
        if any(tally.answered for tally in report.tallies):  # or the record is of the run that asked
            write_record(plan, report, clock, Prices(None, None))

    with show_progress() as progress:
        done = run_experiment(experiment, progress, note, record=record)
    write_json(_to_json(experiment, done)) if is_set("json") else _print(experiment, done)
    context.exit(done.exit_code)


def _print_forecast(experiment: Experiment, found: Forecast) -> None:
    from decabench.commands.predict import Prices, estimated, print_estimate

    if is_set("json"):
        from decabench.commands._documents import ForecastDocument

        tasks = estimated(found.estimates, Prices(None, None))
        print_json(ForecastDocument(to_prepare=dict(found.missing), tasks=tasks))
        return
    for task, splits in found.missing.items():
        echo(f"{task}: {', '.join(splits)} would be prepared")
    if found.estimates:
        print_estimate(found.estimates, Prices(None, None), "try --set predict.limit=50 without --dry-run")
    else:
        echo(
            f"What {experiment.predictor} would be asked is known once this data is there. Nothing was asked."
        )


def _to_json(experiment: Experiment, done: Outcome) -> str:
    import json

    from decabench.scoring import without_digests

    results = without_digests(done.results, experiment.home, experiment.include)
    content = {
        "format": "decabench.outcome/1",
        "submission": str(done.folder),
        "results": json.loads(results.to_json()),
        "comparisons": {name: json.loads(each.to_json()) for name, each in done.comparisons.items()},
        "not_compared": dict(done.not_compared),
        "faults": done.check.exit_code != 0,
        "failed": done.report.failed,
    }
    return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def _print(experiment: Experiment, done: Outcome) -> None:
    from decabench.commands._console import console
    from decabench.scoring import show_interval

    out = console()
    results = done.results
    out.print(f"{results.submission['name']}, {results.split}", style="bold")
    _print_scores(out, done)
    if results.total.score is not None and results.total.complete:
        ends = show_interval(results.interval, results.total_digits)
        interval = f" (95 %: {ends})" if results.interval else ""
        out.print(f"{results.suite.total_name}: {results.total.text}{interval}", style="bold")
    for name, found in done.comparisons.items():
        out.print(f"\nAgainst {name}", style="bold")
        _print_differences(out, found)
        if (sentence := found.describe_correction()) and not is_set("quiet"):
            out.print(folded(sentence))
        for task, reason in found.not_compared.items():
            out.print(folded(f"{task}: not compared, {reason}"), soft_wrap=True)
    for name, reason in done.not_compared.items():
        out.print(folded(f"\nNot compared with {name}: {reason}"), soft_wrap=True)
    out.print()
    advice = () if is_set("quiet") else _next(experiment, done)
    for sentence in (*_amiss(experiment, done), *advice):
        out.print(sentence, soft_wrap=True)


def _print_scores(out: Console, done: Outcome) -> None:
    from decabench.commands._console import format_count, headline_name
    from decabench.scoring import score_digits, show_interval

    rows = []
    for name, task in done.results.tasks.items():
        digits = score_digits(name, task.metric)
        figures = [_score(task, digits), show_interval(task.interval, digits), format_count(task.n)]
        rows.append([name, headline_name(task), *figures])
    columns = [TableColumn(heading, right=True) for heading in ("score", "95 %", "n")]
    print_table(out, [TableColumn("task"), TableColumn("metric"), *columns], rows)


def _score(task: TaskResult, digits: int) -> str:
    if task.score is None:
        return "failed"
    return f"{task.score:.{max(2, digits)}f}{' partial' if task.status == 'partial' else ''}"


def _print_differences(out: Console, found: Comparison) -> None:
    from decabench.scoring import show_difference, show_p

    total = {found.suite.total_name: found.total} if found.total else {}
    rows = []
    for name, each in {**found.tasks, **total}.items():
        arrow = "" if each.higher_is_better else " ↓"
        ends = show_difference(each.interval, each.same, each.digits)
        figures = [f"{each.a:.{each.digits}f}", f"{each.difference:+.{each.digits}f}"]
        corrected = show_p(each.p_holm) if name in found.tasks else ""
        rows.append([f"{name}{arrow}", *figures, ends, show_p(each.p), corrected])
    headings = ("theirs", "difference", "95 %", "p", "p (Holm)")
    columns = [TableColumn(heading, right=True) for heading in headings]
    print_table(out, [TableColumn("task"), *columns], rows)


def _amiss(experiment: Experiment, done: Outcome) -> Iterator[str]:
    """Yield what keeps the scores from being whole."""
    from decabench.commands.predict import describe_failures, describe_forms, describe_leftovers
    from decabench.scoring import SAMPLE_NOTE

    yield from describe_failures(done.report)
    for tally in done.report.tallies:
        yield from describe_forms(tally)
    for name, task in done.results.tasks.items():
        if task.status == "failed":
            yield f"Failed: {name}: {task.reason}"
        if task.status == "partial":
            yield f"Partial: {name}: a limited run, left out of totals, rankings and comparisons."
    if experiment.baselines and _is_limited(done):
        yield f"Not compared with {', '.join(experiment.baselines)}: limited runs are compared with nothing."
    for fault in done.check.warnings:
        if fault.code == "answer-format":
            yield f"{fault.file}: {fault.message}."
    yield from describe_leftovers(done.report, experiment.predictor)
    if done.check.exit_code:
        yield f"The submission has faults: decabench check --submission {done.folder}"
    if any(task.data.origin == "sample" for task in done.results.tasks.values()):
        yield SAMPLE_NOTE


def _is_limited(done: Outcome) -> bool:
    return any(task.status == "partial" for task in done.results.tasks.values())


def _next(experiment: Experiment, done: Outcome) -> Iterator[str]:
    """Yield what to do with the submission now."""
    from shlex import quote

    folder, above = quote(str(done.folder)), quote(str(done.folder.parent))
    home = f" --home {quote(str(experiment.home))}" if experiment.home else ""
    home += "".join(f" --include {quote(str(path))}" for path in experiment.include)
    suite = f" --suite {experiment.suite}" if experiment.suite else ""
    split = f" --split {experiment.split}" if experiment.split != "validation" else ""
    yield f"Submission: {done.folder}"
    task = next(iter(done.results.tasks))
    yield f"What it got wrong: decabench show {folder} --task {task} --wrong{split}{home}"
    yield f"Every score: decabench evaluate {folder} --all-scores{suite}{split}{home}"
    if _is_limited(done):
        limits = " and ".join(f"predict.{name}" for name in ("limit", "ids") if name in experiment.predict)
        yield f"Compare it: run this again without {limits}, which keeps what was answered."
    elif not done.comparisons:
        yield f"Compare it with another: decabench compare OTHER {folder}{suite}{split}{home}"
    yield f"A page of it: decabench leaderboard --submissions {above} --output site{home}"
