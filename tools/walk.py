"""Count the project's files that a command runs: `python tools/walk.py`.

Each walk runs in its own process on the bundled sample, under `sys.setprofile`. A file counts if one of its functions
runs; code that runs during an import does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("decabench", "metrics", "tasks", "leaderboard")

LIMITS = {"evaluate": 18, "predict": 17, "prepare": 13, "leaderboard": 34, "train": 16}
"""The maximum number of files in a walk."""

STRETCHES = {"train": ("_step", "_checkpoint")}
"""Walks that cover only part of a command, from the call of a function to the return of another function."""

CONSTANT = '''"""A predictor that always gives the same answer."""


class Constant:
    def predict(self, questions):
        return ["positive"] * len(questions)


constant = Constant()
'''


def main() -> None:
    """Print a table of the requested walks, and exit with 1 if a walk is too long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "walks", nargs="*", help="evaluate, predict, prepare, train or leaderboard; all by default"
    )
    parser.add_argument("--files", action="store_true", help="list the files of each walk")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--inside", nargs="+", help=argparse.SUPPRESS)  # walk in this process: NAME FOLDER
    given = parser.parse_args()
    if given.inside:
        name, folder = given.inside
        print(json.dumps(_walk(name, Path(folder))))
        return
    last = max(list(STEPS).index(name) for name in given.walks or STEPS)
    with tempfile.TemporaryDirectory() as folder:
        walks = {name: run(name, Path(folder)) for name in list(STEPS)[: last + 1]}
    walks = {name: files for name, files in walks.items() if name in (given.walks or STEPS)}
    if given.json:
        print(json.dumps(walks))
        return
    print(f"{'walk':12}{'files':>7}{'limit':>9}")
    for name, files in walks.items():
        print(f"{name:12}{len(files):>7}{LIMITS[name]:>9}")
        if given.files:
            print("".join(f"    {file}\n" for file in files), end="")
    sys.exit(any(len(files) > LIMITS[name] for name, files in walks.items()))


def run(name: str, folder: Path) -> list[str]:
    """Run a walk in a separate process, and return its files. The next walk finds its output in `folder`."""
    (folder / "constant.py").write_text(CONSTANT)
    command = [sys.executable, str(Path(__file__)), "--inside", name, str(folder)]
    environment = {**os.environ, "DECABENCH_HOME": str(folder / "home"), "PYTHONPATH": f"{ROOT}:{folder}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    files: list[str] = json.loads(done.stdout.splitlines()[-1])
    return files


STEPS: dict[str, Callable[[Path], Sequence[str]]] = {
    "prepare": lambda folder: ["prepare", "sst", "--sample", "--jobs", "1"],
    "predict": lambda folder: [
        "predict",
        "--predictor",
        "constant:constant",
        "--tasks",
        "sst",
        "--output",
        "sub",
    ],
    "evaluate": lambda folder: ["evaluate", "--submission", "sub", "--tasks", "sst", "--jobs", "1"],
    "leaderboard": lambda folder: [
        *["leaderboard", "--submissions", "sub", "--output", "site"],
        "--no-baselines",  # baselines are covered by the walk of predict
    ],
    "train": lambda folder: [
        *["train", "--tasks", "sst", "--output", "run", "--set", "steps=2", "--set", "model.dimension=8"],
        *["--set", "model.hidden=8", "--set", 'vectors=["none:8"]', "--set", "validation_examples=4"],
        *["--device", "cpu", "--set", "checkpoint_every=1"],
    ],
}
"""The command line of each walk. A walk uses the files that earlier walks wrote."""


def _walk(name: str, folder: Path) -> list[str]:
    from decabench.cli import cli

    entered: dict[str, None] = {}
    importing = 0
    first, last = STRETCHES.get(name, ("", ""))
    walking = not first

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal importing, walking
        if not frame.f_code.co_flags & CO_NEWLOCALS and frame.f_code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        if importing or (file := _project_file(frame.f_code)) is None:
            return
        if event == "return" and walking and frame.f_code.co_name == last:
            sys.setprofile(None)
        walking = walking or frame.f_code.co_name == first
        if event == "call" and walking:
            entered[file] = None

    sys.stdout, shown = open(os.devnull, "w"), sys.stdout
    sys.setprofile(note)
    try:
        cli.main(list(STEPS[name](folder)), standalone_mode=False)
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.setprofile(None)
        sys.stdout = shown
    return list(entered)


def _project_file(code: CodeType) -> str | None:
    is_function = code.co_flags & CO_NEWLOCALS  # not the body of a module or a class
    return _within_project(code.co_filename) if is_function else None


@cache
def _within_project(file: str) -> str | None:
    try:
        path = Path(file).resolve().relative_to(ROOT)
    except ValueError:
        return None
    return path.as_posix() if path.parts[0] in FOLDERS else None


if __name__ == "__main__":
    main()
