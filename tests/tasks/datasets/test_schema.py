"""MWSC: two examples a schema, the last block left out, the splits of 2018."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.schema import SCHEMA
from decabench.tasks.example import Example
from decabench.tasks.task import Task
from tests.tasks.fixtures import FolderFiles, read_form, triples, write_lines, write_parquet

BLOCKS = 132


def block(number: int) -> list[str]:
    return [f"S{number} is [big/small]. ", f"Who is [big/small] {number}? ", f"yes{number}/no{number}"]


def write_schemas(files: FolderFiles, blocks: int = BLOCKS) -> None:
    """As upstream has it: no empty line after the last block."""
    lines = [line for number in range(blocks) for line in ("", *block(number))]
    write_lines(files.folder / "schema.txt", lines[1:])


def read(files: FolderFiles, split: str) -> list[Example]:
    return read_form(SCHEMA, "upstream text", split, files)


@pytest.mark.parametrize(
    ("split", "rows", "first"),
    [
        (
            "train",
            80,
            (
                "Who feared violence? councilmen or demonstrators?",
                "The city councilmen refused the demonstrators a permit because they feared violence.",
                ("councilmen",),
            ),
        ),
        (
            "validation",
            82,
            (
                "Who is hurt? Bob or Charlie?",
                "Bob paid for Charlie's college education, but now Charlie acts as though it never happened. "
                "He is very hurt.",
                ("Bob",),
            ),
        ),
        (
            "test",
            100,
            (
                "Who was twelve years old? Fred or father?",
                "Fred is the only man alive who still remembers my father as an infant. "
                "When Fred first saw my father, he was twelve years old.",
                ("Fred",),
            ),
        ),
    ],
)
def test_sample_is_whole(
    sample: Callable[[Task, str], list[Example]],
    split: str,
    rows: int,
    first: tuple[str, str, tuple[str, ...]],
) -> None:
    examples = sample(SCHEMA, split)
    assert [example.id for example in examples] == [f"schema.{split}.{index}" for index in range(rows)]
    assert triples(examples)[0] == first
    assert not any(set("[]/") & set(example.question) for example in examples)


def test_a_schema_makes_two_examples(files: FolderFiles) -> None:
    write_schemas(files)
    assert triples(read(files, "train"))[:3] == [
        ("Who is big 0? yes0 or no0?", "S0 is big.", ("yes0",)),
        ("Who is small 0? yes0 or no0?", "S0 is small.", ("no0",)),
        ("Who is big 1? yes1 or no1?", "S1 is big.", ("yes1",)),
    ]


def test_splits_and_groups(files: FolderFiles) -> None:
    write_schemas(files)
    groups = {split: [example.units[0] for example in read(files, split)] for split in SCHEMA.counts}
    assert {split: len(names) for split, names in groups.items()} == dict(SCHEMA.counts)
    pairs = [f"schema.{number}" for number in range(BLOCKS - 1) for _ in (0, 1)]  # the 132nd is unclosed
    assert [*groups["train"], *groups["validation"], *groups["test"]] == pairs


def test_two_alternatives_in_a_line(files: FolderFiles) -> None:
    text = ["Her [place/education] had been [taken/managed].", "Whose [place/education]?", "Emma/mother"]
    others = [line for number in range(BLOCKS - 2) for line in (*block(number), "")]
    write_lines(files.folder / "schema.txt", [*others, *text, ""])
    *_, first, second = triples(read(files, "test"))
    assert first == ("Whose place? Emma or mother?", "Her place had been taken.", ("Emma",))
    assert second == ("Whose education? Emma or mother?", "Her education had been managed.", ("mother",))


def test_parquet_is_like_the_text(files: FolderFiles) -> None:
    write_schemas(files)
    examples = [(split, example) for split in SCHEMA.counts for example in read(files, split)]
    for split in SCHEMA.counts:
        rows = []
        for of, example in examples:
            if of == split:
                question, _, options = example.question.partition("? ")
                row = {"sentence": example.context, "question": f"{question}?", "answer": example.answers[0]}
                rows.append({**row, "options": options.rstrip("?").split(" or ")})
        write_parquet(files.folder / "data" / f"{split}-00000-of-00001.parquet", rows)
        assert read_form(SCHEMA, "hub parquet", split, files) == read(files, split)


@pytest.mark.parametrize("lines", [["one", "two"], ["one", "two", "a/b", "four"]], ids=["two", "four"])
def test_a_block_of_another_length(files: FolderFiles, lines: list[str]) -> None:
    write_lines(files.folder / "schema.txt", [*lines, ""])
    with pytest.raises(DataError, match=f"three lines, not {len(lines)}"):
        read(files, "train")


@pytest.mark.parametrize("blocks", [1, BLOCKS - 1, BLOCKS + 1])
def test_a_file_with_other_schemas_is_refused(files: FolderFiles, blocks: int) -> None:
    """The splits are counted from both ends: one block more or less would move examples between them."""
    write_schemas(files, blocks)
    with pytest.raises(
        DataError, match=f"schema.txt has {2 * (blocks - 1)} examples in closed blocks, not 262"
    ):
        read(files, "test")


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [(3, "yes no", "two answers with /"), (3, "yes/", "two answers with /"), (1, "none", "two alternatives")],
)
def test_a_faulty_schema_is_named(files: FolderFiles, line: int, text: str, reason: str) -> None:
    write_schemas(files)
    lines = (files.folder / "schema.txt").read_text().splitlines()
    lines[39 + line] = text
    if line == 1:
        lines[41] = "Who?"
    write_lines(files.folder / "schema.txt", lines)
    with pytest.raises(DataError, match=rf"^schema\.txt, line {40 + line}: .*{reason}"):
        read(files, "test")
