"""Results as a DataFrame."""

import shutil

import pytest

import decabench
from decabench.errors import DataError, MissingDataError
from decabench.scoring.evaluator import evaluate
from decabench.scoring.results import read_results, write_results_file
from decabench.tasks import DECATHLON


@pytest.fixture
def submissions(home, submit, tmp_path):
    """The oracle over ten tasks, the majority over two of which one fails."""
    for name, tasks in (("oracle", DECATHLON.tasks), ("majority", ("sst", "schema"))):
        folder = submit(name, tasks, f"submissions/{name}")
        if name == "majority":
            with (folder / "predictions" / "schema.validation.jsonl").open("a") as file:
                file.write('{"id": "nobody", "answer": ""}\n')
        write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    return tmp_path / "submissions"


def test_read_results(submissions):
    frame = decabench.read_results(submissions)
    assert len(frame) == 20
    assert list(frame.index) == list(range(20))
    assert list(frame["submission"]) == ["oracle"] * 10 + ["majority"] * 10  # the best first
    assert list(frame["task"][:10]) == list(DECATHLON.tasks)
    assert frame["score"][:10].tolist() == pytest.approx([100] * 10)
    assert frame["decascore"][:10].tolist() == pytest.approx([1000] * 10)
    assert frame.columns.tolist()[:8] == [
        "submission",
        "split",
        "decascore",
        "complete",
        "total",
        "path",
        "task",
        "status",
    ]
    assert {"metric", "n", "empty", "origin", "verified", "fingerprint", "scores"} <= set(frame.columns)


def test_failed_and_missing_are_no_noughts(submissions):
    frame = read_results(str(submissions))
    partial = frame[frame["submission"] == "majority"].set_index("task")
    assert partial["status"].to_dict() == {
        **dict.fromkeys(DECATHLON.tasks, "missing"),
        "sst": "scored",
        "schema": "failed",
    }
    assert partial["score"].notna().to_dict() == {name: name == "sst" for name in DECATHLON.tasks}
    assert partial["decascore"].isna().all() and not partial["complete"].any()
    assert partial["total"].tolist() == pytest.approx([partial.loc["sst", "score"]] * 10)


def test_only_partial_results(submissions):
    shutil.rmtree(submissions / "oracle")
    assert len(read_results(submissions)) == 10


def test_no_results(tmp_path):
    with pytest.raises(MissingDataError, match=r"There is no results\.json below .*: run decabench evaluate"):
        read_results(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"format": "decabench.results/9"}'])
def test_a_damaged_file_is_a_sentence(submissions, content):
    (submissions / "oracle" / "results" / "validation" / "results.json").write_bytes(content)
    with pytest.raises(DataError, match=r"oracle/results/validation/results\.json"):
        read_results(submissions)
