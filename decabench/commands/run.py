"""`decabench run`: prepare data, predict, evaluate and compare, as described in one file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands import _options
from decabench.commands._console import (
    TableColumn,
    console,
    echo,
    is_set,
    print_json,
    print_table,
    show_progress,
    write_json,
)
from decabench.options import option
from decabench.text import excerpt

if TYPE_CHECKING:
    from decabench.commands._documents import OutcomeDocument
    from decabench.runs import Experiment, Forecast, Outcome, Plan, Report
    from decabench.scoring import Browsed, Comparison


@click.command()
@click.argument("file", type=_options.EXISTING_FILE, required=False)
@_options.with_options
@click.pass_context
def run(
    context: click.Context,
    file: Path | None,
    settings: tuple[str, ...] = option(
        (),
        "Override a setting in the file, such as predict.limit=20 or output=runs/one. Can be repeated.",
        flag="--set",
        metavar="KEY=VALUE",
        variable="DECABENCH_RUN_SET",
    ),
    dry_run: bool = option(
        False,
        "Print which data would be prepared and how many questions would be asked, without writing anything.",
    ),
) -> None:
    """Prepare data, ask a model, and check, score and compare its answers, as described in FILE (TOML).

    \b
    predictor = "hf:Qwen/Qwen3-0.6B"      # as for decabench predict
    output = "runs/qwen"                  # the submission
    tasks = ["sst", "squad"]              # or suite = "decathlon"
    baselines = ["majority"]              # names, or folders of submissions
    board = "site"                        # a folder for a board
    [prepare]
    mirror = "/data/decabench"
    [predict]                             # any option of decabench predict
    shots = 3

    For several models, write a [[models]] table for each, with its own predictor and [models.predict]. All pairs of
    models are compared. If a model fails, the others still run.

    Completed steps are skipped: after an interruption, run the same command again. FILE is kept in the submission as
    run.toml. Without FILE, all settings come from --set. The exit codes are the same as for decabench predict and
    decabench evaluate.
    """
    from decabench.commands.predict import write_record
    from decabench.errors import DecabenchError, ModelError
    from decabench.runs import forecast, read_experiments, require_settings, run_experiment

    if file is None and not settings:
        raise click.UsageError("There is nothing to run. Specify a file, or settings with --set KEY=VALUE.")
    experiments = read_experiments(file, settings)
    if dry_run:
        for experiment in experiments:
            _print_forecast(experiment, forecast(experiment))
        return
    for each in experiments:  # report a mistake in the last model's settings before the first model answers
        require_settings(each)
    started = time.monotonic()

    def record(plan: Plan, report: Report) -> None:
        if any(tally.answered for tally in report.tallies):  # otherwise, keep the record of the earlier run
            write_record(plan, report, started)

    progress = show_progress()
    finished: list[tuple[Experiment, Outcome]] = []
    failed: dict[Path, str] = {}
    try:
        for each in experiments:
            try:
                finished.append((each, run_experiment(each, progress, progress.say, record)))
            except DecabenchError as error:  # the other models don't need this one
                if len(experiments) == 1:
                    raise
                failed[each.output] = str(error)
        if finished and experiments[-1].board is not None:
            progress.say("Board")
        board = _write_board(experiments[-1]) if finished else ""
    finally:
        progress.close()
    if len(finished) > 1:
        _print_lineup(finished)
    for experiment, done in finished if len(finished) == 1 else ():
        print_json(_document(experiment, done)) if is_set("json") else _print(experiment, done, board)
    for folder, reason in failed.items():
        echo(f"Failed: {folder}: {reason}", err=True)
    codes = [done.exit_code for _, done in finished]
    context.exit(max([*codes, ModelError.exit_code] if failed else codes))


def _print_lineup(finished: Sequence[tuple[Experiment, Outcome]]) -> None:
    from decabench.commands.compare import print_lineup
    from decabench.scoring import compare_all

    first, results = finished[0][0], finished[0][1].results
    lineup = compare_all(
        [done.folder for _, done in finished],
        first.split,
        list(results.tasks),
        first.home,
        first.jobs or 1,
        first.include,
        results.suite,
        first.compare.seed,
    )
    if is_set("json"):
        write_json(lineup.to_json())
        return
    print_lineup(lineup)
    said: dict[str, list[str]] = {}
    for experiment, done in finished:
        for sentence in _amiss(experiment, done):
            said.setdefault(sentence, []).append(str(done.results.submission["name"]))
    for sentence, names in said.items():
        echo(sentence if len(names) == len(finished) else f"{', '.join(names)}: {sentence}")


def _print_forecast(experiment: Experiment, found: Forecast) -> None:
    from decabench.commands.predict import print_estimate

    if is_set("json"):
        from decabench.commands._documents import ForecastDocument

        print_json(ForecastDocument(to_prepare=dict(found.missing), tasks=list(found.estimates)))
        return
    for task, splits in found.missing.items():
        echo(f"{task}: {', '.join(splits)} would be prepared")
    if found.estimates:
        first_run = "run without --dry-run and with --set predict.limit=50, then repeat this command"
        print_estimate(found.estimates, first_run)
    else:
        echo(
            f"To see how many questions {experiment.predictor} would be asked, prepare this data first. "
            "No questions were asked."
        )


def _write_board(experiment: Experiment) -> str:
    if experiment.board is None:
        return ""
    from decabench.leaderboard import BoardOptions, build_leaderboard

    options = BoardOptions(experiment.home, include=experiment.include)
    site = build_leaderboard(experiment.output.parent, experiment.board, options)
    return site.index.resolve().as_uri()


def _document(experiment: Experiment, done: Outcome) -> OutcomeDocument:
    import json

    from decabench.commands._documents import OutcomeDocument
    from decabench.scoring import without_digests

    results = without_digests(done.results, experiment.home, experiment.include)
    return OutcomeDocument(
        submission=str(done.folder),
        results=json.loads(results.to_json()),
        comparisons={name: json.loads(each.to_json()) for name, each in done.comparisons.items()},
        not_compared=done.not_compared,
        faults=done.check.exit_code != 0,
        failed=done.report.failed,
    )


def _print(experiment: Experiment, done: Outcome, board: str) -> None:
    results, out = done.results, console()
    for name, found in done.comparisons.items() or [("", None)]:
        against = f" against {name}" if name else ""
        out.print(f"{results.submission['name']}{against}, {results.split}", style="bold")
        _print_scores(done, found)
        if found is not None:
            if (sentence := found.describe_correction()) and not is_set("quiet"):
                out.print(sentence)
            for task, reason in found.not_compared.items():
                out.print(f"{task}: not compared, because {reason}")
    for name, reason in done.not_compared.items():
        out.print(f"Not compared with {name}: {reason}")
    for sentence in _amiss(experiment, done):
        out.print(sentence)
    if is_set("quiet"):
        return
    if wrong := _wrong_answers(experiment, done):
        out.print("\nWrong answers", style="bold")
    for each in wrong:
        said = [repr(excerpt(text, 30)) for text in (each.row.prediction or "", each.row.references[0])]
        out.print(f" {each.row.id}: {said[0]}, not {said[1]}")
        out.print(f"   {excerpt(f'{each.question} {each.context}', out.width - 4)}", style="dim")
    out.print()
    for sentence in _next(experiment, done, board):
        out.print(sentence, soft_wrap=True)


def _print_scores(done: Outcome, found: Comparison | None) -> None:
    from decabench.commands.evaluate import score_row
    from decabench.scoring import show_difference, show_interval, show_p

    results = done.results
    rows = [score_row(name, task)[:5] for name, task in results.tasks.items()]
    is_complete = results.total.score is not None and results.total.complete
    if is_complete:
        ends = show_interval(results.interval, results.total_digits) if results.interval else ""
        rows.append([results.suite.total_name, "", results.total.text, ends, ""])
    columns = [TableColumn("task"), TableColumn("metric", rank=4), TableColumn("score", right=True)]
    columns += [TableColumn("95%", right=True, rank=2), TableColumn("n", right=True, rank=6)]
    if found is not None:
        total = {results.suite.total_name: found.total} if found.total else {}
        compared = {**found.tasks, **total}
        for row in rows:
            each = compared.get(row[0])
            if each is None:
                row += [""] * 5
                continue
            ends = show_difference(each.interval, each.same, each.digits)
            corrected = show_p(each.p_holm) if row[0] in found.tasks else ""
            row += [
                f"{each.a:.{each.digits}f}",
                f"{each.difference:+.{each.digits}f}",
                ends,
                show_p(each.p),
                corrected,
            ]
        ranks = {"baseline": 3, "difference": 0, "95%": 0, "p": 5, "p (Holm)": 1}
        columns += [TableColumn(heading, right=True, rank=rank) for heading, rank in ranks.items()]
    print_table(console(), columns, rows, int(is_complete), more="")


def _wrong_answers(experiment: Experiment, done: Outcome) -> list[Browsed]:
    """Return up to three wrong answers, from the first three tasks that have any.

    Tasks with hidden labels are left out.
    """
    from decabench.errors import DecabenchError
    from decabench.scoring import Chosen, ScoringOptions, browse_examples, find_examples

    options = ScoringOptions(
        experiment.split,
        home=experiment.home,
        include=experiment.include,
        answers=experiment.evaluate.answers,
    )
    found = []
    for name in done.results.tasks:
        try:
            examples = find_examples(done.folder, name, options)
        except DecabenchError:  # the labels are hidden, or the task failed, which is reported above
            continue
        wrong = browse_examples(examples, Chosen(right=False, order="loss"))
        if some := [each for each in islice(wrong, 3) if each.row.references]:
            found.append(some)
        if len(found) == 3:
            break
    return list(islice(filter(None, chain.from_iterable(zip_longest(*found))), 3))


def _amiss(experiment: Experiment, done: Outcome) -> Iterator[str]:
    from decabench.commands.predict import describe_answers
    from decabench.scoring import SAMPLE_NOTE

    yield from describe_answers(done.report, experiment.predictor)
    for name, task in done.results.tasks.items():
        if task.status == "failed":
            yield f"Failed: {name}: {task.reason}"
        if task.status == "partial":
            yield f"Partial: {name}: a limited run, excluded from totals and rankings."
    for fault in done.check.warnings:
        if fault.code == "answer-format":
            yield f"{fault.file}: {fault.message}."
    if done.check.exit_code:
        yield f"The submission has faults. To see them, run decabench check --submission {done.folder}"
    if any(task.data.origin == "sample" for task in done.results.tasks.values()):
        yield SAMPLE_NOTE


def _next(experiment: Experiment, done: Outcome, board: str) -> Iterator[str]:
    from shlex import quote

    folder, above = quote(str(done.folder)), quote(str(done.folder.parent))
    home = f" --home {quote(str(experiment.home))}" if experiment.home else ""
    home += "".join(f" --include {quote(str(path))}" for path in experiment.include)
    suite = f" --suite {experiment.suite}" if experiment.suite else ""
    split = f" --split {experiment.split}" if experiment.split != "validation" else ""
    task = next(iter(done.results.tasks))
    yield f"More wrong answers: decabench show {folder} --task {task} --wrong{split}{home}"
    yield f"All scores: decabench evaluate {folder} --all-scores{suite}{split}{home}"
    if not done.comparisons:
        yield f"Compare with another submission: decabench compare OTHER {folder}{suite}{split}{home}"
    if board:
        yield f"Board: {board}"
    else:
        yield f"Build a board: decabench leaderboard --submissions {above} --output site{home}"
