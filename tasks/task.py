"""The `Task` class, which describes a task as plain data. Tasks need no subclass."""

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
from decabench.text import short_list

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Matches valid names of tasks and suites. They are also used as file and folder names."""

_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
"""Matches strings in the form of BCP 47 language codes, such as `pt-BR`. Whether the code exists is not checked."""

NAME_LENGTH = 80
"""The maximum length of a task name in characters, because file names contain it."""


def is_task_name(name: str) -> bool:
    """Return whether a string is a valid task name, and therefore safe to use in a path."""
    return len(name) <= NAME_LENGTH and NAME.fullmatch(name) is not None


def name_fault(name: str) -> str:
    """Explain why a string can't be the name of a task or suite.

    Returns an empty string for a valid name.
    """
    if is_task_name(name):
        return ""
    return (
        "A name must consist of lowercase letters, digits, dots, hyphens and underscores, start with a letter or "
        f"digit, and have at most {NAME_LENGTH} characters, but got {name!r}."
    )


HIDDEN_ADVICE = (
    "The reason is not shown, because it may quote a hidden label. To see it, add --hidden, but only if no one "
    "else can read the output."
)
"""The end of an error message that leaves out the reason, because it may quote a hidden label."""


@contextmanager
def unquoted(hidden: bool, instead: DecabenchError) -> Iterator[None]:
    """Replace any error raised in the block with `instead` if `hidden` is set.

    The original message may quote hidden labels. MemoryError and StorageError are not replaced,
    because they never quote labels.
    """
    try:
        yield
    except (MemoryError, StorageError):
        raise
    except Exception:
        if not hidden:
            raise
        raise instead from None  # without `from None`, the traceback would quote the label


METRIC_GROUP = "decabench.metrics"
"""The entry-point group for packages that provide metrics."""

# Sources of a task's examples


class Files(Protocol):
    """The local files of a source, as passed to its reader."""

    def path(self, name: str) -> Path:
        """Return the local path of a file or archive member. Members are extracted on first use."""

    def rows(self, name: str, columns: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        """Yield the rows of a parquet file. Only about a thousand rows are in memory at once."""


Reader = Callable[[Files, str], Iterator[Example]]
"""A function that takes the files and the name of a split, and yields the split's examples in a fixed order."""


@dataclass(frozen=True)
class RemoteFile:
    """A data file, usually published with the dataset. Mirrors provide it under the same name."""

    name: str
    """The file's path, relative to the task's folder in a mirror, such as `train-v1.1.json`."""
    urls: tuple[str, ...] = ()
    """Download URLs in order of preference, or an empty tuple if only mirrors have the file."""
    sha256: str | None = None
    """The published SHA-256 digest, if known."""
    size: int | None = None
    """The size in bytes, if known."""
    md5: str | None = None
    """The published MD5 digest, if known."""
    git_blob: str | None = None
    """The git blob id, if known: the SHA-1 digest of `blob <size>\\0` followed by the bytes."""

    @property
    def digests(self) -> dict[str, str]:
        """The known digests by kind: `sha256`, `md5` and `git_blob`."""
        published = {"sha256": self.sha256, "md5": self.md5, "git_blob": self.git_blob}
        return {kind: value.lower() for kind, value in published.items() if value is not None}

    def find_faults(self, size: int, digests: Mapping[str, str]) -> list[str]:
        """Describe how a file of this size and with these digests differs from the published file.

        The size is compared only if no digest is published. Returns an empty list if nothing differs.
        """
        faults = [
            f"{kind} {digests.get(kind, 'none')}, expected {value}"
            for kind, value in self.digests.items()
            if digests.get(kind) != value
        ]
        if not self.digests and self.size not in (None, size):
            faults.append(f"{size} bytes, expected {self.size}")
        return faults

    def describe_size(self, size: object) -> str:
        """Return both sizes if a file has another size, as in ` (22 bytes instead of 80)`, and otherwise ""."""
        if not isinstance(size, int) or self.size in (None, size):
            return ""
        return f" ({size:,} bytes instead of {self.size:,})"


_ON_HUB = re.compile(r"https://huggingface\.co/datasets/([\w.-]+/[\w.-]+)/resolve/.+\.parquet")


@dataclass(frozen=True)
class Source:
    """A form in which a dataset is available: its files and the reader for them."""

    name: str
    """A short name, for example `upstream json` or `hub parquet`."""
    files: Mapping[str, tuple[RemoteFile, ...]]
    """The files of each split. Splits may share a file."""
    read: Reader
    """The function that yields examples from the files."""
    members: tuple[str, ...] = ()
    """The archive members that the reader opens. The member `data/train.txt` is opened as `train.txt`.

    `inner.tgz!train.txt` is a member of `inner.tgz`, which is itself a member of the archive.
    """
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of examples in each split, if it differs from the task's published counts."""

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of all files, or an empty tuple if none are published."""
        return tuple(url for files in self.files.values() for file in files for url in file.urls)

    @property
    def repository(self) -> str:
        """The Hugging Face repository of this source's parquet files, as `owner/name`.

        It is an empty string for other sources.
        """
        found = (_ON_HUB.fullmatch(url) for url in self.urls)
        return next((match[1] for match in found if match), "")


def published_files(sources: Iterable[Source]) -> dict[str, RemoteFile]:
    """Return the published files of all splits by name."""
    return {file.name: file for source in sources for files in source.files.values() for file in files}


def list_files(sources: Iterable[Source], splits: Iterable[str]) -> str:
    """Return the file names of the given splits, with `; or` between the sources."""
    names = [[file.name for split in splits for file in source.files.get(split, ())] for source in sources]
    return "; or ".join(dict.fromkeys(short_list(list(dict.fromkeys(each))) for each in names if each))


# The task

TargetForm = Callable[[Example, Sequence[Example]], str]
"""A function (example, earlier) that rewrites the first answer of a training example.

`earlier` lists the preceding examples with the same units, such as the earlier turns of a dialogue. The list grows
after the call, so copy anything that you want to keep.
"""

Curriculum = Literal["easy", "hard"]
"""`easy` tasks come first in decaNLP's curriculum, and `hard` tasks come first in its anti-curriculum."""


@dataclass(frozen=True)
class ContextLimit:
    """The maximum length of a context in training, and what happens to longer contexts."""

    tokens: int
    """The limit in tokens."""
    longer: Literal["skip", "cut"]
    """`skip` leaves out training examples with longer contexts. `cut` truncates contexts in training and prediction."""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise DataError(f"A context limit must be at least 1 token, but got {self.tokens}.")
        if self.longer not in ("skip", "cut"):
            raise DataError(f"'longer' must be 'skip' or 'cut', but got {self.longer!r}.")


@dataclass(frozen=True)
class Task:
    """A task: its data sources, the form of its answers, its prompt and its metrics.

    Raises DataError on creation if any field is invalid, listing every fault.
    """

    name: str
    """The task's name, for example `squad` or `iwslt.en.de`."""
    title: str
    """The display name, for example `Question answering`."""
    dataset: str
    """The dataset that the task is made from, for example `SQuAD 1.1`."""
    metric: str = ""
    """The name of the headline metric (see `decabench metrics`). By default, the output's default metric."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The published number of examples in each split, including `hidden` splits."""
    sources: tuple[Source, ...] = ()
    """The sources of the data, in order of preference. At least one is required."""
    licence: str = "not stated"
    """The license or terms of use of the texts."""
    citation: str = ""
    """The authors, year and title of the dataset's paper."""
    homepage: str = ""
    """The dataset's web page."""
    languages: tuple[str, ...] = ("en",)
    """The language codes of the texts. For translation, the source language comes first: `("en", "de")`."""
    version: int = 1
    """The version of the reader, incremented whenever the same files would produce different examples."""
    secondary: tuple[str, ...] = ("nf1",)
    """Additional metrics to compute."""
    hidden: tuple[str, ...] = ()
    """Splits whose labels are not public: `validation` or `test`.

    No command reveals hidden labels, even if they are prepared on this machine.
    """
    gold_score: str = ""
    """The key, in the metric's `details`, of the score that is 100 for gold answers.

    Needed only if a quirk of the official scorer keeps the headline score of gold answers below 100.
    """
    output: Output = field(default_factory=Text)
    """The type of the answers.

    It determines the default metric, how answers are extracted and displayed, their maximum length, and the output
    layer of trained models.
    """
    question_varies: bool = False
    """Whether questions differ between examples, so that a model has to read them."""
    unit_names: tuple[str, ...] = ()
    """The names of the sampling units, outermost first, for example `("article", "paragraph")`.

    Empty if each example is its own unit.
    """
    prompt: PromptTemplate | None = None
    """The prompt for language models. None means the general prompt of the template set `default`."""
    variants: tuple[Variant, ...] = ()
    """Other wordings of the questions, numbered from 1. Number 0 is the dataset's own wording."""
    curriculum: Curriculum | None = None
    """`easy` if decaNLP's curriculum trains this task first, `hard` if its anti-curriculum does, or None."""
    target_forms: Mapping[str, TargetForm] = field(default_factory=dict)
    """Functions that rewrite the training answers, by name. They never change the answers used for scoring."""
    context_limit: ContextLimit | None = None
    """The default limit on the context length in training. None means no limit."""
    redistributable: bool = True
    """Whether submissions may redistribute the answers."""
    withhold_texts: bool = False
    """Whether to keep questions and contexts off public pages, as the license requires."""
    notes: str = ""
    """Remarks on the data, such as differences from the paper."""
    origin: str = "decabench"
    """Who defined the task: `decabench`, or `user` for a file or an entry point."""
    folder: Path | None = None
    """The folder that contains the task's files, if they are local and never downloaded."""
    shared_folder: str = ""
    """The name of the files' folder in a mirror, if several tasks share it, such as `ud_ewt`.

    By default, it is the task's name.
    """

    definition: Path | None = None
    """The TOML file that defines the task, if any."""

    def __post_init__(self) -> None:
        if not self.metric:
            object.__setattr__(self, "metric", default_metric(self.output))
        if faults := list(self._faults()):
            raise DataError(f"Task {self.name!r}: {' '.join(faults)}")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the headline metric and the additional metrics, without duplicates."""
        return tuple(dict.fromkeys((self.metric, *self.secondary)))

    @property
    def retired_variants(self) -> frozenset[str]:
        """The numbers of the task's retired variants, as strings, which is how results store them."""
        return frozenset(str(number) for number, each in enumerate(self.variants, 1) if each.retired)

    @property
    def files_folder(self) -> str:
        """The folder name for the task's files in mirrors, the sample and downloads."""
        return self.shared_folder or self.name

    @property
    def extractive(self) -> bool:
        """Whether answers are spans of the context, so that truncating the context can lose them."""
        return isinstance(self.output, Text) and self.output.extractive

    @property
    def answer_form(self) -> AnswerForm:
        """The form in which a model writes answers, from the prompt or, by default, from the output."""
        own = self.prompt.form if self.prompt else None
        form = own or default_form(self.output, self.metric)
        return replace(form, stop=self.prompt.stop) if self.prompt else form

    def _faults(self) -> Iterator[str]:
        if fault := name_fault(self.name):
            yield fault
        for metric in self.metrics:
            try:
                require_metric(metric)
            except UnknownNameError as error:
                yield str(error)
        if self.shared_folder and not is_task_name(self.shared_folder):
            yield f"'shared_folder' must be a valid task name, but got {self.shared_folder!r}."
        if not self.sources:
            yield "The task must have at least one source."
        splits = {*self.counts, *self.hidden, *(split for source in self.sources for split in source.files)}
        if unknown := sorted(splits - set(SPLITS)):
            yield f"A split must be one of {', '.join(SPLITS)}, not {', '.join(unknown)}."
        if not self.languages or not all(map(_LANGUAGE.fullmatch, self.languages)):
            yield (
                f"'languages' must be a list of one or more language codes, such as en, de or pt-BR, but got "
                f"{', '.join(map(repr, self.languages)) or 'none'}."
            )
        if "train" in self.hidden:
            yield "The train split can't be hidden, because models, baselines and prompts use its answers."
        names = [variant.name for variant in self.variants]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            listed = f"{', '.join(repeated)} {'is' if len(repeated) == 1 else 'are'}"
            yield f"Each variant must have its own name, but {listed} used more than once."
        if isinstance(self.output, Label) and self.output.names:
            for variant in self.variants:
                if strange := sorted(set(variant.labels.values()) - set(self.output.names)):
                    yield (
                        f"The variant {variant.name} maps words to {', '.join(strange)}, but the labels are "
                        f"{', '.join(self.output.names)}."
                    )
        if self.curriculum not in (None, *get_args(Curriculum)):
            yield f"'curriculum' must be 'easy', 'hard' or None, not {self.curriculum!r}."


def require_metric(name: str) -> str:
    """Return `name` if it names a built-in metric or an installed package's metric, or has the form `module:object`.

    The metric is not loaded. Raises UnknownNameError for any other name, listing similar names.
    """
    if name in METRICS or ":" in name:
        return name
    return require_name(name, (*METRICS, *plugin_names(METRIC_GROUP)), "metric")


def context_limits(tasks: Iterable[Task], longer: Literal["skip", "cut"]) -> dict[str, int]:
    """Return the context limits, in tokens, by task. Only limits with the given value of `longer` are included."""
    return {
        task.name: task.context_limit.tokens
        for task in tasks
        if task.context_limit is not None and task.context_limit.longer == longer
    }


def available_splits(task: Task) -> tuple[str, ...]:
    """Return the splits that the task's sources provide, in the usual order.

    A hidden split of a local task is included only if its files exist, because people with and without the labels
    use the same task file.
    """
    return tuple(
        split
        for split in SPLITS
        if any(split in source.files for source in task.sources) and not _kept_elsewhere(task, split)
    )


def _kept_elsewhere(task: Task, split: str) -> list[str]:
    """Return the names of the missing files of a user's hidden split."""
    if task.folder is None or split not in task.hidden:
        return []
    names = (file.name for source in task.sources for file in source.files.get(split, ()))
    return [name for name in names if not (task.folder / name).exists()]


def describe_absent(task: Task, split: str) -> str:
    """Explain why a split is not available: its labels are hidden, or the task doesn't have it."""
    if task.definition is not None and split not in task.hidden:
        advice = f'to add this split, write {split} = "FILE" under [files] in {shown_path(task.definition)}'
        return f"{task.name} has no {split} split ({advice})"
    why = ", because its labels are hidden" if split in task.hidden else ""
    if absent := _kept_elsewhere(task, split):
        why += f", and {task.folder} does not contain {', '.join(absent)}"
    is_public = task.folder is None or split in task.hidden
    return f"{task.name} has no {'public ' if is_public else ''}{split} split{why}"
