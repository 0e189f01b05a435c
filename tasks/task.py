"""A task is a single value that contains every fact about it, without subclassing or work on import."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from decabench.errors import DataError, DecabenchError, StorageError, UnknownNameError, require_name
from decabench.files import shown_path
from decabench.metrics import METRICS
from decabench.plugins import plugin_names
from decabench.tasks.example import SPLITS, Example
from decabench.tasks.outputs import Label, Output, Text, default_metric
from decabench.tasks.wording import AnswerForm, PromptTemplate, Variant, default_form

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Matches the names allowed for tasks and suites, which are also file and folder names."""

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
"""Matches the form of codes of languages (BCP 47), including some that BCP 47 doesn't define."""

NAME_LENGTH = 80
"""The maximum length of a task's name in characters. Files are named after tasks."""


def is_task_name(name: str) -> bool:
    """Whether a text is a valid task name, and therefore safe as part of a path."""
    return len(name) <= NAME_LENGTH and NAME.fullmatch(name) is not None


HIDDEN_ADVICE = (
    "The reason is not shown, because it may quote a hidden label. To see it, add --hidden, but only if no one "
    "else can read the output."
)
"""The end of an error message that withholds the reason because a split is hidden."""


@contextmanager
def unquoted(hidden: bool, instead: DecabenchError) -> Iterator[None]:
    """Raise `instead` in place of an error that may quote a label, if labels are hidden."""
    try:
        yield
    except (MemoryError, StorageError):
        raise
    except Exception:
        if not hidden:
            raise
        raise instead from None  # otherwise a traceback would quote the label


METRIC_GROUP = "decabench.metrics"
"""The entry-point group for packages that provide metrics."""

# Sources of a task's examples


class Files(Protocol):
    """The verified local files of a source, as passed to a reader."""

    def path(self, name: str) -> Path:
        """Return the local path of a file or archive member. Members are extracted on first use."""

    def rows(self, name: str, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a parquet file, with a few thousand in memory at a time."""


Reader = Callable[[Files, str], Iterator[Example]]
"""Yields a split's examples in upstream's order, given the files and the split."""


@dataclass(frozen=True)
class RemoteFile:
    """A file that upstream publishes. Mirrors offer it under the same name."""

    name: str
    """The file's path in a mirror, relative to the task's folder: `train-v1.1.json`, `3.0.0/test-....parquet`."""
    urls: tuple[str, ...] = ()
    """Download URLs in order of preference, or an empty tuple if only mirrors have the file."""
    sha256: str | None = None
    """The published digest, if known."""
    size: int | None = None
    """Size in bytes, if known."""
    md5: str | None = None
    """A weaker published digest, used if no better digest is known."""
    git_blob: str | None = None
    """The git blob id (sha1 of `blob <size>\\0` + bytes), used if no better digest is known."""

    @property
    def digests(self) -> dict[str, str]:
        """The published digests by kind, if any."""
        published = {"sha256": self.sha256, "md5": self.md5, "git_blob": self.git_blob}
        return {kind: value.lower() for kind, value in published.items() if value is not None}

    def find_faults(self, size: int, digests: Mapping[str, str]) -> list[str]:
        """Describe how bytes differ from the published file. The size is compared only if no digest is published."""
        faults = [
            f"{kind} {digests.get(kind, 'none')}, expected {value}"
            for kind, value in self.digests.items()
            if digests.get(kind) != value
        ]
        if not self.digests and self.size not in (None, size):
            faults.append(f"{size} bytes, expected {self.size}")
        return faults


_ON_HUB = re.compile(r"https://huggingface\.co/datasets/([\w.-]+/[\w.-]+)/resolve/.+\.parquet")


@dataclass(frozen=True)
class Source:
    """A published form of a dataset, with the reader for that form."""

    name: str
    """A short name, for example `upstream json` or `hub parquet`."""
    files: Mapping[str, tuple[RemoteFile, ...]]
    """The files of each split. Splits may share a file."""
    read: Reader
    """The reader, which yields examples from the files."""
    members: tuple[str, ...] = ()
    """Archive members that the reader opens by file name: `data/train.txt` is opened as `train.txt`.

    `outer.tgz!train.txt` is a member of an archive inside the archive.
    """
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of examples by split, if it differs from the task's published counts."""

    @property
    def urls(self) -> tuple[str, ...]:
        """All URLs of the files. Empty for the user's own files."""
        return tuple(url for files in self.files.values() for file in files for url in file.urls)

    @property
    def repository(self) -> str:
        """The Hugging Face repository with this source's parquet files, as `owner/name`, or an empty string."""
        found = (_ON_HUB.fullmatch(url) for url in self.urls)
        return next((match[1] for match in found if match), "")


# The task

TargetForm = Callable[[Example, Sequence[Example]], str]
"""Returns another form of a training example's first answer.

The second argument contains the preceding examples with the same units, for example the earlier turns of a
dialogue. It changes later, so it must be read at once.
"""

Curriculum = Literal["easy", "hard"]
"""`easy` tasks come first in the paper's curriculum, `hard` tasks in its anti-curriculum."""


@dataclass(frozen=True)
class ContextLimit:
    """A limit on the length of the contexts that a model is trained on."""

    tokens: int
    """The limit in tokens."""
    longer: Literal["skip", "cut"]
    """What to do with longer contexts: `skip` the example in training, or `cut` the context, also when answering."""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise DataError(f"The limit for a context must be at least 1 token, but got {self.tokens}.")
        if self.longer not in ("skip", "cut"):
            raise DataError(f"'longer' must be 'skip' or 'cut', but got {self.longer!r}.")


@dataclass(frozen=True)
class Task:
    """A task: its question, the sources of its data, the form of its answers, and how they are scored.

    A task is validated on creation, and DataError lists every fault.
    """

    name: str
    """The name, as in decaNLP: `squad`, `iwslt.en.de`."""
    title: str
    """The display name, for example `Question answering`."""
    dataset: str
    """The dataset that the task is made from, for example `SQuAD 1.1`."""
    metric: str = ""
    """The name of the headline metric (see `decabench metrics`). By default, the output's default metric."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The published number of examples by split, including `hidden` splits."""
    sources: tuple[Source, ...] = ()
    """Where to get the data, in order of preference. At least one source is required."""
    licence: str = "not stated"
    """The terms of use for the text."""
    citation: str = ""
    """The authors, year and title of the dataset's paper."""
    homepage: str = ""
    """The dataset's web page."""
    languages: tuple[str, ...] = ("en",)
    """The codes of the languages of the texts. For translation, the source comes first: `("en", "de")`."""
    version: int = 1
    """Incremented whenever the same files would produce different triples."""
    secondary: tuple[str, ...] = ("nf1",)
    """Additional metrics to compute."""
    hidden: tuple[str, ...] = ()
    """Splits whose labels are not public: `validation` or `test`.

    No command reveals hidden labels, even if they are prepared on this machine.
    """
    gold_score: str = ""
    """The metric that must score gold answers 100, if a quirk of the official scorer keeps the headline score lower."""
    output: Output = field(default_factory=Text)
    """The type of answer, which determines the default metric, extraction, highlighting, limits and model heads."""
    question_varies: bool = False
    """Whether questions differ between examples, so that a model must read them, too."""
    unit_names: tuple[str, ...] = ()
    """The names of the sampling units, outermost first, for example `("article", "paragraph")`.

    Empty if each example is its own unit.
    """
    prompt: PromptTemplate | None = None
    """The prompt for language models. None means the general prompt of the default set."""
    variants: tuple[Variant, ...] = ()
    """Other wordings of the questions, numbered from 1. Number 0 is the dataset's own wording."""
    curriculum: Curriculum | None = None
    """Which curriculum of the paper trains this task first, `easy` (curriculum) or `hard` (anti-curriculum), if any."""
    target_forms: Mapping[str, TargetForm] = field(default_factory=dict)
    """Other forms of the training answers, by name. Scores never depend on them."""
    context_limit: ContextLimit | None = None
    """The default limit on the context length in training. None means no limit."""
    redistributable: bool = True
    """Whether submissions may redistribute the answers."""
    withhold_texts: bool = False
    """Whether to keep questions and contexts off public pages, as the licence requires."""
    notes: str = ""
    """Differences that would surprise readers of the paper."""
    origin: str = "decabench"
    """Who defined the task: `decabench`, or `user` for a file or an entry point."""
    folder: Path | None = None
    """The folder with the task's files, for a task whose data is local and never downloaded."""
    shared_folder: str = ""
    """The mirror folder of the files, if several tasks share it, such as `ud_ewt`. By default, the task's name."""

    definition: Path | None = None
    """The TOML file that defines the task, if any."""

    def __post_init__(self) -> None:
        if not self.metric:
            object.__setattr__(self, "metric", default_metric(self.output))
        if faults := list(self._faults()):
            raise DataError(f"Task {self.name!r}: {' '.join(faults)}")

    @property
    def retired_variants(self) -> frozenset[str]:
        """The numbers of the task's retired wordings, as written in results."""
        return frozenset(str(number) for number, each in enumerate(self.variants, 1) if each.retired)

    @property
    def files_folder(self) -> str:
        """The folder name for the task's files in mirrors, the sample and downloads."""
        return self.shared_folder or self.name

    @property
    def extractive(self) -> bool:
        """Whether answers are parts of the context, so that cutting the context may lose them."""
        return isinstance(self.output, Text) and self.output.extractive

    @property
    def answer_form(self) -> AnswerForm:
        """The form of answers in a model's text, from the prompt or, by default, from the output."""
        own = self.prompt.form if self.prompt else None
        form = own or default_form(self.output, self.metric)
        return replace(form, stop=self.prompt.stop) if self.prompt else form

    def _faults(self) -> Iterator[str]:
        if len(self.name) > NAME_LENGTH:
            yield f"A name must have at most {NAME_LENGTH} characters, not {len(self.name)}."
        if not NAME.fullmatch(self.name):
            yield f"A name must consist of lower-case letters, digits, dots, - and _, not {self.name!r}."
        for metric in (self.metric, *self.secondary):
            try:
                require_metric(metric)
            except UnknownNameError as error:
                yield str(error)
        if self.shared_folder and not is_task_name(self.shared_folder):
            yield f"'shared_folder' must have the form of a task name, but got {self.shared_folder!r}."
        if not self.sources:
            yield "The task must have at least one source."
        splits = {*self.counts, *self.hidden, *(split for source in self.sources for split in source.files)}
        if unknown := sorted(splits - set(SPLITS)):
            yield f"A split must be one of {', '.join(SPLITS)}, not {', '.join(unknown)}."
        if not self.languages or not all(map(_LANGUAGE.fullmatch, self.languages)):
            yield (
                f"'languages' must be one or more codes such as en, de or pt-BR, not "
                f"{', '.join(map(repr, self.languages)) or 'none'}."
            )
        if "train" in self.hidden:
            yield "The train split can't be hidden, because models, baselines and prompts reveal training answers."
        names = [variant.name for variant in self.variants]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            yield f"Each variant must have its own name, but {', '.join(repeated)} is used more than once."
        if isinstance(self.output, Label) and self.output.names:
            for variant in self.variants:
                if strange := sorted(set(variant.labels.values()) - set(self.output.names)):
                    yield (
                        f"The variant {variant.name} maps words to {', '.join(strange)}, but the labels are "
                        f"{', '.join(self.output.names)}."
                    )
        for name, form in self.target_forms.items():
            if not isinstance(name, str) or not name:
                yield f"The name of a target form must be a non-empty string, not {name!r}."
            elif not callable(form):
                yield f"The target form {name} must be a function (example, earlier), not {form!r:.80}."
        if self.curriculum not in (None, *get_args(Curriculum)):
            yield f"'curriculum' must be easy, hard or None, not {self.curriculum!r}."


def require_metric(name: str) -> str:
    """Return `name` if it names a metric: built-in, from an installed package, or `package.module:object`.

    The metric is not loaded. Raises UnknownNameError, listing similar names.
    """
    if name in METRICS or ":" in name:
        return name
    return require_name(name, (*METRICS, *plugin_names(METRIC_GROUP)), "metric")


def context_limits(tasks: Iterable[Task], longer: Literal["skip", "cut"]) -> dict[str, int]:
    """Return the limit, in tokens, of each task whose longer contexts are skipped (or cut)."""
    return {
        task.name: task.context_limit.tokens
        for task in tasks
        if task.context_limit is not None and task.context_limit.longer == longer
    }


def available_splits(task: Task) -> tuple[str, ...]:
    """Return the splits that the task's sources provide, in the usual order.

    A hidden split counts only if its files are present, because the same task file is used by the keeper of
    the labels and everyone else.
    """
    return tuple(
        split
        for split in SPLITS
        if any(split in source.files for source in task.sources) and not _kept_elsewhere(task, split)
    )


def _kept_elsewhere(task: Task, split: str) -> list[str]:
    """Return the missing files of a hidden split of a user's task."""
    if task.folder is None or split not in task.hidden:
        return []
    names = (file.name for source in task.sources for file in source.files.get(split, ()))
    return [name for name in names if not (task.folder / name).exists()]


def describe_absent(task: Task, split: str) -> str:
    """Explain why a task has no public split of this name: its labels are hidden, or the task doesn't define it."""
    if task.definition is not None and split not in task.hidden:
        advice = f'to add this split, write {split} = "FILE" under [files] in {shown_path(task.definition)}'
        return f"{task.name} has no {split} split ({advice})"
    why = ", because its labels are hidden" if split in task.hidden else ""
    if absent := _kept_elsewhere(task, split):
        why += f", and {', '.join(absent)} is not in {task.folder}"
    is_public = task.folder is None or split in task.hidden
    return f"{task.name} has no {'public ' if is_public else ''}{split} split{why}"
