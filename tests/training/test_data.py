"""Training data: the vocabulary, the token rule, and streams that go on from where they were."""

import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from decabench.models.classifier import Classifier, ClassifierConfig
from decabench.models.mqan import FAMILY
from decabench.tasks.store import Store
from decabench.training.config import GROUPINGS
from decabench.training.data import BatchRule, BatchStream, Ragged, TaskData, count_words, cut_batches
from decabench.training.loop import run_training
from tests.training.conftest import TINY
from tests.training.conftest import encode_config as encode_tasks


def batches_of(data, budget, seed, epoch, rule="sum"):
    return cut_batches(data, FAMILY, BatchRule(budget, rule), seed, epoch)


def stream(data, position=(0, 0), **settings):
    return BatchStream(data, replace(TINY, **settings), position=position)


def made_up(sizes):
    """A task of examples with these lengths, and words that do not matter."""
    columns = {
        name: Ragged(np.zeros(length.sum(), np.int32), np.cumsum(length)) for name, length in sizes.items()
    }
    return TaskData("squad", columns)


@pytest.fixture
def encoded(home):
    config = replace(TINY, tasks=("squad", "woz.en"), train_examples=0)
    return encode_tasks(Store(home), config)


@pytest.mark.parametrize("budget", [1, 300, 2_000])
def test_the_token_rule(encoded, budget):
    data = encoded[1]["squad"]
    batches = batches_of(data, budget, seed=0, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(data)))
    words = {name: length - 2 for name, length in data.lengths.items()}  # without their marks
    sizes = words["context"] + words["question"] + 5 * words["answer"]
    fills = [sizes[rows].sum() for rows in batches]
    assert all(fill <= budget or len(rows) == 1 for fill, rows in zip(fills, batches, strict=True))
    if budget == 2_000:
        assert np.median(fills) > 0.9 * budget
    marked = cut_batches(data, FAMILY, BatchRule(budget, count_marks=True), 0, 0)
    sizes += 2 + 2 + 5 * 2
    assert all(sizes[rows].sum() <= budget or len(rows) == 1 for rows in marked)
    assert len(marked) >= len(batches)


@pytest.mark.parametrize("budget", [1, 300, 2_000])
def test_the_rule_of_the_authors_code(encoded, budget):
    data = encoded[1]["squad"]
    batches = batches_of(data, budget, seed=0, epoch=0, rule="padded")
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(data)))
    # batch_fn in the authors' util.py: max(len(context), 5 * len(answer)) of the texts before they get their marks
    longest = np.maximum(data.lengths["context"] - 2, 5 * (data.lengths["answer"] - 2))
    fills = [longest[rows].max() * len(rows) for rows in batches]
    assert all(fill <= budget or len(rows) == 1 for fill, rows in zip(fills, batches, strict=True))
    if budget == 2_000:
        assert np.mean(fills) > 0.6 * budget


@pytest.mark.parametrize(
    "settings",
    [{"batch_rule": "sum"}, {"batch_rule": "padded"}, {"count_marks": True}, {"grouping": "none"}],
)
def test_the_rule_is_of_the_settings(encoded, settings):
    data = encoded[1]["woz.en"]
    rule = BatchRule(
        500,
        settings.get("batch_rule", "sum"),
        settings.get("grouping", "lengths"),
        settings.get("count_marks", False),
    )
    expected = cut_batches(data, FAMILY, rule, 0, 0)[0]
    assert next(stream(data, batch_tokens=500, **settings)).tolist() == expected.tolist()


@pytest.mark.parametrize(("grouping", "most"), [("answers", 0.12), ("lengths", 0.17)])
def test_little_padding(grouping, most):
    """Lengths as those of SQuAD, whose examples pad 60 % of the tokens if they are not sorted."""
    random = np.random.default_rng(0)
    count = 20_000
    sizes = {
        "context": random.lognormal(4.9, 0.4, count).astype(int).clip(20, 402),
        "question": random.normal(13.6, 3.7, count).astype(int).clip(4, 60),
        "answer": (2 + random.geometric(0.28, count)).clip(3, 50),
    }
    data = made_up(sizes)

    def share(grouping, answers=1):
        batches = cut_batches(data, FAMILY, BatchRule(10_000, grouping=grouping), 0, 0)
        weighted = [(sizes["context"], 1), (sizes["question"], 1), (sizes["answer"], answers)]
        padded = sum(
            len(rows) * sum(length[rows].max() * times for length, times in weighted) for rows in batches
        )
        return 1 - sum(length.sum() * times for length, times in weighted) / padded

    assert share(grouping) < most and share("none") > 0.5
    assert share("answers", answers=5) < 0.15


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_batches_of_a_small_task_are_full(encoded, grouping):
    """An eighth of a pass can be less than a batch: there, batches by length would have been an eighth of a pass."""
    data = encoded[1]["woz.en"]
    budget = int(FAMILY.sizes(data.lengths).sum() / 6)
    batches = cut_batches(data, FAMILY, BatchRule(budget, grouping=grouping, count_marks=True), 0, 0)
    fills = [FAMILY.sizes(data.lengths)[rows].sum() / budget for rows in batches]
    assert np.median(fills) > 0.85


@pytest.mark.parametrize(("examples", "pool"), [(8_000, 1_000), (2_400, 800), (800, 800), (20_000, 2_500)])
def test_lengths_are_alike_within_an_eighth_of_a_pass_but_at_least_eight_batches(examples, pool):
    """Each example has another length, so that the batches of one pool do not overlap in length, and others do."""
    sizes = np.random.default_rng(0).permutation(np.arange(1, examples + 1))
    data = made_up(
        {"context": sizes * 0 + 4, "question": sizes * 0 + 3, "answer": sizes * 0 + 3, "spread": sizes}
    )
    family = replace(
        FAMILY, columns={**FAMILY.columns, "spread": "words"}, order=lambda found: [found["spread"]]
    )
    rule = BatchRule(100, "examples")
    batches = cut_batches(data, family, rule, seed=0, epoch=0)
    own = np.random.default_rng([0, zlib.crc32(b"squad"), 0]).permutation(examples)
    expected = set()
    for start in range(0, examples, pool):
        rows = own[start : start + pool]
        rows = rows[np.argsort(sizes[rows], kind="stable")]
        expected |= {frozenset(rows[at : at + 100].tolist()) for at in range(0, len(rows), 100)}
    assert {frozenset(rows.tolist()) for rows in batches} == expected


def test_answers_of_one_kind_do_not_fill_a_batch_where_lengths_alone_count():
    """As WOZ's: a third of the answers are one short word, whatever the context; the others are longer."""
    random = np.random.default_rng(0)
    count = 2_500
    is_none = random.random(count) < 1 / 3
    sizes = {
        "context": random.integers(8, 16, count),
        "question": np.full(count, 9),
        "answer": np.where(is_none, 3, random.integers(6, 9, count)),
    }
    data = made_up(sizes)

    def spread(grouping):
        batches = cut_batches(data, FAMILY, BatchRule(1_200, grouping=grouping), 0, 0)
        assert sorted(np.concatenate(batches).tolist()) == list(range(count))
        shares = np.array([is_none[rows].mean() for rows in batches])
        return shares.var() / np.mean([is_none.mean() * (1 - is_none.mean()) / len(rows) for rows in batches])

    assert spread("answers") > 10 and spread("lengths") < 2 and spread("none") < 2


def test_like_lengths_go_together(home):
    data = encode_tasks(Store(home), replace(TINY, tasks=("sst",), train_examples=0))[1]["sst"]
    lengths = data.lengths["context"]

    def padded(batches):
        return sum(len(rows) * lengths[rows].max() for rows in batches)

    bucketed = batches_of(data, 300, seed=0, epoch=0)
    as_they_come = np.array_split(np.arange(len(data)), len(bucketed))
    assert padded(bucketed) - lengths.sum() < 0.5 * (padded(as_they_come) - lengths.sum())


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_batches_come_in_no_order(grouping):
    """Neither by length, for which each pool is sorted, nor as the examples are stored."""
    random, count = np.random.default_rng(0), 2_000
    sizes = {name: random.integers(5, 200, count) for name in ("context", "question", "answer")}
    batches = cut_batches(made_up(sizes), FAMILY, BatchRule(4_000, grouping=grouping), 0, 0)
    assert len(batches) > 100
    for values in (*sizes.values(), np.arange(count)):
        means = [values[rows].mean() for rows in batches]
        assert abs(np.corrcoef(means[1:], means[:-1])[0, 1]) < 0.3


def test_each_pass_mixes_the_examples_anew(encoded):
    """With no grouping a batch would otherwise be of examples that are stored side by side."""
    data = encoded[1]["squad"]
    rows = np.concatenate(cut_batches(data, FAMILY, BatchRule(400, grouping="none"), 0, 0))
    assert sorted(rows) == list(range(len(data)))
    assert np.mean(np.diff(rows) == 1) < 0.2


def test_batches_depend_on_seed_and_epoch_alone(encoded):
    data = encoded[1]["woz.en"]

    def flat(*arguments):
        return [rows.tolist() for rows in batches_of(data, 300, *arguments)]

    assert flat(0, 0) == flat(0, 0)
    assert flat(0, 0) != flat(0, 1) != flat(1, 1)


def test_a_stream_goes_on_from_its_position(encoded):
    data = encoded[1]["woz.en"]
    first = stream(data)
    seen, positions = [], []
    for _ in range(3 * len(batches_of(data, 300, 0, 0))):
        positions.append(first.position)
        seen.append(next(first).tolist())
    for at in (0, 1, len(seen) // 2, len(seen) - 1):
        again = stream(data, positions[at])
        assert [next(again).tolist() for _ in seen[at:]] == seen[at:]


def test_words_are_counted(encoded):
    lexicon, tasks = encoded
    counts = count_words(tasks.values(), FAMILY, len(lexicon))
    texts = [column.values for task in tasks.values() for column in task.columns.values()]
    expected = Counter(np.concatenate(texts).tolist())
    assert {number: count for number, count in enumerate(counts.tolist()) if count} == dict(expected)


def test_a_network_is_built_with_the_counts(make_run, monkeypatch):
    """Before the first step and when it is resumed, whether or not the examples were encoded anew."""
    seen = []
    original = Classifier.__init__

    def build(network, config, outputs, words):
        seen.append(words.lexicon.counts.copy())
        original(network, config, outputs, words)

    monkeypatch.setattr(Classifier, "__init__", build)
    model = ClassifierConfig(dimension=4)
    run_training(make_run(model=model, tasks=("sst",), steps=2))
    run_training(make_run(model=model, tasks=("sst",), steps=4, resume=True))
    first, second = (counts for counts in seen if len(counts))  # the others are sketches, for their size
    assert first.sum() > 100 and np.array_equal(first, second)
