"""Other wordings of a task's questions: how much a score owes to the phrase that asked.

After decaNLP section 4.3, which asks SST with happy/angry and supportive/unsupportive in place of positive/negative.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Exactly", "Matched", "Rewrite", "Variant", "Wrapped", "fixed", "matched", "wrapped"]

Rewrite = Callable[[str], str]
"""A question to the same question in other words. Raises ValueError where it has not the expected form."""

_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Variant:
    """One other wording of all questions of a task. The dataset's own wording is none: it is number 0."""

    name: str
    """Short: `happy-angry`."""
    rewrite: Rewrite
    """What asks. It can be pickled, and the same question gives the same text."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Its label words to the dataset's; empty where they are the same."""

    def relabel(self, answer: str) -> str:
        """The dataset's label for one of its label words, whatever the case; any other answer as it is."""
        folded = {word.casefold(): label for word, label in self.labels.items()}
        return folded.get(answer.strip().casefold(), answer)


@dataclass(frozen=True)
class Exactly:
    """Takes the one question that a task asks of every context."""

    question: str
    """What it asks."""
    instead: str
    """What is asked in its place."""

    def __call__(self, question: str) -> str:
        if question != self.question:
            raise ValueError(f"The question is {question!r:.200}, not {self.question!r}.")
        return self.instead


@dataclass(frozen=True)
class Wrapped:
    """Puts words around any question."""

    template: str
    """With `{question}` in it."""

    def __call__(self, question: str) -> str:
        if not question.strip():
            raise ValueError("The question is empty.")
        return _filled(self.template, {"question": question})


@dataclass(frozen=True)
class Matched:
    """Takes a question apart and puts its parts together in another way."""

    pattern: str
    """A regular expression for all of a question, with named groups."""
    template: str
    """With the groups' names in braces."""

    def __call__(self, question: str) -> str:
        found = re.fullmatch(self.pattern, question, re.DOTALL)
        if found is None:
            raise ValueError(f"The question {question!r:.200} has not the form {self.pattern}.")
        return _filled(self.template, found.groupdict())


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """The braces of the template alone are filled: those of a question are text."""
    return _PLACE.sub(lambda match: parts[match[1]], template)


def fixed(name: str, question: str, instead: str, labels: Mapping[str, str] | None = None) -> Variant:
    """A variant of a task whose examples all ask the same."""
    return Variant(name, Exactly(question, instead), labels or {})


def wrapped(name: str, template: str) -> Variant:
    """A variant of a task with natural questions: words around them. Raises ValueError for a template without place."""
    if set(_PLACE.findall(template)) != {"question"}:
        raise ValueError(f"The template {template!r} must have {{question}} in it, and no other braces.")
    return Variant(name, Wrapped(template))


def matched(name: str, pattern: str, template: str, labels: Mapping[str, str] | None = None) -> Variant:
    """A variant of a task whose questions have parts. Raises ValueError where the template names another part."""
    groups, named = set(re.compile(pattern).groupindex), set(_PLACE.findall(template))
    if groups != named:
        raise ValueError(
            f"The template {template!r} must use the parts {', '.join(sorted(groups))}, and no other."
        )
    return Variant(name, Matched(pattern, template), labels or {})
