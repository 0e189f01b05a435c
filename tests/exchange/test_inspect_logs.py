"""Logs of Inspect: what each sample says, and in which order samples are."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from decabench.errors import DecabenchError, SubmissionError
from decabench.exchange.foreign_files import open_foreign
from decabench.exchange.foreign_rows import ForeignAnswer, Places

FILES = Path(__file__).with_name("files")


def sample(id_: Any, text: str, epoch: int = 1, **more: Any) -> Any:
    """A sample of an Inspect log, as far as it is read."""
    stop_reason, choices = more.pop("stop_reason", "stop"), more.pop("outputs", [text])
    output = SimpleNamespace(completion=text, stop_reason=stop_reason, choices=choices)
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

    def call(samples: list[Any], dataset: Any = None, **places: Any):
        module = ModuleType("inspect_ai.log")
        about = SimpleNamespace(
            model="made/up", task="sst", packages={"inspect_ai": "0.3.285"}, dataset=dataset
        )
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
        "the scorer 'match' gave no answer for 'b'; scores are from: none",
    )
    assert not opened.is_raw


@pytest.mark.parametrize("choice", ["", "match"])
def test_answers_that_a_filter_stopped(log, choice):
    """Whatever a scorer found in their texts."""
    scored = {"match": SimpleNamespace(answer="yes")}
    filtered = sample("a", "I say yes", scores=scored, stop_reason="content_filter")
    rows = list(log([filtered, sample("b", "It is yes", scores=scored)], choice=choice).rows)
    assert [row.finish for row in rows] == ["refused", "stop"]


def chosen(
    id_: Any, text: str, letters: str, scorer: str = "choice", options: Any = ("negative", "positive")
) -> Any:
    return sample(id_, text, scores={scorer: SimpleNamespace(answer=letters)}, choices=list(options))


def test_letters_of_multiple_choice_are_the_options_of_inspect(log):
    opened = log([chosen("a", "ANSWER: B", "B"), chosen("b", "no idea", ""), chosen("c", "A", "A")])
    assert [(row.id, row.answer, row.raw, row.letter) for row in opened.rows] == [
        ("a", "positive", "ANSWER: B", "B"),
        ("b", "", "no idea", None),  # the scorer found no letter
        ("c", "negative", "A", "A"),
    ]
    assert not opened.is_raw


def test_options_of_inspect_that_are_letters_or_many(log):
    samples = [chosen("a", "A", "A", options=["B", "A"]), chosen("b", "C", "C", options=["x", "y"])]
    assert [row.answer for row in log(samples).rows] == ["B", "C"]  # the scorer gives letters, always
    samples = [chosen("a", "A", "A", "mine", ["B", "A"])]
    assert [row.answer for row in log(samples, choice="mine").rows] == ["A"]
    many = [f"option {number}" for number in range(30)]
    found = log([chosen("a", "Z", "Z", options=many), chosen("b", "4", "4", options=many)])
    assert [row.answer for row in found.rows] == ["option 25", "option 29"]


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
    monkeypatch.setattr("decabench.exchange.inspect_logs.FILE_BYTES", 1 << 20)
    log([])
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/a.json", b" " * (2 << 20))
    with pytest.raises(SubmissionError, match="unpacks to 2,097,152 bytes; at most 1,048,576 are read"):
        open_foreign(tmp_path / "a.eval", "inspect", Places())


@pytest.mark.heavy
def test_a_real_log_of_inspect(tmp_path):
    """Written by Inspect 0.3.285, with its mock model."""
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
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
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    opened = open_foreign(FILES / "sst_choice.eval", "inspect", Places())
    positive, negative = "positive", "negative"
    assert [row.answer for row in opened.rows] == [positive, negative, "", *[positive] * 3]
    assert not opened.is_raw


def test_samples_of_inspect_are_sorted_as_texts_and_have_their_place_in_the_dataset(log):
    ids = [str(number) for number in range(12)]
    samples = [sample(id_, "yes", input=f"Question {id_}", target="yes") for id_ in sorted(ids)]
    opened = log(samples, dataset=SimpleNamespace(sample_ids=ids, samples=12, shuffled=False))
    assert [(row.id, row.position) for row in opened.rows][:4] == [("0", 0), ("1", 1), ("10", 10), ("11", 11)]
    assert (opened.has_order, opened.size) == (True, 12)


@pytest.mark.parametrize(
    ("changed", "samples"),
    [({"shuffled": True}, "abc"), ({"samples": 30}, "abc"), ({"sample_ids": None}, "abc"), ({}, "abcd")],
)
def test_logs_that_do_not_state_the_order_of_their_dataset(log, changed, samples):
    dataset = SimpleNamespace(**{"sample_ids": ["c", "b", "a"], "samples": 3, "shuffled": False, **changed})
    opened = log([sample(id_, "yes") for id_ in samples], dataset=dataset)
    assert not opened.has_order
    assert {row.position for row in opened.rows} == {None}


def test_a_scorer_that_extracts_nothing_leaves_the_text_to_be_extracted(log):
    """Such as model_graded_qa, whose answer is the completion."""
    samples = [sample("a", "It is Yes.", scores={"graded": SimpleNamespace(answer="it is yes.")})]
    assert log(samples, choice="graded").is_raw
