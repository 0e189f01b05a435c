"""How many tokens have the vector of another word."""

import sys
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from decabench.vectors.word_vectors import WordVectors
from tests.sources import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from shared_vectors import group_words, share_of_others


def test_tokens_that_have_the_vector_of_a_more_frequent_word():
    matrix = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
    index = {"asian": 0, "american": 0, "indian": 0, "cheap": 1, "dear": 2}
    counts = Counter({"american": 5, "asian": 2, "indian": 1, "cheap": 1, "unseen": 1})
    groups = group_words(counts, WordVectors(matrix, index, ""))
    assert sorted(groups) == [["american", "asian", "indian"], ["cheap"]]
    assert share_of_others(counts, groups) == pytest.approx(100 * (2 + 1) / 10)
    assert share_of_others(Counter(), []) == 0
