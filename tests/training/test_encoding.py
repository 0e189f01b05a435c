import shutil
from collections import Counter
from dataclasses import replace
from itertools import groupby, islice

import numpy as np
import pytest

pytest.importorskip("torch")

from decabench.errors import DataError, DecabenchError
from decabench.models.mqan import FAMILY
from decabench.tasks import TASKS, known_tasks, prepare
from decabench.tasks.store import Store
from decabench.training import data as training_data
from decabench.training.data import CACHE
from decabench.vectors.tokenizer import EOS, INIT, SPECIALS, tokenize
from tests.training.conftest import TINY
from tests.training.conftest import encode_config as encode_tasks


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


def count_words(home, tasks, *splits):
    """Return the count of each word in the tasks' texts and first answers."""
    rows = (row for task in tasks for split in splits for row in Store(home).examples(task, split))
    texts = (text for row in rows for text in (row.context, row.question, row.answers[0]))
    return Counter(token for text in texts for token in tokenize(text.lower()))


def test_the_vocabulary_is_the_most_frequent_words(home):
    config = replace(
        TINY, tasks=("sst", "schema"), train_examples=0, model=replace(TINY.model, vocabulary=20)
    )
    lexicon, _ = encode_tasks(Store(home), config)
    counts = count_words(home, config.tasks, "train")
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


def loud(example, earlier):
    return f"{example.answers[0]} {example.id} !"


def quiet(example, earlier):
    return f"{example.answers[0]} ..."


@pytest.fixture
def forms(home):
    sst = replace(TASKS["sst"], target_forms={"loud": loud, "quiet": quiet})

    def encode(form=None, sst=sst, **settings):
        wanted = {"sst": form} if form else {}
        config = replace(TINY, tasks=("sst", "schema"), train_examples=0, target_forms=wanted, **settings)
        made = training_data.encode_tasks(Store(home), config, {"sst": sst, "schema": TASKS["schema"]})
        return {
            name: [made.lexicon.decode(task.item(at)["answer"][1:]) for at in range(len(task))]
            for name, task in made.tasks.items()
        }

    return encode


@pytest.mark.parametrize(("task", "most"), [("woz.en", 5), ("squad", 3), ("schema", 1)])
def test_a_form_is_given_what_comes_directly_before_with_the_same_units(home, task, most):
    seen = []

    def form(example, earlier):
        seen.append((example.id, [other.id for other in earlier]))
        return example.answers[0]

    own = replace(TASKS[task], target_forms={"seen": form})
    config = replace(TINY, tasks=(task,), train_examples=0, target_forms={task: "seen"})
    training_data.encode_tasks(Store(home), config, {task: own})
    runs = [
        [row.id for row in run]
        for _, run in groupby(Store(home).examples(task, "train"), key=lambda row: row.units)
    ]
    assert seen == [(id, run[:at]) for run in runs for at, id in enumerate(run)]
    assert max(len(earlier) for _, earlier in seen) == most


def test_answers_of_validation_are_learned_as_they_are(home, forms):
    both = forms("loud", learn_validation=True, best_by="last")["sst"]
    rows = [row for split in ("train", "validation") for row in Store(home).examples("sst", split)]
    train = len(list(Store(home).examples("sst", "train")))
    assert both == [loud(row, ()).lower() for row in rows[:train]] + [
        row.answers[0].lower() for row in rows[train:]
    ]


def test_words_of_validation_may_count_too(home):
    config = replace(TINY, tasks=("sst", "schema"), train_examples=0, validation_words=True)
    lexicon, _ = encode_tasks(Store(home), config)
    counts = count_words(home, config.tasks, "train", "validation")
    known = lexicon.words[len(SPECIALS) :]
    assert set(known) == counts.keys()
    assert [counts[word] for word in known] == sorted(counts.values(), reverse=True)
    train, _ = encode_tasks(Store(home), replace(config, validation_words=False))
    assert set(train.words) < set(lexicon.words)


@pytest.mark.parametrize("setting", ["validation_words", "learn_validation"])
def test_no_checkpoint_holds_words_of_hidden_labels(home, own_task, tmp_path, setting):
    path = own_task(["a secret", "another"])
    path.write_text(f'hidden = ["validation"]\n{path.read_text()}')
    prepare("own", home=tmp_path / "home", include=[path])
    config = replace(TINY, tasks=("own",), train_examples=0, best_by="last")
    tasks = {"own": known_tasks([path])["own"]}
    assert training_data.encode_tasks(Store(tmp_path / "home"), config, tasks).tasks["own"]
    with pytest.raises(DecabenchError, match="validation labels of own are hidden"):
        training_data.encode_tasks(Store(tmp_path / "home"), replace(config, **{setting: True}), tasks)


def test_validation_examples_may_be_learned_from(home):
    config = replace(TINY, tasks=("sst",), train_examples=5, learn_validation=True, best_by="last")
    lexicon, data = encode_tasks(Store(home), config)
    rows = [*islice(Store(home).examples("sst", "train"), 5), *Store(home).examples("sst", "validation")]
    assert len(data["sst"]) == len(rows) > 5
    for at in (0, 4, 5, len(rows) - 1):
        assert lexicon.decode(data["sst"].item(at)["context"][1:]) == rows[at].context.lower()
    with pytest.raises(
        DecabenchError, match=r"'best_by' to 'last' \(it is 'decascore'\) and 'patience' to 0 \(it is 3"
    ):
        replace(config, best_by="decascore", patience=3)
    with pytest.raises(DecabenchError, match="learn_validation"):
        replace(config, patience=1)
    again, _ = encode_tasks(Store(home), replace(config, validation_words=True))  # which are counted once
    assert again.words == lexicon.words
    fewer, _ = encode_tasks(Store(home), replace(config, learn_validation=False))
    assert set(fewer.words) < set(lexicon.words)


@pytest.fixture
def own_home(home, tmp_path):
    shutil.copytree(home / "tasks", tmp_path / "tasks")
    return tmp_path


@pytest.fixture
def reads(monkeypatch):
    found = []
    original = training_data._read_task
    monkeypatch.setattr(
        training_data, "_read_task", lambda *given: found.append(given[1].name) or original(*given)
    )
    return found


def test_runs_of_one_home_share_what_was_read(own_home, reads):
    config = replace(TINY, tasks=("sst", "woz.en"))
    lexicon, found = encode_tasks(Store(own_home), config)

    def is_same(config):
        reads.clear()
        again, read = encode_tasks(Store(own_home), config)
        return (again.words, again.size) == (lexicon.words, lexicon.size) and all(
            np.array_equal(getattr(one.columns[part], name), getattr(read[task].columns[part], name))
            for task, one in found.items()
            for part in ("context", "question", "answer")
            for name in ("values", "ends")
        )

    reads.clear()
    assert is_same(config) and not reads
    assert is_same(replace(config, seed=7, steps=3, model=replace(config.model, name="catt"))) and not reads
    assert not is_same(replace(config, train_examples=3))
    assert not is_same(replace(config, model=replace(config.model, vocabulary=7))) and reads
    assert not is_same(replace(config, minimum_count=2)) and reads
    assert not is_same(replace(config, learn_validation=True, best_by="last")) and reads
    encode_tasks(Store(own_home), replace(config, validation_words=True))
    assert len(list((own_home / CACHE).iterdir())) == 6


def test_a_damaged_entry_is_made_again(own_home, reads):
    config = replace(TINY, tasks=("sst",))
    lexicon, _ = encode_tasks(Store(own_home), config)
    (entry,) = (own_home / CACHE).iterdir()
    whole = entry.read_bytes()
    for content in (b"", whole[:-100], whole.replace(b"vocabulary", b"vocabulars")):
        reads.clear()
        entry.write_bytes(content)
        again, _ = encode_tasks(Store(own_home), config)
        assert reads == ["sst"] and again.words == lexicon.words
        assert len(entry.read_bytes()) == len(whole)


def test_data_that_are_not_those_of_their_record_are_refused(own_home):
    folder = own_home / "tasks" / "sst"
    shutil.copy(folder / "test.parquet", folder / "train.parquet")
    with pytest.raises(
        DataError, match=r"train split of sst has changed since it was prepared.* Run decabench prepare sst"
    ):
        encode_tasks(Store(own_home), replace(TINY, tasks=("sst",)))
    assert not (own_home / CACHE).exists()


def test_a_home_that_cannot_be_written_needs_no_cache(own_home):
    (own_home / CACHE).write_text("not a folder")
    _, found = encode_tasks(Store(own_home), replace(TINY, tasks=("sst",)))
    assert len(found["sst"]) == TINY.train_examples
