import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from importlib.metadata import packages_distributions
from pathlib import Path

import click
import pytest

import decabench
from decabench.cli import _COMMANDS, cli
from decabench.errors import MissingDataError, SubmissionError

ROOT = Path(__file__).parents[1]


def every_command(command=cli, name="decabench"):
    yield name, command
    for child_name, child in getattr(command, "commands", {}).items():
        yield from every_command(child, f"{name} {child_name}")


COMMANDS = dict(every_command())


@pytest.fixture
def start():
    """Start `decabench ARGUMENTS` as a terminal would, and stop it after the test."""
    processes = []

    def popen(*arguments, **options):
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "decabench", *map(str, arguments)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
                **options,
            )
        )
        return processes[-1]

    yield popen
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_every_command_has_a_file_of_its_name():
    paths = (ROOT / "decabench" / "commands").glob("[!_]*.py")
    files = {path.stem.removesuffix("_") for path in paths}  # `import`, a keyword, is in import_.py
    assert set(cli.commands) == files
    assert all(cli.commands[name].name == name for name in files)
    for name, summary in _COMMANDS.items():
        assert " ".join((cli.commands[name].help or "").split()).startswith(summary), name


AS_MODULE = ("-m", "decabench")
AS_SCRIPT = (str(Path(sys.executable).with_name("decabench")),)
"""The installed script, which does not have the current folder on its module path."""


@pytest.mark.parametrize(
    ("start", "arguments"),
    [
        (AS_SCRIPT, ["evaluate", ".", "--tasks", "sst,schema", "--jobs", "2"]),
        (AS_MODULE, ["evaluate", ".", "--tasks", "sst,schema", "--jobs", "2"]),
        pytest.param(AS_MODULE, ["compare", ".", ".", "--tasks", "sst"], marks=pytest.mark.heavy),
        (AS_MODULE, ["leaderboard", "--submissions", ".", "--output", "site", "--no-baselines"]),
        pytest.param(
            AS_MODULE,
            ["prepare", "--sample", "sst", "schema", "--home", "other", "--jobs", "2"],
            marks=pytest.mark.heavy,
        ),
    ],
)
def test_files_in_the_current_folder_do_not_shadow_modules(
    command, monkeypatch, home, submit, start, arguments
):
    monkeypatch.setenv("DECABENCH_HOME", str(home))
    folder = submit("majority", tasks=("sst", "schema"))
    assert command("evaluate", folder, "--tasks", "sst,schema").exit_code == 0
    names = {*sys.stdlib_module_names, *packages_distributions(), "evil"} - {"decabench"}
    for name in filter(str.isidentifier, names):
        (folder / f"{name}.py").write_text("open('ran', 'a').write(__name__)\n")
    results = folder / "results" / "validation" / "results.json"
    results.write_text(results.read_text().replace('"metric": "em"', '"metric": "evil:METRIC"'))
    done = subprocess.run([sys.executable, *start, *arguments], cwd=folder, capture_output=True, text=True)
    assert not (folder / "ran").exists(), (folder / "ran").read_text()
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help(command, name):
    assert COMMANDS[name].help
    context = click.Context(COMMANDS[name], help_option_names=["-h", "--help"])
    for parameter in COMMANDS[name].get_params(context):
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
    words = name.split()[1:]
    for option in ("--help", "-h"):
        shown = command(*words, option)
        assert shown.exit_code == 0
        assert "Usage:" in shown.output and "--debug" in shown.output


def test_version(command):
    assert command("--version").output == f"decabench, version {decabench.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["prepare", "sqaud"], "Did you mean squad or squad2?"),
        (
            ["predict", "--predictor", "majority", "--output", "x", "--tasks", "squad,shema"],
            "Did you mean schema",
        ),
        (
            ["predict", "--predictor", "majority", "--output", "x", "--tasks", "sst squad"],
            "Separate the tasks with commas: --tasks sst,squad",
        ),
        (["predict", "--predictor", "oracel", "--output", "x"], "Did you mean oracle?"),
        (["predict", "--predictor", "oracle"], "Missing option '--output'"),
        (["tasks", "show", "wikisqll"], "Did you mean wikisql?"),
        (["tasks", "validate", "wikisqll"], "Did you mean wikisql?"),
        (["check", "--submission", ".", "--tasks", "sqaud"], "Did you mean squad or squad2?"),
        (["check", "--submission", "nowhere"], "'nowhere' does not exist"),
        (["evaluate", "--submission", ".", "--tasks", "sqaud"], "Did you mean squad or squad2?"),
        (["evaluate", "--submission", ".", "--split", "train"], "'train' is not one of"),
        (["evaluate", "--submission", ".", "--jobs", "0"], "0 is not allowed. The value must be at least 1"),
        (["prepare", "--sample", "--mirror", "x"], "Use either --mirror or --sample"),
        (["tasks", "overlap", "sst"], "Choose tasks with an option: --tasks sst."),
        (["evaluate", ".", "."], "To compare several, use decabench compare."),
        (["tasks", "--include", "nowhere.toml"], "nowhere.toml, which does not exist"),
        (["leaderbord"], "No such command 'leaderbord'"),
    ],
)
def test_wrong_usage_exits_with_2(command, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def raising(error):
    def run(*arguments, **options):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (KeyboardInterrupt(), 130, "Error: Interrupted. Run the same command again"),
        (
            ZeroDivisionError("by nought"),
            70,
            "Error: Unexpected ZeroDivisionError: by nought. Run again with --debug",
        ),
        (MissingDataError("Nothing there."), 3, "Error: Nothing there.\n"),
        (SubmissionError("It is odd."), 1, "Error: It is odd.\n"),
    ],
)
def test_errors_are_sentences(command, monkeypatch, tmp_path, error, code, sentence):
    monkeypatch.setattr("decabench.scoring.score_submission", raising(error))
    done = command("evaluate", "--submission", tmp_path)
    assert done.exit_code == code
    assert done.stderr.startswith(sentence) and done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize("place", [["--debug", "evaluate"], ["evaluate", "--debug"]])
def test_debug_shows_the_place(command, monkeypatch, tmp_path, place):
    monkeypatch.setattr("decabench.scoring.score_submission", raising(ZeroDivisionError("by nought")))
    done = command(*place, "--submission", tmp_path)
    assert done.exit_code == 70
    assert "Traceback (most recent call last)" in done.stderr
    assert "in run\n    raise error" in done.stderr
    assert done.stderr.endswith("Run again with --debug and report the traceback.\n")


def test_debug_does_not_outlive_its_call(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("DECABENCH_DEBUG", "1")
    monkeypatch.setattr("decabench.scoring.score_submission", raising(ZeroDivisionError("by nought")))
    monkeypatch.setattr(sys, "argv", ["decabench", "evaluate", "--submission", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        decabench.cli.main()
    assert ended.value.code == 70
    assert "Traceback" not in capsys.readouterr().err


def test_a_warning_is_a_sentence(command, monkeypatch, tmp_path):
    import warnings

    def warn(*arguments, **options):
        warnings.simplefilter("default")
        warnings.warn("It is old.", stacklevel=1)
        raise SubmissionError("So be it.")

    monkeypatch.setattr("decabench.scoring.score_submission", warn)
    assert command("evaluate", "--submission", tmp_path).stderr == "Warning: It is old.\nError: So be it.\n"


SLOW = """
import time
from pathlib import Path
from decabench.tasks import Example, RemoteFile, Source, Task

HERE = Path(__file__).parent

def reader(name):
    def read(files, split):
        for number in range(200):
            if split == "validation" and (HERE / "slow").exists():
                (HERE / f"{name}.begun").touch()
                time.sleep(0.1)
            yield Example(f"{name}.{split}.{number}", "Which?", f"Number {number}.", (str(number),), (name,))
    return read

def task(name):
    source = Source("here", {split: (RemoteFile("slow.py"),) for split in ("train", "validation")}, reader(name))
    return Task(name, name, name, "em", {}, (source,), "CC0", "", folder=HERE)

ONE, TWO = task("one"), task("two")
"""


@pytest.fixture
def slow(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "slow").touch()
    return tmp_path


def prepare_slow(folder, names):
    options = ["--home", folder / "home", "--jobs", 2, "--include", folder / "slow.py"]
    return ["prepare", *names, *options]


def wait_for(paths, seconds=30):
    end = time.monotonic() + seconds
    while not all(path.exists() for path in paths):
        assert time.monotonic() < end, "it never began"
        time.sleep(0.02)


def leftovers(folder):
    return [path for path in folder.rglob("*") if path.name.endswith(".tmp")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "sent"),
    [
        pytest.param(("one",), signal.SIGINT, marks=pytest.mark.heavy),
        (("one",), signal.SIGKILL),
        (("one", "two"), signal.SIGINT),
        pytest.param(("one", "two"), signal.SIGKILL, marks=pytest.mark.heavy),
    ],
)
def test_an_interrupted_prepare_continues(start, slow, names, sent):
    running = start(*prepare_slow(slow, names))
    wait_for([slow / f"{name}.begun" for name in names])
    os.killpg(running.pid, sent)
    out, err = running.communicate(timeout=30)
    folders = [slow / "home" / "tasks" / name for name in names]
    for folder in folders:
        assert not (folder / "validation.parquet").exists()
    if sent == signal.SIGINT:
        assert running.returncode == 130
        assert out == ""
        said = [line for line in err.splitlines() if not line.startswith("Preparing ")]
        assert said == ["Error: Interrupted. Run the same command again to continue."]
        assert leftovers(slow / "home") == []
    trains = {folder / "train.parquet": (folder / "train.parquet").stat().st_mtime_ns for folder in folders}
    (slow / "slow").unlink()
    again = start(*prepare_slow(slow, names))
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert leftovers(slow / "home") == []
    for folder in folders:
        records = json.loads((folder / "task.json").read_text())["splits"]
        assert {split: record["rows"] for split, record in records.items()} == {
            "train": 200,
            "validation": 200,
        }
    assert {path: path.stat().st_mtime_ns for path in trains} == trains


@pytest.mark.slow
def test_ctrl_c_in_predict_keeps_the_journal_and_writes_no_submission(start, home, tmp_path):
    (tmp_path / "sleepy.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "class Sleepy:\n"
        "    def predict(self, questions):\n"
        "        if questions[0].id.startswith('schema'):\n"
        "            Path(__file__).with_name('begun').touch()\n"
        "            time.sleep(60)\n"
        "        return ['x'] * len(questions)\n"
        "sleepy = Sleepy()\n"
    )
    running = start(
        "predict",
        *("--predictor", "sleepy:sleepy", "--tasks", "sst,schema", "--home", home),
        *("--output", tmp_path / "s"),
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    wait_for([tmp_path / "begun"])
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 130
    said = err.splitlines()
    assert out == "" and len(said) == 2 and said[0].startswith("sst: 32 of 32")
    assert said[1].startswith("Error: Interrupted. Run the same command again to continue")
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["journal"]
    (journal,) = (tmp_path / "s" / "journal").glob("*.jsonl")
    assert journal.name.startswith("sst.validation") and len(journal.read_text().splitlines()) == 33


def no_space(*arguments, **options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def writing(name, home, new, submission):
    """Return a command that writes into a folder `new`."""
    prepare = ["prepare", "sst", "--sample", "--home"]
    return {
        "prepare": [*prepare, new],
        "prepare --export-ids": [*prepare, home, "--export-ids", new / "ids.json"],
        "predict": ["predict", "--predictor", "majority", "--tasks", "sst", "--home", home, "--output", new],
        "evaluate": ["evaluate", "--submission", submission, "--home", home, "--output", new],
    }[name]


WRITING = ["prepare", "prepare --export-ids", "predict", "evaluate"]


@pytest.mark.parametrize("name", WRITING)
def test_a_full_disk_exits_with_3(command, monkeypatch, home, submit, tmp_path, name):
    new = tmp_path / "new"
    folder = submit("majority", ["sst"])
    arguments = writing(name, home, new, folder)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", no_space)
        done = command(*arguments)
    assert done.exit_code == 3
    assert "No space left to write" in done.stderr
    assert "Traceback" not in done.output
    left = [path for path in new.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert [
        path for path in left if path.parent.name != "journal"
    ] == []  # from which the same command continues
    assert command(*arguments).exit_code == 0


@pytest.mark.parametrize("name", WRITING)
def test_a_folder_below_a_file_exits_with_3(command, home, submit, tmp_path, name):
    folder = submit("majority", ["sst"])
    (tmp_path / "file").touch()
    new = tmp_path / "file" / "new"
    arguments = writing(name, home, new, folder)
    done = command(*arguments)
    assert done.exit_code == 3
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert f"{new}" in said and "can't be written" in said
    assert "Traceback" not in done.output
    assert not new.exists()


HEAVY = {
    "pyarrow",
    "pandas",
    "datasets",
    "numpy",
    "rich",
    "sacrebleu",
    "requests",
    "huggingface_hub",
    "torch",
}


@pytest.mark.parametrize(
    ("arguments", "allowed", "rooms"),
    [
        (["--help"], set(), {"commands", "models"}),  # the names of models
        (["--version"], set(), set()),
        (["evaluate", "--help"], set(), {"commands"}),
        (["metrics"], set(), None),
        (["tasks"], {"rich"}, None),
        (
            ["tasks", "--json"],
            set(),
            {"commands", "errors", "files", "metrics", "plugins", "tables", "tasks", "untrusted"},
        ),
        (["tasks", "show", "squad"], {"rich"}, None),
    ],
)
def test_light_commands_load_no_heavy_packages(tmp_path, arguments, allowed, rooms):
    code = (
        "import json, sys\nfrom decabench.cli import cli\n"
        "try: cli()\n"
        "finally: print(json.dumps(sorted(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={**os.environ, "DECABENCH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    modules = json.loads(done.stderr)
    assert {name.partition(".")[0] for name in modules} & HEAVY <= allowed
    commands = {name.split(".")[2] for name in modules if name.startswith("decabench.commands.")}
    assert arguments[0].startswith("-") or commands - {arguments[0]} <= {"_console", "_documents", "_options"}
    if rooms is not None:
        loaded = {name.split(".")[1] for name in modules if name.startswith("decabench.")}
        assert loaded <= {"cli", "text", "lazy", "options", *rooms}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["metrics"], ["metrics", "--json"], ["tasks", "--json"]])
def test_a_full_output_is_reported_in_one_sentence(tmp_path, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "decabench", *arguments],
            env={**os.environ, "DECABENCH_HOME": str(tmp_path)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: Can't write to standard output (No space left on device)")


@pytest.mark.parametrize("command", ["metrics show rouge", "metrics selftest"])
def test_a_closed_pipe_ends_a_command_quietly(tmp_path, command):
    code = f"{sys.executable} -m decabench {command} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", f"(sleep 0.2; {code})"],
        env={**os.environ, "DECABENCH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["141"] and done.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "results", "s", "s", "--format", "model-index"],
        ["export", "results", "README.md"],
        ["tasks", "overlap", "--write", "list.txt"],
        ["check", "s", "--ids", "list.jsonl"],
        ["run", "broken.toml"],
    ],
)
def test_wrong_usage_exits_with_2_whatever_the_data_is(
    command, home, submit, tmp_path, monkeypatch, arguments
):
    folder = submit("majority", ("sst",), "s")
    monkeypatch.chdir(tmp_path)
    assert command("evaluate", folder, "--home", home).exit_code == 0
    Path("broken.toml").write_text("predictor = = 1")
    Path("list.jsonl").touch()
    Path("README.md").touch()
    done = command(*arguments)
    assert done.exit_code == 2 and done.stderr.count("Error: ") == 1
