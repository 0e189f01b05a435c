"""Results as the board shows them: clean text, and nothing that could be taken for more than it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from decabench.leaderboard.entries import TaskEntry, entry_from_results
from decabench.scoring import LimitedRun, Results, VariantScores
from decabench.tasks import DECATHLON
from tests.leaderboard.small import entry, results, scored


def test_a_hair_above_100_is_100() -> None:
    assert entry(results(scores=100.00000000000004)).tasks["sst"].score == 100.0


def test_scores_of_unknown_metrics_are_not_cut_to_100() -> None:
    file = {**results(scores={}), "decascore": None}
    file["tasks"]["own"] = {**scored("sst", 250.0), "metric": "points", "headline": "points"}
    assert entry(file).tasks["own"].score == 250.0


def test_the_signature_of_the_headline_metric() -> None:
    file = results(scores={"sst": 1.0})
    file["tasks"]["sst"].update(metric="em", signatures={"em": "em|v:1", "nf1": "nf1|v:3"})
    assert entry(file).tasks["sst"].signature == "em|v:1"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://example.org/a?b=c", True),
        ("http://example.org", True),
        ("HTTPS://example.org", True),
        ("javascript:alert(1)", False),
        (" javascript:alert(1)", False),
        ("java\nscript:alert(1)", False),
        ("data:text/html,<script>", False),
        ("https:alert(1)", False),
        ("//example.org", False),
        ("http://[", False),
        ("https://example.org/\u202e", False),
        (7, False),
    ],
)
def test_only_web_addresses_are_kept(url: object, kept: bool) -> None:
    assert entry(results(about={"url": url})).url == (url if kept else "")


def test_text_is_one_short_clean_line() -> None:
    read = entry(results("a\u202e\n\x00b " + "x" * 500, about={"authors": ["A", 7, ""], "model_size": "big"}))
    assert read.name.startswith("a b xx")
    assert len(read.name) == 120
    assert read.authors == ("A",)
    assert read.model_size is None


def limited(**about: Any) -> dict[str, Any]:
    """A file whose sst is of a limited run."""
    file = {**results(scores={"sst": 91.0}), "decascore": None}
    file["tasks"]["sst"] |= {"status": "partial", "partial": {"answered": 100, "of": 872, **about}}
    return file


def test_a_limited_run_has_no_score_that_could_be_summed() -> None:
    task = entry(limited(chosen="limit 100")).tasks["sst"]
    assert task.score is None
    assert (task.limited, task.limited_score) == (LimitedRun(100, 872, "limit 100"), 91.0)


def sst(**about: Any) -> TaskEntry:
    file = {**results(scores={"sst": 91.0}), "decascore": None}
    file["tasks"]["sst"] |= about
    return entry(file).tasks["sst"]


def test_counts_of_answers() -> None:
    assert sst(answers={"unparseable": 3, "refused": 0, "<b>": 5}).answer_counts == {"unparseable": 3}
    assert sst().answer_counts == {}


@pytest.mark.parametrize(("ceiling", "found"), [(97.5, 97.5), (0, 0.0), (None, None)])
def test_ceilings(ceiling: object, found: float | None) -> None:
    assert sst(ceiling=ceiling).gold_kept == found


def test_wordings_are_summed_up_here_whatever_the_file_says() -> None:
    given = {"scores": {"0": 90.0, "10": 80.0, "4": 70.0}, "mean": 1.0, "worst": 99.0, "spread": 0.0}
    wordings = sst(variants=given).wordings
    assert wordings == VariantScores({"0": 90.0, "4": 70.0, "10": 80.0}, 80.0, 70.0, 20.0)
    assert list(wordings.scores) == ["0", "4", "10"]


@pytest.mark.parametrize(
    ("scores", "retired"),
    [
        ({"0": 90.0, "2": 10.0, "4": 70.0}, {}),  # as versions wrote it that had retired none
        ({"0": 90.0, "4": 70.0}, {"2": 10.0}),
        ({"0": 90.0, "2": 10.0}, {"4": 70.0}),  # whatever it says
    ],
)
def test_a_retired_wording_is_neither_the_worst_nor_in_the_mean(
    scores: dict[str, float], retired: dict[str, float]
) -> None:
    given = {"scores": scores, "retired": retired, "mean": 1.0, "worst": 99.0, "spread": 0.0}
    assert sst(variants=given).wordings == VariantScores(
        {"0": 90.0, "4": 70.0}, 80.0, 70.0, 20.0, retired={"2": 10.0}
    )


def test_one_wording_is_no_other() -> None:
    assert sst().wordings is None
    assert sst(variants={"scores": {"0": 1.0}, "mean": 1.0, "worst": 1.0, "spread": 0.0}).wordings is None


def test_where_lower_is_better_the_highest_wording_is_the_worst() -> None:
    file = {**results(scores={}), "decascore": None}
    variants = {"scores": {"0": 0.5, "1": 3.0}, "mean": 0.0, "worst": 0.0, "spread": 0.0}
    file["tasks"]["own"] = {**scored("sst", 0.5), "metric": "mse", "headline": "mse", "variants": variants}
    found = entry(file).tasks["own"].wordings
    assert found is not None and (found.worst, found.spread) == (3.0, 2.5)


def test_a_result_of_another_suite_says_so() -> None:
    suite = {"name": "own", "title": "Own", "tasks": ["own"], "total": "none"}
    file = {**results(scores={}), "suite": suite}
    file["tasks"]["own"] = scored("sst", 0.5)
    file["total"] |= {"score": None, "tasks": 1, "complete": True}
    read = Results.from_json(json.dumps(file))
    assert (entry_from_results(read, "x").suite.title, entry(results()).suite) == ("Own", DECATHLON)


def test_raw_answers_are_said_to_be_so() -> None:
    assert entry({**results(), "answers": "raw"}).is_raw
    assert not entry({**results(), "answers": "extracted"}).is_raw
    assert not entry(results()).is_raw


@pytest.mark.parametrize(
    ("variant", "wording"),
    [(None, ""), (0, ""), (1, "1"), ("1", "1"), (1.0, "1.0"), ([1], "[1]")],
)
@pytest.mark.parametrize("more", [{}, {"name": "m"}])
def test_any_stated_wording_stands_apart(variant: object, wording: str, more: dict[str, str]) -> None:
    found = entry(results("a", 50.0, about={"predictor": {**more, "variant": variant}}))
    assert (found.wording, found.apart) == (wording, "other wording" if wording else "")
