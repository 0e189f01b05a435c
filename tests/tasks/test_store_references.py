"""References are columns of a split's file, and are always those of the data that its record describes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.errors import DataError
from decabench.metrics import Item
from decabench.tasks import (
    SPLITS,
    Example,
    SplitRecord,
    Store,
    get_task,
    number_units,
)


@pytest.fixture
def store(home: Path, tmp_path: Path) -> Store:
    """A copy of the sample's WikiSQL, whose examples have meta."""
    shutil.copytree(home / "tasks" / "wikisql", tmp_path / "home" / "tasks" / "wikisql")
    return Store(tmp_path / "home")


def expected(store: Store, task: str, split: str) -> list[Item]:
    return [Item(one.answers, one.id, one.units, one.meta) for one in store.examples(task, split)]


def test_they_are_the_examples_of_every_sample_task(home: Path) -> None:
    store = Store(home)
    for folder in sorted((home / "tasks").iterdir()):
        for split in SPLITS if folder.is_dir() else ():
            if split not in store.records(folder.name):
                continue
            found = store.references(folder.name, split)
            assert repr(list(found)) == repr(expected(store, folder.name, split))


def prepared(folder: Path, examples: list[Example]) -> Store:
    """Prepare SQuAD's validation split from made-up examples."""
    store = Store(folder)
    rows, fingerprint, units_digest = store.write("squad", "validation", examples)
    record = SplitRecord(rows, fingerprint, "user", "made up", False, (), 1, units_digest=units_digest)
    store.write_records(get_task("squad"), {"validation": record})
    return store


def made_up(rows: int) -> list[Example]:
    """Examples of which every paragraph name recurs in other articles, and articles come back."""
    return [
        Example(
            f"q{at}",
            "Who?",
            "",
            tuple(f"a{at + more}" for more in range(at % 3 + 1)),
            (f"article {at // 7 % 5}", f"paragraph {at % 4}"),
            {"at": at} if at % 2 else {},
        )
        for at in range(rows)
    ]


@pytest.mark.parametrize("levels", [1, 2])
def test_units_are_numbered_as_their_names_are(
    tmp_path: Path, levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decabench.tasks.store._BATCH", 16)
    examples = [replace(one, units=one.units[:levels]) for one in made_up(100)]
    found = prepared(tmp_path, examples).references("squad", "validation")
    assert found.unit_numbers().tolist() == number_units([one.units for one in examples]).tolist()


def test_numbers_of_units_are_in_order_of_first_examples_and_inner_ones_are_told_apart_by_outer_ones() -> (
    None
):
    labels = [("b", "x"), ("a", "x"), ("b", "y"), ("a", "x"), ("b", "x"), ("c", "z")]
    wanted = [[0, 0], [1, 1], [0, 2], [1, 1], [0, 0], [2, 3]]
    assert number_units(labels).tolist() == wanted
    assert number_units([(), (), ()]).tolist() == [[0], [1], [2]]


def test_data_without_a_digest_are_read_by_rows(store: Store) -> None:
    """As earlier versions prepared them; a home that this user may only read stays as it is."""
    records = store.records("wikisql")
    store.write_records(
        get_task("wikisql"), {split: replace(each, checked="") for split, each in records.items()}
    )
    assert not store.is_unaltered("wikisql", "validation")
    assert list(store.references("wikisql", "validation")) == expected(store, "wikisql", "validation")


def test_other_examples_under_the_same_record_are_refused(store: Store) -> None:
    shutil.copy(store.path("wikisql", "test"), store.path("wikisql", "validation"))
    with pytest.raises(DataError, match="wikisql, validation, does not match its record"):
        store.references("wikisql", "validation")
