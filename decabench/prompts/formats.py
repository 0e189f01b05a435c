"""What a file of answers looks like if it is not what it should be: in another format, another order, or no answers.

A score near 0 then says nothing of the model. Nothing here changes a score: a sentence says why it is low. The metric
tells a mistake from data that are like that: it scores the answers higher once both they and the gold answers are
decoded. Without gold answers, only formats count that no answer is in on purpose.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from itertools import compress
from statistics import correlation, fmean
from typing import Any

from decabench.metrics import Item, Metric, Reference, fold_label, score_rows
from decabench.prompts.encodings import BEYOND_ASCII, FORMATS, Format
from decabench.tasks import Label, Number, Output, Tags, Text, Tree
from decabench.text import excerpt

__all__ = ["GivenAnswers", "describe_format"]

_SAMPLE = 100
"""So many answers are looked at; all of them only to count what was found."""
_FEWEST = 5
"""Fewer answers tell nothing."""
_LONGEST = 20_000
"""Characters of an answer that are looked at."""
_MOST = 0.5
"""The share of answers that must be in a format, if the score does not prove it."""
_SOME = 0.05
"""The same if it does."""
_GAIN = 1.0
"""Points by which decoding must raise the score, to prove a format."""
_RIGHT = 95.0
"""A score from which nothing can be amiss with the answers as a whole."""
_UNKNOWN = -1e9
"""The score of what a metric cannot score."""


@dataclass(frozen=True)
class GivenAnswers:
    """The answers of a file, and what is known of their examples."""

    output: Output
    """The task's output."""
    metric: Metric
    """Its headline metric."""
    places: Sequence[str]
    """Where each answer is, for the message: `line 3`, or an id."""
    texts: Sequence[str]
    """The answers, in the order of the data."""
    references: Sequence[Item] | None = None
    """The example of each, with its gold answers, which no message shows; None if they are unknown."""
    read_prompts: Callable[[], Mapping[str, tuple[str, str]]] | None = None
    """Reads the question and the context of each example, by id; called only if answers may be copies of them."""

    @cached_property
    def joined(self) -> str:
        """All answers as one text."""
        return "".join(self.texts)


def describe_format(given: GivenAnswers) -> str:
    """Say what most answers look like, how many do, what to do, and what the score would be; empty if they are fine."""
    written = [at for at, text in enumerate(given.texts) if text and not text.isspace()]
    if len(written) < _FEWEST:
        return ""
    sample = _Sample.of(given, written)
    if said := _same(sample) or _copies(sample):
        return said
    if found := _find_formats(sample):
        return _describe_formats(sample, found)
    said = next(
        filter(None, (detect(sample) for detect in (_swapped, _order, _numbers, _language, _cut))), ""
    )
    return said if sample.score <= _RIGHT else ""


@dataclass(frozen=True)
class _Sample:
    """Some of the answers from all over the file, always the same ones."""

    given: GivenAnswers
    """All of them."""
    places: Sequence[int]
    """Which ones."""
    texts: Sequence[str]
    """The answers."""
    golds: Sequence[str]
    """The first gold answer of each; or the labels of the task; empty if nothing is known."""
    items: Sequence[Item] | None
    """Their examples, if these are known."""

    @classmethod
    def of(cls, given: GivenAnswers, places: Sequence[int], most: int = _SAMPLE) -> _Sample:
        """Draw from the answers in these places."""
        if len(places) > most:  # without a period: neighbours may be pairs
            steps = (number * 0.6180339887 % 1 for number in range(most))
            places = sorted({places[int(len(places) * step)] for step in steps})
        texts = [given.texts[at][:_LONGEST] for at in places]
        if given.references is None:
            names = given.output.names if isinstance(given.output, Label) else ()
            return cls(given, places, texts, names, None)
        items = [given.references[at] for at in places]
        return cls(given, places, texts, [item.answers[0][:_LONGEST] for item in items], items)

    def without(self, format: Format) -> _Sample:
        """Return the sample with the answers, and gold answers that are in the format too, decoded from it."""
        texts = list(map(format.fold, self.texts))
        if not format.is_of_gold:
            return replace(self, texts=texts)
        items = self.items and [
            replace(item, answers=tuple(map(format.fold, item.answers))) for item in self.items
        ]
        return replace(self, texts=texts, golds=list(map(format.fold, self.golds)), items=items)

    @cached_property
    def score(self) -> float:
        """The score of these answers, higher is better; 0 if their examples are unknown."""
        return _score(self.given.metric, self.texts, self.items) if self.items is not None else 0.0

    def ignores(self, decoded: _Sample) -> bool:
        """Tell whether the metric takes these answers for the same as the decoded ones."""
        pairs = [pair for pair in zip(self.texts, decoded.texts, strict=True) if pair[0] != pair[1]]
        items = [Item((plain,), id=f"x_{number}") for number, (_, plain) in enumerate(pairs)]
        given, wanted = (_score(self.given.metric, [pair[at] for pair in pairs], items) for at in (0, 1))
        if not self.given.metric.higher_is_better:
            return given >= wanted > _UNKNOWN
        if wanted in (0.0, _UNKNOWN):  # it reads more of an example than its answer
            return self.score == decoded.score > 5
        return given > 0.98 * wanted

    @property
    def is_worded(self) -> bool:
        """Whether answers are free text."""
        return isinstance(self.given.output, Text)

    def read(self, text: str) -> frozenset[Any]:
        """Return the words of a text, or its items with their places."""
        is_listed = isinstance(self.given.output, Tags | Tree)
        return frozenset(enumerate(text.split()) if is_listed else re.findall(r"\w+", text.lower()))

    @cached_property
    def words(self) -> list[frozenset[Any]]:
        """The words of each answer."""
        return list(map(self.read, self.texts))

    @cached_property
    def resembles(self) -> list[float]:
        """How much each answer resembles its first gold answer, 0-1."""
        return list(map(_overlap, self.words, map(self.read, self.golds)))

    def say(self, share: float, sentence: str, at: int = 0) -> str:
        """Return a sentence about a share of the answers, of which one is shown."""
        count, whole = len(self.texts), len(self.texts) == len(self.given.texts)
        of = f"{count:,} answers{'' if whole else ' from all over the file'}"
        shown = f"{self.given.places[self.places[at]]} has {excerpt(self.texts[at], 60)!r}"
        return f"{round(share * count):,} of {of} {sentence}; {shown}"


def _score(metric: Metric, texts: Sequence[str], items: Sequence[Reference]) -> float:
    try:
        metric = metric.for_data(items)
        value = score_rows(metric, metric.statistics(texts, items)).value
    except Exception:  # it may be anybody's code, or need more of an example than its answer
        return _UNKNOWN
    return value if metric.higher_is_better else -value


def _overlap(words: frozenset[Any], others: frozenset[Any]) -> float:
    return 2 * len(words & others) / ((len(words) + len(others)) or 1)


# Formats that can be decoded


def _find_formats(sample: _Sample) -> list[Format]:
    """Return the formats of the answers, each of which is seen once those before it are decoded."""
    found = list[Format]()
    for format in FORMATS:
        if _is_found(format, sample) or (
            format.is_partial and _is_found_in_part(format, sample.given, found)
        ):
            found.append(format)
            sample = sample.without(format)
    affixes = _affixes(sample)
    return [*found, affixes] if affixes is not None and _is_found(affixes, sample) else found


def _is_found(format: Format, sample: _Sample, proved: bool = False) -> bool:
    """Tell whether answers are in a format; if it must be `proved`, only by their score."""
    if not format.may_be_in("".join((*sample.texts, *sample.golds))):
        return False
    share = fmean(map(format.is_seen, sample.texts))
    of_gold = fmean(map(format.is_seen, sample.golds)) if sample.golds else 0.0
    most = max(share, of_gold)
    if most < _SOME or most * len(sample.texts) < _FEWEST or abs(share - of_gold) <= most / 2:
        return False
    decoded = sample.without(format)
    gain = decoded.score - sample.score
    if gain >= _GAIN or proved or format.is_style or share <= _MOST or gain <= -_GAIN:
        return gain >= _GAIN
    return not sample.ignores(decoded)


def _is_found_in_part(format: Format, given: GivenAnswers, found: Sequence[Format]) -> bool:
    """Tell whether some of all answers are in a format, and only those, so that a sample has too few of them."""
    if given.references is None or not (found or format.may_be_in(given.joined)):
        return False
    texts = [_decoded(text, found) for text in given.texts] if found else given.texts
    marked = [not text.isascii() for text in texts] if BEYOND_ASCII in format.marks else [False] * len(texts)
    for mark in format.marks:
        marked = [is_marked or mark in text for is_marked, text in zip(marked, texts, strict=True)]
    seen = [
        at
        for at in compress(range(len(texts)), marked)
        if format.is_seen(texts[at][:_LONGEST]) and not given.texts[at].isspace()
    ]
    if len(seen) <= _FEWEST + 0.002 * len(texts):
        return False
    return _is_found(format, reduce(_Sample.without, found, _Sample.of(given, seen)), proved=True)


def _decoded(text: str, formats: Sequence[Format]) -> str:
    return reduce(lambda text, format: format.fold(text), formats, text)


def _describe_formats(sample: _Sample, found: Sequence[Format]) -> str:
    given, main = sample.given, found[0]
    total, phrase = len(given.texts), " and ".join(dict.fromkeys(format.phrase for format in found))
    seen = [at for at, text in enumerate(given.texts) if main.is_seen(text)]
    if fmean(map(main.is_seen, sample.golds or ("",))) > len(seen) / total:
        said = f"most gold answers {phrase}, unlike {total - len(seen):,} of {total:,} answers: write answers like them"
        whose = "answers"
    else:
        text, sample, whose = given.texts[seen[0]], _Sample.of(given, seen), "of these"
        written, plain = _around(text, _decoded(text, found))
        reads = "" if main.is_style or not plain else f", which reads {plain!r}"
        advice = "; ".join(dict.fromkeys(format.advice for format in found))
        said = f"{len(seen):,} of {total:,} answers {phrase}: {advice}; {given.places[seen[0]]} has {written!r}{reads}"
    decoded = reduce(_Sample.without, found, sample)
    if decoded.score - sample.score < _GAIN:
        return said
    scores = f"{abs(decoded.score):.2f} in {given.metric.headline} instead of {abs(sample.score):.2f}"
    return f"{said}. Without that, {len(sample.texts)} {whose} score {scores}"


def _around(text: str, decoded: str) -> tuple[str, str]:
    """Return where a text and what it reads begin to differ."""
    pairs = enumerate(zip(text, decoded, strict=False))
    begin = max(next((at for at, (char, other) in pairs if char != other), 0) - 20, 0)
    before = "…" if begin else ""
    return before + excerpt(text[begin:], 50), decoded and before + excerpt(decoded[begin:], 50)


# What most answers begin or end with

_LEAD_IN = (
    r"\W*(?:(?:the|my|final|correct|best|predicted)\s+)*(?:answer|label|output|response|prediction|predicted|summary"
    r"|translation|class|sentiment|category|result|query|sql|state|change|assistant|model|bot|a)\b.*[:=\s]"
)


def _affixes(sample: _Sample) -> Format | None:
    """Return the format of answers that begin or end alike, unlike the gold answers; None if they do not."""
    start = _affix(sample.texts, sample.golds)
    end = _affix([text[::-1] for text in sample.texts], [gold[::-1] for gold in sample.golds])[::-1]
    ends = ((verb, affix) for verb, affix in (("begin", start), ("end", end)) if affix)
    phrase = " and ".join(f"{verb} with {excerpt(affix, 40)!r}" for verb, affix in ends)
    if not phrase:
        return None

    def looks(text: str) -> bool:
        return text.startswith(start) and text.endswith(end)

    if sum(map(looks, sample.golds)) > _SOME * len(sample.golds):
        return None
    format = Format(
        phrase,
        "leave it out",
        lambda text: text.removeprefix(start).removesuffix(end).strip(),
        looks=looks,
        is_style=not re.fullmatch(_LEAD_IN, start, re.IGNORECASE | re.DOTALL),
        is_of_gold=False,
    )
    if all(map(looks, sample.texts)) and not any(map(looks, sample.golds)):  # even a small gain proves it
        return format._replace(is_style=format.is_style and sample.without(format).score <= sample.score)
    return format


def _affix(texts: Sequence[str], golds: Sequence[str]) -> str:
    """Return whole words that texts begin with, unlike the gold answers."""
    start, of_gold = _shared_start(texts), _shared_start(golds)
    start = next((start[:end] for end in range(len(start)) if of_gold.startswith(start[end:])), start)
    if start and start[-1].isalnum():
        start = start[: len(start) - len(re.split(r"[\W_]", start)[-1])]
    return start if start.strip() else ""


def _shared_start(texts: Sequence[str]) -> str:
    """Return the longest text that nearly all, or else most, of the texts begin with before they differ."""
    if len(texts) < _FEWEST:
        return ""
    middle = sorted(texts)[len(texts) // 2]  # it begins so: sorted texts with one beginning follow each other
    for share in (0.95, _MOST):

        def is_rare(end: int, share: float = share) -> bool:
            return sum(text.startswith(middle[:end]) for text in texts) <= share * len(texts)

        end = bisect_left(range(81), True, key=is_rare) - 1
        if end and len({text[end:] for text in texts if text.startswith(middle[:end])}) > 1:
            return middle[:end]
    return ""


# What cannot be decoded: copies, another order, another language. Each says what it finds, or nothing.


def _same(sample: _Sample) -> str:
    text, count = Counter(sample.texts).most_common(1)[0]
    share = count / len(sample.texts)
    if share == 1 and len(set(sample.golds)) != 1:
        return sample.say(share, "are the same: look at what the model was asked")
    if share <= _MOST or not sample.is_worded or sample.items is None:
        return ""
    if Counter(sample.golds).most_common(1)[0][1] > count / 2:
        return ""
    return sample.say(share, "are the same: look at what the model was asked", sample.texts.index(text))


def _copies(sample: _Sample) -> str:
    """Find answers that are, or begin with, their id, question or context; these are read only if it seems so."""
    given, items = sample.given, sample.items
    if items is None:
        return ""
    sources = {"id": [item.id for item in items]}
    if given.read_prompts is not None and (_is_long(sample) or _has_other_words(sample) or _asks(sample)):
        prompts = given.read_prompts()
        for which, name in enumerate(("question", "context")):
            sources[name] = [" ".join(prompts.get(item.id, ("", ""))[which].split()) for item in items]
    for name, theirs in sources.items():
        seen, of_gold = (
            [
                bool(own) and " ".join(text.split()).startswith(own)
                for text, own in zip(each, theirs, strict=True)
            ]
            for each in (sample.texts, sample.golds)
        )
        if (share := fmean(seen)) > _MOST and fmean(of_gold) < share / 2:
            at = seen.index(True)
            is_whole = len(sample.texts[at].split()) == len(theirs[at].split())
            advice = "look at what the model was asked" if is_whole else "write only what follows"
            return sample.say(share, f"{'are' if is_whole else 'begin with'} their {name}: {advice}", at)
    return ""


def _is_long(sample: _Sample) -> bool:
    return fmean(map(len, sample.texts)) > 1.7 * fmean(map(len, sample.golds))


def _asks(sample: _Sample) -> bool:
    return fmean(text.rstrip().endswith("?") for text in sample.texts) > _MOST


_ORDER = "they are in another order, so write each with the id of its example"


def _order(sample: _Sample) -> str:
    """Find answers that are for other examples: they resemble the gold answers of these more than chance allows."""
    references = sample.given.references
    if references is None or fmean(sample.resembles) > 0.8:
        return ""
    if isinstance(sample.given.output, Label | Number):  # of few labels, many are right by chance
        sample = _Sample.of(sample.given, range(len(references)), most=10 * _SAMPLE)
    read = cache(lambda at: sample.read(references[at].answers[0]))

    def resemble(places: Sequence[int]) -> list[float]:
        golds = (read(at % len(references)) for at in places)
        return list(map(_overlap, sample.words, golds))

    far = resemble([at + len(references) // 3 for at in sample.places])
    for name, places in _orders(sample, [item.id for item in references]):
        theirs = resemble(places)
        if all(_is_more(theirs, others) for others in (sample.resembles, far)):
            gains = [there - here for there, here in zip(theirs, sample.resembles, strict=True)]
            at, share = gains.index(max(gains)), fmean(gain > 0 for gain in gains)
            return sample.say(share, f"resemble the gold answer {name} more than their own: {_ORDER}", at)
    return _shuffled(sample, references) if sample.is_worded else ""


def _is_more(values: Sequence[float], others: Sequence[float]) -> bool:
    """Tell whether values are greater in pairs, by a tenth and by six standard errors."""
    gains = [value - other for value, other in zip(values, others, strict=True)]
    mean = fmean(gains)
    return mean > 0.1 and mean > 6 * (fmean((gain - mean) ** 2 for gain in gains) / len(gains)) ** 0.5


def _shuffled(sample: _Sample, references: Sequence[Item]) -> str:
    """Find answers that are exactly the gold answer of one other example, or are sorted by length, as batches are."""
    times = Counter(item.answers[0] for item in references)
    known = [at for at, text in enumerate(sample.texts) if times[text] == 1]
    moved = [at for at in known if sample.texts[at] not in references[sample.places[at]].answers]
    if len(known) > 2 * _FEWEST and len(moved) > 0.7 * len(known):
        share = len(moved) / len(sample.texts)
        return sample.say(share, f"are the gold answer of another example: {_ORDER}", moved[0])
    if abs(_rising(sample.texts)) > 0.8 and abs(_rising(sample.golds)) < 0.4:
        return sample.say(1.0, f"are sorted by length: {_ORDER}")
    return ""


def _orders(sample: _Sample, ids: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield orders in which answers are often written by mistake: whose example's answer stands in each place."""
    for step in (1, -1, 2, -2):
        where = f"{abs(step)} {'place' if abs(step) == 1 else 'places'} {'further down' if step > 0 else 'further up'}"
        yield f"of the example {where}", [at + step for at in sample.places]
    yield "in their place from the end", [len(ids) - 1 - at for at in sample.places]
    by_text = sorted(range(len(ids)), key=ids.__getitem__)
    yield "in their place once ids are sorted as texts", [by_text[at] for at in sample.places]


def _rising(texts: Sequence[str]) -> float:
    """Return the correlation of the places of texts with their lengths."""
    lengths = [float(len(text)) ** 0.5 for text in texts]
    return correlation(range(len(texts)), lengths) if len(set(lengths)) > _FEWEST else 0.0


def _swapped(sample: _Sample) -> str:
    """Find labels that stand for each other: each is mostly the answer where one other is right."""
    if not isinstance(sample.given.output, Label) or sample.items is None:
        return ""
    pairs = Counter(zip(map(fold_label, sample.texts), map(fold_label, sample.golds), strict=True))
    meant = {
        given: max((count, gold) for (text, gold), count in pairs.items() if text == given)[1]
        for given, _ in pairs
    }
    right, swapped = (
        sum(pairs[given, to] for given, to in each)
        for each in (zip(meant, meant, strict=True), meant.items())
    )
    if (
        sorted(meant) != sorted(meant.values())
        or len(meant) < 2
        or swapped - right <= 0.3 * len(sample.texts)
    ):
        return ""
    listed = excerpt(", ".join(sorted(given for given, gold in meant.items() if given != gold)), 60)
    sentence = (
        f"would be right with labels swapped ({listed}): check which label each of the model's numbers means"
    )
    return sample.say((swapped - right) / len(sample.texts), sentence)


def _numbers(sample: _Sample) -> str:
    """Find numbers or letters of labels, and numbers of tokens."""
    for pattern, what in (
        (
            r"\W*(?:[A-H]|(?:label|class|option|choice)?[_ ]?\d{1,3})\W*",
            "are numbers or letters of labels: write the labels",
        ),
        (r"\W*\d+(?:\W+\d+)*\W*", "are numbers, as of tokens: decode them with the model's tokenizer"),
    ):
        seen, of_gold = (
            [bool(re.fullmatch(pattern, text, re.IGNORECASE)) for text in each]
            for each in (sample.texts, sample.golds)
        )
        if of_gold and (share := fmean(seen)) > _MOST and fmean(of_gold) < share / 2:
            return sample.say(share, what, seen.index(True))
    return ""


def _language(sample: _Sample) -> str:
    """Find answers in another language or script than gold answers, or without spaces."""
    if not sample.is_worded or sample.items is None or sample.score > 50:
        return ""
    script, of_gold = _script(sample.texts), _script(sample.golds)
    if script and of_gold and script != of_gold:
        return sample.say(
            1.0, f"are mostly {script}, unlike the gold answers: write them in the language of the task"
        )
    if said := _glued(sample):
        return said
    if not _has_other_words(sample):
        return ""
    common = ", ".join(
        word for word, _ in Counter(word for words in sample.words for word in words).most_common(4)
    )
    sentence = f"have hardly any words that are common in gold answers; their own commonest are {excerpt(common, 60)}"
    return sample.say(1.0, f"{sentence}: are they in another language?")


def _glued(sample: _Sample) -> str:
    """Find answers that are the words of gold answers without the spaces, if the metric cares."""
    several = [at for at, gold in enumerate(sample.golds) if len(gold.split()) > 1]
    lone = fmean(
        [2 * len(re.findall(r"[^\W_]+", sample.texts[at])) <= len(sample.golds[at].split()) for at in several]
        or [0]
    )
    right = fmean([all(map(sample.texts[at].count, sample.golds[at].split())) for at in several] or [0])
    if lone <= 0.7 or right <= 0.1:
        return ""
    spaced = replace(sample, texts=sample.golds)
    if replace(sample, texts=["".join(gold.split()) for gold in sample.golds]).ignores(spaced):
        return ""
    return sample.say(lone, "have no spaces: write them between words", several[0])


def _has_other_words(sample: _Sample) -> bool:
    """Tell whether answers are sentences without the words that are the commonest in gold answers."""
    if not sample.is_worded or fmean(sample.resembles) > 0.3:
        return False
    golds = list(map(sample.read, sample.golds))
    if fmean(map(len, golds)) < _FEWEST or fmean(map(len, sample.words)) < 3:
        return False
    counts = Counter(word for words in golds for word in words)
    common = {word for word, count in counts.items() if count >= max(0.1 * len(golds), 3)}
    of_gold, share = (
        fmean(len(words & common) / (len(words) or 1) for words in each) for each in (golds, sample.words)
    )
    return of_gold > 0.15 and share < 0.3 * of_gold


def _script(texts: Sequence[str]) -> str:
    """Return the script of most letters: `Latin`."""
    letters = Counter(char for text in texts for char in text[:50] if char.isalpha())
    found: Counter[str] = Counter()
    for char, count in letters.items():
        found[unicodedata.name(char, "").partition(" ")[0].capitalize()] += count
    name, count = found.most_common(1)[0] if found else ("", 0)
    return name if count > 0.8 * letters.total() else ""


def _cut(sample: _Sample) -> str:
    """Find answers of which many are as long as the longest."""
    if not sample.is_worded:
        return ""
    texts, golds = set(sample.texts), set(sample.golds)
    for unit, least, many in (("characters", 20, 0.1), ("words", 8, 0.25)):

        def length(text: str, unit: str = unit) -> int:
            return len(text if unit == "characters" else text.split())

        longest = max(map(length, texts))
        share = fmean(length(text) == longest for text in texts)
        longer = fmean(length(gold) > longest for gold in golds) if golds else 1.0
        if not golds:
            many = _MOST
        if longest >= least and share > many and share * len(texts) >= _FEWEST and longer > many / 2:
            seen = [length(text) == longest for text in sample.texts]
            sentence = f"have {longest:,} {unit}, and none has more: were they cut?"
            return sample.say(fmean(seen), sentence, seen.index(True))
    return ""
