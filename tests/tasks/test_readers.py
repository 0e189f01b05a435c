from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError
from decabench.tasks.readers import column_blocks, json_records, line_records, one_token


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_items_keep_pythons_types(tmp_path: Path) -> None:
    items: list[Any] = [1, 2.5, 10**15, "ü\u2028", None, True, {"a": [1]}]
    path = write(
        tmp_path / "a.json", '{"data": [1, 2.5, 1000000000000000, "\\u00fc\\u2028", null, true, {"a": [1]}]}'
    )
    found = [record.value for record in json_records(path, "data.item", "item")]
    assert found == items
    assert [type(item) for item in found] == [type(item) for item in items]


@pytest.mark.parametrize(
    "content",
    ['{"data": [1, 2', '{"data": [1, 2]', "", "<html>", b'{"data": ["\xff"]}', '{"data": [1]} {'],
    ids=["cut", "unclosed", "empty", "not JSON", "not UTF-8", "more behind it"],
)
def test_damaged_json_is_one_sentence(tmp_path: Path, content: str | bytes) -> None:
    path = write(tmp_path / "a.json", content)
    with pytest.raises(DataError, match=r"^a\.json is not valid JSON .*--force\.$"):
        list(json_records(path, "data.item", "item"))


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"a": 1}\n\n{"a": \n')
    with pytest.raises(DataError, match=r"^a\.jsonl, line 3, is not JSON"):
        list(line_records(path))


def blocks(path: Path, **options: Any) -> list[list[list[str]]]:
    return [[record.value for record in block] for block in column_blocks(path, 2, " ", **options)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "{e}", "{e}{e}", "{e} {e}"])
def test_blocks_between_empty_lines(tmp_path: Path, end: str, last: str) -> None:
    text = "{e}a 1{e}\u2028 2{e}{e} {e}b 3" + last
    path = write(tmp_path / "a.txt", text.replace("{e}", end))
    assert blocks(path) == [[["a", "1"], ["\u2028", "2"]], [["b", "3"]]]


@pytest.mark.parametrize("cell", ["", "a b", "a\u00a0b", "\u2028"])
def test_a_cell_that_is_no_word(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path / "a.txt", f"{cell}~1\n")
    ((record,),) = column_blocks(path, 2, "~")
    with pytest.raises(DataError, match=r"line 1: column 1 must be a single word"):
        one_token(record, 0)
