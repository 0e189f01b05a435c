"""Detect answers that score as wrong only because of their form, such as `Positive.` or `DET, NOUN`.

These are rare in extracted answers but common in files from other programs. The checks explain low scores and
never change them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

from decabench.metrics import Item, Metric, find_loss, write_change
from decabench.prompts.items import MISSING, find_items
from decabench.prompts.labels import match_label
from decabench.prompts.prose import find_label, find_number
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


class FormCounts:
    """Counts answers in a form that the metric can't read."""

    def __init__(
        self,
        kind: str,
        advice: str,
        fault: str = "in a form that scores as wrong",
        between: str = " instead of ",
    ) -> None:
        self._kind, self._advice, self._fault, self._between = kind, advice, fault, between
        self.answers = 0
        """The number of answers counted so far."""
        self.forms = Counter[str]()
        """The number of answers in each form."""
        self._example = ""
        self._others = Counter[str]()
        self._first: dict[str, str] = {}

    @property
    def are_most(self) -> bool:
        """Whether most answers share the fault."""
        return 2 * max(self.forms.total(), *self._others.values(), 0) > self.answers

    def describe_forms(self) -> str:
        """Describe answers in other forms, with their number and an example.

        The result is empty if there are none.
        """
        return ". ".join([*self._describe_counted(), *self._describe_others()])

    def _describe_counted(self) -> Iterator[str]:
        if count := self.forms.total():
            kinds = ", ".join(f"{form} ({number:,})" for form, number in self.forms.most_common(4))
            verb = f"is a {self._kind}" if count == 1 else f"are {self._kind}s"
            found = f"{count:,} of {self.answers:,} answers {verb} {self._fault}"
            yield f"{found}: {kinds}; {self._example}: {self._advice}"

    def _describe_others(self) -> Iterator[str]:
        for what, count in self._others.items():
            yield f"{count:,} of {self.answers:,} answers give {what}; {self._first[what]}"

    def _note(self, what: str, place: str, text: str) -> None:
        self._others[what] += 1
        self._first.setdefault(what, f"{place} has {quoted(text)}")

    def _count(self, place: str, text: str, meant: str, form: str) -> None:
        self.forms[form] += 1
        self._example = self._example or f"{place} has {quoted(text)}{self._between}{quoted(meant)}"


class AnswerForms(FormCounts):
    """Base class for counting numbers, lists or dialogue states."""

    def add(self, place: str, text: str, gold: str = "") -> None:
        """Count an answer. `gold` is the reference answer, if known."""
        raise NotImplementedError


def forms_of(output: Output, metric: Metric) -> AnswerForms | None:
    """Return a counter for answers that are numbers, lists or dialogue states, or None for other outputs."""
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
    if scheme != "plain":
        return (scheme,)
    return SCHEMES[1:] if metric.name == "sequence_f1" else ()


# Numbers

_CORRELATIONS = ("pearson", "spearman")
_PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?")


class NumberForms(AnswerForms):
    """Counts answers whose number is missing, off the scale or unreadable for the metric (`3 points`)."""

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
            self._note(f"a number outside the scale from {low:g} to {high:g}", place, text)
        meant = gold if gold and _PLAIN.fullmatch(gold) and float(gold) == float(number) else number
        if not self._reads(text, meant):
            self._count(place, text, meant, form)

    def _describe_others(self) -> Iterator[str]:
        yield from super()._describe_others()
        numbers = [*self._numbers]
        is_constant = self.answers > 1 and len(numbers) == 1 and numbers[0] is not None
        if is_constant and self._metric.name in _CORRELATIONS:
            yield (
                f"All {self.answers:,} answers are {numbers[0]:g}, so their correlation is undefined "
                "and counts as 0: write a separate prediction for each example"
            )

    def _is_read(self, text: str, number: str) -> bool:
        """Whether the metric treats a text like the number, or fails.

        Metrics reject numbers with hundreds of digits, and custom metrics may need other fields of an
        example. Such errors don't matter because the gold answers here are made up.
        """
        references = [
            Item((number,)),
            Item(("-1000000",)),
        ]  # two values, so that gold answers have a range
        try:
            given, wanted = (self._metric.statistics([each, "0"], references)[0] for each in (text, number))
        except Exception:
            return True
        return given == wanted


def find_number_form(text: str, scale: tuple[float, float] | None = None) -> tuple[str, str] | None:
    """Return the number in a text and how its form differs.

    Returns None unless there is exactly one number.
    """
    text = text.strip()
    number = find_number(text, scale)
    if number is None:
        return None
    if re.fullmatch(r"[-+]?\d[\d,]*,\d+(?:\.\d+)?", text):
        is_decimal = "." in number and "." not in text
        return number, "a decimal comma" if is_decimal else "commas between thousands"
    return number, "another notation" if _PLAIN.fullmatch(text) else "text around the number"


# Lists

_NO_ROOT = "heads that count from 0 or form cycles: some words never lead to the root, which is 0"
_HEAD = re.compile("-?[0-9]{1,9}")


class ListForms(AnswerForms):
    """Counts lists of tags or heads in another notation, such as JSON, one item per line or with commas.

    Tags in other chunk schemes and invalid trees are counted too, but reported only if most answers have
    them.
    """

    def __init__(self, kind: str, names: Sequence[str], schemes: Sequence[Scheme] = ()) -> None:
        super().__init__("list", "write only the items, separated by spaces")
        self._output = kind
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
        meant = find_items(text, self._output, self._names)
        if meant is not None and meant.split() != plain and all(map(self._is_item, meant.split())):
            form = "commas" if "," in text or ";" in text else "other punctuation"
            form = "one item per line" if len(text.strip().splitlines()) > 1 else form
            self._count(place, text, meant, "JSON" if text.lstrip().startswith(("[", "{")) else form)

    def _look(self, place: str, items: Sequence[str]) -> None:
        tags = ["O" if tag == MISSING else tag for tag in items]
        if self._output != "tree" and (not self._schemes or all(tag.lower() == "o" for tag in tags)):
            return
        self._looked += 1
        name = find_spelling(tags, self._schemes)
        if self._output == "tree":
            heads = [item.partition(":")[0] for item in items]
            are_read = all(map(_HEAD.fullmatch, heads))  # other lists are counted by their form
            has_root = not are_read or (
                min(map(int, heads)) >= 0 and not find_lost_word(list(map(int, heads)))
            )
            name = "" if has_root else _NO_ROOT
        if name:
            self._note(name, place, " ".join(items))

    def _describe_others(self) -> Iterator[str]:
        for name, count in self._others.most_common(1):
            if 2 * count > self._looked:
                wanted = f", but the task's tags are {' or '.join(self._schemes)}" if self._schemes else ""
                yield (
                    f"{count:,} of {self._looked:,} answers look like {name}{wanted}; "
                    f"{self._first[name]}: write them in the task's form"
                )

    def _is_item(self, item: str) -> bool:
        name = item.partition(":")[2] if self._output == "tree" else item
        return name in self._names if self._names else bool(re.fullmatch(r"[\w:-]+", item))


_OTHER_LETTERS = {"L": "E", "U": "S", "M": "I", "W": "S"}
"""Letters of BILOU and BMEWO, with their equivalents in IOBES."""
_SIGNS_OF_O = frozenset({"0", "OUT", "OUTSIDE", "OTHER", "NONE", "NULL", "X", "-", "*"})
_SPELLINGS: Mapping[str, Callable[[str], str]] = {
    "BILOU or BMEWO": lambda tag: _OTHER_LETTERS.get(tag[:1].upper(), tag[:1]) + tag[1:],
    "tags with the letter at the end (PER-B)": lambda tag: "-".join(reversed(tag.rsplit("-", 1))),
    "tags with another separator after the letter (B_PER)": lambda tag: (
        f"{tag[:1]}-{tag[1:].lstrip('_./:|')}"
    ),
    "tags with another symbol for O": lambda tag: "O" if tag.upper() in _SIGNS_OF_O else tag,
}
"""Converts tags from other tools to those of `SCHEMES`."""


def find_spelling(tags: Sequence[str], schemes: Sequence[Scheme]) -> str:
    """Return the name of another chunk tag scheme used by the tags, such as `BILOU`.

    The result is empty if no scheme fits.
    """
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
    """Counts dialogue states that can be read only in part or not at all, such as `time: 3:30;`."""

    def __init__(self) -> None:
        super().__init__(
            "state",
            "write `slot: value, slot: value; request`, without this punctuation in a value, or None",
            "that can be read only in part or not at all",
            ", which is read as ",
        )

    def add(self, place: str, text: str, gold: str = "") -> None:
        """Count an answer."""
        self.answers += 1
        loss = find_loss(text)
        if loss and _parts_of_state(text) != _parts_of_state(read := write_change(text)):
            self._count(place, text, read, loss)


def _parts_of_state(text: str) -> set[str]:
    return {re.sub(r"\s*:\s*", ": ", part.strip().lower()) for part in re.split("[,;]", text)} - {""}


# Labels


def find_label_form(text: str, labels: Sequence[str], question: str = "") -> tuple[str, str] | None:
    """Return the label in a text and how its form differs, or None without a label.

    The form is empty if the text is exactly a label.
    """
    if text in labels:
        return text, ""
    plain = " ".join(text.split()).casefold()
    if found := next((label for label in labels if label.casefold() == plain), None):
        return found, "different case or spacing"
    if found := match_label(text, labels):
        return found, "extra punctuation or an article"
    found = find_label(text, labels, question)
    return None if found is None else (found, "a sentence around the label")


_find_form = lru_cache(1 << 15)(find_label_form)  # answers repeat, and both rows and reports need their forms


def takes_for(metric: Metric) -> Callable[[str, str], bool]:
    """Return a function that checks whether a metric accepts a text for a reference label.

    The check also passes if the metric fails, for example because it needs other fields of an example.
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
    """Counts answers that are not labels, or are labels in a form that the metric rejects."""

    def __init__(self, takes: Callable[[str, str], bool]) -> None:
        super().__init__("label", "write only the label")
        self._takes = takes
        self._strays = 0
        self._stray = ""

    def add(self, place: str, text: str, labels: tuple[str, ...], question: str = "") -> str:
        """Count an answer and return `label_form`, `other_label`, or an empty string if it is a label."""
        self.answers += 1
        found = _find_form(text, labels, question if text.startswith(question) else "")
        if found is None:
            if text.strip():
                self._strays += 1
                self._stray = self._stray or f"{place} has {quoted(text)}"
            return "other_label"
        label, form = found
        if not form or self._takes(text, label):
            return ""
        self._count(place, text, label, form)
        return "label_form"

    def describe_others(self, labels: Sequence[str] = ()) -> str:
        """Describe answers without a label, with an example.

        The result is empty if all answers have labels.
        """
        if not self._strays:
            return ""
        verb = "gives" if self._strays == 1 else "give"
        listed = f" ({excerpt(', '.join(labels), 100)})" if labels else ""
        return (
            f"{self._strays:,} of {self.answers:,} answers {verb} none of the labels{listed}; {self._stray}"
        )
