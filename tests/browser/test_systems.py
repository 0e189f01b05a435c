"""Runs of one system in a real browser: the row opens, and figures for chosen tasks equal Python's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from decabench.leaderboard import write_leaderboard
from decabench.leaderboard.entries import Standings
from decabench.leaderboard.ranking import rank_suite
from decabench.leaderboard.scores import Keeper, find_submissions, group_runs, score_submissions
from decabench.tasks import TASKS, Store
from tests.browser.conftest import PATIENCE, Watched
from tests.browser.test_pages import AXE
from tests.leaderboard.test_systems import PAIR, sampled, write, write_suite

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

ROWS = ".board tbody tr:not(.group)"


@pytest.fixture(scope="module")
def folder(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("systems")
    write(home, folder / "in", "best", 0.9, 0)
    for seed in range(3):
        write(home, folder / "in", f"model-{seed}", 0.6, 10 + seed, predictor=sampled(seed))
    write(home, folder / "in", "near", 0.55, 2)
    write(home, folder / "in", "worst", 0.2, 1)
    include = write_suite(folder / "pair.toml")
    write_leaderboard(folder / "in", folder / "out", home=home, include=include, examples="free")
    return folder


@pytest.fixture
def context(browser: Browser, folder: Path) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    watch = Watched(context, (folder / "out").as_uri())
    yield context
    context.close()
    assert watch.faults == []


@pytest.fixture
def page(context: BrowserContext, folder: Path) -> Page:
    page = context.new_page()
    page.goto(f"{(folder / 'out').as_uri()}/index.html")
    return page


def names(page: Page) -> list[str]:
    page.locator(f"{ROWS} button.runs").wait_for()
    return page.locator(f"{ROWS} th.name a").all_inner_texts()


def test_a_row_opens_to_its_runs(page: Page) -> None:
    whole = ["best", "model-0", "near", "worst"]
    assert names(page) == whole and page.locator("[data-count]").inner_text() == "4 rows"
    button = page.locator("button.runs")
    assert (
        button.inner_text().strip() == "mean of 3 runs" and button.get_attribute("aria-expanded") == "false"
    )
    button.click()
    assert names(page) == ["best", "model-0", "model-0", "model-1", "model-2", "near", "worst"]
    assert button.get_attribute("aria-expanded") == "true" and "runs=runs-" in page.url
    assert page.locator("[data-count]").inner_text() == "4 rows"
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({ preload: false })")
    assert [one["id"] for one in found["violations"] if one["impact"] in ("serious", "critical")] == []
    page.reload()
    assert len(names(page)) == 7
    page.locator("th[data-key='total'] button").click()
    page.locator("th[data-key='total'] button").click()
    assert names(page) == ["worst", "near", "model-0", "model-0", "model-1", "model-2", "best"]
    page.fill("input[name=q]", "model-2")  # finds the system of the run
    assert names(page) == ["model-0", "model-0", "model-1", "model-2"]
    page.locator("button.runs").click()
    assert names(page) == ["model-0"] and "runs=" not in page.url


def of_one_task(folder: Path, home: Path) -> Standings:
    suite = replace(PAIR, tasks=("schema",))
    top, paths, _ = find_submissions(folder / "in")
    keeper = Keeper(Store(home), [suite], TASKS)
    entries, _ = score_submissions(top, paths, keeper)
    return rank_suite(suite, group_runs(entries, keeper), TASKS).tables[0]


def test_a_system_of_several_runs_has_the_figures_of_python_for_chosen_tasks(
    page: Page, folder: Path, home: Path
) -> None:
    names(page)
    page.click(".drop >> text=Tasks")
    page.uncheck("input[name=task][value=sst]")
    page.keyboard.press("Escape")
    page.locator("[data-note]", has_text="same resamples").wait_for()
    page.click("button.runs")
    table = of_one_task(folder, home)
    shown = [
        [cell.inner_text().split("\n") for cell in row.locator("td, th").all()[:3]]
        for row in page.locator(ROWS).all()
    ]
    expected = []
    for row in table.rows:
        assert row.place is not None
        spread = [] if row.deviation is None else [f"± {row.deviation:.1f}"]
        rank = [str(row.rank), *([row.place.span] if row.place.span else [])]
        expected.append((rank, [row.total, *spread, row.interval_text]))
        expected += [(["–"], [run.total, run.interval_text]) for run in row.runs]
    assert [(rank, total) for rank, _, total in shown] == expected


def test_single_runs_can_be_compared(page: Page, context: BrowserContext, folder: Path) -> None:
    names(page)
    system = (page.locator("th.name a").nth(1).get_attribute("href") or "").split("/")[-1].split(".")[0]
    page.goto(f"{(folder / 'out').as_uri()}/compare.html#s={system},model-1-validation")
    page.locator("[data-verdict]", has_text="no clear difference").wait_for()
    assert "model-1, seed 1 against model-0" in page.locator("[data-verdict]").inner_text()
    assert "model-2, seed 2 (single run)" in page.locator("select[name=add] option").all_inner_texts()
    page.click("text=Show examples")
    page.locator("[data-list] li").first.wait_for()
    assert "(first run)" in page.locator("[data-list] li").first.inner_text()


def test_an_unknown_code_of_a_language_is_shown_as_it_is(
    page: Page, context: BrowserContext, folder: Path
) -> None:
    copy = shutil.copytree(folder / "out", folder / "out" / "copy")
    data = copy / "data" / "boards" / "board.js"
    text = data.read_text(encoding="ascii")
    assert text.count('[\\"en\\"]') == 2
    data.write_text(text.replace('[\\"en\\"]', '[\\"hi-en-gu\\"]', 1), encoding="ascii")
    page.goto(f"{copy.as_uri()}/index.html")
    page.click(".drop >> text=Tasks")
    page.click("[data-presets] >> text='hi-en-gu'")
    assert page.locator("[data-chosen]").inner_text() == "1 of 2"
