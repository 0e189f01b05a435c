"""`command:'./my-model --flag'`: any program that reads questions and writes answers as JSON lines."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import chain, islice
from pathlib import Path
from typing import Any, get_args

from decabench.errors import DecabenchError
from decabench.files import file_digest, fingerprint, parse_json
from decabench.predictors.command.process import Process, StalledError
from decabench.predictors.options import ModelOptions
from decabench.predictors.protocol import Answer, Failure, Finish, Outcome, PredictorFactory
from decabench.tasks import Question
from decabench.text import excerpt, well_formed

__all__ = ["Asked", "CommandBackend", "CommandPredictor", "backend", "outcome_of"]

# ---- command_replies

_FORM = '{"id": "…", "answer": "…"}'


@dataclass
class Asked:
    """The questions that a program was given, by id."""

    waiting: dict[str, int]
    """Those without an answer yet, each with the length of its context."""
    answered: set[str]
    """Those with one."""


def outcome_of(line: bytes, number: int, asked: Asked) -> tuple[str, Outcome]:
    """The id and what was said; a line that is wrong in itself is a Failure of its question.

    Raises DecabenchError for a line that belongs to no question, after which nothing can be relied on.
    """
    text = line.decode("utf-8", "replace")
    try:
        row = parse_json(text)
    except ValueError as error:
        raise _stray(number, text, f"is no JSON ({error})") from None
    id = row.get("id") if isinstance(row, dict) else None
    if not isinstance(id, str):
        raise _stray(number, text, f"has no id: a line is {_FORM}, with the id as it was given")
    if id in asked.answered:
        raise _stray(number, text, "answers a question for the second time")
    if id not in asked.waiting:
        raise _stray(number, text, "answers a question that was not asked")
    length = asked.waiting.pop(id)
    asked.answered.add(id)
    return id, _outcome(row, number, length)


def _stray(number: int, text: str, fault: str) -> DecabenchError:
    return DecabenchError(
        f"Line {number} of the program's output {fault}: {excerpt(text, 100)!r}. Only answers belong on stdout; "
        "messages belong on stderr."
    )


def _outcome(row: Mapping[str, Any], number: int, length: int) -> Outcome:
    if row.get("error") is not None:
        return Failure(f"The program says: {excerpt(str(row['error']))}")
    answer = row.get("answer")
    if not isinstance(answer, str):
        return Failure(f"Line {number} of the program's output has no answer that is a text.")
    finish, kept = row.get("finish", "stop"), row.get("context_kept")
    tokens = [row.get("prompt_tokens"), row.get("completion_tokens")]
    if finish not in get_args(Finish):
        return _bad(number, "finish", f"one of {', '.join(get_args(Finish))}")
    if kept is not None and not _is_span(kept, length):
        return _bad(number, "context_kept", f"a list [start, end] of characters within 0 and {length}")
    if not all(count is None or _is_count(count) for count in tokens):
        return _bad(number, "prompt_tokens or completion_tokens", "a whole number")
    span = (kept[0], kept[1]) if kept is not None and kept != [0, length] else None
    return Answer(well_formed(answer), finish, span, *tokens)


def _bad(number: int, name: str, form: str) -> Failure:
    return Failure(f"Line {number} of the program's output has {name} in the wrong form: it must be {form}.")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_span(value: object, length: int) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not all(map(_is_count, value)):
        return False
    return bool(value[0] <= value[1] <= length)


# ---- command_predictor


@dataclass(frozen=True)
class CommandPredictor:
    """A program that answers the questions of one task."""

    arguments: tuple[str, ...]
    """The program and its arguments."""
    task: str
    """The task's name."""
    split: str
    """The split's name."""
    seed: int = 0
    """For programs that draw."""
    timeout: float | None = None
    """Seconds in which it must read a question or answer one; None for no limit."""

    def stream(self, questions: Iterable[Question]) -> Generator[tuple[str, Outcome], None, None]:
        """(id, outcome) as they come. Closing it ends the program and its children."""
        source = iter(questions)
        first = next(source, None)
        if first is None:
            return
        source = chain([first], source)
        asked = Asked({}, set())
        with Process(self.arguments, self._environment) as process:
            try:
                lines = process.lines(self._next_line(source, asked), lambda: not asked.waiting, self.timeout)
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield outcome_of(line, number, asked)
                reason = _ending(process, len(asked.answered))
            except StalledError:
                reason = (
                    f"The program neither read nor answered for {self.timeout:g} s after {len(asked.answered)} "
                    f"answers, and was ended.{_last_words(process)}"
                )
        for id in (*asked.waiting, *(question.id for question in source)):
            yield id, Failure(reason)

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "DECABENCH_TASK": self.task,
            "DECABENCH_SPLIT": self.split,
            "DECABENCH_SEED": str(self.seed),
        }

    def _next_line(self, source: Iterator[Question], asked: Asked) -> Callable[[], bytes | None]:
        def next_line() -> bytes | None:
            question = next(source, None)
            if question is None:
                return None
            asked.waiting[question.id] = len(question.context)
            row = {
                "id": question.id,
                "question": question.question,
                "context": question.context,
                "task": self.task,
                "split": self.split,
            }
            return json.dumps(row).encode() + b"\n"

        return next_line


def _ending(process: Process, answers: int) -> str:
    """Why what is left has no answer. Raises DecabenchError where there was never one: so it would go on."""
    status = process.status()
    said = _last_words(process)
    how = "closed its output" if status is None else f"ended with status {status}"
    if status is not None and status < 0:
        how = f"was ended by {_signal_name(-status)}"
    if answers:
        return f"The program {how} after {answers} answers, without one to this question.{said}"
    raise DecabenchError(f"The program {how} before it answered anything.{said}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_words(process: Process) -> str:
    """The end of its messages, as the end of a sentence."""
    lines = [line for line in process.messages.splitlines() if line.strip()]
    return f" Its last messages: {excerpt(' / '.join(lines[-3:]), 400)}" if lines else ""


# ---- command

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
