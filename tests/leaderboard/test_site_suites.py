"""Sites with several suites: the example's tagging task from data to board, and suites defined in files."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from decabench.cli import cli
from decabench.errors import UnknownNameError
from decabench.leaderboard import write_leaderboard
from decabench.tasks import Suite
from tests.leaderboard.small import results, suite_results, write
from tests.leaderboard.test_site import Page

TAGGING = Path(__file__).parents[2] / "examples" / "tagging"
INCLUDE = (TAGGING / "pos.toml", TAGGING / "suite.toml")

TAGGER = """
class Tagger:
    def predict(self, questions):
        return [" ".join("PUNCT" if not token.isalnum() else "NOUN" for token in question.context.split())
                for question in questions]

def tagger(setting):
    return Tagger()
"""


def run(*arguments: object) -> str:
    include = [text for path in INCLUDE for text in ("--include", str(path))]
    done = CliRunner().invoke(cli, [*map(str, arguments), *include], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Prepared data, three submissions to the tagging suite, one to the decathlon, and a site with all of them."""
    folder = tmp_path_factory.mktemp("tagging")
    (folder / "noun_tagger.py").write_text(TAGGER, encoding="utf-8")
    sys.path.insert(0, str(folder))
    data = ("--home", folder / "data")
    run("prepare", "--suite", "tagging-demo", "--jobs", 1, *data)
    for predictor in ("majority", "oracle", "noun_tagger:tagger"):
        output = folder / "submissions" / predictor.partition(":")[0]
        suite = ("--suite", "tagging-demo")
        run("predict", "--predictor", predictor, *suite, "--output", output, *data)
    write(folder / "submissions", [results("a system", 50.0)])
    given = ("--submissions", folder / "submissions", "--output", folder / "site", *data)
    given += ("--suite", "decathlon", "--suite", "tagging-demo")
    run("leaderboard", *given, "--rank-reported", "--no-baselines")
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("noun_tagger", None)


def rows(page: Page) -> list[list[str]]:
    """Return the cells of rows with a name and numbers."""
    return [[" ".join(text.split()) for _, _, text in row] for row in page.rows if row[0][0] == "td"]


def test_the_tagging_task_is_on_its_suites_board(folder: Path) -> None:
    page = Page(folder / "site" / "suite-tagging-demo.html")
    heads = next([text for _, _, text in row] for row in page.rows if row[0][2] == "Rank")
    assert heads == ["Rank", "System", "mean accuracyof 100 · 95%", "postag_accuracy"]
    assert [(row[0].split(":")[0], row[1].split()[0], row[2].partition(".")[0]) for row in rows(page)] == [
        ("1", "noun_tagger:tagger", "30"),
        ("–not ranked", "majority", "17"),
        ("–not ranked", "oracle", "100"),
    ]
    assert "Tagging, a demonstration" in page.text and "decaScore" not in page.text


def test_the_decathlons_board_keeps_its_name_and_its_columns(folder: Path) -> None:
    page = Page(folder / "site" / "index.html")
    assert [row[1].split()[0] for row in rows(page) if "paper" not in row[1]] == ["a"]
    assert "decaScore" in page.text and ">pos<" not in page.text


def test_boards_link_to_each_other(folder: Path) -> None:
    for name in ("index.html", "suite-tagging-demo.html"):
        links = {link["href"] for link in Page(folder / "site" / name).named("a")}
        assert {"index.html", "suite-tagging-demo.html", "compare.html"} <= links
    downloads = {link["href"] for link in Page(folder / "site" / "suite-tagging-demo.html").named("a")}
    assert {"suite-tagging-demo.csv", "suite-tagging-demo.json"} <= downloads


def test_pages_of_tasks_and_submissions_know_their_suite(folder: Path) -> None:
    task = Page(folder / "site" / "tasks" / "pos.html")
    assert {"../suite-tagging-demo.html"} <= {a["href"] for a in task.named("a")}
    assert "CC BY-SA 4.0" in task.text and "From the scored data." in task.text
    (page,) = (folder / "site" / "submissions").glob("noun-tagger-*.html")
    links = [link["href"] or "" for link in Page(page).named("a")]
    assert [
        link for link in links if link.startswith("../suite-tagging-demo.html#board=tagging-demo-validation-")
    ]


def test_numbers_know_their_suite_and_task(folder: Path) -> None:
    with (folder / "site" / "suite-tagging-demo.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["suite"] for line in lines} == {"tagging-demo"} and "squad" not in lines[0]
    assert float(lines[0]["pos"]) == float(lines[0]["total"]) == pytest.approx(30.05, abs=0.1)
    content = json.loads((folder / "site" / "suite-tagging-demo.json").read_text(encoding="utf-8"))
    assert content["suite"]["total"] == "mean" and content["suite"]["tasks"]["pos"] == {
        "title": "Part-of-speech tagging",
        "metric": "tag_accuracy",
        "range": [0.0, 100.0],
        "higher_is_better": True,
    }
    assert content["reported_not_verified"]["rows"] == []


def test_a_site_of_some_suites(folder: Path, tmp_path: Path) -> None:
    options = ("--submissions", folder / "submissions", "--output", tmp_path, "--home", folder / "data")
    options += ("--examples", "none", "--no-baselines")
    run("leaderboard", *options, "--suite", "tagging-demo")
    assert "Tagging, a demonstration" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not list(tmp_path.glob("suite-*")) and not (tmp_path / "tasks" / "squad.html").exists()
    run("leaderboard", *options, "--suite", "decathlon", "--suite", "tagging-demo")
    assert "decaScore" in (tmp_path / "index.html").read_text(encoding="utf-8")
    with pytest.raises(UnknownNameError, match="tagging-demo"):
        write_leaderboard(folder / "submissions", tmp_path, suites=["tagging-dem"], include=INCLUDE)


def own_suite(folder: Path, total: str, title: str = "Own") -> Path:
    """Return the file of a suite with two tasks, which are defined in files next to it."""
    for name, metric in (("errors", "mse"), ("points", "em")):
        rows = "".join(json.dumps({"n": n, "answer": str(n)}) + "\n" for n in range(4))
        (folder / f"{name}.jsonl").write_text(rows)
        (folder / f"{name}.toml").write_text(
            f'format = "decabench.taskfile/1"\nname = "{name}"\nmetric = "{metric}"\nanswer = "answer"\n'
            f'question = "What is {{n}}?"\ncontext = "{{n}}"\n[files]\nvalidation = "{name}.jsonl"\n'
        )
    (folder / "own.toml").write_text(
        f'format = "decabench.suite/1"\nname = "own"\ntitle = "{title}"\ntotal = "{total}"\n'
        'tasks = ["errors", "points"]\n'
    )
    return folder / "own.toml"


def own_site(folder: Path, title: str = "Own") -> Path:
    """A site with two reported results for the suite, which has no total. One also has results for the decathlon."""
    suite = Suite("own", "Own", ("errors", "points"))
    used = {"errors": "mse", "points": "em"}
    files = [
        suite_results(name, suite, dict(zip(suite.tasks, scores, strict=True)), used)
        for name, scores in (("b", (0.5, 90.0)), ("a", (3.0, 10.0)))
    ]
    files[0]["tasks"] |= results(scores={"sst": 50.0})["tasks"]
    include = [own_suite(folder, "none", title), folder / "errors.toml", folder / "points.toml"]
    given: dict[str, Any] = {"include": include, "examples": "none", "rank_reported": True}
    write_leaderboard(write(folder / "in", files), folder / "out", suites=["decathlon", "own"], **given)
    return folder / "out"


def test_a_suite_without_a_total_has_no_rank_column(tmp_path: Path) -> None:
    site = own_site(tmp_path)
    page = Page(site / "suite-own.html")
    heads = [text for _, _, text in page.rows[0]]
    assert heads == ["System", "errorsmselower is better", "pointsem"]
    assert "not ranked: this suite has no total" in page.text
    task = Page(site / "tasks" / "errors.html")
    assert [(row[0].split(":")[0], row[1], row[2]) for row in rows(task)] == [
        ("1", "b", "0.500"),
        ("2", "a", "3.000"),
    ]
    one = Page(site / "submissions" / "submission-0-validation.html")
    assert "submission-0-validation-own.html" in {link["href"] for link in one.named("a")}
    assert "Other results of this submission" in one.text


def test_the_words_of_a_suite_are_text(tmp_path: Path) -> None:
    site = own_site(tmp_path, "<img src=x onerror=alert(1)>")
    for path in site.rglob("*.html"):
        assert "img" not in {tag for tag, _ in Page(path).elements}


def test_a_results_file_defines_no_suite(tmp_path: Path) -> None:
    """Its tasks count on the boards that the keeper named. Its own suite, total and texts are ignored."""
    forged = Suite("mine", "Forged", ("sst",), "sum", "decaScore")
    file = suite_results("forged", forged, {"sst": 99.0}, {"sst": "em"})
    page = Page(
        write_leaderboard(
            write(tmp_path / "in", [file]), tmp_path / "out", examples="none", rank_reported=True
        )
    )
    assert "Forged" not in page.text and "99.0 of 100 (1 of 10 tasks)" in page.text
