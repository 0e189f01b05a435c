"""Finding results files; nothing that looks like one is dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decabench.leaderboard.read import LeaderboardError, read
from tests.leaderboard.small import NAMES, results, write


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize(
    "place",
    [
        "results.json",
        "one/results.json",
        "one/results-2026.json",
        "one/validation.results.json",
        "one/results/validation.json",
        "results/one.json",
        "one/results/validation/results.json",
        "group/one/results/validation/results.json",
    ],
)
def test_places(tmp_path: Path, place: str) -> None:
    put(tmp_path / place, json.dumps(results()))
    (found,) = read(tmp_path, NAMES).entries
    assert found.path == place


@pytest.mark.parametrize("place", ["one/other.json", ".hidden/results.json", "a/b/c/d/e/results.json"])
def test_other_places(tmp_path: Path, place: str) -> None:
    put(tmp_path / place, json.dumps(results()))
    assert read(tmp_path, NAMES).entries == ()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON: line 1, column 1"),
        ('{\n "a": }', "not JSON: line 2, column 7"),
        (b"\xff\xfe", "not UTF-8 text"),
        ("[]", "not a results file"),
        ("{}", "its format is None"),
        ('{"a": NaN}', "not JSON: NaN"),
        ('{"a": 1, "a": 2}', "not clear: a key stands twice"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON: a number too long"),
        ("[" * 200_000, "not a results file: nested too deeply"),
        ('{"format": "decabench.results/0"}', "its format is “decabench.results/0”"),
    ],
)
def test_unreadable_files_are_listed(tmp_path: Path, content: str | bytes, reason: str) -> None:
    put(tmp_path / "bad" / "results.json", content)
    write(tmp_path, [results("good")])
    found = read(tmp_path, NAMES)
    assert [entry.name for entry in found.entries] == ["good"]
    ((path, given),) = [(refused.path, refused.reason) for refused in found.unreadable]
    assert path == "bad/results.json"
    assert given.startswith(reason)


def test_a_dangling_link_is_listed(tmp_path: Path) -> None:
    (tmp_path / "results.json").symlink_to("nowhere")
    assert [refused.reason for refused in read(tmp_path, NAMES).unreadable] == ["not a regular file"]


def test_a_copy_beside_it_and_a_link_to_it_count_once(tmp_path: Path) -> None:
    text = json.dumps(results())
    put(tmp_path / "one" / "results.json", text)
    put(tmp_path / "one" / "results" / "validation.json", text)
    (tmp_path / "again").symlink_to("one")
    (tmp_path / "one" / "loop").symlink_to("..")
    assert len(read(tmp_path, NAMES).entries) == 1


def test_other_files_of_decabench_are_not_results(tmp_path: Path) -> None:
    put(tmp_path / "one" / "results" / "validation.times.json", '{"format": "decabench.times/1"}')
    found = read(tmp_path, NAMES)
    assert (found.entries, found.unreadable) == ((), ())


def test_submissions_that_are_not_evaluated_are_named(tmp_path: Path) -> None:
    put(tmp_path / "waiting" / "submission.toml", "")
    put(tmp_path / "done" / "submission.toml", "")
    put(tmp_path / "done" / "results" / "validation" / "results.json", json.dumps(results()))
    assert read(tmp_path, NAMES).not_evaluated == ("waiting",)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(LeaderboardError, match="There is no folder"):
        read(tmp_path / "nowhere", NAMES)
