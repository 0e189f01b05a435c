"""Answers scored again: what agrees is verified and remembered, what does not is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decabench.leaderboard import rescoring
from decabench.leaderboard.audit import audit
from decabench.leaderboard.entries import Entries, read_submissions
from decabench.leaderboard.evidence import Evidence
from decabench.leaderboard.rescoring import Verification, only_verified, verify_entries
from decabench.scoring import ScoringOptions, score_submission, write_results_file, write_statistics

TASKS = ("sst", "schema")


@pytest.fixture(scope="module")
def evaluated(made_up: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission of two tasks, evaluated."""
    folder = tmp_path_factory.mktemp("evaluated") / "system"
    shutil.copytree(made_up / "system-00", folder, ignore=shutil.ignore_patterns("results"))
    for path in (folder / "predictions").iterdir():
        if path.name.split(".")[0] not in TASKS:
            path.unlink()
    results, scored = score_submission(folder, ScoringOptions(home=home))
    write_results_file(folder / "results" / "validation", results)
    write_statistics(folder / "results" / "validation", scored)
    return folder.parent


@pytest.fixture
def place(evaluated: Path, home: Path, tmp_path: Path) -> tuple[Path, Path]:
    """(submissions, home), for one test alone."""
    shutil.copytree(evaluated, tmp_path / "in")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "tasks").symlink_to(home / "tasks")
    return tmp_path / "in", tmp_path / "home"


def verified(place: tuple[Path, Path], again: bool = True) -> Entries:
    submissions, home = place
    found = audit(read_submissions(submissions), Evidence(submissions), submissions, home)
    return verify_entries(found, submissions, Evidence(submissions), Verification(home, again))


def kinds(found: Entries) -> dict[str, str]:
    (entry,) = found.entries
    return {name: task.check.kind for name, task in entry.tasks.items()}


def edit_results(submissions: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    (path,) = submissions.rglob("results.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content["tasks"])
    content["total"]["score"] = sum(task["score"] for task in content["tasks"].values())
    path.write_text(json.dumps(content), encoding="utf-8")


def test_answers_that_give_the_same_scores_are_verified(place: tuple[Path, Path]) -> None:
    found = verified(place)
    assert kinds(found) == dict.fromkeys(TASKS, "verified")
    (entry,) = found.entries
    check = entry.tasks["sst"].check
    assert entry.kind == "verified" and check.version and len(check.date) == len("2026-11-22")


def test_it_is_done_on_request_and_then_remembered(
    place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kinds(verified(place, again=False)) == dict.fromkeys(TASKS, "consistent")
    date = verified(place).entries[0].tasks["sst"].check.date
    monkeypatch.setattr(rescoring, "score_submission", None)
    again = verified(place, again=False)
    assert kinds(again) == dict.fromkeys(TASKS, "verified")
    assert again.entries[0].tasks["sst"].check.date == date


@pytest.mark.parametrize("name", ["results.json", "sst.parquet", "sst.validation.jsonl", "submission.toml"])
def test_a_changed_byte_makes_the_record_void(place: tuple[Path, Path], name: str) -> None:
    verified(place)
    (path,) = place[0].rglob(name)
    if name.endswith(".parquet"):
        pq.write_table(pq.read_table(path), path, compression="none")
    else:
        path.write_bytes(path.read_bytes() + b"\n")
    assert "verified" not in kinds(verified(place, again=False)).values()


@pytest.mark.parametrize(
    "name", ["withheld/sst.validation.jsonl", "variants/1/predictions/sst.validation.jsonl"]
)
def test_more_files_of_answers_make_the_record_void(place: tuple[Path, Path], name: str) -> None:
    verified(place)
    (folder,) = place[0].iterdir()
    (folder / name).parent.mkdir(parents=True)
    shutil.copy(folder / "predictions" / "sst.validation.jsonl", folder / name)
    assert "verified" not in kinds(verified(place, again=False)).values()


@pytest.mark.parametrize("what", ["code", "data"])
def test_other_code_or_data_makes_the_record_void(
    place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    verified(place)
    if what == "code":
        monkeypatch.setattr(rescoring, "code_digest", lambda: "other")
    else:
        tasks = place[1] / "tasks"
        shared = tasks.resolve()
        tasks.unlink()  # a link to the data of all tests
        shutil.copytree(shared, tasks)
        path = tasks / "sst" / "task.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        content["splits"]["validation"]["fingerprint"] = "sha256:" + "0" * 64
        path.write_text(json.dumps(content), encoding="utf-8")
    assert "verified" not in kinds(verified(place, again=False)).values()


def test_a_submission_that_memory_does_not_suffice_for_is_not_the_end_of_the_board(
    place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(rescoring, "score_submission", fails)
    found = verified(place)
    assert kinds(found) == dict.fromkeys(TASKS, "consistent")
    assert "there is not enough memory" in found.entries[0].tasks["sst"].check.detail


def test_what_a_record_lacks_is_scored(place: tuple[Path, Path]) -> None:
    """One task was verified while the data of the other was not prepared: that one must not pass for good."""
    verified(place)
    (record,) = (place[1] / "verified").iterdir()
    whole = record.read_text(encoding="utf-8")
    content = json.loads(whole)
    del content["tasks"]["sst"]
    record.write_text(json.dumps(content), encoding="utf-8")
    assert kinds(verified(place, again=False)) == {"sst": "consistent", "schema": "verified"}
    assert kinds(verified(place)) == dict.fromkeys(TASKS, "verified")
    assert json.loads(record.read_text(encoding="utf-8"))["tasks"].keys() == {*TASKS}


def test_it_says_what_it_scores_and_says_nothing_of_what_it_knows(place: tuple[Path, Path]) -> None:
    submissions, home = place
    lines: list[str] = []
    for _ in range(2):
        found = audit(read_submissions(submissions), Evidence(submissions), submissions, home)
        verify_entries(found, submissions, Evidence(submissions), Verification(home, report=lines.append))
    (line,) = lines
    assert line.startswith("Verifying system 00 (validation): 2 tasks, ") and line.endswith(" examples")


def limit(tasks: dict[str, Any]) -> None:
    task = tasks["sst"]
    task.update(status="partial", partial={"answered": task["n"] - 1, "of": task["n"], "chosen": "limit"})


def test_whole_answers_do_not_pose_as_a_limited_run(place: tuple[Path, Path]) -> None:
    """A limited run has no statistics, so that nothing but its answers speaks against its score."""
    (path,) = place[0].rglob("results.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    limit(content["tasks"])
    score = content["tasks"]["schema"]["score"]
    content["total"].update(score=score, tasks=1, partial=["sst"])
    content["tasks"]["sst"].update(score=99.7, n=content["tasks"]["sst"]["n"] - 1)
    path.write_text(json.dumps(content), encoding="utf-8")
    assert kinds(verified(place, again=False))["sst"] == "self-reported"
    assert verified(place).refused[0].reason == (
        "its score for sst is that of a limited run, but its answers are those of a whole run: evaluate again"
    )


def test_a_record_in_a_submission_is_worth_nothing(place: tuple[Path, Path]) -> None:
    verified(place)
    shutil.move(place[1] / "verified", place[0] / "system" / "verified")
    assert kinds(verified(place, again=False)) == dict.fromkeys(TASKS, "consistent")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "decabench.verified/0"}', "[" * 100_000])
def test_a_damaged_record_is_made_again(place: tuple[Path, Path], content: str) -> None:
    verified(place)
    (record,) = (place[1] / "verified").iterdir()
    record.write_text(content, encoding="utf-8")
    assert kinds(verified(place)) == dict.fromkeys(TASKS, "verified")
    assert json.loads(record.read_text(encoding="utf-8"))["tasks"].keys() == {*TASKS}


def test_statistics_forged_along_with_the_score_are_consistent_until_the_answers_are_scored(
    place: tuple[Path, Path],
) -> None:
    submissions, _ = place
    (path,) = submissions.rglob("sst.parquet")
    table = pq.read_table(path)
    for name in ("em", "nf1", "nf1_empty_match", "nem"):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(np.ones(len(table))))
    pq.write_table(table, path)
    perfect = dict.fromkeys(("em", "nf1", "nf1_empty_match", "nem"), 100.0)
    edit_results(submissions, lambda tasks: tasks["sst"].update(score=100.0, scores=perfect, interval=None))
    assert kinds(verified(place, again=False)) == dict.fromkeys(TASKS, "consistent")
    found = verified(place)
    assert found.entries == ()
    assert "its score for sst is 100, but its answers give " in found.refused[0].reason


def test_statistics_of_other_answers_with_the_same_sum_are_refused(place: tuple[Path, Path]) -> None:
    (path,) = place[0].rglob("sst.parquet")
    table = pq.read_table(path)
    units = [name for name in table.column_names if name.startswith("unit_")]
    turned = table.select(units)
    for name in table.column_names[len(units) :]:
        turned = turned.append_column(name, pa.array(table.column(name).to_numpy()[::-1]))
    pq.write_table(turned.replace_schema_metadata(table.schema.metadata), path)
    assert verified(place).refused[0].reason == (
        "its statistics for sst are not those of its answers: evaluate again"
    )


def test_other_groups_than_those_of_the_data_are_refused(place: tuple[Path, Path]) -> None:
    """Groups decide how wide an interval is, and not the score."""
    (path,) = place[0].rglob("schema.parquet")
    table = pq.read_table(path)
    name = table.column_names[0]
    other = pa.array((np.arange(len(table)) // 5).astype(np.int32))
    pq.write_table(table.set_column(0, name, other).replace_schema_metadata(table.schema.metadata), path)
    assert "group the examples otherwise than the data does" in verified(place).refused[0].reason


def test_other_answers_than_those_that_were_scored_are_refused(place: tuple[Path, Path]) -> None:
    (path,) = place[0].rglob("sst.validation.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines[0]["answer"] += " indeed"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert verified(place).refused[0].reason == "the answers for sst beside it are not those that it scored"


def test_what_is_not_at_hand_stays_consistent_and_says_why(place: tuple[Path, Path]) -> None:
    next(place[0].rglob("sst.validation.jsonl")).unlink()
    found = verified(place)
    assert kinds(found) == {"sst": "consistent", "schema": "verified"}
    assert found.entries[0].kind == "consistent"
    assert found.entries[0].tasks["sst"].check.detail.endswith("not verified: its answers are not at hand")
    (place[1] / "tasks").unlink()
    found = verified((place[0], place[1] / "none"))
    assert "the data is not prepared here" in found.entries[0].tasks["schema"].check.detail


def test_another_version_of_a_metric_that_agrees_verifies_and_one_that_does_not_refutes_nothing(
    place: tuple[Path, Path],
) -> None:
    shutil.rmtree(next(place[0].rglob("statistics")))
    edit_results(place[0], lambda tasks: tasks["sst"].update(signature="em|v:0", signatures={}))
    assert kinds(verified(place)) == dict.fromkeys(TASKS, "verified")
    edit_results(place[0], lambda tasks: tasks["sst"].update(score=99.0))
    found = verified(place)
    assert kinds(found) == {"sst": "self-reported", "schema": "verified"}
    assert found.entries[0].tasks["sst"].check.detail == rescoring.OTHER_SCORE


def test_no_signature_takes_a_verified_score_out_of_its_table(place: tuple[Path, Path]) -> None:
    """One of one's own gave a table of one's own, with rank 1 in it, and with copies it was the first of the page."""
    honest = verified(place).entries[0].tasks["sst"].signature
    shutil.rmtree(next(place[0].rglob("statistics")))
    edit_results(place[0], lambda tasks: tasks["sst"].update(signature="em-but-mine", signatures={}))
    for again in (True, False):  # scored, then from the record
        task = verified(place, again).entries[0].tasks["sst"]
        assert (task.signature, task.is_current, task.check.kind) == (honest, True, "verified")


def test_no_signature_excuses_other_answers(place: tuple[Path, Path]) -> None:
    """Statistics and score were forged together, and the answers beside them all wrong."""
    (path,) = place[0].rglob("sst.validation.jsonl")
    lines = [{**json.loads(line), "answer": "wrong"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (file,) = place[0].rglob("sst.parquet")
    pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)
    edit_results(place[0], lambda tasks: tasks["sst"].update(signature="em|v:9", signatures={}))
    assert verified(place).refused[0].reason == "the answers for sst beside it are not those that it scored"
    edit_results(place[0], lambda tasks: tasks["sst"].update(predictions="", empty=0))
    task = verified(place).entries[0].tasks["sst"]
    assert (task.check.kind, task.check.detail) == ("self-reported", rescoring.OTHER_SCORE)


def test_a_file_more_among_the_answers_does_not_keep_wrong_ones_from_being_seen(
    place: tuple[Path, Path],
) -> None:
    (place[0] / "system" / "predictions" / "README.md").touch()
    (refusal,) = verified(place).refused
    assert (
        refusal.reason.startswith("its answers are no valid submission: ") and "README.md" in refusal.reason
    )


def test_a_limited_run_alone_is_verified(place: tuple[Path, Path]) -> None:
    """A board of verified scores refused submissions without any whole task, though their answers were there."""
    home = place[1]
    (folder,) = place[0].iterdir()
    (folder / "predictions" / "schema.validation.jsonl").unlink()
    (path,) = folder.rglob("sst.validation.jsonl")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:8]))
    toml = folder / "submission.toml"
    toml.write_text(
        toml.read_text() + '\n[partial."sst.validation"]\nanswered = 8\nof = 32\nchosen = "limit 8"\n'
    )
    shutil.rmtree(folder / "results")
    results, scored = score_submission(folder, ScoringOptions(home=home))
    write_results_file(folder / "results" / "validation", results)
    write_statistics(folder / "results" / "validation", scored)
    (entry,) = only_verified(verified(place)).entries
    assert (entry.kind, entry.tasks["sst"].check.kind) == (None, "verified")


def test_a_task_that_is_not_known_keeps_no_other_from_being_scored(
    place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescoring, "known_tasks", lambda include: {"schema": None})
    found = verified(place)
    assert kinds(found) == {"sst": "consistent", "schema": "verified"}
    assert "give its file with --include" in found.entries[0].tasks["sst"].check.detail


def test_a_task_without_data_here_may_be_left_out(place: tuple[Path, Path]) -> None:
    """`evaluate` says to choose the tasks whose data is prepared."""
    (path,) = place[0].rglob("sst.validation.jsonl")
    shutil.copy(path, path.with_name("squad.validation.jsonl"))
    assert verified(place).refused[0].reason.startswith("it leaves out squad")
    tasks = place[1] / "tasks"
    shared = tasks.resolve()
    tasks.unlink()  # a link to the data of all tests
    shutil.copytree(shared, tasks, ignore=shutil.ignore_patterns("squad"))
    assert kinds(verified(place)) == dict.fromkeys(TASKS, "verified")


def test_a_task_that_was_answered_is_not_left_out(place: tuple[Path, Path]) -> None:
    """Without the task that failed, a result was partial instead of failed, and its scores verified."""
    (path,) = place[0].rglob("results.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["tasks"]["schema"]
    content["total"] |= {"score": content["tasks"]["sst"]["score"], "tasks": 1, "of": 100}
    path.write_text(json.dumps(content), encoding="utf-8")
    assert (
        verified(place).refused[0].reason.startswith("it leaves out schema, though the answers are beside it")
    )


def test_empty_answers_are_counted_again(place: tuple[Path, Path]) -> None:
    edit_results(place[0], lambda tasks: tasks["sst"].update(empty=30))
    assert verified(place).refused[0].reason == "it states 30 of its answers for sst as empty, but 1 are"


def test_nothing_is_remembered_of_metrics_whose_code_is_not_this_package_s(
    place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record's name is a digest of this package's code: a record outlived a change of one's own metric."""
    monkeypatch.setattr(rescoring, "METRICS", {})
    assert kinds(verified(place)) == dict.fromkeys(TASKS, "verified")
    assert not (place[1] / "verified").exists()
    assert kinds(verified(place, again=False)) == dict.fromkeys(TASKS, "consistent")


def test_a_board_may_refuse_all_that_is_not_verified(place: tuple[Path, Path]) -> None:
    """A results file that lay deeper in a submission was ranked above the one that was scored there."""
    hidden = place[0] / "system" / "extra" / "results" / "validation"
    shutil.copytree(place[0] / "system" / "results" / "validation", hidden)
    content = json.loads((hidden / "results.json").read_text())
    content["submission"]["name"] = "forged"
    (hidden / "results.json").write_text(json.dumps(content))
    assert [entry.kind for entry in verified(place).entries] == ["consistent", "verified"]
    found = only_verified(verified(place))
    assert [entry.name for entry in found.entries] == ["system 00"]
    assert found.refused[0].reason.startswith("its score for sst is not verified, but consistent (recomputed")


def test_answers_alone_verify_a_score_that_has_no_statistics(place: tuple[Path, Path]) -> None:
    shutil.rmtree(next(place[0].rglob("statistics")))
    assert kinds(verified(place, again=False)) == dict.fromkeys(TASKS, "self-reported")
    assert kinds(verified(place)) == dict.fromkeys(TASKS, "verified")


def test_answers_behind_a_link_out_of_the_submission_are_not_read(
    place: tuple[Path, Path], tmp_path: Path
) -> None:
    predictions = place[0] / "system" / "predictions"
    predictions.rename(tmp_path / "elsewhere")
    predictions.symlink_to(tmp_path / "elsewhere")
    assert kinds(verified(place)) == dict.fromkeys(TASKS, "consistent")


def test_the_results_of_an_archive_are_verified_by_the_archive(place: tuple[Path, Path]) -> None:
    folder = place[0] / "system"
    shutil.move(folder / "results", place[0] / "system.zip.results")
    shutil.make_archive(str(folder), "zip", folder)
    shutil.rmtree(folder)
    assert kinds(verified(place)) == dict.fromkeys(TASKS, "verified")


def test_entries_without_a_score_are_left_alone(place: tuple[Path, Path]) -> None:
    entry = read_submissions(place[0]).entries[0]
    empty = replace(entry, tasks={})
    found = verify_entries(Entries((empty,)), place[0], Evidence(place[0]), Verification(place[1], True))
    assert found.entries == (empty,)


def test_a_task_that_the_archive_does_not_answer_is_not_at_hand(place: tuple[Path, Path]) -> None:
    """What is in an archive is not known before; a task that was not in it ended the build with a KeyError."""
    folder = place[0] / "system"
    shutil.move(folder / "results", place[0] / "system.zip.results")
    (folder / "predictions" / "schema.validation.jsonl").unlink()
    shutil.make_archive(str(folder), "zip", folder)
    shutil.rmtree(folder)
    found = verified(place)
    assert kinds(found) == {"sst": "verified", "schema": "consistent"}
    assert "its answers are not at hand" in found.entries[0].tasks["schema"].check.detail
