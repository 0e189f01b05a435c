"""Statistics files: what was written is what intervals and tests read."""

from __future__ import annotations

import numpy as np
import pytest

from decabench.errors import DataError
from decabench.runs.write import predict
from decabench.scoring.evaluator import Scoring, score_submission
from decabench.scoring.significance import bootstrap
from decabench.scoring.statistics import FOLDER, read_sample, write_statistics


@pytest.fixture
def scored(home, tmp_path):
    folder = predict("lead-3", tmp_path / "s", ("squad", "woz.en", "iwslt.en.de"), home=home)
    results, found = score_submission(folder, Scoring(home=home))
    write_statistics(tmp_path / "results", found)
    return results, found, tmp_path / "results"


@pytest.mark.parametrize("task", ["squad", "woz.en", "iwslt.en.de"])
def test_round_trip(scored, task):
    results, found, folder = scored
    sample = read_sample(folder, task)
    assert np.array_equal(sample.rows, found[task].sample.rows)
    assert (sample.examples, sample.name) == (results.tasks[task].n, task)
    assert sample.score == pytest.approx(results.tasks[task].score, abs=1e-9)
    assert np.array_equal(bootstrap(sample), bootstrap(found[task].sample))


def test_groups_are_dialogues(scored):
    _, found, folder = scored
    dialogues = {item.group for item in found["woz.en"].references}
    assert len(read_sample(folder, "woz.en").rows) == len(dialogues)


def test_none_and_damaged(scored):
    folder = scored[2]
    assert read_sample(folder, "sst") is None
    (folder / FOLDER / "squad.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"squad\.parquet is damaged .*: evaluate again"):
        read_sample(folder, "squad")


def test_the_interval_of_the_results_is_the_bootstrap_s(scored):
    results, found, _ = scored
    low, high = np.percentile(bootstrap(found["squad"].sample), [2.5, 97.5])
    assert results.tasks["squad"].interval == (round(low, 4), round(high, 4))
    assert results.interval is None  # three tasks have no decaScore
