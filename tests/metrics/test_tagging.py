"""Tags and chunks in all schemes, compared with conlleval and seqeval."""

import random
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decabench.metrics import MetricError, sequence_f1, tag_accuracy
from decabench.metrics.tagging import chunks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from seqeval.metrics import accuracy_score, f1_score, precision_score, recall_score
    from seqeval.metrics.sequence_labeling import get_entities
    from seqeval.scheme import IOB1, IOB2, IOBES, IOE2


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


TAG = st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("NP", "VP", "A-B"))])
SENTENCES = st.lists(st.lists(st.tuples(TAG, TAG), min_size=1, max_size=9), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SENTENCES)
def test_agrees_with_seqeval(sentences):
    predicted = [[ours for ours, _ in sentence] for sentence in sentences]
    gold = [[theirs for _, theirs in sentence] for sentence in sentences]
    details = sequence_f1([" ".join(tags) for tags in predicted], [" ".join(tags) for tags in gold]).details
    for name, scorer in (("sequence_f1", f1_score), ("precision", precision_score), ("recall", recall_score)):
        assert details[name] == pytest.approx(100 * scorer(gold, predicted, zero_division=0))
    for tags in predicted:
        assert chunks(tags) == {(kind.lower(), first, last) for kind, first, last in get_entities(tags)}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SENTENCES)
def test_tag_accuracy_agrees_with_seqeval(sentences):
    predicted = [[ours for ours, _ in sentence] for sentence in sentences]
    gold = [[theirs for _, theirs in sentence] for sentence in sentences]
    found = float(tag_accuracy([" ".join(tags) for tags in predicted], [" ".join(tags) for tags in gold]))
    assert found == pytest.approx(100 * accuracy_score(gold, predicted))


# Chunks in every scheme, by conlleval's rules.

KINDS = ("NP", "VP", "B-x")
SCHEMES = {"IOB1": IOB1, "IOB2": IOB2, "IOBES": IOBES, "IOE1": IOE2, "IOE2": IOE2}
"""Our schemes and seqeval's. Its IOE1 finds no chunk in `O E-NP I-NP`, so it gets IOE2 instead."""


def draw_spans(source, length):
    """Return random chunks (kind, first, last), non-empty, in order and without overlaps."""
    spans, at = [], 0
    while at < length:
        size = min(source.choice([1, 1, 2, 3]), length - at)
        if source.random() < 0.6:
            spans.append((source.choice(KINDS), at, at + size - 1))
        at += size
    return spans


def encode(scheme, spans, length):
    """Return the tags of chunks. IOB1 and IOE1 mark only the border between two chunks of the same kind."""
    tags = ["O"] * length
    ends = {(kind, last) for kind, _, last in spans}
    starts = {(kind, first) for kind, first, _ in spans}
    for kind, first, last in spans:
        prefixes = ["I"] * (last - first + 1)
        if scheme in ("IOB2", "IOBES") or (scheme == "IOB1" and (kind, first - 1) in ends):
            prefixes[0] = "B"
        if scheme in ("IOE2", "IOBES") or (scheme == "IOE1" and (kind, last + 1) in starts):
            prefixes[-1] = "E"
        if scheme == "IOBES" and first == last:
            prefixes = ["S"]
        tags[first : last + 1] = [f"{prefix}-{kind}" for prefix in prefixes]
    return tags


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(3))
def test_chunks_of_every_scheme_are_found(scheme, seed):
    source = random.Random(seed)
    texts, spelled = ([[], []] for _ in range(2))
    for _ in range(60):
        length = source.randint(1, 12)
        for side in range(2):
            spans = draw_spans(source, length)
            tags = encode(scheme, spans, length)
            assert chunks(tags) == {(kind.lower(), first, last) for kind, first, last in spans}
            texts[side].append(" ".join(tags))
            spelled[side].append(encode(SCHEMES[scheme].__name__, spans, length))
    strict = f1_score(spelled[1], spelled[0], mode="strict", scheme=SCHEMES[scheme], zero_division=0)
    assert float(sequence_f1(*texts)) == pytest.approx(100 * strict)


STARTS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}
"""The (previous tag, tag) pairs in conlleval's startOfChunk and endOfChunk."""


def conlleval_counts(predicted, gold):
    """Return (right, found, gold) chunks as counted by conlleval of 2004-01-26, which reads both columns in parallel.

    A boundary outside any chunk follows each sentence. The code follows conlleval's line by line.
    """

    def split(text):
        tag, _, kind = text.partition("-")  # /^([^-]*)-(.*)$/
        return tag, kind

    def ends(before, now):
        (previous, previous_kind), (tag, kind) = before, now
        is_listed = len(previous) == len(tag) == 1 and previous + tag in ENDS
        changes = previous != "O" and previous != "." and previous_kind != kind
        return is_listed or changes or previous in ("]", "[")

    def starts(before, now):
        (previous, previous_kind), (tag, kind) = before, now
        is_listed = len(previous) == len(tag) == 1 and previous + tag in STARTS
        changes = tag != "O" and tag != "." and previous_kind != kind
        return is_listed or changes or tag in ("]", "[")

    right = found = wanted = 0
    before, inside = (("O", ""), ("O", "")), False
    for ours, theirs in zip(predicted, gold, strict=True):
        for pair in zip([*ours, "O"], [*theirs, "O"], strict=True):
            now = tuple(map(split, pair))
            ended = [ends(before[side], now[side]) for side in (0, 1)]
            begun = [starts(before[side], now[side]) for side in (0, 1)]
            if inside and all(ended) and before[0][1] == before[1][1]:
                right, inside = right + 1, False
            elif inside and (ended[0] != ended[1] or now[0][1] != now[1][1]):
                inside = False
            if all(begun) and now[0][1] == now[1][1]:
                inside = True
            found, wanted = found + begun[0], wanted + begun[1]
            before = now
    return right + inside, found, wanted


@pytest.mark.parametrize("prefixes", ["BI", "IE"])
@pytest.mark.parametrize("seed", range(10))
def test_counts_are_conlleval_s_on_any_tags_of_its_schemes(seed, prefixes):
    """It knows IOB1, IOB2, IOE1 and IOE2; in IOBES it joins adjacent spans."""
    source = random.Random(seed)
    tags = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in KINDS[:2])]
    lengths = [source.randint(1, 12) for _ in range(40)]
    gold = [source.choices(tags, k=length) for length in lengths]
    predicted = [[tag if source.random() < 0.7 else source.choice(tags) for tag in row] for row in gold]
    right, found, wanted = conlleval_counts(predicted, gold)
    details = sequence_f1(*[[" ".join(row) for row in side] for side in (predicted, gold)]).details
    assert details["precision"] == pytest.approx(100 * right / found)
    assert details["recall"] == pytest.approx(100 * right / wanted)


@pytest.mark.parametrize(
    "tag",
    [
        "L-PER",
        "PER-B",
        "0",
        "_",
        "BI-PER",
        "B\u2013PER",
        "-",
    ],
)
def test_gold_tags_of_no_known_scheme_are_refused(tag):
    """BILOU, BMEWO, letters at the end and other signs for O were joined to their neighbors, and F1 was 100."""
    with pytest.raises(
        MetricError, match=f"gold answer 'B-PER {tag} O' in example number 1 can't be scored .*'{tag}'"
    ):
        sequence_f1(["O", "B-PER I-PER O"], ["O", f"B-PER {tag} O"])
