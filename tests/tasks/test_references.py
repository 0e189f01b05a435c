"""References are read from columns of their own, and are always those of the data that its record describes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from decabench.errors import DataError, StorageError
from decabench.metrics import Item
from decabench.tasks import Store, read_references, references


@pytest.fixture
def store(home: Path, tmp_path: Path) -> Store:
    """A copy of the sample's WikiSQL, whose examples have meta."""
    shutil.copytree(home / "tasks" / "wikisql", tmp_path / "home" / "tasks" / "wikisql")
    return Store(tmp_path / "home")


def kept(store: Store) -> Path:
    return store.folder("wikisql") / "validation.references.parquet"


def expected(store: Store, task: str, split: str) -> list[Item]:
    return [Item(one.answers, one.id, one.units, one.meta) for one in store.examples(task, split)]


def test_they_are_the_examples_of_every_sample_task(home: Path) -> None:
    store = Store(home)
    for folder in sorted((home / "tasks").iterdir()):
        for split in references.SCORED_SPLITS if folder.is_dir() else ():
            if split not in store.records(folder.name):
                continue
            found = read_references(store, folder.name, split)
            assert repr(found) == repr(expected(store, folder.name, split))


def test_prepare_keeps_them_without_questions_and_contexts(store: Store) -> None:
    assert pq.read_schema(kept(store)).names == ["id", "answers", "units", "meta"]
    assert not (store.folder("wikisql") / "train.references.parquet").exists()


def test_they_alone_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    before = expected(store, "wikisql", "validation")
    monkeypatch.setattr(Store, "examples", None)
    assert read_references(store, "wikisql", "validation") == before


def test_data_prepared_before_is_checked_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(store).unlink()
    before = read_references(store, "wikisql", "validation")
    assert kept(store).exists()
    monkeypatch.setattr(Store, "examples", None)
    assert read_references(store, "wikisql", "validation") == before


@pytest.mark.parametrize("damage", ["cut", "flipped", "of another split", "without digests"])
def test_a_file_that_is_not_that_of_the_split_is_made_again(store: Store, damage: str) -> None:
    before, content = expected(store, "wikisql", "validation"), kept(store).read_bytes()
    if damage == "cut":
        kept(store).write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        middle = len(content) // 4
        kept(store).write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif damage == "of another split":
        shutil.copy(store.folder("wikisql") / "test.references.parquet", kept(store))
    else:
        table = pq.read_table(kept(store))
        pq.write_table(table.slice(1).replace_schema_metadata(None), kept(store))
    assert read_references(store, "wikisql", "validation") == before
    assert kept(store).read_bytes() == content


def test_other_examples_under_the_same_record_are_refused(store: Store) -> None:
    shutil.copy(store.path("wikisql", "test"), store.path("wikisql", "validation"))
    with pytest.raises(DataError, match="wikisql, validation, does not match its record"):
        read_references(store, "wikisql", "validation")


def test_another_record_of_the_same_examples_is_refused(store: Store) -> None:
    path = store.folder("wikisql") / "task.json"
    content = json.loads(path.read_text())
    content["splits"]["validation"]["units_digest"] = "sha256:0"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="wikisql, validation, does not match its record"):
        read_references(store, "wikisql", "validation")


def test_a_home_that_cannot_be_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise StorageError(f"{path} cannot be written")

    kept(store).unlink()
    monkeypatch.setattr(references, "atomic_file", refuse)
    assert read_references(store, "wikisql", "validation") == expected(store, "wikisql", "validation")
    assert not kept(store).exists()
