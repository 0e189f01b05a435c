"""The bundled sample: small, whole, and every task's origin and terms told."""

from __future__ import annotations

import pytest

from decabench.tasks.preparation import SAMPLE_FOLDER, sample_note, sample_sources
from decabench.tasks.registry import TASKS

STAND_INS = ("iwslt.en.de", "cnn_dailymail")


def test_it_is_small() -> None:
    size = sum(path.stat().st_size for path in SAMPLE_FOLDER.rglob("*") if path.is_file())
    assert 0 < size < 1_500_000


def test_folders_are_the_tasks() -> None:
    assert {path.name for path in SAMPLE_FOLDER.iterdir() if path.is_dir()} == set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_source_and_licence_are_told(name: str) -> None:
    told = sample_sources()[name]
    assert set(told) <= {"source", "licence", "note"}
    assert len(told["source"]) > 20
    assert len(told["licence"]) > 10


def test_no_task_is_told_of_that_is_not_there() -> None:
    assert set(sample_sources()) == set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_stand_ins_have_a_note(name: str) -> None:
    assert sample_note(name).startswith("A stand-in: ") == (name in STAND_INS)
    assert bool(sample_note(name)) == (name in STAND_INS)


def test_texts_of_licences_are_there() -> None:
    text = (SAMPLE_FOLDER / "LICENSES.md").read_text(encoding="utf-8")
    for told in sample_sources().values():
        if "LICENSES.md" in told["licence"]:
            owner = told["licence"].split("Copyright (c) ")[1].split(";")[0]
            assert owner in text
