from __future__ import annotations

import csv
import io
import time
import tomllib
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decabench.untrusted import (
    DEPTH,
    KEY_PARTS,
    TOML_LIMIT,
    BrokenCsvError,
    csv_rows,
    parse_json,
    parse_toml,
    read_batches,
    read_json,
    read_text,
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' occurs more than once in an object"),
        ("[NaN]", "NaN is not valid JSON"),
        ("[-Infinity]", "-Infinity is not valid JSON"),
        ("[1", "a comma or a closing bracket is missing at column 3"),
        ("{\n1}", "a key in double quotes is missing at line 2, column 1"),
        ("[" * 100_000, "its brackets are nested too deeply"),
        ("[" * 100 + "]" * 100, "its brackets are nested too deeply"),
        ('{"a":' * 100 + "1" + "}" * 100, "its brackets are nested too deeply"),
        ("[1e400]", "the number 1e400 is too large or too long"),
        ("[-1e400]", "the number -1e400 is too large or too long"),
        ("[0." + "1" * 1000 + "]", "the number 0.111111111111111111… is too large or too long"),
        ("1" * 10_000, "it has a number with 10,000 digits, but at most 250 are allowed"),
        (r'["\ud800"]', r"it has half of a surrogate pair (\ud800), which is not a character"),
        (r'{"a": {"\uDFFF": 1}}', r"it has half of a surrogate pair (\udfff), which is not a character"),
        ('["\ud800"]', r"it has half of a surrogate pair (\ud800), which is not a character"),
        ("", "there is no valid JSON value at column 1"),
        ("\0", "there is no valid JSON value at column 1"),
    ],
)
def test_json_that_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_json(text)
    assert str(caught.value) == reason


def test_json_that_is_read() -> None:
    nested = "[" * DEPTH + "]" * DEPTH
    assert str(parse_json(nested)) == nested
    assert parse_json("[" + "[]," * 500 + "[]]") == [[]] * 501
    assert parse_json(r'["\ud83d\ude00"]') == ["\U0001f600"]
    assert parse_json(r'["\ud800"]', surrogates=True) == ["\ud800"]
    assert parse_json("[1e300, 12345678901234567890]") == [1e300, 12345678901234567890]


def test_a_line_of_many_keys_is_quick() -> None:
    keys = ",".join(f'"k{number}":0' for number in range(90_000))
    start = time.process_time()
    assert len(parse_json(f"{{{keys}}}")) == 90_000
    with pytest.raises(ValueError, match="'k0' occurs more than once"):
        parse_json(f'{{{keys},"k0":1}}')
    assert time.process_time() - start < 1


def dotted(parts: int) -> str:
    return ".".join(["a"] * parts) + " = 1\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (dotted(KEY_PARTS + 1), f"line 1 has a key with more than {KEY_PARTS} parts"),
        ("x = 1\n[" + " . ".join(['"b.c"'] * 40) + "]", f"line 2 has a key with more than {KEY_PARTS} parts"),
        ("x = {" + ".".join(["'a'"] * 40) + " = 1}", f"line 1 has a key with more than {KEY_PARTS} parts"),
        ("x = " + "[" * 2000 + "]" * 2000, "its brackets are nested too deeply on line 1"),
        ("x = " + "{a = " * 70 + "1" + "}" * 70, "its brackets are nested too deeply on line 1"),
        ("[" * 2000, "its brackets are nested too deeply on line 1"),
        ("x = " + "{a.b.c.d = " * 30 + "1" + "}" * 30, "its brackets are nested too deeply"),
        ("x = " + "1" * 10_000, "line 1 has a bare key or number with more than 250 characters"),
        ("x = 0x" + "f" * 10_000, "line 1 has a bare key or number with more than 250 characters"),
        ("x = 1e400", "the number 1e400 is too large or too long"),
        ("#" * TOML_LIMIT + "x", f"it is longer than {TOML_LIMIT:,} characters"),
    ],
)
def test_toml_that_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_toml(text)
    assert str(caught.value) == reason


def test_toml_of_a_string_without_an_end_is_refused_in_linear_time() -> None:
    with pytest.raises(ValueError, match="unterminated string"):
        parse_toml('x = """' + r"\"" * 120_000)  # six minutes before


@pytest.mark.parametrize(
    "text",
    [
        dotted(KEY_PARTS),
        'x = "' + "a.b" * 100 + '"',
        "x = '" + "[a.b" * 100 + "'",
        'x = """' + 'a.b"\n""[[' * 100 + '"""""',
        "x = '''" + "a.b'\n''[[" * 100 + "'''''",
        "# " + "a.b[" * 1000 + "\nx = 1",
        'x = "' + r"\"" * 500 + '"',
        '"' + "a" * 1000 + '" = 1',
        "x = inf\ny = -nan\nz = 1979-05-27 07:32:00.999999",
        "x = [" + "[]," * 1000 + "]",
        " " * 1000 + "x = 1" + " " * 1000,
        "x = '" + "a" * 2000 + "'",
        "\n" * 100_000,
        r'x = "\u0000"',
    ],
)
def test_toml_that_is_read(text: str) -> None:
    assert repr(parse_toml(text)) == repr(tomllib.loads(text))


@given(st.text(alphabet="\"'\\#.,=[]{}\na1 ", max_size=40))
def test_the_look_ahead_never_changes_what_short_toml_means(text: str) -> None:
    try:
        expected: Any = tomllib.loads(text)
    except ValueError:
        with pytest.raises(ValueError):
            parse_toml(text)
    else:
        assert parse_toml(text) == expected


SIZE = TOML_LIMIT
LARGE = {
    "parts": ".".join(["a"] * (SIZE // 2)) + "=1",
    "headers": "".join("[" + ".".join(f"{n:x}" for _ in range(32)) + "]\n" for n in range(16, SIZE // 97)),
    "empty": "\n" * SIZE,
    "arrays": "x=[" + "[]," * (SIZE // 3 - 2) + "]",
    "tables": "x=[" + "{}," * (SIZE // 3 - 2) + "]",
    "keys": "".join(f"{n:x}=1\n" for n in range(SIZE // 8)),
    "lists": "[[a]]\n" * (SIZE // 6),
    "quotes": 'x="' + "\\" * (SIZE - 10),
    "open": '"""' + '""a' * (SIZE // 3 - 2),
}


@pytest.mark.parametrize("name", LARGE)
def test_no_toml_takes_long_or_much(name: str) -> None:
    start = time.process_time()
    with suppress(ValueError):
        parse_toml(LARGE[name])
    assert time.process_time() - start < 5
    tracemalloc.start()
    with suppress(ValueError):
        parse_toml(LARGE[name])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 << 20


def test_rows_of_csv_have_their_lines() -> None:
    text = io.StringIO('a,b\n"1\n2",3\n\n4,5\n"x"y,6\n', newline="")
    rows = csv_rows(text)
    assert [next(rows) for _ in range(4)] == [
        (1, 1, ["a", "b"]),
        (2, 3, ["1\n2", "3"]),
        (4, 4, []),
        (5, 5, ["4", "5"]),
    ]
    with pytest.raises(BrokenCsvError, match="expected after") as caught:
        next(rows)
    assert (caught.value.first, caught.value.last) == (6, 6)
    with pytest.raises(BrokenCsvError, match="unexpected end") as caught:
        list(csv_rows(io.StringIO('a\n"b\nc\n', newline="")))
    assert (caught.value.first, caught.value.last) == (2, 3)
    assert list(csv_rows(io.StringIO(""))) == []


def test_the_limit_of_cells_is_that_of_one_reader() -> None:
    before = csv.field_size_limit()
    short, long = (csv_rows(io.StringIO("12345\n1234567\n"), cell_limit=most) for most in (6, 7))
    assert next(short) == next(long) == (1, 1, ["12345"])
    assert csv.field_size_limit() == before
    assert next(long) == (2, 2, ["1234567"])
    with pytest.raises(BrokenCsvError, match="larger than field limit"):
        next(short)
    assert csv.field_size_limit() == before


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xef\xbb\xbfx = 1\n")
    assert read_text(path, 10) == "x = 1\n"
    path.write_bytes(b'\xef\xbb\xbf{"format": "a/1"}')
    assert read_json(path, format="a/1") == {"format": "a/1"}
    with pytest.raises(ValueError, match="its format is 'a/1', not 'b/1'"):
        read_json(path, format="b/1")
    path.write_bytes(b"[1]")
    with pytest.raises(ValueError, match="not a JSON object"):
        read_json(path)
    path.write_bytes(b"a\n\xff")
    with pytest.raises(ValueError, match="line 2 is not UTF-8"):
        read_text(path, 10)
    with pytest.raises(ValueError, match="larger than 2 bytes"):
        read_text(path, 2)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none")


KINDS = {"id": "string", "answers": "list of strings"}


def write_table(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path)


def test_batches(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    write_table(path, id=["a", "b"], answers=[["x"], ["y", "z"]], more=[1, 2])
    assert [batch.to_pylist() for batch in read_batches(path, KINDS, 1)] == [
        [{"id": "a", "answers": ["x"]}],
        [{"id": "b", "answers": ["y", "z"]}],
    ]
    with pytest.raises(FileNotFoundError):
        list(read_batches(tmp_path / "none", KINDS))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"answers": [["x"]]}, "it has no column 'id'; its columns are 'answers'"),
        ({"id": [1], "answers": [["x"]]}, "its column 'id' has the type int64, not string"),
        ({"id": ["a"], "answers": ["x"]}, "its column 'answers' has the type string, not list of strings"),
        ({"id": ["a", None], "answers": [["x"], ["x"]]}, "its column 'id' has a row without a value"),
        ({"id": ["a"], "answers": [["x", None]]}, "its column 'answers' has a row without a value"),
        (
            {"id": pa.array([b"\xff"]).view(pa.string()), "answers": [["x"]]},
            "it is not a complete parquet file",
        ),
    ],
)
def test_batches_that_are_refused(tmp_path: Path, columns: Any, reason: str) -> None:
    path = tmp_path / "file.parquet"
    write_table(path, **columns)
    with pytest.raises(ValueError) as caught:
        list(read_batches(path, KINDS))
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\0" * 100 + b"PAR1", b"\xff" * 1000])
def test_files_that_are_not_parquet_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match="not a complete parquet file"):
        list(read_batches(tmp_path / "file", KINDS))
