from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

import decabench
from decabench.cli import cli
from decabench.submission import write_submission


def said(done) -> str:
    """Return the message of a failed command, without the usage line."""
    assert done.exit_code and not isinstance(done.exception, AssertionError), done.output
    return done.stderr.rpartition("Error: ")[2].strip()


def test_a_hidden_split_says_so(command, home, submit, tmp_path):
    done = command("prepare", "squad", "--split", "test", "--sample", "--home", tmp_path / "home")
    assert done.exit_code == 3
    assert (
        "squad has no public test split, because its labels are hidden" in done.stderr
        and "Not prepared, or only partly: squad" in done.stderr
    )
    predict = ["predict", "--predictor", "majority", "--home", home, "--output", tmp_path / "s"]
    message = said(command(*predict, "--tasks", "squad", "--split", "test"))
    assert "squad has no public test split, because its labels are hidden" in message
    assert "--split train or --split validation" in message
    folder = submit("majority", ["squad"])
    message = said(command("evaluate", folder, "--split", "test", "--home", home))
    assert "There are answers for validation. Add --split validation" in message
    message = said(command("evaluate", folder, "--split", "test", "--tasks", "squad", "--home", home))
    assert "squad has no public test split, because its labels are hidden" in message


def test_without_any_data_all_tasks_are_named_at_once(command, submit, home, tmp_path):
    empty = tmp_path / "empty"
    for arguments in (
        ["predict", "--predictor", "majority", "--tasks", "sst,schema,zre", "--output", tmp_path / "s"],
        ["evaluate", submit("majority", ["sst", "schema", "zre"])],
        ["check", "--submission", submit("majority", ["sst", "schema", "zre"])],
    ):
        done = command(*arguments, "--home", empty)
        assert done.exit_code == 3
        assert all(name in done.output for name in ("sst", "schema", "zre")), done.output
        assert not (tmp_path / "s").exists()
        advice = done.output.partition("decabench prepare ")[2].split()[:3]
        assert {name.rstrip(",") for name in advice} == {"sst", "schema", "zre"}, done.output


def test_one_task_name_is_accepted_instead_of_a_list(home, tmp_path):
    assert list(decabench.prepare("sst", sample=True, home=tmp_path / "home")) == ["sst"]
    for name in ("majority", "random"):
        decabench.predict(name, tmp_path / name, "sst", home=home)
    assert list(decabench.evaluate(tmp_path / "majority", tasks="sst", home=home).tasks) == ["sst"]
    compared = decabench.compare(tmp_path / "majority", tmp_path / "random", tasks="sst", home=home)
    assert list(compared.tasks) == ["sst"]
    done = decabench.run(predictor="majority", output=tmp_path / "run", tasks="sst", home=home)
    assert list(done.results.tasks) == ["sst"]


def test_a_forgotten_include_is_suspected(command, own_task, home, tmp_path):
    path = own_task(["a", "b"])
    data = ["--home", tmp_path / "home", "--include", path]
    assert command("prepare", "own", *data).exit_code == 0
    folder = tmp_path / "s"
    assert (
        command("predict", "--predictor", "majority", "--tasks", "own", "--output", folder, *data).exit_code
        == 0
    )
    for arguments in (
        ["evaluate", folder],
        ["evaluate", folder, "--tasks", "own"],
        ["check", "--submission", folder],
        ["show", folder, "--task", "own"],
        ["tasks", "show", "own"],
        ["predict", "--predictor", "majority", "--tasks", "own", "--output", tmp_path / "t"],
    ):
        done = command(*arguments, "--home", tmp_path / "home")
        assert done.exit_code and "--include" in done.output, (arguments, done.output)


@pytest.mark.parametrize(
    ("predictor", "hint"),
    [
        ("Qwen/Qwen3-0.6B", "For a model on the Hugging Face Hub, write hf:Qwen/Qwen3-0.6B;"),
        (
            "http://localhost:8000/v1",
            "For a server that supports the OpenAI API, write openai:http://localhost:8000/v1",
        ),
        (
            "openai:http://localhost:8000/v1/chat/completions",
            "Use the server's base URL, openai:http://localhost:8000/v1",
        ),
        ("openai:https://host/v1/completions/", "Use the server's base URL, openai:https://host/v1"),
        ("gpt-5", "for a model on a server, write openai:URL and add --model gpt-5."),
        ("my_model.py:Simple", "my_model:Simple."),
        ("my_model", "my_model:Simple."),
        ("majority", "The predictor majority does not use --model. Leave out the option"),
        ("majorty", "Did you mean majority?"),
        ("./absent.py", "There is no file ./absent.py."),
        ("my_model.Simple", "For Simple in my_model.py, write my_model:Simple."),
        ("run", "write trained:run; for a transformers model, hf:run."),
    ],
)
@pytest.mark.parametrize("options", [["--model", "x"], []])
def test_common_misspellings_of_predictors_get_a_suggestion(
    command, home, tmp_path, monkeypatch, predictor, hint, options
):
    if predictor in ("majority",) and not options:
        return
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_model.py").write_text(
        "class Simple:\n    def predict(self, questions):\n        return []\n"
    )
    (tmp_path / "run").mkdir()
    arguments = [
        "predict",
        "--predictor",
        predictor,
        "--tasks",
        "sst",
        "--home",
        home,
        "--output",
        "out",
        *options,
    ]
    if predictor.startswith("openai:") and not options:
        arguments += ["--model", "x"]
    assert hint in said(command(*arguments))
    assert not (tmp_path / "out").exists()


@pytest.fixture
def other_data(home, tmp_path) -> Path:
    """A submission with ids that don't match, as if made for the whole dataset or another version."""
    lines = [(f"dev-{number}", "positive") for number in range(840)]
    write_submission(tmp_path / "other", "other", {("sst", "validation"): lines})
    return tmp_path / "other"


def test_check_against_other_data_says_that_first(command, home, other_data):
    done = command("check", "--submission", other_data, "--home", home)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert (
        "other-ids" in lines[0] and "840 of 840" in lines[0] and "32 validation examples of sst" in lines[0]
    ), lines[:3]
    assert not any("dev-" in line and "unknown-id" in line for line in lines) and len(lines) < 6
    report = json.loads(command("check", "--submission", other_data, "--home", home, "--json").stdout)
    counts = {one["code"]: one["count"] for one in report["totals"]}
    assert counts == {"other-ids": 1} and lines[-1] == "other: 1 fault"
    failed = command("evaluate", other_data, "--home", home)
    assert failed.exit_code == 1 and "840 of 840 ids" in failed.output


def test_a_handmade_submission_is_told_everything_at_once(command, home, tmp_path):
    folder = tmp_path / "hand"
    (folder / "predictions").mkdir(parents=True)
    (folder / "predictions" / "sst.jsonl").write_text('{"id": "sst.validation.0", "answer": "negative"}\n')
    (folder / "schema.validation.jsonl").write_text('{"id": "schema.validation.0", "answer": "x"}\n')
    for arguments in (["evaluate", folder], ["show", folder], ["check", "--submission", folder]):
        done = command(*arguments, "--home", home)
        assert done.exit_code == 1
        for part in ('name = "', "sst.validation.jsonl", "predictions/"):
            assert part in done.output, (arguments, part, done.output)
    (tmp_path / "nothing").mkdir()
    message = said(command("evaluate", tmp_path / "nothing", "--home", home))
    assert 'name = "' in message and '{"id": ' in message and "predictions/<task>.validation.jsonl" in message


def options_of_all_commands():
    """Yield every option of every command, with the words that name the command."""

    def within(found, words):
        for option in found.get_params(click.Context(found, help_option_names=["-h", "--help"])):
            if isinstance(option, click.Option):
                yield words, option
        for name, child in getattr(found, "commands", {}).items():
            yield from within(child, [*words, name])

    for name in cli.commands:
        yield from within(cli.commands[name], [name])


def test_every_option_has_the_variable_of_its_name(monkeypatch):
    for words, option in options_of_all_commands():
        if {*option.opts} & {"--json", "--quiet", "--no-color", "--debug", "--help"}:
            continue
        path = "_".join(["DECABENCH", *words])
        name = f"{path}_{max(option.opts, key=len).lstrip('-')}".upper().replace("-", "_")
        monkeypatch.setenv(name, "given")
        context = click.Context(click.Command("x"), auto_envvar_prefix=path.upper().replace("-", "_"))
        assert option.resolve_envvar_value(context) == "given", name


def test_wrong_and_right_exclude_each_other(command, tmp_path):
    done = command("show", tmp_path, "--wrong", "--right")
    assert done.exit_code == 2 and "--wrong and --right can't be combined" in done.stderr


def test_an_interrupted_run_is_to_be_run_again(command, home, tmp_path):
    (tmp_path / "half" / "journal").mkdir(parents=True)
    for words in (["evaluate"], ["check", "--submission"], ["show"], ["compare", tmp_path / "half"]):
        done = command(*words, tmp_path / "half", "--home", home)
        assert done.exit_code == 1
        assert "Run the same command again" in (done.stdout + done.stderr).replace("\n", " "), words


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("tasks sst", "For details, run cli tasks show NAME."),
        ("prepare --tasks squad", "Name the tasks without the option: cli prepare squad sst."),
    ],
)
def test_misspelled_commands_get_a_suggestion(command, words, says):
    done = command(*words.split())
    assert done.exit_code == 2 and done.stderr.strip().endswith(says)


def test_a_task_of_ones_own_without_training_data_says_so(command, own_task, tmp_path):
    file, home = own_task(["one", "two"]), tmp_path / "home"
    file.write_text(file.read_text().replace('train = "rows.jsonl"\n', ""))
    assert not command("prepare", "own", "--include", file, "--home", home).exit_code
    for predictor in ("majority", "random"):
        asked = ["predict", "--predictor", predictor, "--tasks", "own", "--include", file, "--home", home]
        message = said(command(*asked, "--output", tmp_path / "s"))
        assert 'own has no train split (to add this split, write train = "FILE" under [files] in' in message
        assert "decabench prepare" not in message
    for asked in (["tasks", "validate", "own"], ["tasks", "show", "own"]):
        done = command(*asked, "--split", "test", "--include", file, "--home", home)
        assert "own has no test split" in done.output and "Use --split validation" in done.output


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (
            ["suites", "sst"],
            "Choose from show, or run cli suites for a list. For details, run cli suites show NAME.",
        ),
        (["evaluate", "-tasks", "sst"], "Options begin with two dashes"),
        (["run", "--set", "prepare.samples=true"], "no [prepare] setting 'samples'. Did you mean sample?"),
        (["--home", "data", "tasks"], "Put a command's options after its name"),
        (["run", "--limit", "20"], "a setting instead: --set predict.limit=…"),
        (
            ["run", "--set", "limit=20"],
            "'limit' must be given in the table [predict], or as --set predict.limit=VALUE;",
        ),
        (["prepare", "sst", "--suite", "sst", "--sample"], "sst is a task, not a suite"),
        (["tasks", "show", "sst,schema"], "sst,schema lists 2 tasks, but only one task is allowed"),
        (["tasks", "--include", "own.toml", "--include", "own.toml"], "own.toml is included more than once"),
        (["predict", "--predictor", "majority", "--tasks", "sst", "schema"], "--tasks sst,schema"),
        (
            ["predict", "--predictor", "majority", "--tasks", "sst", "--ids", "none.txt", "--output", "s"],
            "There is no file none.txt",
        ),
    ],
)
def test_words_and_options_in_the_wrong_place(command, own_task, monkeypatch, tmp_path, arguments, advice):
    own_task(["a"])
    monkeypatch.chdir(tmp_path)
    assert advice in said(command(*arguments))


def test_own_files_are_not_to_be_fetched_again(command, own_task, home, tmp_path):
    path = own_task(["a"])
    (tmp_path / "rows.jsonl").write_text("")
    message = said(command("prepare", "own", "--include", path, "--home", tmp_path / "home"))
    assert "rows.jsonl is empty. Replace the file" in message and "--mirror" not in message


def test_a_file_of_answers_is_no_submission(command, home, tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text('{"id": "sst.validation.0", "answer": "negative"}\n')
    done = command("check", path, "--home", home)
    assert "DIR/predictions/TASK.SPLIT.jsonl" in done.output
    for format in ("csv", "squad", "lm-eval"):
        path.write_text('{"id": "a", "prediction": "x"}\n{"id": "b", "prediction": "y"}\n')
        given = ["import", format, path, "--task", "sst", "--output", tmp_path / "o", "--name", "n"]
        message = said(command(*given, "--home", home))
        assert "be imported. Rename the key 'prediction' to 'answer', move the file to DIR" in message


def test_numbers_for_labels_are_told_of_the_option(command, home, tmp_path):
    rows = "".join(f"sst.validation.{number},{number % 2}\n" for number in range(32))
    path = tmp_path / "answers.csv"
    given = [
        "import",
        "csv",
        path,
        "--task",
        "sst",
        "--output",
        tmp_path / "o",
        "--name",
        "n",
        "--home",
        home,
    ]
    path.write_text(rows)
    assert "a header line such as id,answer" in said(command(*given))
    path.write_text(f"id,answer\n{rows}")
    assert "--label FILE=DATASET" in command(*given).stdout
