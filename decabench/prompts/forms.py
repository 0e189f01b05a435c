"""Numbers and lists in a form that scores as wrong although a reader understands them: `three`, `DET, NOUN`.

Answers of language models are extracted, and rarely have such a form; files that somebody wrote have. Nothing here
changes a score: it says why one is low. labels.py does the same for labels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from decabench.metrics import Item, Metric
from decabench.prompts.sequences import find_items, find_number
from decabench.tasks import Number, Output, Tags, Tree
from decabench.text import excerpt

__all__ = ["AnswerForms", "ListForms", "NumberForms", "find_number_form", "forms_of"]


@dataclass
class AnswerForms:
    """Counts the answers of a file that mean something, in a form that their metric does not read."""

    kind: str
    """What the answers are: `number`, `list`."""
    advice: str
    """What to write instead."""
    answers: int = 0
    """Answers that were looked at."""
    forms: Counter[str] = field(default_factory=Counter)
    """How often each form occurs."""
    example: tuple[str, str, str] = ("", "", "")
    """Where the first one is, what is written there, and what is meant."""

    def add(self, place: str, text: str, gold: str = "") -> None:
        """Count an answer; `gold` is its reference, if that is known."""
        raise NotImplementedError

    def describe_forms(self) -> str:
        """Say how many answers have another form, which, and give an example; empty if none has."""
        if not (count := self.forms.total()):
            return ""
        kinds = ", ".join(f"{form} ({number:,})" for form, number in self.forms.most_common(4))
        place, text, meant = self.example
        verb = f"is a {self.kind}" if count == 1 else f"are {self.kind}s"
        return (
            f"{count:,} of {self.answers:,} answers {verb} in another form, which counts as wrong: {kinds}; "
            f"{place} has {excerpt(text, 60)!r} for {excerpt(meant, 60)!r}: {self.advice}"
        )

    def _count(self, place: str, text: str, meant: str, form: str) -> None:
        self.forms[form] += 1
        self.example = self.example if self.example[0] else (place, text, meant)


def forms_of(output: Output, metric: Metric) -> AnswerForms | None:
    """Return empty counts for answers that are numbers or lists; None for those of other outputs."""
    match output:
        case Number():
            return NumberForms(metric)
        case Tags(names=names):
            return ListForms("tags", names)
        case Tree(relations=names):
            return ListForms("tree", names)
        case _:
            return None


# Numbers

_WORDS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve".split()
    )
}
_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)
_PLAIN = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)")


class NumberForms(AnswerForms):
    """Counts answers that give a number as the metric does not read it: `three`, `3,5`, `3 out of 5`."""

    def __init__(self, metric: Metric) -> None:
        super().__init__("number", "write the number alone")
        self._metric = metric
        self._reads = cache(self._is_read)

    def add(self, place: str, text: str, gold: str = "") -> None:
        """Count an answer."""
        self.answers += 1
        found = find_number_form(text)
        if found is None:
            return
        number, form = found
        meant = gold if gold and _PLAIN.fullmatch(gold) and float(gold) == float(number) else number
        if not self._reads(text, meant):
            self._count(place, text, meant, form)

    def _is_read(self, text: str, number: str) -> bool:
        """Tell whether the metric gives a text the statistics that the number has, or cannot say.

        A number with hundreds of digits is none to it, and somebody else's metric may need more of an example than its
        answer: whatever it raises says nothing of the gold answers, which are made up here.
        """
        references = [
            Item((number,)),
            Item(("-1000000",)),
        ]  # another, so that there is a range of gold answers
        try:
            given, wanted = (self._metric.statistics([each, "0"], references)[0] for each in (text, number))
        except Exception:
            return True
        return given == wanted


def find_number_form(text: str) -> tuple[str, str] | None:
    """Return the number that a text gives and how its form differs; None if it gives none, or more than one."""
    rest = text.strip()
    if re.fullmatch(r"[-+]?\d+,\d+", rest):
        return rest.replace(",", "."), "a decimal comma"
    if re.search(r"\d", rest):
        number = find_number(rest)
        if number is None:
            return None
        return number, "another spelling" if _PLAIN.fullmatch(rest) else "text around the number"
    words = {found.lower() for found in _WORD.findall(rest)}
    if len(words) != 1:
        return None
    (word,) = words
    return _WORDS[word], "a word" if rest.lower().rstrip(".!") == word else "a word in a sentence"


# Lists


class ListForms(AnswerForms):
    """Counts answers that are lists of tags or heads with other marks between them: commas, JSON, one a line."""

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        super().__init__("list", "write the items alone, with spaces between them")
        self._kind = kind
        self._names = names

    def add(self, place: str, text: str, gold: str = "") -> None:
        """Count an answer."""
        self.answers += 1
        plain = text.split()
        if not plain or all(map(self._is_item, plain)):
            return
        meant = find_items(text, self._kind, self._names)
        if meant is not None and meant.split() != plain and all(map(self._is_item, meant.split())):
            self._count(place, text, meant, _list_form(text))

    def _is_item(self, item: str) -> bool:
        name = item.partition(":")[2] if self._kind == "tree" else item
        return name in self._names if self._names else bool(re.fullmatch(r"[\w:-]+", item))


def _list_form(text: str) -> str:
    if text.lstrip().startswith(("[", "{")):
        return "JSON"
    if len(text.strip().splitlines()) > 1:
        return "one a line"
    return "commas" if "," in text or ";" in text else "other marks"
