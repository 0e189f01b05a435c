"""The page of a plan: published beside measured figures, contrasts, what the runs took, and learning curves."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from decabench.errors import DataError
from decabench.metrics import METRICS
from decabench.scoring import DataUsed, find_metric
from decabench.scoring.pairs import holm
from reproduction.costs import cost_lines, plot_costs, read_costs
from reproduction.curves import make_panels, plot_panels
from reproduction.effort import Effort, count_parameters, measure_effort, settings_of, show_setting
from reproduction.plan import Contrast, Measure, Place, Plan, Run, Table, task_of, tasks_of
from reproduction.scores import (
    FIXED,
    LeftOut,
    Scored,
    Spread,
    Tested,
    compare_rows,
    find_left_out,
    kinds_of_rows,
    leave_out,
    progress,
    read_scores,
    seed_spread,
    spread_over_seeds,
    values,
)

NONE = "–"
SIGNIFICANT = 0.05
LEGEND = f"""Each line compares two rows on the same test texts. *95 %, texts*: how far the difference might move
with other test texts, for these trained models. *95 %, texts and seeds*: how far it might move with other texts and
other seeds; use this one to compare methods. It needs several seeds in at least some rows: where it is {NONE}, draw
no conclusion about methods. p belongs to the second interval; p (Holm) is corrected for all planned contrasts;
docs/statistics.md says how. Texts that were sampled together, such as a document's sentences, are a group; groups of
unlike size count as fewer, *effective* ones. A claim of the paper is *confirmed* if the interval over texts and seeds
lies on its side of zero, *contradicted* if on the other, and *open* if zero is within it. *Too few seeds*: there is no
such interval. *Larger*, *smaller*: than the paper's difference, which is outside the interval. *One seed*: a row has a
single one, and how much its seeds differ is only known from other rows; *one seed each*: all rows do. *Not after
Holm*: p (Holm) is {SIGNIFICANT} or more, so that one among so many contrasts may well be chance."""


def show(by_seed: Mapping[int, float], digits: int) -> str:
    """Format the mean of a row's figures by seed and, of several, their standard deviation."""
    figures = list(by_seed.values())
    if not figures:
        return NONE
    if FIXED in by_seed:
        return f"{figures[0]:.{digits}f}"
    spread = f" ± {stdev(figures):.{digits}f} ({len(figures)})" if len(figures) > 1 else " (1)"
    return f"{mean(figures):.{digits}f}{spread}"


def as_table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, without the columns that have nothing in any line."""
    kept = [at for at in range(len(heads)) if not at or any(line[at] for line in lines)]
    cells = [[text.replace("|", "\\|") for text in line] for line in (heads, *lines)]
    head, *rows = ([line[at] for at in kept] for line in cells)
    rows = [head, ["---"] * len(kept), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def results_table(
    plan: Plan, table: Table, scored: Scored, place: Place, without: Scored | None = None
) -> str:
    """Return a table of published and measured figures: of the rows that have a measured one.

    `without`, if given, are the scores without overlap; of a suite they stand beside the others.
    It is empty if none has, and if there is one row of several that a table names to compare.
    """
    rows = [
        row
        for row in plan.rows_of(table, place.include)
        if any(progress(scored, row, plan.measures[name], place)[0] for name in table.measures)
    ]
    if len(rows) < min(2, len(table.rows) or 1):
        return ""
    if table.transposed:
        lines = [
            [name, *(_cell(scored, row, plan.measures[name], place) for row in rows)]
            for name in table.measures
        ]
        return as_table(["", *rows], lines)
    heads, lines = [""], [[row] for row in rows]
    for name in table.measures:
        measure = plan.measures[name]
        heads += [f"{name}, paper" + _remarks(measure, table.development), f"{name}, here"]
        for line, row in zip(lines, rows, strict=True):
            published = plan.published_figure(row, name, table.development, place.include)
            line += [
                "" if published is None else f"{published:.{measure.digits}f}",
                _cell(scored, row, measure, place),
            ]
        if measure.suite and without is not None:
            heads.append(f"{name}, without overlap")
            for line, row in zip(lines, rows, strict=True):
                figures = values(without, row, measure, place)
                line.append(show(figures, measure.digits))
    return as_table(heads, lines)


def _remarks(measure: Measure, development: bool) -> str:
    """Return in brackets what to know of published figures; empty if there is nothing."""
    remarks = [remark for remark in (measure.remark, "dev" if development else "") if remark]
    return f" ({', '.join(remarks)})" if remarks else ""


def _cell(scored: Scored, row: str, measure: Measure, place: Place) -> str:
    """Format a row's figure; of a suite that is not complete, how many of its tasks are."""
    figures = values(scored, row, measure, place)
    done, of = progress(scored, row, measure, place)
    return show(figures, measure.digits) if figures or not done else f"{NONE} ({done} of {of} tasks)"


def contrast_table(plan: Plan, scored: Scored, place: Place, without: Scored | None = None) -> str:
    """Return the table of contrasts, without overlap too if `without` is given, and below it those without runs."""
    found: list[tuple[Contrast, str, bool, Tested | None]] = []
    spreads: dict[tuple[str, bool], Mapping[str, Spread]] = {}

    def spreads_of(name: str, part: Scored) -> Mapping[str, Spread]:
        key = (name, part is without)
        if key not in spreads:
            spreads[key] = spread_over_seeds(plan, part, plan.measures[name], place)
        return spreads[key]

    for contrast in plan.contrasts:
        for name in contrast.measures:
            measure = plan.measures[name]
            for part in (scored, without) if measure.suite and without is not None else (scored,):
                tested = compare_rows(contrast, measure, part, place, spreads_of(name, part))
                found.append((contrast, name, part is without, tested))
    p_values = {  # what is planned and has no p as yet counts too, so that a p can only fall as runs are added
        str(at): tested.over_seeds.p if tested and tested.over_seeds else 1.0
        for at, (_, _, is_part, tested) in enumerate(found)
        if not is_part
    }
    adjusted = {at: p for at, p in holm(p_values).items() if (one := found[int(at)][3]) and one.over_seeds}
    lines, later = [], dict[str, dict[str, None]]()
    for at, (contrast, name, is_part, tested) in enumerate(found):
        measure = plan.measures[name]
        if tested is None and is_part:  # all texts of a task stand in training data, or there are no runs
            continue
        if tested is None:
            later.setdefault(contrast.title, {})[name] = None
            continue
        digits = measure.digits + 1 if measure.suite else measure.digits
        gap = None if is_part else _published_gap(plan, contrast, name, place)
        lines.append(
            [
                contrast.title,
                f"{name}, without overlap" if is_part else name,
                _show_gap(measure, contrast, gap),
                "" if contrast.claimed is None or is_part else f"{contrast.claimed:+.{measure.digits}f}",
                *_describe(tested, digits),
                _show_p(adjusted.get(str(at))),
                judge(
                    gap if contrast.claimed is None or is_part else contrast.claimed,
                    tested,
                    adjusted.get(str(at)),
                ),
                *_describe_data(tested, digits),
            ]
        )
    heads = [
        "",
        "measure",
        "paper",
        "claimed in its text",
        "here",
        "95 %, texts and seeds",
        "95 %, texts",
        "p",
    ]
    heads += [f"p (Holm, {len(p_values)})", "the paper's claim", "texts", "seeds", "by seed"]
    parts = [as_table(heads, lines)] if lines else []
    figures = [
        told for name, part in spreads if not part for told in _describe_spread(plan, name, scored, place)
    ]
    if figures:
        parts.append(
            "Standard deviation from seed to seed (degrees of freedom, and rows with several seeds). Rows of one model "
            "for each seed are taken to vary alike, and so are rows of several, whose figure is the mean of theirs; a "
            f"kind with too few seeds has that of all rows: {'; '.join(figures)}."
        )
    if later:
        titles = (f"{title} ({', '.join(names)})" for title, names in later.items())
        parts.append(f"Without runs as yet: {'; '.join(titles)}.")
    return "\n\n".join(parts)


def _describe_spread(plan: Plan, name: str, scored: Scored, place: Place) -> Iterator[str]:
    """Say how much a measure varies over the seeds of each kind of rows, and of each row."""
    measure = plan.measures[name]
    digits, kinds = measure.digits + 1, kinds_of_rows(plan, measure, place)
    for several, rows in sorted(kinds.items()):
        own = {row: list(values(scored, row, measure, place).values()) for row in rows}
        if (spread := seed_spread(own.values())) is None:
            continue
        each = (f"{row} {stdev(figures):.{digits}f}" for row, figures in own.items() if len(figures) > 1)
        kind = f" of {'several models' if several else 'one model'}" if len(kinds) > 1 else ""
        yield f"{name}{kind} {math.sqrt(spread.variance):.{digits}f} ({spread.freedom}; {', '.join(each)})"


def _published_gap(plan: Plan, contrast: Contrast, name: str, place: Place) -> float | None:
    """Return the difference between published figures, if all are published."""
    rows = (contrast.row, *contrast.baseline)
    given = [plan.published_figure(row, name, contrast.development, place.include) for row in rows]
    known = [figure for figure in given if figure is not None]
    return known[0] - mean(known[1:]) if len(known) == len(given) else None


def _show_gap(measure: Measure, contrast: Contrast, gap: float | None) -> str:
    """Format a published difference, and what to know of it; empty if there is none."""
    return "" if gap is None else f"{gap:+.{measure.digits}f}" + _remarks(measure, contrast.development)


def judge(claim: float | None, tested: Tested, adjusted: float | None) -> str:
    """Say by the interval over texts and seeds whether a paper's difference was found; empty if it has none.

    What weakens a finding stands beside it: another size than the paper's, rows of a single seed, and a corrected p of
    0.05 or more.
    """
    if not claim:
        return ""
    if (found := tested.over_seeds) is None:
        return "too few seeds"
    low, high = (found.low, found.high) if claim > 0 else (-found.high, -found.low)
    if low <= 0 <= high:
        return "open"
    parts = ["confirmed" if low > 0 else "contradicted"]
    if low > 0 and not low <= abs(claim) <= high:
        parts.append("larger" if abs(claim) < low else "smaller")
    if 1 in tested.seeds.values():
        parts.append("one seed each" if set(tested.seeds.values()) == {1} else "one seed")
    if adjusted is not None and adjusted >= SIGNIFICANT:
        parts.append("not after Holm")
    return ", ".join(parts)


def _show_p(p: float | None) -> str:
    if p is None:
        return NONE
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def _describe(tested: Tested, digits: int) -> tuple[str, str, str, str]:
    """Return the difference, its interval over texts and seeds, that over texts, and its p as texts."""

    def show(*ends: float) -> str:
        return " to ".join(f"{end:+.{digits}f}" for end in ends)

    difference = show(tested.difference)
    if tested.test is None:
        return difference, NONE, f"not tested: {tested.remark}", NONE
    texts, seeds = tested.test.interval(0, 1), tested.over_seeds
    over_texts = NONE if texts is None else show(*texts.ends)
    if seeds is None:
        return difference, NONE, over_texts, NONE
    return difference, show(seeds.low, seeds.high), over_texts, _show_p(seeds.p)


def _describe_data(tested: Tested, digits: int) -> tuple[str, str, str]:
    """Return the number of texts, of seeds, and the difference for each seed that all rows have, as texts."""
    examples = f"{tested.examples:,}" if tested.examples else NONE
    if tested.units not in (0, tested.examples):
        examples += f" in {tested.units:,} groups ({tested.effective:,.0f} effective)"
    counts = list(dict.fromkeys(tested.seeds.values()))
    seeds = (
        str(counts[0]) if len(counts) == 1 else ", ".join(f"{row}: {n}" for row, n in tested.seeds.items())
    )
    by_seed = (f"{seed}: {difference:+.{digits}f}" for seed, difference in tested.by_seed.items())
    return examples, seeds, ", ".join(by_seed)


def effort_table(plan: Plan, efforts: Mapping[str, Effort]) -> str:
    """Return the table of what was trained, with what effort, and the rows of which nothing was."""
    lines, later = [], list[str]()
    for row, effort in efforts.items():
        if not any(effort.done.values()):
            later.append(row)
            continue
        runs = plan.runs_of(row)
        tasks = list(dict.fromkeys(task for run in runs for task in run.tasks))
        printed = plan.parameters.get(row)
        lines.append(
            [
                row,
                _names(runs),
                ", ".join(tasks) if len(tasks) <= 5 else f"{len(tasks)} tasks",
                "; ".join(settings_of(plan, row)),
                "" if printed is None else f"{printed:,}",
                _span(effort.weights),
                _span(effort.steps),
                _kept(effort),
                NONE if effort.seconds is None else f"{1000 * effort.seconds:.0f}",
                NONE if effort.minutes is None else f"{effort.minutes:.0f}",
                ", ".join(f"{seed}: {done} of {effort.runs}" for seed, done in effort.done.items()),
            ]
        )
    paper = "weights, paper" + (f" ({plan.parameters_remark})" if plan.parameters_remark else "")
    heads = [
        "",
        "runs (`--only`)",
        "tasks",
        "settings",
        paper,
        "weights of a model, here",
        "steps",
        "epoch kept, by seed",
        "ms a step",
    ]
    parts = [as_table([*heads, "minutes a seed", "runs done, by seed"], lines)] if lines else []
    if later:
        parts.append(f"Not trained as yet: {'; '.join(later)}.")
    return "\n\n".join(parts)


def _names(runs: Sequence[Run]) -> str:
    """Name runs; many that differ by task alone by what their names begin, or else end with."""
    names = [run.name for run in runs]
    if len(names) <= 5:
        return ", ".join(names)
    start, end = names[0], names[0]
    while not all(name.startswith(start) for name in names):
        start = start[:-1]
    while not all(name.endswith(end) for name in names):
        end = end[1:]
    return (
        f"{start}… ({len(names)} runs)"
        if start
        else f"…{end} ({len(names)} runs)"
        if end
        else ", ".join(names)
    )


def _kept(effort: Effort) -> str:
    """Format the epochs after which a row's weights were kept, seed by seed; empty if epochs were not counted."""
    found = {seed: (min(epochs), max(epochs)) for seed, epochs in effort.kept.items() if epochs}
    return ", ".join(f"{seed}: {_span(ends)}" for seed, ends in found.items())


def _span(ends: tuple[int, int] | None) -> str:
    if ends is None:
        return NONE
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def data_table(scored: Scored) -> str:
    """Return the table of the data that answers were scored on, task by task."""
    used: dict[str, DataUsed] = {}
    for own in scored.values():
        for task, by_seed in own.items():
            used.setdefault(task, next(iter(by_seed.values())).result.data)
    lines = [
        [
            task,
            f"{data.rows:,}",
            "" if data.published_count is None else f"{data.published_count:,}",
            data.origin,
            "as published" if data.verified else "not known to be the published ones",
            data.note,
        ]
        for task, data in used.items()
    ]
    return as_table(["", "texts", "texts, published", "files from", "checksums", "note"], lines)


def base_settings(plan: Plan, place: Place) -> Iterator[str]:
    """Yield the settings that runs have beside those that the table names: of the plan, and of each configuration."""
    if plan.settings:
        yield f"Settings of all runs: {_join(plan.settings)}."
    files = dict.fromkeys(run.config or plan.config for run in plan.runs)
    for file in filter(None, files):
        config = tomllib.loads((place.plan.parent / file).read_text(encoding="utf-8"))
        del config["tasks"]
        model = {f"model.{key}": value for key, value in config.pop("model", {}).items()}
        cuts = set(config.get("cut_context", {}).values())
        if len(cuts) == 1:  # the same for all tasks
            config["cut_context"] = cuts.pop()
        yield f"Settings of `{_public(place.plan.parent / file)}`: {_join(config | model)}."


def _join(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`{key}={show_setting(value)}`" for key, value in settings.items())


def count_table(plan: Plan) -> str:
    """Return the table of worked examples of numbers of parameters."""
    lines = [
        [count.name, f"{count.printed:,}", f"{count_parameters(count):,}", count.remark]
        for count in plan.counts
    ]
    return as_table(["", "printed", "counted here", "remark"], lines)


def _count_runs(text: str) -> int:
    """Count the runs that a page says are done."""
    line = re.search(r"^Runs done: (.*)$", text, re.MULTILINE)  # the first one: notes come after it
    return sum(map(int, re.findall(r"(\d+) of \d+ with seed", line[1]))) if line else 0


def describe_progress(plan: Plan, place: Place) -> str:
    """Say in a paragraph which runs are done, seed by seed."""
    seeds = sorted({seed for run in plan.runs for seed in plan.seeds_of(run)})
    parts, whole = [], True
    for seed in seeds:
        runs = [run for run in plan.runs if seed in plan.seeds_of(run)]
        done = sum(place.results(plan, run, seed).exists() for run in runs)
        whole = whole and done == len(runs)
        parts.append(f"{done} of {len(runs)} with seed {seed}")
    fewer = any(len(plan.seeds_of(run)) < len(seeds) for run in plan.runs)
    told = f"Runs done: {', '.join(parts)}{' (some are planned with fewer seeds)' if fewer else ''}."
    return told + (
        ""
        if whole
        else " This page is preliminary: its figures change as runs are added. Only contrasts with an interval over "
        "texts and seeds say anything about methods; rows of one seed are about one model each."
    )


def describe_left_out(plan: Plan, place: Place, left_out: LeftOut) -> str:
    """Say how many texts stand in training data, of how many tasks."""
    count = sum(len(ids) for ids in left_out.values())
    splits = " or ".join(plan.overlap)
    how = "word for word" if plan.overlap_by == "exact" else "but for case, spaces and punctuation"
    return (
        f"*Without overlap* leaves out the {count:,} texts of the {plan.split} split that stand, {how}, in the "
        f"{splits} split of a task of the suite, their own or another."
    )


def lower_is_better(plan: Plan, place: Place) -> list[str]:
    """Return the measures of which less is better."""
    return [name for name, measure in plan.measures.items() if not _rises(measure, place)]


def _rises(measure: Measure, place: Place) -> bool:
    """Whether more is better: as the metric says that has the score as its headline; a score that none has, rises."""
    for task in tasks_of(measure, place.include):
        own = find_metric(task_of(task, place.include).metric)
        score = own.headline if measure.suite or not measure.score else measure.score
        kinds = [own] if score == own.headline else [one for one in METRICS.values() if one.headline == score]
        if not all(kind.higher_is_better for kind in kinds):
            return False
    return True


def how_to(plan: Plan, place: Place) -> str:
    """Say with which commands a run is trained, and checked without training."""
    options = "".join(f" --include {_public(path)}" for path in place.include)
    others: dict[str, list[Run]] = {}
    for run in plan.runs:
        if run.suite and run.suite != plan.suite:
            others.setdefault(run.suite, []).append(run)
    suites = "".join(f" (of {_names(runs)} with `--suite {suite}`)" for suite, runs in others.items())
    commands = [
        *plan.before,
        f"python tools/reproduce.py {_public(place.plan)}{options} --only RUN --seeds 0 --output out",
    ]
    if place.records is not None:
        scored = f"--suite {plan.suite} --split {plan.split}{options}"
        commands.append(f"decabench evaluate --submission {_public(place.records)}/RUN-seed-0.zip {scored}")
    return "\n".join(
        [
            "To train one run of those that [the last table](#runs) names, and to check a record of one without "
            f"training{suites}. On the same processor, with the same version of torch and one thread, a run gives the "
            "same answers again; elsewhere its figures change as with another seed.",
            "",
            "```",
            *commands,
            "```",
        ]
    )


def _public(path: Path) -> Path:
    """Return a path as it was given, or its last part if it names folders of this machine."""
    return Path(path.name) if path.is_absolute() else path


def plot_curves(plan: Plan, place: Place, tables: Sequence[Table], page: Path) -> Iterator[str]:
    """Write a picture of learning curves for each table that has any, and yield the lines that show them.

    After the first, a table has one only if it has rows to compare.
    """
    for old in page.parent.glob(f"{page.stem}-*.png"):
        if old.stem.removeprefix(f"{page.stem}-").isdecimal():  # and not another page's
            old.unlink()
    for number, table in enumerate(tables, 1):
        panels = list(make_panels(plan, place, table))
        if not any(len(points) > 1 for panel in panels for own in panel.curves.values() for points in own):
            continue  # validated once, at the end
        if any(number == 1 or len(panel.curves) > 1 for panel in panels):
            picture = page.with_name(f"{page.stem}-{number}.png")
            plot_panels(panels, picture)
            yield f"![Validation scores by {panels[0].unit}: {table.title or 'all rows'}]({picture.name})"


def describe_costs(plan: Plan, scored: Scored, place: Place, page: Path) -> Iterator[str]:
    """Write a picture of what rows bring and cost, and yield the section; nothing without a measure for it."""
    costs = read_costs(plan, scored, place) if plan.costs else []
    if not costs:
        return
    picture = page.with_name(f"{page.stem}-costs.png")
    plot_costs(costs, plan.costs, picture)
    yield "## What each row brings, and what it costs"
    yield (
        f"By {plan.costs}. Weights are without embeddings, and of all models that a row has for all tasks; *times* is "
        "by the row that it is compared with. Minutes are without those of runs that a row begins with, and were "
        "measured on a machine with other work: rows that differ by a fifth may well be alike."
    )
    yield as_table(*cost_lines(costs, plan.measures[plan.costs].digits))
    yield f"![Gains, weights and minutes of training]({picture.name})"
    yield "Arrows lead from the row that a row is compared with."


def make_page(plan: Plan, place: Place, page: Path) -> str:
    """Return the page of what is done so far, and write its plot beside it."""
    scored, left_out = read_scores(plan, place), find_left_out(plan, place)
    without = leave_out(scored, left_out) if left_out else None
    tables = plan.tables or (Table("", tuple(plan.measures)),)
    parts = [
        f"# {plan.title}",
        f"{f'[{plan.paper}]({plan.link})' if plan.link else plan.paper}. Scores of the {plan.split} split: mean ± "
        "standard deviation (number of seeds).",
        describe_progress(plan, place),
        how_to(plan, place),
        *plan.notes,
    ]
    if left_out:
        parts.append(describe_left_out(plan, place, left_out))
    for table in tables:
        if figures := results_table(plan, table, scored, place, without):
            parts.append(f"## {table.title or 'Results'}")
            parts += [table.text] if table.text else []
            parts.append(figures)
    if plan.contrasts:
        lower = lower_is_better(plan, place)
        parts += [
            "## Contrasts",
            LEGEND
            + (
                f" For {', '.join(lower)} lower is better; for all other measures higher is." if lower else ""
            ),
            contrast_table(plan, scored, place, without),
        ]
    parts += list(describe_costs(plan, scored, place, page))
    if scored:
        parts += [
            "## Data",
            f"Of the {plan.split} split. Where the files of each task are from, and what was changed in them, is in "
            "docs/data.md.",
            data_table(scored),
        ]
    if plan.counts:
        parts += ["## Parameters of the paper's example", count_table(plan)]
    parts += [
        "## Runs",
        "Weights are without embeddings; times depend on the machine and its load. Settings that neither the table nor "
        "the lines below name have the defaults of docs/training.md.",
        *base_settings(plan, place),
        effort_table(plan, {row: measure_effort(plan, place, row) for row in plan.trained_rows}),
    ]
    if curves := list(plot_curves(plan, place, tables, page)):
        parts += ["## Learning curves", *curves]
    return "\n\n".join(parts) + "\n"


def write_page(plan: Plan, place: Place, page: Path) -> None:
    """Write the page, and its plot beside it. Ends with DataError if there is one of more runs, which would be lost."""
    page.parent.mkdir(parents=True, exist_ok=True)
    before = _count_runs(page.read_text(encoding="utf-8")) if page.exists() else 0
    if (now := _count_runs(describe_progress(plan, place))) < before:
        raise DataError(
            f"{page} shows {before} runs, and here are {now}: give the folder of their records with --records, or name "
            "another page."
        )
    page.write_text(make_page(plan, place, page), encoding="utf-8")
