"""Training data: the vocabulary, the token rule, and streams that go on from where they were."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from decabench.models.mqan import FAMILY
from decabench.models.words import EOS, INIT, SPECIALS, tokenize
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.training.data import BatchStream, cut_batches
from decabench.training.data import encode_tasks as encode
from tests.training.conftest import TINY


def encode_tasks(store, config, cache=None):
    """The lexicon and the tasks' data."""
    found = encode(store, config, {name: TASKS[name] for name in config.tasks}, cache)
    return found.lexicon, found.tasks


def batches_of(data, budget, seed, epoch):
    return cut_batches(data, FAMILY, budget, False, seed, epoch)


def stream(data, position=(0, 0), **settings):
    return BatchStream(data, replace(TINY, **settings), position=position)


@pytest.fixture
def encoded(home):
    config = replace(TINY, tasks=("squad", "woz.en"), train_examples=0)
    return encode_tasks(Store(home), config)


def test_numbers_say_what_the_texts_said(encoded, home):
    lexicon, found = encoded
    for task, data in found.items():
        rows = list(Store(home).examples(task, "train"))
        rows = [row for row in rows if task != "squad" or len(tokenize(row.context.lower())) <= 400]
        assert len(rows) == len(data)
        for at, row in enumerate(rows):
            item = data.item(at)
            assert lexicon.decode(item["context"][1:]) == row.context.lower()
            assert lexicon.decode(item["question"][1:]) == row.question.lower()
            assert lexicon.decode(item["answer"][1:]) == row.answers[0].lower()
            assert (item["answer"][0], item["answer"][-1]) == (INIT, EOS)
            size = len(item["context"]) + len(item["question"]) + 5 * len(item["answer"])
            assert FAMILY.sizes(data.lengths)[at] == size


def test_the_vocabulary_is_the_most_frequent_words(home):
    from collections import Counter

    config = replace(
        TINY, tasks=("sst", "schema"), train_examples=0, model=replace(TINY.model, vocabulary=20)
    )
    lexicon, _ = encode_tasks(Store(home), config)
    counts = Counter()
    for task in config.tasks:
        for row in Store(home).examples(task, "train"):
            for text in (row.context, row.question, row.answers[0]):
                counts.update(tokenize(text.lower()))
    kept = lexicon.words[len(SPECIALS) : lexicon.size]
    assert len(kept) == 20
    assert min(counts[word] for word in kept) >= max(counts[word] for word in counts.keys() - set(kept))
    assert set(lexicon.words) == counts.keys() | set(SPECIALS)


def test_long_contexts_are_left_out_or_cut(home):
    config = replace(TINY, tasks=("sst",), train_examples=0)
    _, whole = encode_tasks(Store(home), config)
    lengths = whole["sst"].lengths["context"] - 2
    limit = int(np.median(lengths))
    _, without = encode_tasks(Store(home), replace(config, skip_context={"sst": limit}))
    assert without["sst"].lengths["context"].max() - 2 == limit
    assert len(without["sst"]) == (lengths <= limit).sum()
    _, cut = encode_tasks(Store(home), replace(config, cut_context={"sst": limit}))
    assert (cut["sst"].lengths["context"] - 2).tolist() == np.minimum(lengths, limit).tolist()


@pytest.mark.parametrize("budget", [1, 300, 2_000])
def test_the_token_rule(encoded, budget):
    data = encoded[1]["squad"]
    batches = batches_of(data, budget, seed=0, epoch=0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(data)))
    sizes = [FAMILY.sizes(data.lengths)[rows].sum() for rows in batches]
    assert all(size <= budget or len(rows) == 1 for size, rows in zip(sizes, batches, strict=True))


def test_like_lengths_go_together(home):
    data = encode_tasks(Store(home), replace(TINY, tasks=("sst",), train_examples=0))[1]["sst"]
    lengths = data.lengths["context"]

    def padded(batches):
        return sum(len(rows) * lengths[rows].max() for rows in batches)

    bucketed = batches_of(data, 300, seed=0, epoch=0)
    as_they_come = np.array_split(np.arange(len(data)), len(bucketed))
    assert padded(bucketed) - lengths.sum() < 0.5 * (padded(as_they_come) - lengths.sum())


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


def test_what_was_read_is_kept(home, tmp_path):
    config = replace(TINY, tasks=("sst", "woz.en"))
    lexicon, found = encode_tasks(Store(home), config, tmp_path)

    def same(config):
        again, read = encode_tasks(Store(home), config, tmp_path)
        return (again.words, again.size) == (lexicon.words, lexicon.size) and all(
            np.array_equal(getattr(one.columns[part], name), getattr(read[task].columns[part], name))
            for task, one in found.items()
            for part in ("context", "question", "answer")
            for name in ("values", "ends")
        )

    kept = (tmp_path / "words.json").stat().st_mtime_ns
    assert same(config)
    assert (tmp_path / "words.json").stat().st_mtime_ns == kept
    assert not same(replace(config, train_examples=3))
    (tmp_path / "numbers.safetensors").write_bytes(b"x")
    assert same(config)
