"""Runs of a system that differ only in their seeds share a row with means and standard deviations."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decabench.leaderboard import write_leaderboard
from decabench.leaderboard.entries import Board, Entry
from decabench.leaderboard.ranking import rank_suite
from decabench.leaderboard.reviewing import review_submissions
from decabench.leaderboard.scores import BoardOptions, Keeper, find_submissions, group_runs, score_submissions
from decabench.scoring import (
    compare_pairs,
    flip_signs,
    mean_sample,
    total_interval,
)
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import TASKS, Store, Suite
from tests.leaderboard.test_site import Page

PAIR = Suite("pair", "Pair", ("sst", "schema"), "sum", "sum")


def write(home: Path, folder: Path, name: str, right: float, number: int, **about: Any) -> None:
    """Write a submission with this share of right answers. The number determines which ones are right."""
    store, generator = Store(home), np.random.default_rng(number)
    answers = {}
    for task in PAIR.tasks:
        drawn = generator.random(store.record(task, "validation").rows)
        answers[task, "validation"] = [
            (example.id, example.answers[0] if each < right else "nothing")
            for example, each in zip(store.examples(task, "validation"), drawn, strict=True)
        ]
    write_submission(folder / name, SubmissionInfo(**{"name": name.split("/")[-1], **about}), answers)


def write_suite(path: Path) -> Path:
    lines = ['format = "decabench.suite/1"', 'name = "pair"', 'title = "Pair"', 'total_name = "sum"']
    path.write_text("\n".join([*lines, 'tasks = ["sst", "schema"]', 'total = "sum"']))
    return path


def sampled(seed: int, **more: Any) -> dict[str, Any]:
    """Return the record of a model that samples its answers."""
    return {"name": "hf:model", "seed": seed, "backend": {"weights": "sha256:1", "seed": seed}, **more}


def served(seed: int, *names: str, key: str = "sst.validation") -> dict[str, Any]:
    """Return the record of a model behind a server."""
    return sampled(seed, served_by={key: list(names)})


def trained(seed: int, **config: Any) -> dict[str, Any]:
    """Return the record of a model trained by `decabench train`, asked with the default seed."""
    backend = {
        "model": "mqan",
        "weights": f"sha256:{seed}",
        "files": {"model.safetensors": f"sha256:{seed}"},
        "step": 100 + seed,
        "config": {"seed": seed, "steps": 200, **config},
        "training_data": {"sst.train": "sha256:2"},
    }
    return {"name": f"mqan:run-{seed}", "seed": 0, "backend": backend}


def read(folder: Path, home: Path, rank_reported: bool = False) -> tuple[list[Entry], Keeper]:
    top, paths, _ = find_submissions(folder)
    keeper = Keeper(Store(home), [PAIR], TASKS, options=BoardOptions(rank_reported=rank_reported))
    return score_submissions(top, paths, keeper)[0], keeper


def systems(folder: Path, home: Path) -> list[list[str]]:
    """Return the submissions of each row."""
    entries, keeper = read(folder, home)
    return [[run.submission for run in entry.runs or (entry,)] for entry in group_runs(entries, keeper)]


@pytest.fixture(scope="module")
def folder(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two systems with a single run, and one with three."""
    folder = tmp_path_factory.mktemp("runs")
    write(home, folder, "best", 0.9, 0)
    for seed in range(3):
        usage = {"sst.validation": {"prompt_tokens": 1000 * (seed + 1), "completion_tokens": 0}}
        time = {"sst.validation": {"seconds": 3.2 * (seed + 1), "answers": 32}}
        write(home, folder, f"model-{seed}", 0.6, 10 + seed, predictor=sampled(seed, usage=usage, time=time))
    write(home, folder, "worst", 0.2, 1)
    return folder


@pytest.fixture(scope="module")
def board(folder: Path, home: Path) -> Board:
    entries, keeper = read(folder, home)
    return rank_suite(PAIR, group_runs(entries, keeper), TASKS)


@pytest.fixture(scope="module")
def site(folder: Path, home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    suite = write_suite(tmp_path_factory.mktemp("suite") / "pair.toml")
    site = tmp_path_factory.mktemp("site") / "site"
    return write_leaderboard(folder, site, home=home, include=suite, examples="free").parent


# Which submissions are runs of one system


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([sampled(1), sampled(2)], [["m-0", "m-1"]]),
        ([trained(1), trained(2)], [["m-0", "m-1"]]),
        ([trained(1), trained(2, steps=300)], [["m-0"], ["m-1"]]),
        (
            [trained(1), {**trained(1), "seed": 1}],
            [["m-0"], ["m-1"]],
        ),  # the same weights, asked with two seeds
        ([sampled(1), sampled(1), sampled(2)], [["m-0", "m-2"], ["m-1"]]),
        ([sampled(1), sampled(2, prompts={"shots": 5})], [["m-0"], ["m-1"]]),
        ([sampled(1), sampled(2, decabench="9.9", fingerprint="sha256:3")], [["m-0", "m-1"]]),
        ([served(1, "m-2025 (fp_1)"), served(2, "m-2025 (fp_2)")], [["m-0", "m-1"]]),
        ([served(1, "m-2025"), served(2, "m-2026")], [["m-0"], ["m-1"]]),
        ([served(1, "m-2025"), served(2, "m-2025", "m-2026")], [["m-0"], ["m-1"]]),
        ([served(1, "m"), served(2, "m", key="sst.test")], [["m-0"], ["m-1"]]),
        ([{"name": "a"}, {"name": "a"}], [["m-0"], ["m-1"]]),
        ([{"name": "a", "backend": "b"}, {"name": "a", "backend": "b", "seed": 1}], [["m-0"], ["m-1"]]),
    ],
)
def test_only_the_seed_may_differ(
    records: Sequence[Mapping[str, Any]], expected: list[list[str]], home: Path, tmp_path: Path
) -> None:
    for number, record in enumerate(records):
        write(home, tmp_path, f"m-{number}", 0.5, number, predictor=record)
    assert sorted(map(sorted, systems(tmp_path, home))) == expected


def test_nobody_adds_a_run_to_the_system_of_others(home: Path, tmp_path: Path) -> None:
    write(home, tmp_path, "alice/one", 0.5, 0, predictor=sampled(0))
    write(home, tmp_path, "alice/two", 0.5, 1, predictor=sampled(1))
    write(home, tmp_path, "bob/three", 0.1, 2, predictor=sampled(2))
    write(home, tmp_path, "alice/four", 0.1, 3, predictor=sampled(3), authors=("Bob",))
    assert sorted(map(sorted, systems(tmp_path, home))) == [
        ["alice/four"],
        ["alice/one", "alice/two"],
        ["bob/three"],
    ]


def test_two_teams_with_the_same_model_have_two_rows_and_pages(home: Path, tmp_path: Path) -> None:
    for number, (team, seed) in enumerate([("A", 0), ("A", 1), ("B", 0), ("B", 1)]):
        write(home, tmp_path / "in", f"{team}-{seed}", 0.5, number, predictor=sampled(seed), authors=(team,))
    rows = [entry for entry in group_runs(*read(tmp_path / "in", home)) if entry.runs]
    assert len(rows) == len({entry.path for entry in rows}) == 2
    include = write_suite(tmp_path / "pair.toml")
    site = write_leaderboard(
        tmp_path / "in", tmp_path / "out", home=home, include=include, examples="none"
    ).parent
    for files in ("submissions/runs-*.html", "badges/runs-*.svg", "data/units/runs-*.js"):
        assert len(list(site.glob(files))) == 2


def test_a_row_states_only_what_all_runs_state(home: Path, tmp_path: Path) -> None:
    for seed in range(2):
        about = {
            "description": "A model.",
            "url": f"https://example.org/{seed}",
            "date": f"2026-01-0{seed + 1}",
        }
        write(home, tmp_path, f"model-{seed}", 0.5, seed, predictor=sampled(seed), model_size=7, **about)
    (system,) = group_runs(*read(tmp_path, home))
    assert (system.name, system.description, system.predictor) == ("model-0", "A model.", "hf:model")
    assert (system.url, system.date, system.model_size) == ("", "", 7)


def test_answers_are_read_only_from_submissions(folder: Path, home: Path) -> None:
    systems = group_runs(*read(folder, home))
    assert all(bool(entry.files) == (not entry.runs) for entry in systems)
    assert sum(bool(each.files) for entry in systems for each in (entry, *entry.runs)) == 5


# The row


def test_a_row_has_the_mean_of_its_runs_and_their_standard_deviation(board: Board) -> None:
    (table,) = board.tables
    assert [len(row.runs) for row in table.rows] == [0, 3, 0]
    row = table.rows[1]
    totals = [run.value for run in row.runs if run.value is not None]
    assert row.value == pytest.approx(statistics.mean(totals)) and row.deviation == statistics.stdev(totals)
    for index, cell in enumerate(row.cells):
        scores = [run.cells[index].value or 0.0 for run in row.runs]
        assert cell.value == pytest.approx(statistics.mean(scores))
        assert cell.deviation == statistics.stdev(scores)


def test_its_interval_is_that_of_the_mean_over_examples(board: Board) -> None:
    row = board.tables[0].rows[1]
    samples = []
    for name in PAIR.tasks:
        each = [run.entry.sample(name) for run in row.runs]
        samples.append(mean_sample([sample for sample in each if sample is not None]))
        interval = samples[-1].interval
        assert interval is not None and row.entry.tasks[name].interval == interval.ends
    total = total_interval(samples, "sum")
    assert total is not None and row.interval == total.ends


def test_it_is_ranked_and_tested_as_one_system(board: Board) -> None:
    (table,) = board.tables
    assert [row.rank for row in table.rows] == [1, 2, 3]
    assert [run.rank for run in table.rows[1].runs] == [None] * 3
    assert table.compared_rows == (*table.rows, *table.rows[1].runs)
    assert all(table.find_system(run) is table.rows[1] for run in table.rows[1].runs)
    flipped = [flip_signs([row.entry.sample(name) for row in table.rows]) for name in PAIR.tasks]
    alone, tests = compare_pairs(flipped, "sum"), table.tests.total
    assert tests is not None
    assert np.array_equal(tests.p[:3, :3], alone.p, equal_nan=True)
    assert np.array_equal(tests.adjusted[:3, :3], alone.adjusted, equal_nan=True)
    assert tests.is_tested(
        0, 3
    )  # the best system and a single run, whose pairs don't count in the adjustment


def test_runs_on_other_data_stay_apart_one_by_one(folder: Path, home: Path) -> None:
    entries, keeper = read(folder, home)
    made = []
    for entry in group_runs(entries, keeper):
        if entry.runs:
            moved = [
                {
                    n: replace(r, data=replace(r.data, fingerprint="sha256:other"))
                    for n, r in each.tasks.items()
                }
                for each in (entry, *entry.runs)
            ]
            runs = tuple(replace(run, tasks=tasks) for run, tasks in zip(entry.runs, moved[1:], strict=True))
            entry = replace(entry, tasks=moved[0], runs=runs)
        made.append(entry)
    made += [replace(made[0], path="more", name="more")]
    made += [replace(made[0], path="most", name="most")]
    (table,) = rank_suite(PAIR, made, TASKS).tables
    assert [row.entry.apart for row in table.apart] == ["other data"] * 3 and not any(
        row.runs for row in table.apart
    )


# The pages and files


def submissions_of(site: Path) -> Iterator[Page]:
    yield from (Page(path) for path in sorted((site / "submissions").glob("*.html")))


def test_files_keep_every_run(site: Path) -> None:
    content = json.loads((site / "board.json").read_text(encoding="utf-8"))
    lines = list(csv.DictReader(io.StringIO((site / "board.csv").read_text(encoding="utf-8"))))
    kinds = [one["kind"] for one in content["submissions"]]
    assert kinds == [line["kind"] for line in lines] == ["system", "system", "run", "run", "run", "system"]
    system, *runs = content["submissions"][1:5]
    assert [run["submission"] for run in runs] == ["model-0", "model-1", "model-2"]
    assert {run["run_of"] for run in runs} == {system["page"]} and system["run_of"] is None
    assert (system["runs"], [run["rank"] for run in runs], system["rank"]) == (3, [None] * 3, 2)
    totals = [run["total"] for run in runs]
    assert system["total_deviation"] == pytest.approx(statistics.stdev(totals))
    assert float(lines[1]["total_deviation"]) == pytest.approx(statistics.stdev(totals))
    scores = [run["tasks"]["sst"]["score"] for run in runs]
    assert system["tasks"]["sst"]["deviation"] == pytest.approx(statistics.stdev(scores))
    assert "deviation" not in runs[0]["tasks"]["sst"]


def test_further_columns_are_means(site: Path) -> None:
    script = (site / "data" / "boards" / "board.js").read_text(encoding="ascii")
    arguments = json.loads(f"[{script.strip().removeprefix('decabench.put(').removesuffix(');')}]")
    rows = json.loads(arguments[1])["tables"][0]["rows"]
    assert [row.get("more", {}).get("tokens") for row in rows] == [None, 2, 1, 2, 3, None]
    assert [row.get("more", {}).get("time") for row in rows] == [None, 200, 100, 200, 300, None]


def test_pages_lead_to_the_runs_and_back(site: Path) -> None:
    index = Page(site / "index.html")
    assert "mean of 3 runs" in index.text and "± is the standard deviation across the runs" in index.text
    (system,) = [page for page in submissions_of(site) if page.path.name.startswith("runs-")]
    links = {link["href"] for link in system.named("a")}
    assert {f"model-{seed}-validation.html" for seed in range(3)} <= links
    assert "The examples are on the pages of the runs" in system.text
    run = Page(site / "submissions" / "model-0-validation.html")
    assert system.path.name in {link["href"] for link in run.named("a")}
    assert "one of 3 runs of" in run.text and ", rank 2" in run.text
    for page in (system, run, index):
        for link in page.named("a"):
            address = (link["href"] or "").split("#")[0]
            assert address.startswith("http") or (page.path.parent / address).exists()
    assert not list((site / "data" / "answers").glob("runs-*"))


def test_a_board_without_several_runs_says_nothing_of_them(home: Path, tmp_path: Path) -> None:
    write(home, tmp_path / "in", "one", 0.5, 0, predictor=sampled(0))
    text = write_leaderboard(tmp_path / "in", tmp_path / "out", home=home, examples="none").read_text("utf-8")
    assert "runs" not in text.partition('<h2 id="reading">')[2]


def test_a_review_ranks_a_further_run_with_its_system(folder: Path, home: Path, tmp_path: Path) -> None:
    write(home, tmp_path / "sent", "model-3", 0.6, 13, predictor=sampled(3))
    options = BoardOptions(home, suites="pair", include=write_suite(tmp_path / "pair.toml"))
    (review,) = review_submissions(tmp_path / "sent", "model-3", folder, "validation", options, 300)
    assert review.place.startswith("rank 2") and review.place.endswith("of 3, as the mean of 4 runs")
    total, *_ = review.scores
    assert float(total.difference) == pytest.approx(float(total.score) - float(total.best), abs=0.11)
    assert total.p  # between this run and the best other system


def test_a_review_chooses_among_equal_seeds_as_the_board_does(home: Path, tmp_path: Path) -> None:
    for name, right, seed in (("b", 0.2, 1), ("c", 0.6, 2)):
        write(home, tmp_path / "in", name, right, seed, predictor=sampled(seed))
    write(
        home, tmp_path / "sent", "a", 0.9, 3, predictor=sampled(1)
    )  # a comes before b, which has the same seed
    options = BoardOptions(home, suites="pair", include=write_suite(tmp_path / "pair.toml"))
    (review,) = review_submissions(tmp_path / "sent", "a", tmp_path / "in", "validation", options, 300)
    assert review.place == "rank 1 of 2, as the mean of 2 runs"
    write(home, tmp_path / "in", "a", 0.9, 3, predictor=sampled(1))
    assert sorted(systems(tmp_path / "in", home)) == [["a", "c"], ["b"]]
