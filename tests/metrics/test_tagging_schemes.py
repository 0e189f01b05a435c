"""Chunks in every scheme, by conlleval's rules."""

import random
import warnings

import pytest

from decabench.metrics import MetricError, sequence_f1
from decabench.metrics.tagging import chunks

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from seqeval.metrics import f1_score
    from seqeval.scheme import IOB1, IOB2, IOBES, IOE2

KINDS = ("NP", "VP", "B-x")
SCHEMES = {"IOB1": IOB1, "IOB2": IOB2, "IOBES": IOBES, "IOE1": IOE2, "IOE2": IOE2}
"""Ours to seqeval's. Its IOE1 finds no chunk in `O E-NP I-NP`, so that those chunks are spelled in IOE2 for it."""


def draw_spans(source, length):
    """Non-empty chunks (kind, first, last) that do not overlap, in order."""
    spans, at = [], 0
    while at < length:
        size = min(source.choice([1, 1, 2, 3]), length - at)
        if source.random() < 0.6:
            spans.append((source.choice(KINDS), at, at + size - 1))
        at += size
    return spans


def encode(scheme, spans, length):
    """Tags of chunks; IOB1 and IOE1 mark only the border between two chunks of a kind."""
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
"""(previous tag, tag) in conlleval's startOfChunk and endOfChunk."""


def conlleval_counts(predicted, gold):
    """(right, found, gold chunks) as conlleval of 2004-01-26 counts them, walking over both columns at once.

    A sentence is followed by a boundary, which is outside. What follows is its code line by line.
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
    """It knows IOB1, IOB2, IOE1 and IOE2; in IOBES it joins what stands beside each other."""
    source = random.Random(seed)
    tags = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in KINDS[:2])]
    lengths = [source.randint(1, 12) for _ in range(40)]
    gold = [source.choices(tags, k=length) for length in lengths]
    predicted = [[tag if source.random() < 0.7 else source.choice(tags) for tag in row] for row in gold]
    right, found, wanted = conlleval_counts(predicted, gold)
    details = sequence_f1(*[[" ".join(row) for row in side] for side in (predicted, gold)]).details
    assert details["precision"] == pytest.approx(100 * right / found)
    assert details["recall"] == pytest.approx(100 * right / wanted)


UNKNOWN = ("X-NP", "X-VP", "foo", "_", "NP", "-NP", ".", "[", "BI-NP", "O-NP", "B-", "B")


@pytest.mark.parametrize(
    "tag",
    [
        "L-PER",
        "U-ORG",
        "M-PER",
        "W-PER",
        "PER-B",
        "B_PER",
        "PER",
        "0",
        "_",
        "OUT",
        "O-PER",
        "BI-PER",
        "B\u2013PER",
        "-",
    ],
)
def test_gold_tags_of_no_known_scheme_are_refused(tag):
    """BILOU, BMEWO, letters at the end and other signs for O were joined to what stands beside them: F1 was 100."""
    with pytest.raises(
        MetricError, match=f"gold answer 'B-PER {tag} O' of number 1 cannot be scored: .*'{tag}'"
    ):
        sequence_f1(["O", "B-PER I-PER O"], ["O", f"B-PER {tag} O"])
