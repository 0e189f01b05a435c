"""Prepared data never change: the fingerprints of all splits of the sample and of the mirror are on record."""

from __future__ import annotations

from pathlib import Path

import pytest

from decabench.tasks.preparation import prepare_all, sample_sources
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from tests.tasks.conftest import Prepared, PreparedSuites, Requests

Facts = dict[tuple[str, str], tuple[int, str, str]]
"""(task, split) -> rows, fingerprint, digest of the units."""


def recorded(label: str) -> Facts:
    lines = Path(__file__).with_name("fingerprints.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return {(task, split): (int(count), *digests) for of, task, split, count, *digests in rows if of == label}  # type: ignore[misc]


def found(store: Store, known: Facts) -> Facts:
    """The prepared splits among those on record, so that a new dataset needs no line."""
    records = {pair: store.records(pair[0]).get(pair[1]) for pair in known}
    return {
        pair: (each.rows, *(value[7:23] for value in (each.fingerprint, each.units_digest)))
        for pair, each in records.items()
        if each is not None
    }


def test_the_sample(request_for: Requests) -> None:
    request, known = request_for(sample=True), recorded("sample")
    tasks = [task for task in TASKS.values() if task.files_folder in sample_sources()]
    ended = prepare_all(tasks, request, 1)
    assert [each.error for each in ended if each.error] == []
    assert found(Store(request.home), known) == known


@pytest.mark.mirror
def test_the_mirror(prepared: Prepared, prepared_suites: PreparedSuites) -> None:
    known = recorded("mirror")
    assert {**found(prepared_suites.store, known), **found(prepared.store, known)} == known
