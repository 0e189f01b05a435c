from __future__ import annotations

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.schema import SCHEMA
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, triples, write_lines, write_parquet

BLOCKS = 132


def block(number: int) -> list[str]:
    return [f"S{number} is [big/small]. ", f"Who is [big/small] {number}? ", f"yes{number}/no{number}"]


def write_schemas(files: FolderFiles, blocks: int = BLOCKS) -> None:
    """Write schemas like upstream, without an empty line after the last block."""
    lines = [line for number in range(blocks) for line in ("", *block(number))]
    write_lines(files.folder / "schema.txt", lines[1:])


def read(files: FolderFiles, split: str) -> list[Example]:
    return read_form(SCHEMA, "upstream text", split, files)


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
    write_schemas(files, blocks)
    with pytest.raises(DataError, match=f"schema.txt has {2 * (blocks - 1)} complete examples, .* 262"):
        read(files, "test")
