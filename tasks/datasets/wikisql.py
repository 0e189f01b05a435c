"""WikiSQL: semantic parsing of English into a query over a single table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import Record, line_records
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, PromptTemplate, fixed

_QUESTION = "What is the translation from English to SQL?"
_ARCHIVE = "data.tar.bz2"
_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}
_AGGREGATES = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
_CONDITION = ("column", "operator", "value")
_OPERATORS = ("=", ">", "<", "OP")
_SYMBOLS = (
    *("SELECT", "WHERE", "AND", "COL", "TABLE", "CAPTION", "PAGE", "SECTION", "OP", "COND"),
    *("QUESTION", "AGG", "AGGOPS", "CONDOPS"),
)
_KEY_WORDS = ", ".join((*_AGGREGATES[1:], *_OPERATORS, *_SYMBOLS))
_BEFORE_QUESTION = f" and key words {_KEY_WORDS}-- "


def _text(sql: Record, header: list[str]) -> str:
    """Write a query as decaNLP does, using upstream's header and values, with whitespace collapsed."""
    last = len(header) - 1
    aggregate, column = sql.integer("agg", 0, len(_AGGREGATES) - 1), sql.integer("sel", 0, last)
    words = ["SELECT", _AGGREGATES[aggregate], header[column], "FROM table"]
    for number, condition in enumerate(sql.field("conds", list)):
        fields = replace(sql, value=dict(zip(_CONDITION, condition, strict=True)))
        operator = _OPERATORS[fields.integer("operator", 0, len(_OPERATORS) - 1)]
        value = condition[2] if isinstance(condition[2], int | float) else fields.text("value")
        name = header[fields.integer("column", 0, last)]
        words.append(f"{'AND' if number else 'WHERE'} {name} {operator} {value}")
    return " ".join(" ".join(words).split())


def _example(split: str, index: int, entry: Record, table: Record) -> Example:
    header = table.texts("header")
    context = f"The table has columns {', '.join(header)}{_BEFORE_QUESTION}{entry.text('question')}"
    sql = replace(entry, value=entry.field("sql", dict))
    meta = {"sql": sql.value, "header": header, "types": table.value.get("types", [])}
    if table.value.get("rows"):
        meta["rows"] = table.field("rows", list)
    id = f"wikisql.{split}.{index}"
    return Example(id, _QUESTION, context, (_text(sql, header),), (entry.text("table_id"),), meta)


def _as_asked(example: Example, earlier: Sequence[Example]) -> str:
    """Reorder a query's conditions to follow the order of their values in the question.

    In validation, 79.6 % of the queries with several conditions already have this order. Some copies
    of the data sort the conditions of the train split by column, so models trained on them learn that
    order. Each value is searched for as a whole word first, and then as part of a word. Values that are not
    found come last. The order may be wrong if a value occurs twice, as in 4 % of those queries, or
    inside another value.
    """
    question = example.context.partition(_BEFORE_QUESTION)[2].lower()
    sql = example.meta["sql"]

    def place(condition: list[Any]) -> int:
        value = str(condition[2]).lower()
        word = re.search(rf"(?<!\w){re.escape(value)}(?!\w)", question)
        at = word.start() if word else question.find(value)
        return len(question) if at < 0 else at

    ordered = {**sql, "conds": sorted(sql["conds"], key=place)}
    return _text(Record(ordered, example.id, "query"), list(example.meta["header"]))


def _read(files: Files, split: str) -> Iterator[Example]:
    name, tables = _UPSTREAM[split], dict[str, Record]()
    for table in line_records(files.path(f"{name}.tables.jsonl")):
        if split == "train" and isinstance(table.value, dict):
            table.value.pop("rows", None)  # large, and only needed for execution accuracy in evaluation
        tables[table.text("id")] = table
    for index, entry in enumerate(line_records(files.path(f"{name}.jsonl"))):
        if (id := entry.text("table_id")) not in tables:
            raise entry.fault(f"{name}.tables.jsonl has no table {id[:60]!r}")
        yield _example(split, index, entry, tables[id])


_COMMIT = "7857cfd8aefcc9823245c370f9e39ecd55745ea6"
_DATA = RemoteFile(
    _ARCHIVE,
    (f"https://github.com/salesforce/WikiSQL/raw/{_COMMIT}/data.tar.bz2",),
    "755c728ab188e364575705c8641f3fafd86fb089cb8b08e8c03f01832aae0881",
    26_164_664,
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
    secondary=("nf1", "lfem_normalised"),
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
    version=2,
    notes=(
        "Whitespace in queries (including U+2003 and U+2009) is collapsed to single spaces, as in decaNLP 2018. This "
        "affects three answers in train and three in test. Three gold queries of the test set can't be parsed back to "
        "their logical form, so the gold answers score 99.98."
    ),
    unit_names=("table",),
    prompt=_PROMPT,
    variants=_VARIANTS,
    target_forms={"as-asked": _as_asked},
    curriculum="easy",
)
