import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decabench.metrics._rouge155 import (
    _find_places,
    _mark,
    base_form,
    lcs_hits,
    overlap,
    precision_recall_f1,
    sentence_tokens,
    tokens,
)


def test_tokens():
    assert tokens("The well-known CAFÉ's 3.5m menus_here!") == [
        "the",
        "well",
        "know",  # irregular
        "caf",
        "s",
        "3",
        "5m",
        "menu",
        "here",
    ]
    assert tokens("-- ...") == []


def test_base_forms_of_words_in_two_lists():
    # as the scorer of the conformance figures has them
    words = ("best", "better", "testes", "offer", "geese", "was", "running")
    assert [base_form(word) for word in words] == ["good", "good", "testes", "offer", "goose", "was", "run"]


def test_sentence_tokens_drop_the_empty():
    assert sentence_tokens("A dog. . It ran.", ".") == [["a", "dog"], ["it", "ran"]]
    assert sentence_tokens("", "\n") == []


def test_overlap_clips():
    assert overlap([["a", "a", "b"]], [["a", "b", "b"]], 1) == (2, 3, 3)
    assert overlap([["a"], ["b"]], [["a", "b"]], 2) == (1, 1, 1)  # bigrams cross sentences
    assert overlap([], [["a"]], 2) == (0, 0, 0)


def test_no_token_counts_twice():
    # "a" of the candidate may serve one reference sentence only
    assert lcs_hits([["a"]], [["a"], ["a"]]) == 1


def test_f1_rounds_as_perl_prints():
    assert precision_recall_f1(1, 3, 3) == (0.33333, 0.33333, 0.33333)
    assert precision_recall_f1(0, 0, 5) == (0.0, 0.0, 0.0)


def plain_marked_positions(reference, candidate):
    """The table of the textbook, as REFERENCE section 5 words it."""
    m, n = len(reference), len(candidate)
    table = [[0] * (n + 1) for _ in range(m + 1)]
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            if reference[i - 1] == candidate[j - 1]:
                table[i][j] = table[i - 1][j - 1] + 1
            else:
                table[i][j] = max(table[i - 1][j], table[i][j - 1])
    marked, i, j = [], m, n
    while i and j:
        if reference[i - 1] == candidate[j - 1]:
            i, j = i - 1, j - 1
            marked.append(i)
        elif table[i - 1][j] >= table[i][j - 1]:
            i -= 1
        else:
            j -= 1
    return marked


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text("abcd", max_size=80), st.text("abcd", max_size=80))
def test_bits_find_what_the_table_finds(reference, candidate):
    found = _mark(reference, candidate, _find_places(candidate, set(reference)))
    assert found == plain_marked_positions(reference, candidate)


@pytest.mark.parametrize("how", ["count", "count_in_python"])
def test_a_long_answer_takes_little_memory(how):
    """A submission of a stranger's may have a line of a megabyte; the table has rows for the reference's words only."""
    program = f"""
import subprocess
import sys
import resource
from decabench.metrics._rouge155 import {how} as count
count("a", ["a"], ".")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = count("word " * 150_000, ["word of a cat"], ".")
assert found == [((1, 150_000, 4), (0, 149_999, 3), (1, 150_000, 4))], found
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100  # MB; a row for each word of the answer took 2,700
