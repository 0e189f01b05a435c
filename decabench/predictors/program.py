"""Programs that read questions and write answers as JSON lines (`command:'./my-model --flag'`)."""

from __future__ import annotations

import json
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Self

from decabench.errors import DecabenchError, ModelError
from decabench.files import file_digest, fingerprint
from decabench.predictors.protocol import (
    Failure,
    ModelOptions,
    Outcome,
    PredictorFactory,
    Setting,
    answer_from,
)
from decabench.tasks import Question
from decabench.text import excerpt, quoted, well_formed
from decabench.untrusted import parse_json

USED = {"revision", "timeout", "seed", "env"}
"""The names of the options that the predictor uses."""
ADVICE = "Use the program's own options instead."
"""Advice for users who pass an option that isn't supported."""

MOST_FILES = 1_000
"""The maximum number of files in a folder whose digest is recorded.

Larger folders, such as a whole disk, are skipped, because they are probably not models.
"""


def backend(target: str, options: ModelOptions) -> CommandBackend:
    """Create a backend for a command line. Raises DecabenchError for an invalid command line or option."""
    try:
        arguments = shlex.split(target)
    except ValueError as error:
        raise DecabenchError(
            f"The predictor command requires a command line, but {target} has {str(error).lower()}."
        ) from None
    if not arguments:
        raise DecabenchError(
            "The predictor command requires a command line, as in command:'./my-model --flag'."
        )
    if missing := [name for name in options.env if name not in os.environ]:
        raise DecabenchError(
            f"--env lists the variable {missing[0]}, which is not set. Set the variable, or leave out the option."
        )
    _find_program(arguments[0])
    return CommandBackend(target, options)


@dataclass(frozen=True)
class CommandBackend:
    """A program and its options. The program isn't started before the first question."""

    line: str
    """The command line as given by the user."""
    options: ModelOptions
    """The requested options."""

    prompted = False

    def describe(self) -> dict[str, Any]:
        """Return the command line, the seed, the revision, and digests of the files that determine the answers.

        The digests cover the program, and all files and folders named on the command line.
        """
        first, *others = shlex.split(self.line)
        named = {first: _find_program(first)}
        for argument in others:
            for word in (argument, argument.partition("=")[2]):  # `weights.bin` or `--weights=weights.bin`
                if word and _is_readable(word):
                    named[word] = Path(word)
        files = {name: _digest(path) for name, path in sorted(named.items())}
        described = {"command": self.line, "seed": self.options.seed, "files": files}
        return described | ({"revision": self.options.revision} if self.options.revision else {})

    @contextmanager
    def open(self) -> Iterator[PredictorFactory]:
        """Find the program. For each task, a process is started when the first question arrives."""
        first, *others = shlex.split(self.line)
        arguments = (str(_find_program(first)), *others)
        yield lambda setting: CommandPredictor(arguments, setting, self.options)


def _find_program(name: str) -> Path:
    found = shutil.which(name)
    if found:
        return Path(found)
    if _is_file(name):
        raise DecabenchError(
            f"{name} is not executable. Run chmod +x on the file, or put the interpreter first, as in "
            f"command:'python {name}'."
        )
    where = "" if "/" in name else " on the PATH"
    raise DecabenchError(
        f"There is no program {name}{where}. Check the name. The command line is split into words, not passed to "
        "a shell."
    )


def _is_file(argument: str) -> bool:
    try:
        return Path(argument).is_file()
    except (OSError, ValueError):  # a name that is too long or contains a null byte
        return False


def _is_readable(argument: str) -> bool:
    """Return whether a path is a file, or a folder with at most MOST_FILES files."""
    try:
        return _is_file(argument) or (
            Path(argument).is_dir() and len(_list_files(Path(argument))) <= MOST_FILES
        )
    except (OSError, ValueError):
        return False


def _list_files(folder: Path) -> list[Path]:
    return sorted(islice((path for path in folder.rglob("*") if path.is_file()), MOST_FILES + 1))


def _digest(path: Path) -> str:
    try:
        if not path.is_dir():
            return file_digest(path)
        files = {file.relative_to(path).as_posix(): file_digest(file) for file in _list_files(path)}
        return fingerprint(files)
    except OSError as error:
        raise DecabenchError(
            f"{path} is named on the command line but can't be read ({error.strerror}). Make the "
            "file readable, because decabench records its digest."
        ) from None


@dataclass(frozen=True)
class CommandPredictor:
    """A program that answers the questions of a single task."""

    arguments: tuple[str, ...]
    """The program and its arguments."""
    setting: Setting
    """The task, split and seed, which are passed to the program."""
    options: ModelOptions
    """The options. Only the timeout and the environment variables to pass on are used."""

    def stream(self, questions: Iterable[Question]) -> Generator[tuple[str, Outcome], None, None]:
        """Yield (id, outcome) pairs as answers arrive.

        Closing the generator ends the program and its child processes.
        """
        source = iter(questions)
        first = next(source, None)
        if first is None:
            return
        source = chain([first], source)
        replies = _Replies()

        def next_line() -> bytes | None:
            question = next(source, None)
            if question is None:
                return None
            replies.waiting[question.id] = len(question.context)
            row = {
                "id": question.id,
                "question": question.question,
                "context": question.context,
                "task": self.setting.task.name,
                "split": self.setting.split,
            }
            return json.dumps(row).encode() + b"\n"

        secrets = sorted(
            name
            for name, value in os.environ.items()
            if name not in self.options.env and (_SECRET.search(name) or _ADDRESS.search(value))
        )
        environment = {
            **{name: value for name, value in os.environ.items() if name not in secrets},
            "DECABENCH_TASK": self.setting.task.name,
            "DECABENCH_SPLIT": self.setting.split,
            "DECABENCH_SEED": str(self.setting.seed),
        }
        with Process(self.arguments, environment) as process:
            try:
                lines = process.lines(next_line, lambda: not replies.waiting, self.options.timeout)
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield replies.read(line, number)
                reason = _explain_end(process, len(replies.answered), secrets)
            except StalledError:
                reason = (
                    f"The program was stopped after {_count_answers(len(replies.answered))}, because it neither read "
                    f"nor answered anything for {self.options.timeout:g} s.{_last_words(process)}"
                )
        for id_ in (*replies.waiting, *(question.id for question in source)):
            yield id_, Failure(reason)


_SECRET = re.compile(
    r"^DECABENCH_|KEY(?:S|_ID)?$|TOKEN$|SECRET|PASSW|PASSPHRASE|_PWD$|CREDENTIAL|(?:^|_)(?:KEY|TOKEN|CREDS|AUTH|COOKIE)(?:_|$)",
    re.IGNORECASE,
)
"""Names of environment variables that a program doesn't receive by default.

They look like secrets or belong to decabench. Some of decabench's variables contain an API key or the path to
the data, which includes the answers.
"""
_ADDRESS = re.compile(r"://[^/@\s]*:[^/@\s]+@")
"""Matches a URL that contains a password. A variable with such a value counts as a secret too."""


class _Replies:
    def __init__(self) -> None:
        self.waiting: dict[str, int] = {}
        """The length of the context of each pending question, in characters, by id."""
        self.answered: set[str] = set()
        """The ids of answered questions."""

    def read(self, line: bytes, number: int) -> tuple[str, Outcome]:
        """Parse a line of output into an id and an outcome. An invalid field results in a Failure.

        Raises ModelError for a line that doesn't answer a pending question, because later lines can't be
        trusted either.
        """
        try:
            text, broken = line.decode(), None
        except UnicodeDecodeError as error:
            text, broken = line.decode("utf-8", "replace"), error.start
        try:
            row = parse_json(text, surrogates=True)
        except ValueError as error:
            raise _stray(number, text, f"is not JSON ({error})") from None
        id_ = row.get("id") if isinstance(row, dict) else None
        if not isinstance(id_, str):
            form = '{"id": "…", "answer": "…"}'
            raise _stray(number, text, f"does not have the form {form}")
        if id_ in self.answered:
            raise _stray(number, text, "answers a question more than once")
        if id_ not in self.waiting:
            raise _stray(number, text, "answers a question that was not asked")
        length = self.waiting.pop(id_)
        self.answered.add(id_)
        if broken is not None:  # replacement characters would change the answer
            return id_, Failure(
                f"Line {number} of the program's output is not UTF-8 (byte 0x{line[broken]:02x} at position "
                f"{broken + 1}). Write UTF-8, as with PYTHONIOENCODING=utf-8, or use JSON escapes."
            )
        try:
            return id_, _parse_outcome(row, length)
        except ValueError as error:
            return id_, Failure(f"Line {number} of the program's output can't be used: {error}.")


def _stray(number: int, text: str, fault: str) -> ModelError:
    return ModelError(
        f"Line {number} of the program's output {fault}: {excerpt(text, 100)!r}. Write answers to stdout and all "
        "other messages to stderr."
    )


def _parse_outcome(row: Mapping[str, Any], length: int) -> Outcome:
    if row.get("error") is not None:
        return Failure(f"The program reported: {excerpt(str(row['error']))}")
    if "answer" not in row:
        keys = ", ".join(quoted(str(key), 30) for key in list(row)[:5])
        raise ValueError(f"the line has no 'answer'; its keys are {keys}")
    text = row["answer"]
    details = {"finish": "stop", **row, "choices": ()}  # a program may use this name for something else
    answer = answer_from(well_formed(text) if isinstance(text, str) else text, details)
    if answer.context_kept is not None and answer.context_kept[1] > length:
        raise ValueError(
            f"context_kept is {row['context_kept']}, but the context has only {length} characters"
        )
    return replace(answer, context_kept=None) if answer.context_kept == (0, length) else answer


def _explain_end(process: Process, answers: int, secrets: Sequence[str]) -> str:
    status = process.status()
    how = "closed its output" if status is None else f"ended with status {status}"
    if status is not None and status < 0:
        name = next((each.name for each in signal.Signals if each == -status), f"signal {-status}")
        how = f"was killed by {name}"
    if answers:
        return (
            f"The program {how} after {_count_answers(answers)}, before this question.{_last_words(process)}"
        )
    named = [name for name in secrets if not name.startswith("DECABENCH_")][:3]
    hint = (
        f" The program did not receive environment variables that look like secrets, such as {', '.join(named)}. Use "
        "--env to pass the variables that it needs."
        if named
        else ""
    )
    raise ModelError(f"The program {how} before it answered anything.{_last_words(process)}{hint}")


def _count_answers(number: int) -> str:
    return "1 answer" if number == 1 else f"{number} answers"


def _last_words(process: Process) -> str:
    lines = [line for line in process.messages.splitlines() if line.strip()]
    return f" Its last messages: {excerpt(' / '.join(lines[-3:]), 400)}" if lines else ""


CHUNK = 1 << 16
LONGEST_LINE = 64 << 20
"""The maximum length of a line of output, in bytes."""

STDERR_KEPT = 2048
"""The number of bytes of stderr to keep for error messages."""

GRACE = 5.0
"""The number of seconds to wait for a program to exit after its last answer or after SIGTERM."""

TICK = 0.2
"""The number of seconds between checks for a timeout or the end of a program.

The checks are necessary because child processes may keep the output open after the program has ended.
"""


class StalledError(Exception):
    """Raised if a program neither reads nor writes within the time limit."""


class Process:
    """A program running in its own process group. As a context manager, it ends the program on exit."""

    def __init__(self, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=environment,
                process_group=0,  # a new session would get less CPU time on a busy Linux machine
            )
        except OSError as error:
            raise ModelError(
                f"{arguments[0]} can't be started ({error.strerror or error}). Check the program and its interpreter."
            ) from error
        self._passes_on = bool(os.environ.get("DECABENCH_DEBUG"))
        self._messages = b""
        self._unsent = b""
        self._has_ended = False
        self._selector = selectors.DefaultSelector()
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
            event = selectors.EVENT_WRITE if pipe is self._process.stdin else selectors.EVENT_READ
            self._selector.register(pipe, event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def lines(
        self, next_line: Callable[[], bytes | None], all_answered: Callable[[], bool], timeout: float | None
    ) -> Iterator[bytes]:
        """Yield lines of the program's output while writing lines from `next_line` to its input.

        The input is closed when `next_line` returns None. The iterator stops when the program closes its output,
        or a few seconds after all questions are answered. Raises StalledError on a timeout and ModelError for a
        line that is too long.
        """
        rest = b""
        moved = time.monotonic()
        while True:
            ready = {key.fileobj for key, _ in self._selector.select(TICK)}
            if self._process.stderr in ready:
                self._read_messages()
            if self._process.stdin in ready:
                self._feed(next_line)
            if self._process.stdout in ready:
                chunk = _read(self._process.stdout)
                if not chunk:
                    break
                *whole, rest = (rest + chunk).split(b"\n")
                if len(rest) > LONGEST_LINE:
                    raise ModelError(f"The program wrote a line of more than {LONGEST_LINE >> 20} MiB.")
                yield from whole
            if ready & {self._process.stdin, self._process.stdout}:
                # The clock restarts after `yield`, so the caller's time doesn't count against the program.
                moved = time.monotonic()
            elif self._is_over(time.monotonic() - moved, all_answered(), timeout):
                break
        if rest:
            yield rest

    def status(self) -> int | None:
        """Return the exit status, which is negative if a signal ended the program.

        Returns None if the program is still running after it closed its output.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._read_messages()
        return self._process.returncode

    @property
    def messages(self) -> str:
        """The end of the program's stderr."""
        return self._messages.decode("utf-8", "replace")

    @property
    def _pipes(self) -> list[IO[bytes]]:
        process = self._process
        return [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe and not pipe.closed]

    def _is_over(self, idle: float, all_answered: bool, timeout: float | None) -> bool:
        had_ended, self._has_ended = self._has_ended, self._process.poll() is not None
        if had_ended:  # it had ended by the last check, so all of its output has been read
            return True
        stdin = self._process.stdin
        if all_answered and stdin and stdin.closed:
            return idle > GRACE
        if timeout is not None and idle > timeout:
            raise StalledError
        return False

    def _feed(self, next_line: Callable[[], bytes | None]) -> None:
        """Write as much input as the pipe accepts. Close it after the last line, or if the program closed its end."""
        if not self._unsent:
            self._unsent = next_line() or b""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            sent = os.write(stdin.fileno(), self._unsent) if self._unsent else -1
        except BlockingIOError:
            return
        except BrokenPipeError:
            sent = -1
        if sent < 0:
            self._selector.unregister(stdin)
            stdin.close()
        else:
            self._unsent = self._unsent[sent:]

    def _read_messages(self) -> None:
        stderr = self._process.stderr
        if stderr is None or stderr.closed:
            return
        while chunk := _read(stderr):
            self._messages = (self._messages + chunk)[-STDERR_KEPT:]
            if self._passes_on:
                sys.stderr.write(chunk.decode("utf-8", "replace"))
        if chunk == b"":
            self._selector.unregister(stderr)
            stderr.close()

    def _end(self) -> None:
        """End the program and its children, using SIGTERM and then SIGKILL."""
        try:
            if self._process.poll() is None:
                self._signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE)
        finally:  # even after a second Ctrl-C
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._selector.close()
            for pipe in self._pipes:
                pipe.close()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _read(pipe: IO[bytes] | None) -> bytes | None:
    """Read the available bytes; empty at the end of the output, and None if nothing has arrived yet."""
    assert pipe is not None
    try:
        return os.read(pipe.fileno(), CHUNK)
    except BlockingIOError:
        return None
