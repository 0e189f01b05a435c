"""What verify must find: nothing on untouched files, and the right name for every kind of change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from decabench.errors import MissingDataError
from decabench.metrics import METRICS
from decabench.scoring.evaluator import ScoringOptions, evaluate, score_submission
from decabench.scoring.record import record_scores
from decabench.scoring.results import read_results_file, write_results_file
from decabench.scoring.verification import (
    VerifiedResults,
    results_files,
    submission_differences,
    verify,
    verify_file,
)
from decabench.submission import MANIFEST, withhold
from decabench.tasks import DECATHLON


@pytest.fixture
def submission(home: Path, submit: Callable[..., Path]) -> Path:
    folder = submit("majority", ["sst", "schema"], "s")
    write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    return folder


def found(submission: Path, home: Path) -> list[str]:
    (path,) = results_files(submission)
    return [str(one) for one in verify(submission, path, home)]


def test_untouched_files_verify(submission, home):
    assert found(submission, home) == []


def test_a_changed_prediction_is_named_with_the_scores_that_rest_on_it(submission, home):
    path = submission / "predictions" / "sst.validation.jsonl"
    path.write_text(path.read_text().replace("positive", "negative", 1))
    said = found(submission, home)
    assert any(line.startswith("sst: predictions: the answers have changed") for line in said)
    assert any(line.startswith("sst: score: ") for line in said)
    assert not any(line.startswith("schema") for line in said)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("tasks", "sst", "score"), 99.0, "sst: score: the score was edited"),
        (("tasks", "sst", "scores", "em"), 99.0, "sst: scores.em: a score was edited"),
        (("tasks", "sst", "interval"), [0.0, 1.0], "sst: interval: the interval was edited"),
        (("tasks", "sst", "signature"), "em|v:0", "sst: signature: the metric is another version"),
        (
            ("tasks", "schema", "data", "fingerprint"),
            "sha256:0",
            "schema: data.fingerprint: the data or its labels",
        ),
        (("decascore",), 900.0, "decascore: the decaScore was edited"),
        (("total", "score"), 900.0, "total.score: the total was edited"),
        (("submission", "name"), "other", "submission.name: submission.toml has changed"),
        (("decabench",), "9.9", "decabench: scored by another version of decabench"),
        (("tasks", "sst", "empty"), 7, "sst: empty: the file was edited"),
        (
            ("tasks", "sst", "answers"),
            {"refused": 1},
            "sst: answers: the answers, or the rule, finish or context_kept of some lines",
        ),
        (("tasks", "sst", "ceiling"), 99.0, "sst: ceiling: the context_kept of some lines has changed"),
        (("tasks", "sst", "partial"), {"of": 9}, "sst: partial: submission.toml has changed"),
        (("tasks", "sst", "variants"), {"mean": 9}, "sst: variants: the answers to other wordings"),
        (("mine",), 1, "mine: the file was edited"),
    ],
)
def test_every_edit_is_named(submission, home, path, value, said):
    file = results_files(submission)[0]
    content = json.loads(file.read_text())
    at = content
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    file.write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    assert [line for line in found(submission, home) if line.startswith(said)]


def test_the_same_values_in_other_bytes(submission, home):
    file = results_files(submission)[0]
    file.write_text(json.dumps(json.loads(file.read_text())))
    assert found(submission, home) == [
        "results.json: its bytes were rewritten: the file says the same values, scoring gives other bytes"
    ]


def test_a_metric_of_another_version(submission, home, monkeypatch):
    import dataclasses

    from decabench import metrics

    newer = dataclasses.replace(metrics.METRICS["em"], signature="em|v:2")
    monkeypatch.setitem(metrics.METRICS, "em", newer)
    assert any(
        line.startswith("sst: signature: the metric is another version") for line in found(submission, home)
    )


def test_without_results(submission, tmp_path):
    with pytest.raises(MissingDataError, match="run decabench evaluate first"):
        results_files(tmp_path)


def test_results_beside_an_archive(tmp_path):
    path = tmp_path / "s.zip.results" / "test" / "results.json"
    path.parent.mkdir(parents=True)
    path.touch()
    (tmp_path / "s.zip").touch()
    assert results_files(tmp_path / "s.zip") == [path]


def test_tasks_without_answers_are_said_to_be_so_and_the_rest_is_still_checked(submission, home):
    """Nothing there was edited, but SST's answers may be passed on, and so have to be there."""
    (submission / "predictions" / "sst.validation.jsonl").unlink()
    assert found(submission, home) == ["sst: it cannot be verified: its answers are no longer there"]


def test_results_of_raw_answers_are_verified_as_such(submission, home):
    folder = submission / "results"
    write_results_file(folder / "validation-raw", evaluate(submission, home=home, answers="raw"))
    assert [verify(submission, path, home) for path in results_files(submission)] == [[], []]


# Submissions as evaluate leaves them, with statistics and a manifest

ANSWERED = ("iwslt.en.de", "cnn_dailymail", "sst", "schema")


@pytest.fixture
def recorded(home: Path, submit: Callable[..., Path]) -> Path:
    folder = submit("majority", ANSWERED, "recorded")
    score(folder, home)
    return folder


def score(folder: Path, home: Path, **more: object) -> None:
    options = ScoringOptions(home=home, **more)  # type: ignore[arg-type]
    record_scores(folder, folder / "results" / "validation", *score_submission(folder, options), options)


def verified(folder: Path, home: Path, **more: object) -> VerifiedResults:
    path = folder / "results" / "validation" / "results.json"
    return verify_file(folder, path, ScoringOptions(home=home, **more))  # type: ignore[arg-type]


def statuses(verification: VerifiedResults) -> dict[str, str]:
    return {name: check.status for name, check in verification.tasks.items()}


def test_every_task_has_a_status(recorded: Path, home: Path) -> None:
    found = verified(recorded, home)
    assert statuses(found) == dict.fromkeys(ANSWERED, "same")
    assert found.ok and found.verdict == "verified, the same bytes: 4 tasks"
    path = recorded / "predictions" / "schema.validation.jsonl"
    path.write_text(path.read_text().replace('"answer": "', '"answer": "the ', 1))
    found = verified(recorded, home)
    assert statuses(found) == {**dict.fromkeys(ANSWERED, "same"), "schema": "differs"}
    assert not found.ok and "schema differs" in found.verdict and "3 of 4 tasks the same" in found.verdict
    assert any("has changed since it was scored" in str(one) for one in found.differences)


def test_a_file_that_lacks_tasks_is_not_the_same_bytes(recorded: Path, home: Path) -> None:
    """What scoring one task alone left behind, before it kept the others."""
    results = evaluate(recorded, tasks=["sst"], home=home)
    write_results_file(recorded / "results" / "validation", results)
    (recorded / MANIFEST).unlink()
    found = verified(recorded, home)
    assert statuses(found) == {"sst": "same"} and not found.ok
    assert found.lacking == ("cnn_dailymail", "iwslt.en.de", "schema")
    assert found.verdict.startswith("not verified: 3 differences; the file lacks cnn_dailymail, iwslt.en.de")
    assert "schema: it is answered, but the file has no result for it" in map(
        str, verify(recorded, home=home)
    )


def test_withheld_answers_are_not_at_hand(recorded: Path, home: Path, submit: Callable[..., Path]) -> None:
    for task in ("iwslt.en.de", "cnn_dailymail"):
        withhold(recorded, task, "validation")
    score(recorded, home)
    found = verified(recorded, home)
    assert found.differences == [] and found.ok
    assert statuses(found) == {
        "iwslt.en.de": "not at hand",
        "cnn_dailymail": "not at hand",
        "sst": "same",
        "schema": "same",
    }
    assert found.verdict == "verified: 2 of 4 tasks the same, 2 not at hand (cnn_dailymail, iwslt.en.de)"
    assert found.tasks["iwslt.en.de"].note == "its statistics give its score"

    again = submit("majority", ("iwslt.en.de", "cnn_dailymail"), "again")
    found = verified(recorded, home, remade=again)
    assert set(statuses(found).values()) == {"same"} and found.ok
    other = submit("random", ("iwslt.en.de", "cnn_dailymail"), "other")
    found = verified(recorded, home, remade=other)
    assert statuses(found)["iwslt.en.de"] == "differs" and not found.ok
    said = [str(one) for one in found.differences]
    assert len(said) == 2 and all("answers are not the withheld ones; the first is" in one for one in said)


def test_without_digests_it_says_so(recorded: Path, home: Path) -> None:
    (recorded / "predictions" / "iwslt.en.de.validation.jsonl").unlink()
    found = verified(recorded, home)
    assert found.ok and "there are no digests of its answers" in found.tasks["iwslt.en.de"].note


def forge(folder: Path, task: str, score: float) -> None:
    path = folder / "results" / "validation" / "results.json"
    content = json.loads(path.read_text())
    content["total"]["score"] += score - content["tasks"][task]["score"]
    content["tasks"][task]["score"] = score
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("bound", [True, False])
def test_a_forged_score_without_answers_contradicts_its_statistics(
    recorded: Path, home: Path, bound: bool
) -> None:
    withhold(recorded, "cnn_dailymail", "validation")
    score(recorded, home)
    forge(recorded, "cnn_dailymail", 99.0)
    if not bound:
        (recorded / MANIFEST).unlink()
    found = verified(recorded, home)
    assert statuses(found)["cnn_dailymail"] == "differs" and not found.ok
    said = [str(one) for one in found.differences]
    assert any("its statistics give" in line and "results.json has 99.0000" in line for line in said)
    assert bound == any("is not the one whose digest is in manifest.json" in line for line in said)


def test_statistics_of_other_answers_contradict_the_manifest(recorded: Path, home: Path) -> None:
    folder = recorded / "results" / "validation" / "statistics"
    (folder / "sst.parquet").write_bytes((folder / "schema.parquet").read_bytes())
    found = verified(recorded, home)
    assert statuses(found)["sst"] == "differs" and statuses(found)["schema"] == "same"


def test_digests_of_other_answers(recorded: Path, home: Path, submit: Callable[..., Path]) -> None:
    withhold(recorded, "iwslt.en.de", "validation")
    path = withhold(submit("random", ["iwslt.en.de"], "other"), "iwslt.en.de", "validation")
    (recorded / "withheld" / path.name).write_bytes(path.read_bytes())
    found = verified(recorded, home)
    assert "are not those of the answers that were scored" in str(found.differences[0])
    assert statuses(found)["iwslt.en.de"] == "differs"


def test_if_nothing_is_at_hand_nothing_is_verified(home: Path, submit: Callable[..., Path]) -> None:
    folder = submit("majority", ["iwslt.en.de", "sst"], "s")
    score(folder, home, tasks=["iwslt.en.de"])
    withhold(folder, "iwslt.en.de", "validation")
    found = verified(folder, home)
    assert not found.ok and found.lacking == ("sst",)
    (folder / "predictions" / "sst.validation.jsonl").rename(folder / "predictions" / "sst.test.jsonl")
    found = verified(folder, home)
    assert found.verdict == "not verified: none of its answers are at hand (iwslt.en.de)"


def test_statistics_that_are_left_out_are_no_difference_if_the_answers_are_there(
    recorded: Path, home: Path
) -> None:
    (recorded / "results" / "validation" / "statistics" / "sst.parquet").unlink()
    found = verified(recorded, home)
    assert found.ok and statuses(found)["sst"] == "same"
    assert found.tasks["sst"].note == "by its answers; the statistics behind it are not in the submission"
    assert not found.tasks["schema"].note
    withhold(recorded, "iwslt.en.de", "validation")
    (recorded / "results" / "validation" / "statistics" / "iwslt.en.de.parquet").unlink()
    assert statuses(verified(recorded, home))["iwslt.en.de"] == "differs"  # nothing is left to verify it by


def test_left_out_statistics_hide_no_edited_score(recorded: Path, home: Path) -> None:
    (recorded / "results" / "validation" / "statistics" / "sst.parquet").unlink()
    path = recorded / "results" / "validation" / "results.json"
    content = json.loads(path.read_text())
    content["tasks"]["sst"]["score"] = 99.0
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    found = verified(recorded, home)
    assert not found.ok and statuses(found)["sst"] == "differs"


def test_an_archive_without_results_beside_it_says_to_unpack_it(recorded: Path, tmp_path: Path) -> None:
    archive = Path(shutil.make_archive(str(tmp_path / "answers"), "zip", recorded))
    with pytest.raises(MissingDataError, match=r"inside the archive is not read\. Unpack it"):
        results_files(archive)


def test_all_ten(home: Path, submit: Callable[..., Path]) -> None:
    folder = submit("first-choice", DECATHLON.tasks, "ten")
    score(folder, home)
    score(folder, home, tasks=["sst"])
    assert verified(folder, home).verdict == "verified, the same bytes: 10 tasks"


def test_digests_do_not_stand_in_for_answers_that_may_be_passed_on(recorded: Path, home: Path) -> None:
    withhold(recorded, "schema", "validation")
    found = verified(recorded, home)
    assert statuses(found)["schema"] == "differs" and not found.ok
    assert "may be passed on, so there is no reason to withhold them" in str(found.differences[0])


def test_every_score_is_recomputed_from_statistics(recorded: Path, home: Path) -> None:
    withhold(recorded, "cnn_dailymail", "validation")
    score(recorded, home)
    path = recorded / "results" / "validation" / "results.json"
    content = json.loads(path.read_text())
    scores, metric = content["tasks"]["cnn_dailymail"]["scores"], METRICS["rouge"]
    name = next(name for name in metric.score(dict.fromkeys(metric.columns, 1.0)) if name != metric.headline)
    scores[name] = 99.0
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    (recorded / MANIFEST).unlink()
    found = verified(recorded, home)
    assert statuses(found)["cnn_dailymail"] == "differs"
    assert any(f"its statistics give {name} " in str(one) for one in found.differences)


def test_results_are_held_against_submission_toml(recorded: Path, home: Path) -> None:
    path = recorded / "results" / "validation" / "results.json"
    assert submission_differences(read_results_file(path), recorded) == []
    toml = recorded / "submission.toml"
    toml.write_text(toml.read_text().replace("[predictor]\n", "[predictor]\nvariant = 1\n"))
    (said,) = submission_differences(read_results_file(path), recorded)
    assert said == "submission.toml says predictor.variant 1, results.json says nothing"
    assert any("submission.toml has changed" in str(one) for one in verified(recorded, home).differences)
    toml.write_text("[")
    assert "bad-toml" in submission_differences(read_results_file(path), recorded)[0]
    toml.unlink()
    assert submission_differences(read_results_file(path), recorded) == []
