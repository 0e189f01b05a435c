"""Claims of the papers and their outcomes: each plan's findings file, and the page that summarizes all plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from decabench.errors import DataError
from papers.contrasts import SMALLEST, Finding, Findings, rises
from papers.plan import Place, Plan, contrast_title
from papers.tables import NONE, as_table, join_words, published_remark, show_signed

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

KINDS = ("confirmed", "contradicted", "open", "open, smaller", "too few seeds", "not tested", "no runs")
FINDINGS = "findings"
RESERVATION = " with a reservation"
RESERVATIONS = ("one seed", "one seed each", "not after Holm")
HEAD = """# Which of the papers' claims hold up

Each line below compares two models (or two ways to train one). It gives the difference that one of five papers
reports, and our own difference with a 95% interval over test texts and seeds.

| verdict | meaning |
| --- | --- |
| confirmed, contradicted | the interval lies on the claim's side of zero, or on the other side |
| open | the interval contains zero |
| larger, smaller | our difference is larger or smaller than the paper's, which lies outside the interval |
| too few seeds | there is no interval over seeds; an interval over *texts alone* covers only the trained models |
| (+n) | n more with a reservation: one seed, or p of 0.05 or more after correcting for all planned contrasts |

The counts don't measure how often papers are right. Many lines share runs, and some concern models that the authors
use only for comparison. A confirmed claim may still have another cause, which a control on the paper's page may show.
Remarks on the papers' figures mean: *recalled* from memory, because we didn't have the table; *dev*, on development
data; *PTB*, on the Penn Treebank."""
FOOT = "`python -m papers claims` generates this page from the findings that `python -m papers page` writes."


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A contrast on one measure, with the paper's difference and ours."""

    row: str
    baseline: tuple[str, ...]
    """The row to compare with, or several rows whose mean is used."""
    measure: str
    falls: bool = False
    """Whether lower is better, as for an error. All other measures have a scale of 100 points."""
    digits: int
    """The number of decimals that the paper prints."""
    paper: float | None
    """The paper's difference. None for a control that is not in the paper, and for a difference of 0."""
    remark: str = ""
    """A note on the paper's figures."""
    difference: float | None = None
    """Our difference, or None if a row has no runs.

    The intervals and p values are also None if there is no test.
    """
    over_texts: tuple[float, float] | None = None
    """The 95% interval over texts, for the trained models."""
    over_seeds: tuple[float, float] | None = None
    """The 95% interval over texts and seeds."""
    p: float | None = None
    """The p value over texts and seeds."""
    p_holm: float | None = None
    """The p value, corrected for all planned contrasts."""
    seeds: dict[str, int] = {}
    """The number of seeds for each trained row."""
    verdict: str = ""
    """The outcome of the paper's claim. Empty if there is no claim or if a row has no runs."""

    @property
    def title(self) -> str:
        """The names of the row and its baseline, as written on the page."""
        return contrast_title(self.row, self.baseline)


class FindingsFile(msgspec.Struct, frozen=True, kw_only=True):
    """The findings file of a page, `NAME.json`."""

    schema: Literal["decabench.findings/1"]
    title: str
    paper: str
    contrasts: tuple[Claim, ...]

    @property
    def claims(self) -> list[Claim]:
        """The contrasts for which the paper reports a difference."""
        return [one for one in self.contrasts if one.paper is not None]

    @property
    def done(self) -> list[Claim]:
        """The claims that have runs."""
        return [one for one in self.claims if one.difference is not None]


def write_findings(plan: Plan, findings: Findings, place: Place) -> FindingsFile:
    """Write the outcomes of a plan's contrasts to `OUTPUT/findings`.

    The outcomes on texts without overlap are left out and only shown on the page.
    """
    contrasts = [_record(plan, one, place) for one in findings.found if not one.is_part]
    content = FindingsFile(
        schema="decabench.findings/1", title=plan.title, paper=plan.paper, contrasts=tuple(contrasts)
    )
    path = place.output / FINDINGS / f"{place.plan.parent.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    return content


def _record(plan: Plan, one: Finding, place: Place) -> Claim:
    measure, tested, contrast = plan.measures[one.measure], one.tested, one.contrast
    claim = None if one.claim is None or abs(one.claim) < SMALLEST else round(one.claim, 4)
    claimed = Claim(
        row=contrast.row,
        baseline=contrast.baseline,
        measure=one.measure,
        falls=not rises(measure, place),
        digits=measure.digits,
        paper=claim,
        remark=contrast.remark
        or ("" if contrast.claimed else published_remark(measure, contrast.development)),
    )
    if tested is None:
        return claimed
    both = tested.over_seeds
    return msgspec.structs.replace(
        claimed,
        difference=round(tested.difference, 4),
        over_texts=tested.over_texts,
        over_seeds=None if both is None else (round(both.low, 4), round(both.high, 4)),
        p=None if both is None else round(both.p, 6),
        p_holm=None if one.adjusted is None else round(one.adjusted, 6),
        seeds=dict(tested.seeds),
        verdict=one.verdict,
    )


def write_claims(folder: Path, page: Path) -> None:
    """Write the page on all papers' claims. Its plots have already been written with the papers' pages.

    Raises DataError if the folder has no findings.
    """
    files = read_findings(folder)
    if not any(own.claims for own in files.values()):
        raise DataError(f"{folder} has no findings. Write them with `python -m papers page PLAN`.")
    page.write_text(make_claims(files), encoding="utf-8")


def read_findings(folder: Path) -> dict[str, FindingsFile]:
    """Read the findings of all pages in a folder, by page name, sorted by paper and title.

    Raises DataError if a file doesn't contain findings.
    """
    found = {}
    for path in folder.glob("*.json"):
        try:
            found[path.stem] = msgspec.json.decode(path.read_bytes(), type=FindingsFile)
        except (OSError, msgspec.MsgspecError) as error:
            raise DataError(
                f"{path} does not contain the findings of a page ({error}). Write the page again with "
                "`python -m papers page`."
            ) from None
    return dict(sorted(found.items(), key=lambda item: (item[1].paper, item[1].title)))


def make_claims(files: Mapping[str, FindingsFile]) -> str:
    """Return the text of the page on all papers' claims."""
    others = [f"[{own.title}]({name}.md)" for name, own in files.items() if not own.claims]
    files = {name: own for name, own in files.items() if own.claims}
    counts = {name: count_verdicts(own.claims) for name, own in files.items()}
    lines = [
        [f"[{files[name].title}]({name}.md)", str(sum(own.values())), *(_count(own, kind) for kind in KINDS)]
        for name, own in counts.items()
    ]
    parts = [HEAD, as_table(["", "claims", *KINDS], lines)]
    if others:
        parts.append(
            "The contrasts on these pages can't be compared with published figures, because there are none: "
            f"{', '.join(others)}."
        )
    for name, own in files.items():
        parts += [f"## {own.title}", f"{own.paper}: [findings and figures]({name}.md)."]
        if lower := dict.fromkeys(one.measure for one in own.claims if one.falls):
            parts.append(
                f"Lower is better for {join_words(list(lower))}, so a negative difference is a gain."
            )
        if done := own.done:
            parts.append(f"![The paper's differences and ours, with intervals]({picture_name(name)})")
            heads = ["", "measure", "paper", "here", "95%", "seeds", "verdict"]
            parts.append(as_table(heads, [_line(one) for one in done]))
        later = dict[str, list[str]]()
        for one in own.claims:
            if one.difference is None:
                later.setdefault(one.title, []).append(one.measure)
        if later:
            pending = (f"{title} ({', '.join(measures)})" for title, measures in later.items())
            parts.append(f"Not yet run: {'; '.join(pending)}.")
    return "\n\n".join([*parts, FOOT]) + "\n"


def picture_name(name: str) -> str:
    """Return the file name of the plot of a page's claims."""
    return f"claims-{name}.png"


def count_verdicts(claims: Sequence[Claim]) -> Counter[str]:
    """Count claims by verdict. Claims with a reservation are counted separately."""
    counts = Counter[str]()
    for one in claims:
        parts = one.verdict.split(", ") if one.verdict else ["no runs"]
        kind = one.verdict if one.verdict in KINDS else parts[0]
        counts[kind + (RESERVATION if set(parts) & set(RESERVATIONS) else "")] += 1
    return counts


def _count(counts: Mapping[str, int], kind: str) -> str:
    reserved = counts.get(kind + RESERVATION, 0)
    return f"{counts.get(kind, 0)} (+{reserved})" if reserved else str(counts.get(kind, 0))


def _line(one: Claim) -> list[str]:
    assert one.paper is not None and one.difference is not None
    digits = max(one.digits, 2)
    paper = show_signed(one.digits, one.paper) + (f" ({one.remark})" if one.remark else "")
    interval = (
        show_signed(digits, *one.over_seeds)
        if one.over_seeds
        else f"texts alone: {show_signed(digits, *one.over_texts)}"
        if one.over_texts
        else NONE
    )
    return [
        one.title,
        one.measure,
        paper,
        show_signed(digits, one.difference),
        interval,
        _show_seeds(one),
        one.verdict,
    ]


def _show_seeds(one: Claim) -> str:
    if len(counts := set(one.seeds.values())) < 2:
        return "".join(map(str, counts)) or NONE
    baseline = sorted({one.seeds[row] for row in one.baseline if row in one.seeds})
    return f"{one.seeds.get(one.row, NONE)} over {' and '.join(map(str, baseline)) or NONE}"


def plot_claims(claims: Sequence[Claim], path: Path) -> None:
    """Plot our differences next to the paper's, for claims that have runs. Errors have separate axes."""
    from matplotlib.figure import Figure

    groups = [[one for one in claims if one.falls is falls] for falls in (False, True)]
    groups = [group for group in groups if group]
    heights = [len(group) + 2.5 for group in groups]
    figure = Figure(figsize=(9, 0.26 * sum(heights) + 0.6), layout="constrained")
    all_axes = figure.subplots(len(groups), 1, height_ratios=heights, squeeze=False)[:, 0]
    handles: dict[str, Artist] = {}
    for group, axes in zip(groups, all_axes, strict=True):
        _plot_group(axes, group)
        better = (
            "error (the first row is better to the left)"
            if group[0].falls
            else "points (the first row is better to the right)"
        )
        axes.set_xlabel(f"difference between two rows: {better}", fontsize="small")
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    lines, labels = list(handles.values()), list(handles)
    figure.legend(lines, labels, loc="outside upper center", ncols=4, fontsize="small", frameon=False)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def _plot_group(axes: Axes, claims: Sequence[Claim]) -> None:
    axes.axvline(0, color="black", linewidth=0.8)
    for at, one in enumerate(reversed(claims)):
        assert one.difference is not None and one.paper is not None
        ends = one.over_seeds or one.over_texts
        color = "C0" if one.over_seeds else "0.55"
        kind = ", 95% over texts and seeds" if one.over_seeds else ", 95% over texts alone" if ends else ""
        if ends is not None:
            axes.plot(ends, (at, at), color=color, linewidth=1.8)
        axes.plot([one.difference], [at], "o", color=color, markersize=4.5, label=f"here{kind}")
        axes.plot([one.paper], [at], "D", markerfacecolor="none", color="C3", markersize=5, label="the paper")
    titles = [f"{one.title} ({one.measure})" for one in reversed(claims)]
    axes.set_yticks(range(len(claims)), titles, fontsize="x-small")
    axes.set_ylim(-0.8, len(claims) - 0.2)
    axes.grid(axis="x", alpha=0.3)
