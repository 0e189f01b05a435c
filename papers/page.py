"""A plan's page: published figures next to measured figures, contrasts, training effort, and learning curves."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean

import msgspec

from decabench.errors import DataError
from decabench.files import by_dotted_key, write_file
from decabench.scoring import DataUsed
from papers.claims import picture_name, plot_claims, write_findings
from papers.contrasts import (
    LEGEND,
    SIGNIFICANT,
    SMALLEST,
    Finding,
    Findings,
    contrast_table,
    find_contrasts,
    lower_is_better,
)
from papers.costs import cost_lines, plot_costs, read_costs
from papers.curves import make_panels, plot_panels
from papers.effort import Effort, count_parameters, measure_effort, settings_of, show_setting
from papers.plan import FIGURE, Measure, Place, Plan, Run, Table, seeded_runs
from papers.scores import LeftOut, Scored, Tested, find_left_out, leave_out, progress, read_scores, values
from papers.tables import NONE, as_table, in_brackets, join_words, published_remark, show, show_signed

ROOT = Path(__file__).resolve().parents[1]
ONE_SEED, NOT_CORRECTED = "†", "‡"
"""Marks for intervals that exclude zero, but with a reservation."""
SUMMARY_LEGEND = {
    "[": "Square brackets give the 95% interval over texts and seeds.",
    "(paper": "Parentheses give the paper's figure.",
    "texts alone": "Where there are too few seeds, the interval is over *texts alone*.",
    ONE_SEED: f"{ONE_SEED} One side has a single seed.",
    NOT_CORRECTED: f"{NOT_CORRECTED} p is {SIGNIFICANT} or more after correcting for all planned contrasts.",
}
"""Explanations of the notation in a summary. Each sentence is shown only if the summary contains its key."""


def results_table(
    plan: Plan, table: Table, scored: Scored, place: Place, without: Scored | None = None
) -> str:
    """Return a table of published and measured figures, for all rows with measured figures.

    `without` contains the scores without overlap, which are shown for suites. The result is empty if no row has a
    figure, or if the table lists several rows but only one of them has a figure.
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
        heads += [
            f"{name}, paper" + in_brackets(published_remark(measure, table.development)),
            f"{name}, here",
        ]
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


def _cell(scored: Scored, row: str, measure: Measure, place: Place) -> str:
    figures = values(scored, row, measure, place)
    done, of = progress(scored, row, measure, place)
    return show(figures, measure.digits) if figures or not done else f"{NONE} ({done} of {of} tasks)"


def effort_table(plan: Plan, efforts: Mapping[str, Effort]) -> str:
    """Return the table of trained rows with their effort, followed by the rows that have not been trained."""
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
        "weights per model (here)",
        "steps",
        "epoch kept, by seed",
        "ms per step",
    ]
    parts = [as_table([*heads, "minutes per seed", "runs done, by seed"], lines)] if lines else []
    if later:
        parts.append(f"Not yet trained: {'; '.join(later)}.")
    return "\n\n".join(parts)


def _names(runs: Sequence[Run]) -> str:
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
    found = {seed: (min(epochs), max(epochs)) for seed, epochs in effort.kept.items() if epochs}
    return ", ".join(f"{seed}: {_span(ends)}" for seed, ends in found.items())


def _span(ends: tuple[int, int] | None) -> str:
    if ends is None:
        return NONE
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def data_table(scored: Scored) -> str:
    """Return the table of the data that answers were scored on, by task."""
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
            "as published" if data.verified else "not verified against published files",
            data.note,
        ]
        for task, data in used.items()
    ]
    return as_table(["", "texts", "texts, published", "files from", "checksums", "note"], lines)


def base_settings(plan: Plan, place: Place) -> Iterator[str]:
    """Yield the settings that the effort table doesn't list: those of the plan and of each configuration."""
    if plan.settings:
        yield f"Settings for all runs: {_join(plan.settings)}."
    files = dict.fromkeys(run.config or plan.config for run in plan.runs)
    for file in filter(None, files):
        config = tomllib.loads((place.plan.parent / file).read_text(encoding="utf-8"))
        config.pop("tasks", None)
        cuts = set(config.get("cut_context", {}).values())
        if len(cuts) == 1:  # all tasks have the same limit
            config["cut_context"] = cuts.pop()
        yield f"Settings in `{_public(place.plan.parent / file)}`: {_join(config)}."


def _join(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`{key}={show_setting(value)}`" for key, value in by_dotted_key(settings).items())


def count_table(plan: Plan) -> str:
    """Return the table of worked examples for parameter counts."""
    lines = [
        [count.name, f"{count.printed:,}", f"{count_parameters(count):,}", count.remark]
        for count in plan.counts
    ]
    return as_table(["", "paper", "counted here", "remark"], lines)


def _count_runs(text: str) -> int:
    line = re.search(r"^(?:All )?([\d,]+) (?:of [\d,]+ )?planned runs (?:is|are) done", text, re.MULTILINE)
    return int(line[1].replace(",", "")) if line else 0  # only the first match, because notes follow


def describe_progress(plan: Plan, place: Place) -> str:
    """Return a paragraph on which runs are done, by seed."""
    seeds = sorted({seed for run in plan.runs for seed in plan.seeds_of(run)})
    groups: list[tuple[tuple[int, int], list[int]]] = []  # (runs done, all runs), and successive seeds
    for seed in seeds:
        runs = seeded_runs(plan, place, seeds={seed})
        counts = (sum(one.is_scored for one in runs), len(runs))
        if groups and groups[-1][0] == counts and groups[-1][1][-1] == seed - 1:
            groups[-1][1].append(seed)
        else:
            groups.append((counts, [seed]))
    ran, planned = (sum(counts[at] * len(own) for counts, own in groups) for at in (0, 1))
    if ran == planned:
        return f"All {planned:,} planned runs are done."
    *parts, last = [f"{done or 'none'} of {of} with {_name_seeds(own)}" for (done, of), own in groups]
    listed = f"{', '.join(parts)}, and {last}" if parts else last
    count = f"{ran:,} of {planned:,} planned runs {'is' if ran == 1 else 'are'} done"
    return f"{count}: {listed}. The remaining runs may change these figures."


def _name_seeds(seeds: Sequence[int]) -> str:
    first, *others = seeds
    if not others:
        return f"seed {first}"
    return f"each of seeds {first} {'to' if len(others) > 1 else 'and'} {others[-1]}"


def describe_left_out(plan: Plan, left_out: LeftOut) -> str:
    """Return a sentence on how many texts also occur in training data, and how texts were compared."""
    count = sum(len(ids) for ids in left_out.values())
    splits = " or ".join(plan.overlap)
    how = "exactly" if plan.overlap_by == "exact" else "ignoring case, spaces and punctuation"
    return (
        f"Figures *without overlap* leave out the {count:,} texts of the {plan.split} split that also occur "
        f"({how}) in the {splits} split of any task in the suite."
    )


def how_to(plan: Plan, place: Place) -> str:
    """Return the commands for training a run, and for checking it without training."""
    options = "".join(f" --include {_public(path)}" for path in place.include)
    others: dict[str, list[Run]] = {}
    for run in plan.runs:
        if run.suite and run.suite != plan.suite:
            others.setdefault(run.suite, []).append(run)
    suites = "".join(f" (for {_names(runs)}, use `--suite {suite}`)" for suite, runs in others.items())
    name = place.plan.parent.name
    commands = [
        *plan.before,
        f"python -m papers records {name} --unpack out/submissions",
        f"python -m papers reproduce {name}{options} --only RUN --seeds 0 --output out",
    ]
    for split in plan.splits:
        some = not all(split in plan.splits_of(run) for run in plan.runs)
        commands.append(
            f"decabench evaluate --submission out/submissions/RUN-seed-0 --suite {plan.suite} --split {split}{options}"
            + ("  # for tables with that split" if some else "")
        )
    return "\n".join(
        [
            "These commands train a run from the table below, and check its record without "
            f"training{suites}. A repeated run gives the same answers on the same processor, with the same "
            "version of torch and one thread. Otherwise, its figures vary as much as with another seed.",
            "",
            "```",
            *commands,
            "```",
        ]
    )


def _public(path: Path) -> Path:
    if path.is_relative_to(ROOT):
        return path.relative_to(ROOT)
    return Path(path.name) if path.is_absolute() else path


def plot_curves(plan: Plan, place: Place, tables: Sequence[Table], page: Path) -> Iterator[str]:
    """Plot learning curves for the tables, and yield the Markdown images.

    The first table always gets a plot, and other tables only if they have several rows.
    """
    for old in page.parent.glob(f"{page.stem}-*.png"):
        if old.stem.removeprefix(f"{page.stem}-").isdecimal():  # don't delete plots of other pages
            old.unlink()
    for number, table in enumerate(tables, 1):
        panels = list(make_panels(plan, place, table))
        if not any(len(points) > 1 for panel in panels for own in panel.curves.values() for points in own):
            continue  # validated only once, at the end
        if any(number == 1 or len(panel.curves) > 1 for panel in panels):
            picture = page.with_name(f"{page.stem}-{number}.png")
            plot_panels(panels, picture)
            yield f"![Validation scores by {panels[0].unit}: {table.title or 'all rows'}]({picture.name})"


def describe_costs(plan: Plan, scored: Scored, place: Place, page: Path) -> Iterator[str]:
    """Plot the gains and costs of rows, and yield the section's text, if the plan sets `costs`."""
    costs = read_costs(plan, scored, place) if plan.costs else []
    if not costs:
        return
    picture = page.with_name(f"{page.stem}-costs.png")
    plot_costs([one for one in costs if one.row not in plan.unplotted], plan.costs, picture)
    yield "## Gains and costs"
    yield (
        f"Scores are {plan.costs}. Weights are the total over all of a row's models, without embeddings. "
        "*Times* columns are relative to the row in *compared with*. Minutes exclude the runs that a row "
        "starts from. The machine had other work to do, so differences of up to a fifth may mean nothing."
    )
    yield as_table(*cost_lines(costs, plan.measures[plan.costs].digits))
    yield f"![Gains, weights and minutes of training]({picture.name})"
    without = f" The plots leave out {join_words(plan.unplotted)}." if plan.unplotted else ""
    yield f"Each arrow starts at the row in *compared with*.{without}"


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def count_shown(findings: Findings) -> str:
    """Return a sentence on the number of significant differences."""
    tested = [one for one in findings.found if not one.is_part and one.tested is not None]
    shown = sum(_excludes_zero(one) and not _marks(one) for one in tested)
    return (
        f"Of {len(tested)} tested differences, {shown or 'none'} {'are' if shown > 1 else 'is'} "
        "significant: the interval excludes zero, each side has several seeds, and p is below "
        f"{SIGNIFICANT} after the correction."
    )


def fill_summary(plan: Plan, scored: Scored, findings: Findings, place: Place) -> list[str]:
    """Return a plan's summary sentences, with the figures of rows and contrasts inserted."""
    known = {(one.contrast.title, one.measure): one for one in findings.found if not one.is_part}

    def fill(name: str, measure: str) -> str:
        finding = known.get((name, measure))
        return (
            _describe_row(plan, name, measure, scored, place) if finding is None else _describe(plan, finding)
        )

    filled = (FIGURE.sub(lambda found: fill(found["name"], found["measure"]), one) for one in plan.summary)
    return [textwrap.fill(one, 130, break_long_words=False, break_on_hyphens=False) for one in filled]


def _describe_row(plan: Plan, row: str, name: str, scored: Scored, place: Place) -> str:
    measure = plan.measures[name]
    figures = values(scored, row, measure, place)
    published = plan.published_figure(row, name, False, place.include)
    shown = f"{mean(figures.values()):.{measure.digits}f}" if figures else NONE
    return shown if published is None else f"{shown} (paper {published:.{measure.digits}f})"


def _describe(plan: Plan, one: Finding) -> str:
    digits = plan.measures[one.measure].digits
    if one.tested is None:
        return f"{NONE} (no runs yet)"
    shown = f"{show_signed(digits, one.tested.difference)} {_interval(one.tested, digits)}{_marks(one)}"
    if one.claim is None or abs(one.claim) < SMALLEST:
        return shown
    return f"{shown} (paper {show_signed(digits, one.claim)})"


def _interval(tested: Tested, digits: int) -> str:
    if both := tested.over_seeds:
        return f"[{both.low:.{digits}f}, {both.high:.{digits}f}]"
    if texts := tested.over_texts:
        return f"[{texts[0]:.{digits}f}, {texts[1]:.{digits}f}; texts alone]"
    return "[not tested]"


def _marks(one: Finding) -> str:
    if one.tested is None or not _excludes_zero(one):
        return ""
    corrected = one.adjusted is not None and one.adjusted < SIGNIFICANT
    return ONE_SEED * (1 in one.tested.seeds.values()) + NOT_CORRECTED * (not corrected)


def _excludes_zero(one: Finding) -> bool:
    return (
        one.tested is not None
        and (both := one.tested.over_seeds) is not None
        and not both.low <= 0 <= both.high
    )


def shown_tables(plan: Plan, tables: Sequence[Table], place: Place) -> list[Table]:
    """Return the tables shown on the page itself.

    These are up to three tables with the paper's rows and measures or, if there are none, the first table.
    """
    found, seen = list[Table](), set[tuple[str, str]]()
    for table in tables:
        published = {
            (row, name)
            for row in plan.rows_of(table, place.include)
            for name in table.measures
            if plan.published_figure(row, name, False, place.include) is not None
        }
        rows = tuple(row for row in plan.rows_of(table, place.include) if row in dict(published))
        names = {name for _, name in published}
        if not table.development and len(rows) > 1 and 2 * len(published - seen) > len(published):
            measures = tuple(name for name in table.measures if name in names)
            found.append(msgspec.structs.replace(table, rows=rows, measures=measures, transposed=False))
            seen |= published
    return found[:3] or [tables[0]]


def make_page(plan: Plan, place: Place, page: Path) -> dict[Path, str]:
    """Return the contents of a page and its details, and write their plots and the outcomes of contrasts."""
    scored, left_out = read_scores(plan, place), find_left_out(plan, place)
    without = leave_out(scored, left_out) if left_out else None
    tables = plan.tables or (Table("", tuple(plan.measures)),)
    findings = find_contrasts(plan, scored, place, without)
    picture = page.with_name(picture_name(page.stem))
    claims = write_findings(plan, findings, place).done if plan.contrasts else []
    if claims:
        plot_claims(claims, picture)
    details = page.parent / "details" / page.name
    details.parent.mkdir(parents=True, exist_ok=True)
    paper = f"[{plan.paper}]({plan.link})" if plan.link else plan.paper
    parts = [
        f"# {plan.title}",
        f"{paper}. Scores are means ± standard deviations on the {plan.split} split"
        f"{' (unless a column names another)' * (len(plan.splits) > 1)}, with the number of seeds in parentheses.",
        describe_progress(plan, place),
    ]
    if plan.summary:
        said = fill_summary(plan, scored, findings, place)
        bullets = "\n".join(f"- {_indent(one)}" for one in said)
        legend = " ".join(sentence for text, sentence in SUMMARY_LEGEND.items() if text in bullets)
        parts += ["## Findings", bullets, textwrap.fill(legend, 120)]
    parts.append(f"## {'Paper and reproduction' if plan.published else 'Scores'}")
    shown = shown_tables(plan, tables, place)
    for table in shown:
        if figures := results_table(plan, table, scored, place):
            parts += [f"### {table.title}", figures] if len(shown) > 1 else [figures]
    if claims:
        parts.append(f"![The paper's differences, and ours with 95% intervals]({picture.name})")
    if plan.differs:
        heading = "Why the figures differ" if plan.published else "How the models were compared"
        parts += [f"## {heading}", plan.differs]
    parts += [
        "## Run it",
        f"```\npython -m papers reproduce {place.plan.parent.name} --only RUN --seeds 0\n```",
        f"The [details page](details/{page.name}) lists the names for `RUN`, the commands to run first, and "
        "every table, contrast and setting.",
    ]
    return {
        page: "\n\n".join(parts) + "\n",
        details: make_details(plan, place, details, tables, scored, findings, without, left_out),
    }


def make_details(
    plan: Plan,
    place: Place,
    page: Path,
    tables: Sequence[Table],
    scored: Scored,
    findings: Findings,
    without: Scored | None,
    left_out: LeftOut,
) -> str:
    """Return a page's appendix, with every table and setting."""
    parts = [f"# Details: {plan.title}", f"The [findings](../{page.name}) have their own page."]
    if notes := [*plan.notes, *([describe_left_out(plan, left_out)] if left_out else [])]:
        parts += ["## Notes", *notes]
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
                f" Lower is better for {join_words(lower)}; higher is better for all other measures."
                if lower
                else ""
            ),
            count_shown(findings),
            contrast_table(plan, findings, scored, place),
        ]
    parts += list(describe_costs(plan, scored, place, page))
    if scored:
        parts += [
            "## Data",
            f"Texts are from the {plan.split} split{' unless a line names another' * (len(plan.splits) > 1)}. "
            "`decabench tasks show TASK` says where a task's files come from and how they were changed.",
            data_table(scored),
        ]
    if plan.counts:
        parts += ["## Parameters of the paper's example", count_table(plan)]
    parts += [
        "## Runs",
        how_to(plan, place),
        "Weights exclude embeddings. Times depend on the machine and its load. Settings that are not "
        "listed here have their defaults (docs/reference/settings.md).",
        *base_settings(plan, place),
        effort_table(plan, {row: measure_effort(plan, place, row) for row in plan.trained_rows}),
    ]
    if curves := list(plot_curves(plan, place, tables, page)):
        parts += ["## Learning curves", *curves]
    return "\n\n".join(parts) + "\n"


def write_page(plan: Plan, place: Place, page: Path) -> None:
    """Write the page, its details in `details/`, and their plots and findings.

    Raises DataError if the existing page covers more runs, which would be lost.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    before = _count_runs(page.read_text(encoding="utf-8")) if page.exists() else 0
    if (now := _count_runs(describe_progress(plan, place))) < before:
        raise DataError(
            f"{page} shows {before} runs, but only {now} are here. Restore the missing records, or choose "
            "another --page."
        )
    for path, text in make_page(plan, place, page).items():
        write_file(path, text)
