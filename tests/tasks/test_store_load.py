"""Prepared data as a `datasets.Dataset`."""

import json
import shutil

import pytest

import decabench
from decabench.errors import DataError, MissingDataError, UnknownNameError
from decabench.tasks import load
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.store import Store


@pytest.fixture
def copied(home, tmp_path):
    """The sample of SST, in a home that a test may change."""
    shutil.copytree(home / "tasks" / "sst", tmp_path / "home" / "tasks" / "sst")
    return tmp_path / "home"


def test_load(copied, monkeypatch):
    import datasets

    monkeypatch.setenv("DECABENCH_HOME", str(copied))
    found = decabench.load("sst", "validation")
    assert isinstance(found, datasets.Dataset)
    assert found.column_names == ["id", "question", "context", "answers", "units", "meta"]
    rows = list(Store(copied).read("sst", "validation"))
    assert [{**row, "meta": json.loads(row["meta"])} for row in found] == rows


def test_data_that_was_prepared_anew_is_loaded_anew(own_task, tmp_path):
    from decabench.tasks.registry import load_included

    for answers in (["one", "two"], ["three", "four", "five"]):
        task = load_included(own_task(answers))[0]
        prepare_task(task, Request(tmp_path / "home", progress=False))
        found = load("own", "validation", tmp_path / "home")
        assert [row["answers"][0] for row in found] == answers


@pytest.mark.parametrize(
    ("task", "split", "error", "sentence"),
    [
        ("sts", "validation", UnknownNameError, "There is no task 'sts'. Did you mean sst"),
        ("sst", "dev", UnknownNameError, "There is no split 'dev'"),
        ("squad", "validation", MissingDataError, "squad, validation, is not prepared"),
    ],
)
def test_what_cannot_be_loaded(copied, task, split, error, sentence):
    with pytest.raises(error, match=sentence):
        load(task, split, copied)


def test_damaged_data(copied):
    path = copied / "tasks" / "sst" / "validation.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"validation\.parquet is damaged .*--force"):
        load("sst", "validation", copied)
    assert not list(copied.glob("arrow/*"))
