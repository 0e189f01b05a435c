"""`command:`: programs that it finds, programs that it refuses, and its description."""

import hashlib
import json
import pickle
import shlex
import sys
from pathlib import Path

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.program import backend
from decabench.predictors.protocol import ModelOptions
from tests.predictors.asking import outcomes, questions

EXAMPLE = Path(__file__).parents[2] / "examples" / "echo_model.py"


def test_words_are_split_as_a_shell_does_and_no_shell_reads_them(tmp_path):
    script = tmp_path / "my model.py"
    script.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'answer': repr(sys.argv[1:])}), flush=True)\n"
    )
    made = backend(f"'{sys.executable}' '{script}' --flag \"a b\" $HOME ';' '*' | x", ModelOptions())
    assert outcomes(made, questions(1))["q0"].text == repr(["--flag", "a b", "$HOME", ";", "*", "|", "x"])


def test_what_it_says_of_itself(tmp_path):
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"weights")
    program = tmp_path / "model"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    line = f"{program} --weights {weights} --other nowhere --name nothing"
    made = backend(line, ModelOptions(revision="v2", seed=4, timeout=10))

    def digest(content):
        return f"sha256:{hashlib.sha256(content).hexdigest()}"

    assert made.describe() == {
        "command": line,
        "files": {str(program): digest(b"#!/bin/sh\n"), str(weights): digest(b"weights")},
        "seed": 4,
        "revision": "v2",
    }
    json.dumps(made.describe())
    weights.write_bytes(b"other weights")
    assert made.describe()["files"][str(weights)] == digest(b"other weights")
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "requires a command line"),
        ("  ", "requires a command line"),
        ("'unclosed", "no closing quotation"),
        ("no-such-program-here --flag", "no program no-such-program-here on the PATH"),
        ("./no-such-program", r"no program ./no-such-program\. Check"),
        ("/", r"no program /\. Check"),
        (str(EXAMPLE), "is not executable. Run chmod"),
    ],
)
def test_lines_that_are_refused(line, message):
    with pytest.raises(DecabenchError, match=message) as caught:
        backend(line, ModelOptions())
    assert caught.value.exit_code == 2


def test_a_program_that_cannot_be_started(tmp_path):
    program = tmp_path / "model"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    with pytest.raises(DecabenchError, match=r"model can't be started \(No such file"):
        outcomes(backend(str(program), ModelOptions()), questions(1))


@pytest.mark.parametrize("form", ["{}", "--weights={}"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_changed_weights_are_another_model(tmp_path, form, kind):
    weights = tmp_path / "weights"
    place = weights if kind == "file" else weights / "deep" / "model.bin"
    place.parent.mkdir(parents=True, exist_ok=True)
    described = []
    for content in ("old", "new", "old"):
        place.write_text(content)
        line = f"{shlex.quote(sys.executable)} model.py {form.format(weights)}"
        described.append(backend(line, ModelOptions()).describe())
    assert described[0] == described[2] != described[1]


def test_a_folder_of_very_many_files_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("decabench.predictors.program.MOST_FILES", 3)
    for number in range(4):
        (tmp_path / str(number)).touch()
    line = f"{shlex.quote(sys.executable)} {tmp_path}"
    assert list(backend(line, ModelOptions()).describe()["files"]) == [sys.executable]
