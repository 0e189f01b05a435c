"""Statistics files: what was written is what intervals and tests read."""

from __future__ import annotations

import numpy as np
import pytest

from decabench.errors import DataError
from decabench.scoring import ScoringOptions, read_rows, score_submission, write_statistics
from decabench.scoring.examples import STATISTICS, write_rows
from decabench.scoring.significance import Sample, score_interval


@pytest.fixture
def scored(home, submit, tmp_path):
    folder = submit("lead-3", ["squad", "woz.en", "iwslt.en.de"], "s")
    results, found = score_submission(folder, ScoringOptions(home=home))
    write_statistics(tmp_path / "results", found)
    return results, found, tmp_path / "results"


def read_sample(folder, task, metric):
    units, rows = read_rows(folder / STATISTICS / f"{task}.parquet", metric.columns)
    return Sample.of_levels(metric, rows, units, task)


@pytest.mark.parametrize("task", ["squad", "woz.en", "iwslt.en.de"])
def test_round_trip(scored, task):
    results, found, folder = scored
    sample = read_sample(folder, task, found[task].sample.metric)
    assert np.array_equal(sample.rows, found[task].sample.rows)
    assert (sample.examples, sample.name) == (results.tasks[task].n, task)
    assert sample.score == pytest.approx(results.tasks[task].score, abs=1e-9)
    assert score_interval(sample) == score_interval(found[task].sample)


def test_units_are_dialogues(scored):
    _, found, folder = scored
    dialogues = {item.units for item in found["woz.en"].references}
    units, _ = read_rows(folder / STATISTICS / "woz.en.parquet", found["woz.en"].sample.metric.columns)
    assert set(units[:, 0]) == set(range(len(dialogues)))


def test_damaged_and_other_columns(scored):
    path = scored[2] / STATISTICS / "squad.parquet"
    with pytest.raises(DataError, match=r"squad\.parquet is damaged .*: evaluate again"):
        read_rows(path, ["n", "nothing"])
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"squad\.parquet is damaged .*: evaluate again"):
        read_rows(path, ["n"])


def test_the_interval_of_the_results_is_the_sample_s(scored):
    results, found, _ = scored
    assert results.tasks["squad"].interval == score_interval(found["squad"].sample).ends
    assert results.interval is None  # three tasks have no decaScore


def test_the_results_say_what_was_sampled(scored):
    results, found, _ = scored
    units = results.tasks["woz.en"].units
    assert units.number == len(found["woz.en"].sample.sizes)
    assert 1 < units.effective <= units.number


def test_units_are_numbered_outermost_first(tmp_path):
    path = tmp_path / "squad.parquet"
    units = [("Oslo", "1"), ("Oslo", "2"), ("Bergen", "1"), ("Oslo", "1")]
    write_rows(path, "em", "em", {"n": [1.0, 1, 1, 1]}, units)
    numbers, rows = read_rows(path, ["n"])
    assert numbers.tolist() == [[0, 0], [0, 1], [1, 2], [0, 0]]
    assert rows.tolist() == [[1.0]] * 4
