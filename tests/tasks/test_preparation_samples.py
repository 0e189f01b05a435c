"""The bundled sample: small, whole, and with every task's origin and terms."""

from __future__ import annotations

import pytest

from decabench.tasks.preparation import SAMPLE_FOLDER, sample_note, sample_sources
from decabench.tasks.registry import TASKS
from decabench.tasks.suites.decathlon import DECATHLON

STAND_INS = ("iwslt.en.de", "cnn_dailymail")


def test_it_is_small() -> None:
    size = sum(path.stat().st_size for path in SAMPLE_FOLDER.rglob("*") if path.is_file())
    assert 0 < size < 1_500_000


def test_folders_are_the_tasks() -> None:
    folders = {path.name for path in SAMPLE_FOLDER.iterdir() if path.is_dir()}
    assert folders == set(sample_sources()) <= {task.files_folder for task in TASKS.values()}
    assert folders >= set(DECATHLON.tasks)


@pytest.mark.parametrize("name", sample_sources())
def test_source_and_licence_are_there(name: str) -> None:
    source = sample_sources()[name]
    assert set(source) <= {"source", "licence", "note"}
    assert len(source["source"]) > 20
    assert len(source["licence"]) > 10


def test_texts_that_may_not_be_passed_on_are_not_there() -> None:
    """A stand-in, or rows of the decathlon's SST, which are single sentences, are the exceptions."""
    withheld = {
        task.files_folder for task in TASKS.values() if task.withhold_texts or not task.redistributable
    }
    assert withheld & set(sample_sources()) == {*STAND_INS, "sst"}


@pytest.mark.parametrize("name", sample_sources())
def test_stand_ins_have_a_note(name: str) -> None:
    assert sample_note(name).startswith("A stand-in: ") == (name in STAND_INS)
    assert bool(sample_note(name)) == (name in STAND_INS)


def test_texts_of_licences_are_there() -> None:
    text = (SAMPLE_FOLDER / "LICENSES.md").read_text(encoding="utf-8")
    for source in sample_sources().values():
        if "LICENSES.md" in source["licence"]:
            owner = source["licence"].split("Copyright (c) ")[1].split(";")[0]
            assert owner in text
