"""Scores as they are written: a task that is scored again replaces itself, and leaves the others that hold."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import StorageError
from decabench.scoring import ScoringOptions, record_scores, score_submission
from decabench.scoring.manifest import check_manifest
from decabench.scoring.record import Recorded
from decabench.submission import MANIFEST
from decabench.tasks import DECATHLON, Store, Suite

TASKS = ("squad", "sst", "woz.en", "schema")


def score(folder: Path, home: Path, output: Path | None = None, **options: Any) -> Recorded:
    chosen = ScoringOptions(home=home, **options)
    target = output or folder / "results" / "validation"
    return record_scores(folder, target, *score_submission(folder, chosen), chosen)


def content(folder: Path) -> dict[str, bytes]:
    """Every file in the results and the manifest."""
    paths = (path for path in [*(folder / "results").rglob("*"), folder / MANIFEST] if path.is_file())
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


def test_one_task_of_ten_is_replaced_and_the_bytes_are_those_of_all_ten(ten: Path, home: Path) -> None:
    before = content(ten)
    recorded = score(ten, home, tasks=["sst"])
    assert set(recorded.kept) == set(DECATHLON.tasks) - {"sst"} and not recorded.left_out
    assert recorded.results.decascore is not None and recorded.results.interval is not None
    assert content(ten) == before
    assert len(before) == 12  # results.json, ten files of statistics and the manifest
    assert check_manifest(ten) == []


def test_a_kept_result_of_an_earlier_version_gets_its_units_from_its_statistics(
    ten: Path, home: Path
) -> None:
    before = content(ten)["results/validation/results.json"]
    path = ten / "results" / "validation" / "results.json"
    old = json.loads(before)
    for name in ("iwslt.en.de", "squad"):
        del old["tasks"][name]["units"]
        old["tasks"][name]["interval"] = [0.0, 100.0]
    path.write_text(json.dumps(old))
    (ten / MANIFEST).unlink()
    recorded = score(ten, home, tasks=["sst"])
    now, first = recorded.results.tasks, json.loads(before)["tasks"]
    assert dict(now["iwslt.en.de"].units) == first["iwslt.en.de"]["units"]
    assert not now[
        "squad"
    ].units  # earlier statistics have paragraphs alone, and these do not say which level
    assert all(list(now[name].interval or ()) == first[name]["interval"] for name in ("iwslt.en.de", "squad"))


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


@pytest.mark.parametrize("link", ["results", "results/validation", "results/validation/statistics"])
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
        few / ".manifest.json.abcdef12.tmp",
        folder / ".results.json.abcdef12.tmp",
        folder / "statistics" / ".sst.parquet.abcdef12.tmp",
    ]
    for path in left:
        path.write_text("half")
    score(few, home)
    assert not any(path.exists() for path in left)
