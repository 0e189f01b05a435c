"""Statistics beside the results: believed where they fit, as if missing where they do not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from decabench.leaderboard.entries import Entry, read_submissions
from decabench.leaderboard.evidence import Evidence, ShuffleTest, TaskEvidence, standard_errors
from decabench.metrics import METRICS
from decabench.scoring.significance import Sample, combine_differences, paired_test
from decabench.tasks import DECATHLON


def entries(folder: Path) -> dict[str, Entry]:
    return {entry.path.split("/")[0]: entry for entry in read_submissions(folder).entries}


def all_of(evidence: Evidence, entry: Entry) -> list[TaskEvidence | None]:
    return [evidence.find(entry, task) for task in DECATHLON.tasks]


def test_scores_of_single_examples(made_up: Path) -> None:
    entry = entries(made_up)["system-00"]
    found = Evidence(made_up).find(entry, "squad")
    assert found is not None
    assert found.sample.score == pytest.approx(entry.tasks["squad"].score)
    assert float(np.mean(found.scores)) == pytest.approx(found.sample.score, abs=1e-3)
    assert len(found.sample.rows) == 8 and len(found.scores) == 32


def test_influence_is_exact_for_an_average(made_up: Path) -> None:
    found = Evidence(made_up).find(entries(made_up)["system-00"], "sst")
    assert found is not None
    expected = (found.sample.rows[:, 3] * 100 - found.sample.score) / 32
    assert found.influence == pytest.approx(expected, abs=1e-4)


def test_standard_errors_agree_with_the_paired_bootstrap(made_up: Path) -> None:
    known, evidence = entries(made_up), Evidence(made_up)
    for task in ("sst", "schema", "zre"):
        a, b = (evidence.find(known[name], task) for name in ("system-00", "system-03"))
        assert a is not None and b is not None
        error = standard_errors([a, None, b])[2][0]
        drawn = paired_test(a.sample, b.sample, resamples=2000, shuffles=1).drawn
        assert error == pytest.approx(float(np.std(drawn)), rel=0.2)
        assert standard_errors([a, None, b])[1] == [None, None, None]


def test_the_test_agrees_with_the_slow_one(made_up: Path) -> None:
    known, evidence = entries(made_up), Evidence(made_up)
    for names in (("system-00", "system-02"), ("system-02", "system-04")):
        first, second = (all_of(evidence, known[name]) for name in names)
        pairs = [(a.sample, b.sample) for a, b in zip(first, second, strict=True) if a and b]
        slow = combine_differences([paired_test(a, b, resamples=2, shuffles=4000) for a, b in pairs]).p
        assert ShuffleTest(4000).test_totals(first, second) == pytest.approx(slow, abs=0.03)


def test_partial_systems_are_not_tested(made_up: Path) -> None:
    known, evidence = entries(made_up), Evidence(made_up)
    assert (
        ShuffleTest().test_totals(all_of(evidence, known["system-00"]), all_of(evidence, known["system-05"]))
        is None
    )


def test_a_system_does_not_differ_from_itself(made_up: Path) -> None:
    same = all_of(Evidence(made_up), entries(made_up)["system-00"])
    assert ShuffleTest().test_totals(same, same) == 1.0


def damaged(path: Path) -> None:
    path.write_bytes(b"PAR1 and no more")


def cut(path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(path).slice(0, 5), path)


def without_a_column(path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table(path).drop_columns(["em"]), path)


@pytest.mark.parametrize("spoil", [damaged, cut, without_a_column, Path.unlink])
def test_statistics_that_do_not_fit_count_as_missing(made_up: Path, tmp_path: Path, spoil) -> None:  # type: ignore[no-untyped-def]
    shutil.copytree(made_up / "system-04", tmp_path / "system-04")
    spoil(tmp_path / "system-04" / "results" / "validation" / "statistics" / "sst.parquet")
    entry = entries(tmp_path)["system-04"]
    assert Evidence(tmp_path).find(entry, "sst") is None
    assert Evidence(tmp_path).find(entry, "schema") is not None


def test_statistics_of_other_answers_count_as_missing(made_up: Path, tmp_path: Path) -> None:
    shutil.copytree(made_up / "system-04", tmp_path / "system-04")
    path = tmp_path / "system-04" / "results" / "validation" / "results.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["tasks"]["sst"]["score"] -= 1
    content["decascore"] -= 1
    content["total"]["score"] -= 1
    path.write_text(json.dumps(content), encoding="utf-8")
    assert Evidence(tmp_path).find(entries(tmp_path)["system-04"], "sst") is None


def test_errors_of_short_scales_do_not_become_zero() -> None:
    rng = np.random.default_rng(1)
    systems = []
    for spread in (0.0001, 0.0002):
        rows = np.stack([np.ones(50), rng.random(50) * spread, np.zeros(50)], axis=1)
        sample = Sample(METRICS["mse"], rows, 50, "own")
        systems.append(TaskEvidence(sample, rows[:, 1] / 50 - sample.score / 50, rows[:, 1]))
    error = standard_errors(systems)[1][0]
    assert error is not None and 0 < error < 0.0001
