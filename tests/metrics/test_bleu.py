"""The metric bleu."""

from importlib.metadata import version

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu import corpus_bleu
from sacrebleu.metrics import BLEU as SacreBLEU

from decabench.metrics import Item, bleu


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(*[st.text("ab .,C", max_size=24)] * 2), min_size=1, max_size=4))
def test_equals_sacrebleu_on_anything(pairs):
    predictions, references = map(list, zip(*pairs, strict=True))
    expected = corpus_bleu(predictions, [references], lowercase=True).score
    assert float(bleu(predictions, references)) == pytest.approx(expected, abs=1e-9)


def official_row(prediction: str, answers: list[str]) -> tuple[float, ...]:
    """Return sacrebleu's own counts."""
    row: list[float] = []
    for lowercase in (True, False):
        found = SacreBLEU(lowercase=lowercase, effective_order=True).sentence_score(prediction, answers)
        row += [*found.counts, *found.totals, found.sys_len, found.ref_len]
    return tuple(map(float, row))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(
        st.lists(
            st.sampled_from(
                ["a", "A", "ab", "Σ", "ΑΣ", "İ", "&QUOT;", "&amp;", "<SKIPPED>", "1,5", "1-", ".", "ß", "\n"]
            )
            | st.text(max_size=3),
            max_size=9,
        ).map(" ".join),
        min_size=2,
        max_size=4,
    )
)
def test_counts_are_those_of_sacrebleu(texts):
    prediction, *answers = texts
    assert bleu.statistics([prediction], [Item(answers)]) == [official_row(prediction, answers)]


@pytest.mark.parametrize("text", ["ΑΣ.\N{GREEK CAPITAL LETTER BETA} x y z", "ΑΣ,ω", "ΑΣ"])
def test_a_sigma_in_capitals_ends_a_word_before_it_is_split(text):
    """Lower-casing gives ς at the end of a word, and the end depends on tokenization."""
    answer = "Ας . β x y z"
    assert bleu.statistics([text], [Item([answer])]) == [official_row(text, [answer])]


def test_the_signature_has_the_version_that_counted():
    assert bleu(["a"], ["a"]).signature.endswith(f"|sacrebleu:{version('sacrebleu')}")
