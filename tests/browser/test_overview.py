"""The overview in a real browser."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import SERVED

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

ROWS = "section.table:not([hidden]) tbody.systems tr:not([hidden])"
HOSTILE = "<img src=x onerror=alert(1)>"


def names(page: Page) -> list[str]:
    return page.locator(f"{ROWS} th.name a").all_inner_texts()


def values(page: Page, key: str) -> list[float]:
    cells = page.locator(f"{ROWS} td[data-key='{key}'][data-v]")
    return [float(cell.get_attribute("data-v") or "") for cell in cells.all()]


def again(page: Page) -> None:
    """Opens the same address anew, as somebody who was sent it would."""
    url = page.url
    page.goto("about:blank")
    page.goto(url)


@SERVED
def test_hostile_names_are_text(page: Page) -> None:
    assert HOSTILE in names(page)
    assert page.locator("img").count() == 0


def test_sort_by_any_column(page: Page) -> None:
    for key in ("sst", "squad", "iwslt.en.de", "total"):
        head = page.locator(f"section.table:not([hidden]) th[data-key='{key}']")
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert values(page, key) == sorted(values(page, key), reverse=True)
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert values(page, key) == sorted(values(page, key))
        if key in ("sst", "total"):
            assert names(page)[-1] == "system 07", "what has no score stands last either way"
    assert "Sorted by total, ascending" in page.locator("[data-status]").inner_text()


def test_sort_by_keyboard(page: Page) -> None:
    page.locator("section.table:not([hidden]) th[data-key='name'] button").focus()
    page.keyboard.press("Enter")
    assert names(page) == sorted(names(page), key=str.lower)


@SERVED
def test_search(page: Page) -> None:
    before = names(page)
    page.fill("input[name=q]", "SYSTEM 03")
    assert names(page) == ["system 03"]
    assert page.locator("[data-count]").inner_text() == "1 of 8 systems"
    assert "1 of 8 systems shown" in page.locator("[data-status]").inner_text()
    page.fill("input[name=q]", "nobody")
    assert names(page) == []
    page.click("button[type=reset]")
    assert names(page) == before


@SERVED
def test_filters(page: Page) -> None:
    page.check("input[name=complete]")
    assert "system 07" not in names(page) and len(names(page)) == 7
    page.check("input[name=open]")
    assert names(page) == ["system 00", "system 03", "system 06"]
    page.select_option("select[name=size]", "large")
    assert names(page) == ["system 06"]
    page.click("button[type=reset]")
    page.select_option("select[name=year]", "2020")
    assert names(page) == ["system 02"]


@SERVED
def test_columns_and_intervals(page: Page) -> None:
    cell = page.locator("section.table:not([hidden]) tbody.systems td[data-key='zre']").first
    page.click(".columns summary")
    assert cell.is_visible() and not cell.locator(".iv").is_visible()
    page.check("input[name=intervals]")
    assert cell.locator(".iv").is_visible()
    page.uncheck("input[value=zre]")
    assert not cell.is_visible()
    again(page)
    assert not cell.is_visible()


def test_a_permalink_keeps_it_all(page: Page) -> None:
    page.fill("input[name=q]", "author")
    page.check("input[name=complete]")
    page.click("section.table:not([hidden]) th[data-key='iwslt.en.de'] button")
    page.click("section.table:not([hidden]) th[data-key='iwslt.en.de'] button")
    kept = names(page)
    assert "#" in page.url
    again(page)
    assert names(page) == kept
    assert page.input_value("input[name=q]") == "author" and page.is_checked("input[name=complete]")
    head = page.locator("section.table:not([hidden]) th[data-key='iwslt.en.de']")
    assert head.get_attribute("aria-sort") == "ascending"


@SERVED
@pytest.mark.parametrize(
    "state", ["sort=__proto__:asc", "sort=%3Cimg%3E:desc", "board=nowhere&size=x&hide=,,", "q=%"]
)
def test_a_permalink_that_is_nonsense_is_passed_over(page: Page, address: str, state: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}/index.html#{state}")
    assert page.locator("section.table:not([hidden])").count() == 1
    assert page.locator("input[name=q]").is_visible()


@SERVED
def test_splits_have_tables_of_their_own(page: Page) -> None:
    shown = page.locator("section.table:not([hidden])")
    assert shown.count() == 1 and "stated" in shown.locator("tbody.apart").inner_text()
    other = page.locator("select[name=board] option").nth(1).get_attribute("value")
    page.select_option("select[name=board]", other)
    for _ in range(2):
        assert shown.count() == 1 and "tested" in shown.locator("tbody.apart").inner_text()
        again(page)


@SERVED
def test_floor_and_ceiling_stay_apart(page: Page) -> None:
    page.fill("input[name=q]", "system 03")
    for kind, name in (("floors", "majority"), ("ceilings", "oracle")):
        group = page.locator(f"section.table:not([hidden]) tbody.{kind}")
        assert name in group.inner_text() and group.is_visible()


@SERVED
def test_dark_and_light(page: Page) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(colour)
    page.emulate_media(color_scheme="light")
    light = page.evaluate(colour)
    assert dark != light
    page.click("[data-theme-button]")
    page.click("[data-theme-button]")
    assert page.evaluate(colour) == dark
    page.reload()
    assert page.evaluate(colour) == dark


@SERVED
def test_the_chart_is_drawn(page: Page) -> None:
    chart = page.locator("section.table:not([hidden]) [data-whiskers]")
    assert chart.is_visible()
    drawn = (
        "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(v => v)"
    )
    assert chart.locator("canvas").evaluate(drawn)


@SERVED  # from the disk a browser opens the file instead
def test_downloads(page: Page) -> None:
    for name in ("CSV", "JSON"):
        with page.expect_download() as download:
            page.click(f".downloads >> text={name}")
        text = download.value.path().read_text(encoding="utf-8")
        found = csv.DictReader(io.StringIO(text)) if name == "CSV" else json.loads(text)["submissions"]
        assert len(list(found)) == 12


def test_only_what_the_overview_shows_is_loaded(page: Page) -> None:
    assert not [url for url in page.context.watched.requests if "/data/" in url]  # type: ignore[attr-defined]


@SERVED
def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(100)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@SERVED
def test_without_scripts_the_table_is_whole(page: Page, address: str) -> None:
    context = page.context.browser.new_context(java_script_enabled=False)  # type: ignore[union-attr]
    bare = context.new_page()
    bare.goto(f"{address}/index.html")
    assert bare.locator("tbody.systems tr").count() == 9
    assert not bare.locator("form.controls").is_visible()
    context.close()
