"""The types of answers: text, labels, tags, dependency trees and numbers.

`find_fault` checks that a gold answer is valid for its type and for the task's metrics.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Literal, get_args

from decabench.errors import DataError
from decabench.metrics import METRICS, Item, Metric, MetricError, Reference, chunks, fold_label, score_rows
from decabench.tasks.example import Example
from decabench.text import bare

Scheme = Literal["plain", "IOB1", "IOB2", "IOBES", "IOE1", "IOE2"]
"""How tags mark chunks. `plain` tags, such as parts of speech, mark single tokens."""

SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


@dataclass(frozen=True)
class Text:
    """Free text, such as a span, a translation, a summary or a query."""

    extractive: bool = False
    """Whether answers are spans of the context, so that truncating the context can lose them."""
    max_tokens: int = 256
    """The maximum number of tokens in a language model's answer."""

    def __post_init__(self) -> None:
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Label:
    """One of a few labels."""

    names: tuple[str, ...] = ()
    """The labels, or an empty tuple if each question names its own labels."""
    max_tokens: int = 24
    """The maximum number of tokens in a language model's answer."""

    def __post_init__(self) -> None:
        _check_names("label", self.names)
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Tags:
    """One tag for each token of the context, separated by spaces."""

    scheme: Scheme = "plain"
    """How the tags mark chunks."""
    names: tuple[str, ...] = ()
    """The tags, or an empty tuple if they are only known from the data."""
    max_tokens: int = 512
    """The maximum number of tokens in a language model's answer."""

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise DataError(f"There is no tagging scheme {self.scheme!r}. Use one of {', '.join(SCHEMES)}.")
        _check_names("tag", self.names)
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Tree:
    """A dependency tree: a `head:relation` pair for each token of the context. Heads count from 1; 0 is the root."""

    relations: tuple[str, ...] = ()
    """The relations, or an empty tuple if they are only known from the data."""
    max_tokens: int = 1024
    """The maximum number of tokens in a language model's answer."""

    def __post_init__(self) -> None:
        _check_names("relation", self.relations)
        _check_limit(self.max_tokens)


@dataclass(frozen=True)
class Number:
    """A number on a scale."""

    low: float
    """The lowest possible answer."""
    high: float
    """The highest possible answer."""
    max_tokens: int = 16
    """The maximum number of tokens in a language model's answer."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise DataError(
                f"A scale must go from a lower to a higher number, not from {self.low:g} to {self.high:g}."
            )
        _check_limit(self.max_tokens)


Output = Text | Label | Tags | Tree | Number
"""Any type of answer."""


def _check_names(kind: str, names: Sequence[str]) -> None:
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise DataError(f"Each {kind} must be a non-empty string, but got {', '.join(map(repr, names))}.")
    if kind != "label" and (spaced := [name for name in names if len(name.split()) > 1]):
        raise DataError(
            f"The {kind} {spaced[0]!r} contains a space, which is not allowed, because spaces separate the items "
            "of an answer."
        )
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(
            f"Each {kind} must be listed only once, but {', '.join(repeated)} "
            f"{'is' if len(repeated) == 1 else 'are'} listed more than once."
        )


def _check_limit(max_tokens: int) -> None:
    if max_tokens < 1:
        raise DataError(f"'max_tokens' must be at least 1, but got {max_tokens}.")


def default_metric(output: Output) -> str:
    """Return the default headline metric for an output, as a key of `decabench.metrics.METRICS`."""
    match output:
        case Label():
            return "accuracy"
        case Tags(scheme="plain"):
            return "tag_accuracy"
        case Tags():
            return "sequence_f1"
        case Tree():
            return "parsing"
        case Number():
            return "mse"
        case Text():
            return "nf1"


def compares_words(output: Output, metric: str) -> bool:
    """Return whether the metric compares answers as words, so that `1945.0` and `1945` are different."""
    return isinstance(output, Text) and metric in METRICS and METRICS[metric].reads == "span"


def describe_output(output: Output) -> str:
    """Return a short description of an output, for example `one of negative, positive`."""
    match output:
        case Text(extractive=True):
            return "a span of the context"
        case Text():
            return "text"
        case Label(names=()):
            return "one of the labels that the question names"
        case Label(names=names):
            return f"one of {', '.join(names)}"
        case Tags(scheme=scheme, names=names):
            spelled = "" if scheme == "plain" else f" ({scheme})"
            return f"a tag{spelled} for each token of the context{_listed(names)}"
        case Tree(relations=relations):
            return f"a head and a relation for each token of the context{_listed(relations)}"
        case Number(low=low, high=high):
            return f"a number from {low:g} to {high:g}"


def _listed(names: Sequence[str]) -> str:
    return f": {', '.join(names)}" if names else ""


# Checking gold answers


def find_fault(example: Example, output: Output, metrics: Sequence[str]) -> str:
    """Explain why an example's gold answers are not valid for the task's output or metrics.

    Differences that the metric ignores, such as case and spaces, are not faults. Returns an empty
    string if there is no fault. `metrics` lists the task's metrics, headline metric first. Raises
    MetricError if a metric needs data that the example lacks.
    """
    built_in = [METRICS[name] for name in metrics if name in METRICS]
    for answer in example.answers:
        if fault := _find_own_fault(answer, output, example.context, metrics):
            return fault
        alone = Item((answer,), example.id, example.units, example.meta)
        for metric in built_in:
            if fault := _read_by(metric, alone):
                return f"The answer has {fault}."
        scheme = output.scheme if isinstance(output, Tags) else "plain"
        if fault := _find_scheme_fault(answer.split(), scheme, metrics):
            return fault
    first = built_in[0] if built_in and built_in[0].name == metrics[0] else None
    if len(set(example.answers)) > 1 and first and (first.find_fault or "|refs:first" in first.signature):
        return f"There are {len(example.answers)} answers, but {first.name} reads only the first. Keep only one answer."
    return ""


def _read_by(metric: Metric, reference: Reference) -> str:
    return metric.find_fault(reference) if metric.find_fault else ""


def _find_own_fault(answer: str, output: Output, context: str, metrics: Sequence[str]) -> str:
    match output:
        case Label(names=names) if names:
            return _find_label_fault(answer, names, metrics[0])
        case Number(low=low, high=high):
            if _read_by(METRICS["mse"], Item((answer,))) or not low <= float(answer) <= high:
                return f"The answer {answer[:60]!r} is not a number from {low:g} to {high:g}."
        case Tags() | Tree():
            items, words = answer.split(), context.split()
            if len(items) != len(words):
                kind = "tag" if isinstance(output, Tags) else "head"
                return (
                    f"The answer must have one {kind} for each word, but has {len(items):,} instead of "
                    f"{len(words):,}."
                )
            if isinstance(output, Tags):
                return _find_tag_fault(items, output.names)
            return _find_tree_fault(items, output.relations)
        case Text() if any(METRICS[name].reads == "tree" for name in metrics if name in METRICS):
            return _find_tree_fault(answer.split(), ())
        case Text() if metrics[0] in METRICS and METRICS[metrics[0]].scope == "example":
            return _find_text_fault(answer, metrics[0])
        case _:
            pass
    return ""


def _find_text_fault(answer: str, metric: str) -> str:
    """Describe surrounding spaces or decomposed accents in an answer, if the metric doesn't ignore them.

    Model outputs don't contain them, so even a correct answer would be counted as wrong.
    """
    text = bare(answer)
    if text and text != answer and not _are_alike(metric, text, answer):
        return (
            f"The answer {answer[:60]!r} begins or ends with spaces, which {metric} does not ignore. Remove the "
            "spaces."
        )
    if _ACCENT.search(answer):
        composed = unicodedata.normalize("NFC", answer)
        if composed != answer and not _are_alike(metric, composed, answer):
            return (
                f"The answer {answer[:60]!r} contains decomposed Unicode (NFD), which {metric} does not treat as equal "
                "to the usual composed form (NFC). Convert the text to NFC."
            )
    return ""


_ACCENT = re.compile("[\u0300-\u036f]")
"""Matches combining accents.

Combining marks of other scripts are not checked, because text in those scripts is often not in NFC.
"""


def _find_label_fault(answer: str, names: tuple[str, ...], metric: str) -> str:
    name = next((name for name in names if name == answer), None) or _folded(names).get(fold_label(answer))
    if name is None:
        return f"The answer {answer[:60]!r} is not one of the labels {', '.join(names)}."
    if name != answer and metric in METRICS and not _are_alike(metric, name, answer):
        return (
            f"The answer {answer[:60]!r} differs from the label {name[:60]!r} only in case or spacing, so {metric} "
            "would score the label as wrong. Write the answer exactly like the label."
        )
    return ""


@lru_cache(64)
def _folded(names: tuple[str, ...]) -> dict[str, str]:
    return {fold_label(name): name for name in names}


def _are_alike(metric: str, text: str, label: str) -> bool:
    reference, known = Item((label,)), METRICS[metric]
    try:
        given, wanted = known.statistics([text, label], [reference, reference])
    except MetricError:  # the metric needs more data than an answer
        return False
    if known.scope != "example":  # the score of a single example may be 0 for any prediction
        return given == wanted
    return score_rows(known, [given]).value == score_rows(known, [wanted]).value


_MOST_COMPARED = 100
"""The maximum number of labels to compare pair by pair, using the metric.

Larger sets are checked only for labels that differ in nothing but case or spaces.
"""


def find_alike(output: Output, metric: str, names: Sequence[str] = ()) -> str:
    """Describe two labels, tags or relations that the metric treats as equal, for example because it ignores case.

    Returns an empty string if the metric distinguishes all names. By default, the names that the output declares are
    compared.
    """
    match output:
        case Tree(relations=declared) | Tags(names=declared) | Label(names=declared):
            names = names or declared
        case _:
            return ""
    if metric not in METRICS:
        return ""
    fold = fold_label if isinstance(output, Label) else str.lower
    first: dict[str, str] = {}
    pairs = [(first.setdefault(fold(name), name), name) for name in names]
    found = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if found is None and isinstance(output, Label) and len(names) <= _MOST_COMPARED:
        found = next((pair for pair in combinations(names, 2) if _are_alike(metric, *pair)), None)
    return (
        f"{metric} does not distinguish {found[0]!r} from {found[1]!r}. Rename one of them." if found else ""
    )


def _find_tree_fault(items: Sequence[str], relations: Sequence[str]) -> str:
    heads = []
    for item in items:
        head, _, relation = item.partition(":")
        if not re.fullmatch("[0-9]{1,6}", head) or not relation.partition(":")[0] or int(head) > len(items):
            return (
                f"{item[:60]!r} in the answer is not `head:relation` with a head from 0 to {len(items):,}. "
                "Words are numbered from 1, and 0 is the root."
            )
        if relations and relation not in relations:
            return f"The relation {relation[:60]!r} in the answer is not one of {', '.join(relations)}."
        heads.append(int(head))
    if lost := find_lost_word(heads):
        return (
            f"Word {lost:,} in the answer never reaches the root (0), because the heads form a loop. "
            "Words are numbered from 1."
        )
    return ""


def find_lost_word(heads: Sequence[int]) -> int:
    """Return the 1-based index of a word on a cycle of heads, or 0 if every word reaches the root.

    If a head is not a word of the sentence, the index of the last word is returned.
    """
    seen = [0] * (len(heads) + 1)  # for each word, the word where the walk that first reached it started
    seen[0] = -1
    for start in range(1, len(heads) + 1):
        word = start
        while word < len(seen) and not seen[word]:
            seen[word] = start
            word = heads[word - 1]
        if word >= len(seen) or seen[word] == start:
            return min(word, len(heads))
    return 0


MOST_FAULTS = 20
"""The maximum number of different faults to report for a table."""


def describe_rows(name: str, faults: Mapping[str, Sequence[str]]) -> str:
    """Describe each kind of fault in a table once, naming the first row that has it."""
    told = []
    for fault, places in faults.items():
        others = len(places) - 1
        more = (
            f" {others:,} more {'rows have' if others > 1 else 'row has'} the same fault." if others else ""
        )
        told.append(f"{places[0]}: {fault}{more}")
    if len(told) == 1:
        return f"{name}, {told[0]}"
    listed = "\n".join(f"- {each}" for each in told[:MOST_FAULTS])
    return f"{name} has faults:\n{listed}" + ("\n- and other faults" if len(told) > MOST_FAULTS else "")


# Chunks

_LETTERS = {"IOB1": "BI", "IOB2": "BI", "IOE1": "IE", "IOE2": "IE", "IOBES": "BIES"}
"""The prefix letters that each scheme's tags can have."""


def require_scheme(names: Sequence[str], scheme: Scheme) -> None:
    """Raise DataError if any tag is not valid in the given scheme."""
    if scheme == "plain":
        return
    letters = _LETTERS[scheme]
    spelled = re.compile(f"[oO]|[{letters}{letters.lower()}](?:-.+)?")
    if strange := [name for name in names if not spelled.fullmatch(name)]:
        others = [f"{letter}-kind" for letter in letters]
        raise DataError(
            f"{scheme} allows only the tags {', '.join(['O', *others[:-1]])} and {others[-1]}, but got "
            f"{', '.join(map(repr, strange[:5]))}. Rename the tags, or choose another scheme."
        )


def write_chunks(tags: Sequence[str], scheme: Scheme) -> list[str]:
    """Convert tags to another scheme. For example, `I-NP I-NP` becomes `B-NP I-NP` in IOB2."""
    found = chunks(tags)
    starts, ends = ({(kind, span[side]) for kind, *span in found} for side in (0, 1))
    written = ["O"] * len(tags)
    for kind, first, last in found:
        for place in range(first, last + 1):
            begins = place == first and (
                scheme in ("IOB2", "IOBES") or (scheme == "IOB1" and (kind, first - 1) in ends)
            )
            closes = place == last and (
                scheme in ("IOE2", "IOBES") or (scheme == "IOE1" and (kind, last + 1) in starts)
            )
            letter = "S" if begins and closes else "B" if begins else "E" if closes else "I"
            own = tags[place].partition("-")[2]
            written[place] = f"{letter}-{own}" if own else letter
    return written


def _find_tag_fault(tags: Sequence[str], names: Sequence[str]) -> str:
    if "_" in tags:
        return (
            "The answer contains the tag '_', which stands for a missing tag in predictions. Rename the tag."
        )
    others = [tag for tag in tags if names and tag not in names]
    return f"The tag {others[0][:60]!r} in the answer is not one of {', '.join(names)}." if others else ""


def _find_scheme_fault(tags: Sequence[str], scheme: Scheme, metrics: Sequence[str]) -> str:
    """Describe the first tag that breaks the scheme.

    If the scheme is `plain`, tags are checked only if sequence_f1 scores them. They must then follow one of the other
    schemes.
    """
    lowered = [tag.lower() for tag in tags]
    if scheme == "plain":
        schemes = SCHEMES[1:] if "sequence_f1" in metrics else ()
        if (
            any(lowered == [tag.lower() for tag in write_chunks(tags, each)] for each in schemes)
            or not schemes
        ):
            return ""
        return f"The tags don't follow any of the schemes that sequence_f1 supports: {', '.join(schemes)}."
    written = write_chunks(tags, scheme)
    place = next((at for at, tag in enumerate(written) if tag.lower() != lowered[at]), None)
    if place is None:
        return ""
    return (
        f"Tag {place + 1:,} in the answer is {tags[place][:60]!r}, but {scheme} requires "
        f"{written[place][:60]!r}."
    )
