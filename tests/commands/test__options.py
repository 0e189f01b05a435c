import subprocess
import sys

import click
import pytest

from decabench.commands._options import chosen_tasks
from decabench.errors import UnknownNameError
from decabench.tasks import DECATHLON


def test_the_tasks_that_are_chosen(tmp_path):
    assert chosen_tasks((), ()) is None
    assert chosen_tasks(("all",), ()) is None
    assert chosen_tasks(("sst, squad", "sst"), ()) == ["sst", "squad"]
    assert chosen_tasks((), (), "decathlon") == list(DECATHLON.tasks)
    assert chosen_tasks(("all",), (), "decathlon") == list(DECATHLON.tasks)
    assert chosen_tasks(("zre,sst",), (), "decathlon") == ["zre", "sst"]
    path = tmp_path / "two.toml"
    path.write_text('format = "decabench.suite/1"\nname = "two"\ntasks = ["sst", "schema"]\n')
    assert chosen_tasks((), [path], "two") == ["sst", "schema"]
    with pytest.raises(
        click.UsageError, match="--tasks names squad, zre, but the suite two has only sst, schema"
    ):
        chosen_tasks(("squad,sst,zre",), [path], "two")
    with pytest.raises(click.UsageError, match="--tasks is empty"):
        chosen_tasks((" ,",), ())
    with pytest.raises(UnknownNameError, match=r"no suite 'tow'\. Did you mean two"):
        chosen_tasks((), [path], "tow")
    with pytest.raises(UnknownNameError, match=r"no task 'ssst'\. Did you mean sst"):
        chosen_tasks(("ssst",), [path], "two")


def test_help_of_the_commands_loads_no_room_of_the_options():
    program = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from decabench.cli import cli\n"
        "assert 'predict' in CliRunner().invoke(cli, ['--help']).output\n"
        "assert 'decabench.runs' not in sys.modules\n"
        "assert '--temperature' in CliRunner().invoke(cli, ['predict', '--help']).output\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "arguments", [("train", "--output", "run"), ("analyze", "pointers", ".", "--output", "x")]
)
def test_a_missing_extra_is_wrong_usage_everywhere(command, monkeypatch, arguments):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = command(*arguments)
    assert done.exit_code == 2 and "torch and safetensors are not installed: run pip install" in done.stderr
