"""Tasks from TOML files, which name a local table, its columns, a question template, and the type of an answer."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decabench.errors import DataError
from decabench.tables import TomlTable
from decabench.tasks.example import SPLITS, Example
from decabench.tasks.outputs import SCHEMES, Label, Number, Output, Tags, Text, Tree, default_metric
from decabench.tasks.readers import stream_lines
from decabench.tasks.task import (
    NAME,
    ContextLimit,
    Files,
    Reader,
    RemoteFile,
    Source,
    Task,
    require_metric,
)
from decabench.tasks.wording import PromptTemplate, Variant, default_form, fixed, read_prompt, wrapped

__all__ = ["TASK_FORMAT", "task_from_toml"]

TASK_FORMAT = "decabench.taskfile/1"

_DATA_KEYS = (
    "format",
    "name",
    "metric",
    "secondary",
    "files",
    "question",
    "context",
    "answer",
    "id",
    "units",
    "group",
)
_ABOUT_KEYS = ("title", "dataset", "licence", "citation", "homepage", "notes")
_MODEL_KEYS = ("output", "prompt", "variants", "context_limit", "redistributable", "withhold_texts")
_KEYS = (*_DATA_KEYS, *_ABOUT_KEYS, *_MODEL_KEYS)
_SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet")
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


def task_from_toml(content: Mapping[str, Any], path: Path) -> Task:
    """Return the task that a TOML file describes. Raises DataError with every fault of the file."""
    file = TomlTable(content)
    file.refuse_unknown(_KEYS)
    name = file.string("name")
    if name and not NAME.fullmatch(name):
        file.fault(f"a name must consist of lower-case letters, digits, dots, - and _, not {name!r}.")
    columns = _Columns(
        task=name,
        question=file.string("question"),
        context=file.string("context", ""),
        answer=file.string("answer"),
        id=file.string("id", ""),
        units=_read_units(file),
    )
    output = _read_output(file) if "output" in file else Text()
    metric = _read_metric(file, output)
    files = _read_files(file)
    fields: dict[str, Any] = {
        **{key: file.string(key, default) for key, default in _about(name).items()},
        "secondary": _read_secondary(file),
        "prompt": _read_prompt(file, output, metric) if "prompt" in file else None,
        "variants": tuple(_read_variants(file, columns.question)),
        "context_limit": _read_limit(file) if "context_limit" in file else None,
        "redistributable": file.flag("redistributable", True),
        "withhold_texts": file.flag("withhold_texts", False),
    }
    file.raise_faults(str(path))
    path = path.resolve()
    # The TOML file is among the inputs: if its templates change, so do the examples.
    remote = {split: (RemoteFile(table), RemoteFile(path.name)) for split, table in files.items()}
    try:
        return Task(
            name=name,
            metric=metric,
            sources=(Source("local files", remote, _reader(columns, files)),),
            output=output,
            question_varies=_PLACEHOLDER.search(columns.question) is not None,
            unit_names=columns.units,
            origin="user",
            folder=path.parent,
            **fields,
        )
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _about(name: str) -> dict[str, str]:
    return {**dict.fromkeys(_ABOUT_KEYS, ""), "title": name, "dataset": name, "licence": "not stated"}


def _read_files(file: TomlTable) -> dict[str, str]:
    if not isinstance(file.content.get("files"), dict) or not file.content["files"]:
        file.fault(f"[files] must name a file for one or more of {', '.join(SPLITS)}.")
        return {}
    table = file.table("files")
    table.refuse_unknown(SPLITS)
    files = {split: table.string(split) for split in SPLITS if split in table}
    for name in filter(None, files.values()):
        if not name.endswith(_SUFFIXES):
            table.fault(f"a file must be .jsonl, .csv, .tsv or .parquet, not {name!r}.")
    return files


def _read_metric(file: TomlTable, output: Output) -> str:
    if "metric" not in file and "output" not in file:
        file.fault("'metric' is missing: name one, or give the type of an answer with 'output'.")
    metric = file.string("metric", default_metric(output))
    with file.noting():
        require_metric(metric)
    return metric


def _read_units(file: TomlTable) -> tuple[str, ...]:
    """Read the columns of `units`, outermost first; `group` is an earlier name for a single one."""
    if "units" in file and "group" in file:
        file.fault("'group' is the earlier name of 'units': give one of them.")
    if "group" in file:
        return tuple(filter(None, [file.string("group", "")]))
    columns = file.strings("units", ())
    if len(set(columns)) < len(columns):
        file.fault(f"'units' must name each column once, not {', '.join(columns)}.")
    return columns


def _read_secondary(file: TomlTable) -> tuple[str, ...]:
    names = file.strings("secondary", ("nf1",))
    for name in names:
        with file.noting():
            require_metric(name)
    return names


_OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "text": ("extractive",),
    "label": ("names",),
    "tags": ("scheme", "names"),
    "tree": ("names",),
    "number": ("low", "high"),
}
"""The kinds of output, and the keys of each."""


def _read_output(file: TomlTable) -> Output:
    """Read `output = "label"`, or a table [output] with `kind` and the keys of that kind."""
    if isinstance(file.content["output"], str):
        table = TomlTable({"kind": file.content["output"]}, "[output]", file.faults)
    else:
        table = file.table("output")
    kind = table.choice("kind", tuple(_OUTPUTS))
    every_key = {key for keys in _OUTPUTS.values() for key in keys}
    table.refuse_unknown(("kind", *_OUTPUTS.get(kind, sorted(every_key)), "max_tokens"))
    limit = {"max_tokens": table.positive("max_tokens")} if "max_tokens" in table else {}
    names = table.strings("names", ())
    with table.noting():
        match kind:
            case "label":
                return Label(names, **limit)
            case "tags":
                named = table.choice("scheme", SCHEMES, "plain")
                return Tags(next(scheme for scheme in SCHEMES if scheme == named), names, **limit)
            case "tree":
                return Tree(names, **limit)
            case "number":
                low, high = table.number("low"), table.number("high")
                return Number(low, high, **limit) if {"low", "high"} <= set(table.content) else Text()
    return Text(table.flag("extractive"), **limit)


def _read_prompt(file: TomlTable, output: Output, metric: str) -> PromptTemplate:
    return read_prompt(file.table("prompt"), PromptTemplate(form=default_form(output, metric)))


def _read_limit(file: TomlTable) -> ContextLimit:
    table = file.table("context_limit")
    table.refuse_unknown(("tokens", "longer"))
    is_cut = table.choice("longer", ("skip", "cut"), "cut") == "cut"
    return ContextLimit(table.positive("tokens"), "cut" if is_cut else "skip")


def _read_variants(file: TomlTable, question: str) -> list[Variant]:
    """Read `[[variants]]`: words around any question, or another question if all examples ask the same."""
    made = []
    for table in file.tables("variants"):
        table.refuse_unknown(("name", "question", "labels"))
        name, asked = table.string("name"), table.string("question")
        labels = table.table("labels", f"{table.title}, labels")
        words = {word: labels.string(word) for word in labels.content}
        is_fixed = "{question}" not in asked and not _PLACEHOLDER.search(question)
        if asked:
            with table.noting():
                variant = fixed(name, question, asked) if is_fixed else wrapped(name, asked)
                made.append(replace(variant, labels=words))
    return made


# From a row of the table to an example


@dataclass(frozen=True)
class _Columns:
    """Turns a row of the table into an example. Templates name columns in braces: `{country}`."""

    task: str
    question: str
    context: str
    answer: str
    id: str
    units: tuple[str, ...]

    def example(self, row: Mapping[str, Any], split: str, index: int) -> Example:
        found = _cell(row, self.answer)
        given = found if isinstance(found, list) else [found]
        answers = [str(answer) for answer in given if answer is not None]
        if not answers:
            raise DataError(f"It has no answer in {self.answer!r}.")
        id = str(_cell(row, self.id)) if self.id else f"{self.task}.{split}.{index}"
        units = tuple(str(_cell(row, column)) for column in self.units) or (id,)
        return Example(id, _fill(self.question, row), _fill(self.context, row), tuple(answers), units)


def _cell(row: Mapping[str, Any], column: str) -> Any:
    if not isinstance(row, Mapping):
        raise DataError(f"It must be an object with columns, not {json.dumps(row)[:80]}.")
    if row.get(column) is None:
        raise DataError(f"It has no {column!r}; it has {', '.join(map(str, row))}.")
    return row[column]


def _fill(template: str, row: Mapping[str, Any]) -> str:
    # Not str.format: a template must reach columns only, never attributes of values.
    return _PLACEHOLDER.sub(lambda match: str(_cell(row, match.group(1))), template)


def _reader(columns: _Columns, names: Mapping[str, str]) -> Reader:
    def read(files: Files, split: str) -> Iterator[Example]:
        faults: dict[str, list[int]] = {}
        for index, row in enumerate(_rows(files, names[split])):
            try:
                yield columns.example(row, split, index)
            except DataError as error:
                faults.setdefault(str(error), []).append(index + 1)
                if len(faults) == _MOST_FAULTS + 1:
                    break
        if faults:
            raise DataError(_describe_rows(names[split], faults))

    return read


_MOST_FAULTS = 20
"""So many different faults of a table are told at once."""


def _describe_rows(name: str, faults: Mapping[str, Sequence[int]]) -> str:
    """Tell every fault of a table, each with the first row that has it."""
    told = []
    for fault, rows in faults.items():
        others = len(rows) - 1
        more = f" The same in {others:,} more row{'s' if others > 1 else ''}." if others else ""
        told.append(f"row {rows[0]:,}: {fault}{more}")
    if len(told) == 1:
        return f"{name}, {told[0]}"
    listed = "\n".join(f"- {each}" for each in told[:_MOST_FAULTS])
    return f"{name} has faults:\n{listed}" + ("\n- and others" if len(told) > _MOST_FAULTS else "")


def _rows(files: Files, name: str) -> Iterator[Mapping[str, Any]]:
    if name.endswith(".parquet"):
        yield from files.rows(name, ())
    elif name.endswith((".csv", ".tsv")):
        csv.field_size_limit(sys.maxsize)
        with files.path(name).open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file, delimiter="\t" if name.endswith(".tsv") else ",")
    else:
        yield from stream_lines(files.path(name))
