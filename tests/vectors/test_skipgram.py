from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from decabench.errors import DataError, DecabenchError
from decabench.tasks.example import Example
from decabench.tasks.registry import TASKS
from decabench.tasks.store import SplitRecord, Store
from decabench.vectors.skipgram import NgramTraining, read_corpus, train_ngrams
from decabench.vectors.tokenizer import EOS, INIT, Lexicon
from decabench.vectors.vector_files import open_vectors, write_ngram_vectors
from decabench.vectors.word_vectors import ngrams


def test_the_ngrams_of_a_word():
    assert list(ngrams("cat")) == [
        *("2gram-#BEGIN#c", "2gram-ca", "2gram-at", "2gram-t#END#"),
        *("3gram-#BEGIN#ca", "3gram-cat", "3gram-at#END#"),
        *("4gram-#BEGIN#cat", "4gram-cat#END#"),
    ]


def test_a_word_is_the_mean_of_its_known_ngrams(tmp_path):
    path = tmp_path / "charNgram.txt"
    path.write_text("2gram-ca 1 2\n3gram-cat 3 6\n2gram-xx 9 9\n")
    vectors = open_vectors(str(path))
    assert vectors.rows([" cat ", " dog ", " car "]).tolist() == [[2, 4], [0, 0], [1, 2]]


@pytest.fixture(scope="module")
def trained():
    # Two groups of words that never occur together and differ only in their endings.
    random = np.random.default_rng(0)
    stems = ["wal", "tal", "kic", "jum", "pus", "hel", "loo", "cal"]
    kinds = [[stem + ending for stem in stems] for ending in ("king", "ness")]
    text = " ".join(" ".join(random.choice(kinds[n % 2], 12)) for n in range(200))
    lexicon = Lexicon()
    ids = lexicon.encode(text)
    how = NgramTraining(dimension=12, steps=150, batch=128, window=2, frequent=0)
    return lexicon, ids, how, train_ngrams(lexicon.words, ids, how)


def test_training_brings_like_words_together(trained):
    vectors = trained[-1]
    one, two, other = vectors.rows([" pusking ", " helking ", " pusness "])

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    assert cosine(one, two) > cosine(one, other) + 0.2
    unseen = vectors.rows([" zulking "])[0]
    assert cosine(unseen, one) > cosine(unseen, other)


def test_training_is_repeatable_and_kept(trained, tmp_path):
    lexicon, ids, how, vectors = trained
    again = train_ngrams(lexicon.words, ids, how)
    assert np.array_equal(again.matrix, vectors.matrix)
    write_ngram_vectors(tmp_path / "n.safetensors", vectors)
    read = open_vectors(str(tmp_path / "n.safetensors"))
    words = [" pusking ", " zulness "]
    assert np.array_equal(read.rows(words), vectors.rows(words))


@pytest.mark.parametrize("changes", [{"window": 2_000}, {"minimum": 100}, {"frequent": 1e-9}])
def test_what_trains_nothing(trained, changes):
    lexicon, ids, how, _ = trained
    with pytest.raises(DataError, match="are left to train on"):
        train_ngrams(lexicon.words, ids, replace(how, **changes))


def test_vectors_without_end_are_not_written():
    words = [f" word{n} " for n in range(40)]
    lexicon = Lexicon(words)
    text = np.array(list(range(4, 44)) * 5, dtype=np.int32)
    how = NgramTraining(dimension=4, steps=5, batch=16, frequent=0.0, learning_rate=1e38)
    with pytest.raises(DecabenchError, match=r"a learning rate below 1e\+38"):
        train_ngrams(lexicon.words, text, how)
    for wrong in ({"learning_rate": float("nan")}, {"seed": 2**63}):
        with pytest.raises(DecabenchError, match=f"{min(wrong)}'? is .*, but must"):
            NgramTraining(**wrong)


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
