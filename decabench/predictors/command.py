"""`command:'./my-model --flag'`: any program that reads questions and writes answers as JSON lines."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError
from decabench.fingerprint import file_digest, fingerprint
from decabench.predictor import PredictorFactory
from decabench.predictors.command_predictor import CommandPredictor
from decabench.predictors.options import ModelOptions

__all__ = ["CommandBackend", "backend"]

USED = ("revision", "timeout", "seed")
"""The options that make sense for a program; it has its own flags for the rest."""

MOST_FILES = 1_000
"""A folder of more is not read for the record: `.` or a disk is hardly a model's weights."""


@dataclass(frozen=True)
class CommandBackend:
    """A program, before it is started."""

    line: str
    """The command line as it was given."""
    options: ModelOptions
    """What was asked for."""

    prompted = False

    def describe(self) -> dict[str, Any]:
        """The command line, the sha256 of the program and of every file or folder that it names, and the revision."""
        first, *others = shlex.split(self.line)
        named = {first: _program(first)}
        for argument in others:
            for word in (argument, argument.partition("=")[2]):  # `weights.bin` and `--weights=weights.bin`
                if word and _is_there(word):
                    named[word] = Path(word)
        files = {name: _digest(path) for name, path in sorted(named.items())}
        described = {"command": self.line, "seed": self.options.seed, "files": files}
        return described | ({"revision": self.options.revision} if self.options.revision else {})

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Finds the program. A process is started for each task, with its first question."""
        first, *others = shlex.split(self.line)
        arguments = (str(_program(first)), *others)
        yield lambda setting: CommandPredictor(
            arguments, setting.task.name, setting.split, self.options.seed, self.options.timeout
        )


def backend(target: str, options: ModelOptions) -> CommandBackend:
    """The backend for a command line. Raises DecabenchError for a line or an option that does not fit."""
    try:
        arguments = shlex.split(target)
    except ValueError as error:
        raise DecabenchError(f"command: is followed by a command line, and {target} has {error}.") from None
    if not arguments:
        raise DecabenchError("command: is followed by a command line, as in command:'./my-model --flag'.")
    for option in fields(options):
        if option.name not in USED and getattr(options, option.name) != option.default:
            flag = f"--{option.name.replace('_', '-')}"
            raise DecabenchError(f"command: has no use for {flag}: give the program a flag of its own.")
    if options.timeout is not None and not options.timeout > 0:
        raise DecabenchError(f"--timeout must be more than 0, and {options.timeout:g} was given.")
    _program(arguments[0])
    return CommandBackend(target, options)


def _program(name: str) -> Path:
    """The program's file, looked up as a shell does. Raises DecabenchError."""
    found = shutil.which(name)
    if found:
        return Path(found)
    if _is_file(name):
        hint = "chmod +x it, or name what runs it first"
        raise DecabenchError(
            f"{name} is a file that may not be executed: {hint}, as in command:'python {name}'."
        )
    where = "there" if "/" in name else "on the PATH"
    raise DecabenchError(
        f"No program {name} {where}. The command line is split into words, and no shell reads it."
    )


def _is_file(argument: str) -> bool:
    try:
        return Path(argument).is_file()
    except (OSError, ValueError):  # too long for a name, or with a null byte: no path at all
        return False


def _is_there(argument: str) -> bool:
    """A file, or a folder of fewer files than a person would mean by `.` or `/`."""
    try:
        return _is_file(argument) or (Path(argument).is_dir() and len(_files(Path(argument))) <= MOST_FILES)
    except (OSError, ValueError):
        return False


def _files(folder: Path) -> list[Path]:
    """The files below a folder, as many as are worth counting."""
    return sorted(islice((path for path in folder.rglob("*") if path.is_file()), MOST_FILES + 1))


def _digest(path: Path) -> str:
    try:
        if not path.is_dir():
            return file_digest(path)
        files = {file.relative_to(path).as_posix(): file_digest(file) for file in _files(path)}
        return fingerprint(files)
    except OSError as error:
        raise DecabenchError(
            f"{path} cannot be read ({error.strerror}), so no record could name it."
        ) from None
