from __future__ import annotations

from pathlib import Path

import pytest

from decabench.errors import DataError, DecabenchError
from decabench.tables import TomlTable, read_toml
from decabench.untrusted import parse_toml

TABLE = """
text = "a"
empty = ""
yes = true
one = 1
half = 0.5
list = ["a", "b"]
inner = { text = 3 }
[[many]]
text = "b"
"""


def table() -> TomlTable:
    return TomlTable(parse_toml(TABLE))


def test_faults_are_collected() -> None:
    found = table()
    assert (found.string("one", "x"), found.flag("text"), found.positive("half", 3)) == ("x", False, 3)
    assert (found.positive("yes", 3), found.number("yes", 4), found.strings("text", ())) == (3, 4.0, ())
    assert (found.choice("text", ("b", "c"), "c"), found.choice("one", ("b",), "b")) == ("c", "b")
    found.table("inner").string("text")
    found.table("text", "[other]")
    found.tables("inner")
    found.string("empty")
    found.string("none")
    found.positive("none")
    assert found.faults == [
        "'one' must be a string, not 1.",
        "'text' must be true or false, not \"a\".",
        "'half' must be a whole number above 0, not 0.5.",
        "'yes' must be a whole number above 0, not true.",
        "'yes' must be a number, not true.",
        "'text' must be a list of strings, not \"a\".",
        "There is no text 'a'. Known: b, c.",
        "'one' must be a string, not 1.",
        "[inner]: 'text' must be a string, not 3.",
        "'text' must be a table, not \"a\".",
        "'inner' must be a list of tables ([[inner]]), not {\"text\": 3}.",
        "'empty' must be a non-empty string.",
        "'none' is missing; expected a string.",
        "'none' is missing; expected a whole number above 0.",
    ]


def test_unknown_keys_have_near_matches() -> None:
    found = TomlTable({"titel": "x", "colour": "red"}, "[inner]")
    found.refuse_unknown(("title", "name"))
    assert found.faults == [
        "[inner]: There is no key 'titel'. Did you mean title? Known: title, name.",
        "[inner]: There is no key 'colour'. Known: title, name.",
    ]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with pytest.raises(DataError, match=r"There is no file .*a\.toml"):
        read_toml(path)
    path.write_bytes(b'a = "\xff"')
    with pytest.raises(
        DataError, match=r"a\.toml is not valid TOML \(line 1 is not UTF-8; save the file as UTF-8\)"
    ):
        read_toml(path)
    path.write_text("a = ", encoding="utf-8")
    with pytest.raises(DecabenchError, match=r"a\.toml is not valid TOML"):
        read_toml(path, DecabenchError)
    with pytest.raises(DataError, match="can't be read"):
        read_toml(tmp_path)
    path.write_text("a = 1", encoding="utf-8")
    assert read_toml(path) == {"a": 1}
    for text in ("a = " + "[" * 2000, ".".join("a" * 40) + " = 1", "a = 1e999", "a = " + "1" * 10_000):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match="is not valid TOML"):
            read_toml(path)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_numbers_are_finite(value: str) -> None:
    found = TomlTable(parse_toml(f"half = {value}"))
    found.number("half")
    with pytest.raises(DataError, match="half"):
        found.raise_faults("here")
