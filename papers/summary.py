"""A plan's summary sentences, whose figures are filled in from the runs and so are never out of date."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from statistics import mean

from papers.contrasts import SIGNIFICANT, SMALLEST, Finding, Findings
from papers.plan import FIGURE, Place, Plan
from papers.scores import Scored, values
from papers.tables import NONE, show_signed

LEGEND = f"""After each difference come its 95 % interval over texts and seeds, what that says, and the paper's
difference if it prints one. *Shown*: the interval is on one side of zero, each side has several seeds, and
p is below {SIGNIFICANT} after a correction for all planned contrasts; if not, *one seed* or *not after the
correction* says which of these it lacks. *Open*: zero is within the interval. *Over texts alone*: nothing is
known of other seeds."""


def count_shown(findings: Findings) -> str:
    """Return a sentence with the number of significant differences."""
    tested = [one for one in findings.found if not one.is_part and one.tested is not None]
    shown = sum(_conclude(one) == ["shown"] for one in tested)
    if not shown:
        return f"Of the {len(tested)} differences that have runs, none is shown."
    return f"Of the {len(tested)} differences that have runs, {shown} {'is' if shown == 1 else 'are'} shown."


def fill_summary(plan: Plan, scored: Scored, findings: Findings, place: Place) -> list[str]:
    """Return the sentences of a plan's summary with their figures: of rows, and of contrasts."""
    known = {(one.contrast.title, one.measure): one for one in findings.found if not one.is_part}

    def fill(name: str, measure: str) -> str:
        finding = known.get((name, measure))
        return (
            _describe_row(plan, name, measure, scored, place) if finding is None else _describe(plan, finding)
        )

    filled = (FIGURE.sub(lambda found: fill(found["name"], found["measure"]), one) for one in plan.summary)
    return [textwrap.fill(one, 130, break_long_words=False, break_on_hyphens=False) for one in filled]


def _describe_row(plan: Plan, row: str, name: str, scored: Scored, place: Place) -> str:
    """Return the mean of a row's figures, and the paper's if there is one."""
    measure = plan.measures[name]
    figures = values(scored, row, measure, place)
    published = plan.published_figure(row, name, False, place.include)
    shown = f"{mean(figures.values()):.{measure.digits}f}" if figures else NONE
    return shown if published is None else f"{shown} (the paper {published:.{measure.digits}f})"


def _describe(plan: Plan, one: Finding) -> str:
    """Return a difference, its interval, what that says, and the paper's difference."""
    digits = plan.measures[one.measure].digits
    if one.tested is None:
        return f"{NONE} (no runs as yet)"
    parts = [", ".join(_say(one, digits))]
    if one.claim is not None and abs(one.claim) >= SMALLEST:
        parts.append(f"the paper {show_signed(digits, one.claim)}")
    return f"{show_signed(digits, one.tested.difference)} ({'; '.join(parts)})"


def _say(one: Finding, digits: int) -> Iterator[str]:
    """Yield a finding's interval, and what it says."""
    assert one.tested is not None
    tested, both = one.tested, one.tested.over_seeds
    if both is None:
        texts = tested.over_texts
        yield "not tested" if texts is None else f"{_show(*texts, digits)} over texts alone"
        return
    yield _show(both.low, both.high, digits)
    yield from _conclude(one)


def _conclude(one: Finding) -> list[str]:
    """Return what the interval over texts and seeds says; nothing without one."""
    if one.tested is None or (both := one.tested.over_seeds) is None:
        return []
    if both.low <= 0 <= both.high:
        return ["open"]
    few = 1 in one.tested.seeds.values()
    corrected = one.adjusted is not None and one.adjusted < SIGNIFICANT
    lacks = (("one seed", few), ("not after the correction", not corrected))
    return [word for word, lacking in lacks if lacking] or ["shown"]


def _show(low: float, high: float, digits: int) -> str:
    return f"{low:.{digits}f} to {high:.{digits}f}"
