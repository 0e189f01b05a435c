"""Compiled and Python code agree on odd words, several references and all Unicode planes."""

import random
import re
import string
from importlib import import_module

import pytest

from decabench.metrics import METRICS, Item
from decabench.metrics._rouge155 import count_in_python, sentence_tokens
from decabench.metrics.nf1 import normalize

speedups = pytest.importorskip("decabench.metrics._speedups", reason="there was no compiler")
bleu_module, rouge155, nf1_module = (
    import_module(f"decabench.metrics.{name}") for name in ("bleu", "_rouge155", "nf1")
)

WORDS = (
    *"the The a an AN running runs geese best yes skies dying generalization U.S. 3.5 1,000 well-known".split(),
    *"it's 2019-20 ... -- / &amp; & <skipped> café Straße ΑΣ İ ß K naïve 中文".split(),
    *("x" * 70, "\n", "\t", "\x1c", "\x85", "\x00", "\x7f", "\u2028", "\u3000", "\u0301", "\u0661"),
    *("\u200d", "\u0663.\u0665", "\U0001f600", "\U00020000", "\U000e0001", "\U0010ffff", "\ud800"),
)


def draw_text(drawn, longest=40):
    """Return a random text of words and characters from all Unicode planes."""
    words = drawn.choices(WORDS, k=drawn.randrange(longest))
    for at in range(len(words)):
        if drawn.random() < 0.1:
            plane = drawn.randrange(17)
            words[at] = "".join(
                chr(plane << 16 | drawn.randrange(1 << 16)) for _ in range(drawn.randrange(1, 4))
            )
        if drawn.random() < 0.15:
            words[at] += drawn.choice((".", ". ", "\n", ","))
    return drawn.choice((" ", " ", "")).join(words)


def test_rouge_counts():
    drawn = random.Random(155)
    for _ in range(2_000):
        candidate, *references = (draw_text(drawn) for _ in range(drawn.randint(2, 5)))
        for separator in ".\n":
            left, *rights = (sentence_tokens(text, separator) for text in (candidate, *references))
            for right in rights:
                assert speedups.count_rouge(left, right) == count_in_python(left, right), (left, right)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 127, 128, 129, 200, 700])
def test_rouge_counts_of_long_sentences(length):
    drawn = random.Random(length)
    for kinds in (1, 2, 3, 30):
        words = [f"w{number}" for number in range(kinds)]
        left, right = ([drawn.choices(words, k=length + drawn.randint(-1, 1))] for _ in range(2))
        assert speedups.count_rouge(left, right) == count_in_python(left, right)


def test_ngrams():
    drawn = random.Random(4)
    for _ in range(2_000):
        texts = [drawn.choices("abcdé", k=drawn.randrange(12)) for _ in range(drawn.randint(2, 4))]
        assert list(speedups.ngram_hits(texts, 4)) == bleu_module._count_hits(texts[0], texts[1:]), texts


def test_normal_form_of_nf1():
    drawn = random.Random(1)
    alphabets = (
        "aAnThe .,_\t\x1c\x7f\x01-",
        "athen ",
        "".join(map(chr, range(128))),
        "thé K\u0130\ud800\U0001f600 a",
    )
    no_punctuation = str.maketrans("", "", string.punctuation)
    for turn in range(20_000):
        text = "".join(drawn.choices(alphabets[turn % 4], k=drawn.randrange(16)))
        expected = " ".join(re.sub(r"\b(a|an|the)\b", " ", text.lower().translate(no_punctuation)).split())
        assert normalize(text) == expected, [text]
    for length in (254, 255, 256, 257, 5_000):
        assert normalize("X" * length) == "x" * length
        assert normalize("the " * length) == ""


def test_rows_are_those_without_it(monkeypatch):
    drawn = random.Random(0)
    predictions = [draw_text(drawn) for _ in range(300)]
    references = [Item([draw_text(drawn) for _ in range(drawn.randint(1, 3))]) for _ in predictions]
    names = ("rouge", "rouge_lines", "bleu", "nf1", "squad2", "corpus_f1")
    here = {name: METRICS[name].statistics(predictions, references) for name in names}
    for module in (bleu_module, rouge155, nf1_module):
        monkeypatch.setattr(module, "_compiled", False)
    for name in names:
        assert METRICS[name].statistics(predictions, references) == here[name]
