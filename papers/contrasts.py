"""Contrasts of a plan: tested, corrected for multiple testing, and compared with the paper's differences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from decabench.metrics import METRICS
from decabench.scoring import find_metric
from decabench.scoring.pairs import holm
from papers.plan import Contrast, Measure, Place, Plan, task_of, tasks_of
from papers.scores import (
    UNLIKE,
    Scored,
    Spread,
    Tested,
    compare_rows,
    kinds_of_rows,
    seed_spread,
    spread_over_seeds,
    values,
    vary_unlike,
)
from papers.tables import NONE, as_table, in_brackets, published_remark, show_p, show_signed

SIGNIFICANT = 0.05
SMALLEST = 1e-9
"""Smaller differences between published figures count as zero, because binary arithmetic isn't exact."""
LEGEND = f"""Each line compares two rows on the same test texts. To compare methods, use the interval over texts and
seeds, and its p value corrected for all planned contrasts (Holm). Without that interval ({NONE}), draw no conclusion
about methods. A claim of the paper is *confirmed* if the interval lies on its side of zero, *contradicted* if it lies
on the other side, and *open* if it contains zero. See [how to read the table](contrasts.md)."""


@dataclass(frozen=True)
class Finding:
    """The outcome of a contrast on one measure."""

    contrast: Contrast
    measure: str
    """The name of the measure."""
    is_part: bool
    """Whether the outcome covers only the texts without overlap."""
    tested: Tested | None
    """The test, or None if a row has no runs."""
    gap: float | None
    """The difference between the published figures, or None if they are not published."""
    adjusted: float | None
    """The p value over texts and seeds, corrected for all planned contrasts, or None if it is not available.
    """

    @property
    def claim(self) -> float | None:
        """The paper's difference, from its text or, by default, from its figures.

        None if the paper states no difference, or if the outcome covers only part of the texts.
        """
        return self.gap if self.contrast.claimed is None or self.is_part else self.contrast.claimed

    @property
    def verdict(self) -> str:
        """The outcome of the paper's claim. Empty if there is no claim or if a row has no runs."""
        return judge(self.claim, self.tested, self.adjusted) if self.tested else ""


@dataclass(frozen=True)
class Findings:
    """The outcomes of all contrasts of a plan."""

    found: Sequence[Finding]
    """A finding for each contrast and measure. The finding without overlap follows, if there is one."""
    planned: int
    """The number of tests that the p values are corrected for."""
    spreads: Sequence[str]
    """The names of the measures for which at least one row has several seeds."""


def find_contrasts(plan: Plan, scored: Scored, place: Place, without: Scored | None = None) -> Findings:
    """Test all contrasts on `scored` and, if given, on the scores without overlap in `without`."""
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
    p_values = {  # includes planned tests without a p value, so that the correction stays the same
        str(at): tested.over_seeds.p if tested and tested.over_seeds else 1.0
        for at, (_, _, is_part, tested) in enumerate(found)
        if not is_part
    }
    adjusted = {at: p for at, p in holm(p_values).items() if (one := found[int(at)][3]) and one.over_seeds}
    findings = [
        Finding(
            contrast,
            name,
            is_part,
            tested,
            None if is_part else _published_gap(plan, contrast, name, place),
            adjusted.get(str(at)),
        )
        for at, (contrast, name, is_part, tested) in enumerate(found)
    ]
    return Findings(findings, len(p_values), [name for name, part in spreads if not part])


def contrast_table(plan: Plan, findings: Findings, scored: Scored, place: Place) -> str:
    """Return the table of contrasts, followed by the variation between seeds and the rows without runs."""
    lines, later = [], dict[str, dict[str, None]]()
    for one in findings.found:
        contrast, tested, measure = one.contrast, one.tested, plan.measures[one.measure]
        if tested is None and one.is_part:
            continue  # all texts of a task also occur in the training data, or there are no runs
        if tested is None:
            later.setdefault(contrast.title, {})[one.measure] = None
            continue
        digits = measure.digits + 1 if measure.suite else measure.digits
        published = "" if one.gap is None else show_signed(measure.digits, one.gap)
        claimed = None if one.is_part else contrast.claimed
        lines.append(
            [
                contrast.title,
                f"{one.measure}, without overlap" if one.is_part else one.measure,
                published
                and published
                + in_brackets(contrast.remark or published_remark(measure, contrast.development)),
                "" if claimed is None else show_signed(measure.digits, claimed),
                *_describe(tested, digits),
                show_p(one.adjusted),
                one.verdict,
                *_describe_data(tested, digits),
            ]
        )
    heads = [
        "",
        "measure",
        "paper",
        "claimed in the text",
        "here",
        "95%, texts and seeds",
        "95%, texts",
        "p",
    ]
    heads += [f"p (Holm, {findings.planned})", "the paper's claim", "texts", "seeds", "by seed"]
    parts = [as_table(heads, lines)] if lines else []
    figures = [line for name in findings.spreads for line in _describe_spread(plan, name, scored, place)]
    if figures:
        parts.append(
            "The standard deviation between seeds is listed below, with its degrees of freedom and the rows with "
            "several seeds in parentheses. It is pooled separately over rows with one model per seed, and over rows "
            "whose figure is a mean of several models. If the rows of a kind are *unlike* (Bartlett's test, p below "
            f"{UNLIKE}), each row with three or more seeds has its own standard deviation, and the other rows have "
            "the largest of these. A kind with too few seeds has the standard deviation of all rows. "
            f"{'; '.join(figures)}."
        )
    if later:
        titles = (f"{title} ({', '.join(names)})" for title, names in later.items())
        parts.append(f"Not yet run: {'; '.join(titles)}.")
    return "\n\n".join(parts)


def _describe_spread(plan: Plan, name: str, scored: Scored, place: Place) -> Iterator[str]:
    """Yield a description of a measure's variation between seeds, for each kind of row and for each row."""
    measure = plan.measures[name]
    digits, kinds = measure.digits + 1, kinds_of_rows(plan, measure, place)
    for several, rows in sorted(kinds.items()):
        own = {row: list(values(scored, row, measure, place).values()) for row in rows}
        if (spread := seed_spread(own.values())) is None:
            continue
        each = (f"{row} {stdev(figures):.{digits}f}" for row, figures in own.items() if len(figures) > 1)
        kind = f" with {'several models' if several else 'one model'}" if len(kinds) > 1 else ""
        unlike = "unlike; " if vary_unlike(own.values()) else ""
        yield f"{name}{kind} {math.sqrt(spread.variance):.{digits}f} ({unlike}{spread.freedom}; {', '.join(each)})"


def _published_gap(plan: Plan, contrast: Contrast, name: str, place: Place) -> float | None:
    """Return the difference between the published figures, or None if any of them is not published."""
    rows = (contrast.row, *contrast.baseline)
    given = [plan.published_figure(row, name, contrast.development, place.include) for row in rows]
    known = [figure for figure in given if figure is not None]
    return known[0] - mean(known[1:]) if len(known) == len(given) else None


def lower_is_better(plan: Plan, place: Place) -> list[str]:
    """Return the names of the measures for which lower is better."""
    return [name for name, measure in plan.measures.items() if not rises(measure, place)]


def rises(measure: Measure, place: Place) -> bool:
    """Return whether higher is better, according to the metric that has this score as its main score.

    Returns True if there is no such metric.
    """
    for task in tasks_of(measure, place.include):
        own = find_metric(task_of(task, place.include).metric)
        score = own.headline if measure.suite or not measure.score else measure.score
        kinds = [own] if score == own.headline else [one for one in METRICS.values() if one.headline == score]
        if not all(kind.higher_is_better for kind in kinds):
            return False
    return True


def judge(claim: float | None, tested: Tested, adjusted: float | None) -> str:
    """Judge from the interval over texts and seeds whether a paper's difference was reproduced.

    Reservations are added if the size differs from the paper's, if a row has a single seed, or if the corrected p
    value is 0.05 or more. The result is empty if the paper states no difference or a difference of 0.
    """
    if claim is None or abs(claim) < SMALLEST:
        return ""
    if (found := tested.over_seeds) is None:
        return "too few seeds" if tested.test else "not tested"
    low, high = (found.low, found.high) if claim > 0 else (-found.high, -found.low)
    if low <= 0 <= high:
        return "open" if abs(claim) <= high else "open, smaller"
    parts = ["confirmed" if low > 0 else "contradicted"]
    if low > 0 and not low <= abs(claim) <= high:
        parts.append("larger" if abs(claim) < low else "smaller")
    if 1 in tested.seeds.values():
        parts.append("one seed each" if set(tested.seeds.values()) == {1} else "one seed")
    if adjusted is not None and adjusted >= SIGNIFICANT:
        parts.append("not after Holm")
    return ", ".join(parts)


def _describe(tested: Tested, digits: int) -> tuple[str, str, str, str]:
    difference = show_signed(digits, tested.difference)
    if tested.test is None:
        return difference, NONE, f"not tested: {tested.remark}", NONE
    texts, seeds = tested.over_texts, tested.over_seeds
    over_texts = NONE if texts is None else show_signed(digits, *texts)
    if seeds is None:
        return difference, NONE, over_texts, NONE
    return difference, show_signed(digits, seeds.low, seeds.high), over_texts, show_p(seeds.p)


def _describe_data(tested: Tested, digits: int) -> tuple[str, str, str]:
    examples = f"{tested.examples:,}" if tested.examples else NONE
    if tested.units not in (0, tested.examples):
        examples += f" in {tested.units:,} groups ({tested.effective:,.0f} effective)"
    counts = list(dict.fromkeys(tested.seeds.values()))
    seeds = (
        str(counts[0]) if len(counts) == 1 else ", ".join(f"{row}: {n}" for row, n in tested.seeds.items())
    )
    by_seed = (f"{seed}: {show_signed(digits, difference)}" for seed, difference in tested.by_seed.items())
    return examples, seeds, ", ".join(by_seed)
