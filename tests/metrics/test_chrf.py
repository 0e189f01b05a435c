"""The metric chrf."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from decabench.metrics import METRICS, chrf2, chrf_plus_plus, items

ORDERS = {"chrf2": 0, "chrf_plus_plus": 2}
METRIC = {"chrf2": chrf2, "chrf_plus_plus": chrf_plus_plus}

TEXT = st.text("aB .,!Üß\u3000\u00a0字\n", max_size=24)
SEGMENTS = st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3)), min_size=1, max_size=4)


def official(name, predictions, references):
    """Return sacrebleu's corpus score, or None if segments have different numbers of references."""
    most = max(map(len, references))
    streams = [[answers[k] if k < len(answers) else None for answers in references] for k in range(most)]
    return CHRF(word_order=ORDERS[name]).corpus_score(predictions, streams)


@pytest.mark.parametrize("name", METRIC)
@settings(max_examples=50, deadline=None, derandomize=True)
@given(SEGMENTS)
def test_equals_sacrebleu_s_corpus_score(name, segments):
    predictions, references = map(list, zip(*segments, strict=True))
    wanted = official(name, predictions, references).score
    assert float(METRIC[name](predictions, references)) == pytest.approx(wanted, abs=1e-9)


def draw_corpus(size):
    source = random.Random(0)
    words = "Der die das Haus, steht am See! und (immer) noch.".split()
    texts = [" ".join(source.choices(words, k=source.randint(0, 12))) for _ in range(2 * size)]
    return texts[:size], [[text] for text in texts[size:]]


@pytest.mark.parametrize("name", METRIC)
def test_sums_of_rows_are_sacrebleu_s_score_of_a_resample(name):
    predictions, references = draw_corpus(40)
    metric = METRICS[name]
    rows = np.asarray(metric.statistics(predictions, items(references)))
    counts = np.random.default_rng(1).multinomial(40, [1 / 40] * 40, 20)
    found = metric.score(dict(zip(metric.columns, (counts @ rows).T, strict=True)))[name]
    for score, drawn in zip(found, counts, strict=True):
        chosen = np.repeat(np.arange(40), drawn)
        again = official(name, [predictions[at] for at in chosen], [references[at] for at in chosen]).score
        assert score == pytest.approx(again, abs=1e-9)
