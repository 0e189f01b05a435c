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

ROWS = "section.table:not([hidden]) .board tbody tr:not(.group)"
HOSTILE = "<img src=x onerror=alert(1)>"


def names(page: Page) -> list[str]:
    return page.locator(f"{ROWS} th.name a").all_inner_texts()


def values(page: Page, number: int) -> list[float]:
    """Return the numbers in a column, without dashes."""
    cells = page.locator(f"{ROWS} td:nth-child({number})").all_inner_texts()
    return [float(text.split()[0]) for text in cells if not text.startswith("–")]


def again(page: Page) -> None:
    """Open the same address in a new page, as someone who received the link would."""
    url = page.url
    page.goto("about:blank")
    page.goto(url)


@SERVED
def test_hostile_names_are_text(page: Page) -> None:
    assert HOSTILE in names(page)
    assert page.locator("img").count() == 0


def test_sort_by_any_column(page: Page) -> None:
    for key, number in (("sst", 8), ("squad", 4), ("total", 3)):
        head = page.locator(f"section.table:not([hidden]) th[data-key='{key}']")
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        assert values(page, number) == sorted(values(page, number), reverse=True)
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        assert values(page, number) == sorted(values(page, number))
        if key != "squad":  # of which every row has a score
            assert page.locator(ROWS).last.locator("td").nth(number - 2).inner_text().startswith("–")
    assert "Sorted by total, ascending" in page.locator("[data-status]").inner_text()


def test_sort_by_keyboard(page: Page) -> None:
    page.locator("section.table:not([hidden]) th[data-key='name'] button").focus()
    page.keyboard.press("Enter")
    assert names(page) == sorted(names(page), key=str.lower)


@SERVED
def test_further_columns_are_switched_on(page: Page) -> None:
    head = page.locator("section.table:not([hidden]) th[data-key='+tokens']")
    assert not head.is_visible()
    page.click("summary:has-text('Columns')")
    page.check("text=Tokens, in thousands")
    page.keyboard.press("Escape")
    head.locator("button").click()
    assert names(page)[0] == "stated" and "more=tokens" in page.url
    assert page.locator(f"{ROWS} td.more").all_inner_texts()[:2] == ["12", "\u2013"]


@SERVED
def test_search(page: Page) -> None:
    before = names(page)
    page.fill("input[name=q]", "SYSTEM 03")
    assert names(page) == ["system 03"]
    assert page.locator("[data-count]").inner_text() == "1 of 22 rows"
    assert "1 of 22 rows shown" in page.locator("[data-status]").inner_text()
    page.fill("input[name=q]", "mqan")
    assert page.locator(f"{ROWS}.paper").count() == page.locator(ROWS).count() > 3
    page.fill("input[name=q]", "nobody")
    assert names(page) == []
    page.click(".drop >> text=Filter")
    page.click("button[type=reset]")
    assert names(page) == before


@SERVED
def test_filters(page: Page) -> None:
    page.click(".drop >> text=Filter")
    page.uncheck("input[name=baselines]")
    assert not {"majority", "oracle"} & set(names(page)) and page.locator(f"{ROWS}.paper").count() == 11
    page.uncheck("input[name=papers]")
    assert page.locator(f"{ROWS}.paper").count() == 0
    page.check("input[name=complete]")
    assert "system 07" not in names(page) and len(names(page)) == 8
    page.check("input[name=open]")
    assert names(page) == ["system 00", "system 03", "system 06"]
    page.select_option("select[name=size]", label="1B to 10B")
    assert names(page) == ["system 06"]
    page.click("button[type=reset]")
    page.select_option("select[name=year]", "2024")
    assert names(page) == ["system 06", "system 07"]
    page.click("button[type=reset]")
    page.select_option("select[name=evidence]", "reported")
    assert names(page) == ["stated"]
    page.keyboard.press("Escape")
    assert not page.locator("input[name=papers]").is_visible()


@SERVED
def test_intervals_of_tasks(page: Page) -> None:
    cell = page.locator(f"{ROWS} td:nth-child(10)").first
    page.click(".drop >> text=Filter")
    assert cell.locator(".iv").count() == 0
    page.check("input[name=intervals]")
    assert cell.locator(".iv").is_visible()


@SERVED
def test_presets_of_languages(page: Page) -> None:
    page.click(".drop >> text=Tasks")
    page.click("[data-presets] >> text='English and German'")
    assert page.locator("[data-chosen]").inner_text() == "1 of 10" and page.url.endswith("tasks=iwslt.en.de")
    page.click("[data-presets] >> text='English'")
    assert page.locator("[data-chosen]").inner_text() == "9 of 10"


def test_a_permalink_keeps_it_all(page: Page) -> None:
    page.fill("input[name=q]", "author")
    page.click(".drop >> text=Filter")
    page.check("input[name=complete]")
    page.keyboard.press("Escape")
    for _ in range(2):
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
    "view",
    [
        "intervals",
        "pairs",
        *(pytest.param(view, marks=pytest.mark.heavy) for view in ("heat", "size", "date")),
    ],
)
def test_views_have_an_address_a_picture_and_numbers(page: Page, view: str) -> None:
    page.select_option("select[name=view]", view)
    again(page)
    chart = page.locator("section.table:not([hidden]) [data-view]")
    chart.locator("svg g").first.wait_for()
    assert "<img src=x" in (chart.locator("svg").text_content() or "") or view in ("date", "size")
    for name in ("SVG", "CSV"):
        with page.expect_download() as download:
            chart.locator(f".downloads >> text={name}").click()
        text = download.value.path().read_text(encoding="utf-8")
        assert text.startswith("<svg" if name == "SVG" else ("name,", "name,")) and "var(--" not in text
    chart.locator("summary").click()
    chart.locator("tbody tr").nth(5).wait_for()


@SERVED
@pytest.mark.parametrize(
    "state", ["sort=__proto__:asc", "sort=%3Cimg%3E:desc", "board=nowhere&size=x&tasks=,,&view=x", "q=%"]
)
def test_a_permalink_that_is_nonsense_is_passed_over(page: Page, address: str, state: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}/index.html#{state}")
    assert page.locator("section.table:not([hidden])").count() == 1
    assert page.locator("input[name=q]").is_visible()


@SERVED
def test_splits_have_tables_of_their_own(page: Page) -> None:
    shown = page.locator("section.table:not([hidden])")
    assert shown.count() == 1 and "stated" in shown.locator(".board tbody").inner_text()
    other = page.locator("select[name=board] option").nth(1).get_attribute("value")
    page.select_option("select[name=board]", other)
    for _ in range(2):
        assert shown.count() == 1 and "tested" in shown.locator(".board tbody").inner_text()
        again(page)


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


@SERVED  # from the disk a browser opens the file instead
def test_downloads(page: Page) -> None:
    for name in ("CSV", "JSON"):
        with page.expect_download() as download:
            page.click(f"section.table:not([hidden]) .downloads >> text={name}")
        text = download.value.path().read_text(encoding="utf-8")
        found = csv.DictReader(io.StringIO(text)) if name == "CSV" else json.loads(text)["submissions"]
        assert len(list(found)) == 12


def test_only_what_the_overview_shows_is_loaded(page: Page) -> None:
    loaded = [url for url in page.context.watched.requests if "/data/" in url]  # type: ignore[attr-defined]
    assert [url.rpartition("/data/")[2] for url in loaded] == ["boards/board.js"]


@SERVED
def test_groups_have_headings_unless_the_rows_are_sorted(page: Page) -> None:
    page.locator(ROWS).first.wait_for()
    groups = page.locator("section.table:not([hidden]) .group")
    assert groups.evaluate_all("all => all.map((each) => each.dataset.kind)") == [
        "floor",
        "ceiling",
        "apart",
        "paper",
    ]
    page.click("thead th[data-key=sst] button")
    assert groups.count() == 0


@SERVED
@pytest.mark.parametrize(("width", "height", "most"), [(1440, 900, 300), (390, 844, 600)])
def test_the_first_row_is_on_the_first_screen(page: Page, width: int, height: int, most: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    assert page.locator(ROWS).first.bounding_box()["y"] < most  # type: ignore[index]


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
    assert bare.locator(".board tbody tr:not(.group)").count() == 23
    assert not bare.locator("form.controls").is_visible()
    context.close()
