"""The page of a plan: published beside measured figures, contrasts, what the runs took, and learning curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from decabench.scoring import find_metric
from decabench.scoring.pairs import holm
from reproduction.curves import make_panels, plot_panels
from reproduction.effort import Effort, count_parameters, measure_effort, settings_of
from reproduction.plan import Contrast, Measure, Place, Plan, Table, task_of, tasks_of
from reproduction.scores import (
    LeftOut,
    Scored,
    Tested,
    compare_rows,
    find_left_out,
    progress,
    read_scores,
    values,
)

NONE = "–"


def show(figures: Sequence[float], digits: int) -> str:
    """Format a mean and, of several figures, their standard deviation."""
    if not figures:
        return NONE
    spread = f" ± {stdev(figures):.{digits}f} ({len(figures)})" if len(figures) > 1 else " (1)"
    return f"{mean(figures):.{digits}f}{spread}"


def as_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, without the columns that have nothing in any line."""
    kept = [at for at in range(len(heads)) if not at or any(line[at] for line in lines)]
    rows = [[heads[at] for at in kept], ["---"] * len(kept), *([line[at] for at in kept] for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def results_table(plan: Plan, table: Table, scored: Scored, place: Place, left_out: LeftOut) -> str:
    """Return a table of published and measured figures."""
    rows = plan.rows_of(table, place.include)
    if table.transposed:
        lines = [
            [name, *(_cell(scored, row, plan.measures[name], place) for row in rows)]
            for name in table.measures
        ]
        return as_table(["", *rows], lines)
    heads, lines = [""], [[row] for row in rows]
    for name in table.measures:
        measure = plan.measures[name]
        remarks = [remark for remark in (measure.remark, "dev" if table.development else "") if remark]
        heads += [f"{name}, paper" + (f" ({', '.join(remarks)})" if remarks else ""), f"{name}, here"]
        for line, row in zip(lines, rows, strict=True):
            published = plan.published_figure(row, name, table.development)
            line += [
                "" if published is None else f"{published:.{measure.digits}f}",
                _cell(scored, row, measure, place),
            ]
        if measure.suite and left_out:
            heads.append(f"{name}, without overlap")
            for line, row in zip(lines, rows, strict=True):
                figures = values(scored, row, measure, place, left_out)
                line.append(show(list(figures.values()), measure.digits))
    return as_table(heads, lines)


def _cell(scored: Scored, row: str, measure: Measure, place: Place) -> str:
    """Format a row's figure; of a suite that is not complete, how many of its tasks are."""
    figures = values(scored, row, measure, place)
    done, of = progress(scored, row, measure, place)
    return (
        show(list(figures.values()), measure.digits)
        if figures or not done
        else f"{NONE} ({done} of {of} tasks)"
    )


def contrast_table(plan: Plan, scored: Scored, place: Place, left_out: LeftOut) -> str:
    """Return the table of contrasts, and below it those that have no runs as yet."""
    found: list[tuple[Contrast, str, bool, Tested | None]] = []
    for contrast in plan.contrasts:
        for name in contrast.measures:
            measure = plan.measures[name]
            found.append((contrast, name, False, compare_rows(contrast, measure, scored, place)))
            if measure.suite and left_out:
                found.append((contrast, name, True, compare_rows(contrast, measure, scored, place, left_out)))
    p_values = {
        str(at): tested.over_seeds.p
        for at, (_, _, is_part, tested) in enumerate(found)
        if not is_part and tested and tested.over_seeds
    }
    adjusted = holm(p_values)
    lines, later = [], []
    for at, (contrast, name, is_part, tested) in enumerate(found):
        measure = plan.measures[name]
        if tested is None:
            later += [contrast.title]
            continue
        digits = measure.digits + 1 if measure.suite else measure.digits
        paper = _published_difference(plan, contrast, name)
        dev = " (dev)" if contrast.development else ""
        lines.append(
            [
                contrast.title,
                f"{name}, without overlap" if is_part else name,
                "" if paper is None or is_part else f"{paper:+.{measure.digits}f}{dev}",
                "" if contrast.claimed is None or is_part else f"{contrast.claimed:+.{measure.digits}f}",
                *_describe(tested, digits),
                f"{adjusted[str(at)]:.4f}" if str(at) in adjusted else NONE,
                *_describe_data(tested, digits),
            ]
        )
    heads = ["", "measure", "paper", "claimed in its text", "here", "95 %, texts", "95 %, texts and seeds"]
    parts = [as_table([*heads, "p", "p (Holm)", "texts", "by seed"], lines)] if lines else []
    if later:
        parts.append(f"Without runs as yet: {'; '.join(dict.fromkeys(later))}.")
    return "\n\n".join(parts)


def _published_difference(plan: Plan, contrast: Contrast, name: str) -> float | None:
    """Return the difference between published figures; None unless all are published."""
    rows = (contrast.row, *contrast.baseline)
    given = [plan.published_figure(row, name, contrast.development) for row in rows]
    known = [figure for figure in given if figure is not None]
    return known[0] - mean(known[1:]) if len(known) == len(given) else None


def _describe(tested: Tested, digits: int) -> tuple[str, str, str, str]:
    """Return the difference, its interval over texts, that over texts and seeds, and its p as texts."""

    def show(*ends: float) -> str:
        return " to ".join(f"{end:+.{digits}f}" for end in ends)

    difference = show(tested.difference)
    if tested.test is None:
        return difference, f"not tested: {tested.remark}", NONE, NONE
    texts, seeds = tested.test.interval(0, 1), tested.over_seeds
    over_texts = NONE if texts is None else show(*texts.ends)
    if seeds is None:
        return difference, over_texts, NONE, NONE
    return difference, over_texts, show(seeds.low, seeds.high), f"{seeds.p:.4f}"


def _describe_data(tested: Tested, digits: int) -> tuple[str, str]:
    """Return the number of texts, and the difference for each seed as texts."""
    examples = f"{tested.examples:,}" if tested.examples else NONE
    return examples, ", ".join(f"{difference:+.{digits}f}" for difference in tested.by_seed.values())


def effort_table(plan: Plan, efforts: Mapping[str, Effort]) -> str:
    """Return the table of what was trained, with what effort."""
    lines = []
    for row, effort in efforts.items():
        runs = plan.runs_of(row)
        tasks = list(dict.fromkeys(task for run in runs for task in run.tasks))
        printed = plan.parameters.get(row)
        lines.append(
            [
                row,
                ", ".join(tasks) if len(tasks) <= 5 else f"{len(tasks)} tasks",
                str(effort.runs),
                "; ".join(settings_of(plan, row)),
                "" if printed is None else f"{printed:,}",
                _span(effort.weights),
                _span(effort.steps),
                NONE if effort.seconds is None else f"{1000 * effort.seconds:.0f}",
                NONE if effort.minutes is None else f"{effort.minutes:.0f}",
                ", ".join(f"{seed}: {done} of {effort.runs}" for seed, done in effort.done.items()),
            ]
        )
    paper = "weights, paper" + (f" ({plan.parameters_remark})" if plan.parameters_remark else "")
    heads = [
        "",
        "tasks",
        "models a seed",
        "settings",
        paper,
        "weights of a model, here",
        "steps",
        "ms a step",
    ]
    return as_table([*heads, "minutes a seed", "runs done, by seed"], lines)


def _span(ends: tuple[int, int] | None) -> str:
    if ends is None:
        return NONE
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def count_table(plan: Plan) -> str:
    """Return the table of worked examples of numbers of parameters."""
    lines = [
        [count.name, f"{count.printed:,}", f"{count_parameters(count):,}", count.remark]
        for count in plan.counts
    ]
    return as_table(["", "printed", "counted here", "remark"], lines)


def describe_progress(plan: Plan, place: Place) -> str:
    """Say in a paragraph which runs are done, seed by seed."""
    seeds = sorted({seed for run in plan.runs for seed in plan.seeds_of(run)})
    parts, whole = [], True
    for seed in seeds:
        runs = [run for run in plan.runs if seed in plan.seeds_of(run)]
        done = sum(place.results(plan, run, seed).exists() for run in runs)
        whole = whole and done == len(runs)
        parts.append(f"{done} of {len(runs)} with seed {seed}")
    return f"Runs done: {', '.join(parts)}." + (
        "" if whole else " The figures below are of these, and change as others are added."
    )


def describe_left_out(plan: Plan, place: Place, left_out: LeftOut) -> str:
    """Say how many texts stand in training data, of how many tasks."""
    count = sum(len(ids) for ids in left_out.values())
    splits = " or ".join(plan.overlap)
    return (
        f"*Without overlap* leaves out the {count:,} texts of the {plan.split} split that stand word for word in the "
        f"{splits} split of a task of the suite, their own or another."
    )


def lower_is_better(plan: Plan, place: Place) -> list[str]:
    """Return the measures of which less is better."""
    return [
        name
        for name, measure in plan.measures.items()
        if not all(
            find_metric(task_of(task, place.include).metric).higher_is_better
            for task in tasks_of(measure, place.include)
        )
    ]


def plot_curves(plan: Plan, place: Place, tables: Sequence[Table], page: Path) -> Iterator[str]:
    """Write a picture of learning curves for each table that has any, and yield the lines that show them.

    After the first, a table has one only if it has rows to compare.
    """
    for old in page.parent.glob(f"{page.stem}-[0-9]*.png"):
        old.unlink()
    for number, table in enumerate(tables, 1):
        panels = list(make_panels(plan, place, table))
        if any(number == 1 or len(panel.curves) > 1 for panel in panels):
            picture = page.with_name(f"{page.stem}-{number}.png")
            plot_panels(panels, picture)
            yield f"![Validation scores by {panels[0].unit}: {table.title or 'all rows'}]({picture.name})"


def make_page(plan: Plan, place: Place, page: Path) -> str:
    """Return the page of what is done so far, and write its plot beside it."""
    scored, left_out = read_scores(plan, place), find_left_out(plan, place)
    tables = plan.tables or (Table("", tuple(plan.measures)),)
    parts = [
        f"# {plan.title}",
        f"{plan.paper}. Scores of the {plan.split} split: mean ± standard deviation (number of seeds).",
        describe_progress(plan, place),
        *plan.notes,
    ]
    if left_out:
        parts.append(describe_left_out(plan, place, left_out))
    for table in tables:
        parts += [f"## {table.title}"] if table.title else []
        parts += [table.text] if table.text else []
        parts.append(results_table(plan, table, scored, place, left_out))
    if plan.contrasts:
        lower = lower_is_better(plan, place)
        parts += [
            "## Contrasts",
            "Paired comparisons on the same texts, with the answers of all seeds pooled. The first interval says what "
            "other texts would give, for these seeds: it is about these models. The second says what other seeds would "
            "give too, by Student's t: it is about the ways to train them, and so are p, p (Holm), which is adjusted "
            "for all contrasts of this table on all texts, and no p for a single seed. The last column says what each "
            "seed gives." + (f" Of {', '.join(lower)}, less is better." if lower else ""),
            contrast_table(plan, scored, place, left_out),
        ]
    if plan.counts:
        parts += ["## Parameters of the paper's example", count_table(plan)]
    parts += [
        "## Runs",
        "Weights are without embeddings; seconds are of the machine and of what else it was doing.",
        effort_table(plan, {row: measure_effort(plan, place, row) for row in plan.rows}),
    ]
    if curves := list(plot_curves(plan, place, tables, page)):
        parts += ["## Learning curves", *curves]
    return "\n\n".join(parts) + "\n"


def write_page(plan: Plan, place: Place, page: Path) -> None:
    """Write the page, and its plot beside it."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(make_page(plan, place, page), encoding="utf-8")
