import pytest

from decabench.metrics import rouge, rouge_perl
from decabench.metrics.rouge import resampling_weights


def test_weights_average_one():
    weights = resampling_weights(25)
    assert sum(weights) == pytest.approx(25)
    assert all(0.8 < weight < 1.2 for weight in weights)


def test_the_generator_is_perl_s():
    # perl -e 'srand(1); print int(rand(1000))' prints 41 (drand48 from seed 1: 0.0416303447718782)
    state = ((1 << 16) + 0x330E) * 0x5DEECE66D + 11 & 0xFFFFFFFFFFFF
    assert state / (1 << 48) == pytest.approx(0.0416303447718782)


def test_one_example_is_its_own_mean():
    pair = ["a cat sat. it slept."], ["the cat sat. it was asleep."]
    assert rouge_perl(*pair).details == pytest.approx(rouge(*pair).details)
