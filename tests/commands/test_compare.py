"""`decabench compare`: text, JSON, page and exit code."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from decabench.tasks.store import Store


@pytest.fixture
def pair(submit):
    return submit("oracle", ["sst", "schema"]), submit("majority", ["sst", "schema"])


def test_text(command, home, pair):
    done = command("compare", *pair, "--home", home, "--flips", "1")
    assert done.exit_code == 0
    assert "A oracle   B majority   validation" in done.stdout
    assert "schema.validation." in done.stdout and "B is worse here" in done.stdout


def test_a_folder_is_read_as_the_submissions_in_it(command, home, pair):
    folder = pair[0].parent
    done = command("compare", folder, "--home", home, "--flips", "1")
    assert done.exit_code == 0
    swapped = command("compare", *reversed(pair), "--home", home, "--flips", "1")
    assert done.stdout == swapped.stdout  # sorted by name


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


def test_a_loss_that_may_be_chance_fails_no_gate(command, home, submit):
    """Most answers are equal. The loss is 3 points on sst's 32 examples, and p is 1."""
    a, b = submit("majority", ["sst"], "a"), submit("majority", ["sst"], "b")
    path = b / "predictions" / "sst.validation.jsonl"
    gold = {row["id"]: row["answers"][0] for row in Store(home).read("sst", "validation", ("id", "answers"))}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    right = next(line for line in lines if line["answer"] == gold[line["id"]])
    right["answer"] = "neither"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    gate = ("compare", a, b, "--home", home, "--fail-on-regression", "sst:0")
    assert command(*gate).exit_code == 1
    assert command(*gate, "--alpha", "0.05").exit_code == 0
    assert "--alpha requires --fail-on-regression" in command("compare", a, b, "--alpha", "0.05").stderr


@pytest.mark.parametrize("limit", ["sst", "sst:-1", "sst:x", ":1", "squad:1", "decascore:1"])
def test_an_invalid_limit_exits_with_2(command, home, pair, limit):
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


def test_the_total_has_no_corrected_p_and_no_wins(command, home, submit, tmp_path):
    """Before, JSON and page reported zero wins and a corrected p for the total."""
    page = tmp_path / "page.html"
    options = ("--home", home, "--json", "--html", page, "--flips", "0")
    done = command("compare", submit("majority"), submit("lead-3"), *options)
    total = json.loads(done.stdout)["decascore"]
    assert total["p"] is not None
    assert (total["p_holm"], total["a_wins"], total["b_wins"]) == (None, None, None)
    foot = page.read_text(encoding="utf-8").partition("<tfoot>")[2].partition("</tfoot>")[0]
    assert f"<td>{total['p']:.4f}</td><td>–</td><td>–</td><td>–</td>" in foot


def test_submissions_of_one_name_have_their_paths(command, home, submit, tmp_path):
    a, b = submit("majority", ["sst"], "one"), submit("majority", ["sst"], "two")
    page = tmp_path / "page.html"
    done = command("compare", a, b, "--home", home, "--html", page)
    assert f"A majority ({a})\nB majority ({b})\nvalidation\n" in done.stdout
    assert f"<h1>A: majority ({a})<br>B: majority ({b})</h1>" in page.read_text(encoding="utf-8")


def test_the_sample_is_named(command, home, pair, tmp_path):
    page, words = tmp_path / "page.html", "Scored on the bundled sample: not comparable"
    done = command("compare", *pair, "--home", home, "--html", page)
    assert words in done.stdout and words in page.read_text(encoding="utf-8")
    done = command("compare", *pair, "--home", home, "--json")
    assert json.loads(done.stdout)["on_sample"] is True


def test_the_submission_of_other_data_is_named(command, home, pair):
    path = pair[1] / "submission.toml"
    path.write_text(re.sub("sha256:[0-9a-f]{64}", "sha256:" + "0" * 64, path.read_text()))
    expected = f"The submission majority ({pair[1]}) was not made for the prepared data"
    assert expected in command("compare", *pair, "--home", home).stderr
    done = command("show", pair[0], "--task", "sst", "--against", pair[1], "--home", home)
    assert done.exit_code == 3 and expected in done.stderr


def test_several_submissions(command, home, submit):
    folders = [submit(name, ["sst"]) for name in ("majority", "oracle", "random")]
    done = command("compare", *folders, "--home", home)
    assert done.exit_code == 0 and "3 models, validation" in done.stdout and "1 oracle" in done.stdout
    done = command("compare", *folders, "--home", home, "--json")
    assert len(json.loads(done.stdout)["pairs"]["sst"]) == 3
    for wrong in (folders[:1], [*folders, "--fail-on-regression", "sst:1"]):
        assert command("compare", *wrong, "--home", home).exit_code == 2


def test_long_names_are_numbers_in_the_table_of_pairs(command, home, submit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    folders = [submit(name, ["sst"]) for name in ("majority", "oracle", "random")]
    for folder in folders:
        record = folder / "submission.toml"
        record.write_text(re.sub('(?m)^name = ".*"', f'name = "{"m" * 30}"', record.read_text(), count=1))
    lines = command("compare", *folders, "--home", home).stdout.splitlines()
    pairs = [line.split()[:3] for line in lines if line.split()[:1] == ["sst"]]
    assert pairs == [["sst", "1", "2"], ["sst", "1", "3"], ["sst", "2", "3"]]
