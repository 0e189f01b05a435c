from __future__ import annotations

import json
import os
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from decabench import plugins
from decabench.errors import DecabenchError, UnknownNameError
from decabench.plugins import load_entry_point, load_file, load_named, load_object, plugin_names
from tests.tasks.fixtures import write_lines


def test_load_object() -> None:
    assert load_object("os.path:sep") == os.path.sep
    assert load_object("pathlib:Path.home") == Path.home


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("os.path", "package.module:object"),
        (":sep", "does not refer to an object"),
        ("os.path:", "does not refer to an object"),
        ("no_such_module:x", r"'no_such_module:x' can't be imported .* Install the module's package"),
        (
            "os.path:no_such",
            r"os\.path \(.*posixpath\.py\) has no 'no_such'",
        ),
        ("sys:path.no_such", "sys has no 'no_such'"),
    ],
)
def test_references_that_name_nothing(reference: str, sentence: str) -> None:
    with pytest.raises(UnknownNameError, match=sentence):
        load_object(reference)


def test_load_file(tmp_path: Path) -> None:
    module = load_file(write_lines(tmp_path / "some.py", ["X = 3"]))
    assert module.X == 3


def test_a_file_that_fails_is_no_module(tmp_path: Path) -> None:
    before = set(sys.modules)
    with pytest.raises(UnknownNameError, match=r"bad\.py can't be run \(ValueError: no\)"):
        load_file(write_lines(tmp_path / "bad.py", ["raise ValueError('no')"]))
    assert set(sys.modules) == before


def test_a_file_that_is_not_python(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="is not a Python file"):
        load_file(write_lines(tmp_path / "some.txt", ["X = 3"]))


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "outside-1.0.dist-info"
    write_lines(info / "METADATA", ["Metadata-Version: 2.1", "Name: outside", "Version: 1.0"])
    write_lines(info / "entry_points.txt", ["[some.group]", "sep = os.path:sep", "gone = os.path:gone"])
    monkeypatch.syspath_prepend(tmp_path)
    points = plugin_names("some.group")
    assert sorted(points) == ["gone", "sep"]
    assert load_entry_point(points["sep"]) == "/"
    with pytest.raises(UnknownNameError, match=r"The entry point gone = os\.path:gone can't be loaded"):
        load_entry_point(points["gone"])


@pytest.mark.parametrize("name", ["script", "empty"])
def test_modules_of_the_current_folder_are_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"own_{name}.py").write_text("X = 7\n")
    monkeypatch.chdir(tmp_path)
    entries = [entry for entry in sys.path if entry not in ("", os.getcwd())]
    entries = ["", *entries] if name == "empty" else entries
    monkeypatch.setattr(sys, "path", entries)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert load_object(f"own_{name}:X") == 7
    assert (os.getcwd() == sys.path[-1]) is (name == "script")  # where it hides no installed module
    assert sys.path.count(os.getcwd()) == (0 if name == "empty" else 1)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(:", r"SyntaxError: .*own_broken\.py, line 1"),
        ("x = y", "NameError: name 'y' is not defined"),
        ("raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_a_module_that_fails(code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "own_broken.py", [code])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with pytest.raises(UnknownNameError, match=rf"'own_broken:x' can't be imported, because .* \({said}"):
        load_object("own_broken:x")
    with pytest.raises(UnknownNameError, match="can't be loaded"):
        load_entry_point(EntryPoint("x", "own_broken:x", "some.group"))
    with pytest.raises(UnknownNameError, match="can't be run"):
        load_file(tmp_path / "own_broken.py")


def test_a_file_may_not_choose_what_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brought").mkdir()
    (tmp_path / "brought" / "along.py").write_text("open('ran', 'w').close()\nX = 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    entries = [entry for entry in sys.path if entry not in ("", os.getcwd())]
    monkeypatch.setattr(sys, "path", entries.copy())
    monkeypatch.setattr(plugins, "_named_by_user", set())  # other tests give names too
    monkeypatch.setenv("DECABENCH_MODELS", "another:X, brought.along:Y")
    # the second runs what is in the folder, the third is a module that is loaded
    for reference in ("brought.along:X", "unittest.__main__:main", "json:dumps"):
        with pytest.raises(
            DecabenchError, match=f"The checkpoint c refers to the model {reference}, but a file may"
        ):
            load_named(reference, "The checkpoint c")
    monkeypatch.setenv("DECABENCH_MODELS", "another:X, brought.along:X")
    with pytest.raises(UnknownNameError, match="to PYTHONPATH"):
        load_named("brought.along:X", "The checkpoint c")
    assert not (tmp_path / "ran").exists()
    assert sys.path == entries
    sys.path.append(str(tmp_path))  # as PYTHONPATH does
    assert load_named("brought.along:X", "The checkpoint c") == 7


def test_a_file_may_name_what_the_user_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECABENCH_MODELS", "")
    monkeypatch.setattr(plugins, "_named_by_user", set())
    load_object("json:loads")
    assert load_named("json:loads", "The checkpoint c") is json.loads
