"""Readers: what stands in a file, row for row. What becomes of the rows: test_imports.py."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decabench.errors import DecabenchError, SubmissionError
from decabench.exchange.foreign_files import ForeignAnswer, Places, frame_answers, open_foreign

FILES = Path(__file__).with_name("files")


def sample(id_: Any, text: str, epoch: int = 1, **more: Any) -> Any:
    """A sample of an Inspect log, as far as it is read."""
    output = SimpleNamespace(completion=text, stop_reason=more.pop("stop_reason", "stop"))
    return SimpleNamespace(
        **{
            "id": id_,
            "epoch": epoch,
            "error": None,
            "output": output,
            "scores": None,
            "choices": None,
            **more,
        }
    )


@pytest.fixture
def log(monkeypatch, tmp_path):
    """Opens a log with these samples, through a stand-in for Inspect's package."""

    def call(samples: list[Any], **places: Any):
        module = ModuleType("inspect_ai.log")
        about = SimpleNamespace(model="made/up", task="sst", packages={"inspect_ai": "0.3.285"})
        found = SimpleNamespace(eval=about, status="success", samples=samples)
        module.read_eval_log = lambda path, resolve_attachments: found  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
        monkeypatch.setitem(sys.modules, "inspect_ai.log", module)
        path = tmp_path / "some.json"
        path.write_text("{}")
        return open_foreign(path, "inspect", Places(**places))

    return call


def test_completions_of_inspect(log):
    opened = log(
        [sample("a", "yes"), sample(7, "no", stop_reason="max_tokens"), sample("c", "", error="broke")]
    )
    assert list(opened.rows) == [ForeignAnswer(1, "a", "yes"), ForeignAnswer(2, "7", "no", finish="length")]
    assert opened.is_raw
    assert opened.facts["model"] == "made/up"


def test_answers_of_a_scorer_of_inspect(log):
    scored = {"match": SimpleNamespace(answer="yes")}
    opened = log([sample("a", "I say yes", scores=scored), sample("b", "no")], choice="match")
    first, second = opened.rows
    assert first == ForeignAnswer(1, "a", "yes", "I say yes")
    assert second.problem == (
        "missing-field",
        "the scorer 'match' gave 'b' no answer; it has scores of: none",
    )
    assert not opened.is_raw


def chosen(
    id_: Any, text: str, letters: str, scorer: str = "choice", options: Any = ("negative", "positive")
) -> Any:
    return sample(id_, text, scores={scorer: SimpleNamespace(answer=letters)}, choices=list(options))


def test_letters_of_multiple_choice_are_the_options_of_inspect(log):
    opened = log([chosen("a", "ANSWER: B", "B"), chosen("b", "no idea", ""), chosen("c", "A", "A")])
    assert list(opened.rows) == [
        ForeignAnswer(1, "a", "positive", "ANSWER: B"),
        ForeignAnswer(2, "b", "", "no idea"),  # the scorer found no letter
        ForeignAnswer(3, "c", "negative", "A"),
    ]
    assert not opened.is_raw


def test_letters_of_another_scorer_of_inspect(log):
    samples = [chosen("a", "It is B", "B", "mine"), chosen("b", "positive", "positive", "mine")]
    assert log(samples).is_raw  # the completions, unless the scorer is named
    assert [row.answer for row in log(samples, choice="mine").rows] == ["positive", "positive"]


def test_options_of_inspect_that_are_letters_or_many(log):
    samples = [chosen("a", "A", "A", options=["B", "A"]), chosen("b", "C", "C", options=["x", "y"])]
    assert [row.answer for row in log(samples).rows] == ["B", "C"]  # the scorer gives letters, always
    samples = [chosen("a", "A", "A", "mine", ["B", "A"])]
    assert [row.answer for row in log(samples, choice="mine").rows] == ["A"]
    many = [f"option {number}" for number in range(30)]
    found = log([chosen("a", "Z", "Z", options=many), chosen("b", "4", "4", options=many)])
    assert [row.answer for row in found.rows] == ["option 25", "option 29"]


def test_several_options_of_inspect_are_no_answer(log):
    (row,) = log([chosen("a", "ANSWER: A,B", "A, B")]).rows
    assert row.problem == (
        "bad-record",
        "the answer to 'a' is several options (A, B): an answer here is one text",
    )


def test_epochs_of_inspect_are_not_mixed(log):
    samples = [sample("a", "yes"), sample("a", "no", epoch=2)]
    with pytest.raises(SubmissionError, match=r"has 2 epochs: choose one with --epoch"):
        list(log(samples).rows)
    assert [row.answer for row in log(samples, epoch=2).rows] == ["no"]


def test_without_inspect_it_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    (tmp_path / "a.eval").touch()
    with pytest.raises(DecabenchError, match=r"inspect_ai is not installed: run pip install"):
        open_foreign(tmp_path / "a.eval", "inspect", Places())


def test_an_archive_that_unpacks_to_too_much_is_not_given_to_inspect(log, tmp_path, monkeypatch):
    monkeypatch.setattr("decabench.exchange.foreign_files.FILE_BYTES", 1 << 20)
    log([])
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/a.json", b" " * (2 << 20))
    with pytest.raises(SubmissionError, match="unpacks to 2,097,152 bytes; at most 1,048,576 are read"):
        open_foreign(tmp_path / "a.eval", "inspect", Places())


@pytest.mark.heavy
def test_a_real_log_of_inspect(tmp_path):
    """Written by Inspect 0.3.285, with its mock model."""
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed beside the project")
    opened = open_foreign(FILES / "sst.eval", "inspect", Places())
    rows = list(opened.rows)
    assert [row.id for row in rows] == [f"sst.validation.{number}" for number in range(6)]
    assert rows[1].answer == "The sentiment is **positive**"
    assert opened.facts["model"] == "mockllm/model"
    (tmp_path / "broken.eval").write_bytes((FILES / "sst.eval").read_bytes()[:9_000])
    with pytest.raises(SubmissionError, match="is not a log of Inspect"):
        open_foreign(tmp_path / "broken.eval", "inspect", Places())


@pytest.mark.heavy
def test_a_real_log_of_multiple_choice():
    """Written by Inspect 0.3.285, which showed the options to its mock model in another order than the data's."""
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed beside the project")
    opened = open_foreign(FILES / "sst_choice.eval", "inspect", Places())
    positive, negative = "positive", "negative"
    assert [row.answer for row in opened.rows] == [positive, negative, "", *[positive] * 3]
    assert not opened.is_raw


def test_a_large_file_is_not_read(monkeypatch, tmp_path):
    monkeypatch.setattr("decabench.exchange.foreign_files.FILE_BYTES", 10)
    (tmp_path / "a.csv").write_text("id,answer\na,b\n")
    with pytest.raises(SubmissionError, match="has 14 bytes; at most 10 are read"):
        open_foreign(tmp_path / "a.csv", "csv", Places())


def test_the_limit_of_other_csv_readers_stays(tmp_path):
    import csv

    before = csv.field_size_limit()
    (tmp_path / "a.csv").write_text(f"id,answer\na,{'b' * 200_000}\n")
    (row,) = open_foreign(tmp_path / "a.csv", "csv", Places()).rows
    assert len(row.answer or "") == 200_000
    assert csv.field_size_limit() == before


def test_numbers_are_answers_where_numbers_are_asked_for():
    np = pytest.importorskip("numpy")
    table = {"id": np.array([3, 4, 5]), "answer": np.array([1.5, 2.0, np.nan])}
    rows = list(frame_answers(table, Places(), numbers=True).rows)
    assert [(row.id, row.answer) for row in rows] == [("3", "1.5"), ("4", "2.0"), ("5", None)]
    assert all(row.answer is None for row in frame_answers(table, Places()).rows)


# What no file may do


@given(
    st.sampled_from(["squad", "csv", "text", "lm-eval"]),
    st.binary(max_size=400)
    | st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["doc", "id", "doc_id", "filter", "resps", "filtered_resps", "arguments"]),
                inner,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
)
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_file_gives_rows_or_a_sentence(tmp_path, format, content):
    path = tmp_path / "given"
    path.write_bytes(content)
    try:
        rows = list(open_foreign(path, format, Places()).rows)
    except SubmissionError as error:
        assert str(error).endswith(".")
        return
    for row in rows:
        assert (
            row.answer is not None and (row.id is not None or format == "text")
        ) or row.problem is not None


PACK = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.compress,
    "zip": lambda content: b"PK\x03\x04" + content,
}


@pytest.mark.parametrize("name", PACK)
@pytest.mark.parametrize("format", ["csv", "squad", "text", "lm-eval"])
def test_packed_files_are_to_be_unpacked(tmp_path, format, name):
    """They were "not UTF-8"."""
    path = tmp_path / "answers.csv"
    path.write_bytes(PACK[name](b"id,answer\n"))
    with pytest.raises(SubmissionError, match=rf"answers\.csv is compressed \({name}\): unpack it first"):
        open_foreign(path, format, Places())


def test_a_file_that_is_parsed_whole_has_a_smaller_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("decabench.exchange.foreign_files.WHOLE_BYTES", 10)
    path = tmp_path / "answers.json"
    path.write_text('{"a": "answer"}')
    with pytest.raises(SubmissionError, match="has 15 bytes; at most 10 are read"):
        open_foreign(path, "squad", Places())
    path.write_text("id,answer\na,b\n")
    assert len(list(open_foreign(path, "csv", Places()).rows)) == 1
