"""What `--json` prints: one document and nothing else, of the form that docs/schemas/output/ states, errors too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import jsonschema
import pytest

from decabench.commands._documents import DOCUMENTS
from decabench.tasks import Store
from tests.test_cli import COMMANDS

ROOT = Path(__file__).parents[2]
SCHEMAS = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text(encoding="utf-8"))
    for path in (ROOT / "docs" / "schemas" / "output").glob("*.schema.json")
}
TRAINED = ("train", "analyze", "export weights", "vectors ngrams")


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def parsed(text: str):
    """The document; NaN and Infinity, which Python would take, are none."""
    return json.loads(text, parse_constant=refuse)


def validate(document, name: str) -> None:
    jsonschema.validate(document, SCHEMAS[name], jsonschema.Draft202012Validator)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("documents")


@pytest.fixture(scope="module")
def trained(home, place):
    """A model that was trained for a step."""
    if find_spec("torch") is None:
        pytest.skip("torch is not installed: pip install 'decabench[train]'")
    return place / "run"


def runs(home: Path, submit, place: Path):
    """Command and case to its arguments and its schema."""
    a, b = submit("majority", ["sst", "schema"]), submit("first-choice", ["sst", "schema"])
    (place / "words.txt").write_text("the 0.5 0.25\nsmall 0.125 1.0\n")
    (first,) = islice(Store(home).examples("sst", "validation"), 1)
    (place / "one.csv").write_text(f"id,answer\n{first.id},positive\n")
    pair = place / "pair.toml"
    pair.write_text(
        'format = "decabench.suite/1"\nname = "pair"\ntitle = "Two"\ntasks = ["sst", "schema"]\ntotal = "mean"\n'
    )
    in_suite = ["--suite", "pair", "--include", pair]
    settings = ["--set", f"output={place / 'made'}", "--set", "predictor=majority", "--set", 'tasks=["sst"]']
    settings += ["--set", f"home={home}", "--set", 'baselines=["random"]']
    predict = ["predict", "--predictor", "majority", "--tasks", "sst", "--home", home]
    asked = [
        "predict",
        "--predictor",
        "openai:http://localhost:1/v1",
        "--model",
        "m",
        "--tasks",
        "sst",
        "--home",
        home,
    ]
    return {
        "check": (["check", "--submission", a, "--home", home], "check"),
        "compare": (["compare", a, b, "--home", home], "compare"),
        "compare, all ten": (["compare", submit("majority"), submit("random"), "--home", home], "compare"),
        "compare, a suite": (["compare", a, b, "--home", home, *in_suite], "compare"),
        "evaluate": (["evaluate", a, "--home", home], "evaluate"),
        "evaluate, a suite": (["evaluate", a, "--home", home, *in_suite], "evaluate"),
        "evaluate, all ten": (["evaluate", submit("majority"), "--home", home], "evaluate"),
        "export results": (
            ["export", "results", a / "results" / "validation" / "results.json"],
            "export-results",
        ),
        "export tasks": (
            ["export", "tasks", "sst", "--for", "lm-eval", "--home", home, "--output", place / "tasks"],
            "export-tasks",
        ),
        "import": (
            [
                "import",
                "csv",
                place / "one.csv",
                "--task",
                "sst",
                "--home",
                home,
                "--output",
                place / "imported",
                "--name",
                "one",
            ],
            "import",
        ),
        "leaderboard": (
            ["leaderboard", "--submissions", a.parent, "--output", place / "site", "--home", home],
            "leaderboard",
        ),
        "metrics": (["metrics"], "metrics"),
        "metrics selftest": (["metrics", "selftest"], "metrics-selftest"),
        "metrics show": (["metrics", "show", "mse"], "metrics-show"),
        "predict": ([*predict, "--output", place / "p"], "predict"),
        "predict --dry-run": ([*asked, "--dry-run"], "predict.estimate"),
        "predict --show-prompt": ([*asked, "--show-prompt", "sst"], "predict.prompt"),
        "prepare": (["prepare", "sst", "woz.en", "--sample", "--home", place / "home"], "prepare"),
        "run": (["run", *settings], "run"),
        "run --dry-run": (["run", *settings, "--dry-run"], "run.forecast"),
        "show": (["show", a, "--task", "sst", "--home", home, "--limit", 2], "show"),
        "show --against": (["show", a, "--task", "sst", "--home", home, "--against", b], "show"),
        "show --output": (
            ["show", a, "--task", "sst", "--home", home, "--output", place / "page"],
            "show.page",
        ),
        "suites": (["suites", "--home", home], "suites"),
        "suites show": (["suites", "show", "decathlon", "--home", home], "suites-show"),
        "tasks": (["tasks", "--home", home], "tasks"),
        "tasks overlap": (["tasks", "overlap", "--tasks", "sst", "--home", home], "tasks-overlap"),
        "tasks show": (["tasks", "show", "sst", "--home", home], "tasks-show"),
        "tasks validate": (["tasks", "validate", "sst", "--home", home], "tasks-validate"),
        "vectors convert": (
            ["vectors", "convert", place / "words.txt", "--output", place / "vectors.npy"],
            "vectors-convert",
        ),
        "verify": (["verify", "--submission", a, "--home", home], "verify"),
    }


def test_every_command_prints_json_that_its_schema_describes(command, home, submit, place):
    checked = set()
    for case, (arguments, schema) in runs(home, submit, place).items():
        done = command(*arguments, "--json")
        assert done.exit_code in (0, 1), (case, done.output)
        assert done.exception is None or isinstance(done.exception, SystemExit), (case, done.exception)
        document = parsed(done.stdout)
        assert "error" not in document, (case, document)
        validate(document, schema)
        checked.add(schema)
    left = {f"decabench {name}" for name in DOCUMENTS if name not in TRAINED} - {
        f"decabench {name.partition('.')[0].replace('-', ' ')}" for name in checked
    }
    assert left == set()


def test_training_commands_print_json_that_their_schemas_describe(command, home, place, trained):
    small = ("model.dimension=10", "steps=1", 'vectors=["none:10"]', "batch_tokens=200")
    train = ["train", "--tasks", "sst", "--home", home, *(word for one in small for word in ("--set", one))]
    ngrams = ["vectors", "ngrams", "--tasks", "sst", "--home", home, "--steps", 1, "--dimension", 2]
    for arguments, schema in (
        ([*train, "--output", trained], "train"),
        ([*train, "--bundle", place / "bundle"], "train.bundling"),
        (
            ["analyze", "pointers", trained, "--output", place / "figures", "--home", home, "--examples", 1],
            "analyze",
        ),
        (["export", "weights", trained, "--output", place / "copy"], "export-weights"),
        (
            [*ngrams, "--output", place / "v.safetensors"],
            "vectors-ngrams",
        ),
    ):
        done = command(*arguments, "--json")
        assert done.exit_code == 0, (schema, done.output)
        validate(parsed(done.stdout), schema)


def test_every_command_has_a_schema():
    commands = {name.removeprefix("decabench ") for name, found in COMMANDS.items() if found.callback}
    groups = {"decabench", "export", "vectors"}  # which do nothing by themselves
    assert set(DOCUMENTS) == commands - groups
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        (["tasks", "show", "sqaud"], "UnknownNameError", 2),
        (["tasks", "--nonsense"], "UsageError", 2),
        (["leaderbord"], "UsageError", 2),
        (["evaluate", "nowhere"], "UsageError", 2),
        (["tasks", "validate", "sst", "--home", "nowhere"], "MissingDataError", 3),
        ([], "UsageError", 2),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_errors_are_json_too(command, tmp_path, monkeypatch, arguments, kind, code, first):
    monkeypatch.chdir(tmp_path)
    plain = command(*arguments)
    done = command("--json", *arguments) if first else command(*arguments, "--json")
    assert done.exit_code == plain.exit_code == code
    document = parsed(done.stdout)
    validate(document, "error")
    assert (document["error"]["kind"], document["error"]["exit_code"]) == (kind, code)
    assert document["error"]["message"] in " ".join(done.stderr.split("\n")) or not arguments


def test_a_regression_and_a_wrong_name_for_it_are_one_document_each(command, home, submit):
    pair = [submit("oracle", ["sst"]), submit("majority", ["sst"]), "--home", home, "--json"]
    worse = command("compare", *pair, "--fail-on-regression", "sst:1")
    assert worse.exit_code == 1 and parsed(worse.stdout)["tasks"]["sst"]["difference"] < -1
    assert "Regression: on sst" in worse.stderr
    unknown = command("compare", *pair, "--fail-on-regression", "squad:1")
    assert unknown.exit_code == 2 and parsed(unknown.stdout)["error"]["kind"] == "UsageError"


NOISY = """
import os, subprocess
print("from Python")
class Noisy:
    def __init__(self, setting):
        pass
    def predict(self, questions):
        print("while it answers")
        os.write(1, b"past Python\\n")
        subprocess.run(["echo", "from a program"], check=True)
        return ["positive"] * len(questions)
"""


def test_what_others_print_does_not_get_between_the_json(home, tmp_path):
    (tmp_path / "noisy.py").write_text(NOISY)
    arguments = ["predict", "--predictor", "noisy:Noisy", "--tasks", "sst", "--home", str(home), "--json"]
    arguments += ["--output", str(tmp_path / "s")]
    done = subprocess.run(
        [sys.executable, "-m", "decabench", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert parsed(done.stdout)["tasks"][0]["answered"] == 32
    for line in ("from Python", "while it answers", "past Python", "from a program"):
        assert line in done.stderr


def test_json_by_a_variable_of_the_environment(command, monkeypatch):
    monkeypatch.setenv("DECABENCH_METRICS_JSON", "1")
    assert parsed(command("metrics").stdout)["mse"]["range"] == [0, None]
    monkeypatch.delenv("DECABENCH_METRICS_JSON")
    monkeypatch.setenv("DECABENCH_JSON", "1")
    assert "em" in parsed(command("metrics").stdout)


def test_help_is_help(command):
    assert command("metrics", "--json", "--help").stdout.startswith("Usage:")
