import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decabench.metrics import sequence_f1, tag_accuracy
from decabench.metrics.tagging import chunks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
    from seqeval.metrics.sequence_labeling import get_entities


@pytest.mark.parametrize(
    ("prediction", "answer", "expected"),
    [
        ("DT NN VB", "DT NN VB", 100),
        ("dt nn", "DT NN VB NN", 50),  # missing tags are wrong
        ("DT NN VB X Y", "DT NN VB", 100),  # extra ones are passed over
        ("NN DT", "DT NN", 0),
        ("", "DT", 0),
        ("", "", 0),
    ],
)
def test_tag_accuracy(prediction, answer, expected):
    assert float(tag_accuracy([prediction], [answer])) == expected


def test_tag_accuracy_is_over_tokens_not_sentences():
    assert float(tag_accuracy(["A", "B B B"], ["A", "A A A"])) == 25


@pytest.mark.parametrize(
    ("tags", "expected"),
    [  # by conlleval's rules
        ("B-NP I-NP O B-VP", {("np", 0, 1), ("vp", 3, 3)}),
        ("I-NP I-NP", {("np", 0, 1)}),  # IOB1 and stray I start a chunk
        ("I-NP B-NP", {("np", 0, 0), ("np", 1, 1)}),
        ("B-NP I-VP", {("np", 0, 0), ("vp", 1, 1)}),  # the kind changes
        ("S-NP B-NP E-NP E-NP", {("np", 0, 0), ("np", 1, 2), ("np", 3, 3)}),
        ("B I O", {("_", 0, 1)}),
        ("X-NP X-NP O", {("np", 0, 1)}),  # an unknown tag starts a chunk where the kind changes
        ("B-NP X-NP I-NP O", {("np", 0, 2)}),
        ("O foo NP _ O", set()),  # the kind of all of these is none, as that of O
        ("B-NP foo B-VP", {("np", 0, 0), ("_", 1, 1), ("vp", 2, 2)}),
        (
            "x-NP what O",
            {("np", 0, 0), ("_", 1, 2)},
        ),  # what has started only ends at another kind, B, or the end
        ("B-NP . I-NP", {("np", 0, 0), ("np", 2, 2)}),
        ("B-a-b I-a-b", {("a-b", 0, 1)}),
        ("", set()),
    ],
)
def test_chunks(tags, expected):
    assert chunks(tags.split()) == expected


def test_lengths_may_differ():
    details = sequence_f1(["B-NP O B-VP"], ["B-NP"]).details
    assert (details["precision"], details["recall"]) == (50, 100)
    assert details["tag_accuracy"] == 100


TAG = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("NP", "VP", "A-B"))])
SENTENCES = st.lists(st.lists(st.tuples(TAG, TAG), min_size=1, max_size=9), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SENTENCES)
def test_agrees_with_seqeval(sentences):
    predicted = [[ours for ours, _ in sentence] for sentence in sentences]
    gold = [[theirs for _, theirs in sentence] for sentence in sentences]
    details = sequence_f1([" ".join(tags) for tags in predicted], [" ".join(tags) for tags in gold]).details
    for name, scorer in (("sequence_f1", f1_score), ("precision", precision_score), ("recall", recall_score)):
        assert details[name] == pytest.approx(100 * scorer(gold, predicted, zero_division=0))
    for tags in predicted:
        assert chunks(tags) == {(kind.lower(), first, last) for kind, first, last in get_entities(tags)}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SENTENCES)
def test_tag_accuracy_agrees_with_seqeval(sentences):
    predicted = [[ours for ours, _ in sentence] for sentence in sentences]
    gold = [[theirs for _, theirs in sentence] for sentence in sentences]
    found = float(tag_accuracy([" ".join(tags) for tags in predicted], [" ".join(tags) for tags in gold]))
    assert found == pytest.approx(100 * accuracy_score(gold, predicted))
