"""The evidence behind each row, on every page and in every file of the site."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from decabench.leaderboard import BoardOptions, build_leaderboard, write_leaderboard
from tests.leaderboard.small import results, write
from tests.leaderboard.test_site import Page


@pytest.fixture(scope="module")
def site(made_up: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with two scored submissions, a file that reports higher scores, and a damaged file."""
    folder = tmp_path_factory.mktemp("evidence")
    files = [
        results("stated", 97.0),
        results("reworded", 98.0, about={"predictor": {"name": "p", "variant": 1}}),
        {**results("raw", 99.0), "answers": "raw"},
    ]
    write(folder / "in", files)
    for name in ("system-00", "system-04"):
        shutil.copytree(made_up / name, folder / "in" / name)
    (folder / "in" / "bad").mkdir()
    (folder / "in" / "bad" / "results.json").write_text("{", encoding="utf-8")
    write_leaderboard(folder / "in", folder / "site", home, examples="none")
    return folder / "site"


def names(page: Page) -> list[str]:
    """Return the names of the submissions in the table."""
    links = (str(link["href"]) for link in page.named("a"))
    return [link[12:-16] for link in links if link.startswith("submissions/")]


SYSTEMS, APART = ["system-00", "system-04"], ["submission-2", "submission-1", "submission-0"]


def test_only_what_was_scored_here_is_ranked(site: Path) -> None:
    page = Page(site / "index.html")
    assert names(page) == [*SYSTEMS, *APART]
    ranks = [row[0][2].strip() for row in page.rows if len(row) == 13 and row[0][0] == "td"]
    assert ranks[:5] == ["1", "2", *["–not ranked"] * 3]


def test_what_is_left_out_has_a_reason(site: Path) -> None:
    text = Page(site / "index.html").text
    assert "bad/results.json" in text and "it is not JSON" in text
    content = json.loads((site / "board.json").read_text(encoding="utf-8"))
    (refused,) = content["refused"]
    assert refused["submission"] == "bad/results.json" and refused["reason"].startswith("it is not JSON")


def test_rows_say_what_they_rest_on(site: Path) -> None:
    with (site / "board.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [(line["kind"], line["rank"], line["evidence"], line["reason"]) for line in lines[:5]] == [
        ("system", "1", "verified", ""),
        ("system", "2", "verified", ""),
        *[("apart", "", "reported", "reported")] * 3,
    ]
    assert lines[5]["kind"] == "refused"
    content = json.loads((site / "board.json").read_text(encoding="utf-8"))
    assert content["submissions"][0]["tasks"]["sst"]["evidence"] == "verified"
    assert content["submissions"][4]["tasks"]["sst"]["reason"] == "the answers are not available"


def test_nothing_apart_takes_a_place_on_a_task_or_is_compared(site: Path) -> None:
    page = Page(site / "tasks" / "squad.html")
    places = [
        (row[0][2].strip(), row[1][2].split()[0]) for row in page.rows if len(row) == 6 and row[0][0] == "td"
    ]
    assert [(place.split(":")[0].split("may")[0], name) for place, name in places] == [
        ("1", "system"),
        ("2", "system"),
        ("–not ranked", "raw"),
        ("–not ranked", "reworded"),
        ("–not ranked", "stated"),
    ]
    assert "Listed separately: reported scores, and results for other data or other wordings" in page.text
    assert sorted(path.stem for path in (site / "data" / "units").iterdir()) == [
        "system-00-validation",
        "system-04-validation",
    ]
    pages = [Page(site / "submissions" / f"{name}-validation.html").text for name in (SYSTEMS[0], APART[-1])]
    assert ["Compare with another submission" in page for page in pages] == [True, False]


def test_pages_say_what_the_kinds_mean(site: Path) -> None:
    text = " ".join(Page(site / "index.html").text.split())
    assert "<strong>verified</strong>: this board computed the scores from the answers." in text
    assert "Only verified results are ranked." in text
    assert '<span class="mark evidence paper group-name">paper</span>' in text
    verified, stated = (
        " ".join(Page(site / "submissions" / f"{name}-validation.html").text.split())
        for name in (SYSTEMS[0], APART[-1])
    )
    assert "This result is verified: this board computed the scores from the answers." in verified
    assert (
        "This result is reported" in stated
        and "reported, because <bdi>the answers are not available" in stated
    )


def test_what_was_built_is_returned(made_up: Path, home: Path, tmp_path: Path) -> None:
    shutil.copytree(made_up / "system-00", tmp_path / "in" / "a")
    write(tmp_path / "in" / "more", [results("b", 50.0)])
    built = build_leaderboard(tmp_path / "in", tmp_path / "site", BoardOptions(home, examples="none"))
    assert built.index == tmp_path / "site" / "index.html"
    assert dict(built.kinds) == {"verified": 1, "reported": 1} and built.refused == []
