"""Help in sections."""

import click
from click.testing import CliRunner

from decabench.commands._options import SectionedCommand, section


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
