"""The ranking, case by case."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from decabench.leaderboard.entries import Board, Entry, Standings, State
from decabench.leaderboard.ranking import BASELINES, CEILINGS, rank_suite
from decabench.metrics import Metric
from decabench.scoring import Sample
from decabench.tasks import DECATHLON, TASKS, Combination, Suite
from tests.leaderboard.small import (
    NAMES,
    PUBLIC,
    alike,
    entry,
    ranking,
    results,
    suite_results,
    tables,
    without,
)
from tests.scoring.populations import mean_rows, sample

NO_SCHEMA = without("schema", score=99.0)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            [results("low", 20.0), results("high", 80.0)],
            [(1, "high"), (2, "low")],
            id="by decaScore",
        ),
        pytest.param(
            [results("partial", NO_SCHEMA), results("complete", 1.0)],
            [(1, "complete"), (None, "partial")],
            id="a complete result of 10 beats a partial one of 891",
        ),
        pytest.param(
            [
                results("failed", NO_SCHEMA, {"schema": "2 ids missing"}),
                results("partial", {"sst": 1.0}),
                results("nothing", {}, dict.fromkeys(NAMES, "no file")),
                results("complete", 1.0),
            ],
            [(1, "complete"), (None, "partial"), (None, "failed"), (None, "nothing")],
            id="complete, partial, failed, nothing",
        ),
        pytest.param(
            [
                results("one task of 100", {"sst": 100.0}),
                results("two tasks of 1", {"sst": 1.0, "srl": 1.0}),
                results("two tasks of 2", {"sst": 2.0, "srl": 2.0}),
            ],
            [(None, "two tasks of 2"), (None, "two tasks of 1"), (None, "one task of 100")],
            id="partial ones by number of tasks, then by sum",
        ),
        pytest.param(
            [results("b", 50.0), results("a", 50.0), results("c", 40.0), results("d", 60.0)],
            [(1, "d"), (2, "a"), (2, "b"), (4, "c")],
            id="ties share a rank and the next one counts them",
        ),
        pytest.param(
            [results("z", 50.001), results("a", 50.0), results("c", 49.9)],
            [(1, "z"), (2, "a"), (3, "c")],
            id="a test decides, whatever the digits shown",
        ),
    ],
)
def test_ranking(files: list[dict[str, Any]], expected: list[tuple[int | None, str]]) -> None:
    for order in permutations(files):
        (table,) = tables(*order)
        assert ranking(table) == expected


def test_a_result_of_another_suite_is_not_on_this_board() -> None:
    suite = {"name": "eleven", "title": "Eleven tasks", "tasks": [*NAMES, "own"], "total": "none"}
    other = results("other", 90.0)
    other["total"] |= {"score": None, "complete": False}
    entries = [entry(results("complete", 1.0)), entry({**other, "suite": suite}, "y")]
    (table,) = rank_suite(DECATHLON, entries, TASKS).tables
    assert ranking(table) == [(1, "complete")]
    (table,) = rank_suite(entries[1].suite, entries, TASKS).tables
    assert ranking(table) == [(None, "other")]
    assert table.rows[0].remarks == ("10 of 11 tasks", "missing: own")


@pytest.mark.parametrize("predictor", ["oracle", "Oracle", "decabench.predictors.baselines:oracle"])
def test_the_oracle_stands_apart(predictor: str) -> None:
    (table,) = tables(
        results("oracle", 100.0, about={"predictor": {"name": predictor}}), results("system", 1.0)
    )
    assert ranking(table) == [(1, "system")]
    assert [(row.rank, row.mark, row.total) for row in table.ceilings] == [(None, "ceiling", "1000.0")]


@pytest.mark.parametrize("predictor", sorted(BASELINES))
def test_baselines_stand_apart(predictor: str) -> None:
    (table,) = tables(
        results("floor", 30.0, about={"predictor": {"name": predictor}}), results("partial", NO_SCHEMA)
    )
    assert ranking(table) == [(None, "partial")]
    assert [(row.entry.name, row.rank, row.mark) for row in table.floors] == [("floor", None, "baseline")]


def test_floors_and_ceilings_are_predictors_that_ship() -> None:
    from decabench.predictors.schemes import PREDICTORS

    assert BASELINES | CEILINGS == set(PREDICTORS)


def test_every_unranked_row_says_why() -> None:
    failures = {"zre": "12 ids missing", "schema": "no file", "sst": "no file"}
    scores = without("zre", "schema", "sst", "srl")
    (table,) = tables(results("partial", without("schema", "zre")), results("failed", scores, failures))
    assert table.rows[0].remarks == ("400.0 of 800 (8 of 10 tasks)", "missing: zre, schema")
    assert table.rows[1].remarks == (
        "300.0 of 600 (6 of 10 tasks)",
        "missing: srl",
        "failed: sst, schema — no file",
        "failed: zre — 12 ids missing",
    )


def test_a_missing_score_is_no_number() -> None:
    (table,) = tables(results("failed", without("zre", "schema"), {"zre": "12 ids missing"}))
    cells = {cell.task: (cell.status, cell.text, cell.label) for cell in table.rows[0].cells}
    assert cells["sst"] == ("scored", "50.0", "")
    assert cells["zre"] == ("failed", "", "failed: 12 ids missing")
    assert cells["schema"] == ("missing", "", "missing")
    assert table.rows[0].total == ""


def test_a_zero_is_a_score() -> None:
    (table,) = tables(results("zero", 0.0))
    assert (table.rows[0].rank, table.rows[0].total, table.rows[0].state) == (1, "0.0", State.COMPLETE)
    assert {cell.text for cell in table.rows[0].cells} == {"0.0"}


def test_splits_are_apart() -> None:
    validation, test = tables(results("one", 60.0), results("one", 70.0, split="test"))
    assert (validation.split, validation.counted, validation.total_name) == ("validation", 10, "decaScore")
    assert (test.split, test.counted, test.total_name) == ("test", 8, "Total")


def test_on_test_the_public_tasks_are_ranked_by_their_sum() -> None:
    seven = dict.fromkeys(PUBLIC[:7], 99.0)
    (table,) = tables(results("eight", 10.0, split="test"), results("seven", seven, split="test"))
    assert ranking(table) == [(1, "eight"), (None, "seven")]
    assert table.rows[0].total == "80.0"
    assert table.rows[0].remarks == ("8 of 8 public tasks",)
    assert table.rows[1].remarks == ("693.0 of 700 (7 of 8 public tasks)", "missing: schema")
    hidden = [cell.task for cell in table.rows[0].cells if cell.status == "hidden"]
    assert hidden == [name for name in NAMES if TASKS[name].hidden]


def find_sample(name: str, task: str, score: float, metric: Metric) -> Sample | None:
    """Return statistics of systems a, b and c on 200 examples. About 60%, 60% and 50% of their answers are right."""
    share = {"a": 0.6, "b": 0.59, "c": 0.5}.get(name)
    if share is None:
        return None
    difficulty = np.random.default_rng(len(task)).random(200)
    own = np.random.default_rng(ord(name)).random(200)
    right = difficulty * 0.9 + own * 0.1 < share
    return sample("em", mean_rows(right, np.ones(200)), np.ones(200, dtype=int), task)


def test_a_test_makes_rank_groups() -> None:
    files = [results("a", 60.0), results("b", 59.0), results("c", 50.0)]
    entries = [entry(file, f"{number}/x", find=find_sample) for number, file in enumerate(files)]
    (table,) = rank_suite(DECATHLON, entries, TASKS).tables
    assert ranking(table) == [(1, "a"), (1, "b"), (3, "c")]
    places = [row.place for row in table.rows]
    assert [place and (place.group, place.best, place.worst) for place in places] == [
        (1, 1, 2),
        (1, 1, 2),
        (2, 3, 3),
    ]
    said = [place.versus for place in places if place]
    assert re.fullmatch(r"no significant difference from a \(adjusted for all pairs, p = 0\.\d{3}\)", said[1])
    assert said[2] == "differs from a (adjusted for all pairs, p < 0.001)"


def test_baselines_change_no_rank_and_partial_results_no_total() -> None:
    """Only pairs of ranked systems are adjusted, however many other rows the table has."""
    files = [results("a", 60.0), results("b", 59.0), results("c", 50.0)]
    floor = results("b", 59.0, about={"predictor": {"name": "majority"}})
    files += [floor, results("a", NO_SCHEMA)]
    entries = [entry(file, f"{n}", find=find_sample) for n, file in enumerate(files)]
    (few,) = rank_suite(DECATHLON, entries[:3], TASKS).tables
    (more,) = rank_suite(DECATHLON, entries, TASKS).tables
    assert len(more.all_rows) == 5 and few.tests.total is not None and more.tests.total is not None
    assert np.array_equal(few.tests.total.adjusted, more.tests.total.adjusted[:3, :3])
    assert more.tests.total.is_tested(0, 4) and not more.tests.total.is_tested(0, 3)
    assert more.tests.tasks["squad"].is_tested(0, 3)


def skewed_sample(name: str, task: str, score: float, metric: Metric) -> Sample | None:
    """Return statistics of two systems that differ on 40 of 400 examples, 28 to 12, and of baselines."""
    random = np.random.default_rng(5)
    base = random.random(400) < 0.7
    differ = random.permutation(400)[:40]
    right = {"a": base.copy(), "b": base.copy()}
    right["b"][differ], right["a"][differ] = np.arange(40) < 28, np.arange(40) >= 28
    for other, share in (("c", 0.3), ("d", 0.31), ("e", 0.33), ("f", 0.5), ("g", 0.52)):
        right[other] = random.random(400) < share
    return sample("em", mean_rows(right[name], np.ones(400)), np.ones(400, dtype=int), task)


@pytest.mark.parametrize("predictor", ["majority", "oracle"])
def test_baselines_and_ceilings_do_not_count_among_the_pairs_of_others(predictor: str) -> None:
    """If p were adjusted for 21 pairs instead of one, the two systems would not differ significantly."""
    suite = Suite("one", "One", ("sst",), "sum", "sum")
    about = {"predictor": {"name": predictor}}

    def rank(names: str) -> Standings:
        files = [
            suite_results(name, suite, {"sst": 50.0}, {"sst": "em"}, **(about if name > "b" else {}))
            for name in names
        ]
        entries = [entry(file, f"{file['submission']['name']}/x", find=skewed_sample) for file in files]
        (table,) = rank_suite(suite, entries, TASKS).tables
        return table

    alone, beside = rank("ab"), rank("abcdefg")
    assert len(beside.rows) == 2 and len(beside.floors + beside.ceilings) == 5
    for one, other in (
        (alone.tests.total, beside.tests.total),
        (alone.tests.tasks["sst"], beside.tests.tasks["sst"]),
    ):
        assert one is not None and other is not None
        assert 0.001 < one.adjusted[0, 1] < 0.05
        assert other.adjusted[0, 1] == one.adjusted[0, 1]
        assert other.adjusted[0, 2] >= other.p[0, 2]


@pytest.mark.parametrize(("total", "expected"), [("sum", 60.0), ("mean", 20.0), ("none", 0.0)])
def test_scores_are_combined_as_the_suite_does(total: Combination, expected: float) -> None:
    board = Board(Suite("three", "Three", ("a", "b", "c"), total), ())
    assert board.combine([10.0, 20.0, 30.0]) == expected
    assert board.combine([]) == 0.0


def test_without_a_test_it_says_so() -> None:
    entries = [entry(results("a", 60.0), "a"), entry(results("b", 59.0), "b")]
    (table,) = rank_suite(DECATHLON, entries, TASKS).tables
    assert ranking(table) == [(1, "a"), (1, "b")]
    first, second = (row.place for row in table.rows)
    assert first and second and (first.span, second.span) == ("1–2", "1–2")
    assert second.versus == "not tested against a: there are no statistics on the same units"


def test_intervals_are_shown_where_they_are_known() -> None:
    file = results("with", 50.0)
    file["interval"] = [480.0, 520.0]
    file["tasks"]["sst"]["interval"] = [40.0, 60.04]
    (table,) = tables(file)
    intervals = {cell.task: cell.interval for cell in table.rows[0].cells}
    assert table.rows[0].interval == (480.0, 520.0)
    assert (intervals["sst"], intervals["srl"]) == ("40.0–60.0", "")


def of_a_limited_run(name: str, *tasks: str) -> dict[str, Any]:
    """Return a results file with 99 on every task, where `tasks` are limited runs."""
    file = {**results(name, 99.0), "decascore": None}
    for task in tasks:
        file["tasks"][task] |= {"status": "partial", "n": 5, "partial": {"answered": 5, "of": 10}}
    return file


def test_a_limited_run_is_shown_with_its_count_and_in_no_sum() -> None:
    (table,) = tables(results("complete", 1.0), of_a_limited_run("limited", "sst", "srl"))
    assert ranking(table) == [(1, "complete"), (None, "limited")]
    row = table.rows[1]
    assert (row.state, row.total, row.value) == (State.PARTIAL, "", None)
    assert row.remarks == ("792.0 of 800 (8 of 10 tasks)", "limited run, not in the total: sst, srl")
    cell = row.cells[NAMES.index("sst")]
    assert (cell.status, cell.text, cell.label) == ("limited", "99.0", "partial, 5 of 10")
    assert cell.value is None


def test_answers_to_other_wordings_take_no_place_among_originals() -> None:
    (table,) = tables(
        results("a", 80.0), results("b", 90.0, about={"predictor": {"name": "p", "variant": 2}})
    )
    assert ranking(table) == [(1, "a")]
    (row,) = table.apart
    assert row.remarks == ("not ranked: answers to a different wording (variant 2)",)
    assert (row.rank, row.entry.apart) == (None, "other wording")


def test_reported_scores_stand_apart_whatever_they_are() -> None:
    forged = results("forged", 99.0, about={"predictor": {"name": "majority"}})
    entries = [entry(results("a", 50.0), "a"), entry(forged, "b", "reported")]
    (table,) = rank_suite(DECATHLON, entries, TASKS).tables
    assert ranking(table) == [(1, "a")]
    assert table.floors == () and [row.entry.name for row in table.apart] == ["forged"]
    assert table.apart[0].remarks == ("reported: the answers are not available",)


# The data of a table


def on(data: str, name: str, score: float, **given: Any) -> Entry:
    """Return an entry for some data that the keeper ranks."""
    return replace(entry(results(name, score, data=data), f"{name}/x", find=alike, **given), apart="")


def test_reported_results_on_other_data_than_that_of_this_machine_stand_apart() -> None:
    entries = [on("a", "here", 1.0), *(on("b", f"there{n}", 99.0, kind="reported") for n in range(3))]
    (table,) = rank_suite(DECATHLON, entries, TASKS).tables
    assert ranking(table) == [(1, "here")]
    assert [row.entry.apart for row in table.apart] == ["other data"] * 3
    assert table.apart[0].remarks[-1].startswith("not ranked: scored on different data")
    assert table.data[0].fingerprint == "sha256:a-squad"


def test_without_data_here_the_data_of_most_is_that_of_the_table() -> None:
    entries = [
        on("a", "few", 99.0, kind="reported"),
        *(on("b", f"s{n}", n, kind="reported") for n in range(3)),
    ]
    (table,) = rank_suite(DECATHLON, entries, TASKS).tables
    assert ranking(table) == [(1, "s2"), (2, "s1"), (3, "s0")]
    assert [row.entry.name for row in table.apart] == ["few"]
    assert table.heading == "Upstream files; as stated by the submitters"


def test_other_metrics_and_another_number_of_examples_are_not_compared() -> None:
    files = [results("short", 99.0, of_data={"rows": 5}), results("new", 60.0, signature="v:2")]
    others = [replace(entry(file, f"{n}", "reported"), apart="") for n, file in enumerate(files)]
    entries = [on("a", "old", 50.0), *others]
    (table,) = rank_suite(DECATHLON, entries, TASKS).tables
    assert ranking(table) == [(1, "old")] and len(table.apart) == 2


def test_the_data_behind_a_table() -> None:
    about = {"origin": "mirror", "verified": False, "published_count": 10_570, "note": "the first rows"}
    (table,) = tables(results("one", 50.0, of_data=about))
    line = table.data[0]
    assert (line.task, line.count, line.is_subset) == ("squad", "100 of 10,570", True)
    assert (line.signature, line.fingerprint) == ("squad|v:1", "sha256:a-squad")
    assert [(note, len(names)) for note, names in table.notes.items()] == [("the first rows", 10)]
    assert table.heading == "Mirror; no published checksums"


def test_mixed_data_says_so() -> None:
    file = results("mixed", 50.0)
    file["tasks"]["sst"]["data"].update(origin="user", verified=False)
    (table,) = tables(file)
    assert table.heading == (
        "Upstream files (9) and the submitter's own data (1); published checksums match for 9 of 10 tasks"
    )


def test_a_submitter_writes_no_note_and_no_origin_for_a_table() -> None:
    said = {"note": "All others were trained on the test data.", "origin": "my private server"}
    (table,) = rank_suite(DECATHLON, [entry(results("a", 50.0, of_data=said), "a", "reported")], TASKS).tables
    assert table.notes == {} and table.heading == "Unknown origin; as stated by the submitters"
