"""Statistics beside the results: believed where they fit, as if missing where they do not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from decabench.leaderboard.entries import Entry, read_submissions
from decabench.leaderboard.evidence import Evidence


def entries(folder: Path) -> dict[str, Entry]:
    return {entry.path.split("/")[0]: entry for entry in read_submissions(folder).entries}


def test_scores_of_single_examples(made_up: Path) -> None:
    entry = entries(made_up)["system-00"]
    found = Evidence(made_up).find(entry, "squad")
    assert found is not None
    assert found.sample.score == pytest.approx(entry.tasks["squad"].score)
    assert float(np.mean(found.scores)) == pytest.approx(found.sample.score, abs=1e-3)
    assert len(found.sample.sizes) == len(found.sample.effects) == 8 and len(found.scores) == 32


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


def test_units_are_those_of_the_statistics_and_not_as_stated(made_up: Path, tmp_path: Path) -> None:
    from decabench.leaderboard import write_leaderboard

    shutil.copytree(made_up / "system-04", tmp_path / "in" / "system-04")
    path = tmp_path / "in" / "system-04" / "results" / "validation" / "results.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["tasks"]["sst"]["units"] = {"number": 123_456, "effective": 123_456.0}
    path.write_text(json.dumps(content), encoding="utf-8")
    write_leaderboard(tmp_path / "in", tmp_path / "out", examples="none")
    page = (tmp_path / "out" / "tasks" / "sst.html").read_text(encoding="utf-8")
    assert "123,456" not in page
    known = Evidence(tmp_path / "in").find(entries(tmp_path / "in")["system-04"], "sst")
    assert known is not None and known.units == "32 sentences"


def test_the_reference_results_have_the_intervals_of_their_statistics() -> None:
    """Found by a reader: after intervals of totals had changed, `verify` refused the results of this repository."""
    folder = Path(__file__).parents[2] / "submissions"
    evidence = Evidence(folder)
    entries = read_submissions(folder).entries
    assert len(entries) > 40
    for entry in entries:
        found = {name: evidence.find(entry, name) for name in entry.tasks}
        assert {name: known and known.interval for name, known in found.items()} == {
            name: task.interval for name, task in entry.tasks.items()
        }, entry.path
        assert evidence.total_interval(entry) == entry.interval, entry.path
