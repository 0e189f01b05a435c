"""Submissions are found and scored, results without answers are *reported*, and forged files cannot rank."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decabench.leaderboard import scores as scores_module
from decabench.leaderboard.entries import Entry, LeaderboardError, Refusal, Row
from decabench.leaderboard.ranking import rank_suite
from decabench.leaderboard.scores import BoardOptions, Keeper, find_submissions, score_submissions
from decabench.scoring import (
    Ledger,
    Results,
    ScoredTask,
    ScoringOptions,
    evaluate,
    score_submission,
)
from decabench.scoring.task_results import Job
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import DECATHLON, TASKS, Store, Suite
from tests.leaderboard.small import results, write

PAIR = Suite("pair", "Pair", ("sst", "schema"), "sum", "sum")
LEADS_OUT = "it links outside its submission; replace the link with a copy, or link to the whole submission"


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def read(folder: Path, home: Path, suite: Suite = PAIR, **options: Any) -> tuple[list[Entry], list[Refusal]]:
    top, paths, unread = find_submissions(folder)
    keeper = Keeper(Store(home), [suite], TASKS, options=BoardOptions(**options))
    entries, refused = score_submissions(top, paths, keeper)
    return entries, [*unread, *refused]


def row_of(folder: Path, home: Path, **options: Any) -> Row:
    """Return the only row of a board. Nothing may be left out."""
    entries, refused = read(folder, home, **options)
    assert refused == []
    (table,) = rank_suite(PAIR, entries, TASKS).tables
    (row,) = table.all_rows
    return row


# Finding


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("results.json", "results.json"),
        ("one/results.json", "one"),
        ("one/validation.results.json", "one"),
        ("one/results/validation/results.json", "one"),
        ("group/one/results/validation/results.json", "group/one"),
        ("a/b/c/one/submission.toml", "a/b/c/one"),
        ("one/predictions/sst.validation.jsonl", "one"),
        ("one.zip", "one.zip"),
        ("one/other.json", None),
        (".hidden/results.json", None),
        ("a/b/c/d/e/results.json", None),
    ],
)
def test_places(tmp_path: Path, place: str, found: str | None) -> None:
    put(tmp_path / place, json.dumps(results()))
    assert find_submissions(tmp_path) == (tmp_path, [found] if found else [], [])


def test_a_submission_may_be_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "one" / "submission.toml", "")
    put(tmp_path / "two" / "submission.toml", "")
    assert find_submissions(tmp_path / "one") == (tmp_path, ["one"], [])
    monkeypatch.chdir(tmp_path / "one")
    assert find_submissions(Path()) == (tmp_path.resolve(), ["one"], [])
    with pytest.raises(LeaderboardError, match=r"There is no folder .*nowhere. Specify the folder"):
        find_submissions(tmp_path / "nowhere")


def test_links_of_the_keeper_are_followed_and_each_submission_counts_once(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere" / "results.json", json.dumps(results()))
    put(tmp_path / "in" / "group" / "one" / "kept" / "results.json", json.dumps(results()))
    (tmp_path / "in" / "mine").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "again").symlink_to("mine")
    (tmp_path / "in" / "group" / "one" / "results").symlink_to("kept")
    (tmp_path / "in" / "group" / "one" / "loop").symlink_to(".")
    assert find_submissions(tmp_path / "in")[1] == ["again", "group/one"]


@pytest.mark.parametrize("link", ["results", "results/validation", "results/validation/results.json"])
def test_links_that_leave_a_submission_are_refused(tmp_path: Path, link: str) -> None:
    put(tmp_path / "in/elsewhere/results/validation/results.json", json.dumps(results("taken")))
    place = tmp_path / "in" / "group" / "mine" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "in" / "elsewhere" / link)
    entries, refused = read(tmp_path / "in", tmp_path)
    assert [entry.submission for entry in entries] == ["elsewhere"]
    assert refused == [Refusal("group/mine/results/validation/results.json", LEADS_OUT)]
    (tmp_path / "in" / "group" / "other").symlink_to(tmp_path / "in" / "elsewhere")
    assert Refusal("group/other", LEADS_OUT) in read(tmp_path / "in", tmp_path)[1]


@pytest.mark.parametrize("mark", ["\u200b", "\u202e", "\u3164", "\n", "\U000e0061"])
def test_a_path_that_is_not_all_seen_is_refused(tmp_path: Path, mark: str) -> None:
    put(tmp_path / f"alpha{mark}" / "results.json", json.dumps(results()))
    _, paths, (refusal,) = find_submissions(tmp_path)
    assert paths == []
    assert (
        refusal.reason
        == f"its path contains the invisible character U+{ord(mark):04X}; rename the file or folder"
    )


@pytest.mark.parametrize(
    "name",
    [
        "a  b",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u2764\ufe0f",
        "日本\u3000語",
        "👩\u200d🔬",
    ],
)
def test_other_scripts_are_seen(tmp_path: Path, name: str) -> None:
    put(tmp_path / name / "results.json", json.dumps(results(name)))
    (entry,), _ = read(tmp_path, tmp_path)
    assert entry.submission == name and ("\u200c" not in name or entry.name == name)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it is not JSON: there is no valid JSON value at column 1"),
        (b"\xff\xfe", "it is not UTF-8"),
        ('{"format": "decabench.results/0"}', "its format is 'decabench.results/0'"),
    ],
)
def test_damaged_results_are_listed(tmp_path: Path, content: str | bytes, reason: str) -> None:
    put(tmp_path / "bad" / "results.json", content)
    write(tmp_path, [results("good")])
    (entry,), (refusal,) = read(tmp_path, tmp_path)
    assert (entry.name, refusal.path) == ("good", "bad/results.json")
    assert refusal.reason.startswith(reason)


def test_other_files_of_decabench_are_not_results(tmp_path: Path) -> None:
    put(tmp_path / "one" / "results" / "validation.times.json", '{"format": "decabench.times/1"}')
    assert read(tmp_path, tmp_path) == ([], [])


# Scoring


@pytest.fixture
def home_alone(home: Path, tmp_path: Path) -> Path:
    """A separate home with the prepared sample."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "tasks").symlink_to(home / "tasks")
    return tmp_path / "home"


@pytest.fixture
def one(made_up: Path, home: Path, tmp_path: Path) -> Path:
    """A folder with one submission, with answers, results and statistics."""
    place = tmp_path / "in" / "system"
    shutil.copytree(made_up / "system-00", place)
    add_results(place, home)
    return place


def add_results(place: Path, home: Path) -> None:
    options = ScoringOptions(home=home, tasks=PAIR.tasks)
    score_submission(place, options)[0].write()


def change_results(place: Path, edit: Callable[[Mapping[str, Any]], object]) -> None:
    path = place / "results" / "validation" / "results.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content["tasks"])
    content["total"]["score"] = sum(task["score"] for task in content["tasks"].values())
    path.write_text(json.dumps(content), encoding="utf-8")


def forge_results(place: Path) -> None:
    change_results(
        place, lambda tasks: [task.update(score=100.0, scores={}, interval=None) for task in tasks.values()]
    )


def forge_statistics(place: Path) -> None:
    for path in (place / "results" / "validation" / "statistics").iterdir():
        table = pq.read_table(path)
        for name in table.column_names:
            if not name.startswith("unit_"):
                at = table.schema.get_field_index(name)
                table = table.set_column(at, name, pa.array(np.ones(len(table))))
        pq.write_table(table, path)


def remove_answers(place: Path) -> None:
    shutil.rmtree(place / "predictions")


def scores(row: Row) -> list[float | None]:
    return [cell.value for cell in row.cells]


def test_answers_are_scored_without_any_results_file(one: Path, home: Path) -> None:
    shutil.rmtree(one / "results")
    row, expected = row_of(one.parent, home), evaluate(one, tasks=list(PAIR.tasks), home=home)
    assert (row.rank, row.entry.kind, row.remarks) == (1, "verified", ())
    assert scores(row) == [expected.tasks[task].score for task in PAIR.tasks]
    assert [row.entry.tasks[task].interval for task in PAIR.tasks] == [
        expected.tasks[task].interval for task in PAIR.tasks
    ]


def test_a_forged_results_file_cannot_rank(one: Path, home: Path) -> None:
    honest = scores(row_of(one.parent, home))
    forge_results(one)
    row = row_of(one.parent, home)
    assert scores(row) == honest and row.entry.kind == "verified"
    remove_answers(one)
    row = row_of(one.parent, home)
    assert scores(row) == [100.0, 100.0]
    assert (row.rank, row.entry.kind, row.entry.apart) == (None, "reported", "reported")
    assert row.remarks == ("reported: the answers are not available",)


def test_forged_statistics_cannot_rank(one: Path, home: Path) -> None:
    honest = scores(row_of(one.parent, home))
    forge_results(one)
    forge_statistics(one)
    assert scores(row_of(one.parent, home)) == scores(row_of(one.parent, home, rank_reported=True)) == honest
    remove_answers(one)
    row = row_of(one.parent, home)
    assert (row.rank, row.entry.apart, row.interval) == (None, "reported", None)


def test_a_forged_ledger_cannot_rank(
    one: Path, home: Path, home_alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forged ledger works only in the keeper's own home, not next to a submission."""
    honest, keep = scores(row_of(one.parent, home)), Ledger.keep
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / "tasks").symlink_to(home / "tasks")

    def keep_better(ledger: Ledger, job: Job, found: ScoredTask) -> None:
        keep(ledger, job, replace(found, result=replace(found.result, score=100.0)))

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "keep", keep_better)
        row_of(one.parent, forged)
    assert scores(row_of(one.parent, forged)) == [100.0, 100.0] != honest
    for place in (one, one.parent):
        shutil.copytree(forged / "ledger", place / "ledger")
    row = row_of(one.parent, home_alone)
    assert scores(row) == honest and (row.rank, row.entry.kind) == (1, "verified")


def test_reported_results_are_ranked_if_the_keeper_wants_it(one: Path, home: Path) -> None:
    verified = row_of(one.parent, home)
    remove_answers(one)
    row = row_of(one.parent, home, rank_reported=True)
    assert (row.rank, row.entry.kind, row.entry.apart) == (1, "reported", "")
    assert scores(row) == scores(verified) and row.interval == verified.interval
    assert row.remarks == ("reported: the answers are not available",)
    shutil.rmtree(one / "results" / "validation" / "statistics")
    row = row_of(one.parent, home, rank_reported=True)
    assert (row.rank, row.interval) == (1, None)
    assert row.remarks == ("reported: the answers are not available, and there are no statistics",)


@pytest.mark.parametrize("forge", [forge_results, forge_statistics])
def test_statistics_that_come_along_must_add_up(one: Path, home: Path, forge: Callable[[Path], None]) -> None:
    remove_answers(one)
    forge(one)
    entries, (refusal,) = read(one.parent, home, rank_reported=True)
    assert entries == [] and "but its statistics give" in refusal.reason
    assert row_of(one.parent, home).entry.apart == "reported", "without the option, nobody reads them"


def damaged(path: Path) -> None:
    path.write_bytes(b"PAR1 and no more")


def cut(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(0, 5), path)


def without_a_column(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["em"]), path)


@pytest.mark.parametrize("spoil", [damaged, cut, without_a_column])
def test_damaged_statistics_are_refused(one: Path, home: Path, spoil: Callable[[Path], None]) -> None:
    remove_answers(one)
    spoil(one / "results" / "validation" / "statistics" / "sst.parquet")
    entries, (refusal,) = read(one.parent, home, rank_reported=True)
    assert entries == [] and refusal.reason.startswith("its s") and "sst" in refusal.reason


def test_tasks_without_answers_are_named_and_do_not_count(one: Path, home: Path) -> None:
    """If the answers to a task are missing, the row has the other tasks, and a remark gives the reported score."""
    (one / "predictions" / "sst.validation.jsonl").unlink()
    row = row_of(one.parent, home)
    assert (row.rank, row.entry.kind, row.entry.apart) == (None, "verified", "")
    assert row.remarks[-1].startswith("not scored here: sst (reported ")
    assert row.remarks[-1].endswith("): the answers are not available")
    whole = row_of(one.parent, home, rank_reported=True)
    assert (whole.rank, whole.entry.kind) == (1, "reported")
    assert whole.remarks == ("reported: sst: the answers are not available",)


def test_data_that_is_not_here(one: Path, tmp_path: Path) -> None:
    row = row_of(one.parent, tmp_path / "empty")
    assert row.remarks == ("reported: the data is not prepared here",)
    shutil.rmtree(one / "results")
    entries, (refusal,) = read(one.parent, tmp_path / "empty")
    assert entries == []
    assert refusal == Refusal("system", "no task could be scored: sst, schema: the data is not prepared here")


def test_answers_to_other_data_are_not_scored(one: Path, home: Path) -> None:
    shutil.rmtree(one / "results")
    toml = one / "submission.toml"
    toml.write_text(toml.read_text() + f'\n[data]\n"sst.validation" = "sha256:{"0" * 64}"\n')
    row = row_of(one.parent, home)
    assert (
        row.remarks[-1]
        == "not scored here: sst: the answers are for data that differs from the data prepared here"
    )


def test_results_on_other_data_stand_apart(one: Path, home: Path) -> None:
    shutil.copytree(one, one.with_name("other"))
    remove_answers(one.with_name("other"))
    change_results(
        one.with_name("other"), lambda tasks: tasks["sst"]["data"].update(fingerprint="sha256:other")
    )
    entries, _ = read(one.parent, home, rank_reported=True)
    (table,) = rank_suite(PAIR, entries, TASKS).tables
    assert [row.entry.kind for row in table.rows] == ["verified"]
    assert [row.entry.apart for row in table.apart] == ["other data"]


def test_an_archive_is_scored(one: Path, home: Path) -> None:
    expected = scores(row_of(one.parent, home))
    shutil.make_archive(str(one), "zip", one)
    shutil.rmtree(one)
    row = row_of(one.parent, home)
    assert scores(row) == expected and row.entry.submission == "system.zip"


def test_a_faulty_file_fails_its_task_alone(one: Path, home: Path) -> None:
    path = one / "predictions" / "sst.validation.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    row = row_of(one.parent, home)
    assert [cell.status for cell in row.cells] == ["failed", "scored"]


def test_several_processes_score_new_submissions(
    one: Path, home_alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("another", "faulty", "invalid"):
        shutil.copytree(one, one.with_name(name))
    add_text(one.with_name("another") / "predictions" / "sst.validation.jsonl", "\n")  # the digest changes
    add_text(one.with_name("faulty") / "predictions" / "sst.validation.jsonl", "{")
    (one.with_name("invalid") / "predictions" / "README.md").touch()
    expected = read(one.parent, home_alone)
    shutil.rmtree(home_alone / "ledger")
    here: list[str] = []
    monkeypatch.setattr(Ledger, "keep", lambda _, inputs, found: here.append(inputs.task.name))
    assert str(read(one.parent, home_alone, jobs=2)) == str(expected)
    assert set(here) == {"sst"}  # only the faulty file, whose result isn't kept


def add_text(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_a_file_more_among_the_answers_is_no_valid_submission(one: Path, home: Path) -> None:
    (one / "predictions" / "README.md").touch()
    entries, (refusal,) = read(one.parent, home)
    assert entries == []
    assert refusal.reason.startswith("it is not a valid submission: ") and "README.md" in refusal.reason


def test_a_submission_without_answers_is_named(one: Path, home: Path) -> None:
    shutil.rmtree(one / "results")
    remove_answers(one)
    entries, (refusal,) = read(one.parent, home)
    assert entries == [] and "no-predictions" in refusal.reason


def test_a_limited_run_is_verified_and_counts_nowhere(one: Path, home: Path) -> None:
    path = one / "predictions" / "sst.validation.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:8]))
    toml = one / "submission.toml"
    toml.write_text(
        toml.read_text() + '\n[partial."sst.validation"]\nanswered = 8\nof = 32\nchosen = "limit 8"\n'
    )
    row = row_of(one.parent, home)
    assert (row.cells[0].status, row.cells[0].label) == ("limited", "partial, 8 of 32")
    assert (row.rank, row.entry.sample("sst"), row.entry.kind) == (None, None, "verified")


def test_too_little_memory_for_one_is_not_the_end_of_the_board(
    one: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(scores_module, "score_submission", fails)
    row = row_of(one.parent, home)
    assert row.remarks == ("reported: it could not be scored: there is not enough memory",)


def test_other_wordings_and_raw_outputs_stand_apart(one: Path, home: Path) -> None:
    info = SubmissionInfo("w", predictor={"name": "p", "variant": 2})
    write_submission(one, info, {})
    assert row_of(one.parent, home).entry.apart == "other wording"
    remove_answers(one)
    path = one / "results" / "validation" / "results.json"
    raw = replace(Results.from_json(path.read_text()), answers="raw", submission={"name": "raw"})
    path.write_text(raw.to_json())
    assert row_of(one.parent, home, rank_reported=True).entry.apart == "whole output"


def test_reported_wordings_are_summed_up_here(tmp_path: Path) -> None:
    file = {**results(scores={"sst": 90.0}), "decascore": None}
    given = {"scores": {"0": 90.0, "10": 80.0, "4": 70.0}, "retired": {"2": 10.0}}
    file["tasks"]["sst"]["variants"] = {**given, "mean": 1.0, "worst": 99.0, "spread": 0.0}
    (entry,), _ = read(write(tmp_path, [file]), tmp_path)
    found = entry.tasks["sst"].variants
    assert found is not None and (found.mean, found.worst, found.spread) == (80.0, 70.0, 20.0)
    assert list(found.scores) == ["0", "4", "10"] and found.retired == {"2": 10.0}


def test_a_hair_above_100_is_100(tmp_path: Path) -> None:
    entries, _ = read(write(tmp_path, [results(scores=100.00000000000004)]), tmp_path, DECATHLON)
    assert [entry.total for entry in entries] == [1000.0]
