"""Tests, totals and ranks computed in the browser equal Python's, for all tasks and for some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from decabench.leaderboard.entries import Standings
from decabench.leaderboard.ranking import rank_suite
from decabench.leaderboard.scores import Keeper, find_submissions, score_submissions
from decabench.tasks import DECATHLON, TASKS, Store
from tests.browser.conftest import SERVED

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

SOME = ("squad", "woz.en", "schema", "sst")


def ranked(site: Path, home: Path, tasks: tuple[str, ...]) -> Standings:
    """Return Python's table for a suite of these tasks."""
    suite = replace(DECATHLON, tasks=tasks, published=())
    folder, paths, _ = find_submissions(site.parent / "submissions")
    entries, _ = score_submissions(folder, paths, Keeper(Store(home), [suite], TASKS))
    return rank_suite(suite, entries, TASKS).tables[0]


@SERVED
def test_the_figures_of_chosen_tasks_are_those_of_a_suite_of_them(page: Page, site: Path, home: Path) -> None:
    page.click(".drop >> text=Tasks")
    for box in page.locator("input[name=task]").all():
        box.set_checked(box.get_attribute("value") in SOME)
    page.locator("[data-note]", has_text="same resamples").wait_for()
    assert "tasks=squad%2Csst%2Cwoz.en%2Cschema" in page.url
    shown = {}
    for row in page.locator("section.table:not([hidden]) .board tbody tr").all():
        rank, name, total = (cell.inner_text().split("\n") for cell in row.locator("td, th").all()[:3])
        shown[name[0]] = [*rank, *total]
    expected = ranked(site, home, SOME)
    assert len({row.rank for row in expected.rows}) > 2
    for row in expected.rows:
        if row.place is None:
            continue
        span = [row.place.span] if row.place.span else []
        assert shown[row.entry.name] == [str(row.rank), *span, row.total, row.interval_text]


@SERVED
def test_pairs_have_the_figures_of_python(page: Page, site: Path, home: Path) -> None:
    table = ranked(site, home, DECATHLON.tasks)
    pages = [f"{row.entry.path.replace('/', '-')}" for row in table.compared_rows]
    found: dict[str, list[dict[str, Any] | None]] = page.evaluate(
        """async ([id, pages, tasks, families]) => {
          const { pairs, load } = decabench;
          const data = await load("tests/" + id);
          const tests = new pairs.Tests(data);
          await tests.load(pages);
          const made = {};
          for (const task of ["", ...tasks]) {
            const highest = pairs.floats(data.highest[task]);
            const inside = (index) => families[task].includes(index);
            made[task] = pages.flatMap((b, j) => pages.slice(0, j).map((a, i) =>
              tests.pair(a, b, task ? [task] : tasks, false, highest, inside(i) && inside(j))));
          }
          return made;
        }""",
        [
            page.locator("section.table:not([hidden])").get_attribute("data-table"),
            pages,
            DECATHLON.tasks,
            {"": [index for index, row in enumerate(table.rows) if row.value is not None]}
            | {
                name: [index for index, row in enumerate(table.rows) if row.entry.score(name) is not None]
                for name in DECATHLON.tasks
            },
        ],
    )
    assert table.tests.total is not None
    for name, tests in {"": table.tests.total, **table.tests.tasks}.items():
        pairs = [(a, b) for b in range(len(pages)) for a in range(b)]
        for (a, b), made in zip(pairs, found[name], strict=True):
            assert (made is not None) == tests.is_tested(a, b)
            if made is None:
                continue
            interval = tests.interval(a, b)
            assert made["difference"] == pytest.approx(tests.differences[a, b], abs=1e-9)
            assert (made["p"], made["adjusted"]) == (tests.p[a, b], tests.adjusted[a, b]), (name, a, b)
            assert made["isSame"] == tests.is_same(a, b)
            assert (made["interval"] is None) == (interval is None)
            if interval is not None:
                assert made["interval"] == pytest.approx((interval.low, interval.high), rel=1e-5, abs=1e-5)
