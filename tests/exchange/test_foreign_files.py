"""Readers of other programs' files, which return a row for each entry. test_imports.py tests the next steps."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import sys
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decabench.errors import DecabenchError, SubmissionError
from decabench.exchange.foreign_files import frame_answers, open_foreign
from decabench.exchange.foreign_rows import ForeignAnswer, Places

# Readers return the content of a file row by row. test_imports.py tests the next steps.


def test_a_large_file_is_not_read(monkeypatch, tmp_path):
    monkeypatch.setattr("decabench.exchange.foreign_files.FILE_BYTES", 10)
    (tmp_path / "a.csv").write_text("id,answer\na,b\n")
    with pytest.raises(SubmissionError, match="has 14 bytes, more than the limit of 10"):
        open_foreign(tmp_path / "a.csv", "csv", Places())


def test_numbers_are_answers_where_numbers_are_asked_for():
    np = pytest.importorskip("numpy")
    table = {"id": np.array([3, 4, 5]), "answer": np.array([1.5, 2.0, np.nan])}
    rows = list(frame_answers(table, Places(), numbers=True).rows)
    assert [(row.id, row.answer) for row in rows] == [("3", "1.5"), ("4", "2.0"), ("5", None)]
    assert all(row.answer is None for row in frame_answers(table, Places()).rows)


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
    max_examples=100,
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


# Samples of lm-eval: which requests have an answer, and which one.


def choices(
    *contexts: str, texts: Any = (" a", " b"), scores: Any = ((-2.0, False), (-1.0, False)), **more: Any
) -> Any:
    """Return a multiple_choice sample. Each request has a context, a continuation and its log-likelihood."""
    requests = [list(pair) for pair in zip(contexts or ("x", "x"), texts, strict=False)]
    kept = [[str(value), str(is_greedy)] for value, is_greedy in scores]
    return {"doc": {"id": "1"}, "target": "1", "arguments": requests, "filtered_resps": kept, **more}


SAMPLES: dict[str, tuple[Any, str]] = {
    "choices": (choices(acc=1.0), "b"),
    "a tie, of which numpy's argmax takes the first": (
        choices(scores=[(-1, 0 > 1), (-1, True)], target="0", acc=1.0),
        "a",
    ),
    "infinite": (choices(scores=[("-inf", False), ("-inf", True)]), "a"),
    "acc_mutual_info": (
        choices(
            "x", "x", "", "", texts=[" a", " b"] * 2, scores=[(-2, False), (-1, False), (0, True), (0, True)]
        ),
        "b",
    ),
    "acc_mutual_info of 0.4.2": (
        choices(
            "x",
            "",
            "x",
            "",
            texts=[" a", "a", " b", "b"],
            scores=[(-2, False), (0, True), (-1, False), (0, True)],
        ),
        "b",
    ),
    "no context": (choices("", ""), "b"),
    "a majority": ({"doc": {"id": "1"}, "filtered_resps": [["b"]], "resps": [["a", "b", "b"]]}, "b"),
    "no match of a filter": ({"doc": {"id": "1"}, "filtered_resps": ["[invalid]"], "resps": [["so"]]}, ""),
    "the first of several": ({"doc": {"id": "1"}, "filtered_resps": ["b"], "resps": [["b", "a"]]}, "b"),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_answers_of_samples(tmp_path, name):
    sample, answer = SAMPLES[name]
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(sample))
    (row,) = open_foreign(path, "lm-eval", Places()).rows
    assert (row.answer, row.problem) == (answer, None)
    assert row.is_tied == name.startswith(("a tie", "infinite"))


NO_ANSWERS: dict[str, tuple[Any, str]] = {
    "loglikelihood": (choices(texts=[" a"], scores=[(-1.0, False)]), "likelihood of the right answer"),
    "loglikelihood_rolling": (
        {"doc": {"id": "1"}, "arguments": {"gen_args_0": {"arg_0": "x"}}, "filtered_resps": ["-7.5"]},
        "loglikelihood_rolling",
    ),
    "multiple inputs": (choices("x a", "x b", texts=[" so", " so"]), "multiple inputs"),
    "multiple inputs with acc_mutual_info": (
        choices("x a", "x b", "", "", texts=["so", "so", "a", "b"], scores=[(-1, False)] * 4),
        "multiple inputs",
    ),
    "infinite, which no likelihood is": (
        choices(scores=[("inf", False), (-1, False)]),
        "choice 1 is infinite",
    ),
    "not a number": (choices(scores=[("nan", False), (-1, False)]), "log-likelihood of choice 1 is NaN"),
    "NaN in JSON": (
        choices(filtered_resps=[[-1.0, False], [float("nan"), True]]),
        "log-likelihood of choice 2 is NaN",
    ),
    "responses that were kept": (
        {"doc": {"id": "1"}, "filtered_resps": [["a", "b"]], "arguments": [["x", {}]]},
        "several responses",
    ),
    "fewer scores": (choices(scores=[(-1.0, False)]), "the response is a list, not text or choices"),
    "null, of a server": ({"doc": {"id": "1"}, "filtered_resps": [None]}, "the response is missing"),
    "a number, of a filter": ({"doc": {"id": "1"}, "filtered_resps": [7]}, "the response is the number 7"),
    "another acc": (
        choices(acc=0.0),
        "the most likely choice is number 1 and the target is number 1, but 'acc' is 0.0",
    ),
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_requests_that_have_no_answer_say_so(tmp_path, name):
    sample, says = NO_ANSWERS[name]
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(sample))
    (row,) = open_foreign(path, "lm-eval", Places()).rows
    assert row.answer is None
    assert row.problem is not None and says in row.problem[1]


# Logs of Inspect: the content and order of samples.

FILES = Path(__file__).with_name("files")


def sample(id_: Any, text: str, epoch: int = 1, **more: Any) -> Any:
    """Return a sample of an Inspect log, with the fields that the reader uses."""
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
    """Open a log with these samples, using a stub of Inspect."""

    def call(samples: list[Any], dataset: Any = None, **places: Any):
        module = ModuleType("inspect_ai.log")
        about = SimpleNamespace(
            model="made/up", task="sst", packages={"inspect_ai": "0.3.285"}, dataset=dataset
        )
        found = SimpleNamespace(eval=about, status="success", samples=samples)
        module.read_eval_log = lambda path, resolve_attachments: found  # type: ignore[attr-defined]
        package = ModuleType("inspect_ai")
        package.__spec__ = ModuleSpec("inspect_ai", None)
        monkeypatch.setitem(sys.modules, "inspect_ai", package)
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
        "the scorer 'match' gave no answer for 'b'; the scorers of this sample are: none",
    )
    assert not opened.is_raw


@pytest.mark.parametrize("choice", ["", "match"])
def test_answers_that_a_filter_stopped(log, choice):
    """Such answers are refused, even if a scorer found an answer in the text."""
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


def test_epochs_of_inspect_are_not_mixed(log):
    samples = [sample("a", "yes"), sample("a", "no", epoch=2)]
    with pytest.raises(SubmissionError, match=r"has 2 epochs.* --epoch"):
        list(log(samples).rows)
    assert [row.answer for row in log(samples, epoch=2).rows] == ["no"]


def test_without_inspect_it_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    (tmp_path / "a.eval").touch()
    with pytest.raises(DecabenchError, match=r"inspect_ai, which is not installed.* run pip install"):
        open_foreign(tmp_path / "a.eval", "inspect", Places())


def test_an_archive_that_unpacks_to_too_much_is_not_given_to_inspect(log, tmp_path, monkeypatch):
    monkeypatch.setattr("decabench.exchange.inspect_logs.FILE_BYTES", 1 << 20)
    log([])
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/a.json", b" " * (2 << 20))
    with pytest.raises(SubmissionError, match="unpacks to 2,097,152 bytes, more than the limit of 1,048,576"):
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
    with pytest.raises(SubmissionError, match="is not an Inspect log"):
        open_foreign(tmp_path / "broken.eval", "inspect", Places())


@pytest.mark.heavy
def test_a_real_log_of_multiple_choice():
    """Written by Inspect 0.3.285, which shuffled the options before showing them to its mock model."""
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
    """For example, model_graded_qa, whose answer is the whole completion."""
    samples = [sample("a", "It is Yes.", scores={"graded": SimpleNamespace(answer="it is yes.")})]
    assert log(samples, choice="graded").is_raw


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
    """Before, the message was "not UTF-8"."""
    path = tmp_path / "answers.csv"
    path.write_bytes(PACK[name](b"id,answer\n"))
    with pytest.raises(SubmissionError, match=rf"answers\.csv is compressed \({name}\). Unpack"):
        open_foreign(path, format, Places())


@pytest.mark.parametrize(
    ("name", "format", "content", "says"),
    [
        ("answers.xlsx", "csv", b"PK\x03\x04", "is not a text file. Save the table as CSV"),
        ("answers.parquet", "csv", b"PAR1\x15\x04", "is not a text file. Save the table as CSV"),
        ("batch.jsonl", "csv", b'{"custom_id": "a", "response": {}}\n', "The file is JSON, not CSV"),
        ("answers.json", "csv", b'[\n{"id": "a", "answer": "b"}\n]', "The file is JSON, not CSV"),
        ("results.json", "lm-eval", b'{\n "results": {}\n}', r"Import a samples_\*.jsonl file"),
    ],
)
def test_files_of_other_kinds_are_named(tmp_path, name, format, content, says):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SubmissionError, match=says):
        list(open_foreign(path, format, Places()).rows)
