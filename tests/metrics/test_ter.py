"""The metric ter."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk import edit_distance
from sacrebleu.metrics import TER

from decabench.metrics import METRICS, items, ter

WORDS = st.lists(st.sampled_from(["a", "B", "b", "c.", "ü", "字", "&quot;", "", "\u3000"]), max_size=9)
TEXT = WORDS.map(" ".join)
SEGMENTS = st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3)), min_size=1, max_size=4)


def official(predictions, references):
    most = max(map(len, references))
    streams = [[answers[k] if k < len(answers) else None for answers in references] for k in range(most)]
    return TER().corpus_score(predictions, streams)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(SEGMENTS)
def test_equals_sacrebleu_s_corpus_score(segments):
    predictions, references = map(list, zip(*segments, strict=True))
    assert float(ter(predictions, references)) == pytest.approx(
        official(predictions, references).score, abs=1e-9
    )


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.tuples(TEXT, TEXT), min_size=2, max_size=8))
def test_sums_of_rows_are_sacrebleu_s_score_of_a_resample(pairs):
    predictions, references = [pair[0] for pair in pairs], [[pair[1]] for pair in pairs]
    metric = METRICS["ter"]
    rows = np.asarray(metric.statistics(predictions, items(references)))
    counts = np.random.default_rng(1).multinomial(len(pairs), [1 / len(pairs)] * len(pairs), 5)
    found = metric.score(dict(zip(metric.columns, (counts @ rows).T, strict=True)))["ter"]
    for score, drawn in zip(found, counts, strict=True):
        chosen = np.repeat(np.arange(len(pairs)), drawn)
        again = official([predictions[at] for at in chosen], [references[at] for at in chosen]).score
        assert score == pytest.approx(again, abs=1e-9)


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("a b c d", ["A b c d"], 0),
        ("b c d a", ["a b c d"], 25),  # one shift
        ("", ["a b"], 100),
        ("a b c", ["a"], 200),  # no end at 100
        ("a", [""], 100),
        ("", [""], 0),
        ("a b", ["a b c d", "a b"], 0),  # the best edits, over the mean length
    ],
)
def test_known_examples(prediction, references, expected):
    assert float(ter([prediction], [references])) == expected


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(WORDS, min_size=1, max_size=3), st.integers(151, 170), st.randoms(use_true_random=False))
def test_a_long_answer_is_compared_without_shifts(answers, length, random):
    """sacrebleu has no limit and takes 71 CPU seconds for 2,000 words."""
    words = random.choices(["a", "b", "c.", "d"], k=length)
    references = [" ".join(words) for words in answers]
    expected = min(edit_distance(words, reference.lower().split()) for reference in references)
    (row,) = METRICS["ter"].statistics([" ".join(words)], items([references]))
    assert row == (expected, statistics.mean(len(reference.split()) for reference in references))
