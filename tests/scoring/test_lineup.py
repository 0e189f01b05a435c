"""Several submissions: runs of one model are a row, and p is corrected for all pairs."""

import itertools

import pytest

from decabench.predictors import ModelOptions
from decabench.scoring import compare, compare_all
from decabench.scoring.pairs import holm


@pytest.fixture
def runs(submit):
    tasks = ("sst", "schema")
    seeds = [submit("random", tasks, f"random-{seed}", options=ModelOptions(seed=seed)) for seed in (1, 2)]
    return [submit("majority", tasks), *seeds, submit("oracle", tasks)]


def test_runs_of_a_model_are_a_row_with_their_spread(runs, home):
    found = compare_all(runs, home=home, tasks=["sst", "schema"])
    assert found.rows[0].name == "oracle" and len(found.rows) == 3
    row = next(row for row in found.rows if row.name == "random")
    alone = [compare(runs[3], run, home=home).tasks["sst"].b for run in runs[1:3]]
    assert row.paths == tuple(map(str, runs[1:3]))
    assert row.scores["sst"] == pytest.approx(sum(alone) / 2) and row.spread["sst"] == (
        min(alone),
        max(alone),
    )


def test_every_pair_is_that_of_a_comparison_of_two_and_corrected_for_all(runs, home):
    found = compare_all(runs, home=home, each=True)
    assert len(found.rows) == 4 and all(len(pairs) == 6 for pairs in found.pairs.values())
    p = {}
    for task, pairs in found.pairs.items():
        for pair, (a, b) in zip(pairs, itertools.combinations(found.rows, 2), strict=True):
            two = compare(a.paths[0], b.paths[0], home=home).tasks[task]
            assert (pair.difference, pair.p) == (pytest.approx(two.difference), two.p)
            assert pair.interval == pytest.approx(two.interval) if two.interval else pair.interval is None
            p[f"{task} {pair.a} {pair.b}"] = two.p
    corrected = [pair.p_holm for pairs in found.pairs.values() for pair in pairs]
    assert corrected == pytest.approx(list(holm(p).values()))
