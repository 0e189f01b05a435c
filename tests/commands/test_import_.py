"""`decabench import`: options by format, exit codes, the report. tests/exchange/test_imports.py checks the matching."""

import json

import pytest

from decabench.tasks import Store


@pytest.fixture
def predictions(home, tmp_path):
    """Return a file of correct SQuAD predictions, and its content."""
    gold = {row.id: row.answers[0] for row in Store(home).examples("squad", "validation")}
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps(gold))
    return path, gold


def test_a_file_becomes_a_submission_that_is_checked_and_scored(command, home, predictions, tmp_path):
    out = tmp_path / "out"
    done = command(
        *("import", "squad", predictions[0], "--task", "squad", "--output", out, "--home", home),
    )
    assert done.exit_code == 0, done.output
    assert done.stdout == (
        "32 of 32 examples matched by id; answers used as given.\n"
        "predictions/squad.validation.jsonl: 32 of 32 answers\n"
        "out: valid\n"
        f"Score it: decabench evaluate {out}\n"
    )
    scored = command("evaluate", out, "--tasks", "squad", "--home", home)
    assert scored.exit_code == 0
    assert "out, validation" in scored.stdout
    again = command(
        *("import", "squad", predictions[0], "--task", "squad", "--output", out, "--home", home),
        *("--force", "--quiet"),
    )
    assert again.exit_code == 0 and "Score it" not in again.stdout


def test_the_report_has_every_faulty_row(command, home, tmp_path):
    path, report = tmp_path / "predictions.json", tmp_path / "report.jsonl"
    path.write_text(json.dumps({f"nobody.{number}\x1b[2J": "x" for number in range(30)}))
    done = command(
        *("import", "squad", path, "--task", "squad", "--output", tmp_path / "out", "--name", "x"),
        *("--home", home, "--report", report),
    )
    assert done.exit_code == 1
    assert "none of the 30 rows has the id of an example" in done.stderr
    assert "Nothing was written." in done.stderr
    assert "\x1b" not in done.output
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert len(rows) == 30
    assert {row["code"] for row in rows} == {"unknown-id"}
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("text", "--filter", "none"), "--filter is only for lm-eval, but the format is text"),
        (("squad", "--id", "x"), "--id is only for csv and lm-eval"),
        (("csv", "--epoch", "2"), "--epoch is only for inspect, but the format is csv"),
        (("csv", "--label", "1"), "the form FILE=DATASET"),
        (("csv", "--label", "1=a", "--label", "1=b"), "--label lists '1' more than once"),
    ],
)
def test_wrong_usage(command, home, tmp_path, arguments, says):
    path = tmp_path / "given"
    path.write_text("")
    format, *options = arguments
    done = command("import", format, path, "--task", "sst", "--output", tmp_path / "out", *options)
    assert done.exit_code == 2
    assert says in done.stderr


def test_data_that_is_not_prepared(command, predictions, tmp_path):
    done = command(
        *("import", "squad", predictions[0], "--task", "squad", "--output", tmp_path / "out", "--name", "x"),
        *("--home", tmp_path / "nowhere"),
    )
    assert done.exit_code == 3
    assert "decabench prepare squad" in done.stderr


def test_labels_that_no_answer_has_are_named(command, home, tmp_path):
    """Before, the message said that they were replaced."""
    path = tmp_path / "b.csv"
    path.write_text("id,answer\n" + "".join(f"{id_},1\n" for id_ in Store(home).ids("sst", "validation")))
    options = ("--task", "sst", "--output", tmp_path / "out", "--name", "x", "--home", home, "--force")
    done = command("import", "csv", path, *options, "--label", "0=positive")
    assert "; labels that no answer has: 0.\n" in done.stdout and "replaced" not in done.stdout
    done = command("import", "csv", path, *options, "--label", "0=positive", "--label", "1=negative")
    assert "; labels replaced: negative for 1; labels that no answer has: 0.\n" in done.stdout


def test_an_import_that_would_fail_is_not_sent_to_evaluate(command, home, predictions, tmp_path):
    path, gold = predictions
    path.write_text(json.dumps(dict(list(gold.items())[:5])))
    options = ("--task", "squad", "--output", tmp_path / "out", "--name", "x", "--home", home)
    done = command("import", "squad", path, *options)
    assert done.exit_code == 1 and "Score it" not in done.stdout
    assert "27 examples have no answer, so evaluate would mark squad as failed" in done.stdout
    done = command("import", "squad", path, *options, "--force", "--partial")
    assert done.exit_code == 0 and f"Score it: decabench evaluate {tmp_path / 'out'}\n" in done.stdout
