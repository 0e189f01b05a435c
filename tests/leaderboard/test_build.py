"""The page: true, escaped, whole, and quiet on the network."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from decabench.errors import StorageError
from decabench.leaderboard.build import build
from tests.leaderboard.small import COLUMNS, NAMES, results, without, write

HOSTILE = "<img src=x onerror=alert(1)>\"'&</style></table>{{ 7*7 }}"

FILES = [
    results("complete", 50.0, about={"url": "https://example.org/", "authors": ["Ada"]}),
    results("partial", without("schema", score=99.0)),
    results("failed", without("zre", score=99.0), {"zre": "12 ids missing"}),
    results("oracle", 100.0, about={"predictor": {"name": "oracle"}}),
    results("floor", 30.0, data="s", of_data={"origin": "sample"}, about={"predictor": {"name": "majority"}}),
    results("tested", 20.0, split="test"),
]

VOID = {"meta", "link", "img", "br", "wbr", "hr", "input", "source", "base", "col", "embed", "area"}


class Page(HTMLParser):
    """Elements with their attributes, and the cells of every table."""

    def __init__(self, path: Path) -> None:
        super().__init__()
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
    return Page(build(folder / "submissions", folder / "site", COLUMNS))


def test_order_on_the_page(tmp_path: Path) -> None:
    page = made(tmp_path, FILES)
    firsts = [(row[0][2], row[1][2].split()[0]) for row in page.rows if len(row) == 13 and row[0][0] == "td"]
    assert firsts == [
        ("1", "complete"),
        ("–not ranked", "partial"),
        ("–not ranked", "failed"),
        ("–not ranked: sees the answers", "oracle"),
        ("1", "floor"),
        ("1", "tested"),
    ]


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    text = made(tmp_path, FILES).text
    for words in (
        "891.0 of 900 (9 of 10 tasks)",
        "missing: schema",
        "failed: zre — 12 ids missing",
        "ceiling (oracle)",
        "Bundled sample",
        "8 of 8 public tasks",
        "so no decaScore exists here",
        "Reported in the paper, not verified here",
    ):
        assert words in text


def test_one_page_is_all_there_is(tmp_path: Path) -> None:
    made(tmp_path, FILES)
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["index.html"]


def test_no_requests_and_no_scripts(tmp_path: Path) -> None:
    page = made(tmp_path, FILES)
    assert {tag for tag, _ in page.elements}.isdisjoint(
        {
            "script",
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
            "source",
            "video",
            "audio",
            "svg",
        }
    )
    for tag, attributes in page.elements:
        assert not {
            name for name in attributes if name.startswith("on") or name in ("src", "srcset", "style")
        }
        if "href" in attributes:
            assert tag == "a"
    style = re.search(r"<style>(.*?)</style>", page.text, re.DOTALL)
    assert style is not None
    assert "url(" not in style[1] and "@import" not in style[1]


def test_the_policy_allows_our_style_and_nothing_else(tmp_path: Path) -> None:
    page = made(tmp_path, FILES)
    style = re.search(r"<style>(.*?)</style>", page.text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    (policy,) = [meta["content"] for meta in page.named("meta") if "http-equiv" in meta]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_every_cell_has_its_label(tmp_path: Path) -> None:
    page = made(tmp_path, FILES)
    assert len(page.named("caption")) == len(page.named("table"))
    for row in page.rows:
        assert any(tag == "th" for tag, _, _ in row)
        for tag, attributes, text in row:
            assert text.strip()
            if tag == "th":
                assert attributes["scope"] in ("col", "row", "rowgroup")
            else:
                assert not re.fullmatch(r"[—–\s]*", text), "a dash needs words beside it"


def test_ids_are_unique_and_links_lead_somewhere(tmp_path: Path) -> None:
    page = made(tmp_path, FILES)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [link["href"] or "" for link in page.named("a")]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    labelled = {
        attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes
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
    file["tasks"]["<script>alert(1)</script>"] = file["tasks"]["sst"]
    for task in file["tasks"].values():
        task["signature"] = HOSTILE
    write(tmp_path / "submissions" / "<i>", [{**file, "split": "test"}])
    bad = tmp_path / "submissions" / "<img src=x>" / "results.json"
    bad.parent.mkdir()
    bad.write_text('{"format": "<script>alert(1)</script>"}', encoding="utf-8")
    page = made(tmp_path, [file])
    assert {tag for tag, _ in page.elements}.isdisjoint({"img", "script", "b", "i"})
    assert "javascript:" not in page.text
    assert "{{ 7*7 }}" in page.text
    assert "&lt;img src=x onerror=alert(1)&gt;" in page.text


def test_links_of_submissions(tmp_path: Path) -> None:
    page = made(tmp_path, FILES)
    (link,) = [link for link in page.named("a") if link["href"] == "https://example.org/"]
    assert link["rel"] == "noopener nofollow"


def test_unreadable_files_are_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "submissions" / "bad").mkdir(parents=True)
    (tmp_path / "submissions" / "bad" / "results.json").write_text("{", encoding="utf-8")
    (tmp_path / "submissions" / "waiting").mkdir()
    (tmp_path / "submissions" / "waiting" / "submission.toml").touch()
    text = made(tmp_path, FILES).text
    assert re.search(
        r"Could not be read</h2>.*bad/results\.json.*not JSON: line 1, column 2", text, re.DOTALL
    )
    assert re.search(r"Not evaluated</h2>.*waiting", text, re.DOTALL)


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    text = made(tmp_path, []).text
    assert "No results yet" in text
    assert "Reported in the paper, not verified here" in text


def test_only_a_ceiling(tmp_path: Path) -> None:
    assert "No system yet." in made(tmp_path, [FILES[3]]).text


def test_namesakes_are_told_apart_by_their_files(tmp_path: Path) -> None:
    page = made(tmp_path, [results("same", 1.0), results("same", 2.0)])
    assert {row[1][2].split()[1] for row in page.rows if len(row) == 13 and row[0][0] == "td"} == {
        "submission-0/results/validation.json",
        "submission-1/results/validation.json",
    }


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a", FILES), made(tmp_path / "b", FILES)
    assert first.text == second.text
    assert made(tmp_path / "a", FILES).text == first.text


def test_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "site").touch()
    (tmp_path / "submissions").mkdir()
    with pytest.raises(StorageError):
        build(tmp_path / "submissions", tmp_path / "site", COLUMNS)


def test_the_columns_of_the_decathlon(tmp_path: Path) -> None:
    page = Page(
        build(write(tmp_path, [results("complete", 50.0), results("tested", 20.0, split="test")]), tmp_path)
    )
    heads = next(row for row in page.rows if row[0][2] == "Rank")
    assert len(heads) == 3 + len(NAMES)
    assert [text.startswith(name) for name, (_, _, text) in zip(NAMES, heads[3:], strict=True)] == [True] * 10
    assert "8 of 8 public tasks" in page.text
