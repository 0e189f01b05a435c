"""`decabench export`: its subcommands, and a checkpoint in place of one. What they write: tests/exchange."""

import pytest


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (("--help",), "Usage: cli export [OPTIONS] COMMAND [ARGS]..."),
        ((), "Usage: cli export [OPTIONS] COMMAND [ARGS]..."),
        (("results", "--help"), "Usage: cli export results [OPTIONS] SUBMISSIONS..."),
        (("tasks", "--help"), "Usage: cli export tasks [OPTIONS] [TASK]..."),
        (("weights", "--help"), "Usage: cli export weights [OPTIONS] CHECKPOINT"),
        (("--debug", "results", "--help"), "Usage: cli export results [OPTIONS] SUBMISSIONS..."),
    ],
)
def test_usage(command, arguments, usage):
    assert usage in command("export", *arguments).output


@pytest.mark.parametrize("before", [(), ("--debug",), ("--words", "3")])
def test_a_checkpoint_stands_for_its_weights(command, tmp_path, before):
    """Even into a folder that is named like a subcommand; here there is none to export."""
    done = command("export", *before, tmp_path / "no-run", "--output", "results")
    assert done.exit_code == 2
    assert "Usage: cli export weights" in done.stderr
    assert "does not exist" in done.stderr


def test_the_choices_of_a_missing_option_are_one_sentence(command, tmp_path):
    """Tabs and line ends were printed as such (found by a reader)."""
    done = command("export", "tasks", "sst", "--output", tmp_path / "t")
    assert "Error: Missing option '--for'. Choose from: lm-eval, inspect\n" in done.stderr


def test_what_has_no_results_is_no_archive(command, tmp_path):
    (tmp_path / "README.md").touch()
    done = command("export", "results", tmp_path / "README.md")
    assert "README.md has no results: give the folder of a submission, a results.json, or" in done.stderr
