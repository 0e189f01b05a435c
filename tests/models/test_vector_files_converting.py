"""Vectors written as .npy and words: the same rows come out."""

import numpy as np
import pytest

from decabench.models.vector_files import index_path, open_vectors, write_word_vectors
from decabench.models.word_vectors import WordVectors
from tests.models.test_vector_files import ROWS, fasttext, glove, numpy_parquet, numpy_text, wink


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


@pytest.mark.parametrize("word", ["", "two words", "\u2028", "\x85", "\x0b", "\ufeff", "naïve", "😀", "a\tb"])
def test_odd_words_are_kept(tmp_path, word):
    for index in (
        {word: 0, "the": 1, "cat": 2},
        {"the": 1, "cat": 2, word: 0},
        {"the": 0, "cat": 1, word: 2},
    ):
        assert write_word_vectors(tmp_path / "v.npy", WordVectors(ROWS, index, "sha256:0")) == []
        assert dict(open_vectors(str(tmp_path / "v.npy")).index) == index


def test_of_a_word_that_stood_twice_the_first_is_kept(tmp_path):
    (tmp_path / "twice.txt").write_text("a 1 2\nb 3 4\na 5 6\n")
    write_word_vectors(tmp_path / "v.npy", open_vectors(str(tmp_path / "twice.txt")))
    assert index_path(tmp_path / "v.npy").read_text() == "a\nb\n"
    assert np.load(tmp_path / "v.npy").tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("kind", ["float64", "float16", ">f4"])
def test_other_numbers_become_single_precision(tmp_path, kind):
    np.save(tmp_path / "a.npy", ROWS.astype(kind))
    (tmp_path / "a.txt").write_text("the\nof all\ncat\n")
    write_word_vectors(tmp_path / "v.npy", open_vectors(str(tmp_path / "a.npy")))
    made = np.load(tmp_path / "v.npy")
    assert made.dtype == np.float32
    assert np.array_equal(made, ROWS)
