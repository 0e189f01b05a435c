"""Times and hardware go to a file of their own."""

import json
import re
import time

import decabench
from decabench.commands._console import Clock, start_clock, write_run_file


def test_run_file(tmp_path):
    clock = start_clock()
    content = json.loads(write_run_file(tmp_path / "new", clock).read_text())
    assert (tmp_path / "new" / "run.json").exists()
    assert content["format"] == "decabench.run/1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", content["started"])
    assert content["decabench"] == decabench.__version__
    assert content["packages"].keys() >= {"numpy", "pyarrow", "sacrebleu", "rouge-score", "datasets"}
    assert 1 < content["peak_memory_mb"] < 1_000_000
    assert content["cpus"] >= 1


def test_seconds_are_counted_from_the_start(tmp_path):
    clock = Clock("2026-01-31T00:00:00Z", time.monotonic() - 5)
    seconds = json.loads(write_run_file(tmp_path, clock).read_text())["seconds"]
    assert 5 <= seconds < 6
