from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import decabench
from decabench.errors import DataError, MissingDataError, UnknownNameError
from decabench.metrics import Item
from decabench.tasks import SPLITS, Example, SplitRecord, Store, get_task, load, number_units
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import TASKS, known_tasks

# Prepared splits on disk: data is read back unchanged, damage is reported, and no split is incomplete.

RECORD = SplitRecord(
    rows=2,
    fingerprint="sha256:0",
    origin="mirror",
    source="upstream csv",
    verified=True,
    files=({"name": "a", "size": 3},),
    version=1,
    note="other data than the task's",
)
EXAMPLES = [
    Example("a", "Wo? \N{PILE OF POO}", "Müller\u2028\n\t\x00 \ufb01", ("ja", "", "nein\n"), ("g",)),
    Example(
        "b", "q", "", ("x",), ("",), {"sql": {"conds": [[0, 1, 2.5], [1, 0, "ü"]], "none": None}, "on": True}
    ),
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def write_sst(store: Store, examples: list[Example] = EXAMPLES) -> str:
    """Write a split of `sst` and its record, and return its fingerprint."""
    rows, fingerprint, units = store.write("sst", "test", examples)
    record = replace(RECORD, rows=rows, fingerprint=fingerprint, units_digest=units)
    store.write_records(TASKS["sst"], {"test": record})
    return fingerprint


def names(store: Store) -> list[str]:
    """Return the files in the task's folder, including hidden files."""
    folder = store.folder("sst")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_fingerprint_is_the_digest_of_the_triples(store: Store) -> None:
    examples = [
        Example("a", "q", "", ("x", "y"), ("g",), {"z": 1, "a": "ü"}),
        Example("b", "q", 'c"', ("x",), ("g",)),
    ]
    lines = '["a","q","",["x","y"],"g",{"a":"ü","z":1}]\n["b","q","c\\"",["x"],"g",{}]\n'
    assert write_sst(store, examples) == f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"question": "other"},
        {"context": "other"},
        {"answers": ("x", "y")},
        {"answers": ("y", "x", "x")},
        {"units": ("other",)},
        {"meta": {"a": 2}},
    ],
    ids=lambda change: "-".join(change),
)
def test_fingerprint_sees_every_field(store: Store, change: dict[str, Any]) -> None:
    example = Example("a", "q", "c", ("x", "x", "y"), ("g",), {"a": 1})
    assert write_sst(store, [example]) != write_sst(store, [replace(example, **change)])


GOOD = Example("a", "q", "c", ("x",), ("g",))


@pytest.mark.parametrize(
    ("examples", "sentence"),
    [
        ([GOOD, replace(GOOD, id="b"), GOOD], r"examples 0 and 2 \(counted from 0\) have the same id"),
        ([], "has no examples"),
        ([replace(GOOD, answers=())], "example 0: 'answers' must contain"),
        ([GOOD, replace(GOOD, id="b", answers=("x", None))], "example 1: 'answers' must contain"),  # type: ignore[arg-type]
        ([replace(GOOD, id="")], "example 0: 'id' and 'question' must be non-empty"),
        ([replace(GOOD, question="")], "example 0: 'id' and 'question' must be"),
        ([replace(GOOD, context=None)], "example 0: every field must be valid Unicode text"),  # type: ignore[arg-type]
        (
            [GOOD, replace(GOOD, id="b", units=("a", None))],
            "example 1: every field must be valid Unicode text",
        ),  # type: ignore[arg-type]
        (
            [replace(GOOD, units=())],
            r"example 0: 'units' must contain one or more strings, .* \('article', 'paragraph'\)",
        ),
        ([replace(GOOD, units="g")], "example 0: 'units' must contain one or more strings, outermost first"),  # type: ignore[arg-type]
        (
            [GOOD, replace(GOOD, id="b", units=("g", "h"))],
            "all examples must have the same number of units, but example 1 has 2",
        ),
        ([replace(GOOD, id="\ud800")], "example 0: every field must be valid Unicode text"),
    ],
)
def test_bad_examples_leave_nothing_behind(store: Store, examples: list[Example], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        store.write("sst", "test", examples)
    assert names(store) == []


def test_an_error_in_the_middle_leaves_the_old_file(store: Store) -> None:
    write_sst(store)
    before = store.path("sst", "test").read_bytes()

    def broken() -> Iterator[Example]:
        yield from (Example(str(number), "q", "c", ("x",), ("g",)) for number in range(1_500))
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        store.write("sst", "test", broken())
    assert store.path("sst", "test").read_bytes() == before
    assert names(store) == ["task.json", "test.parquet"]
    assert list(store.examples("sst", "test")) == EXAMPLES


def test_what_is_not_prepared_names_the_command(store: Store) -> None:
    assert store.records("sst") == {}
    with pytest.raises(
        MissingDataError, match=r"Run decabench prepare sst --home .*, with --mirror or --sample"
    ):
        store.ids("sst", "test")
    write_sst(store)
    store.path("sst", "test").unlink()
    with pytest.raises(MissingDataError, match="Run decabench prepare sst"):
        list(store.examples("sst", "test"))


@pytest.mark.parametrize("cut", [0, 4, 100, -1], ids=["empty", "start", "middle", "end"])
def test_damaged_parquet_names_the_command(store: Store, cut: int) -> None:
    write_sst(store)
    path = store.path("sst", "test")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(
        DataError,
        match=r"test split of sst is damaged .*\. Run decabench prepare sst --home .*, and add --force ",
    ):
        list(store.examples("sst", "test"))


def test_advice_for_a_task_of_ones_own(own_task: Callable[..., Path], tmp_path: Path) -> None:
    file, store = own_task(["one"]), Store(tmp_path / "home")
    own = known_tasks([file])["own"]
    with pytest.raises(MissingDataError, match=r'own has no test split \(.*test = "FILE" under \[files\] in'):
        store.require([own], "test")
    with pytest.raises(
        MissingDataError,
        match=rf"Run decabench prepare own --include {re.escape(str(file))} --home {re.escape(str(store.home))}\.$",
    ):
        store.require([own], "train")
    with pytest.raises(
        MissingDataError, match=rf"prepare own sst --include {re.escape(str(file))} --home .*, with --mirror"
    ):
        store.require([own, "sst"], "train")


# References are columns in a split's file, and always match the data in its record.


@pytest.fixture
def wikisql(home: Path, tmp_path: Path) -> Store:
    """A copy of the sample's WikiSQL, whose examples have metadata."""
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
    """Return examples whose paragraph names repeat in other articles, and whose articles are split up."""
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


def test_other_examples_under_the_same_record_are_refused(wikisql: Store) -> None:
    shutil.copy(wikisql.path("wikisql", "test"), wikisql.path("wikisql", "validation"))
    with pytest.raises(DataError, match="validation split of wikisql has changed since it was prepared"):
        wikisql.references("wikisql", "validation")


# Prepared data as a `datasets.Dataset`.


@pytest.fixture
def copied(home, tmp_path):
    """A copy of the sample of SST, which a test may change."""
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
        ("squad", "validation", MissingDataError, "The validation split of squad is not prepared"),
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
