"""What a task is: a value that names its data, its reader and its metric. No subclassing, no work on import."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from decabench.tasks.example import Example
from decabench.tasks.outputs import Output, Text

__all__ = [
    "Exactly",
    "Files",
    "Hub",
    "Matched",
    "RemoteFile",
    "Rewrite",
    "Source",
    "Task",
    "Variant",
    "Wrapped",
    "fixed",
    "matched",
    "wrapped",
]

# ---- variants

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


# ---- task


class Files(Protocol):
    """Verified local files of one source, as a reader sees them. Every method streams."""

    def path(self, name: str) -> Path:
        """The local path of a file."""

    def member(self, name: str, member: str) -> Path:
        """The local path of one member of an archive, extracted on first use."""

    def rows(self, name: str, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        """The rows of a parquet file, a few thousand in memory at a time."""


Reader = Callable[[Files, str], Iterator[Example]]
"""(files, split) -> that split's examples in upstream's order."""


@dataclass(frozen=True)
class RemoteFile:
    """A file that upstream publishes and a mirror may hold under the same name."""

    name: str
    """Its name in a mirror, below the task's folder: `train-v1.1.json`, `3.0.0/test-....parquet`."""
    urls: tuple[str, ...] = ()
    """Where it can be had, in order; none for a form that only mirrors have."""
    sha256: str | None = None
    """The published digest, where one is known."""
    size: int | None = None
    """Bytes, where known."""
    md5: str | None = None
    """A weaker published digest, where it is all there is."""
    git_blob: str | None = None
    """The id of the git blob (sha1 over `blob <size>\\0` + bytes), where it is all there is."""


@dataclass(frozen=True)
class Hub:
    """A parquet dataset on the Hugging Face hub, at a commit."""

    repository: str
    """`owner/name`."""
    revision: str
    """A full commit hash."""


@dataclass(frozen=True)
class Source:
    """One form in which a dataset is published, with the reader for that form."""

    name: str
    """Short: `upstream json`, `hub parquet`."""
    files: Mapping[str, tuple[RemoteFile, ...]]
    """Split to the files that it is read from (several splits may share one)."""
    read: Reader
    """Turns them into examples."""
    hub: Hub | None = None
    """Set where the files are parquet on the hub; the file names are then paths in the repository."""
    members: tuple[str, ...] = ()
    """Members of archives that the reader asks for, so that one pass can extract them all."""


@dataclass(frozen=True)
class Task:
    """A task of the benchmark."""

    name: str
    """decaNLP's name: `squad`, `iwslt.en.de`."""
    title: str
    """What a person calls it: `Question answering`."""
    dataset: str
    """What it is made from: `SQuAD 1.1`."""
    metric: str
    """The name of its headline metric in `decabench.metrics.METRICS`."""
    counts: Mapping[str, int]
    """Published number of examples by split; those of `hidden` splits too."""
    sources: tuple[Source, ...]
    """Where the data can be had, in the order in which they are tried."""
    licence: str
    """Under which terms the text may be used."""
    citation: str
    """Authors, year and title of the dataset's paper."""
    homepage: str = ""
    """Where a person reads about it."""
    version: int = 1
    """Raised whenever the same files would give other triples."""
    secondary: tuple[str, ...] = ("nf1",)
    """Other metrics that are computed beside the headline."""
    hidden: tuple[str, ...] = ()
    """Splits whose labels are not public."""
    gold_score: str = ""
    """The score that gold answers must bring to 100, where a quirk of the official scorer denies them the headline."""
    output: Output = field(default_factory=Text)
    """What an answer is: what its metric, extraction, highlighting and limits, and models' heads, follow from."""
    variants: tuple[Variant, ...] = ()
    """Other wordings of its questions, numbered from 1: 0 is the dataset's own."""
    notes: str = ""
    """Where the triples differ from what a reader of the paper may expect."""
    origin: str = "decabench"
    """Who defined it: `decabench`, or `user` for a file or an entry point."""
    folder: Path | None = None
    """Where its files lie, for a task whose data is local and never downloaded."""

    @property
    def extractive(self) -> bool:
        """Whether an answer is a part of the context, so that a context that was cut may have lost it."""
        return isinstance(self.output, Text) and self.output.extractive
