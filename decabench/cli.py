"""The command line: `decabench COMMAND`. An error is one sentence; `--debug` shows its traceback."""

from __future__ import annotations

import os
import traceback
import warnings
from collections import UserDict
from collections.abc import Iterator
from importlib import import_module
from keyword import iskeyword
from typing import Any, NoReturn

import click

import decabench
from decabench.text import terminal_safe

__all__ = ["cli", "main"]

_COMMANDS = (
    "analyze",
    "check",
    "compare",
    "evaluate",
    "export",
    "import",
    "leaderboard",
    "metrics",
    "predict",
    "prepare",
    "run",
    "show",
    "suites",
    "tasks",
    "train",
    "vectors",
    "verify",
)
"""Each is a function in a file of that name in `commands/`; `import`, a keyword, is `import_` there."""

_INTERRUPTED = 130
_BUG = 70
_EPILOG = (
    "Exit codes: 0 done; 1 what was checked has faults; 2 wrong usage; 3 data missing or damaged; "
    "4 a model or server failed; 70 a bug in decabench; 130 interrupted."
)


class _LazyCommands(UserDict[str, click.Command]):
    """The commands by name, each imported when it is first looked up."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in self.data and name in _COMMANDS:
            own = f"{name}_" if iskeyword(name) else name
            command: click.Command = getattr(import_module(f"decabench.commands.{own}"), own)
            children = command.commands.values() if isinstance(command, click.Group) else ()
            for each in (command, *children):
                each.params.append(_debug_option())
                each.short_help = each.short_help or _first_sentence(each.help or "")
            self.data[name] = command
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in _COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


def _first_sentence(help_text: str) -> str:
    """Return the first sentence of a help text whole: click would cut it to fit a line."""
    paragraph = " ".join(help_text.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."


def _debug_option() -> click.Option:
    """Make `--debug`. Every command has one, so that it works anywhere in the line."""
    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Show the traceback of an error.",
    )


def _set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        os.environ["DECABENCH_DEBUG"] = "1"  # worker processes inherit it


class _Cli(click.Group):
    """A group that turns every error into one sentence and the right exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except KeyboardInterrupt:
            _fail(
                "Interrupted: nothing is left half-written; run the same command again to continue.",
                _INTERRUPTED,
            )
        except click.ClickException as error:
            object.__setattr__(error, "message", terminal_safe(error.message))  # final in its type
            raise
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            from decabench.errors import DecabenchError

            if isinstance(error, DecabenchError):
                _fail(str(error), error.exit_code)
            _fail(
                f"Unexpected {type(error).__name__}: {error}. Run again with --debug and report the traceback.",
                _BUG,
            )


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(terminal_safe(f"Warning: {message}"), err=True)


class _Failure(click.ClickException):
    """Shown by click as `Error: …`."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance


def _fail(sentence: str, exit_code: int) -> NoReturn:
    if os.environ.get("DECABENCH_DEBUG"):
        click.echo(terminal_safe(traceback.format_exc()), err=True)
    raise _Failure(terminal_safe(sentence), exit_code) from None


@click.group(
    cls=_Cli,
    commands=_LazyCommands(),
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "auto_envvar_prefix": "DECABENCH",  # every option of every command, as DECABENCH_PREDICT_LIMIT
    },
    epilog=_EPILOG,
)
@click.version_option(decabench.__version__, prog_name="decabench")
def cli() -> None:
    """Measure one model on ten language tasks, with scores that agree with the official scorers.

    Typical workflow: prepare the data, predict (or bring a submission), check, evaluate, leaderboard.
    """


cli.params.append(_debug_option())


def main() -> None:
    """Run the console script."""
    os.environ.pop("DECABENCH_DEBUG", None)
    cli(obj="console")  # a process of its own, which commands may fork


if __name__ == "__main__":
    main()
