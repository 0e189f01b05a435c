"""Options in sections, options made from the fields of dataclasses, and which tasks the options choose."""

import subprocess
import sys
from dataclasses import dataclass, field, fields

import click
import pytest
from click.testing import CliRunner

from decabench.commands._options import SectionedCommand, chosen_tasks, fill, options_of, section
from decabench.errors import UnknownNameError
from decabench.predictors.protocol import OptionInfo, option
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
        click.UsageError, match="--tasks names squad, zre, but the suite two has only sst, schema"
    ):
        chosen_tasks(("squad,sst,zre",), [path], "two")
    with pytest.raises(click.UsageError, match="--tasks names no task"):
        chosen_tasks((" ,",), ())
    with pytest.raises(UnknownNameError, match=r"no suite 'tow'\. Did you mean two"):
        chosen_tasks((), [path], "tow")
    with pytest.raises(UnknownNameError, match=r"no task 'ssst'\. Did you mean sst"):
        chosen_tasks(("ssst",), [path], "two")


@dataclass(frozen=True)
class Fruit:
    kind: str = field(metadata={"option": OptionInfo("Which one.", metavar="NAME")})
    count: int = option(1, "How many.", at_least=1)
    weight: float | None = option(None, "Kilograms.", section="Scales", above=0, at_most=5, unset="unknown")
    is_ripe: bool = option(False, "Ready to eat.", flag="--ripe")
    washed: bool | None = option(None, "Clean.", flag="--washed/--unwashed")
    names: tuple[str, ...] = option((), "Other names.", flag="--name")
    size: str | None = option(None, "Its size.", choices=("small", "large"))
    price: int | None = option(None, "In cents, or free.", parse=lambda text: parse_price(text))
    secret: str = "no option"


def parse_price(text):
    if text == "free":
        return 0
    raise ValueError(f"{text!r} is not free.")


@click.command(cls=SectionedCommand, options=lambda: [options_of(Fruit)])
@click.option("--late", is_flag=True, help="After those of the fields.")
def pick(late, **given):
    click.echo(repr(fill(Fruit, given)))


def picked(*arguments):
    return CliRunner().invoke(pick, list(arguments))


def test_fields_become_options():
    text = picked("--help").output
    options, _, scales = text.partition("Scales:")
    for line in (
        "--kind NAME           Which one.  [required]",
        "--count INTEGER RANGE How many.  [default: 1; x>=1]",
        "--ripe                Ready to eat.",
        "--washed / --unwashed Clean.",
        "--name TEXT           Other names.",
        "--size [small|large]  Its size.",
    ):
        assert " ".join(line.split()) in " ".join(options.split())
    assert "--weight FLOAT RANGE Kilograms. [default: unknown] [0<x<=5]" in " ".join(scales.split())
    assert options.index("--price") < options.index("--late") and "--secret" not in text


def test_a_dataclass_is_filled_with_what_was_given():
    assert picked("--kind", "fig").output == repr(Fruit("fig")) + "\n"
    words = "--kind fig --count 3 --weight 0.5 --ripe --unwashed --name a --name b --size large --price free"
    filled = Fruit("fig", 3, 0.5, True, False, ("a", "b"), "large", 0)
    assert picked(*words.split()).output == repr(filled) + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Missing option '--kind'"),
        ("--kind fig --count 0", "0 is not in the range x>=1"),
        ("--kind fig --weight 0", "0.0 is not in the range 0<x<=5"),
        ("--kind fig --size huge", "'huge' is not one of 'small', 'large'"),
        ("--kind fig --price 5", "Invalid value for '--price': '5' is not free."),
    ],
)
def test_values_that_are_refused(words, message):
    done = picked(*words.split())
    assert done.exit_code == 2 and message in done.output


def test_some_of_the_fields():
    @click.command()
    @options_of(Fruit, "count", "is_ripe")
    def command(**given):
        click.echo(repr(given))

    assert CliRunner().invoke(command, []).output == repr({"count": 1, "is_ripe": False}) + "\n"


def test_every_option_of_predict_comes_from_one_place():
    """A field that is declared an option is one, under the section and with the default that it declares."""
    from decabench.commands.predict import predict
    from decabench.predictors.protocol import ModelOptions
    from decabench.runs.plan import Prompts, Run, Selection

    made = {
        parameter.name: parameter
        for parameter in predict.get_params(click.Context(predict, help_option_names=["-h", "--help"]))
    }
    for owner in (ModelOptions, Prompts, Run, Selection):
        for declared in fields(owner):
            if info := declared.metadata.get("option"):
                assert made[declared.name].help.startswith(info.help)
                assert made[declared.name].section == (info.section or "Options")
    assert fill(ModelOptions, {name: parameter.default for name, parameter in made.items()}) == ModelOptions()


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
