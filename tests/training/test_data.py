from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from decabench.models.mqan import FAMILY
from decabench.tasks.store import Store
from decabench.training.data import BatchStream, cut_batches
from tests.training.conftest import TINY
from tests.training.conftest import encode_config as encode_tasks


def batches_of(data, budget, **settings):
    return cut_batches(data, replace(TINY, batch_tokens=budget, seed=0, **settings), 0)


def stream(data, position=(0, 0), **settings):
    return BatchStream(data, replace(TINY, **settings), position=position)


@pytest.fixture
def encoded(home):
    config = replace(TINY, tasks=("squad", "woz.en"), train_examples=0)
    return encode_tasks(Store(home), config)


@pytest.mark.parametrize("budget", [1, 300, 2_000])
def test_the_token_rule(encoded, budget):
    data = encoded[1]["squad"]
    batches = batches_of(data, budget)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(data)))
    words = {name: length - 2 for name, length in data.lengths.items()}  # without their marks
    sizes = words["context"] + words["question"] + 5 * words["answer"]
    fills = [sizes[rows].sum() for rows in batches]
    assert all(fill <= budget or len(rows) == 1 for fill, rows in zip(fills, batches, strict=True))
    if budget == 2_000:
        assert np.median(fills) > 0.9 * budget
    marked = batches_of(data, budget, count_marks=True)
    sizes += 2 + 2 + 5 * 2
    assert all(sizes[rows].sum() <= budget or len(rows) == 1 for rows in marked)
    assert len(marked) >= len(batches)


@pytest.mark.parametrize("budget", [1, 300, 2_000])
def test_the_rule_of_the_authors_code(encoded, budget):
    data = encoded[1]["squad"]
    batches = batches_of(data, budget, batch_rule="padded")
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(data)))
    # batch_fn in the authors' util.py: max(len(context), 5 * len(answer)) of the texts before they get their marks
    longest = np.maximum(data.lengths["context"] - 2, 5 * (data.lengths["answer"] - 2))
    fills = [longest[rows].max() * len(rows) for rows in batches]
    assert all(fill <= budget or len(rows) == 1 for fill, rows in zip(fills, batches, strict=True))
    if budget == 2_000:
        assert np.mean(fills) > 0.6 * budget


@pytest.mark.parametrize("grouping", ["answers", "lengths", "none"])
def test_batches_of_a_small_task_are_full(encoded, grouping):
    data = encoded[1]["woz.en"]
    budget = int(FAMILY.sizes(data.lengths).sum() / 6)
    batches = batches_of(data, budget, grouping=grouping, count_marks=True)
    fills = [FAMILY.sizes(data.lengths)[rows].sum() / budget for rows in batches]
    assert np.median(fills) > 0.85


def test_like_lengths_go_together(home):
    data = encode_tasks(Store(home), replace(TINY, tasks=("sst",), train_examples=0))[1]["sst"]
    lengths = data.lengths["context"]

    def padded(batches):
        return sum(len(rows) * lengths[rows].max() for rows in batches)

    bucketed = batches_of(data, 300)
    as_they_come = np.array_split(np.arange(len(data)), len(bucketed))
    assert padded(bucketed) - lengths.sum() < 0.5 * (padded(as_they_come) - lengths.sum())


def test_a_stream_goes_on_from_its_position(encoded):
    data = encoded[1]["woz.en"]
    first = stream(data)
    seen, positions = [], []
    for _ in range(3 * len(batches_of(data, 300))):
        positions.append(first.position)
        seen.append(next(first).tolist())
    for at in (0, 1, len(seen) // 2, len(seen) - 1):
        again = stream(data, positions[at])
        assert [next(again).tolist() for _ in seen[at:]] == seen[at:]
