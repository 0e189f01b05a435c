"""Detect mistakes that affect a whole answer file, such as a wrong format, a wrong order or swapped labels.

With such a mistake, a score near 0 says little about the model. These checks explain low scores and never change
them. A format is reported if it is common in the answers but not in the gold answers, and the metric gives the
answers a higher score after both are decoded. Without gold answers, a format is reported only if most answers are
in it and the format is never intended.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from itertools import compress
from operator import sub
from random import Random
from statistics import fmean, pstdev
from typing import Any

from decabench.metrics import Item, Metric, Reference, fold_label, score_rows
from decabench.prompts.encodings import FORMATS, Format
from decabench.prompts.forms import GivenAnswers, count_forms, describe_fillers
from decabench.prompts.prose import find_number
from decabench.prompts.tagged import is_in_context
from decabench.tasks import Label, Number, Tags, Text, Tree, default_form
from decabench.text import excerpt

_SAMPLE = 200
"""The maximum number of answers to check for formats. If a format is found, it is counted in all answers."""
_SCAN = 20_000
"""The maximum number of answers to check for mistakes that affect only a part of the file."""
_FEWEST = 5
"""The minimum number of answers to check."""
_LONGEST = 20_000
"""The maximum number of characters to read from each answer."""
_MOST = 0.5
"""More than this fraction counts as most of the answers."""
_GAIN = 1.0
"""The minimum increase in the score, in points, that confirms a format."""
_FEW = 3
"""A mistake that models rarely make is reported only if at least this many answers have it."""
_PART = 0.02
"""A mistake that models rarely make is reported only if at least this fraction of the answers has it."""
_RIGHT = 95.0
"""Above this score, answers are assumed to be neither mixed up nor truncated."""
_UNKNOWN = -1e9
"""The score to assume if a metric fails."""


def describe_answers(given: GivenAnswers) -> Iterator[tuple[str, str]]:
    """Yield (code, description) pairs for answers that score as wrong because of their form.

    The codes are `label-form`, `answer-form`, `no-label` and `answer-format`. If there are several samples, only the
    first sample with such answers is described.
    """
    for number, texts in enumerate((given.texts, *given.samples), 1):
        if found := list(_describe_texts(replace(given, texts=texts))):
            where = f"In sample {number}, " if number > 1 else ""
            yield from ((code, f"{where}{sentence}") for code, sentence in found)
            return


def _describe_texts(given: GivenAnswers) -> Iterator[tuple[str, str]]:
    counts = None if _are_labels(given) else count_forms(given)
    if counts is not None:
        if sentence := counts.describe():
            yield ("label-form" if isinstance(given.output, Label) else "answer-form"), sentence
        if counts.strays:
            yield "no-label", counts.strays
        if counts.are_most:
            return
    if sentence := describe_format(given):
        yield "answer-format", sentence


def describe_format(given: GivenAnswers) -> str:
    """Return a description of the answers' wrong format, or an empty string if nothing is wrong.

    The description states how many answers have the format, how to fix them, and the score that they would then have.
    """
    found = _describe_most(given)
    fillers = [] if _are_labels(given) else list(describe_fillers(given))
    return ". ".join(filter(None, (*fillers, found)))


def _are_labels(given: GivenAnswers) -> bool:
    return isinstance(given.output, Label) and set(given.texts) <= set(given.output.names)


def _describe_most(given: GivenAnswers) -> str:
    written = [at for at, text in enumerate(given.texts) if text and not text.isspace()]
    if len(written) < _FEWEST:
        return ""
    sample, most = _Sample.of(given, written), _Sample.of(given, range(len(given.texts)), most=_SCAN)
    if said := _constant(most) or _copies(most):
        return said
    names = map(fold_label, given.output.names) if isinstance(given.output, Label) else ()
    are_labels = set(map(fold_label, sample.texts)) <= set(names)
    if not are_labels and (found := _find_formats(sample)):
        return _describe_formats(given, found)
    if said := _columns(most):
        return said
    if sample.items is None:
        return _cut(sample)
    if said := _cut_in_word(most) or _swapped(sample) or _sorted(most) or _lost(most) or _shift(most):
        return said
    if sample.score > _RIGHT:
        return ""
    said = _numbers(sample) or _cut(sample) or _sentences(most) or _elsewhere(sample)
    return said or _displaced(sample) or _parts(most) or _reversed(most) or _unrelated(most)


@dataclass(frozen=True)
class _Sample:
    given: GivenAnswers
    """All answers in the file."""
    places: Sequence[int]
    """The indices of the sampled answers."""
    found: tuple[Format, ...] = ()
    """Formats to decode. Gold answers in these formats are decoded too."""

    @classmethod
    def of(cls, given: GivenAnswers, places: Sequence[int], most: int = _SAMPLE) -> _Sample:
        if len(places) > most:  # the steps are irregular, because neighboring examples may be pairs
            steps = (number * 0.6180339887 % 1 for number in range(most))
            places = sorted({places[int(len(places) * step)] for step in steps})
        return cls(given, places)

    def decode(self, text: str) -> str:
        return reduce(lambda text, format: format.decode(text), self.found, text[:_LONGEST])

    @cached_property
    def texts(self) -> list[str]:
        return [self.decode(self.given.texts[at]) for at in self.places]

    @cached_property
    def items(self) -> list[Item] | None:
        if self.given.references is None:
            return None
        items = [self.given.references[at] for at in self.places]
        return [replace(item, answers=tuple(map(self.decode, item.answers))) for item in items]

    @cached_property
    def golds(self) -> Sequence[str]:
        if self.items is None:
            return self.given.output.names if isinstance(self.given.output, Label) else ()
        return [item.answers[0] for item in self.items]

    @cached_property
    def sources(self) -> Sequence[tuple[str, str]]:
        """The question and the context of each example; empty if they are unknown."""
        if self.items is None or self.given.read_prompts is None:
            return ()
        prompts = self.given.read_prompts()
        return [prompts.get(item.id, ("", "")) for item in self.items]

    @cached_property
    def score(self) -> float:
        return _score(self.given.metric, self.texts, self.items) if self.items is not None else 0.0

    def without(self, format: Format) -> _Sample:
        return replace(self, found=(*self.found, format))

    def ignores(self, decoded: _Sample) -> bool:
        """Return whether the metric gives these answers the same score as the decoded answers."""
        items = [Item((text,), id=f"x_{at}") for at, text in enumerate(decoded.texts)]
        given, wanted = (_score(self.given.metric, each.texts, items) for each in (self, decoded))
        # With such a score, the metric probably needs more than the answer.
        if wanted in (0.0, _UNKNOWN) and self.given.metric.higher_is_better:
            return self.score == decoded.score > 0
        return given >= wanted - 0.02 * abs(wanted) > _UNKNOWN

    @property
    def is_worded(self) -> bool:
        return isinstance(self.given.output, Text)

    def read(self, text: str) -> frozenset[Any]:
        is_listed, scale = isinstance(self.given.output, Tags | Tree), self.given.output
        if isinstance(scale, Number) and (number := find_number(text, (scale.low, scale.high))):
            steps = 40 * (float(number) - scale.low) / (scale.high - scale.low)
            return frozenset(range(1 + round(min(max(steps, 0), 40))))  # close numbers share most steps
        return frozenset(enumerate(text.lower().split()) if is_listed else re.findall(r"\w+", text.lower()))

    @cached_property
    def words(self) -> tuple[list[frozenset[Any]], list[frozenset[Any]]]:
        """The set of words in each sampled answer, and in each gold answer of the whole file."""
        read, references = cache(self.read), self.given.references or ()
        return list(map(read, self.texts)), [read(item.answers[0]) for item in references]

    def resemblance(self, order: Sequence[int]) -> list[float]:
        """Return how much each answer resembles a gold answer, from 0 to 1.

        `order` contains the index of the gold answer for each example."""
        texts, golds = self.words
        pairs = ((text, golds[order[at]]) for text, at in zip(texts, self.places, strict=True))
        return [2 * len(a & b) / ((len(a) + len(b)) or 1) for a, b in pairs]

    @cached_property
    def own_resemblance(self) -> list[float]:
        """The resemblance of each answer to its own gold answer, from 0 to 1."""
        return self.resemblance(range(len(self.given.references or ())))

    def gains(self, order: Sequence[int]) -> list[float]:
        """Return how much `resemblance(order)` exceeds `own_resemblance` for each answer."""
        return list(map(sub, self.resemblance(order), self.own_resemblance))

    def neighbor_gains(self, step: int) -> list[float]:
        """Return `gains` for the gold answers that are `step` places later, or earlier if `step` is negative."""
        count = len(self.given.references or ())
        return self.gains([(at + step) % count for at in range(count)])

    def say(self, seen: Sequence[bool], sentence: str) -> str:
        whole = len(self.texts) == len(self.given.texts)
        of, at = f"{len(self.texts):,} {'' if whole else 'sampled '}answers", seen.index(True)
        shown = f"{self.given.places[self.places[at]]} has {excerpt(self.texts[at], 60)!r}"
        return f"{sum(seen):,} of {of} {sentence}. For example, {shown}"


def _score(metric: Metric, texts: Sequence[str], items: Sequence[Reference]) -> float:
    try:
        metric = metric.for_data(items)
        value = score_rows(metric, metric.statistics(texts, items)).value
    except Exception:  # a custom metric may fail or need more than the answer
        return _UNKNOWN
    return value if metric.higher_is_better else -value


# Formats that can be decoded


def _find_formats(sample: _Sample) -> tuple[Format, ...]:
    for format in FORMATS:
        if _is_found(format, sample):
            sample = sample.without(format)
    affixes = _affixes(sample)
    return (*sample.found, affixes) if affixes and _is_found(affixes, sample) else sample.found


def _is_found(format: Format, sample: _Sample) -> bool:
    """Return whether a format explains low scores.

    The format must be at least twice as common in the answers as in the gold answers, or vice versa, and decoding
    must raise the score. If the score hardly changes, a format that is never intended is still reported if most
    answers are in it and the metric scores them differently from decoded answers.
    """
    seen, of_gold = (list(map(format.is_seen, texts)) for texts in (sample.texts, sample.golds))
    share, gold_share = fmean(seen), fmean(of_gold or (False,))
    larger = max(share, gold_share)
    if larger * len(seen) < _FEWEST or 2 * min(share, gold_share) > larger:
        return False
    marked = sample
    if not format.is_style:
        either = map(any, zip(seen, of_gold, strict=True)) if sample.items else seen
        marked = replace(sample, places=list(compress(sample.places, either)))
    decoded = marked.without(format)
    gain = decoded.score - marked.score
    if abs(gain) >= _GAIN or format.is_style:
        return gain >= _GAIN
    return share > _MOST and not marked.ignores(decoded)


def _describe_formats(given: GivenAnswers, found: tuple[Format, ...]) -> str:
    main, total = found[0], len(given.texts)
    phrase = " and ".join(dict.fromkeys(format.phrase for format in found))
    seen = [at for at, text in enumerate(given.texts) if main.is_seen(text)]
    sample, whose = _Sample.of(given, range(total)), "answers"
    if fmean(map(main.is_seen, sample.golds or ("",))) > len(seen) / total:
        others = f"{total - len(seen):,} of {total:,} answers"
        said = f"Gold answers often {phrase}, unlike {others}. Write your answers the same way"
    else:
        sample, whose = _Sample.of(given, seen), "of these"
        text, plain = sample.texts[0], replace(sample, found=found).texts[0]
        begin = next((at for at, pair in enumerate(zip(text, plain, strict=False)) if pair[0] != pair[1]), 0)
        cut = slice(max(begin - 20, 0), None)
        written, read = (("…" if cut.start else "") + excerpt(each[cut], 50) for each in (text, plain))
        reads = f", which reads {read!r}" if main.looks is None and not main.is_style and plain else ""
        advice = ". ".join(dict.fromkeys(format.advice for format in found))
        shown = f"{given.places[sample.places[0]]} has {written!r}{reads}"
        said = f"{len(seen):,} of {total:,} answers {phrase}. For example, {shown}. {advice}"
    decoded = replace(sample, found=found)
    if decoded.score - sample.score < _GAIN:
        return said
    scores = f"{abs(decoded.score):.2f} in {given.metric.headline} instead of {abs(sample.score):.2f}"
    return f"{said}. With that fixed, {len(sample.texts)} {whose} score {scores}"


# Common prefixes or suffixes of answers

_LEAD_IN = (
    r"\W*(?:(?:the|my|final|correct|best|predicted)\s+)*(?:answer|label|output|response|prediction|predicted|summary"
    r"|translation|class|sentiment|category|result|query|sql|state|change|assistant|model|bot|a)\b.*[:=\s]"
)


def _affixes(sample: _Sample) -> Format | None:
    start = _affix(sample.texts, sample.golds)
    end = _affix([text[::-1] for text in sample.texts], [gold[::-1] for gold in sample.golds])[::-1]
    ends = ((verb, affix) for verb, affix in (("begin", start), ("end", end)) if affix)
    if not (phrase := " and ".join(f"{verb} with {excerpt(affix, 40)!r}" for verb, affix in ends)):
        return None

    def looks(text: str) -> bool:
        return text.startswith(start) and text.endswith(end)

    def decode(text: str) -> str:
        return text.removeprefix(start).removesuffix(end).strip() if looks(text) else text

    is_lead_in = re.fullmatch(_LEAD_IN, start, re.IGNORECASE | re.DOTALL)
    return Format(phrase, "Remove this text", decode, not is_lead_in, looks)


def _affix(texts: Sequence[str], golds: Sequence[str]) -> str:
    start, of_gold = _shared_start(texts), _shared_start(golds)
    start = next((start[:end] for end in range(len(start)) if of_gold.startswith(start[end:])), start)
    start = re.sub(r"[^\W_]+$", "", start)
    return start if start.strip() else ""


def _shared_start(texts: Sequence[str]) -> str:
    """Return the prefix shared by more than 95% of the strings or, failing that, by more than half of them."""
    if not texts:
        return ""
    middle = sorted(texts)[len(texts) // 2]  # texts with the same prefix are adjacent when sorted
    for share in (0.95, _MOST):

        def is_rare(end: int, share: float = share) -> bool:
            return sum(text.startswith(middle[:end]) for text in texts) <= share * len(texts)

        end = bisect_left(range(81), True, key=is_rare) - 1
        if end > 0 and len({text[end:] for text in texts if text.startswith(middle[:end])}) > 1:
            return middle[:end]
    return ""


# Mistakes that can't be decoded, such as repeated prompts, a wrong order or swapped labels. Each function returns a
# description or an empty string.


def _copies(sample: _Sample) -> str:
    """Detect answers that contain a copy of their question or context, or that mostly begin with their id.

    Refusals often quote the question. A copy of one or two words counts only at the beginning.
    """
    theirs = {"id": [item.id for item in sample.items or ()]}
    for which, name in enumerate(("question", "context")):
        theirs[name] = [source[which] for source in sample.sources]
    for name, sources in theirs.items():
        triples = zip(sample.texts, sample.golds, sources, strict=False)
        seen = [_repeats(text, own) and not _repeats(gold, own) for text, gold, own in triples]
        if sum(seen) > (_MOST * len(seen) if name == "id" else max(_FEW - 1, _PART * len(seen))):
            return sample.say(seen, f"contain their {name}. Write only the answer, without the {name}")
    return ""


def _repeats(text: str, source: str) -> bool:
    if len(source) > 2 * len(text):
        return False
    own, text = f" {_folded(source)} ", f" {_folded(text)} "
    return not own.isspace() and (own in text if own.count(" ") > 3 else text.startswith(own))


def _folded(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _columns(sample: _Sample) -> str:
    """Detect answers that select column numbers, such as `SELECT col3`, where the gold queries use column names."""
    pattern = re.compile(
        r"\b(?:select(?: (?:max|min|count|sum|avg))?|where|and)[\s(\"'`\[]+(?:c|col|column)_?\d+\b",
        re.IGNORECASE,
    )
    seen, of_gold = (list(map(bool, map(pattern.search, each))) for each in (sample.texts, sample.golds))
    if sum(seen) < max(_FEW, _PART * len(seen)) or 2 * sum(of_gold) > sum(seen):
        return ""
    return sample.say(
        seen, "refer to columns by number, such as col3. Write the column names from the context"
    )


def _cut_in_word(sample: _Sample) -> str:
    """Detect answers that were cut off in the middle of a word that occurs in their example.

    The second-to-last words and the gold answers show how often this happens by chance.
    """
    if not sample.is_worded or not sample.items:
        return ""
    seen, others = list[bool](), 0
    for text, item, source in zip(sample.texts, sample.items, sample.sources, strict=False):
        given = " ".join(source).casefold()
        known = " ".join((given, *item.answers)).casefold()
        seen.append(_ends_in_word(text, known))
        others += _ends_in_word(text.rpartition(" ")[0], known) + _ends_in_word(item.answers[0], given)
    if sum(seen) < max(_FEW, _PART / 2 * len(seen)) or sum(seen) <= 2 * others:
        return ""
    advice = "Raise the maximum number of tokens, and answer these examples again"
    return sample.say(seen, f"end in the middle of a word. {advice}")


def _ends_in_word(text: str, known: str) -> bool:
    """Return whether the last word of a text occurs in another text only as the beginning of longer words."""
    # Numbers are often the beginnings of other numbers by chance. No word is longer than 100 characters.
    last = re.search(r"(?<![^\W_])[^\W\d_]{2,}\Z", text[-100:].casefold())
    if last is None:
        return False
    word, found = last[0], False
    start = known.find(word)
    while start >= 0:
        if not known[start - 1 : start].isalnum():
            if not known[start + len(word) : start + len(word) + 1].isalnum():
                return False
            found = True
        start = known.find(word, start + 1)
    return found


def _shift(sample: _Sample) -> str:
    """Detect shifted answers, which resemble the gold answers of their neighbors more than their own.

    Only some of the answers may be shifted, for example after a missing line. The resemblance must
    be too strong to be due to chance, judging by its standard deviation or by the resemblance to
    the gold answers of more distant examples.
    """
    best, chance = (0.0, 0.0, 0, 0, 0), 0.0
    for step in (1, -1, 2, -2, 3, -3):
        gains = sample.neighbor_gains(step)
        total, start, end = _best_run(gains)
        if abs(step) > 1:
            chance = max(chance, total)
        else:
            best = max(best, (total, pstdev(gains) * (end - start) ** 0.5, start, end, step))
    total, deviation, start, end, step = best
    if total < _FEWEST or total < min(3 * chance, 6 * deviation):
        return ""
    seen = [start <= at < end and gain > 0 for at, gain in enumerate(sample.neighbor_gains(step))]
    name = "next" if step > 0 else "previous"
    return sample.say(seen, f"resemble the gold answer to the {name} example more than their own, {_ORDER}")


def _sorted(sample: _Sample) -> str:
    """Detect answers in the order of their ids as text (0, 1, 10, 2) or in reverse order.

    The resemblance to the gold answers in that order must be too strong to be due to chance.
    """
    ids = [item.id for item in sample.given.references or ()]
    for order in (sorted(range(len(ids)), key=ids.__getitem__), range(len(ids) - 1, -1, -1)):
        gains = sample.gains(order)
        if sum(gains) > max(_FEWEST, 6 * pstdev(gains) * len(gains) ** 0.5):
            listed = ", ".join(ids[at] for at in order[:3])
            seen = [gain > 0 for gain in gains]
            return sample.say(
                seen,
                f"resemble the gold answers in the order {excerpt(listed, 80)} more than their own, {_ORDER}",
            )
    return ""


def _best_run(gains: Sequence[float]) -> tuple[float, int, int]:
    """Subtract 0.1 from each gain, and return the sum, start and end of the slice with the largest sum."""
    best, total, start = (0.0, 0, 0), 0.0, 0
    for at, gain in enumerate(gains):
        if total <= 0:
            total, start = 0.0, at
        total += gain - 0.1
        best = max(best, (total, start, at + 1))
    return best


_ORDER = "so they are in the wrong order. Make sure that each answer has the id of its example"


def _swapped(sample: _Sample) -> str:
    """Detect swapped labels or tags: many answers would be right if some labels were exchanged."""
    if not isinstance(sample.given.output, Label | Tags):
        return ""

    def read(text: str) -> list[str]:
        return text.split() if isinstance(sample.given.output, Tags) else [fold_label(text)]

    rows = [
        list(zip(*map(read, pair), strict=False)) for pair in zip(sample.texts, sample.golds, strict=True)
    ]
    pairs = Counter(pair for row in rows for pair in row)
    times = Counter(given for row in rows for given, _ in row)
    meant = {each: max((pairs[each, gold], gold) for _, gold in pairs)[1] for each in times}
    meant.update({each: each for each, count in times.items() if count <= _PART * times.total()})
    moved = sum(count for given, count in times.items() if meant[given] != given)
    gain = sum(pairs[given, gold] - pairs[given, given] for given, gold in meant.items())
    if sorted(meant) != sorted(meant.values()) or gain <= max(0.3 * moved, 3 * moved**0.5):
        return ""
    seen = [any(meant[given] == gold != given for given, gold in row) for row in rows]
    listed = excerpt(", ".join(sorted(given for given, gold in meant.items() if given != gold)), 60)
    said = f"would be right if the labels were swapped ({listed})"
    return sample.say(seen, f"{said}. Check which number stands for which label")


def _constant(sample: _Sample) -> str:
    """Detect answers that are all the same, such as `positive`, or `NOUN` for each word."""
    is_listed = isinstance(sample.given.output, Tags | Tree)
    items = [set(" ".join(each).split() if is_listed else each) for each in (sample.texts, sample.golds)]
    if len(items[0]) > 1 or len(items[1]) < 2:
        return ""
    verb = "repeat the tag" if is_listed else "are"
    return f"all {len(sample.texts):,} answers {verb} {excerpt(min(items[0]), 40)!r}"


def _displaced(sample: _Sample) -> str:
    """Detect texts or tags that begin or end one word too early or too late, or are in reverse order."""
    output, metric = sample.given.output, sample.given.metric
    if not isinstance(output, Text | Tags) or default_form(output, metric.name).kind == "state":
        return ""

    def score(part: slice, of_gold: slice) -> float:
        texts = [" ".join(text.split()[part]) or text for text in sample.texts]
        items = [
            replace(item, answers=tuple(" ".join(gold.split()[of_gold]) or gold for gold in item.answers))
            for item in sample.items or ()
        ]
        return _score(metric, texts, items)

    after = {said: score(*slices) for said, slices in _SLICES.items()}
    said = max(after, key=after.__getitem__)
    if after[said] <= sample.score + 3 * _GAIN:
        return ""
    scores = f"{after[said]:.2f} in {metric.headline} instead of {sample.score:.2f}"
    return sample.say([True] * len(sample.texts), f"seem to {said}. With that fixed, they score {scores}")


_WHOLE = slice(None)
_SLICES = {
    "lack their first word": (_WHOLE, slice(1, None)),
    "lack their last word": (_WHOLE, slice(-1)),
    "have one word too many at the beginning": (slice(1, None), _WHOLE),
    "have one word too many at the end": (slice(-1), _WHOLE),
    "be in reverse order": (slice(None, None, -1), _WHOLE),
}
"""Mistakes, with slices of the answers and of the gold answers that should match despite the mistake."""


def _unrelated(sample: _Sample) -> str:
    """Detect answers that are almost as similar to the gold answers of other examples as to their own."""
    count, random = len(sample.given.references or ()), Random(0)
    reach = 10 if sample.is_worded else count  # texts nearby may have the same context
    gains = sample.gains([(at + random.randint(1, reach)) % count for at in range(count)])
    total, start, end = _best_run([gain - fmean(gains) / 2 for gain in gains])
    if -sum(gains) <= max(_PART * len(gains), 2 * pstdev(gains) * len(gains) ** 0.5):
        total, start, end = len(gains), 0, len(gains)  # all of them
    if end - start < 50 or total <= 4 * pstdev(gains) * (end - start) ** 0.5:
        return ""
    said = (
        "resemble their own gold answers only slightly more than those of other examples. They may be guesses"
    )
    seen = [start <= at < end for at in range(len(gains))]
    return sample.say(seen, f"{said}, in the wrong order, for another split or on a reversed scale")


_NUMBERS = re.compile(r"(?i)\W*(?:[A-H]|(?:label|class|option|choice)?[_ ]?\d+(?:\W+\d+)*)\W*")


def _numbers(sample: _Sample) -> str:
    seen, of_gold = (list(map(bool, map(_NUMBERS.fullmatch, each))) for each in (sample.texts, sample.golds))
    are_most = fmean(seen) > _MOST and 2 * fmean(of_gold or (False,)) < fmean(seen)
    if not are_most or isinstance(sample.given.output, Number):
        return ""
    return sample.say(seen, "are numbers or letters that stand for labels or tokens. Write the texts instead")


def _cut(sample: _Sample) -> str:
    """Detect truncated answers: many have exactly the maximum length, and gold answers are longer."""
    for unit, least, many in (("characters", 20, 0.1), ("words", 8, 0.25)):
        lengths, of_gold = (
            [len(text if unit == "characters" else text.split()) for text in each]
            for each in (sample.texts, sample.golds)
        )
        longest, share = max(lengths), many if of_gold else _MOST
        seen = [length == longest >= least for length in lengths]
        is_longer = not of_gold or fmean(length > longest for length in of_gold) > share / 2
        differ = len(set(compress(sample.texts, seen))) >= _FEWEST
        if sample.is_worded and differ and fmean(seen) > share and is_longer:
            return sample.say(
                seen,
                f"have exactly {longest:,} {unit}, and no answer is longer. These answers may be truncated",
            )
    return ""


def _parts(sample: _Sample) -> str:
    """Detect short truncated answers: no answer is longer, and many begin or end like a longer gold answer."""
    if not sample.is_worded or not sample.items:
        return ""
    texts = [text.casefold() for text in sample.texts]
    golds = [[gold.casefold() for gold in item.answers] for item in sample.items]
    for unit in ("words", "characters"):

        def measure(text: str, unit: str = unit) -> int:
            return len(text if unit == "characters" else text.split())

        most = max(map(measure, texts))
        longer = [min(map(measure, each)) > most for each in golds]
        if sum(longer) < max(_FEWEST, _PART * len(longer)):
            continue
        for name, matches in (("beginning", str.startswith), ("end", str.endswith)):
            pairs = zip(longer, texts, golds, strict=True)
            seen = [
                bool(each and text) and any(matches(gold, text) for gold in own) for each, text, own in pairs
            ]
            if sum(seen) >= max(_FEWEST, _PARTS * sum(longer)):
                said = f"are only the {name} of a gold answer, and no answer has more than {most:,} {unit}"
                return sample.say(seen, f"{said}. These answers may be truncated")
    return ""


_PARTS = 0.3
"""The minimum fraction of parts among the answers to be longer than all answers.

Without truncation, the longest answers of a model are as long as the longest gold answers."""


def _sentences(sample: _Sample) -> str:
    """Detect texts cut to one sentence: hardly any answer has several sentences, unlike the gold answers.

    These answers must also be short, compared with the answers whose gold answers have one sentence.
    """
    if not sample.is_worded or getattr(sample.given.output, "extractive", False):
        return ""
    several, gold_several = (list(map(_has_sentences, each)) for each in (sample.texts, sample.golds))
    if sum(gold_several) < max(10, _SEVERAL * len(several)) or sum(several) > 0.1 * sum(gold_several):
        return ""

    def ratio(chosen: Sequence[bool]) -> float:
        words, gold_words = (
            sum(len(text.split()) for text in compress(each, chosen)) for each in (sample.texts, sample.golds)
        )
        return words / gold_words

    gold_single = [not each for each in gold_several]
    if ratio(gold_several) > 0.8 * (ratio(gold_single) if sum(gold_single) >= 10 else 1):
        return ""
    seen = [each and not own for own, each in zip(several, gold_several, strict=True)]
    return sample.say(seen, "have one sentence, unlike their gold answers. These answers may be truncated")


def _has_sentences(text: str) -> bool:
    return bool(re.search(r"[.!?\u2026\u3002][^\w\s]*\s+\S", text))


_SEVERAL = 0.05
"""The minimum fraction of gold answers with several sentences."""


def _lost(sample: _Sample) -> str:
    """Detect labels or tags that never occur, because a conversion replaced them with another label or `O`.

    There must be several other labels, which must mostly be right, so that the bias of a weak model is not reported.
    """
    output = sample.given.output
    if not isinstance(output, Label | Tags):
        return ""
    prefix = 2 if isinstance(output, Tags) and output.scheme != "plain" else 0  # such as B-

    def read(text: str) -> list[str]:
        return (
            [tag[prefix:] or tag for tag in text.split()] if isinstance(output, Tags) else [fold_label(text)]
        )

    texts = zip(map(read, sample.texts), map(read, sample.golds), strict=True)
    pairs = Counter(pair for given, gold in texts for pair in zip(given, gold, strict=False))
    golds, given = Counter[str](), Counter[str]()
    for (own, gold), count in pairs.items():
        golds[gold] += count if gold != "O" else 0
        given[own] += count
    missing = [name for name in golds if not given[name] and golds[name] >= max(10, _LOST * golds.total())]
    rest = sum(golds[name] for name in golds if name not in missing)
    right = [pairs[name, name] for name in golds if pairs[name, name]]
    if not missing or len(right) < 2 or sum(right) - pairs["O", "O"] < 0.7 * max(rest, 1):
        return ""
    others = Counter[str]()
    for name in missing:
        other, count = max(((own, pairs[own, name]) for own in given), key=lambda pair: pair[1])
        if count < 0.7 * golds[name]:
            return ""
        others[other] += 1
    listed = " or ".join(
        f"{excerpt(name, 40)!r} ({golds[name]:,} times in the gold answers)" for name in missing
    )
    instead = " or ".join(repr(excerpt(name, 40)) for name in others)
    return (
        f"no answer contains {listed}. Answers to these examples usually contain {instead}. Check how the labels were "
        "converted"
    )


_LOST = 0.05
"""The minimum fraction of a label in the gold answers. Models may never choose rarer labels."""


def _reversed(sample: _Sample) -> str:
    """Detect a part of the file in which the numbers are on a reversed scale.

    The correlation with the gold numbers must be too negative to be due to chance.
    """
    scale = sample.given.output
    if not isinstance(scale, Number) or not sample.items:
        return ""
    low, high = scale.low, scale.high
    found = (float(find_number(text, (low, high)) or low) for text in sample.texts)
    numbers = [min(max(number, low), high) for number in found]
    scaled = map(_scaled, (numbers, list(map(float, sample.golds))))
    losses = [-number * gold for number, gold in zip(*scaled, strict=True)]
    total, start, end = _best_run(losses)
    seen = [start <= at < end for at in range(len(losses))]
    if total <= max(10, 4 * pstdev(losses) * (end - start) ** 0.5) or all(seen):
        return ""
    texts = [f"{low + high - x:g}" if each else f"{x:g}" for x, each in zip(numbers, seen, strict=True)]
    after = _score(sample.given.metric, texts, sample.items)
    if after <= sample.score:
        return ""
    scores = f"{abs(after):.2f} in {sample.given.metric.headline} instead of {abs(sample.score):.2f}"
    return sample.say(
        seen,
        f"are consecutive and seem to be on a reversed scale. With that fixed, all answers score {scores}",
    )


def _scaled(numbers: Sequence[float]) -> list[float]:
    mean, deviation = fmean(numbers), pstdev(numbers) or 1.0
    return [(number - mean) / deviation for number in numbers]


def _elsewhere(sample: _Sample) -> str:
    """Detect answers that don't occur in their context, such as `It is Bonn`, although nearly all gold answers do.

    The answers must resemble their own gold answers, so that a weak model's wrong answers are not reported.
    """
    if not sample.is_worded or not sample.sources:
        return ""

    def are_elsewhere(texts: Sequence[str]) -> list[bool]:
        return [not is_in_context(text, own[1]) for text, own in zip(texts, sample.sources, strict=True)]

    seen, fewest = are_elsewhere(sample.texts), max(_FEW, _ELSEWHERE * len(sample.texts))
    if sum(seen) < fewest:
        return ""
    labels = set(map(_folded, sample.given.read_form().labels))

    def without_labels(seen: Sequence[bool], texts: Sequence[str]) -> list[bool]:
        return [is_seen and _folded(text) not in labels for is_seen, text in zip(seen, texts, strict=True)]

    seen = without_labels(seen, sample.texts)
    if sum(seen) < fewest or fmean(without_labels(are_elsewhere(sample.golds), sample.golds)) > _PART:
        return ""
    gains = list(compress(sample.neighbor_gains(1), seen))
    if -sum(gains) < max(_FEW, 3 * pstdev(gains) * len(gains) ** 0.5):
        return ""
    return sample.say(
        seen, "don't occur in their context, unlike the gold answers. Write only words from the context"
    )


_ELSEWHERE = 0.1
"""The minimum fraction of answers that must be missing from their context for `_elsewhere` to report them.

For models that copy words, the fraction stays below 6%.
"""
