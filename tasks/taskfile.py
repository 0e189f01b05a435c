"""Tasks defined in TOML files: a local table with its columns, a question template and the type of the answers."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from decabench.errors import DataError
from decabench.metrics import METRICS, MetricError
from decabench.tables import TomlTable
from decabench.tasks.example import SPLITS, Example
from decabench.tasks.outputs import (
    MOST_FAULTS,
    SCHEMES,
    Label,
    Number,
    Output,
    Tags,
    Text,
    Tree,
    compares_words,
    default_metric,
    describe_rows,
    find_alike,
    find_fault,
    require_scheme,
)
from decabench.tasks.readers import line_records, open_text
from decabench.tasks.task import (
    ContextLimit,
    Files,
    Reader,
    RemoteFile,
    Source,
    Task,
    name_fault,
    require_metric,
)
from decabench.tasks.wording import PromptTemplate, Variant, default_form, fixed, read_prompt, wrapped
from decabench.text import kind_of
from decabench.untrusted import BrokenCsvError, csv_rows, rows_in_quotes

TASK_FORMAT = "decabench.taskfile/1"

_ABOUT_KEYS = ("title", "dataset", "licence", "citation", "homepage", "notes")
_KEYS = (
    *("format", "name", "metric", "secondary", "output", "files", "hidden"),
    *("question", "context", "answer", "id", "units", "languages"),
    *("prompt", "variants", "context_limit", "redistributable", "withhold_texts"),
    *_ABOUT_KEYS,
)
_SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet")
_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


def task_from_toml(content: Mapping[str, Any], path: Path) -> Task:
    """Return the task that a TOML file describes. Raises DataError if the file has faults, listing all of them."""
    file = TomlTable(content)
    file.refuse_unknown(_KEYS)
    name = file.string("name")
    if name and (fault := name_fault(name)):
        file.fault(fault)
    output = _read_output(file) if "output" in file else Text()
    metric, secondary = _read_metric(file, output), _read_secondary(file)
    columns = _Columns(
        task=name,
        question=file.string("question"),
        context=file.string("context", ""),
        answer=file.string("answer"),
        id=file.string("id", ""),
        units=file.strings("units", ()),
        output=output,
        metrics=(metric, *secondary),
        hidden=file.strings("hidden", ()),
    )
    if not columns.units and metric in METRICS and METRICS[metric].scope == "group":
        file.fault(
            f"'units' is missing. {metric} scores whole dialogues, so name the column that identifies "
            "each turn's dialogue."
        )
    if fault := find_alike(output, metric):
        file.fault(fault)
    files = _read_files(file)
    fields: dict[str, Any] = {
        **{key: file.string(key, default) for key, default in _about(name).items()},
        "hidden": columns.hidden,
        "languages": file.strings("languages", ("en",)),
        "secondary": secondary,
        "prompt": read_prompt(file.table("prompt"), PromptTemplate(form=default_form(output, metric)))
        if "prompt" in file
        else None,
        "variants": tuple(_read_variants(file, columns.question, output)),
        "context_limit": _read_limit(file) if "context_limit" in file else None,
        "redistributable": file.flag("redistributable", True),
        "withhold_texts": file.flag("withhold_texts", False),
    }
    file.raise_faults(str(path))
    path = path.resolve()
    # The TOML file is one of the inputs, because its templates determine the examples.
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
            definition=path,
            **fields,
        )
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _about(name: str) -> dict[str, str]:
    return {**dict.fromkeys(_ABOUT_KEYS, ""), "title": name, "dataset": name, "licence": "not stated"}


def _read_files(file: TomlTable) -> dict[str, str]:
    if not isinstance(file.content.get("files"), dict) or not file.content["files"]:
        file.fault(f"[files] must list a file for at least one of {', '.join(SPLITS)}.")
        return {}
    table = file.table("files")
    table.refuse_unknown(SPLITS)
    files = {split: table.string(split) for split in SPLITS if split in table}
    for name in filter(None, files.values()):
        if not name.endswith(_SUFFIXES):
            table.fault(f"a file name must end in .jsonl, .csv, .tsv or .parquet, not {name!r}.")
    return files


def _read_metric(file: TomlTable, output: Output) -> str:
    if "metric" not in file and "output" not in file:
        file.fault("'metric' is missing. Name a metric, or specify the type of the answers with 'output'.")
    metric = file.string("metric", default_metric(output))
    with file.noting():
        require_metric(metric)
    return metric


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
"""The keys allowed for each kind of output."""


def _read_output(file: TomlTable) -> Output:
    """Read the output from `output = "label"`, or from a table [output] with `kind` and the keys of that kind."""
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
                scheme = next(scheme for scheme in SCHEMES if scheme == named)
                require_scheme(names, scheme)
                return Tags(scheme, names, **limit)
            case "tree":
                return Tree(names, **limit)
            case "number":
                low, high = table.number("low"), table.number("high")
                return Number(low, high, **limit) if {"low", "high"} <= set(table.content) else Text()
    return Text(table.flag("extractive"), **limit)


def _read_limit(file: TomlTable) -> ContextLimit:
    table = file.table("context_limit")
    table.refuse_unknown(("tokens", "longer"))
    is_cut = table.choice("longer", ("skip", "cut"), "cut") == "cut"
    return ContextLimit(table.positive("tokens"), "cut" if is_cut else "skip")


def _read_variants(file: TomlTable, question: str, output: Output) -> list[Variant]:
    """Read the `[[variants]]` tables.

    A variant adds words around the question, or replaces it if all examples have the same question.
    """
    made = []
    for table in file.tables("variants"):
        table.refuse_unknown(("name", "question", "labels"))
        name, asked = table.string("name"), table.string("question")
        labels = table.table("labels", f"{table.title}, labels")
        words = {word: labels.string(word) for word in labels.content}
        declared = output.names if isinstance(output, Label) else ()
        for word, label in words.items() if declared else ():
            if label not in declared:
                labels.fault(
                    f"{word!r} stands for {label!r}, which is not one of the labels {', '.join(declared)}."
                )
        is_fixed = "{question}" not in asked and not _PLACEHOLDER.search(question)
        if is_fixed and (found := _PLACEHOLDER.findall(asked)):
            table.fault(
                f"'question' contains the column {found[0]!r}, but only the main question can contain columns. Use "
                "{question} here."
            )
        elif asked:
            with table.noting():
                variant = fixed(name, question, asked) if is_fixed else wrapped(name, asked)
                made.append(replace(variant, labels=words))
    return made


# From table rows to examples


@dataclass(frozen=True)
class _Columns:
    """The column or template for each field of an example. Templates name columns in braces: `{country}`."""

    task: str
    question: str
    context: str
    answer: str
    id: str
    units: tuple[str, ...]
    output: Output
    metrics: tuple[str, ...]
    hidden: tuple[str, ...]

    def example(self, row: Mapping[str, Any], split: str, index: int) -> Example:
        # A hidden split may lack the answer column, because not everyone has the labels.
        is_bare = split in self.hidden and isinstance(row, Mapping) and self.answer not in row
        found = [] if is_bare else _cell(row, self.answer)
        given = found if isinstance(found, list) else [found]
        answers = tuple(_text(answer, self.answer) for answer in given if answer is not None)
        if not answers and not is_bare:
            raise DataError(f"The row has no answer in the column {self.answer!r}.")
        id = _text(_cell(row, self.id), self.id) if self.id else f"{self.task}.{split}.{index}"
        units = tuple(_text(_cell(row, column), column) for column in self.units) or (id,)
        made = Example(id, _fill(self.question, row), _fill(self.context, row), answers, units)
        if answers and (fault := find_fault(made, self.output, self.metrics)):
            raise DataError(fault)
        return made


def _cell(row: Mapping[str, Any], column: str) -> Any:
    if not isinstance(row, Mapping):
        advice = (
            " Write each object of the list on its own line."
            if isinstance(row, list) and row and isinstance(row[0], dict)
            else ""
        )
        raise DataError(
            f"The row must be a JSON object with a value for each column, not {json.dumps(row)[:80]}.{advice}"
        )
    if row.get(column) is None and len(row) == 1 and ";" in str(name := next(iter(row))):
        raise DataError(
            f"The file has only the column {str(name)!r}. Separate columns with commas, not semicolons."
        )
    if row.get(column) is None:
        raise DataError(f"The row has no value for {column!r}. Its columns are {', '.join(map(str, row))}.")
    return row[column]


def _text(value: Any, column: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, date) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return str(value)
    raise DataError(f"{column!r} must be text, a number or a date, not {kind_of(value)}.")


def _fill(template: str, row: Mapping[str, Any]) -> str:
    # Not str.format, because templates must only access columns, never attributes of values.
    return _PLACEHOLDER.sub(lambda match: _text(_cell(row, match[1]), match[1]), template)


def _reader(columns: _Columns, names: Mapping[str, str]) -> Reader:
    def read(files: Files, split: str) -> Iterator[Example]:
        faults: dict[str, list[str]] = {}
        in_floats: list[str] | None = []  # the first row's position, or None after an answer unlike 1945.0
        for index, (place, row) in enumerate(_rows(files, names[split], columns.answer)):
            try:
                if isinstance(row, DataError):
                    raise row
                made = columns.example(row, split, index)
                is_float = in_floats is not None and made.answers and all(map(_FLOAT.fullmatch, made.answers))
                in_floats = [*(in_floats or []), place][:1] if is_float else None
                yield made
            except (DataError, MetricError) as error:
                faults.setdefault(str(error), []).append(place)
                if len(faults) == MOST_FAULTS + 1:
                    break
        if in_floats and compares_words(columns.output, columns.metrics[0]):
            faults[_WHOLE_NUMBERS] = in_floats
        if faults:
            raise DataError(describe_rows(names[split], faults))

    return read


_FLOAT = re.compile(r"[-+]?\d+\.0")
_WHOLE_NUMBERS = (
    "Every answer is a whole number that ends in .0, which is how pandas writes integers if other values are missing. "
    "Models leave out the .0, so write 1945 instead of 1945.0, or use the output kind 'number'."
)


def _rows(files: Files, name: str, answer: str) -> Iterator[tuple[str, Mapping[str, Any] | DataError]]:
    """Yield (place, row or fault) for each row of a table. The place is `line 3`, or `row 2` for a parquet file."""
    if name.endswith(".parquet"):
        for number, row in enumerate(files.rows(name, ()), 1):
            yield f"row {number:,}", row
    elif name.endswith((".csv", ".tsv")):
        yield from _csv_rows(files.path(name), name, answer)
    else:
        for record in line_records(files.path(name)):
            yield record.position, record.value


def _csv_rows(path: Path, name: str, answer: str) -> Iterator[tuple[str, Mapping[str, Any] | DataError]]:
    """Yield (place, row or fault) for each row of a table whose first line names the columns.

    A row that could be misread or has no answer is replaced with a DataError. Raises DataError for a duplicate column,
    and for text that is not UTF-8.
    """
    separator = "\t" if name.endswith(".tsv") else ","
    with open_text(path, newline="", encoding="utf-8-sig") as file:
        rows = csv_rows(file, separator, sys.maxsize)
        try:
            _, _, header = next(rows, (1, 1, []))
            if repeated := [
                column for column in dict.fromkeys(filter(None, header)) if header.count(column) > 1
            ]:
                raise DataError(
                    f"{name}, line 1: the column {repeated[0]!r} occurs more than once. Give each column its own name."
                )
            for first, last, cells in rows:
                if not cells:
                    continue
                fault = _fault_of_cells(cells, len(header), separator, last)
                row = {column: cell for column, cell in zip(header, cells, strict=False) if column or cell}
                if not fault and not row.get(answer, answer).strip():
                    fault = (
                        f"The column {answer!r} is empty. Fill in the answer. If an empty answer is correct, "
                        "store the rows as JSON Lines."
                    )
                if not fault and _LIST.fullmatch(text := row.get(answer, "").strip()):
                    fault = (
                        f"The column {answer!r} has a list or an object written as text: {text:.40}. Store rows "
                        "with several answers as JSON Lines or parquet, which support lists."
                    )
                yield f"line {first:,}", DataError(fault) if fault else row
        except BrokenCsvError as error:
            yield f"line {error.first:,}", DataError(f"From here on, the file is not valid CSV ({error}).")


_LIST = re.compile(r"\[\s*(?:(['\"]).*\1\s*)?\]|\{\s*(['\"])\w+\2\s*:.*\}", re.DOTALL)
"""Matches a list of strings or an object, as pandas and `datasets` write it into a CSV cell."""


def _fault_of_cells(cells: Sequence[str], columns: int, separator: str, last: int) -> str:
    if len(cells) != columns:
        return (
            f"The row must have {columns} cells, like the header, but has {len(cells)}. Put cells that "
            "contain the separator, a quotation mark or a line break in quotation marks."
        )
    if rows_in_quotes(cells, separator):
        return (
            f"A quotation mark opens a cell that continues to line {last:,} and contains text that looks like rows. If "
            "the mark is part of the text, put the cell in quotation marks, and double the marks inside it."
        )
    return ""
