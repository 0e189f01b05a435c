"""`decabench compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands import _options
from decabench.commands._console import (
    TableColumn,
    changed_since,
    console,
    echo,
    format_count,
    is_set,
    print_field,
    print_table,
    shortened,
    write_json,
)
from decabench.options import option

if TYPE_CHECKING:
    from decabench.scoring import Comparison, Lineup

_MOST_OF_A_TEXT = 300
"""The maximum number of characters of a context or answer to show."""


@click.command()
@click.argument("submissions", type=_options.EXISTING, nargs=-1, required=True)
@_options.with_options
@click.pass_context
def compare(
    context: click.Context,
    submissions: tuple[Path, ...],
    tasks: tuple[str, ...] = _options.TASKS,
    suite: str | None = _options.SUITE,
    split: _options.ScoredSplit = option("validation", "Split to compare on."),
    seed: int = option(0, "Random seed for resampling.", at_least=0),
    flips: int = option(3, "Number of worst regressions to show per task.", at_least=0),
    html: Path | None = option(None, "Also write the comparison as an HTML page.", type=_options.FILE),
    fail_on_regression: tuple[str, ...] = option(
        (),
        "Exit with code 1 if B is worse than A by more than POINTS on TASK (a task or decascore). Can be repeated.",
        metavar="TASK:POINTS",
    ),
    alpha: float | None = option(
        None,
        "With --fail-on-regression, ignore losses with a p-value of P or more, which may be due to chance.",
        metavar="P",
        above=0,
        at_most=1,
    ),
    each: bool = option(False, "Give each submission its own row, even if several belong to the same model."),
    home: Path | None = _options.HOME,
    jobs: int = _options.JOBS,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Test whether two submissions differ on each task, or compare every pair of several submissions.

    The submissions A and B are scored on the prepared data. Each difference has a 95% interval and a two-sided
    p-value, which are consistent with each other and with the leaderboard. A second p-value is corrected for the
    number of tasks (Holm's method). Whole units, such as articles or dialogues, are resampled. The examples on which B
    loses the most are shown.

    With more than two submissions, all pairs are tested, and the p-values are corrected for the number of tests. Runs
    of the same model with different seeds, prompts or wordings share a row with their mean and spread, unless --each
    is used. A folder of submissions stands for all submissions in it.
    """
    from decabench.scoring import compare as run
    from decabench.scoring import compare_all
    from decabench.tasks import choose_tasks, select_suite

    allowed = [_limit(text) for text in fail_on_regression]
    if alpha is not None and not allowed:
        raise click.UsageError(
            "--alpha requires --fail-on-regression TASK:POINTS. Add that option, or leave out --alpha."
        )
    reported, names = select_suite(suite, include), choose_tasks(tasks, suite, include)
    submissions = tuple(each for path in submissions for each in _submissions_in(path))
    if len(submissions) == 1:
        raise click.UsageError("A comparison requires at least two submissions, but only one was specified.")
    if len(submissions) > 2 or each:
        if html or allowed:
            raise click.UsageError(
                "--html and --fail-on-regression require exactly two submissions and can't be used with --each."
            )
        lineup = compare_all(submissions, split, names, home, jobs, include, reported, seed, each)
        write_json(lineup.to_json()) if is_set("json") else print_lineup(lineup)
        for sentence in changed_since(lineup.examples, split, home, include):
            echo(sentence, err=True)
        return
    a, b = submissions
    found = run(a, b, split, names, home, jobs, include, reported, seed, flips)
    broken = [sentence for name, points in allowed if (sentence := _regression(found, name, points, alpha))]
    write_json(found.to_json()) if is_set("json") else _print(found)
    for sentence in changed_since(found.tasks, split, home, include):
        echo(sentence, err=True)
    if html:
        from decabench.leaderboard import write_comparison_page

        write_comparison_page(found, html)
        echo(f"Page: {html.resolve().as_uri()}", wrap=False)
    for sentence in broken:
        echo(sentence, err=True)
    context.exit(1 if broken else 0)


def _submissions_in(path: Path) -> list[Path]:
    from decabench.submission import METADATA_NAME

    inside = sorted(found.parent for found in path.glob(f"*/{METADATA_NAME}"))
    return inside if inside and not (path / METADATA_NAME).exists() else [path]


def _limit(text: str) -> tuple[str, float]:
    name, _, points = text.rpartition(":")
    try:
        limit = float(points)
    except ValueError:
        limit = -1.0
    if not name or not 0 <= limit < float("inf"):
        raise click.UsageError(
            f"--fail-on-regression must have the form TASK:POINTS, such as squad:0.5, but got {text!r}."
        )
    return name, limit


def _regression(found: Comparison, name: str, points: float, alpha: float | None) -> str:
    from decabench.scoring import show_p

    totals = {found.suite.total_name.lower(): found.total, "total": found.total} if found.total else {}
    compared = {**totals, **found.tasks}.get(name)
    if compared is None:
        known = ", ".join((*found.tasks, *list(totals)[:1]))
        raise click.UsageError(
            f"--fail-on-regression names {name!r}, which was not compared. Choose one of {known}."
        )
    is_chance = alpha is not None and compared.p is not None and compared.p >= alpha
    if compared.gain >= -points or is_chance:
        return ""
    loss = f"{-compared.gain:.{compared.digits}f} points, more than the allowed {points:g} (p {show_p(compared.p)})"
    return f"Regression: on {name}, B is worse than A by {loss}."


def _print(found: Comparison) -> None:
    from decabench.scoring import SAMPLE_NOTE, show_units

    out = console()
    a, b = found.labels
    line = f"A {a}   B {b}   {found.split}"
    out.print(line if len(line) <= out.width else f"A {a}\nB {b}\n{found.split}", style="bold")
    columns = [
        TableColumn(heading, right=at > 0, rank=1 if at > 6 else 0)
        for at, heading in enumerate(found.HEADINGS)
    ]
    print_table(out, columns, list(found.rows()), totals=1 if found.total else 0)
    if not all(compared.higher_is_better for compared in found.tasks.values()):
        out.print("↓ lower is better")
    if units := [f"{task} {text}" for task, one in found.tasks.items() if (text := show_units(one.units))]:
        out.print(f"Resampled: {'; '.join(units)}.")
    if sentence := found.describe_subsets():
        out.print(sentence)
    if (sentence := found.describe_correction()) and not is_set("quiet"):
        out.print(sentence)
    for task, reason in found.not_compared.items():
        out.print(f"{task}: not compared, because {reason}")
    if found.on_sample:
        out.print(SAMPLE_NOTE)
    if hidden := [task for task, compared in found.tasks.items() if compared.hidden]:
        out.print(f"No examples are shown for {', '.join(hidden)}, because the labels are hidden.")
    for task, compared in found.tasks.items():
        for flip in compared.worst:
            out.print(f"\n{task}, {flip.id}: B is worse here ({-flip.loss:.4f} points)", style="bold")
            print_field(out, "  question", flip.question)
            print_field(out, "  context", shortened(flip.context, _MOST_OF_A_TEXT))
            print_field(out, "  gold", shortened(" | ".join(dict.fromkeys(flip.gold)), _MOST_OF_A_TEXT))
            print_field(out, "  A", shortened(flip.a, _MOST_OF_A_TEXT))
            print_field(out, "  B", shortened(flip.b, _MOST_OF_A_TEXT))


def print_lineup(found: Lineup) -> None:
    """Print a row for each model, then a row for each task and pair of models."""
    from decabench.scoring import show_interval, show_p

    out = console()
    total = found.suite.total_name
    names = [*found.examples, *([total] if total in found.pairs else [])]
    digits = {name: found.digits.get(name, 2) for name in names}
    labels = found.labels
    columns = [TableColumn("model", is_text=True), TableColumn("runs", right=True)]
    rows = []
    for label, row in zip(labels, found.rows, strict=True):
        cells = [f"{row.scores[name]:.{digits[name]}f}" for name in names]
        if row.spread:
            ends = (show_interval(row.spread[name], digits[name]) for name in names)
            cells = [f"{cell} ({spread})" for cell, spread in zip(cells, ends, strict=True)]
        rows.append([label, format_count(len(row.paths)), *cells])
    out.print(f"{len(found.rows)} models, {found.split}", style="bold")
    print_table(out, [*columns, *(TableColumn(name, right=True) for name in names)], rows)

    def pair_rows(models: Sequence[str]) -> list[list[str]]:
        return [
            [
                name,
                models[pair.a],
                models[pair.b],
                f"{pair.difference:+.{digits[name]}f}",
                show_interval(pair.interval, digits[name], sign="+"),
                show_p(pair.p),
                show_p(pair.p_holm),
            ]
            for name in names
            for pair in found.pairs[name]
        ]

    if pairs := pair_rows(labels):
        if sum(2 + max(map(len, cells)) for cells in zip(*pairs, strict=True)) > out.width:
            pairs = pair_rows([label.split()[0] for label in labels])  # the table above explains the numbers
        headings = ("B - A", "95%", "p", "p (Holm)")
        texts = [TableColumn("task"), TableColumn("A", is_text=True), TableColumn("B", is_text=True)]
        print_table(out, [*texts, *(TableColumn(each, right=True) for each in headings)], pairs)
    if any(row.spread for row in found.rows):
        out.print(
            "For a model with several runs, the score is their mean, with the lowest and highest in parentheses."
        )
    if found.of:
        parts = ", ".join(f"{task} {found.examples[task]:,} of {of:,}" for task, of in found.of.items())
        out.print(f"Compared only on the answered examples: {parts}.")
    for task, reason in found.not_compared.items():
        out.print(f"{task}: not compared, because {reason}")
