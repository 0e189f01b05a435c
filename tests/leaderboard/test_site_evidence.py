"""What rows rest on, on every page and in every file of the site."""

from __future__ import annotations

import csv
import http.client
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from decabench.leaderboard import BoardOptions, build_leaderboard, open_server, write_leaderboard
from decabench.metrics import METRICS
from tests.leaderboard.small import results, write
from tests.leaderboard.test_site import Page


def read_data(site: Path, name: str) -> Any:
    text = (site / "data" / f"{name}.js").read_text(encoding="ascii")
    return json.loads(json.loads(text[text.index(",") + 1 : text.rindex(")")]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest result and, with higher scores: a forged one, a stated one, one in other words and one of raw texts."""
    folder = tmp_path_factory.mktemp("evidence")
    files = [
        results("honest", 50.0),
        results("forged", 60.0),
        results("stated", 97.0),
        results("reworded", 98.0, about={"predictor": {"name": "p", "variant": 1}}),
        {**results("raw", 99.0), "answers": "raw"},
        results("other", 40.0),
    ]
    for file in files:
        for task in file["tasks"].values():
            task["signature"] = METRICS[task["metric"]].signature
    write(folder / "in", files)
    shutil.rmtree(folder / "in" / "submission-2" / "results" / "statistics")
    path = folder / "in" / "submission-1" / "results" / "validation.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace("60.0", "99.0").replace("600.0", "990.0"), encoding="utf-8"
    )
    write_leaderboard(folder / "in", folder / "site", examples="none")
    return folder / "site"


def bodies(page: Page) -> dict[str, list[str]]:
    """The names of the rows of the first table, by the part of the table that they are in."""
    found: dict[str, list[str]] = {}
    part = ""
    for tag, attributes in page.elements:
        if tag == "tbody":
            part = attributes.get("class") or ""
        if tag == "tr" and attributes.get("data-page"):
            found.setdefault(part, []).append(str(attributes["data-page"]).split("-")[1])
    return found


def test_only_what_was_checked_is_ranked(site: Path) -> None:
    assert bodies(Page(site / "index.html")) == {"systems": ["0", "5"], "apart": ["4", "3", "2"]}
    ranks = [
        row[0][2].strip() for row in Page(site / "index.html").rows if len(row) == 13 and row[0][0] == "td"
    ]
    assert [rank.split(":")[0] for rank in ranks] == ["1", "2", "–not ranked", "–not ranked", "–not ranked"]


def test_the_forged_result_is_refused_with_its_reason(site: Path) -> None:
    text = Page(site / "index.html").text
    assert "submission-1/results/validation.json" in text
    assert "its score for squad is 99, but its statistics give 60" in text
    assert not (site / "submissions" / "submission-1-validation.html").exists()
    content = json.loads((site / "board.json").read_text(encoding="utf-8"))
    assert content["refused"] == [
        {
            "results": "submission-1/results/validation.json",
            "reason": "its score for squad is 99, but its statistics give 60",
        }
    ]


def test_rows_say_what_they_rest_on(site: Path) -> None:
    with (site / "board.csv").open(encoding="utf-8", newline="") as file:
        lines = {line["name"]: line for line in csv.DictReader(file)}
    assert [(line["kind"], line["rank"], line["evidence"], line["reason"]) for line in lines.values()] == [
        ("system", "1", "consistent", ""),
        ("system", "2", "consistent", ""),
        ("apart", "", "consistent", "whole output"),
        ("apart", "", "consistent", "other wording"),
        ("apart", "", "self-reported", "self-reported"),
        ("refused", "", "", "its score for squad is 99, but its statistics give 60"),
    ]
    content = json.loads((site / "board.json").read_text(encoding="utf-8"))
    evidence = content["submissions"][0]["tasks"]["sst"]["evidence"]
    assert evidence["kind"] == "consistent" and evidence["version"] and "date" not in evidence


def test_nothing_apart_takes_a_place_on_a_task(site: Path) -> None:
    page = Page(site / "tasks" / "squad.html")
    places = [
        (row[0][2].strip(), row[1][2].split()[0]) for row in page.rows if len(row) == 6 and row[0][0] == "td"
    ]
    assert [(place.split(":")[0], name) for place, name in places] == [
        ("1", "honest"),
        ("2", "other"),
        ("–not ranked", "raw"),
        ("–not ranked", "reworded"),
        ("–not ranked", "stated"),
    ]
    assert "Apart: self-reported, or not the original task" in page.text
    (found,) = read_data(site, "tasks/squad").values()
    assert [system["name"] for system in found["systems"]] == ["honest", "other"]


def test_nothing_apart_is_compared(site: Path) -> None:
    (table,) = read_data(site, "compare")["tables"]
    assert [row["name"] for row in table["rows"]] == ["honest", "other"]
    pages = {
        name: Page(site / "submissions" / f"submission-{number}-validation.html").text
        for number, name in ((0, "honest"), (2, "stated"))
    }
    assert "Compare with another submission" in pages["honest"]
    assert "Compare with another submission" not in pages["stated"]


def test_the_page_of_a_row_says_what_was_checked(site: Path) -> None:
    honest = " ".join(Page(site / "submissions" / "submission-0-validation.html").text.split())
    assert "This result is consistent: every score was recomputed here" in honest
    assert (
        "Recomputed from the statistics of every example" in honest and "when this site was built" in honest
    )
    stated = " ".join(Page(site / "submissions" / "submission-2-validation.html").text.split())
    assert "This result is self-reported" in stated and "There are no statistics beside the results" in stated


def test_the_page_says_what_the_kinds_mean(site: Path) -> None:
    text = " ".join(Page(site / "index.html").text.split())
    for words in (
        "<strong>verified</strong>: its answers were scored here",
        "nobody here has seen whether they belong to the answers",
        "Only verified and consistent results are ranked",
    ):
        assert words in text
    assert '<span class="mark evidence paper">paper</span>' in text


def test_what_was_built_is_returned(tmp_path: Path) -> None:
    write(tmp_path / "in", [results("a", 50.0)])
    write(tmp_path / "in" / "more", [results("b", 50.0)], with_statistics=False)
    bad = tmp_path / "in" / "bad" / "results.json"
    bad.parent.mkdir()
    bad.write_text("{", encoding="utf-8")
    built = build_leaderboard(tmp_path / "in", tmp_path / "site", BoardOptions(examples="none"))
    assert built.index == tmp_path / "site" / "index.html"
    assert dict(built.kinds) == {"consistent": 1, "self-reported": 1}
    assert [refusal.path for refusal in built.refused] == ["bad/results.json"]


# --serve


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "index.html").write_text("secret")
    with open_server(folder, 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def ask(port: int, host: str | None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.putrequest("GET", "/", skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST"]
)
def test_names_of_this_machine_are_served(port: int, host: str) -> None:
    assert ask(port, host.format(port=port)) == (200, b"secret")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "localhost.evil.example",
        "evil@localhost.example",
        "",
        "[",
        None,
    ],
)
def test_a_rebound_name_reads_nothing(port: int, host: str | None) -> None:
    status, content = ask(port, host and host.format(port=port))
    assert status == 421 and b"secret" not in content
