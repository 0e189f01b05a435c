from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from decabench.cli import cli

TRIED = int(os.environ.get("DECABENCH_REFUSALS", "60"))
ERRORS = "EACCES EROFS ENOSPC EDQUOT EFBIG EMFILE ENFILE ENOMEM EIO ESTALE ENAMETOOLONG ELOOP ENOTDIR EISDIR EINVAL "
ERRORS += "EPERM ETXTBSY EXDEV ENOTSUP ENOLCK EBUSY"
OPERATIONS: dict[str, tuple[tuple[object, str], ...]] = {
    "open": ((builtins, "open"), (io, "open")),
    "make": ((os, "open"),),
    "write": ((os, "write"),),
    "sync": ((os, "fsync"),),
    "rename": ((os, "replace"), (os, "rename")),
    "folder": ((os, "mkdir"),),
    "remove": ((os, "unlink"),),
    "lock": (("fcntl", "flock"),),
}
"""The Python functions that call the system for each operation."""

MACHINE = ("EMFILE", "ENFILE", "ENOMEM", "EIO", "ESTALE")
"""Errors that are never caused by the content of a file."""

HARMLESS = {
    "open": ERRORS.split(),  # notes and caches can be done without
    "make": ERRORS.split(),  # what is only locked
    "lock": ERRORS.split(),  # the command goes on without locks
    "sync": ("EINVAL", "ENOTSUP"),  # a file system that writes at once
    "remove": ERRORS.split(),  # what is not removed stays
}
"""Failures despite which a command may succeed."""

BY_PRODUCTS = re.compile(r"run\.json|/ledger/")
"""Files that no command needs to succeed."""

COMMANDS = {
    "prepare": "prepare sst --sample --force",
    "predict": "predict --predictor majority --tasks sst --output new",
    "predict again": "predict --predictor majority --tasks schema --output out",
    "evaluate": "evaluate out --tasks sst",
    "check": "check out",
    "verify": "verify out",
    "compare": "compare out out2 --tasks sst",
    "leaderboard": "leaderboard --submissions . --output site",
    "import": "import csv a.csv --task sst --output imported --name Bob",
    "export tasks": "export tasks sst --for lm-eval --output lm",
    "export results": "export results out --output table.md",
    "show": "show out --task sst --output page",
    "tasks": "tasks show sst",
    "archive": "check out.zip",
}


@dataclass
class Refusal:
    """A failing call of an operation."""

    operation: str
    number: int
    """The number of the failing call among the calls for files in the folder."""
    error: str

    @contextmanager
    def made(self, folder: Path) -> Iterator[list[str]]:
        """Make the call fail. Yields the file names of the calls before it."""
        seen: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            for module, name in OPERATIONS[self.operation]:
                place = __import__(module) if isinstance(module, str) else module
                patch.setattr(place, name, self._failing(getattr(place, name), folder, seen))
            yield seen

    def _failing(self, real: Callable[..., Any], folder: Path, seen: list[str]) -> Callable[..., Any]:
        def call(file: Any, *given: Any, **named: Any) -> Any:
            path = _path_of(file)
            is_new = self.operation != "folder" or not os.path.isdir(path)
            if path.startswith(str(folder)) and is_new and not BY_PRODUCTS.search(path):
                seen.append(path)
                if len(seen) == self.number:
                    number = getattr(errno, self.error)
                    named_file = () if isinstance(file, int) else (os.fspath(file),)
                    raise OSError(number, os.strerror(number), *named_file)
            return real(file, *given, **named)

        return call


def _path_of(file: Any) -> str:
    if isinstance(file, int):
        try:
            return os.readlink(f"/proc/self/fd/{file}")
        except OSError:
            return ""
    return os.path.abspath(os.fsdecode(file)) if isinstance(file, (str, bytes, os.PathLike)) else ""


@pytest.fixture(scope="module")
def begun(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusals") / "begun"
    for task in ("sst", "schema"):
        shutil.copytree(home / "tasks" / task, folder / "home" / "tasks" / task)
    with inside(folder):
        for command in (
            "predict --predictor majority --tasks sst --output out",
            "predict --predictor random --tasks sst --output out2",
            "evaluate out --tasks sst",
        ):
            done = CliRunner().invoke(cli, command.split())
            assert done.exit_code == 0, done.output
    from decabench.tasks import Store

    rows = "".join(f"{each},positive\n" for each in Store(folder / "home").ids("sst", "validation"))
    (folder / "a.csv").write_text(f"id,answer\n{rows}")
    shutil.make_archive(str(folder / "out"), "zip", folder / "out")
    return folder


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("DECABENCH_HOME", str(folder / "home"))
        patch.setenv("DECABENCH_DEBUG", "")
        yield


def cases() -> list[tuple[str, str, str]]:
    """Return all combinations of commands, operations and errors, in an order determined by a seed."""
    found = list(itertools.product(COMMANDS, OPERATIONS, ERRORS.split()))
    random.Random(1).shuffle(found)
    return found


def test_a_failing_system_call_is_reported_with_its_cause(begun: Path, tmp_path: Path) -> None:
    faults = []
    chosen = random.Random(2)
    for command, operation, error in itertools.islice(cases(), TRIED):
        folder = tmp_path / "here"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(begun, folder)
        refusal = Refusal(operation, 1 + int(8 * chosen.random() ** 2), error)
        with inside(folder), refusal.made(folder) as seen:
            done = CliRunner().invoke(cli, COMMANDS[command].split())
        said = done.stdout + done.stderr
        where = f"{command}, {operation} {len(seen)} ({Path(seen[-1]).name if seen else ''}), {error}"
        reached = len(seen) >= refusal.number
        if reached and (fault := find_fault(command, operation, error, done.exit_code, said)):
            faults.append(f"{where}: {fault}: {said[-300:]}")
    assert not faults, f"{len(faults)} faults\n" + "\n".join(faults)


def find_fault(command: str, operation: str, error: str, code: int, said: str) -> str:
    """Describe what is wrong with the way a command ended."""
    if code == 0:
        return "" if error in HARMLESS.get(operation, ()) else "no error"
    if code not in (1, 2, 3) or "Traceback" in said or "Unexpected" in said:
        return f"exit {code}"
    if code != 3 and error in MACHINE and command != "leaderboard":  # which refuses one submission of many
        return f"exit {code}"
    if (
        operation == "open" and error == "ENOTDIR" and "is not prepared" in said
    ):  # there is no such file, then
        return ""
    if operation == "lock" and "Another process" in said:
        return "" if error == "EACCES" else "another cause"
    if os.strerror(getattr(errno, error)) not in said:
        return "no cause"
    return "another cause" if "damaged" in said or "tandard output" in said else ""
