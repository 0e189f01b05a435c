"""The schemas accept every file of the repository and what the commands write now, and refuse what is no such file."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.sources import ROOT

jsonschema = pytest.importorskip("jsonschema")
SCHEMAS = ROOT / "docs" / "schemas" / "files"
SUBMISSIONS = ROOT / "submissions"


def validator(name: str) -> Any:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def faults(name: str, values: Iterable[tuple[object, Any]]) -> list[str]:
    """What a schema finds, with the name of the file."""
    check = validator(name)
    return [
        f"{where}: {error.json_path}: {error.message[:200]}"
        for where, value in values
        for error in check.iter_errors(value)
    ]


def test_every_results_file_and_manifest_of_the_repository() -> None:
    results = sorted(SUBMISSIONS.rglob("results.json"))
    manifests = sorted(SUBMISSIONS.rglob("manifest.json"))
    assert len(results) > 30
    assert faults("results-1", ((path, json.loads(path.read_text())) for path in results)) == []
    assert faults("manifest-1", ((path, json.loads(path.read_text())) for path in manifests)) == []


def test_every_submission_of_the_repository() -> None:
    paths = sorted(SUBMISSIONS.rglob("submission.toml"))
    assert len(paths) > 30
    assert faults("submission-1", ((path, tomllib.loads(path.read_text())) for path in paths)) == []
    lines = (
        (path, json.loads(line))
        for path in sorted(SUBMISSIONS.rglob("predictions/*.jsonl"))
        for line in path.read_text().splitlines()[:3]
    )
    assert faults("answer-line", lines) == []


def test_what_is_written_now(
    command: Callable[..., Any], home: Path, submit: Callable[..., Path], tmp_path: Path
) -> None:
    folders = [submit(name, ("sst", "schema", "wikisql")) for name in ("majority", "random")]
    for folder in folders:
        assert command("evaluate", folder, "--home", home).exit_code == 0
        results = json.loads((folder / "results" / "validation" / "results.json").read_text())
        assert faults("results-1", [(folder, results)]) == []
        assert faults("manifest-1", [(folder, json.loads((folder / "manifest.json").read_text()))]) == []
        for path in (folder / "results" / "validation" / "examples").iterdir():
            head, *rows = map(json.loads, gzip.open(path, "rt"))
            assert faults("examples-1", [(path, head)]) == []
            assert faults("example-line", ((path, row) for row in rows)) == []
    for more in ((), ("--suite", "decathlon")):
        compared = json.loads(command("compare", *folders, "--json", "--home", home, *more).stdout)
        assert faults("comparison-1", [("compare", compared)]) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("results-1", {"format": "decabench.results/2"}),
        ("submission-1", {"format": "decabench.submission/1"}),
        ("answer-line", {"id": "a", "answer": 1}),
        (
            "manifest-1",
            {"format": "decabench.manifest/1", "decabench": "1", "results": {"x": {"splitt": "test"}}},
        ),
    ],
)
def test_what_is_refused(name: str, value: Any) -> None:
    assert faults(name, [("given", value)])
