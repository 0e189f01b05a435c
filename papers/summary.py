"""The sentences of a plan's summary, whose figures are filled in from the runs and therefore always up to date."""

from __future__ import annotations

import textwrap
from statistics import mean

from papers.contrasts import SIGNIFICANT, SMALLEST, Finding, Findings
from papers.plan import FIGURE, Place, Plan
from papers.scores import Scored, Tested, values
from papers.tables import NONE, show_signed

LEGEND = f"""Brackets give the 95 % interval over texts and seeds, and the paper's difference if it prints one. With too
few seeds, the interval is over *texts alone*. ¹ One side has a single seed. ² p is {SIGNIFICANT} or more after
correcting for all planned contrasts."""


def count_shown(findings: Findings) -> str:
    """Return a sentence with the number of significant differences."""
    tested = [one for one in findings.found if not one.is_part and one.tested is not None]
    shown = sum(_excludes_zero(one) and not _marks(one) for one in tested)
    return (
        f"Of {len(tested)} tested differences, {shown or 'none'} {'are' if shown > 1 else 'is'} "
        "significant: the interval excludes zero, each side has several seeds, and p is below "
        f"{SIGNIFICANT} after the correction."
    )


def fill_summary(plan: Plan, scored: Scored, findings: Findings, place: Place) -> list[str]:
    """Return a plan's summary sentences, with the figures of rows and contrasts filled in."""
    known = {(one.contrast.title, one.measure): one for one in findings.found if not one.is_part}

    def fill(name: str, measure: str) -> str:
        finding = known.get((name, measure))
        return (
            _describe_row(plan, name, measure, scored, place) if finding is None else _describe(plan, finding)
        )

    filled = (FIGURE.sub(lambda found: fill(found["name"], found["measure"]), one) for one in plan.summary)
    return [textwrap.fill(one, 130, break_long_words=False, break_on_hyphens=False) for one in filled]


def _describe_row(plan: Plan, row: str, name: str, scored: Scored, place: Place) -> str:
    """Return the mean of a row's figures, and the paper's figure if there is one."""
    measure = plan.measures[name]
    figures = values(scored, row, measure, place)
    published = plan.published_figure(row, name, False, place.include)
    shown = f"{mean(figures.values()):.{measure.digits}f}" if figures else NONE
    return shown if published is None else f"{shown} (paper {published:.{measure.digits}f})"


def _describe(plan: Plan, one: Finding) -> str:
    """Return a difference, its interval, their meaning, and the paper's difference."""
    digits = plan.measures[one.measure].digits
    if one.tested is None:
        return f"{NONE} (no runs yet)"
    shown = f"{show_signed(digits, one.tested.difference)} {_interval(one.tested, digits)}{_marks(one)}"
    if one.claim is None or abs(one.claim) < SMALLEST:
        return shown
    return f"{shown} (paper {show_signed(digits, one.claim)})"


def _interval(tested: Tested, digits: int) -> str:
    """Return the interval over texts and seeds, or else over texts only, in brackets."""
    if both := tested.over_seeds:
        return f"[{both.low:.{digits}f}, {both.high:.{digits}f}]"
    if texts := tested.over_texts:
        return f"[{texts[0]:.{digits}f}, {texts[1]:.{digits}f}; texts alone]"
    return "[not tested]"


def _marks(one: Finding) -> str:
    """Return the marks of a finding whose interval excludes zero, for its reservations."""
    if one.tested is None or not _excludes_zero(one):
        return ""
    corrected = one.adjusted is not None and one.adjusted < SIGNIFICANT
    return "¹" * (1 in one.tested.seeds.values()) + "²" * (not corrected)


def _excludes_zero(one: Finding) -> bool:
    """Return whether the interval over texts and seeds excludes zero."""
    return (
        one.tested is not None
        and (both := one.tested.over_seeds) is not None
        and not both.low <= 0 <= both.high
    )
