"""A site with several suites: the tagging task of the examples from its data to its board, and suites of files."""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from decabench.cli import cli
from decabench.errors import UnknownNameError
from decabench.leaderboard import write_leaderboard
from decabench.leaderboard.entries import read_submissions
from decabench.leaderboard.ranking import rank_suite
from decabench.tasks import DECATHLON, SUITES, Suite
from tests.leaderboard.small import entry, results, suite_results, write
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
    """Prepared data, three submissions for the tagging suite, one for the decathlon, and the site of them all."""
    folder = tmp_path_factory.mktemp("tagging")
    (folder / "noun_tagger.py").write_text(TAGGER, encoding="utf-8")
    sys.path.insert(0, str(folder))
    data = ("--home", folder / "data")
    run("prepare", "--suite", "tagging-demo", "--jobs", 1, *data)
    for predictor in ("majority", "oracle", "noun_tagger:tagger"):
        output = folder / "submissions" / predictor.partition(":")[0]
        suite = ("--suite", "tagging-demo")
        run("predict", "--predictor", predictor, *suite, "--output", output, *data)
        run("evaluate", "--submission", output, *suite, "--jobs", 1, *data)
    write(folder / "submissions", [results("a system", 50.0)])
    run("leaderboard", "--submissions", folder / "submissions", "--output", folder / "site", *data)
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("noun_tagger", None)


def rows(page: Page) -> list[list[str]]:
    """The cells of the rows that have a name and numbers."""
    return [[" ".join(text.split()) for _, _, text in row] for row in page.rows if row[0][0] == "td"]


def test_the_tagging_task_is_on_its_suites_board(folder: Path) -> None:
    page = Page(folder / "site" / "suite-tagging-demo.html")
    heads = next([text for _, _, text in row] for row in page.rows if row[0][2] == "Rank")
    assert heads == ["Rank", "Submission", "mean accuracyof 100 · 95 %", "postag_accuracy"]
    assert [(row[0].split(":")[0], row[1].split()[0], row[2].split("9")[0]) for row in rows(page)] == [
        ("1", "noun_tagger:tagger", "30.1"),
        ("–not ranked", "majority", "17.7"),
        ("–not ranked", "oracle", "100.0"),
    ]
    assert "Tagging, a demonstration" in page.text and "decaScore" not in page.text


def test_the_decathlons_board_keeps_its_name_and_its_columns(folder: Path) -> None:
    page = Page(folder / "site" / "index.html")
    assert [row[1].split()[0] for row in rows(page)] == ["a"]
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
    assert "CC BY-SA 4.0" in task.text and "From the data that was scored." in task.text
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


def test_the_same_pair_compares_as_on_the_command_line(folder: Path) -> None:
    one, other = (folder / "submissions" / name for name in ("majority", "noun_tagger"))
    printed = run(
        "compare", one, other, "--suite", "tagging-demo", "--home", folder / "data", "--json", "--jobs", 1
    )
    found = json.loads(printed)["tasks"]["pos"]
    text = (folder / "site" / "data" / "compare.js").read_text(encoding="ascii")
    data = json.loads(json.loads(text[text.index(",") + 1 : text.rindex(")")]))
    (table,) = [table for table in data["tables"] if table["suite"] == "Tagging, a demonstration"]
    scores = {row["name"]: row["scores"] for row in table["rows"]}
    assert scores["majority"] == [found["a"]] and scores["noun_tagger:tagger"] == [found["b"]]
    assert [row["name"] for row in table["rows"]][:2] == ["noun_tagger:tagger", "majority"]
    tests = table["tests"]["tasks"]["pos"]  # of the pair of these two: majority minus noun_tagger
    assert [-tests["high"][0], -tests["low"][0]] == pytest.approx(found["interval"], abs=1e-3)
    assert tests["p"][0] == pytest.approx(found["p"], abs=1e-4)
    assert tests["verdict"][0] == (-1 if tests["adjusted"][0] < 0.05 else 0)


def test_a_site_of_some_suites(folder: Path, tmp_path: Path) -> None:
    options = ("--submissions", folder / "submissions", "--output", tmp_path, "--examples", "none")
    run("leaderboard", *options, "--suite", "tagging-demo")
    assert "Tagging, a demonstration" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert not list(tmp_path.glob("suite-*")) and not (tmp_path / "tasks" / "squad.html").exists()
    run("leaderboard", *options, "--suite", "tagging-demo", "--suite", "decathlon")
    assert "decaScore" in (tmp_path / "index.html").read_text(encoding="utf-8")
    with pytest.raises(UnknownNameError, match="tagging-demo"):
        write_leaderboard(folder / "submissions", tmp_path, suites=["tagging-dem"], include=INCLUDE)


def test_results_alone_are_enough(folder: Path, tmp_path: Path) -> None:
    """Without --include the suite is the one that the results state, and nothing is shown that may not be."""
    write_leaderboard(folder / "submissions", tmp_path, folder / "data")
    page = Page(tmp_path / "suite-tagging-demo.html")
    assert [row[1].split()[0] for row in rows(page)] == ["noun_tagger:tagger", "majority", "oracle"]
    assert "The task was unknown when the site was built" in next(
        (tmp_path / "submissions").glob("oracle-*")
    ).read_text(encoding="utf-8")


ONE = Suite("own", "Own", ("errors", "points"))
OTHER = Suite("own", "Own", ("errors",))
USED = {"errors": "mse", "points": "em"}


def own(name: str, suite: Suite, *scores: float, **about: object) -> dict[str, object]:
    return suite_results(name, suite, dict(zip(suite.tasks, scores, strict=False)), USED, **about)


def test_a_known_suite_wins_over_a_file_that_uses_its_name(tmp_path: Path) -> None:
    found = read_submissions(write(tmp_path, [own("a", ONE, 1.0, 2.0), own("b", OTHER, 1.0)]), {"own": ONE})
    assert [entry.name for entry in found.entries] == ["a"]
    assert found.refused[0].reason == (
        "its suite own is errors (total: none), but the suite own that is known here is errors, points (total: none); "
        "give a suite of your own another name"
    )


def test_a_file_s_own_suite_does_not_take_the_front_page_from_a_known_one(tmp_path: Path) -> None:
    own = Suite("a", "A", ("sst",), total_name="mean")
    known = SUITES["products"]
    files = [
        suite_results("forged", own, {"sst": 99.0}, {"sst": "em"}),
        suite_results(
            "honest", known, dict.fromkeys(known.tasks, 50.0), dict.fromkeys(known.tasks, "accuracy")
        ),
    ]
    write(tmp_path / "in", files, False)
    write_leaderboard(tmp_path / "in", tmp_path / "site")
    assert "honest" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "forged" in (tmp_path / "site" / "suite-a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("order", [1, -1])
def test_the_first_file_does_not_decide_what_a_name_means(tmp_path: Path, order: int) -> None:
    """Two definitions of an unknown suite get a board each, whichever is read first."""
    files = [own("a", ONE, 1.0, 2.0), own("b", OTHER, 1.0), own("c", OTHER, 2.0)][::order]
    found = read_submissions(write(tmp_path / "in", files))
    assert not found.refused
    names = {entry.name: entry.suite.name for entry in found.entries}
    assert names["a"] != names["b"] == names["c"]
    assert all(name.startswith("own-") for name in names.values())
    write_leaderboard(tmp_path / "in", tmp_path / "out", examples="none")
    one, other = (
        Page(tmp_path / "out" / page) for page in ("index.html", f"suite-{max(names.values())}.html")
    )
    systems = [[row for row in page.named("tr") if "data-page" in row] for page in (one, other)]
    assert sorted(map(len, systems)) == [1, 2]
    assert "Own (" in one.text and "Own (" in other.text


def digest_of(suite: Suite) -> str:
    """The digest that is added to the name of a suite which files define in different ways."""
    return hashlib.sha256("\n".join((suite.total, *suite.tasks)).encode()).hexdigest()


@pytest.mark.parametrize("digits", [8, 16, 64])
def test_no_file_takes_the_name_that_another_definition_gets(tmp_path: Path, digits: int) -> None:
    """A third suite of that name, with a larger total, must not share the board of the honest one."""
    mean = replace(ONE, total="mean")
    squatter = Suite(f"own-{digest_of(mean)[:digits]}", "Own", ("errors", "points", "more"), total="sum")
    files = [own("honest", mean, 1.0, 2.0), own("rival", OTHER, 1.0)]
    evil = suite_results(
        "evil", squatter, {"errors": 9.0, "points": 99.0, "more": 99.0}, {**USED, "more": "em"}
    )
    found = read_submissions(write(tmp_path, [*files, evil]))
    suites = {entry.name: entry.suite for entry in found.entries}
    assert len({suite.name for suite in suites.values()}) == len({one.title for one in suites.values()}) == 3
    boards = [rank_suite(suite, found.entries, {}) for suite in suites.values()]
    assert [[row.entry.name for table in board.tables for row in table.all_rows] for board in boards] == [
        [name] for name in suites
    ]


def test_no_suite_takes_the_title_of_another(tmp_path: Path) -> None:
    posed = Suite("own", f" {DECATHLON.title.upper()} ", ONE.tasks)
    files = [own("a", posed, 1.0, 2.0), own("b", replace(OTHER, name="other", title="own"), 1.0)]
    found = read_submissions(write(tmp_path, files))
    assert {entry.suite.name: entry.suite.title for entry in found.entries} == {
        "own": "own",
        "other": "other",
    }


def test_a_board_holds_one_definition_even_if_names_are_the_same() -> None:
    files = [own("a", replace(ONE, total="sum"), 1.0, 2.0), own("b", replace(OTHER, total="sum"), 1.0)]
    entries = [entry(file, f"{index}/results.json") for index, file in enumerate(files)]
    board = rank_suite(entries[0].suite, entries, {})
    assert [row.entry.name for table in board.tables for row in table.all_rows] == ["a"]


def test_words_to_display_make_no_other_suite_and_nobody_chooses_them_for_others(tmp_path: Path) -> None:
    files = [own("a", ONE, 1.0, 2.0), own("b", Suite("own", "The official one", ONE.tasks), 1.0, 3.0)]
    found = read_submissions(write(tmp_path, files))
    assert {(entry.suite.name, entry.suite.title) for entry in found.entries} == {("own", "own")}


@pytest.mark.parametrize("task", ["../../etc/passwd", "<b>", "", "x" * 99])
def test_tasks_of_a_suite_have_names(tmp_path: Path, task: str) -> None:
    suite = Suite("own", "Own", ("errors", task))
    found = read_submissions(write(tmp_path, [own("a", suite, 1.0)]))
    assert found.entries == () and "which cannot be the name of a task" in found.refused[0].reason


def test_the_words_of_a_suite_are_text(tmp_path: Path) -> None:
    hostile = Suite("own", "<img src=x onerror=alert(1)>", ("errors",), total="mean", total_name="</td><b>x")
    files = [own("a", hostile, 1.0), own("b", hostile, 0.25), results("c", 50.0)]
    write_leaderboard(write(tmp_path / "in", files), tmp_path / "out", examples="none")
    for path in (tmp_path / "out").rglob("*.html"):
        assert {tag for tag, _ in Page(path).elements}.isdisjoint({"img", "b"})


def test_a_results_file_brings_no_published_scores_and_no_links(tmp_path: Path) -> None:
    file = own("a", ONE, 1.0, 2.0)
    published = [{"name": "Forged", "training": "", "scores": {"points": 99.9}}]
    file["suite"] |= {"source_url": "javascript:alert(1)", "description": "Forged", "published": published}  # type: ignore[operator]
    write_leaderboard(write(tmp_path / "in", [file]), tmp_path / "out", examples="none")
    for path in (tmp_path / "out").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "javascript:" not in text and "Forged" not in text


def test_a_suite_without_a_total_has_no_rank_column(tmp_path: Path) -> None:
    files = [own("b", ONE, 0.5, 90.0), own("a", ONE, 3.0, 10.0)]
    page = Page(write_leaderboard(write(tmp_path / "in", files), tmp_path / "out", examples="none"))
    heads = [text for _, _, text in page.rows[0]]
    assert heads == ["Submission", "errorsmselower is better", "pointsem"]
    assert "so nothing is ranked" in page.text and "data-whiskers" not in page.text
    task = Page(tmp_path / "out" / "tasks" / "errors.html")
    assert [(row[0].split(":")[0], row[1], row[2]) for row in rows(task)] == [
        ("1", "b", "0.500"),
        ("2", "a", "3.000"),
    ]


def test_tasks_outside_the_suite_are_said(tmp_path: Path) -> None:
    file = results("more", 50.0)
    file["tasks"]["conll"] = dict(file["tasks"]["sst"])
    page = Page(write_leaderboard(write(tmp_path / "in", [file]), tmp_path / "out", examples="none"))
    assert "not counted here: conll 50.0" in page.text


def test_results_of_other_tasks_only_are_no_row(tmp_path: Path) -> None:
    """A task of one's own, scored without a suite, must not look like a failed run of the decathlon."""
    files = [results("a", 50.0), results("own", {"capitals": 0.0})]
    page = Page(write_leaderboard(write(tmp_path / "in", files), tmp_path / "out", examples="none"))
    assert [row[1].split()[0] for row in rows(page) if row[0] == "1"] == ["a"]
    assert not any("own" in cell for row in rows(page) for cell in row)
    assert "Results for other tasks only" in page.text and "<bdi>own</bdi>: capitals" in page.text


def test_results_of_one_submission_link_to_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "in" / "system" / "results"
    for split, file in (("validation", results("s", 50.0)), ("validation-own", own("s", ONE, 0.5, 90.0))):
        (folder / split).mkdir(parents=True)
        (folder / split / "results.json").write_text(json.dumps(file), encoding="utf-8")
    write_leaderboard(tmp_path / "in", tmp_path / "out", examples="none")
    page = Page(tmp_path / "out" / "submissions" / "system-validation.html")
    assert "system-validation-own.html" in {link["href"] for link in page.named("a")}
    assert "Other results of this submission" in page.text
