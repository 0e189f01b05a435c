"""Samples of lm-eval: which requests have an answer, and which one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from decabench.exchange.foreign_files import open_foreign
from decabench.exchange.foreign_rows import Places


def choices(
    *contexts: str, texts: Any = (" a", " b"), scores: Any = ((-2.0, False), (-1.0, False)), **more: Any
) -> Any:
    """A sample of multiple_choice; each request has a context, a continuation and its log-likelihood."""
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
    "not a number": (choices(scores=[("nan", False), (-1, False)]), "log-likelihood of its choice 1 is NaN"),
    "NaN in JSON": (
        choices(filtered_resps=[[-1.0, False], [float("nan"), True]]),
        "log-likelihood of its choice 2 is NaN",
    ),
    "responses that were kept": (
        {"doc": {"id": "1"}, "filtered_resps": [["a", "b"]], "arguments": [["x", {}]]},
        "several responses",
    ),
    "fewer scores": (choices(scores=[(-1.0, False)]), "its response is a list, not text or choices"),
    "null, of a server": ({"doc": {"id": "1"}, "filtered_resps": [None]}, "its response is missing"),
    "a number, of a filter": ({"doc": {"id": "1"}, "filtered_resps": [7]}, "its response is the number 7"),
    "another acc": (
        choices(acc=0.0),
        "its likeliest choice is number 1 and its target number 1, but its acc is 0.0",
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
