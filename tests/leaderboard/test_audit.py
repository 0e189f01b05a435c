"""What a results file states against what its statistics give: the forger's afternoon."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decabench.leaderboard.audit import OTHER_VERSION, FileDigests, audit, refusal_reason, with_intervals
from decabench.leaderboard.entries import Entries, read_submissions
from decabench.leaderboard.evidence import Evidence
from decabench.metrics import METRICS
from tests.leaderboard.small import results, scored, write

TASK = "sst"


def audited(folder: Path, home: Path | None = None) -> Entries:
    return audit(read_submissions(folder), Evidence(folder), folder, home or folder / "no-data")


def change(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """Edit the only results file of a folder."""
    (path,) = folder.rglob("results/validation*/results.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    scores = [task["score"] for task in content["tasks"].values() if task["status"] == "scored"]
    if content["decascore"] is not None:
        content["decascore"] = sum(scores)
    content["total"]["score"] = sum(scores)
    path.write_text(json.dumps(content), encoding="utf-8")


def change_statistics(folder: Path, edit: Callable[[pa.Table], pa.Table], task: str = TASK) -> None:
    (path,) = folder.rglob(f"statistics/{task}.parquet")
    pq.write_table(edit(pq.read_table(path)), path)


@pytest.fixture
def system(made_up: Path, tmp_path: Path) -> Path:
    """A folder with one honest submission."""
    shutil.copytree(made_up / "system-00", tmp_path / "in" / "system-00")
    return tmp_path / "in"


def reason(folder: Path, home: Path | None = None) -> str:
    found = audited(folder, home)
    assert found.entries == ()
    (refusal,) = found.refused
    assert refusal.path == "system-00/results/validation/results.json"
    return refusal.reason


def test_honest_results_are_consistent(system: Path, home: Path) -> None:
    found = audited(system, home)
    (entry,) = found.entries
    assert (entry.kind, entry.apart, found.refused) == ("consistent", "", ())
    assert {task.check.kind for task in entry.tasks.values()} == {"consistent"}
    assert entry.tasks[TASK].check.version


def test_scores_edited_to_99_are_refused(system: Path) -> None:
    """The forged board: 990.0 used to rank first, with the interval of the true scores beside it."""

    def forge(content: dict[str, Any]) -> None:
        for task in content["tasks"].values():
            task["score"] = 99.0

    change(system, forge)
    assert "is 99, but its statistics give" in reason(system)


@pytest.mark.parametrize("extra", [0.009, 1e-3, 1e-4])
def test_a_hundredth_of_a_point_is_too_much(system: Path, extra: float) -> None:
    change(
        system, lambda content: content["tasks"][TASK].update(score=content["tasks"][TASK]["score"] + extra)
    )
    assert f"its score for {TASK} is " in reason(system)


def test_the_last_digits_of_a_sum_may_differ(system: Path) -> None:
    change(
        system, lambda content: content["tasks"][TASK].update(score=content["tasks"][TASK]["score"] + 1e-10)
    )
    assert audited(system).refused == ()


def test_the_other_scores_of_the_metric_are_held_against_the_statistics_too(system: Path) -> None:
    change(system, lambda content: content["tasks"]["squad"]["scores"].update(em=99.9))
    assert "its em for squad is 99.9, but its statistics give" in reason(system)


def test_intervals_and_totals_are_computed_here(system: Path) -> None:
    before = audited(system).entries[0]

    def forge(content: dict[str, Any]) -> None:
        content["interval"] = [989.0, 991.0]
        content["tasks"][TASK]["interval"] = [98.9, 99.1]

    change(system, forge)
    (entry,) = audited(system).entries
    assert entry.interval == before.interval and entry.tasks[TASK].interval == before.tasks[TASK].interval
    assert entry.total == pytest.approx(sum(task.score or 0 for task in entry.tasks.values()))


def test_without_statistics_a_result_is_self_reported(system: Path) -> None:
    shutil.rmtree(next(system.rglob("statistics")))
    (entry,) = audited(system).entries
    assert entry.interval is None and entry.tasks[TASK].interval is None, "no interval is shown as stated"
    assert (entry.kind, entry.apart) == ("self-reported", "self-reported")
    assert entry.tasks[TASK].check.detail == "there are no statistics beside the results"


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda table: table.slice(0, 5), "but its statistics have 5"),
        (lambda table: table.drop_columns(["em"]), "are damaged or not those of"),
        (
            lambda table: table.set_column(
                table.schema.get_field_index("em"), "em", pa.array([float("nan")] * len(table))
            ),
            "are damaged or not those of",
        ),
        (
            lambda table: table.replace_schema_metadata({"metric": "nf1"}),
            "are of the metric nf1, its results of em",
        ),
        (
            lambda table: table.replace_schema_metadata({"signature": "v:9"}),
            "are of the signature v:9, its results of",
        ),
    ],
)
def test_statistics_that_do_not_fit_are_a_contradiction(
    system: Path, edit: Callable[[pa.Table], pa.Table], expected: str
) -> None:
    change_statistics(system, edit)
    assert expected in reason(system)


@pytest.mark.parametrize("content", [b"PAR1 and no more", b""])
def test_damaged_statistics_are_not_missing(system: Path, content: bytes) -> None:
    next(system.rglob(f"statistics/{TASK}.parquet")).write_bytes(content)
    assert f"its statistics for {TASK} are damaged" in reason(system)


def test_rows_that_no_answer_gives_are_refused(system: Path) -> None:
    def lift(table: pa.Table) -> pa.Table:
        """The same sums, from rows of which one is out of range."""
        values = table.column("em").to_numpy().copy()
        first, second = np.flatnonzero(values == 1)[0], np.flatnonzero(values == 0)[0]
        values[first] += 1
        values[second] -= 1
        return table.set_column(table.schema.get_field_index("em"), "em", pa.array(values))

    change_statistics(system, lift)
    assert reason(system) == f"its statistics for {TASK} cannot come from em: em is negative in 1 rows"


def test_other_units_than_those_of_the_data_are_refused(system: Path, home: Path) -> None:
    """Units decide how wide an interval is, and change no score."""
    change_statistics(
        system,
        lambda table: table.set_column(0, "unit_1", pa.array(np.arange(len(table), dtype=np.int32))),
        "squad",
    )
    assert reason(system, home) == "its statistics for squad group the examples otherwise than the data does"
    assert audited(system).refused == (), "without the data nobody can tell"


def innermost(table: pa.Table) -> pa.Table:
    """The statistics as earlier versions wrote them: with the innermost units alone."""
    return table.drop_columns(["unit_1"]).rename_columns(
        ["unit_1" if name == "unit_2" else name for name in table.column_names if name != "unit_1"]
    )


def test_without_the_outer_units_the_interval_is_that_of_the_data(system: Path, home: Path) -> None:
    """Paragraphs alone would make it half as wide, and no test would find the two on the same units."""
    (whole,) = audited(system, home).entries
    change_statistics(system, innermost, "squad")
    (narrow,) = audited(system, home).entries
    assert narrow.tasks["squad"].interval == whole.tasks["squad"].interval
    assert narrow.tasks["squad"].units == whole.tasks["squad"].units and narrow.interval == whole.interval
    assert narrow.tasks["squad"].check.kind == "consistent"


def test_without_the_outer_units_and_without_the_data_it_is_self_reported(system: Path) -> None:
    change_statistics(system, innermost, "squad")
    evidence = Evidence(system)
    (entry,) = audit(read_submissions(system), evidence, system, system / "no-data").entries
    task = entry.tasks["squad"]
    assert (task.check.kind, task.interval) == ("self-reported", None)
    assert task.check.detail == "its statistics were written by an earlier version: evaluate again"
    assert evidence.find(entry, "squad") is None and entry.apart == "self-reported"


def test_what_a_file_says_of_its_data_is_replaced_by_what_is_known(system: Path, home: Path) -> None:
    said = {"note": "Forged", "origin": "my server", "verified": True, "published_count": 99_999}
    change(system, lambda content: content["tasks"][TASK]["data"].update(said))
    (entry,) = audited(system, home).entries
    task = entry.tasks[TASK]
    assert (task.at_hand, task.origin, task.published_count) == (True, "sample", 872)
    assert task.note != "Forged" and not task.verified
    (entry,) = audited(system).entries
    assert (entry.tasks[TASK].at_hand, entry.tasks[TASK].published_count) == (False, 872)


def test_scores_that_nothing_gives_stand_apart_from_those_that_were_recomputed(system: Path) -> None:
    change(system, lambda content: content["tasks"][TASK]["scores"].update({"human preference": 99.9}))
    (entry,) = audited(system).entries
    assert "human preference" not in entry.tasks[TASK].scores
    assert entry.tasks[TASK].stated == {"human preference": 99.9}


def test_what_contradicts_the_manifest_is_refused(system: Path) -> None:
    results = next(system.rglob("results.json"))
    manifest = {"format": "decabench.manifest/1", "decabench": "0.1.0", "results": {}}
    bound = {"split": "validation", "results": f"sha256:{'0' * 64}", "tasks": {}}
    (system / "system-00" / "manifest.json").write_text(
        json.dumps({**manifest, "results": {"results/validation": bound}}), encoding="utf-8"
    )
    assert results.is_file()
    assert reason(system) == "its results.json is not the one whose digest is in manifest.json"
    (system / "system-00" / "manifest.json").write_text("{", encoding="utf-8")
    assert reason(system).startswith("manifest.json: ")


def test_the_easy_examples_alone_are_not_the_data(system: Path, home: Path) -> None:
    """Five examples that are right, and a file that says the data has no more."""
    table = pq.read_table(next(system.rglob(f"statistics/{TASK}.parquet")))
    right = table.filter(pa.compute.equal(table.column("em"), 1.0)).slice(0, 5)
    change_statistics(system, lambda _: right)

    def forge(content: dict[str, Any]) -> None:
        content["tasks"][TASK] |= {"score": 100.0, "scores": {}, "n": 5}
        content["tasks"][TASK]["data"]["rows"] = 5

    change(system, forge)
    assert reason(system, home) == f"it scored 5 examples of {TASK}, but the data that it names has 32"


def test_a_whole_result_has_a_row_for_each_example_of_the_data(system: Path) -> None:
    """Five examples that are right, of data that the file itself says has 32: a run like that is a limited one."""
    table = pq.read_table(next(system.rglob(f"statistics/{TASK}.parquet")))
    right = table.filter(pa.compute.equal(table.column("em"), 1.0)).slice(0, 5)
    change_statistics(system, lambda _: right)
    change(system, lambda content: content["tasks"][TASK].update(score=100.0, scores={}, n=5))
    assert reason(system) == f"it scored 5 of 32 examples of {TASK}, but its statistics have 5"


def test_a_stated_total_is_recomputed(system: Path) -> None:
    """One that is off by less than the reader's rounding passes there, and must not reach the board."""
    (path,) = system.rglob("results.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    scores = [task["score"] for task in content["tasks"].values()]
    content["total"]["score"] = content["decascore"] = sum(scores) + 0.05
    path.write_text(json.dumps(content), encoding="utf-8")
    (entry,) = audited(system).entries
    assert entry.total == pytest.approx(sum(scores), abs=1e-9)
    again = with_intervals(replace(entry, total=sum(scores) + 0.05), Evidence(system))
    assert again.total == pytest.approx(sum(scores), abs=1e-9)
    assert with_intervals(replace(entry, total=None), Evidence(system)).total is None


def test_an_easier_metric_under_the_signature_of_another_is_refused(tmp_path: Path) -> None:
    file = results("system-00", {"sst": 90.0})
    file["tasks"]["sst"] |= {"signature": METRICS["lfem"].signature}
    found = audited(write(tmp_path, [file]))
    assert found.refused[0].reason == "it scored sst by em, but states the signature of lfem"


def test_the_score_of_a_metric_is_its_headline(tmp_path: Path) -> None:
    file = results("system-00", {"sst": 90.0})
    file["tasks"]["sst"] |= {"headline": "nf1_empty_match"}
    found = audited(write(tmp_path, [file]))
    assert "but the score of em is em" in found.refused[0].reason


def test_another_version_of_a_metric_is_no_contradiction(tmp_path: Path) -> None:
    """Old results stay readable: what this version computes otherwise is stated, not refuted."""
    file = results("old", {"sst": 90.0})
    write(tmp_path, [file])
    (path,) = tmp_path.rglob("validation.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["tasks"]["sst"]["score"] = content["total"]["score"] = 91.0
    path.write_text(json.dumps(content), encoding="utf-8")
    found = audited(tmp_path)
    assert found.refused == () and found.entries[0].kind == "self-reported"
    assert "another version of the metric" in found.entries[0].tasks["sst"].check.detail


def test_a_metric_that_is_not_known_here_is_self_reported(tmp_path: Path) -> None:
    file = {**results("own", {}), "decascore": None}
    file["tasks"]["own"] = {
        **results("x", {"sst": 90.0})["tasks"]["sst"],
        "metric": "mine",
        "headline": "mine",
    }
    (entry,) = audited(write(tmp_path, [file])).entries
    assert (
        entry.tasks["own"].check.detail == "the metric mine is not known here, so nothing can be recomputed"
    )


def test_statistics_behind_a_link_out_of_the_submission_are_not_read(system: Path, tmp_path: Path) -> None:
    statistics = next(system.rglob("statistics"))
    statistics.rename(tmp_path / "elsewhere")
    statistics.symlink_to(tmp_path / "elsewhere")
    (entry,) = audited(system).entries
    assert entry.kind == "self-reported"


def test_a_small_file_of_endless_rows_is_not_unpacked(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decabench.leaderboard.audit._MOST_EXAMPLES", 31)
    assert "have 32 rows, which is too many to read" in reason(system)


def test_part_of_an_answer_right_in_every_row_is_refused(system: Path) -> None:
    """The same score came with an interval of nearly no width."""

    def spread(table: pa.Table) -> pa.Table:
        share = table.column("em").to_numpy().mean()
        values = np.full(len(table), share)
        return table.set_column(table.schema.get_field_index("em"), "em", pa.array(values))

    change_statistics(system, spread)
    assert (
        reason(system) == f"its statistics for {TASK} cannot come from em: em is no whole number in 32 rows"
    )


def test_rows_of_another_version_may_hold_what_these_may_not(system: Path) -> None:
    def half(table: pa.Table) -> pa.Table:
        values = np.full(len(table), 0.5)
        table = table.set_column(table.schema.get_field_index("em"), "em", pa.array(values))
        return table.replace_schema_metadata(None)

    change_statistics(system, half)
    change(system, lambda content: content["tasks"][TASK].update(signature="em|v:0", signatures={}))
    (entry,) = audited(system).entries
    assert (entry.tasks[TASK].check.kind, entry.tasks[TASK].check.detail) == ("self-reported", OTHER_VERSION)


@pytest.mark.parametrize(("key", "value"), [("name", "another"), ("date", "1999-01-01"), ("model_size", 7)])
def test_results_that_describe_another_submission_than_the_one_beside_them_are_refused(
    system: Path, key: str, value: object
) -> None:
    change(system, lambda content: content["submission"].update({key: value}))
    assert reason(system).startswith(f"its {key} is {value}, but submission.toml says ")


def test_another_wording_does_not_pose_as_the_original(system: Path) -> None:
    metadata = system / "system-00" / "submission.toml"
    text = metadata.read_text(encoding="utf-8")
    assert "[predictor]\n" in text
    metadata.write_text(text.replace("[predictor]\n", "[predictor]\nvariant = 1\n"), encoding="utf-8")
    assert reason(system) == "its variant is nothing, but submission.toml says 1: evaluate again"
    metadata.write_text("[", encoding="utf-8")
    assert reason(system).startswith("its submission.toml cannot be read: ")


def test_a_file_that_was_written_to_has_another_digest_whatever_its_time_and_size_say(tmp_path: Path) -> None:
    path, digests = tmp_path / "answers", FileDigests()
    path.write_bytes(b"mine")
    os.utime(path, ns=(1, 1))
    before = path.stat()
    assert digests(path) == f"sha256:{hashlib.sha256(b'mine').hexdigest()}" == digests(path)
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # clocks of file systems tick
        path.write_bytes(b"your")
        os.utime(path, ns=(1, 1))
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )
    assert digests(path) == f"sha256:{hashlib.sha256(b'your').hexdigest()}"


def test_threads_change_nothing(made_up: Path, home: Path) -> None:
    read = read_submissions(made_up)
    one, four = (audit(read, Evidence(made_up), made_up, home, threads=threads) for threads in (1, 4))
    assert one == four and len(one.entries) > 3


@pytest.mark.parametrize(("column", "value"), [("squares", 1e308), ("x", 1e200), ("rank_y", -1e200)])
def test_numbers_beyond_floats_are_refused_and_not_the_end_of_the_board(
    tmp_path: Path, column: str, value: float
) -> None:
    """Sums or squares of such statistics ended the build for every submission, as only contradictions were caught."""
    task = "sick.relatedness"
    file = results("system-00", {"sst": 90.0})
    file["tasks"][task] = {**scored(task, 1.0), "metric": "relatedness", "headline": "mse"}
    file["tasks"][task]["signature"] = METRICS["relatedness"].signature
    other = results("system-01", {"sst": 80.0})
    write(tmp_path, [file, other])

    def damage(table: pa.Table) -> pa.Table:
        numbers = [value] * table.num_rows
        return table.set_column(table.schema.get_field_index(column), column, pa.array(numbers))

    change_statistics(tmp_path, damage, task)
    found = audited(tmp_path)
    assert [entry.name for entry in found.entries] == ["system-01"]
    (refusal,) = found.refused
    assert refusal.reason.startswith(
        f"its statistics for {task} {'give no' if column == 'squares' else 'cannot come from'} "
    )


def test_an_error_of_reading_may_name_no_file(tmp_path: Path) -> None:
    """Those of `read` do not, and ended the board."""
    assert (
        refusal_reason(OSError(5, "Input/output error"), tmp_path)
        == "a file cannot be read: Input/output error"
    )
    error = PermissionError(13, "Permission denied", str(tmp_path / "a" / "b.jsonl"))
    assert refusal_reason(error, tmp_path) == "a/b.jsonl cannot be read: Permission denied"
