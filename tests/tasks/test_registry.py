from __future__ import annotations

import re
from pathlib import Path

import pytest

from decabench.errors import UnknownNameError
from decabench.tasks import TASKS, get_task
from decabench.tasks.registry import known_suites, known_tasks, load_included
from decabench.tasks.task import RemoteFile, Task
from tests.tasks.fixtures import write_lines

# The tasks: the decathlon's in the paper's order, near matches, and sources that are pinned as published.

EVERY_TASK = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


@EVERY_TASK
def test_every_task_has_a_title_licence_and_citation(task: Task) -> None:
    assert all((task.title, task.dataset, task.licence, task.homepage))
    assert re.search(r" et al\. \d{4}, ", task.citation)
    assert task.origin == "decabench"


def test_only_some_tasks_are_not_in_english() -> None:
    other = {name: task.languages for name, task in TASKS.items() if task.languages != ("en",)}
    assert other.pop("woz.de") == ("de",) and other.pop("hi.pos") == ("hi",)
    assert other.pop("hien.pos") == ("hi", "en") and other.pop("multi30k.en.de") == ("en", "de")
    assert len(other) == 8
    assert all(tuple(name.split(".")) == ("iwslt", *languages) for name, languages in other.items())


@EVERY_TASK
def test_files_of_a_source_have_one_meaning(task: Task) -> None:
    for source in task.sources:
        by_name: dict[str, RemoteFile] = {}
        for split, files in source.files.items():
            assert len({file.name for file in files}) == len(files) > 0, (source.name, split)
            for file in files:
                assert by_name.setdefault(file.name, file) == file
                assert not file.name.startswith(("/", ".")) and ".." not in file.name
    assert len({source.name for source in task.sources}) == len(task.sources)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sqaud2", "Did you mean squad2 or squad?"),
        ("woz", "Did you mean woz.en or woz.de?"),
        ("wikisq", "Did you mean wikisql?"),
        ("Schema", "Did you mean schema?"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_name(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        get_task(name)
    told = str(caught.value)
    assert told.startswith(f"There is no task {name!r}.{' ' if hint else ''}{hint}")
    assert told.endswith(" To use your own task, specify its file with --include.")
    known = re.search(r"Known: (.*) and (\d+) more\.", told)
    assert (known is None) == ("Did you mean" in told) == bool(hint)
    if known is not None:
        named = known[1].split(", ")
        assert (named, len(named) + int(known[2])) == (list(TASKS)[: len(named)], len(TASKS))
    assert isinstance(caught.value, ValueError)


def test_the_name_of_a_suite_is_no_task() -> None:
    with pytest.raises(UnknownNameError, match=r"fdu is a suite, not a task\. .* --suite fdu"):
        get_task("fdu")


# Tasks from TOML files, Python files and installed packages. A broken one doesn't affect others.

HEAD = "from dataclasses import replace\nfrom decabench.tasks import TASKS\n"
TOML = [
    'format = "decabench.taskfile/1"',
    'name = "capitals"',
    'metric = "em"',
    'question = "q"',
    'answer = "a"',
    'files = { test = "data.csv" }',
]


def write_python(folder: Path, text: str, name: str = "mine.py") -> Path:
    return write_lines(folder / name, [HEAD + text])


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, points: list[str], code: str = "", package: str = "outside"
) -> None:
    """Write an installed package: a module, and a folder with its metadata."""
    info = folder / f"{package}-1.0.dist-info"
    write_lines(info / "METADATA", ["Metadata-Version: 2.1", f"Name: {package}", "Version: 1.0"])
    write_lines(info / "entry_points.txt", ["[decabench.tasks]", *points])
    write_python(folder, code, f"{package}.py")
    monkeypatch.syspath_prepend(folder)


def test_toml_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "capitals.toml", TOML)
    assert [task.name for task in load_included(path)] == ["capitals"]
    assert list(known_tasks([path])) == [*TASKS, "capitals"]


def test_python_file(tmp_path: Path) -> None:
    path = write_python(
        tmp_path,
        "ONE = replace(TASKS['sst'], name='one')\n"
        "TWO = ALIAS = replace(TASKS['squad'], name='two')\n"
        "SST = TASKS['sst']\n"
        "NUMBER = 3\n",
    )
    tasks = load_included(path)
    assert [(task.name, task.dataset, task.origin) for task in tasks] == [
        ("one", TASKS["sst"].dataset, "user"),
        ("two", TASKS["squad"].dataset, "user"),
    ]
    assert list(known_tasks([path])) == [*TASKS, "one", "two"]


def test_a_file_is_run_once_and_again_if_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    code = f"with open({str(runs)!r}, 'a') as file:\n    file.write('x')\nONE = replace(TASKS['sst'], name={{!r}})\n"
    path = write_python(tmp_path, code.format("one"))
    assert known_tasks([path])["one"] is known_tasks([path])["one"]
    assert "one" not in known_suites([path])
    assert runs.read_text() == "x"
    write_python(tmp_path, code.format("another"))
    assert [task.name for task in load_included(path)] == ["another"] and runs.read_text() == "xx"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder in ("a", "b"):  # the same bytes at the same relative path are two files
        write_lines(tmp_path / folder / "capitals.toml", TOML)
        monkeypatch.chdir(tmp_path / folder)
        (task,) = load_included(Path("capitals.toml"))
        assert task.folder == tmp_path / folder


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("mine.py", None, r"--include refers to .*mine\.py, which does not exist"),
        ("mine.json", "{}", r"--include requires a \.toml or \.py file, but got .*mine\.json"),
        ("mine.py", "X = 1", r"mine\.py does not define a decabench\.tasks\.Task or Suite"),
        ("mine.py", "X = TASKS['sst']", "does not define a decabench"),
        ("mine.py", "1 / 0", r"mine\.py can't be run \(ZeroDivisionError: division by zero\)"),
    ],
)
def test_files_that_bring_no_task(tmp_path: Path, name: str, text: str | None, sentence: str) -> None:
    if text is not None:
        write_python(tmp_path, text, name)
    with pytest.raises(UnknownNameError, match=sentence):
        known_tasks([tmp_path / name])


def test_two_tasks_of_one_name(tmp_path: Path) -> None:
    ten = write_python(tmp_path, "X = replace(TASKS['sst'], title='Mine')", "ten.py")
    one = write_python(tmp_path, "X = replace(TASKS['sst'], name='one')", "one.py")
    twice = write_python(
        tmp_path, "X = replace(TASKS['sst'], name='one')\nY = replace(TASKS['squad'], name='one')", "twice.py"
    )
    for include, name in (([ten], "sst"), ([twice], "one")):
        with pytest.raises(UnknownNameError, match=f"There are two tasks named '{name}'"):
            known_tasks(include)
    with pytest.raises(UnknownNameError, match=r"one\.py is included more than once"):
        known_tasks([one, one])


def test_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path,
        monkeypatch,
        ["mine = outside_good:MINE"],
        "MINE = replace(TASKS['sst'], name='mine')",
        "outside_good",
    )
    known = known_tasks()
    assert list(known) == [*TASKS, "mine"]
    assert known["mine"].origin == "user"


@pytest.mark.parametrize(
    ("point", "sentence"),
    [
        ("broken = outside_{}:MISSING", "The entry point broken = .* can't be loaded"),
        ("broken = no_such_module:X", "The entry point broken = no_such_module:X can't be loaded"),
        ("broken = outside_{}:NUMBER", "The entry point broken = .* is not a decabench.tasks.Task"),
        (
            "broken = outside_{}:SST",
            "An installed package defines another task named 'sst', which is ignored",
        ),
        (
            "broken = outside_{}:GOOD",
            "An installed package defines another task named 'good', which is ignored",
        ),
    ],
    ids=["missing", "no module", "no task", "one of the ten", "twice"],
)
def test_a_broken_entry_point_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, sentence: str
) -> None:
    module = tmp_path.name  # modules stay loaded: every test needs a name of its own
    code = "GOOD = replace(TASKS['srl'], name='good')\nNUMBER = 3\nSST = replace(TASKS['sst'], title='Mine')"
    points = [f"good = outside_{module}:GOOD", point.format(module)]
    install(tmp_path, monkeypatch, points, code, f"outside_{module}")
    with pytest.warns(UserWarning, match=sentence) as told:
        known = known_tasks()
    assert len(told) == 1
    assert list(known) == [*TASKS, "good"]
    assert known["sst"] is TASKS["sst"]
