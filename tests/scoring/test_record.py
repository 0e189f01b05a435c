"""Scores as they are written: a task that is scored again replaces itself, and leaves the others that hold."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decabench.errors import DataError, StorageError
from decabench.files import file_digest
from decabench.scoring import (
    InvalidResultsError,
    ScoringOptions,
    read_results_file,
    record,
    record_scores,
    score_submission,
)
from decabench.scoring.manifest import check_manifest
from decabench.scoring.record import Recorded, drop_results, read_sample
from decabench.submission import MANIFEST, read_metadata
from decabench.tasks import DECATHLON, Store, Suite

TASKS = ("squad", "sst", "woz.en", "schema")


LOCK = ".decabench-manifest.json.recorded.tmp"


def score(folder: Path, home: Path, output: Path | None = None, **options: Any) -> Recorded:
    chosen = ScoringOptions(home=home, **options)
    target = output or folder / "results" / "validation"
    return record_scores(folder, target, *score_submission(folder, chosen), chosen)


def bind(folder: Path) -> None:
    """Let the manifest hold the results as they are: it says what belongs together, not who made it."""
    manifest = json.loads((folder / MANIFEST).read_text())
    held = manifest["results"]["results/validation"]
    held["results"] = file_digest(folder / "results" / "validation" / "results.json")
    for name, task in held["tasks"].items():
        task["statistics"] = file_digest(folder / "results" / "validation" / "statistics" / f"{name}.parquet")
    (folder / MANIFEST).write_text(json.dumps(manifest))


def content(folder: Path) -> dict[str, bytes]:
    """Every file in the results and the manifest, but temporary ones."""
    paths = (path for path in [*(folder / "results").rglob("[!.]*"), folder / MANIFEST] if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def ten(home: Path, submit: Callable[..., Path]) -> Path:
    folder = submit("random", DECATHLON.tasks, "ten")
    score(folder, home)
    return folder


@pytest.fixture
def few(home: Path, submit: Callable[..., Path]) -> Path:
    folder = submit("random", TASKS, "few")
    score(folder, home)
    return folder


def test_changed_answers_replace_their_task_alone(few: Path, home: Path) -> None:
    before = json.loads(content(few)["results/validation/results.json"])["tasks"]
    path = few / "predictions" / "sst.validation.jsonl"
    path.write_text(path.read_text().replace("positive", "negative"))
    recorded = score(few, home, tasks=["sst"])
    after = json.loads(content(few)["results/validation/results.json"])["tasks"]
    assert after["sst"]["predictions"] != before.pop("sst")["predictions"]
    assert {name: after[name] for name in before} == before
    assert recorded.results.total.tasks == 4 and check_manifest(few) == []
    whole = score(few, home)
    assert content(few)["results/validation/results.json"] == whole.results.to_json().encode()
    assert whole.results == recorded.results


@pytest.mark.parametrize("bound", [True, False])
def test_answers_that_changed_after_they_were_scored_no_longer_hold(
    few: Path, home: Path, bound: bool
) -> None:
    if not bound:
        (few / MANIFEST).unlink()
    path = few / "predictions" / "squad.validation.jsonl"
    lines = [{**json.loads(line), "answer": "x"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (few / "predictions" / "schema.validation.jsonl").unlink()
    recorded = score(few, home, tasks=["sst"])
    assert recorded.left_out == (
        "squad: its answers have changed",
        "schema: its answers are no longer there",
    )
    assert list(recorded.results.tasks) == ["sst", "woz.en"]
    left = sorted(path.name for path in (few / "results" / "validation" / "statistics").iterdir())
    assert left == ["sst.parquet", "woz.en.parquet"]
    assert check_manifest(few) == []


def test_answers_that_may_not_be_passed_on_keep_their_result(ten: Path, home: Path) -> None:
    before = content(ten)
    for task in ("iwslt.en.de", "cnn_dailymail"):
        (ten / "predictions" / f"{task}.validation.jsonl").unlink()
    assert score(ten, home, tasks=["sst"]).left_out == ()
    assert score(ten, home).kept == ("iwslt.en.de", "cnn_dailymail")
    after = content(ten)
    assert after["results/validation/results.json"] == before["results/validation/results.json"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda results: results.write_text("{"),
            "earlier results: the earlier results.json is damaged: it is not JSON",
        ),
        (
            lambda results: results.write_text(results.read_text().replace('"empty": 0', '"empty": 1')),
            "squad, woz.en, schema: its results.json is not the one whose digest is in manifest.json",
        ),
        (
            lambda results: shutil.copy(
                results.parent / "statistics" / "sst.parquet",
                results.parent / "statistics" / "schema.parquet",
            ),
            "schema: its statistics have",
        ),
        (
            lambda results: (results.parent / "statistics" / "schema.parquet").unlink(),
            "schema: its statistics are missing",
        ),
    ],
)
def test_damaged_results_are_not_kept(
    few: Path, home: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(few / "results" / "validation" / "results.json")
    recorded = score(few, home, tasks=["sst"])
    assert len(recorded.left_out) == 1 and recorded.left_out[0].startswith(said)
    assert check_manifest(few) == []


def test_a_score_that_its_statistics_do_not_give_is_not_kept(few: Path, home: Path) -> None:
    """Without the manifest, too: the statistics are read back and give the score."""
    (few / MANIFEST).unlink()
    path = few / "results" / "validation" / "results.json"
    text = json.loads(path.read_text())
    text["total"]["score"] += 90 - text["tasks"]["schema"]["score"]
    text["tasks"]["schema"]["score"] = 90.0
    path.write_text(json.dumps(text))
    recorded = score(few, home, tasks=["sst"])
    (said,) = recorded.left_out
    assert said.startswith("schema: its statistics give ") and said.endswith("results.json has 90.0000")
    assert list(recorded.results.tasks) == ["squad", "sst", "woz.en"]


def test_other_data_and_other_metrics_are_not_kept(
    few: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from decabench import metrics

    original = Store.records

    def records(store: Store, task: str) -> dict[str, Any]:
        found = original(store, task)
        if task == "squad":
            found["validation"] = dataclasses.replace(found["validation"], fingerprint="sha256:1")
        return found

    monkeypatch.setattr(Store, "records", records)
    newer = dataclasses.replace(metrics.METRICS["joint_goal_em"], signature="other|v:2")
    monkeypatch.setitem(metrics.METRICS, "joint_goal_em", newer)
    recorded = score(few, home, tasks=["sst"])
    assert recorded.left_out == (
        "squad: its data has changed",
        "woz.en: it was scored by another version of joint_goal_em",
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"answers": "raw"}, "for another kind of answers"),
        ({"suite": Suite("two", "Two", ("sst", "schema"), "mean", "score")}, "for another suite"),
    ],
)
def test_results_of_another_kind_are_replaced(
    few: Path, home: Path, change: dict[str, Any], said: str
) -> None:
    recorded = score(few, home, tasks=["sst"], **change)
    (sentence,) = recorded.left_out
    assert sentence.startswith("squad, woz.en, schema: ") and said in sentence
    assert list(recorded.results.tasks) == ["sst"]


def test_results_of_another_submission_are_replaced(
    few: Path, home: Path, tmp_path: Path, submit: Callable[..., Path]
) -> None:
    score(few, home, tmp_path / "out")
    recorded = score(submit("majority", ["sst"]), home, tmp_path / "out")
    assert "for another submission" in recorded.left_out[0]
    assert recorded.results.submission["name"] == "majority" and list(recorded.results.tasks) == ["sst"]


def test_an_archive_has_its_manifest_beside_it(few: Path, home: Path, tmp_path: Path) -> None:
    shutil.rmtree(few / "results")
    (few / MANIFEST).unlink()
    archive = Path(shutil.make_archive(str(tmp_path / "few"), "zip", few))
    folder = tmp_path / "few.zip.results"
    score(archive, home, folder / "validation")
    assert score(archive, home, folder / "validation", tasks=["sst"]).left_out == ()
    assert (folder / MANIFEST).exists() and check_manifest(folder) == []
    (folder / "validation" / "statistics" / "sst.parquet").unlink()
    assert len(check_manifest(folder)) == 1


def test_the_results_of_other_splits_stay_bound(few: Path, home: Path) -> None:
    shutil.copytree(few / "results" / "validation", few / "results" / "validation-raw")
    (few / MANIFEST).unlink()
    score(few, home)
    assert check_manifest(few) == []
    (few / "results" / "validation-raw" / "statistics" / "sst.parquet").unlink()
    score(few, home, tasks=["sst"])
    (fault,) = check_manifest(few)
    assert fault.folder == "results/validation-raw" and fault.task == "sst"


@pytest.mark.parametrize(
    "link", ["results", "results/validation", "results/validation/statistics", "results/validation/examples"]
)
def test_nothing_is_written_through_a_link(few: Path, home: Path, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(few / link, elsewhere)
    (few / link).symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    with pytest.raises(StorageError, match="a link that leads out of"):
        score(few, home)
    assert {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()} == before


def test_a_link_in_place_of_a_file_is_replaced(few: Path, home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "mine.json"
    elsewhere.write_text("mine")
    path = few / "results" / "validation" / "results.json"
    path.unlink()
    path.symlink_to(elsewhere)
    (few / MANIFEST).unlink()
    score(few, home)
    assert elsewhere.read_text() == "mine" and not path.is_symlink()


def test_what_a_killed_run_left_is_swept(few: Path, home: Path) -> None:
    folder = few / "results" / "validation"
    left = [
        few / ".decabench-manifest.json.abcdef12.tmp",
        folder / ".decabench-results.json.abcdef12.tmp",
        folder / "statistics" / ".decabench-sst.parquet.abcdef12.tmp",
    ]
    for path in left:
        path.write_text("half")
    score(few, home)
    assert not any(path.exists() for path in left)


# Forgers


def forge(folder: Path, task: str = "squad", score: float = 100.0) -> None:
    """Let results and statistics of a task agree on a score that the answers did not earn."""
    path = folder / "results" / "validation" / "results.json"
    results = json.loads(path.read_text())
    found = results["tasks"][task]
    results["total"]["score"] += score - found["score"]
    found["scores"] = dict.fromkeys(found["scores"], score)
    found["score"], found["interval"] = score, [score, score]
    results["decascore"] = results["total"]["score"] if results["total"]["complete"] else None
    path.write_text(json.dumps(results))
    file = path.parent / "statistics" / f"{task}.parquet"
    table = pq.read_table(file)
    for name in set(table.column_names) - {"unit_1", "unit_2"}:
        column = pa.array([score / 100] * table.num_rows, pa.float64())
        table = table.set_column(table.column_names.index(name), name, column)
    pq.write_table(table, file)


def test_a_forged_result_without_a_manifest_is_not_laundered(few: Path, home: Path) -> None:
    before = content(few)
    forge(few)
    (few / MANIFEST).unlink()
    recorded = score(few, home, tasks=["sst"])
    assert set(recorded.again) == {"squad", "woz.en", "schema"} and not recorded.kept
    (said,) = recorded.left_out
    assert said.startswith("squad: the earlier results.json has 100.0000; scored again, it has ")
    assert content(few) == before


def test_what_can_be_neither_bound_nor_scored_again_is_left_out(
    few: Path, home: Path, tmp_path: Path
) -> None:
    forge(few)
    (few / MANIFEST).unlink()
    other = tmp_path / "home"
    shutil.copytree(home / "tasks" / "sst", other / "tasks" / "sst")
    recorded = score(few, other, tasks=["sst"])
    assert list(recorded.results.tasks) == ["sst"] and len(recorded.left_out) == 3
    assert all("this machine did not score it, and cannot do so now" in line for line in recorded.left_out)
    left = [path.name for path in (few / "results" / "validation" / "statistics").iterdir()]
    assert left == ["sst.parquet"]


def test_results_of_another_split_are_bound_as_stated_and_scored_again(few: Path, home: Path) -> None:
    forge(few)
    (few / MANIFEST).unlink()
    score(few, home, few / "results" / "validation-raw", answers="raw")
    tasks = json.loads((few / MANIFEST).read_text())["results"]["results/validation"]["tasks"]
    assert {task["basis"] for task in tasks.values()} == {"stated"}
    recorded = score(few, home, tasks=["sst"])
    assert "squad" in recorded.again and recorded.results.tasks["squad"].score != 100


@pytest.mark.parametrize("name", ["../../../../victim/precious", "a/b", "/etc/x", "..", ".", "", "a" * 300])
def test_names_of_tasks_lead_nowhere(few: Path, home: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim" / "precious.parquet"
    victim.parent.mkdir()
    victim.write_text("mine")
    path = few / "results" / "validation" / "results.json"
    results = json.loads(path.read_text())
    results["tasks"][name] = {
        **results["tasks"]["schema"],
        "status": "failed",
        "score": None,
        "interval": None,
        "scores": {},
    }
    path.write_text(json.dumps(results))
    (few / MANIFEST).unlink()
    with pytest.raises(InvalidResultsError, match="cannot be the name of a task"):
        read_results_file(path)
    recorded = score(few, home, tasks=["sst"])
    assert "cannot be the name of a task" in recorded.left_out[0]
    assert victim.read_text() == "mine" and list(recorded.results.tasks) == ["sst"]


def test_what_is_not_ours_is_not_removed(few: Path, home: Path, tmp_path: Path) -> None:
    other = tmp_path / "out" / "statistics" / "squad.parquet"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    score(few, home, tmp_path / "out", tasks=["sst"])
    assert other.read_text() == "mine"


class Killed(BaseException):
    """The end of a process that changes no more files."""


def killed_at_each_step(folder: Path, act: Callable[[Path], object]) -> Iterator[Path]:
    """Yield copies of a folder in which a process was killed before its first, second, … change to files."""
    for stop in range(1, 40):
        copy, steps = folder.with_name(f"killed-{stop}"), itertools.count(1)
        shutil.copytree(folder, copy)

        def dying(step: Callable[..., Any], stop: int = stop, steps: Iterator[int] = steps) -> Any:
            def call(path: Any, *given: Any) -> Any:
                if os.path.basename(path) != LOCK and next(steps) >= stop:
                    raise Killed
                return step(path, *given)

            return call

        with pytest.MonkeyPatch.context() as patch:
            for name in ("replace", "unlink"):
                patch.setattr(os, name, dying(getattr(os, name)))
            try:
                act(copy)
                break
            except Killed:
                pass
        yield copy
    assert stop > 1


@pytest.mark.parametrize("is_bound", [True, False])
def test_an_evaluation_killed_at_any_step_leaves_no_contradiction(
    few: Path, home: Path, is_bound: bool
) -> None:
    """The answers have changed since, so that neither results nor statistics are what they were."""
    for task in ("sst", "schema"):
        path = few / "predictions" / f"{task}.validation.jsonl"
        lines = [{**json.loads(line), "answer": "x"} for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if not is_bound:
        (few / MANIFEST).unlink()
    again = partial(score, home=home, tasks=["sst", "schema"])
    for folder in killed_at_each_step(few, again):
        path = folder / "results" / "validation" / "results.json"
        if (folder / MANIFEST).exists():
            # Killed before the first step: all is as it was, and the answers differ from it.
            assert all("has changed since it was scored" in fault.reason for fault in check_manifest(folder))
        elif path.exists():
            results = read_results_file(path)
            for name, result in results.tasks.items():
                read_sample(folder, path.parent, name, result)
        recorded = again(folder)
        assert check_manifest(folder) == [] and recorded.results.total.tasks == 4


@pytest.mark.parametrize("changed", [(), ("sst",), TASKS], ids=["none", "one", "all"])
@pytest.mark.parametrize("is_bound", [True, False])
def test_a_change_of_answers_killed_at_any_step_loses_no_other_results(
    few: Path, changed: Sequence[str], is_bound: bool
) -> None:
    """The manifest used to be removed first; without it, the next run removed the results of all tasks."""
    if not is_bound:
        (few / MANIFEST).unlink()
    info = read_metadata(few)[0]
    assert info is not None
    more = dataclasses.replace(info, data={**info.data, "other.validation": "sha256:1"})
    drop = partial(drop_results, changed={(name, "validation") for name in changed}, info=more)
    whole = few.with_name("whole")
    shutil.copytree(few, whole)
    drop(whole)
    expected, left = content(whole), {*TASKS} - {*changed}
    assert {path.stem for path in whole.rglob("*.parquet")} == left
    assert (MANIFEST in expected) == bool(is_bound and left)
    for folder in killed_at_each_step(few, drop):
        assert not is_bound or {fault.task for fault in check_manifest(folder)} <= {*changed}
        drop(folder)
        assert content(folder) == expected


@pytest.mark.parametrize("value", [1e308, 1.7e308])
def test_statistics_that_are_beyond_floats_are_a_fault_of_the_data(
    few: Path, home: Path, value: float
) -> None:
    """Their sum is no float, which used to end the command with an OverflowError."""
    folder = few / "results" / "validation"
    result = read_results_file(folder / "results.json").tasks["squad"]
    path = folder / "statistics" / "squad.parquet"
    table = pq.read_table(path)
    numbers = pa.array([value] * table.num_rows)
    pq.write_table(table.set_column(table.schema.get_field_index("nf1"), "nf1", numbers), path)
    with pytest.raises(DataError, match="its statistics give no score"):
        read_sample(few, folder, "squad", result)


def test_two_evaluations_at_a_time_keep_each_other_s_results(
    home: Path, submit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both used to read the earlier results before either had written, and one of the two was lost."""
    folder = submit("random", TASKS, "few")
    both, read = Barrier(2), record._read_earlier

    def read_together(*arguments: Any) -> Any:
        found = read(*arguments)
        with suppress(BrokenBarrierError):
            both.wait(timeout=1)
        return found

    monkeypatch.setattr(record, "_read_earlier", read_together)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: score(folder, home, tasks=[name]), ("sst", "schema")))
    results = read_results_file(folder / "results" / "validation" / "results.json")
    assert set(results.tasks) == {"sst", "schema"} and check_manifest(folder) == []
    assert not [path for path in folder.rglob(".*") if path.name.endswith(".tmp")]


@pytest.mark.skipif(sys.platform == "win32", reason="links need no rights on POSIX systems only")
def test_a_lock_behind_a_link_is_not_written(few: Path, home: Path, tmp_path: Path) -> None:
    (few / LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="behind a link that leads out of"):
        score(few, home, tasks=["sst"])
    assert not (tmp_path / "elsewhere").exists()
