"""Suites other than the decathlon in a real browser: directions, scales, and a suite without a total."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from decabench.leaderboard import write_leaderboard
from decabench.tasks import Suite
from tests.browser.conftest import PATIENCE, Watched
from tests.browser.test_pages import AXE
from tests.leaderboard.small import results, suite_results, write

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

MIXED = Suite("mixed", "Mixed scores", ("errors", "points", "correlation"))
ERRORS = Suite("errors", "Errors", ("errors",), total="mean", total_name="mean error")
USED = {"errors": "mse", "points": "em", "correlation": "pearson"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a site with three suites."""
    folder = tmp_path_factory.mktemp("suites")
    files = [results("decathlete", 50.0)]
    for name, scores in (("near", (0.25, 90.0, -5.0)), ("far", (4.0, 20.0, 60.0))):
        files.append(suite_results(name, MIXED, dict(zip(MIXED.tasks, scores, strict=True)), USED))
    include = []
    for task, metric in USED.items():
        include.append(folder / f"{task}.toml")
        include[-1].write_text(
            f'format = "decabench.taskfile/1"\nname = "{task}"\nmetric = "{metric}"\nanswer = "a"\n'
            'question = "?"\ncontext = "{a}"\n[files]\nvalidation = "none.jsonl"\n'
        )
    for suite in (MIXED, ERRORS):
        include.append(folder / f"{suite.name}-suite.toml")
        include[-1].write_text(
            f'format = "decabench.suite/1"\nname = "{suite.name}"\ntitle = "{suite.title}"\n'
            f'total = "{suite.total}"\ntotal_name = "{suite.total_name}"\ntasks = {list(suite.tasks)}\n'
        )
    given: dict[str, Any] = {"include": include, "examples": "none", "rank_reported": True}
    given["suites"] = ["decathlon", "mixed", "errors"]
    write_leaderboard(write(folder / "in", files), folder / "out", folder / "home", **given)
    return (folder / "out").as_uri()


@pytest.fixture
def watched(browser: Browser, place: str) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    watch = Watched(context, place)
    yield context
    context.close()
    assert watch.faults == []


def opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    return page


def names(page: Page) -> list[str]:
    return page.locator("tbody th.name a").all_inner_texts()


def test_a_click_sorts_the_best_first(watched: BrowserContext, place: str) -> None:
    page = opened(watched, f"{place}/suite-mixed.html")
    for task, order in (("errors", "ascending"), ("points", "descending")):
        head = page.locator(f"th[data-key='{task}']")
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        assert names(page) == ["near", "far"]
    best = page.locator("tbody tr", has_text="near").locator("td")
    assert ["h8" in (cell.get_attribute("class") or "") for cell in best.all()] == [True, True, False]
    page.locator("th[data-key='correlation'] button").click()
    assert names(page) == ["far", "near"]


def test_no_ranks_without_a_total(watched: BrowserContext, place: str) -> None:
    page = opened(watched, f"{place}/suite-mixed.html")
    assert page.locator("th[data-key='rank'], th[data-key='total']").count() == 0
    assert names(page) == ["far", "near"]


def test_the_lowest_mean_error_is_first(watched: BrowserContext, place: str) -> None:
    page = opened(watched, f"{place}/suite-errors.html")
    assert names(page) == ["near", "far"]
    assert "lower is better" in page.locator("th[data-key='total']").inner_text()


def test_numbers_are_rounded_as_in_the_tables(watched: BrowserContext, place: str) -> None:
    """Scores on 400 examples are multiples of 0.25. Python writes the tables, and the browser the comparisons."""
    page = opened(watched, f"{place}/compare.html")
    values = [number / 8 for number in range(-40, 808)] + [46.45, 46.65, 1.005, 0.285, 2.675]
    for digits in (0, 1, 2, 3):
        shown = page.evaluate(
            "([values, digits]) => values.map((v) => decabench.fixed(v, digits))", [values, digits]
        )
        assert [float(text) for text in shown] == [float(f"{value:.{digits}f}") for value in values]


def test_suites_are_a_click_apart(watched: BrowserContext, place: str) -> None:
    page = opened(watched, f"{place}/index.html")
    page.click("nav[aria-label=Suites] >> text=Mixed scores")
    page.wait_for_selector("h1 >> text=Mixed scores")
    page.click("nav[aria-label=Suites] >> text=The Natural Language Decathlon")
    page.wait_for_selector("h1 >> text=The Natural Language Decathlon")
    assert names(page) == ["decathlete"]


def test_the_comparison_knows_which_way_is_better(watched: BrowserContext, place: str) -> None:
    page = opened(
        watched, f"{place}/compare.html#s=submission-1-validation-mixed,submission-2-validation-mixed"
    )
    page.wait_for_selector("[data-rows] tr")
    cells = [row.locator("td").all_inner_texts() for row in page.locator("[data-rows] tr").all()]
    assert [(row[0], *row[1].split()[:2]) for row in cells] == [
        ("0.250", "4.000", "+3.750"),
        ("90.0", "20.0", "\u221270.0"),
        ("-5.0", "60.0", "+65.0"),
    ]
    assert "no total" in page.locator("[data-verdict]").inner_text()
    assert "other scales" in page.locator("[data-difference-chart]").inner_text()


@pytest.mark.parametrize("path", ["suite-mixed.html", "suite-errors.html", "tasks/errors.html"])
def test_accessibility_and_width(watched: BrowserContext, place: str, path: str) -> None:
    page = opened(watched, f"{place}/{path}")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({ preload: false })")
    assert [one["id"] for one in found["violations"] if one["impact"] in ("serious", "critical")] == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
