"""`decabench compare`: text, JSON, page and exit code."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest


@pytest.fixture
def pair(command, home, tmp_path):
    for name in ("oracle", "majority"):
        command(
            "predict",
            "--predictor",
            name,
            "--tasks",
            "sst,schema",
            "--output",
            tmp_path / name,
            "--home",
            home,
        )
    return tmp_path / "oracle", tmp_path / "majority"


def test_text(command, home, pair):
    done = command("compare", *pair, "--home", home, "--flips", "1")
    assert done.exit_code == 0
    assert "A oracle   B majority   validation" in done.stdout
    assert "schema.validation." in done.stdout and "B loses" in done.stdout


def test_json_is_all_of_standard_output(command, home, pair, tmp_path):
    done = command("compare", *pair, "--home", home, "--json", "--html", tmp_path / "page.html")
    content = json.loads(done.stdout)
    assert set(content["tasks"]) == {"sst", "schema"}
    assert content["tasks"]["schema"]["b"] == pytest.approx(100 / 82)


@pytest.mark.parametrize(
    ("limits", "code"),
    [(["sst:100"], 0), (["sst:1"], 1), (["sst:100", "schema:5"], 1), (["sst:99.9", "schema:99.9"], 0)],
)
def test_fail_on_regression(command, home, pair, limits, code):
    options = [word for limit in limits for word in ("--fail-on-regression", limit)]
    done = command("compare", *pair, "--home", home, *options)
    assert done.exit_code == code
    assert ("Regression: " in done.stderr) == bool(code)


def test_an_improvement_is_no_regression(command, home, pair):
    done = command("compare", *reversed(pair), "--home", home, "--fail-on-regression", "sst:0")
    assert done.exit_code == 0


@pytest.mark.parametrize("limit", ["sst", "sst:-1", "sst:x", ":1", "squad:1", "decascore:1"])
def test_a_limit_that_means_nothing_is_2(command, home, pair, limit):
    done = command("compare", *pair, "--home", home, "--fail-on-regression", limit)
    assert done.exit_code == 2 and "--fail-on-regression" in done.stderr


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_escapes_names_and_asks_no_host(command, home, tmp_path):
    for name, folder in (("<img src=x onerror=alert(1)>", "a"), ("</title><script>", "b")):
        predictor = "oracle" if folder == "a" else "majority"
        options = ["--tasks", "sst", "--output", tmp_path / folder, "--home", home, "--name", name]
        assert command("predict", "--predictor", predictor, *options).exit_code == 0
    page = tmp_path / "page.html"
    assert command("compare", tmp_path / "a", tmp_path / "b", "--home", home, "--html", page).exit_code == 0
    found = _Tags()
    found.feed(page.read_text(encoding="utf-8"))
    assert not {"img", "script", "link", "iframe"} & set(found.tags)
    assert found.addresses == []
    assert "&lt;img src=x onerror=alert(1)&gt;" in page.read_text(encoding="utf-8")
