"""`decabench metrics`, `metrics selftest`."""

from dataclasses import replace

from decabench.metrics import METRICS, selftest


def test_list(command):
    done = command("metrics")
    assert done.exit_code == 0
    assert [line for line in done.stdout.splitlines() if line and not line.startswith(" ")] == list(METRICS)
    for metric in METRICS.values():
        assert metric.definition in done.stdout and metric.source in done.stdout
    assert "range      -100 to 100, higher is better" in done.stdout
    assert "lower is better" in done.stdout


def test_selftest(command):
    done = command("metrics", "selftest")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[-1] == f"{len(lines) - 2} scores: all agree"
    assert len(lines) > 10 and all(line.rstrip().endswith("pass") for line in lines[1:-1])


def test_a_difference_exits_with_1(command, monkeypatch):
    results = selftest.run_selftest()
    wrong = replace(results[0], got=results[0].expected + 1)
    monkeypatch.setattr(selftest, "run_selftest", lambda: [wrong, *results[1:]])
    done = command("metrics", "selftest")
    assert done.exit_code == 1
    assert done.stdout.count("FAIL") == 1
    assert done.stdout.endswith(f"{len(results)} scores: 1 differs\n")
