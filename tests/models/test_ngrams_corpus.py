"""Training text as one row of numbers."""

import pytest

from decabench.errors import MissingDataError
from decabench.models.ngrams import read_corpus, read_texts
from decabench.models.words import EOS, INIT
from decabench.tasks.example import Example
from decabench.tasks.registry import TASKS
from decabench.tasks.store import SplitRecord, Store

ROWS = [
    ("a", "Who came?", "Ann came.", ("Ann", "Ann", "she")),
    ("b", "Who left?", "Ann came.", ("Bob",)),
    ("c", "Who left?", "Nobody did.", ("",)),
]


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    rows = [Example(id, question, context, answers, (id,)) for id, question, context, answers in ROWS]
    count, fingerprint, _ = store.write("sst", "train", rows)
    store.write_records(TASKS["sst"], {"train": SplitRecord(count, fingerprint, "user", "here", True, (), 1)})
    return store


def test_what_stands_in_a_row_comes_once(store):
    expected = ["Ann came.", "Who came?", "Ann", "she", "Who left?", "Bob", "Nobody did.", ""]
    assert list(read_texts(store, "sst")) == expected
    assert list(read_texts(store, "sst", 1)) == expected[:4]


def test_texts_are_numbers_of_lower_cased_tokens(store):
    heard = []
    corpus = read_corpus(store, ["sst"], report=heard.append)
    assert heard == ["sst"]
    read = corpus.lexicon.decode(n for n in corpus.text.tolist() if n != EOS)
    assert read == "ann came. who came? ann she who left? bob nobody did."
    assert corpus.text.tolist().count(INIT) == corpus.text.tolist().count(EOS) == 8
    assert (corpus.size, corpus.distinct) == (15, 10)


def test_of_several_tasks(home):
    both = read_corpus(Store(home), ["sst", "schema"], 3)
    alone = [read_corpus(Store(home), [task], 3) for task in ("sst", "schema")]
    assert both.size == sum(corpus.size for corpus in alone)
    assert both.distinct < sum(corpus.distinct for corpus in alone)


def test_what_is_not_there(store):
    with pytest.raises(MissingDataError, match="schema, train, is not prepared"):
        read_corpus(store, ["sst", "schema"])
    with pytest.raises(MissingDataError, match="no training text in sst"):
        read_corpus(store, ["sst"], 0)
