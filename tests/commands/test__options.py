"""Help in sections, and which tasks the options choose."""

import click
import pytest
from click.testing import CliRunner

from decabench.commands._options import SectionedCommand, chosen_tasks, section
from decabench.errors import UnknownNameError
from decabench.tasks import DECATHLON


def test_every_option_stands_under_its_heading():
    fruit = section("Fruit")

    @click.command(cls=SectionedCommand)
    @click.option("--plain", help="A plain one.")
    @fruit("--apple", help="Red.")
    @section("Wood")("--oak", help="Hard.")
    @fruit("--pear", hidden=True, help="Never seen.")
    def command(plain, apple, oak, pear): ...

    text = CliRunner().invoke(command, ["--help"]).output
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options:", "Fruit:", "Wood:"]
    options, _, rest = text.partition("Fruit:")
    assert "--plain" in options and "--apple" not in options
    assert "--apple" in rest.partition("Wood:")[0] and "--oak" in rest.partition("Wood:")[2]
    assert "--pear" not in text


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
        click.UsageError, match="--tasks names squad, zre, and the suite two has only sst, schema"
    ):
        chosen_tasks(("squad,sst,zre",), [path], "two")
    with pytest.raises(click.UsageError, match="--tasks names no task"):
        chosen_tasks((" ,",), ())
    with pytest.raises(UnknownNameError, match=r"no suite 'tow'\. Did you mean two"):
        chosen_tasks((), [path], "tow")
    with pytest.raises(UnknownNameError, match=r"no task 'ssst'\. Did you mean sst"):
        chosen_tasks(("ssst",), [path], "two")
