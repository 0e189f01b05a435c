"""Answers that score as wrong because of their form although a person understands them: `Positive.`, `DET, NOUN`.

Extracted answers of language models rarely have such a form, but files from other programs do. Nothing here
changes a score; it explains low scores.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from decabench.metrics import Item, Metric, find_loss, write_change
from decabench.prompts.labels import find_label, match_label
from decabench.prompts.sequences import MISSING, find_items, find_number
from decabench.tasks import (
    SCHEMES,
    Number,
    Output,
    Scheme,
    Tags,
    Text,
    Tree,
    default_form,
    find_lost_word,
    write_chunks,
)
from decabench.text import excerpt, quoted

__all__ = ["AnswerForms", "LabelForms", "find_label_form", "find_number_form", "forms_of", "takes_for"]


@dataclass
class FormCounts:
    """Counts answers in forms that the metric does not read."""

    kind: str
    """The kind of the answers: `number`, `list`."""
    advice: str
    """Advice on how to write the answers."""
    fault: str = "in another form, which scores as wrong"
    """The fault that is counted."""
    between: str = " for "
    """The words that connect an example with its meaning."""
    answers: int = 0
    """The number of answers read."""
    forms: Counter[str] = field(default_factory=Counter)
    """How often each form occurs."""
    example: tuple[str, str, str] = ("", "", "")
    """The first such answer: its position, its text, and its meaning."""
    _others: Counter[str] = field(default_factory=Counter)
    _first: dict[str, str] = field(default_factory=dict)

    @property
    def are_most(self) -> bool:
        """Whether most answers have the fault, so that one sentence covers everything."""
        return 2 * max(self.forms.total(), *self._others.values(), 0) > self.answers

    def describe_forms(self) -> str:
        """Describe answers in other forms: their number, the forms and an example; empty if there are none."""
        return ". ".join(filter(None, (self._describe_counted(), self._describe_others())))

    def _describe_counted(self) -> str:
        if not (count := self.forms.total()):
            return ""
        kinds = ", ".join(f"{form} ({number:,})" for form, number in self.forms.most_common(4))
        place, text, meant = self.example
        verb = f"is a {self.kind}" if count == 1 else f"are {self.kind}s"
        return (
            f"{count:,} of {self.answers:,} answers {verb} {self.fault}: {kinds}; "
            f"{place} has {quoted(text)}{self.between}{quoted(meant)}: {self.advice}"
        )

    def _describe_others(self) -> str:
        """Describe other oddities of the answers; empty if there are none."""
        return ""

    def _note(self, what: str, place: str, text: str) -> None:
        """Count an answer that is odd in another way."""
        self._others[what] += 1
        self._first.setdefault(what, f"{place} has {quoted(text)}")

    def _count(self, place: str, text: str, meant: str, form: str) -> None:
        self.forms[form] += 1
        self.example = self.example if self.example[0] else (place, text, meant)


class AnswerForms(FormCounts):
    """Counts answers that are numbers, lists or dialogue states."""

    def add(self, place: str, text: str, gold: str = "") -> None:
        """Count an answer; `gold` is its reference, if known."""
        raise NotImplementedError


def forms_of(output: Output, metric: Metric) -> AnswerForms | None:
    """Return empty counts for answers that are numbers, lists or dialogue states; None for those of other outputs."""
    kind = default_form(output, metric.name).kind
    match output:
        case Number(low=low, high=high):
            return NumberForms(metric, (low, high))
        case Tags(names=names, scheme=scheme):
            return ListForms("tags", names, _schemes(scheme, metric))
        case Tree(relations=names):
            return ListForms("tree", names)
        case Text() if kind == "number":
            return NumberForms(metric)
        case Text() if kind in ("tags", "tree"):
            return ListForms(kind, (), _schemes("plain", metric))
        case Text() if kind == "state":
            return StateForms()
        case _:
            return None


def _schemes(scheme: Scheme, metric: Metric) -> tuple[Scheme, ...]:
    """Return the schemes in which the tags may spell chunks; empty if they aren't chunks."""
    if scheme != "plain":
        return (scheme,)
    return SCHEMES[1:] if metric.name == "sequence_f1" else ()


# Numbers

_WORDS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve".split()
    )
}
_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)
_CORRELATIONS = ("pearson", "spearman")
_PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")


class NumberForms(AnswerForms):
    """Counts answers whose number is unreadable for the metric (`three`), missing, or off the scale."""

    def __init__(self, metric: Metric, scale: tuple[float, float] | None = None) -> None:
        super().__init__("number", "write only the number")
        self._metric = metric
        self._scale = scale
        self._reads = cache(self._is_read)
        self._numbers = set[float | None]()

    def add(self, place: str, text: str, gold: str = "") -> None:
        """Count an answer."""
        self.answers += 1
        found = find_number_form(text, self._scale)
        if len(self._numbers) < 2:
            self._numbers.add(float(found[0]) if found else None)
        if found is None:
            if text.strip():
                self._note("no number", place, text)
            return
        number, form = found
        if self._scale and not self._scale[0] <= float(number) <= self._scale[1]:
            low, high = self._scale
            self._note(f"a number off the scale from {low:g} to {high:g}", place, text)
        meant = gold if gold and _PLAIN.fullmatch(gold) and float(gold) == float(number) else number
        if not self._reads(text, meant):
            self._count(place, text, meant, form)

    def _describe_others(self) -> str:
        said = [
            f"{count:,} of {self.answers:,} answers give {what}; {self._first[what]}"
            for what, count in self._others.items()
        ]
        return ". ".join([*said, *self._describe_constant()])

    def _describe_constant(self) -> Iterator[str]:
        """Explain that a correlation is meaningless because all numbers are equal."""
        constants = [number for number in self._numbers if number is not None]
        if (
            self.answers > 1
            and len(self._numbers) == len(constants) == 1
            and self._metric.name in _CORRELATIONS
        ):
            yield (
                f"All {self.answers:,} answers are {constants[0]:g}, so their correlation is undefined "
                "and counts as 0: write a separate prediction for each example"
            )

    def _is_read(self, text: str, number: str) -> bool:
        """Return whether the metric gives a text the statistics of the number, or fails.

        Metrics reject numbers with hundreds of digits, and a custom metric may need more of an example than its
        answer. Such errors do not matter, because the gold answers here are made up.
        """
        references = [
            Item((number,)),
            Item(("-1000000",)),
        ]  # a second value, so that gold answers have a range
        try:
            given, wanted = (self._metric.statistics([each, "0"], references)[0] for each in (text, number))
        except Exception:
            return True
        return given == wanted


def find_number_form(text: str, scale: tuple[float, float] | None = None) -> tuple[str, str] | None:
    """Return a text's number and how its form differs; None if it has no number or several."""
    rest = text.strip()
    if re.search(r"\d", rest):
        number = find_number(rest, scale)
        if number is None:
            return None
        if re.fullmatch(r"[-+]?\d[\d,]*,\d+(?:\.\d+)?", rest):
            is_decimal = "." in number and "." not in rest
            return number, "a decimal comma" if is_decimal else "commas between thousands"
        return number, "another spelling" if _PLAIN.fullmatch(rest) else "text around the number"
    words = {found.lower() for found in _WORD.findall(rest)}
    if len(words) != 1:
        return None
    (word,) = words
    return _WORDS[word], "a word" if rest.lower().rstrip(".!") == word else "a word in a sentence"


# Lists


class ListForms(AnswerForms):
    """Counts answers that are lists of tags or heads in another notation: with commas, as JSON, one per line.

    Chunks in another scheme and invalid trees are counted too, and reported if most answers have them.
    """

    def __init__(self, kind: str, names: Sequence[str], schemes: Sequence[Scheme] = ()) -> None:
        super().__init__("list", "write only the items, separated by spaces")
        self._kind = kind
        self._names = names
        self._schemes = schemes
        self._looked = 0

    def add(self, place: str, text: str, gold: str = "") -> None:
        """Count an answer."""
        self.answers += 1
        plain = text.split()
        if plain:
            self._look(place, plain)
        if not plain or all(map(self._is_item, plain)):
            return
        meant = find_items(text, self._kind, self._names)
        if meant is not None and meant.split() != plain and all(map(self._is_item, meant.split())):
            self._count(place, text, meant, _list_form(text))

    def _look(self, place: str, items: Sequence[str]) -> None:
        """Count an answer whose chunks are in another scheme, or whose heads lead to no root."""
        if self._kind == "tree":
            self._looked += 1
            name = _OTHER_TREES if _has_no_root(items) else ""
        else:
            tags = ["O" if tag == MISSING else tag for tag in items]
            if not self._schemes or all(tag.lower() == "o" for tag in tags):
                return
            self._looked += 1
            name = find_spelling(tags, self._schemes)
        if name:
            self._note(name, place, " ".join(items))

    def _describe_others(self) -> str:
        for name, count in self._others.most_common(1):
            if 2 * count > self._looked:
                wanted = f", but the task's tags are {' or '.join(self._schemes)}" if self._schemes else ""
                return (
                    f"{count:,} of {self._looked:,} answers look like {name}{wanted}; "
                    f"{self._first[name]}: write them in the task's form"
                )
        return ""

    def _is_item(self, item: str) -> bool:
        name = item.partition(":")[2] if self._kind == "tree" else item
        return name in self._names if self._names else bool(re.fullmatch(r"[\w:-]+", item))


def _list_form(text: str) -> str:
    if text.lstrip().startswith(("[", "{")):
        return "JSON"
    if len(text.strip().splitlines()) > 1:
        return "one a line"
    return "commas" if "," in text or ";" in text else "other marks"


_OTHER_TREES = "heads that count from 0 or form circles: no word leads to the root, which is 0"


def _has_no_root(items: Sequence[str]) -> bool:
    """Return whether the heads of a parse form circles or leave the sentence; unreadable heads are counted
    elsewhere."""
    heads = [item.partition(":")[0] for item in items]
    if not all(_HEAD.fullmatch(head) for head in heads):
        return False
    return min(map(int, heads)) < 0 or find_lost_word(list(map(int, heads))) > 0


_HEAD = re.compile("-?[0-9]{1,9}")
_SIGNS_OF_O = frozenset({"0", "OUT", "OUTSIDE", "OTHER", "NONE", "NULL", "X", "-", "*"})
_SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "BILOU": lambda tag: {"L": "E", "U": "S"}.get(tag[:1].upper(), tag[:1]) + tag[1:],
    "BMEWO or BMES": lambda tag: {"M": "I", "W": "S"}.get(tag[:1].upper(), tag[:1]) + tag[1:],
    "tags with the letter at the end (PER-B)": lambda tag: "-".join(reversed(tag.rsplit("-", 1))),
    "tags with another separator after the letter (B_PER)": lambda tag: re.sub(
        r"^([A-Za-z])\W?_?(?=.)", r"\1-", tag
    ),
    "tags with another symbol for O": lambda tag: "O" if tag.upper() in _SIGNS_OF_O else tag,
}
"""How to convert other tags to the tags of `SCHEMES`."""


def find_spelling(tags: Sequence[str], schemes: Sequence[Scheme]) -> str:
    """Return the name of a chunk tag scheme that is not in `SCHEMES`, such as `BILOU`; empty if it is unclear."""
    if any(_is_spelled(tags, scheme) for scheme in schemes):
        return ""
    if other := next((scheme for scheme in SCHEMES[1:] if _is_spelled(tags, scheme)), ""):
        return other
    for name, convert in _SPELLINGS.items():
        converted = [tag if tag.lower() == "o" else convert(tag) for tag in tags]
        if converted != list(tags) and any(_is_spelled(converted, scheme) for scheme in SCHEMES[1:]):
            return name
    return ""


def _is_spelled(tags: Sequence[str], scheme: Scheme) -> bool:
    return [tag.lower() for tag in write_chunks(tags, scheme)] == [tag.lower() for tag in tags]


# Dialogue states


class StateForms(AnswerForms):
    """Counts states that can be read only partly or not at all: `time: 3:30;`."""

    def __init__(self) -> None:
        super().__init__(
            "state",
            "write `slot: value, slot: value; request`, without these marks in a value, or None",
            "readable only in part or not at all",
            ", which is read as ",
        )

    def add(self, place: str, text: str, gold: str = "") -> None:
        """Count an answer."""
        self.answers += 1
        loss = find_loss(text)
        if loss and _parts_of_state(text) != _parts_of_state(read := write_change(text)):
            self._count(place, text, read, loss)


def _parts_of_state(text: str) -> set[str]:
    """Return the constraints and requests of a state, with repetitions."""
    return {re.sub(r"\s*:\s*", ": ", part.strip().lower()) for part in re.split("[,;]", text)} - {""}


# Labels


def find_label_form(text: str, labels: Sequence[str], question: str = "") -> tuple[str, str] | None:
    """Return a text's label and how its form differs; None without a label.

    The form is empty if the text is exactly a label.
    """
    if text in labels:
        return text, ""
    plain = " ".join(text.split()).casefold()
    if found := next((label for label in labels if label.casefold() == plain), None):
        return found, "case or spaces"
    if found := match_label(text, labels):
        return found, "marks or an article around it"
    found = find_label(text, labels, question)
    return None if found is None else (found, "a sentence around the label")


_find_form = lru_cache(1 << 15)(find_label_form)
"""The cache size: answers repeat, and both the rows and the report need their forms."""


def takes_for(metric: Metric) -> Callable[[str, str], bool]:
    """Return a function that checks whether a metric accepts a text for a reference label.

    The check also succeeds if the metric needs more of an example than its answer, because it can't be decided
    then.
    """

    @cache
    def takes(text: str, label: str) -> bool:
        reference = Item((label,))
        try:
            given, wanted = metric.statistics([text, label], [reference, reference])
        except Exception:  # custom metrics can raise any exception
            return True
        return given == wanted

    return takes


class LabelForms(FormCounts):
    """Counts answers that are labels in a form that the metric rejects, or not labels at all."""

    def __init__(self, takes: Callable[[str, str], bool]) -> None:
        super().__init__("label", "write only the label")
        self._takes = takes
        self.others = 0
        """Answers that match none of the labels."""
        self._other_example = ""

    def add(self, place: str, text: str, labels: tuple[str, ...], question: str = "") -> str:
        """Count an answer, and return `label_form`, `other_label`, or an empty text if it is a label."""
        self.answers += 1
        found = _find_form(text, labels, question if text.startswith(question) else "")
        if found is None:
            if text.strip():
                self.others += 1
                self._other_example = self._other_example or f"{place} has {quoted(text)}"
            return "other_label"
        label, form = found
        if not form or self._takes(text, label):
            return ""
        self._count(place, text, label, form)
        return "label_form"

    def describe_others(self, labels: Sequence[str] = ()) -> str:
        """Describe answers without a label, with an example; empty if all have labels."""
        if not self.others:
            return ""
        verb = "gives" if self.others == 1 else "give"
        listed = f" ({excerpt(', '.join(labels), 100)})" if labels else ""
        return (
            f"{self.others:,} of {self.answers:,} answers {verb} none of the labels{listed}; "
            f"{self._other_example}"
        )
