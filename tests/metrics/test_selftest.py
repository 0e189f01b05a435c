"""The metric selftest."""

import gzip
import json

import pytest

from decabench.metrics.base import MetricError
from decabench.metrics.selftest import CaseResult, run_selftest


def test_every_case_passes():
    results = run_selftest()
    assert [result for result in results if not result.passed] == []
    assert {result.name for result in results} == {
        "bleu", "rouge", "rouge155", "schema", "squad", "srl", "sst", "wikisql", "woz.en", "zre"
    }  # fmt: skip


def test_a_difference_fails():
    assert CaseResult("a", "b", "c", 1.0, 1.0 + 1e-7, 1e-6).passed
    assert not CaseResult("a", "b", "c", 1.0, 1.1, 1e-6).passed
    assert not CaseResult("a", "b", "c", 1.0, float("nan"), 1e-6).passed


def test_an_incomplete_installation(tmp_path):
    with pytest.raises(MetricError, match="incomplete"):
        run_selftest(tmp_path / "none.jsonl.gz")


def test_another_format(tmp_path):
    with gzip.open(tmp_path / "x.jsonl.gz", "wt") as file:
        file.write(json.dumps({"format": 2}) + "\n")
    with pytest.raises(MetricError, match="format 2"):
        run_selftest(tmp_path / "x.jsonl.gz")
