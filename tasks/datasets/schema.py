"""MWSC, decaNLP's Modified Winograd Schema Challenge: pronoun resolution."""

from __future__ import annotations

import re
from collections.abc import Iterator

from decabench.errors import DataError
from decabench.tasks.example import Example
from decabench.tasks.outputs import Label
from decabench.tasks.readers import Record, github_raw, hub_source, line_blocks, parquet_records
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import labelled_prompt, matched

_FILE = "schema.txt"
_COMMIT = "043ab56c592762517f7f14476d21cd6444d0de5c"
_HUB = ("coref-data/mwsc_raw", "b6cddd65554c3eb37c5465471f0d5b9a2737ed00")
_ALTERNATIVES = re.compile(r"\[([^\]/]*)/([^\]]*)\]")
_EXAMPLES = 262
_SLICES = {"train": slice(0, 80), "validation": slice(80, -100), "test": slice(-100, None)}
_PARQUET = {split: f"data/{split}-00000-of-00001.parquet" for split in _SLICES}


def _resolve(text: str, choice: int) -> str:
    return _ALTERNATIVES.sub(lambda match: match.group(choice + 1), text)


def _triples(block: list[Record]) -> Iterator[tuple[str, str, str]]:
    """Yield the two (question, context, answer) triples of a schema, given its lines."""
    if len(block) != 3:
        raise block[0].fault(f"a schema must have three lines, not {len(block)}")
    context, question, options = (line.value.strip() for line in block)
    answers = [option.strip() for option in options.split("/")]
    if len(answers) != 2 or not all(answers):
        raise block[2].fault("the line must have two answers separated by '/'")
    if not _ALTERNATIVES.search(context + question):
        raise block[0].fault(
            "neither the sentence nor the question has two alternatives separated by '/', as in [x/y]"
        )
    for choice in (0, 1):
        asked = f"{_resolve(question, choice)} {answers[0]} or {answers[1]}?"
        yield asked, _resolve(context, choice), answers[choice]


def _read_text(files: Files, split: str) -> Iterator[Example]:
    # The file's last block is left out, because no empty line follows it. decaNLP's reader of 2018 does the same, and
    # including the block would shift the splits.
    blocks = enumerate(line_blocks(files.path(_FILE), closed=True))
    numbered = [(number, triple) for number, block in blocks for triple in _triples(block)]
    if len(numbered) != _EXAMPLES:  # the splits are counted from both ends of the file
        raise DataError(
            f"{_FILE} has {len(numbered)} complete examples, but the published file has {_EXAMPLES}. With a different "
            "number, examples would end up in the wrong splits. Download the file again."
        )
    for index, (number, (question, context, answer)) in enumerate(numbered[_SLICES[split]]):
        yield Example(f"schema.{split}.{index}", question, context, (answer,), (f"schema.{number}",))


def _read_parquet(files: Files, split: str) -> Iterator[Example]:
    start = {"train": 0, "validation": 80, "test": 162}[split]
    columns = ("sentence", "question", "options", "answer")
    for index, row in enumerate(parquet_records(files, _PARQUET[split], columns)):
        options = row.texts("options")
        if len(options) != 2:
            raise row.fault(f"'options' must have two entries, not {len(options)}")
        question = f"{row.text('question')} {options[0]} or {options[1]}?"
        units = (f"schema.{(start + index) // 2}",)
        yield Example(f"schema.{split}.{index}", question, row.text("sentence"), (row.text("answer"),), units)


_TEXT = RemoteFile(
    _FILE,
    (github_raw("salesforce/decaNLP", _COMMIT, f"local_data/{_FILE}"),),
    "31da9bee05796bbe0f6c957f54d1eb82eb5c644a8ee59f2ff1fa890eff3885dd",
    19_197,
)

_FORM = r"(?P<question>.*\?|[^?]*) (?P<first>.+) or (?P<second>.+)\?"
_PROMPT = labelled_prompt(
    "Sentence",
    instruction=(
        "Read the sentence and resolve what the question asks about. Answer with exactly one of the two alternatives "
        "that the question names at its end, written as it is there, and nothing else."
    ),
)

_VARIANTS = (
    matched("order-swapped", _FORM, "{question} {second} or {first}?"),
    matched("options-first", _FORM, "{first} or {second}: {question} {first} or {second}?"),
    matched("according", _FORM, "According to the text: {question} {first} or {second}?"),
)

SCHEMA = Task(
    name="schema",
    title="Pronoun resolution",
    dataset="MWSC",
    output=Label(),
    metric="em",
    counts={"train": 80, "validation": 82, "test": 100},
    sources=(
        Source("upstream text", dict.fromkeys(_SLICES, (_TEXT,)), _read_text),
        hub_source(*_HUB, _PARQUET, _read_parquet),
    ),
    licence="BSD-3-Clause (repository), CC BY 4.0 (dataset card)",
    citation="McCann et al. 2018, The Natural Language Decathlon; after Levesque et al. 2011",
    homepage="https://github.com/salesforce/decaNLP",
    notes=(
        "The file's last block is left out, as in decaNLP's reader of 2018. Eight test rows differ from its rows. "
        "Rows 42 and 43 have two pairs of alternatives on a line: both are resolved here, but the 2018 reader left "
        "`education] had been [taken` in the text. In rows 46, 47, 50, 51, 70 and 71, the 2018 reader kept the space "
        "after the slash in `Joe/ detective`, which is removed here."
    ),
    question_varies=True,
    unit_names=("schema",),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="easy",
)
