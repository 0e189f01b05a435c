"""The command-line interface, `decabench COMMAND`.

Each error is printed as one sentence, with a traceback if `--debug` is given.
"""

from __future__ import annotations

import faulthandler
import io
import os
import re
import sys
import traceback
import warnings
from collections import UserDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from keyword import iskeyword
from typing import IO, TYPE_CHECKING, Any, NoReturn

import click

import decabench
from decabench.text import fold, terminal_safe

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_COMMANDS = {
    "analyze": "Analyze where a trained model's answers come from and what the model attends to.",
    "check": "Report every fault in a submission, with its file, line and code.",
    "compare": "Test whether two submissions differ on each task, or compare every pair of several submissions.",
    "evaluate": "Score a submission, print a table, and write results.json and files of scored examples.",
    "export": "Export results, tasks or a trained model to other programs and machines.",
    "import": "Create a submission from another program's answers, and check it.",
    "leaderboard": "Score submissions, and write the leaderboard "
    "as a static site that you can open directly from disk.",
    "metrics": "List the metrics with their definitions, their ranges, and the scorers that they reproduce.",
    "predict": "Answer the questions in prepared tasks and write a submission.",
    "prepare": "Convert the datasets' published files to examples on disk.",
    "review": "Check and score submissions from other people, and show where they would rank.",
    "run": "Prepare data, ask a model, and check, score and compare its answers, as described in FILE (TOML).",
    "show": "Show what a submission got right and wrong, example by example.",
    "suites": "List the suites, which are groups of tasks, and how their scores are combined.",
    "tasks": "List the tasks with their sizes and prepared data.",
    "train": "Train a model on any set of tasks.",
    "vectors": "Train or convert word vectors for `decabench train --set vectors='[…]'`.",
    "verify": "Score a submission again, and report every difference from its results file.",
}
"""The first sentence of each command's help, so that commands can be listed without importing them.

Each command is a function in `commands/NAME.py`. For `import`, the file and function are named
`import_`.
"""

_INTERRUPTED = 130
_BUG = 70
_PIPE_CLOSED = 141
"""The exit code that a shell reports for a program killed by SIGPIPE."""
_OUTPUT = "standard output"
_EPILOG = (
    "Exit codes: 0 success; 1 faults found; 2 wrong usage; 3 data missing or damaged, or not enough "
    "disk space or memory; 4 a model or server failed; 70 a bug in decabench; 130 interrupted."
)


class _LazyCommands(UserDict[str, click.Command]):
    """A mapping from names to commands, which are imported on first access."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in self.data and name in _COMMANDS:
            own = f"{name}_" if iskeyword(name) else name
            command: click.Command = getattr(import_module(f"decabench.commands.{own}"), own)
            children = command.commands.values() if isinstance(command, click.Group) else ()
            for each in (command, *children):
                each.params += _shared_options()
            for child in children:
                child.short_help = _first_sentence(child.help or "")
            self.data[name] = command
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in _COMMANDS

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


def _first_sentence(help_text: str) -> str:
    """Return the first sentence of a help text. By default, click would shorten the text to fit the line."""
    paragraph = " ".join(help_text.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."


_SHARED_OPTIONS = {
    "json": "Print the result and any error as JSON (see docs/json.md).",
    "quiet": "Print only the result and errors: no progress, no advice.",
    "no-color": "Print without colors or other styles, as with NO_COLOR=1.",
    "debug": "Show the traceback of an error.",
}
"""Options that every command accepts, before or after its name."""


def _shared_options() -> list[click.Option]:
    return [
        click.Option([f"--{name}"], is_flag=True, expose_value=False, callback=_set, help=text)
        for name, text in _SHARED_OPTIONS.items()
    ]


def _set(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Apply a shared option.

    `--debug` is stored in the environment, and the other options in the context's `meta`, which
    `decabench.commands._console` reads.
    """
    if not value:
        return
    match parameter.name:
        case "debug":
            os.environ["DECABENCH_DEBUG"] = "1"  # worker processes inherit it
        case "json":
            _set_json(context)
        case "no_color":
            context.meta["decabench.color"] = False
        case name:
            context.meta[f"decabench.{name}"] = True


def _set_json(context: click.Context) -> None:
    """Reserve standard output for JSON, and redirect all other output to standard error.

    If standard output is a real file, this includes output from subprocesses and C libraries.
    """
    if "decabench.stdout" in context.meta:
        return
    whole = sys.stdout
    whole.flush()
    context.meta.update({"decabench.json": True, "decabench.stdout": whole})
    context.call_on_close(
        lambda: setattr(sys, "stdout", whole)
    )  # for tests, which continue in the same process
    sys.stdout = sys.stderr
    try:
        if whole.fileno() == 1:
            own = _stream(_Output(os.dup(1), "w"), "utf-8")
            os.dup2(sys.stderr.fileno(), 1)
            context.meta["decabench.stdout"] = own
    except (OSError, ValueError):
        pass  # in tests, standard output isn't a real file


class _Cli(click.Group):
    """A command group that reports every error as one sentence with the right exit code."""

    def make_context(
        self, info_name: str | None, args: list[str], *given: Any, **settings: Any
    ) -> click.Context:
        """Parse the options that precede the command name."""
        # If an invalid option comes before --json, click never reads --json, but errors should still be JSON.
        before = args[: args.index("--")] if "--" in args else args
        is_forced = os.environ.get("FORCE_COLOR", "0") not in ("", "0")
        color = False if os.environ.get("NO_COLOR") else is_forced or None
        meta = {"decabench.json_errors": "--json" in before, "decabench.color": color}
        try:
            context = super().make_context(info_name, args, *given, **settings)
        except click.ClickException as error:
            _fail_as(error, meta)
        except (OSError, MemoryError) as error:  # while printing --help or --version
            _fail_unexpected(error, meta)
        context.meta.update({**meta, **context.meta})
        return context

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = partial(_show_warning, ctx)
                return super().invoke(ctx)
        except KeyboardInterrupt as error:  # a command may give its own advice
            _fail(
                str(error) or "Interrupted. Run the same command again to continue.",
                getattr(error, "exit_code", _INTERRUPTED),
                ctx.meta,
            )
        except click.ClickException as error:
            _fail_as(error, ctx.meta)
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            _fail_unexpected(error, ctx.meta)


def _fail_unexpected(error: Exception, meta: Mapping[str, Any]) -> NoReturn:
    is_output = isinstance(error, OSError) and error.filename == _OUTPUT
    if is_output or isinstance(
        error, BrokenPipeError
    ):  # prevents an error when Python flushes the stream on exit
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), (meta.get("decabench.stdout") or sys.stdout).fileno())
    if isinstance(error, BrokenPipeError):  # the reader closed the pipe; exit code 1 is reserved for faults
        raise click.exceptions.Exit(_PIPE_CLOSED)
    from decabench.errors import DecabenchError, StorageError
    from decabench.files import explain_refusal

    code = StorageError.exit_code
    if isinstance(error, DecabenchError):
        sentence, code = str(error), error.exit_code
    elif isinstance(error, MemoryError):
        sentence = f"Not enough memory{f' ({error})' if str(error) else ''}. {_LESS_MEMORY}"
    elif isinstance(error, OSError) and is_output:
        sentence = f"Can't write to standard output ({error.strerror}). Redirect the output somewhere else."
    elif isinstance(error, OSError) and error.errno:
        sentence = explain_refusal(error)
    else:
        sentence, code = f"Unexpected {type(error).__name__}: {error}. {_REPORT}", _BUG
    _fail(sentence, code, meta, error)


_REPORT = "Run again with --debug and report the traceback."
_LESS_MEMORY = "Close other programs, use fewer --jobs or --workers, or use a machine with more memory."


def _show_warning(context: click.Context, message: Warning | str, *_: Any, **__: Any) -> None:
    if not context.meta.get("decabench.quiet"):
        click.echo(terminal_safe(f"Warning: {message}"), err=True)


class _CliError(click.ClickException):
    """An error printed as a sentence on standard error and, with `--json`, as an object on standard output."""

    def __init__(
        self, sentence: str, exit_code: int, meta: Mapping[str, Any], error: BaseException | None
    ) -> None:
        super().__init__(terminal_safe(sentence))
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance
        self.meta = meta
        self.error = error

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error, wrapped at word boundaries on a terminal."""
        context = self.error.ctx if isinstance(self.error, click.UsageError) else None
        if context is not None:
            click.echo(context.get_usage(), err=True)
            option = max(context.help_option_names, key=len)
            click.echo(f"Try '{context.command_path} {option}' for help.\n", err=True)
        click.echo(_wrapped(f"Error: {self.message}"), err=True)
        if self.meta.get("decabench.json_errors") or self.meta.get("decabench.json"):
            import json

            kind = "Interrupted" if self.error is None else type(self.error).__name__
            if isinstance(self.error, click.UsageError):
                kind = "UsageError"
            error = {"kind": kind, "message": self.message, "exit_code": self.exit_code}
            content = {"format": "decabench.error/1", "error": error}
            stream = self.meta.get("decabench.stdout") or sys.stdout
            with suppress(OSError):  # such as a full disk; the error is already on standard error
                stream.write(f"{json.dumps(content, ensure_ascii=False, indent=1)}\n")
                stream.flush()


def _wrapped(text: str) -> str:
    if not sys.stderr.isatty():
        return text
    import shutil

    return fold(text, min(shutil.get_terminal_size().columns, 80))


def _fail(
    sentence: str, exit_code: int, meta: Mapping[str, Any], error: BaseException | None = None
) -> NoReturn:
    if os.environ.get("DECABENCH_DEBUG"):
        click.echo(terminal_safe(traceback.format_exc()), err=True)
    raise _CliError(sentence, exit_code, meta, error) from None


_PLAINER = (
    (r"^Invalid value for '\[(.*?)\]'", r"Invalid value for '\1'"),
    (r"is not a valid integer( range)?\.", "is not a whole number."),
    (r"is not a valid float( range)?\.", "is not a number."),
    (r"is not in the range x>=(\S+)\.", r"is not allowed. The value must be at least \1."),
    (r"is not in the range x>(\S+)\.", r"is not allowed. The value must be greater than \1."),
    (r"is not in the range (\S+)<=x<=(\S+)\.", r"is not allowed. The value must be between \1 and \2."),
    (
        r"is not in the range (\S+)<x<=(\S+)\.",
        r"is not allowed. The value must be greater than \1 and at most \2.",
    ),
    (r"Directory ('.*') is a file\.", r"\1 is a file, not a folder."),
    (r"File ('.*') is a directory\.", r"\1 is a folder, not a file."),
    (r"(Directory|Path|File) ('.*') does not exist\.", r"\2 does not exist."),
    (r"^Got unexpected extra arguments? \((.*)\)", r"Too many arguments: \1"),
    (r"\(Did you mean one of: (.*)\)", r"Did you mean one of \1?"),
)
"""Regular expressions for parts of click's messages, each with a plainer replacement."""


def _fail_as(error: click.ClickException, meta: Mapping[str, Any]) -> NoReturn:
    if isinstance(error, _CliError):
        raise error
    if type(error).__name__ == "NoArgsIsHelpError":
        if not meta.get("decabench.json_errors"):
            raise error
        raise _CliError("Missing command.", error.exit_code, meta, error) from None
    message = error.format_message()
    if isinstance(error, click.MissingParameter):  # click lists the choices on separate lines, after tabs
        message = " ".join(message.split()).removesuffix(".") + "."
    for pattern, words in _PLAINER:
        message = re.sub(pattern, words, message)
    raise _CliError(f"{message}{_advice(error)}", error.exit_code, meta, error) from None


def _advice(error: click.ClickException) -> str:
    """Return advice for a common mistake, such as `decabench prepare --tasks sst`, or an empty string for any other
    error.
    """
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return ""
    path, command = context.command_path, context.command
    if context.parent and isinstance(command, click.Group) and error.message.startswith("No such command"):
        names = ", ".join(command.commands)
        every = f", or run {path} for a list" if command.invoke_without_command else ""
        show = f". For details, run {path} show NAME" if "show" in command.commands else ""
        return f" Choose from {names}{every}{show}."
    if isinstance(error, click.NoSuchOption) and not error.option_name.startswith("--"):
        return " Options begin with two dashes, such as --help."
    if isinstance(error, click.NoSuchOption) and context.parent is None and isinstance(command, click.Group):
        return f" Put a command's options after its name: {path} COMMAND {error.option_name} …"
    if isinstance(error, click.NoSuchOption) and path.endswith(" run"):
        from decabench.runs import find_setting

        setting = find_setting(error.option_name.lstrip("-"))
        return f" Use a setting instead: --set {setting}=…" if setting else ""
    if error.message.startswith("Got unexpected extra argument"):
        from decabench.tasks import known_tasks

        extra = error.message.rpartition("(")[2].rstrip(")").split()
        if (
            any("--tasks" in parameter.opts for parameter in command.params)
            and {*extra} <= known_tasks().keys()
        ):
            given = context.params.get("tasks") or ()
            names = ",".join((*given, *extra))
            several = "Separate several tasks with commas" if given else "Choose tasks with an option"
            return f". {several}: --tasks {names}."
        if any(parameter.human_readable_name == "[SUBMISSION]" for parameter in command.params):
            return ". Specify one submission at a time. To compare several, use decabench compare."
    if isinstance(error, click.NoSuchOption) and error.option_name == "--tasks":
        if any(
            isinstance(parameter, click.Argument) and parameter.name == "tasks"
            for parameter in command.params
        ):
            return f" Name the tasks without the option: {path} squad sst."
    return ""


@click.group(
    cls=_Cli,
    commands=_LazyCommands(),
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "auto_envvar_prefix": "DECABENCH",  # variables such as DECABENCH_PREDICT_LIMIT set options
    },
    epilog=_EPILOG,
)
@click.version_option(decabench.__version__, prog_name="decabench")
def cli() -> None:
    """Measure one model on ten language tasks, with scores that match the official scorers.

    Typical workflow: prepare the data, predict (or bring a submission), check, evaluate, leaderboard.
    """


cli.params += _shared_options()


# Standard output


class _Output(io.FileIO):
    """Standard output.

    If a write fails, the error names the file `_OUTPUT`, to distinguish it from errors in other files.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, _OUTPUT) from None


def _stream(file: io.FileIO, encoding: str, errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(file), encoding, errors, line_buffering=True)


def main() -> None:
    """Run the console script."""
    if sys.stdout is not None:
        sys.stdout.flush()
        stream = _Output(1, "w", closefd=False)
        sys.stdout = _stream(stream, sys.stdout.encoding, sys.stdout.errors or "strict")
    os.environ.pop("DECABENCH_DEBUG", None)
    with suppress(RuntimeError, OSError):  # there may be no standard error to write to
        faulthandler.enable()  # shows where a native library crashed
    cli()
