"""WikiSQL: semantic parsing of English into a query over one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from decabench.errors import DataError
from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import stream_lines
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, PromptTemplate, fixed

__all__ = ["WIKISQL"]

_QUESTION = "What is the translation from English to SQL?"
_ARCHIVE = "data.tar.bz2"
_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}
_AGGREGATES = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
_OPERATORS = ("=", ">", "<", "OP")
_SYMBOLS = (
    *("SELECT", "WHERE", "AND", "COL", "TABLE", "CAPTION", "PAGE", "SECTION", "OP", "COND"),
    *("QUESTION", "AGG", "AGGOPS", "CONDOPS"),
)
_KEY_WORDS = ", ".join((*_AGGREGATES[1:], *_OPERATORS, *_SYMBOLS))

Table = Mapping[str, Any]


def _text(sql: Mapping[str, Any], header: list[str]) -> str:
    """Write a query as decaNLP does: words of the header and values of conditions as upstream has them."""
    select = ["SELECT", _AGGREGATES[sql["agg"]], header[sql["sel"]], "FROM table"]
    query = " ".join(word for word in select if word)
    conditions = [f"{header[column]} {_OPERATORS[op]} {value}" for column, op, value in sql["conds"]]
    return f"{query} WHERE {' AND '.join(conditions)}" if conditions else query


def _example(split: str, index: int, entry: Mapping[str, Any], table: Table) -> Example:
    header = table["header"]
    context = f"The table has columns {', '.join(header)} and key words {_KEY_WORDS}-- {entry['question']}"
    meta = {"sql": entry["sql"], "header": header, "types": table.get("types", [])}
    if table.get("rows") and split != "train":  # execution accuracy is for evaluation; rows are large
        meta["rows"] = table["rows"]
    id = f"wikisql.{split}.{index}"
    return Example(id, _QUESTION, context, (_text(entry["sql"], header),), (entry["table_id"],), meta)


@contextmanager
def _tables(path: Path) -> Iterator[Callable[[str], Table]]:
    """Find tables by id, read from disk when asked for: only their offsets are kept in memory."""
    offsets: dict[str, int] = {}
    with path.open("rb") as file:
        while line := file.readline():
            offsets[json.loads(line)["id"]] = file.tell() - len(line)
        latest: tuple[str, Table] = ("", {})

        def find(id: str) -> Table:
            nonlocal latest
            if id != latest[0]:  # questions about one table follow each other
                if id not in offsets:
                    raise DataError(f"{path.name} has no table {id!r}, which a question names.")
                file.seek(offsets[id])
                latest = (id, json.loads(file.readline()))
            return latest[1]

        yield find


def _read(files: Files, split: str) -> Iterator[Example]:
    name = _UPSTREAM[split]
    with _tables(files.member(_ARCHIVE, f"data/{name}.tables.jsonl")) as table:
        for index, entry in enumerate(stream_lines(files.member(_ARCHIVE, f"data/{name}.jsonl"))):
            yield _example(split, index, entry, table(entry["table_id"]))


_COMMIT = "7857cfd8aefcc9823245c370f9e39ecd55745ea6"
_DATA = RemoteFile(
    _ARCHIVE,
    (f"https://github.com/salesforce/WikiSQL/raw/{_COMMIT}/data.tar.bz2",),
    "755c728ab188e364575705c8641f3fafd86fb089cb8b08e8c03f01832aae0881",
    26_164_664,
    git_blob="941de4cb2ad5fa7aeb2e37d314468636ce070af7",
)

_PROMPT = PromptTemplate(
    instruction=(
        "You are given the columns of a table and, after --, a question about it. Answer with one query on one line, "
        "in this form: SELECT column FROM table WHERE column = value AND column > value\n"
        "The table is called table. Write the names of columns as they are given, without quotation marks, and "
        "values as they stand in the question, without quotation marks. An aggregate stands before the column, "
        "without parentheses, and is one of MAX, MIN, COUNT, SUM, AVG: SELECT COUNT column FROM table. Conditions "
        "use =, > or < and are joined by AND; where there is none, leave WHERE out. Give only the query."
    ),
    input="{context}\n\n{question}",
    answer="SQL:",
    stop=("\n\n", "\nThe table has columns"),
    form=AnswerForm("sql", unquote=True),
)

_VARIANTS = (
    fixed("translate", _QUESTION, "Translate from English to SQL"),
    fixed("which-query", _QUESTION, "Which SQL query answers the question?"),
    fixed("write", _QUESTION, "Write the question as a SQL query"),
)

WIKISQL = Task(
    name="wikisql",
    title="Semantic parsing",
    dataset="WikiSQL",
    output=Text(max_tokens=160),
    metric="lfem",
    gold_score="lfem_corrected",
    counts={"train": 56_355, "validation": 8_421, "test": 15_878},
    sources=(
        Source(
            "upstream archive",
            dict.fromkeys(_UPSTREAM, (_DATA,)),
            _read,
            members=tuple(
                f"data/{name}{suffix}"
                for name in _UPSTREAM.values()
                for suffix in (".jsonl", ".tables.jsonl")
            ),
        ),
    ),
    licence="BSD-3-Clause",
    citation="Zhong et al. 2017, Seq2SQL: Generating Structured Queries from Natural Language",
    homepage="https://github.com/salesforce/WikiSQL",
    notes="Three gold queries of the test set cannot be parsed back to their logical form, so gold scores 99.98.",
    unit_names=("table",),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="easy",
)
