"""The command line: `decabench COMMAND`. Errors are one sentence; `--debug` shows where they came from."""

from __future__ import annotations

import os
import traceback
import warnings
from typing import Any

import click

import decabench
from decabench.commands.analyze import analyze
from decabench.commands.check import check
from decabench.commands.compare import compare
from decabench.commands.evaluate import evaluate
from decabench.commands.export import export
from decabench.commands.leaderboard import leaderboard
from decabench.commands.metrics import metrics
from decabench.commands.predict import predict
from decabench.commands.prepare import prepare
from decabench.commands.suites import suites
from decabench.commands.tasks import tasks
from decabench.commands.train import train
from decabench.commands.vectors import vectors
from decabench.commands.verify import verify
from decabench.metrics import DecabenchError

__all__ = ["cli", "main"]

_INTERRUPTED = 130
_UNFORESEEN = 70
_EPILOG = (
    "Exit codes: 0 done; 1 what was checked has faults; 2 wrong usage; 3 data missing or damaged; "
    "70 a fault of decabench itself; 130 interrupted."
)


def _debug_option() -> click.Option:
    # On every command, so that it may stand anywhere in the line; worker processes inherit the variable.
    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Show the traceback of an error.",
    )


def _set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        os.environ["DECABENCH_DEBUG"] = "1"


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"Warning: {message}", err=True)


class _Sentences(click.Group):
    """A group that turns every error into one sentence and the right exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; whatever it raises ends as a sentence."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except KeyboardInterrupt:
            _fail(
                "Interrupted: nothing is left half-written; run the same command again to go on.",
                _INTERRUPTED,
            )
        except DecabenchError as error:
            _fail(str(error), error.exit_code)
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            _fail(
                f"Unforeseen {type(error).__name__}: {error}. Run again with --debug and report it.",
                _UNFORESEEN,
            )


class _Failure(click.ClickException):
    """What click shows as `Error: ...` and ends with."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance


def _fail(sentence: str, exit_code: int) -> None:
    if os.environ.get("DECABENCH_DEBUG"):
        traceback.print_exc()
    raise _Failure(sentence, exit_code) from None


@click.group(
    cls=_Sentences,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@click.version_option(decabench.__version__, prog_name="decabench")
def cli() -> None:
    """Measure one model on ten language tasks, with scores that agree with the official scorers.

    The way of a number: prepare the data, predict (or bring a submission), check, evaluate, leaderboard.
    """


for command in (
    prepare,
    tasks,
    suites,
    metrics,
    predict,
    check,
    evaluate,
    verify,
    compare,
    leaderboard,
    vectors,
    train,
    export,
    analyze,
):
    cli.add_command(command)


def _add_debug(command: click.Command) -> None:
    command.params.append(_debug_option())
    for child in command.commands.values() if isinstance(command, click.Group) else ():
        _add_debug(child)


_add_debug(cli)


def main() -> None:
    """The console script."""
    os.environ.pop("DECABENCH_DEBUG", None)
    cli()


if __name__ == "__main__":
    main()
