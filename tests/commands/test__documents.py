from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from itertools import islice

import jsonschema
import pytest

from decabench.commands._documents import DOCUMENTS
from decabench.tasks import Store
from tests.sources import ROOT
from tests.test_cli import COMMANDS

sys.path.insert(0, str(ROOT / "tools"))
import schemas

SCHEMA = schemas.schema()
TRAINED = ("train", "analyze", "export weights", "vectors ngrams")


def refuse(constant):
    raise ValueError(f"{constant} is no JSON")


def parsed(text):
    """Return the parsed document. NaN and Infinity, which Python accepts, are errors."""
    return json.loads(text, parse_constant=refuse)


def faults(value, kind=None):
    """Return the errors of a value by the schema of a type, or by the full schema for a value with a format."""
    form = {"$defs": SCHEMA["$defs"], "$ref": f"#/$defs/{kind}"} if kind else SCHEMA
    return [
        f"{error.json_path}: {error.message[:200]}"
        for error in jsonschema.Draft202012Validator(form).iter_errors(value)
    ]


def validate(document, command):
    if "format" in document:
        assert document["format"] == DOCUMENTS[command].__struct_config__.tag
        assert faults(document) == [], command
        return
    many = command in ("metrics", "suites")
    kind = {"metrics": "MetricFields", "suites": "SuiteDescription" if many else "SuiteDocument"}[
        command.split()[0]
    ]
    for each in document.values() if many else [document]:
        assert faults(each, kind) == [], command


def test_the_schema_is_valid_and_covers_every_command():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    commands = {name.removeprefix("decabench ") for name, found in COMMANDS.items() if found.callback}
    groups = {"decabench", "export", "review", "vectors"}  # commands that only group others
    assert {name.partition(" --")[0] for name in DOCUMENTS} - {"error"} == commands - groups


def runs(home, submit, place):
    """The arguments by case. The first words of a case name its document in DOCUMENTS."""
    a, b = submit("majority", ["sst", "schema"]), submit("first-choice", ["sst", "schema"])
    (place / "words.txt").write_text("the 0.5 0.25\nsmall 0.125 1.0\n")
    (first,) = islice(Store(home).examples("sst", "validation"), 1)
    (place / "one.csv").write_text(f"id,answer\n{first.id},positive\n")
    pair = place / "pair.toml"
    pair.write_text(
        'format = "decabench.suite/1"\nname = "pair"\ntitle = "Two"\ntasks = ["sst", "schema"]\ntotal = "mean"\n'
    )
    data, in_suite, sst = ["--home", home], ["--suite", "pair", "--include", pair], ["--tasks", "sst"]
    settings = ["--set", f"output={place / 'made'}", "--set", "predictor=majority", "--set", 'tasks=["sst"]']
    settings += ["--set", f"home={home}", "--set", 'baselines=["random"]']
    asked = ["--predictor", "openai:http://localhost:1/v1", "--model", "m", *sst, *data]
    results = a / "results" / "validation" / "results.json"
    (place / "queue" / "somebody" / "empty").mkdir(parents=True)
    (place / "board" / "submissions").mkdir(parents=True)
    git = ["git", "-C", place / "board", "-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "Begin"], check=True)
    sent = ["--submissions", place / "board" / "submissions", *data]
    return {
        "check": ["--submission", a, *data],
        "compare": [a, b, *data],
        "compare --each": [a, b, "--each", *data],
        "compare, all ten": [submit("majority"), submit("random"), *data],
        "compare, a suite": [a, b, *data, *in_suite],
        "evaluate": [a, *data],
        "evaluate, a suite": [a, *data, *in_suite],
        "evaluate, all ten": [submit("majority"), *data],
        "export results": [results],
        "export tasks": ["sst", "--for", "lm-eval", *data, "--output", place / "tasks"],
        "import": [
            "csv",
            place / "one.csv",
            "--task",
            "sst",
            *data,
            "--output",
            place / "imported",
            "--name",
            "one",
        ],
        "leaderboard": ["--submissions", a.parent, "--output", place / "site", *data],
        "metrics": [],
        "metrics selftest": [],
        "metrics show": ["mse"],
        "predict": ["--predictor", "majority", *sst, *data, "--output", place / "p"],
        "predict --dry-run": asked,
        "predict --show-prompt": ["sst", *asked],
        "prepare": ["sst", "woz.en", "--sample", "--home", place / "home"],
        "review queue": [place / "queue", *sent, "--results", place / "outcomes"],
        "review request": ["HEAD", *sent],
        "run": settings,
        "run --dry-run": settings,
        "show": [a, "--task", "sst", *data, "--limit", 2],
        "show, against": [a, "--task", "sst", *data, "--against", b],
        "show --output": [place / "page", a, "--task", "sst", *data],
        "suites": data,
        "suites show": ["decathlon", *data],
        "tasks": data,
        "tasks overlap": [*sst, *data],
        "tasks show": ["sst", *data],
        "tasks validate": ["sst", *data],
        "vectors convert": [place / "words.txt", "--output", place / "vectors.npy"],
        "verify": ["--submission", a, *data],
    }


def test_every_command_prints_json_that_its_schema_describes(command, home, submit, tmp_path):
    cases = runs(home, submit, tmp_path)
    assert {case.partition(",")[0] for case in cases} == {*DOCUMENTS} - {*TRAINED, "error"}
    for case, arguments in cases.items():
        name = case.partition(",")[0]
        done = command(*name.split(), *arguments, "--json")
        if "which is not installed" in done.stdout:  # an extra is missing
            continue
        assert done.exit_code in (0, 1), (case, done.output)
        assert done.exception is None or isinstance(done.exception, SystemExit), (case, done.exception)
        validate(parsed(done.stdout), name)


@pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed: pip install 'decabench[train]'"
)
def test_training_commands_print_json_that_their_schemas_describe(command, home, tmp_path):
    trained, data = tmp_path / "run", ["--home", home]
    small = ("model.dimension=10", "steps=1", 'vectors=["none:10"]', "batch_tokens=200")
    train = ["--tasks", "sst", *data, *(word for one in small for word in ("--set", one))]
    ngrams = ["--tasks", "sst", *data, "--steps", 1, "--dimension", 2]
    cases = {
        "train": [*train, "--output", trained],
        "analyze": ["pointers", trained, "--output", tmp_path / "figures", *data, "--examples", 1],
        "export weights": [trained, "--output", tmp_path / "copy"],
        "vectors ngrams": [*ngrams, "--output", tmp_path / "v.safetensors"],
    }
    for name, arguments in cases.items():
        done = command(*name.split(), *arguments, "--json")
        assert done.exit_code == 0, (name, done.output)
        validate(parsed(done.stdout), name)


def test_every_submission_of_the_repository():
    paths = sorted((ROOT / "submissions").rglob("submission.toml"))
    assert paths
    for path in paths:
        assert faults(tomllib.loads(path.read_text())) == [], path
        for results in path.parent.rglob("results.json"):
            assert faults(json.loads(results.read_text())) == [], results
        for answers in path.parent.rglob("predictions/*.jsonl"):
            for line in answers.read_text().splitlines()[:3]:
                assert faults(json.loads(line), "SubmittedAnswer") == [], answers


def test_files_that_evaluate_writes(command, home, submit):
    folder = submit("majority", ("sst", "schema", "wikisql"))
    assert command("evaluate", folder, "--home", home).exit_code == 0
    assert faults(json.loads((folder / "results" / "validation" / "results.json").read_text())) == []
    for path in (folder / "results" / "validation" / "examples").iterdir():
        head, *rows = map(json.loads, gzip.open(path, "rt"))
        assert faults(head) == []
        assert [fault for row in rows for fault in faults(row, "ScoredExample")] == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"format": "decabench.results/2"}, None),
        ({"format": "decabench.submission/1"}, None),
        ({"id": "a", "answer": 1}, "SubmittedAnswer"),
        ({"id": "a", "statistics": [1], "extra": 1}, "ScoredExample"),
    ],
)
def test_the_schema_refuses(value, kind):
    assert faults(value, kind)


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
    assert faults(document) == []
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


def test_output_of_a_predictor_is_not_mixed_into_the_json(home, tmp_path):
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


def test_help_ignores_json(command):
    assert command("metrics", "--json", "--help").stdout.startswith("Usage:")
