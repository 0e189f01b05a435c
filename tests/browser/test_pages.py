"""Submission pages, task pages and the comparison in a real browser, and the accessibility of all pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import SERVED

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

AXE = Path(__file__).parent / "vendor" / "axe-4.14.1.min.js"
PAGES = (
    "index.html",
    "index.html#view=pairs",
    "compare.html",
    "tasks/squad.html",
    "submissions/system-01-validation.html",
    "submissions/system-07-validation.html",
)

FIRST = ("index.html",)
"""The pages whose accessibility is always checked. The others are heavy tests."""


def opened(context: BrowserContext, address: str, path: str) -> Page:
    page = context.new_page()
    page.goto(f"{address}/{path}")
    return page


def requested(page: Page, part: str) -> list[str]:
    return [url for url in page.context.watched.requests if part in url]  # type: ignore[attr-defined]


def show(page: Page, task: str, kind: str) -> None:
    page.select_option("select[name=task]", task)
    page.select_option("select[name=kind]", kind)
    page.click("text=Show examples")
    page.locator("[data-count]", has_text=" of ").wait_for()


def test_examples_are_loaded_when_asked(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "submissions/system-03-validation.html")
    assert not requested(page, "data/answers") and not requested(page, "data/texts")
    show(page, "schema", "all")
    assert page.locator("[data-list] li").count() == 20
    assert page.locator("[data-count]").inner_text() == "82 of 82 examples of schema"
    assert len(requested(page, "data/answers")) == len(requested(page, "data/texts")) == 2
    for _ in range(4):
        page.click("text=Next")
    page.locator("[data-place]", has_text="81 to 82").wait_for()
    for kind in ("right", "wrong"):
        show(page, "schema", kind)
        page.locator(f"[data-list] li.kind-{kind}").first.wait_for()
        texts = page.locator("[data-list] .kind").all_inner_texts()
        assert {text.split(",")[0].removeprefix("partly ") for text in texts} <= {kind, "right"}


def test_right_answers_are_broken_down(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "submissions/system-03-validation.html")
    page.select_option("select[name=by]", "gold")
    show(page, "sst", "wrong")
    charts = page.locator("[data-examples] figure svg")
    charts.nth(1).wait_for()
    shares, confusion = (chart.text_content() or "" for chart in charts.all())
    assert "positive (" in shares and "another answer" in confusion
    page.select_option("select[name=by]", "score")
    page.locator("[data-examples] figure svg", has_text="90 to 100").wait_for()
    page.select_option("select[name=task]", "woz.en")
    page.select_option("select[name=by]", "turn")
    page.locator("[data-examples] figure svg", has_text="turn 1 (9)").wait_for()


def test_a_score_is_a_click_from_its_examples(page: Page) -> None:
    page.locator("tr", has_text="system 03").locator("a[href$='#task=sst']").click()
    page.locator("[data-count]", has_text="of 32 examples of sst").wait_for()
    page.fill("input[name=q]", "no such text")
    page.click("text=Show examples")
    page.locator("[data-count]", has_text="0 of 32").wait_for()


def test_the_difference_of_spans_is_marked(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "submissions/system-04-validation.html")
    show(page, "squad", "wrong")
    assert page.locator("[data-list] ins").count() > 0
    assert "indeed" in page.locator("[data-list] ins").all_inner_texts()


@SERVED
def test_a_dialogue_has_its_states(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "submissions/system-03-validation.html")
    show(page, "woz.en", "wrong")
    later = page.locator("[data-list] li", has=page.locator("dt:text-is('Earlier turns')")).first
    names = later.locator("dt").all_inner_texts()
    assert names == [
        "Question",
        "Earlier turns",
        "Context",
        "Gold",
        "Answer",
        "Gold state",
        "State",
        "Diverged",
    ]
    gold, state = (
        later.locator(f"dt:text-is('{name}') + dd").inner_text() for name in ("Gold state", "State")
    )
    assert gold != state
    page = opened(context, address, "compare.html#s=system-00-validation,system-04-validation")
    page.wait_for_selector("[data-rows] tr")
    show(page, "woz.en", "differ")
    page.locator("dt:text-is('State of system 04')").first.wait_for()


def test_hostile_answers_are_text(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "submissions/system-01-validation.html")
    assert page.locator("h1").inner_text() == "<img src=x onerror=alert(1)> verified"
    show(page, "squad", "all")
    assert "</script><script>alert(1)</script>" in page.locator("[data-list]").inner_text()
    assert page.locator("[data-list] script, [data-list] img").count() == 0


def test_the_policy_forbids_the_rest(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "index.html")
    page.evaluate(
        """() => {
          window.blocked = [];
          const note = (event) => window.blocked.push(event.effectiveDirective);
          document.addEventListener("securitypolicyviolation", note);
          const inline = document.createElement("script");
          inline.textContent = "window.ran = true";
          document.head.append(inline);
          const image = document.createElement("img");
          image.src = "https://example.org/x.png";
          image.setAttribute("onerror", "window.ran = true");
          document.body.append(image);
        }"""
    )
    # Not wait_for_function: its polling evaluates strings in the page, which is what the policy forbids.
    for _ in range(100):
        if len(page.evaluate("window.blocked")) >= 2:
            break
        page.wait_for_timeout(50)
    assert page.evaluate("window.ran") is None
    assert {"script-src-elem", "img-src"} <= set(page.evaluate("window.blocked"))
    watched = page.context.watched  # type: ignore[attr-defined]
    watched.faults = [
        fault for fault in watched.faults if "example.org" not in fault and "inline" not in fault
    ]


def test_compare_some(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "compare.html#a=system-00-validation&b=system-04-validation")
    rows = page.locator("[data-rows] tr")
    rows.nth(10).wait_for()
    assert rows.count() == 11
    assert "system 04 against system 00: \u2212" in page.locator("[data-verdict]").inner_text()
    assert "clearly worse" in rows.nth(10).inner_text()
    page.click("text=Make first")
    page.locator("[data-verdict]", has_text="system 00 against system 04: +").wait_for()
    assert "s=system-04-validation%2Csystem-00-validation" in page.url
    page.select_option("select[name=add]", "majority-validation")
    page.locator("[data-matrix] svg g").first.wait_for()
    assert rows.first.locator("td").count() == 3
    show(page, "schema", "differ")
    page.wait_for_selector("[data-list] li")
    assert len(requested(page, "data/answers")) == 6


def test_only_what_was_scored_here_is_compared(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "compare.html#s=system-00-validation,submission-0-validation")
    page.wait_for_selector("[data-rows] tr")
    assert "cannot be compared: submission-0-validation." in page.locator("[data-missing]").inner_text()
    offered = page.locator("select[name=add] option").evaluate_all("all => all.map(one => one.value)")
    assert "submission-0-validation" not in offered and len(offered) == 9


def test_a_partial_submission_has_no_total_to_compare(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "compare.html#s=system-00-validation,system-07-validation")
    page.wait_for_selector("[data-rows] tr")
    assert "no total to compare" in page.locator("[data-verdict]").inner_text()
    assert "not both scored" in page.locator("[data-rows]").inner_text()


@SERVED
@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[] if path in FIRST else [pytest.mark.heavy]) for path in PAGES]
)
def test_accessibility(context: BrowserContext, address: str, path: str) -> None:
    for scheme in ("light", "dark"):
        page = opened(context, address, path)
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        if path.startswith("submissions/system-01"):
            show(page, "squad", "all")
        if path == "compare.html":
            page.wait_for_selector("[data-rows] tr")
        for details in page.locator("details").all():
            details.evaluate("one => (one.open = true)")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate(
            "axe.run({ preload: false })"
        )  # or it fetches the style sheet, which the policy forbids
        serious = [
            (
                one["id"],
                one["impact"],
                [node["target"] for node in one["nodes"]][:3],
                one["nodes"][0]["failureSummary"],
            )
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], (scheme, serious)
        page.close()


@SERVED
@pytest.mark.parametrize("path", PAGES)
def test_on_a_phone_nothing_is_wider_than_the_screen(
    context: BrowserContext, address: str, path: str
) -> None:
    page = opened(context, address, path)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@SERVED
@pytest.mark.parametrize("path", PAGES)
def test_keyboard_reaches_the_content_first(context: BrowserContext, address: str, path: str) -> None:
    page = opened(context, address, path)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
