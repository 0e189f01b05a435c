"""A run neither writes nor removes anything through a link that leads out of the submission's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from decabench.errors import StorageError
from decabench.scoring import ScoringOptions, score_submission, write_results
from decabench.submission import find_predictions


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def scored(home: Path, submit: Callable[..., Path]) -> Path:
    folder = submit("majority", ["sst", "schema"], "s")
    options = ScoringOptions(home=home)
    write_results(folder, folder / "results" / "validation", *score_submission(folder, options), options)
    return folder


@pytest.mark.parametrize(
    "link",
    [
        "results",
        "results/validation",
        "results/validation/statistics",
        "results/validation/examples",
        "predictions",
        "journal",
        "variants",
    ],
)
def test_folders_that_are_links(scored: Path, tmp_path: Path, submit: Callable[..., Path], link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (scored / link).mkdir(exist_ok=True)
    shutil.move(scored / link, elsewhere)
    (scored / link).symlink_to(elsewhere)
    (elsewhere / "mine.jsonl").write_text("mine")
    before = contents(elsewhere)
    with pytest.raises(StorageError, match="a link that leads out of"):
        submit("majority", ["sst"], "s")
    with pytest.raises(StorageError, match="a link that leads out of"):
        submit("random", ["sst"], "s")
    assert contents(elsewhere) == before


def test_a_journal_that_is_a_link(scored: Path, tmp_path: Path, submit: Callable[..., Path]) -> None:
    """It would be appended to."""
    journal = next((scored / "journal").glob("sst*.jsonl"))
    shutil.move(journal, tmp_path / "mine.jsonl")
    journal.symlink_to(tmp_path / "mine.jsonl")
    before = (tmp_path / "mine.jsonl").read_bytes()
    with pytest.raises(StorageError, match="a link that leads out of"):
        submit("majority", ["sst"], "s")
    assert (tmp_path / "mine.jsonl").read_bytes() == before


def test_a_link_that_stays_inside_is_fine(scored: Path, submit: Callable[..., Path]) -> None:
    (scored / "predictions").rename(scored / "answers")
    (scored / "predictions").symlink_to("answers")
    submit("majority", ["sst", "schema"], "s")
    assert sorted(path.name for path in (scored / "answers").iterdir()) == [
        "schema.validation.jsonl",
        "sst.validation.jsonl",
    ]


def test_what_rests_on_the_old_answers_goes_with_them(scored: Path, submit: Callable[..., Path]) -> None:
    before = contents(scored / "results") | contents(scored / "predictions")
    submit("majority", ["sst"], "s")  # the same answers
    assert contents(scored / "results") | contents(scored / "predictions") == before
    submit("random", ["sst"], "s")
    assert not (scored / "results").exists()
    assert list(find_predictions(scored)[0]) == [("sst", "validation")]
