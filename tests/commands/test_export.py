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
