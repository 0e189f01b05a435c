"""manifest.json: what it binds, and what contradicts it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from decabench.files import file_digest
from decabench.scoring import ScoringOptions, record_scores, score_submission
from decabench.scoring.manifest import InvalidManifestError, check_manifest, read_manifest
from decabench.submission import MANIFEST


def score(folder: Path, home: Path, **options: object) -> None:
    chosen = ScoringOptions(home=home, **options)  # type: ignore[arg-type]
    record_scores(folder, folder / "results" / "validation", *score_submission(folder, chosen), chosen)


@pytest.fixture
def submission(home: Path, submit: Callable[..., Path]) -> Path:
    folder = submit("majority", ["sst", "schema"], "s")
    score(folder, home)
    return folder


def faults(folder: Path) -> list[str]:
    return [str(fault) for fault in check_manifest(folder)]


def test_everything_is_bound(submission: Path, home: Path) -> None:
    manifest = read_manifest(submission)
    assert manifest is not None and list(manifest.results) == ["results/validation"]
    bound = manifest.results["results/validation"]
    folder = submission / "results" / "validation"
    results = json.loads((folder / "results.json").read_text())
    assert bound.results == file_digest(folder / "results.json") and bound.split == "validation"
    for name, task in bound.tasks.items():
        assert task.statistics == file_digest(folder / "statistics" / f"{name}.parquet")
        path = f"predictions/{name}.validation.jsonl"
        assert task.predictions == {path: file_digest(submission / path)}
        assert task.answers == results["tasks"][name]["predictions"]
        assert task.data == results["tasks"][name]["data"]["fingerprint"]
        assert task.signatures == results["tasks"][name]["signatures"]
        assert task.decabench == results["decabench"]
    assert sorted(bound.tasks) == ["schema", "sst"]
    assert faults(submission) == []
    before = (submission / MANIFEST).read_bytes()
    score(submission, home)
    assert (submission / MANIFEST).read_bytes() == before


def test_a_submission_without_a_manifest(submission: Path) -> None:
    (submission / MANIFEST).unlink()
    assert read_manifest(submission) is None and faults(submission) == []


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "damage", "said"),
    [
        (
            "results/validation/results.json",
            lambda path: edit(path, '"empty": 0', '"empty": 1'),
            ["results/validation: its results.json is not the one whose digest is in manifest.json"],
        ),
        (
            "results/validation/results.json",
            lambda path: path.unlink(),
            ["results/validation: its results.json is missing, but manifest.json has its digest"],
        ),
        (
            "results/validation/statistics/sst.parquet",
            lambda path: path.write_bytes((path.parent / "schema.parquet").read_bytes()),
            ["results/validation: sst: its statistics are not those whose digest is in manifest.json"],
        ),
        (
            "results/validation/statistics/sst.parquet",
            lambda path: path.unlink(),
            ["results/validation: sst: its statistics are missing, but manifest.json has their digest"],
        ),
        (
            "results/validation/statistics/squad.parquet",
            lambda path: path.touch(),
            ["results/validation: squad: manifest.json does not mention its statistics"],
        ),
        (
            "predictions/sst.validation.jsonl",
            lambda path: edit(path, "positive", "negative"),
            [
                "results/validation: sst: predictions/sst.validation.jsonl has changed since it was scored",
            ],
        ),
        (
            "results/test/results.json",
            lambda path: (path.parent.mkdir(), path.touch()),
            ["results/test: manifest.json does not mention its results.json"],
        ),
        ("predictions/sst.validation.jsonl", lambda path: path.unlink(), []),
    ],
)
def test_contradictions(submission: Path, file: str, damage: Callable[[Path], None], said: list[str]) -> None:
    damage(submission / file)
    assert faults(submission) == said


def test_the_same_answers_in_another_order_are_no_contradiction(submission: Path) -> None:
    path = submission / "predictions" / "sst.validation.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    assert faults(submission) == []
    (submission / "predictions" / "schema.validation.jsonl").write_bytes(gzip.compress(b"not read as such"))
    assert len(faults(submission)) == 1


def test_a_manifest_that_differs_from_its_results(submission: Path) -> None:
    content = json.loads((submission / MANIFEST).read_text())
    tasks = content["results"]["results/validation"]["tasks"]
    tasks["sst"]["data"] = tasks["sst"]["answers"] = "sha256:" + "0" * 64
    tasks["schema"]["signatures"]["em"] = "em|v:0"
    del tasks["schema"]["statistics"]
    tasks["squad"] = {"data": "sha256:" + "0" * 64}
    (submission / MANIFEST).write_text(json.dumps(content))
    assert faults(submission) == [
        "results/validation: schema: results.json and manifest.json differ about the metrics behind it",
        "results/validation: squad: results.json has no result for it, but manifest.json mentions one",
        "results/validation: sst: results.json and manifest.json differ about the data behind it",
        "results/validation: sst: results.json and manifest.json differ about the answers behind it",
        "results/validation: schema: manifest.json does not mention its statistics",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ("[]", "its format is not"),
        ('{"format": "decabench.manifest/2"}', "its format is not"),
        ('{"format": "decabench.manifest/1"}', "Expected `object`, got `null`"),
        ("[" * 100_000, "nested too deeply"),
        (
            '{"results": {"../other": {"split": "test", "results": "sha256:0", "tasks": {}}}}',
            "not a path inside",
        ),
        ('{"results": {"/etc": {"split": "test", "results": "sha256:0", "tasks": {}}}}', "not a path inside"),
        ('{"results": {"results/a": {"split": "test", "results": "sha256:0", "tasks": {}}}}', "of a digest"),
        (
            '{"results": {"a": {"split": "test", "results": "sha256:%s", "tasks": {"../x": {"data": ""}}}}}'
            % ("0" * 64),
            "not a path inside",
        ),
        (
            '{"results": {"a": {"split": "test", "results": "sha256:%s", "tasks": {"a/b": {"data": ""}}}}}'
            % ("0" * 64),
            "cannot be the name of a task",
        ),
    ],
)
def test_what_is_not_a_manifest(submission: Path, text: str, said: str) -> None:
    if text.startswith('{"results"'):
        text = text.replace("{", '{"format": "decabench.manifest/1", "decabench": "0", ', 1)
    (submission / MANIFEST).write_text(text)
    with pytest.raises(InvalidManifestError, match=said):
        read_manifest(submission)
    (fault,) = check_manifest(submission)
    assert said.replace("\\", "") in str(fault)


def test_links_out_of_the_submission_are_not_followed(submission: Path, tmp_path: Path) -> None:
    path = submission / "results" / "validation" / "statistics" / "sst.parquet"
    path.rename(tmp_path / "sst.parquet")
    path.symlink_to(tmp_path / "sst.parquet")
    assert faults(submission) == [
        "results/validation: sst: its statistics are missing, but manifest.json has their digest"
    ]
    (submission / MANIFEST).rename(tmp_path / MANIFEST)
    (submission / MANIFEST).symlink_to(tmp_path / MANIFEST)
    with pytest.raises(InvalidManifestError, match="not a regular file of the submission"):
        read_manifest(submission)
