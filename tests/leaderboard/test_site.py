"""The site is correct, escaped and complete, and loads nothing from the network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from decabench.leaderboard import write_leaderboard
from decabench.leaderboard.pages import CONTENT_POLICY
from tests.folders import contents
from tests.leaderboard.small import NAMES, results, without, write

HOSTILE = "<img src=x onerror=alert(1)>\"'&</style></table>{{ 7*7 }}</script>"

FILES = [
    results("complete", 50.0, about={"url": "https://example.org/", "authors": ["Ada"]}),
    results("partial", without("schema", score=99.0)),
    results("failed", without("zre", score=99.0), {"zre": "12 ids missing"}),
    results("oracle", 100.0, about={"predictor": {"name": "oracle"}}),
    results("floor", 30.0, about={"predictor": {"name": "majority"}}),
    results("sampled", 30.0, data="s", of_data={"origin": "sample"}),
    results("tested", 20.0, split="test"),
]

VOID = {"meta", "link", "img", "br", "wbr", "hr", "input", "source", "base", "col", "embed", "area"}


class Page(HTMLParser):
    """Elements with their attributes, and the cells of every table."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[tuple[str, dict[str, str | None], str]]] = []
        self.open: list[str] = []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            tag, attributes, text = self.rows[-1][-1]
            self.rows[-1][-1] = (tag, attributes, text + data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def made(folder: Path, files: list[dict[str, object]]) -> Page:
    write(folder / "submissions", files)
    (folder / "submissions").mkdir(exist_ok=True)
    return Page(
        write_leaderboard(folder / "submissions", folder / "site", examples="none", rank_reported=True)
    )


def all_pages(folder: Path) -> list[Page]:
    return [Page(path) for path in sorted((folder / "site").rglob("*.html"))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    made(folder, FILES)
    return folder


def board_rows(page: Page) -> list[tuple[str, str]]:
    return [
        (row[0][2].split(":")[0].strip(), row[1][2].split()[0])
        for row in page.rows
        if len(row) == 13 and row[0][0] == "td" and "paper" not in row[1][2]
    ]


def test_order_on_the_page(site: Path) -> None:
    assert board_rows(Page(site / "site" / "index.html")) == [
        ("1", "complete"),
        ("–not ranked", "partial"),
        ("–not ranked", "failed"),
        ("–not ranked", "floor"),
        ("–not ranked", "oracle"),
        ("–not ranked", "sampled"),
        ("1", "tested"),
    ]


def test_the_page_names_missing_and_failed_tasks(site: Path) -> None:
    text = Page(site / "site" / "index.html").text
    for words in (
        "891.0 of 900 (9 of 10 tasks)",
        "missing: schema",
        "failed: zre — 12 ids missing",
        "ceiling (oracle)",
        "8 of 8 public tasks",
        "so there is no decaScore",
        "They are not verified and not ranked.",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("files", "caption"),
    [
        ([results("whole", 50.0)], "ranked by decaScore"),
        ([results("public", 50.0, split="test")], "ranked by the total of 8 public tasks"),
        (
            [results("two", {"sst": 50.0, "schema": 40.0})],
            "none of them ranked, because a rank requires a score on each of the 10 tasks",
        ),
        (
            [results("floor", 30.0, about={"predictor": {"name": "majority"}})],
            "none of them ranked, because a rank requires a score on",
        ),
    ],
)
def test_a_caption_names_the_score_that_decides_the_ranks(
    tmp_path: Path, files: list[dict[str, object]], caption: str
) -> None:
    text = made(tmp_path, files).text
    assert f"), {caption}" in text
    assert ("ranked by decaScore" in text) == ("decaScore" in caption)


def test_every_page_is_there(site: Path) -> None:
    pages = {page.path.relative_to(site / "site").as_posix() for page in all_pages(site)}
    submissions = {f"submissions/submission-{number}-{FILES[number]['split']}.html" for number in range(7)}
    tasks = {f"tasks/{name.replace('.', '-').replace('_', '-')}.html" for name in NAMES}
    assert pages == {"index.html", "compare.html", "changes.html", "board-embed.html"} | submissions | tasks


def test_every_file_that_a_page_names_is_in_the_site(site: Path) -> None:
    for page in all_pages(site):
        for _, attributes in page.elements:
            for name in ("href", "src"):
                address = attributes.get(name)
                if address and not address.startswith(("https://", "http://", "#")):
                    assert (page.path.parent / address.split("#")[0]).is_file(), (page.path, address)


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_inline(site: Path) -> None:
    unwanted = {"img", "iframe", "object", "embed", "base", "source", "video", "audio", "svg", "style"}
    for page in all_pages(site):
        assert {tag for tag, _ in page.elements}.isdisjoint(unwanted)
        for tag, attributes in page.elements:
            assert not {name for name in attributes if name.startswith("on") or name in ("srcset", "style")}
            if tag in ("script", "link"):
                assert not re.match(r"(\w+:)?//", attributes.get("src") or attributes.get("href") or "//")
        assert not re.search(r"<script[^>]*>[^<]", page.text)
    style = (site / "site" / "static" / "board.css").read_text(encoding="utf-8")
    assert "url(" not in style and "@import" not in style


def test_every_page_has_the_policy(site: Path) -> None:
    assert CONTENT_POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    for page in all_pages(site):
        (policy,) = [meta["content"] for meta in page.named("meta") if "http-equiv" in meta]
        assert policy == CONTENT_POLICY


def test_our_scripts_make_text_only() -> None:
    import decabench.leaderboard

    for path in (Path(decabench.leaderboard.__file__).parent / "static").glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\(", text
        )
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg\")", text)


def test_every_cell_has_its_label(site: Path) -> None:
    for page in all_pages(site):
        for row in page.rows:
            assert any(tag == "th" for tag, _, _ in row)
            for tag, attributes, text in row:
                if page.path.name == "compare.html":
                    continue
                assert text.strip()
                if tag == "th":
                    assert attributes["scope"] in ("col", "row", "rowgroup")
                else:
                    assert not re.fullmatch(r"[—–\s]*", text), "a dash needs words next to it"


def test_ids_are_unique_and_links_lead_somewhere(site: Path) -> None:
    for page in all_pages(site):
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        links = [link["href"] or "" for link in page.named("a")]
        assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
        labelled = {
            attributes["aria-labelledby"]
            for _, attributes in page.elements
            if "aria-labelledby" in attributes
        }
        assert labelled <= set(ids)


def test_hostile_text_is_text(tmp_path: Path) -> None:
    about: dict[str, object] = {
        "authors": [HOSTILE],
        "description": HOSTILE,
        "training_data": HOSTILE,
        "date": "<b>",
    }
    about |= {"url": "javascript:alert(1)", "predictor": {"name": HOSTILE}}
    file = results(
        HOSTILE, without("zre"), {"zre": HOSTILE}, about=about, of_data={"note": HOSTILE, "origin": "<b>"}
    )
    file["decabench"] = HOSTILE
    file["tasks"]["unknown"] = file["tasks"]["sst"]
    for task in file["tasks"].values():
        task["signature"] = HOSTILE
        task["signatures"] = {HOSTILE: HOSTILE}
        task["scores"] = {HOSTILE: 1.0, "__proto__": 2.0}
        task["headline"] = task["predictions"] = HOSTILE
    write(tmp_path / "submissions" / "<i>", [{**file, "split": "test"}])
    bad = tmp_path / "submissions" / "<img src=x>" / "results.json"
    bad.parent.mkdir()
    bad.write_text('{"format": "<script>alert(1)</script>"}', encoding="utf-8")
    page = made(tmp_path, [file])
    assert "{{ 7*7 }}" in page.text
    assert "&lt;img src=x onerror=alert(1)&gt;" in page.text
    for page in all_pages(tmp_path):
        assert {tag for tag, _ in page.elements}.isdisjoint({"img", "b", "i"})
        assert "javascript:" not in page.text
        assert all("src" in script for script in page.named("script"))
        assert re.fullmatch(r"[a-z0-9-]+\.html", page.path.name)
    for data in (tmp_path / "site" / "data").rglob("*.js"):
        assert "<" not in data.read_text(encoding="ascii")
    assert "\n'" not in (tmp_path / "site" / "board.csv").read_text(encoding="utf-8")


def test_a_row_has_bibtex(site: Path) -> None:
    text = Page(site / "site" / "submissions" / "submission-0-validation.html").text
    assert "@misc{submission-0-validation,\n  title = {complete},\n  author = {Ada}," in text
    assert "note = {The Natural Language Decathlon, validation, decaScore 500.0}" in text


def test_links_of_submissions(site: Path) -> None:
    page = Page(site / "site" / "submissions" / "submission-0-validation.html")
    (link,) = [link for link in page.named("a") if link["href"] == "https://example.org/"]
    assert link["rel"] == "noopener nofollow"


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    text = made(tmp_path, []).text
    assert "No results yet" in text
    assert "They are not verified and not ranked." in text


def test_namesakes_are_told_apart_by_their_files(tmp_path: Path) -> None:
    page = made(tmp_path, [results("same", 1.0), results("same", 2.0)])
    assert {
        row[1][2].partition("reported:")[0].split("reported")[1].strip()
        for row in page.rows
        if len(row) == 13 and row[0][0] == "td" and "paper" not in row[1][2]
    } == {
        "submission-0",
        "submission-1",
    }


def test_the_same_results_give_the_same_bytes(site: Path, tmp_path: Path) -> None:
    for _ in range(2):
        made(tmp_path, FILES)
        assert contents(tmp_path / "site") == contents(site / "site")


def test_a_task_page_ranks_by_its_score_alone(site: Path) -> None:
    page = Page(site / "site" / "tasks" / "squad.html")
    firsts = [
        (re.split(":|possible places", row[0][2])[0].strip(), row[1][2].strip())
        for row in page.rows
        if len(row) == 6 and row[0][0] == "td"
    ]
    assert firsts == [
        ("1", "failed"),
        ("1", "partial"),
        ("3", "complete"),
        ("–not ranked", "floor"),
        ("–not ranked", "oracle"),
        ("–not ranked", "sampled other data"),
    ]


def test_a_submission_page_says_what_its_scores_stand_on(site: Path) -> None:
    text = Page(site / "site" / "submissions" / "submission-0-validation.html").text
    for words in (
        "sha256:a-squad",
        "squad|v:1",
        "upstream",
        "as stated by the submitter",
        "the answers are not available",
    ):
        assert words in text


def test_pages_say_what_is_partial_how_answers_came_and_what_other_wordings_score(tmp_path: Path) -> None:
    file = {**results("limited", {"sst": 91.0, "squad": 60.0}), "decascore": None}
    file["tasks"]["sst"] |= {
        "status": "partial",
        "partial": {"answered": 100, "of": 872, "chosen": HOSTILE},
        "variants": {"scores": {"0": 91.0, "1": 81.0, "2": 1.0}, "mean": 0.0, "worst": 0.0, "spread": 0.0},
    }
    file["tasks"]["squad"] |= {"answers": {"refused": 1234, "context_cut": 7}, "ceiling": 97.25}
    write_leaderboard(write(tmp_path / "in", [file]), tmp_path / "out", examples="none", rank_reported=True)
    page = Page(next((tmp_path / "out" / "submissions").glob("*.html")))
    cells = [[" ".join(text.split()) for _, _, text in row] for row in page.rows]
    assert ["squad", "0", "1,234", "0", "7", "97.2%"] in cells
    assert ["sst", "86.0", "81.0", "10.0", "0: 91.0, 1: 81.0, 2 (retired): 1.0"] in cells
    assert any(row[1:2] == ["91.0emreported, partial, 100 of 872"] for row in cells)
    board = Page(tmp_path / "out" / "index.html")
    assert "91.0reported, partial, 100 of 872" in [text.strip() for row in board.rows for _, _, text in row]
    assert HOSTILE not in page.text + board.text
