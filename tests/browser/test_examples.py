"""The page of `decabench show`, from disk and from a server: filters, search, permalinks and hostile texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from decabench.leaderboard import write_example_pages
from decabench.scoring import ScoringOptions, find_examples
from decabench.submission import write_submission
from decabench.tasks import Store
from tests.browser.conftest import SERVED, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

AXE = Path(__file__).parent / "vendor" / "axe-4.14.1.min.js"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202egnp.exe\u2028{{7*7}}"


def answers(home: Path) -> list[dict[str, Any]]:
    """Return right, wrong, empty and hostile answers to squad, in turn."""
    made = []
    for number, example in enumerate(Store(home).examples("squad", "validation")):
        text = (example.answers[0], "the wrong thing", HOSTILE, "")[number % 4]
        made.append({"id": example.id, "answer": text, **({"raw": f"So: {text}"} if number % 4 < 3 else {})})
    return made


@pytest.fixture(scope="session")
def site(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that compares two submissions on squad, with shards of the smallest size."""
    from decabench.leaderboard import example_pages

    folder = tmp_path_factory.mktemp("examples")
    mine = answers(home)
    write_submission(folder / "a", f"a {HOSTILE[:40]}", {("squad", "validation"): mine})
    theirs = [{"id": one["id"], "answer": "the wrong thing"} for one in mine]
    write_submission(folder / "b", "b", {("squad", "validation"): theirs})
    options = ScoringOptions(home=home)
    shown, other = (find_examples(folder / name, "squad", options) for name in "ab")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(example_pages, "_PIECE", 4_000)
        write_example_pages(shown, folder / "page", other)
    return folder / "page"


@pytest.fixture(scope="session", params=["file", pytest.param("http", marks=pytest.mark.heavy)])
def address(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    with serving(site, request.param) as found:
        yield found


def opened(context: BrowserContext, address: str, state: str = "") -> Page:
    page = context.new_page()
    page.goto(f"{address}/index.html{state}")
    page.locator("[data-list] > li").first.wait_for()
    return page


def counted(page: Page, text: str) -> None:
    page.locator("[data-count]", has_text=text).wait_for()


def verdicts(page: Page) -> set[str]:
    """Return the verdicts of the first submission on each example."""
    found = [
        one.locator("dt", has_text="(").first.inner_text() for one in page.locator("[data-list] > li").all()
    ]
    return {text.rpartition("(")[2].split(",")[0] for text in found}


@SERVED
def test_filters_work_without_the_pieces(context: BrowserContext, address: str) -> None:
    page = opened(context, address)
    counted(page, "32 of 32 examples")
    assert page.locator("[data-list] > li").count() == 20
    for kind, count in (("right", 8), ("wrong", 24), ("only", 8), ("differ", 8)):
        page.select_option("select[name=kind]", kind)
        counted(page, f"{count} of 32 examples")
        assert verdicts(page) == {"wrong" if kind == "wrong" else "right"}
    page.select_option("select[name=kind]", "all")
    page.select_option("select[name=flag]", "empty")
    counted(page, "8 of 32 examples")


@SERVED
def test_a_page_begins_with_the_filters_of_its_address(context: BrowserContext, address: str) -> None:
    """Addresses as written by `show --output`. A flag that no answer has shows no examples."""
    page = opened(context, address, "#q=the%20wrong%20thing&kind=wrong&sort=length")
    counted(page, "24 of 32 examples")  # the other submission says so everywhere
    assert page.input_value("input[name=q]") == "the wrong thing"
    assert page.input_value("select[name=sort]") == "length"
    page.goto(f"{address}/index.html#kind=differ")
    counted(page, "8 of 32 examples")
    page.goto(f"{address}/index.html#flag=context_cut")
    counted(page, "0 of 32 examples")
    assert page.locator("select[name=flag] option:checked").inner_text() == "context cut"


def test_only_the_pieces_that_are_shown_are_loaded(context: BrowserContext, address: str, site: Path) -> None:
    page = opened(context, address)
    loaded = {url.rpartition("/")[2] for url in context.watched.requests if "data/texts/all-" in url}  # type: ignore[attr-defined]
    there = {path.name for path in (site / "data").glob("texts/all-*.js")}
    assert loaded < there
    page.click("[data-next]")
    page.locator("[data-place]", has_text="21 to 32").wait_for()
    loaded = {url.rpartition("/")[2] for url in context.watched.requests if "data/texts/all-" in url}  # type: ignore[attr-defined]
    assert loaded == there


def test_a_search_reads_all_texts_and_stands_in_the_address(context: BrowserContext, address: str) -> None:
    page = opened(context, address)
    page.fill("input[name=q]", "WRONG THING")
    counted(page, "32 of 32 examples")  # the other submission says so everywhere
    page.fill("input[name=q]", "gnp.exe")
    counted(page, "8 of 32 examples")
    page.wait_for_url("**#q=gnp.exe*")
    again = opened(context, address, "#q=gnp.exe&sort=length")
    counted(again, "8 of 32 examples")
    assert again.input_value("input[name=q]") == "gnp.exe"


def test_an_example_has_an_address_of_its_own(context: BrowserContext, address: str) -> None:
    page = opened(context, address)
    link = page.locator("[data-list] > li .head a").nth(2)
    name = link.inner_text()
    link.click()
    counted(page, "One of 32")
    assert page.locator("[data-list] > li").count() == 1
    assert page.locator("[data-list] .head a").inner_text() == name
    again = opened(context, address, page.url.partition("index.html")[2])
    assert again.locator("[data-list] .head a").all_inner_texts() == [name]
    again.click("[data-count] a")
    counted(again, "32 of 32 examples")


@SERVED
def test_the_answer_is_marked_in_its_context(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "#kind=right")
    first = page.locator("[data-list] > li").first
    gold = first.locator("dt:text-is('Gold') + dd").inner_text().split("\n")
    assert first.locator("dd mark").first.inner_text() in gold


@SERVED
def test_hostile_texts_do_nothing(context: BrowserContext, address: str) -> None:
    page = opened(context, address, "#q=gnp.exe")
    counted(page, "8 of 32 examples")
    text = page.locator("[data-list] > li").first.inner_text()
    assert "</script><script>alert(1)</script><img src=x onerror=alert(2)>" in text
    assert "\\u001b[31m\\u202egnp.exe\\u2028{{7*7}}" in text
    assert page.locator("[data-list] img, [data-list] script, h1 script").count() == 0
    assert "</script><script>" in page.locator("h1").inner_text()


def test_a_dialogue_is_shown_with_its_states(browser: Browser, home: Path, tmp_path: Path) -> None:
    """The answer equals gold but is wrong. The page shows since which turn, and nothing overflows."""
    wrong = {"en_1_0": HOSTILE, "en_1_1": "area: east;"}
    texts = {each.id: each.answers[0] for each in Store(home).examples("woz.en", "validation")} | wrong
    write_submission(tmp_path / "s", "s", {("woz.en", "validation"): list(texts.items())})
    found = find_examples(tmp_path / "s", "woz.en", ScoringOptions(home=home))
    index = write_example_pages(found, tmp_path / "page")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(f"{index.as_uri()}#id=en_1_2")
    shown = page.locator("[data-list] > li").first
    shown.wait_for()
    text = {
        name: shown.locator(f"dt:text-is('{name}') + dd").inner_text()
        for name in shown.locator("dt").all_inner_texts()
    }
    assert text["Gold"] == text["Answer"] == "area: west, price range: dontcare;"
    assert text["Gold state"] == "area: west, food: italian, price range: dontcare"
    assert text["State"] == "area: west, price range: dontcare"
    assert text["Diverged"].startswith("at en_1_0: gold 'food: barbeque;', answer '</script>")
    assert text["Earlier turns"].count("\n") == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


@pytest.mark.parametrize("task", ["ud.pos", "ud.dep"])
def test_tags_stand_under_tokens_and_trees_are_drawn(
    browser: Browser, home: Path, tmp_path: Path, task: str
) -> None:
    first, *others = Store(home).examples(task, "validation")
    tags = first.answers[0].split()
    # The first word, because punctuation, often the last, has no score in a tree.
    wrong = " ".join(["2:dep" if task == "ud.dep" else "X", *tags[1:]])
    lines = [(first.id, wrong), *((each.id, each.answers[0]) for each in others)]
    write_submission(tmp_path / "s", "s", {(task, "validation"): lines})
    index = write_example_pages(
        find_examples(tmp_path / "s", task, ScoringOptions(home=home)), tmp_path / "page"
    )
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(f"{index.as_uri()}#kind=wrong")
    tokens = page.locator("[data-list] > li").first.locator(".token")
    tokens.first.wait_for()
    assert tokens.count() == len(tags) + 1
    assert tokens.locator("ins").all_inner_texts() == [wrong.split()[0]]
    heads = sum(not tag.startswith("0:") for tag in tags) if task == "ud.dep" else 0
    drawn = page.locator("[data-list] > li").first.locator("svg path")
    assert drawn.count() == (heads + 1 if heads else 0)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


@SERVED
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overflows_and_nothing_is_inaccessible(
    context: BrowserContext, address: str, width: int
) -> None:
    page = opened(context, address)
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({ preload: false })")
    assert [each["id"] for each in found["violations"]] == []
