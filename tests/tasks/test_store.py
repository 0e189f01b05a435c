"""Prepared splits on disk: what goes in comes out, damage is a sentence, nothing is half there."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError, MissingDataError
from decabench.tasks.example import Example
from decabench.tasks.registry import TASKS, known_tasks
from decabench.tasks.store import SplitRecord, Store

RECORD = SplitRecord(
    rows=2,
    fingerprint="sha256:0",
    origin="mirror",
    source="upstream csv",
    verified=True,
    files=({"name": "a", "size": 3},),
    version=1,
    note="a stand-in",
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


def write(store: Store, examples: list[Example] = EXAMPLES) -> str:
    """Writes a split of `sst` and its record; returns its fingerprint."""
    rows, fingerprint, units = store.write("sst", "test", examples)
    record = replace(RECORD, rows=rows, fingerprint=fingerprint, units_digest=units)
    store.write_records(TASKS["sst"], {"test": record})
    return fingerprint


def names(store: Store) -> list[str]:
    """Files of the task's folder, hidden ones too."""
    folder = store.folder("sst")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_fingerprint_is_the_digest_of_the_triples(store: Store) -> None:
    examples = [
        Example("a", "q", "", ("x", "y"), ("g",), {"z": 1, "a": "ü"}),
        Example("b", "q", 'c"', ("x",), ("g",)),
    ]
    lines = '["a","q","",["x","y"],"g",{"a":"ü","z":1}]\n["b","q","c\\"",["x"],"g",{}]\n'
    assert write(store, examples) == f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def test_fingerprints_are_those_of_single_lines(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was joined before it was digested, and whichever contexts repeat."""
    monkeypatch.setattr("decabench.tasks.store._FINGERPRINTED_AT_ONCE", 300)
    contexts = ["", "one", "one", "ü" * 200, "ü" * 200, "one", "", 'a "quoted" \\ text\n']
    examples = [
        Example(
            f"id{at}",
            "q",
            contexts[at % len(contexts)],
            ("a", f"{at}"),
            ("outer", f"ü{at // 3}"),
            {"n": at % 2},
        )
        for at in range(2_100)
    ]
    _, fingerprint, units = store.write("sst", "test", examples)
    lines, names_of_units = hashlib.sha256(), hashlib.sha256()
    for one in examples:
        inner = [one.id, one.question, one.context, list(one.answers), one.units[-1], dict(one.meta)]
        for digest, value in ((lines, inner), (names_of_units, list(one.units))):
            digest.update(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    assert fingerprint == f"sha256:{lines.hexdigest()}"
    assert units == f"sha256:{names_of_units.hexdigest()}"


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
    assert write(store, [example]) != write(store, [replace(example, **change)])


GOOD = Example("a", "q", "c", ("x",), ("g",))


@pytest.mark.parametrize(
    ("examples", "sentence"),
    [
        (
            [GOOD, replace(GOOD, id="b"), GOOD],
            r"the examples 0 and 2 \(counted from 0\) have the same id",
        ),
        ([], "has no examples"),
        ([replace(GOOD, answers=())], "example 0: its answers must be"),
        ([GOOD, replace(GOOD, id="b", answers=("x", None))], "example 1: its answers must be"),  # type: ignore[arg-type]
        ([replace(GOOD, id="")], "example 0: it needs an id"),
        ([replace(GOOD, id=7)], "example 0: it needs an id"),  # type: ignore[arg-type]
        ([replace(GOOD, question="")], "example 0: it needs an id and a question"),
        ([replace(GOOD, question=7)], "example 0: every field must be text"),  # type: ignore[arg-type]
        ([replace(GOOD, context=None)], "example 0: every field must be text"),  # type: ignore[arg-type]
        ([GOOD, replace(GOOD, id="b", units=("a", None))], "example 1: every field must be text"),  # type: ignore[arg-type]
        (
            [replace(GOOD, units=())],
            r"example 0: its units must be one or more texts, .* \('article', 'paragraph'\)",
        ),
        ([replace(GOOD, units="g")], "example 0: its units must be one or more texts, outermost first"),  # type: ignore[arg-type]
        (
            [GOOD, replace(GOOD, id="b", units=("g", "h"))],
            "example 1 has 2 units and the examples before it 1",
        ),
        ([replace(GOOD, context="\ud800")], "example 0: every field must be text"),
        ([replace(GOOD, id="\ud800")], "example 0: every field must be text"),
    ],
    ids=[
        "repeated id",
        "no examples",
        "no answers",
        "an answer of none",
        "empty id",
        "a number as id",
        "empty question",
        "a number as question",
        "no context",
        "a unit of none",
        "no units",
        "a text as units",
        "more units than before",
        "half a character",
        "half a character in the id",
    ],
)
def test_bad_examples_leave_nothing_behind(store: Store, examples: list[Example], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        store.write("sst", "test", examples)
    assert names(store) == []


def test_an_error_in_the_middle_leaves_the_old_file(store: Store) -> None:
    write(store)
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
    with pytest.raises(MissingDataError, match="run decabench prepare sst, with --mirror or --sample"):
        store.ids("sst", "test")
    write(store)
    store.path("sst", "test").unlink()
    with pytest.raises(MissingDataError, match="run decabench prepare sst"):
        list(store.examples("sst", "test"))


@pytest.mark.parametrize("cut", [0, 4, 100, -1], ids=["empty", "start", "middle", "end"])
def test_damaged_parquet_names_the_command(store: Store, cut: int) -> None:
    write(store)
    path = store.path("sst", "test")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(
        DataError, match=r"sst, test, is damaged .*: run decabench prepare sst, and add --force if"
    ):
        list(store.examples("sst", "test"))


def row(**changes: Any) -> dict[str, Any]:
    """A table of one row, as it is stored."""
    plain = {"id": "a", "question": "q", "context": "", "answers": ["x"], "units": ["a"], "meta": "{}"}
    return {name: [value] for name, value in {**plain, **changes}.items() if value is not ...}


def test_advice_for_a_task_of_ones_own(own_task: Callable[..., Path], tmp_path: Path) -> None:
    """It was advised to prepare splits that the task's file does not name, with --mirror or --sample."""
    file, store = own_task(["one"]), Store(tmp_path / "home")
    own = known_tasks([file])["own"]
    with pytest.raises(MissingDataError, match=r'own has no test split \(.*test = "FILE" under \[files\] in'):
        store.require([own], "test")
    with pytest.raises(
        MissingDataError, match=rf"run decabench prepare own --include {re.escape(str(file))}\.$"
    ):
        store.require([own], "train")
    with pytest.raises(
        MissingDataError, match=rf"prepare own sst --include {re.escape(str(file))}, with --mirror"
    ):
        store.require([own, "sst"], "train")
