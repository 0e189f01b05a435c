"""What makes a results file readable."""

from __future__ import annotations

from typing import Any

import pytest

from decabench.leaderboard.read import Limited, TaskEntry, Unreadable, Wordings
from tests.leaderboard.small import entry, results, without


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (
            {**results(), "format": "decabench.results/2"},
            "its format is “decabench.results/2”",
        ),
        ({**results(), "format": None}, "its format is None"),
        ({**results(), "split": "train"}, "its split is “train”"),
        ({**results(), "tasks": []}, "it has no tasks"),
        ({**results(), "submission": {"name": " \u202e\n"}}, "its submission has no name"),
        ({**results(), "decascore": 999.0}, "its decaScore is 999.00, but its task scores sum to 500.00"),
        ({**results(), "decascore": True}, "its decaScore is True, not a number"),
        (
            {**results(scores=without("zre")), "decascore": 450.0},
            "it claims a decaScore with 9 of 10 tasks scored",
        ),
        ({**results(), "tasks": {"sst": {"status": "fine"}}}, "sst: its status is “fine”"),
        ({**results(), "tasks": {"sst": 80.0}}, "sst: its status is None"),
    ],
)
def test_turned_away(file: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        entry(file)
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize("score", [None, "90", True, -1, 100.01, float("nan"), float("inf"), 10**400, [1]])
def test_a_score_is_a_number_from_0_to_100(score: object) -> None:
    file = {**results(scores={"sst": 1.0}), "decascore": None}
    file["tasks"]["sst"]["score"] = score
    with pytest.raises(Unreadable, match="sst: its score is"):
        entry(file)


def test_a_hair_above_100_is_100() -> None:
    assert entry(results(scores=100.00000000000004)).tasks["sst"].score == 100.0


def test_a_scored_task_names_its_data() -> None:
    file = results(scores={"sst": 1.0})
    del file["tasks"]["sst"]["data"]
    with pytest.raises(Unreadable, match="sst: scored, but without the fingerprint"):
        entry(file)


def test_rounded_scores_still_sum_to_their_decascore() -> None:
    assert entry({**results(scores=33.33), "decascore": 333.333}).decascore == 333.333


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
    read = entry(
        results("a\u202e\n\x00b \ud800" + "x" * 500, about={"authors": ["A", 7, ""], "model_size": "big"})
    )
    assert read.name.startswith("a b ?xx")
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
    assert task.limited == Limited(91.0, 100, 872, "limit 100")


@pytest.mark.parametrize(
    "about",
    [{"answered": 872}, {"answered": 0}, {"answered": None}, {"of": None}, {"of": "872"}, {"answered": 900}],
)
def test_a_limited_run_says_of_how_many(about: dict[str, Any]) -> None:
    with pytest.raises(Unreadable, match="sst: partial, but it does not say how many examples it answered"):
        entry(limited(**about))


def test_a_limited_run_without_numbers_or_score_is_turned_away() -> None:
    file = limited()
    del file["tasks"]["sst"]["partial"]
    with pytest.raises(Unreadable, match="sst: partial, but"):
        entry(file)
    file = limited()
    file["tasks"]["sst"]["score"] = None
    with pytest.raises(Unreadable, match="sst: its score is None"):
        entry(file)


def test_no_decascore_rests_on_a_limited_run() -> None:
    file = results()
    file["tasks"]["sst"] |= {"status": "partial", "partial": {"answered": 1, "of": 2}}
    with pytest.raises(Unreadable, match="it claims a decaScore with 9 of 10 tasks scored"):
        entry(file)


def told(**about: Any) -> TaskEntry:
    file = {**results(scores={"sst": 91.0}), "decascore": None}
    file["tasks"]["sst"] |= about
    return entry(file).tasks["sst"]


def test_counts_of_answers() -> None:
    counts = {"unparseable": 3, "refused": 0, "truncated": "4", "<b>": 5, "context_cut": -1}
    assert told(answers=counts).told == {"unparseable": 3}
    assert told(answers=[3]).told == told().told == {}


@pytest.mark.parametrize(
    ("ceiling", "found"), [(97.5, 97.5), (0, 0.0), (None, None), ("97", None), (101, None), (-1, None)]
)
def test_ceilings(ceiling: object, found: float | None) -> None:
    assert told(ceiling=ceiling).found == found


def test_wordings_are_summed_up_here_whatever_the_file_says() -> None:
    given = {"scores": {"0": 90.0, "10": 80.0, "2": 70.0}, "mean": 1.0, "worst": 99.0, "spread": 0.0}
    wordings = told(variants=given).wordings
    assert wordings == Wordings({0: 90.0, 2: 70.0, 10: 80.0}, 80.0, 70.0, 20.0)
    assert list(wordings.scores) == [0, 2, 10]


@pytest.mark.parametrize(
    "variants",
    [
        None,
        3,
        {},
        {"scores": [1]},
        {"scores": {"0": 1.0}},
        {"scores": {"1": 1.0, "2": 2.0}},
        {"scores": {"0": 1.0, "<b>": 2.0}},
        {"scores": {"0": 1.0, "1": float("nan")}},
        {"scores": {"0": 1.0, "1": 101.0}},
        {"scores": {"0": 1.0, "01": 2.0}},
    ],
)
def test_wordings_that_cannot_be_are_left_out(variants: object) -> None:
    assert told(variants=variants).wordings is None


def test_raw_answers_are_said_to_be_so() -> None:
    assert entry({**results(), "answers": "raw"}).is_raw
    assert not entry({**results(), "answers": "extracted"}).is_raw
    assert not entry(results()).is_raw
