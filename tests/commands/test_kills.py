from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sources import ROOT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are of POSIX systems")

TIMES = int(os.environ.get("DECABENCH_KILLS", "4"))
CALLS = "rename,renameat,renameat2,unlink,unlinkat,fsync,fdatasync,mkdir,mkdirat,rmdir,ftruncate"
REFUSALS = ("ENOSPC", "EIO")
TIMES_OF_RUNS = re.compile(r"(^|/)(train\.csv|validation\.csv|curves\.png)$")
NOT_OURS = re.compile(r"tmp/[a-z0-9_]{8}|.*/events\.out\.[^/]*|(.*/)?run\.json")
"""Files that may differ: Python's check of the temporary folder, TensorBoard's logs, whose names contain the time,
and the times of a run, which no command needs."""
DATES = re.compile(rb'"[a-z_]*(date|time|seconds|prepared)[a-z_]*": ?("[^"]*"|[0-9.]+)')
PREDICT = "predict --predictor majority --tasks sst --output out"
TRAIN = (
    "train --model classifier --tasks sst --output run --resume --set steps=6 --set checkpoint_every=2 "
    "--set validate_every=3 --set validation_examples=4 --set vectors=none:10 --set model.dimension=10"
)


@dataclass(frozen=True)
class Writer:
    """A command that writes files, and the files that exist before it."""

    command: str
    before: tuple[str, ...] = ()
    needs_torch: bool = False


WRITERS = {
    "prepare": Writer("prepare sst schema --sample --force"),
    "predict": Writer(PREDICT),
    "predict another task": Writer(PREDICT.replace("sst", "schema"), (PREDICT,)),
    "predict another task beside results": Writer(
        PREDICT.replace("sst", "schema"), (PREDICT, "evaluate out --tasks sst")
    ),
    "predict with another": Writer(
        PREDICT.replace("majority", "random") + " --force", (PREDICT, "evaluate out --tasks sst")
    ),
    "evaluate": Writer("evaluate out --tasks sst", (PREDICT,)),
    "evaluate another task": Writer(
        "evaluate out --tasks sst,schema",
        (PREDICT, "evaluate out --tasks sst", PREDICT.replace("sst", "schema")),
    ),
    "run": Writer(
        "run --set predictor=majority --set output=out --set tasks=sst,schema --set baselines=random"
    ),
    "leaderboard": Writer(
        "leaderboard --submissions all --output site --suite mine --include mine.toml",
        (
            f"{PREDICT.replace('sst --output out', 'sst,schema --output all/a')}",
            "evaluate all/a --suite mine --include mine.toml",
        ),
    ),
    "import": Writer("import csv a.csv --task sst --output out --name Bob"),
    "import another task": Writer(
        "import csv b.csv --task schema --output out",
        ("import csv a.csv --task sst --output out --name Bob",),
    ),
    "import again": Writer(
        "import csv c.csv --task sst --output out --force",
        ("import csv a.csv --task sst --output out --name Bob", "evaluate out --tasks sst"),
    ),
    "show": Writer("show out --task sst --output page", (PREDICT,)),
    "export tasks": Writer("export tasks sst schema --for lm-eval --output lm"),
    "export results": Writer("export results out --output table.md", (PREDICT, "evaluate out --tasks sst")),
    "train": Writer(TRAIN, needs_torch=True),
    "export weights": Writer("export weights run --output copy --words 10", (TRAIN,), needs_torch=True),
    "analyze": Writer(
        "analyze attention run --task sst --output figures",
        (f"{TRAIN.replace('classifier', 'mqan')} --set model.heads=2 --set model.hidden=6",),
        needs_torch=True,
    ),
    "vectors": Writer(
        "vectors ngrams --tasks sst --output n.safetensors --steps 3 --dimension 4 --force", needs_torch=True
    ),
    "convert": Writer("vectors convert glove.txt --output g.npy --force", needs_torch=True),
}
SUITE = """
format = "decabench.suite/1"
name = "mine"
title = "Mine"
tasks = ["sst", "schema"]
total = "mean"
total_name = "Mean"
description = "Two tasks."
"""


def run(command: str, folder: Path, *tracing: str) -> subprocess.CompletedProcess[str]:
    """Run a command, optionally under strace, in a folder with all its files, and kill leftover processes."""
    (folder / "tmp").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "DECABENCH_HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "XDG_CACHE_HOME": str(folder.parent / "cache"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    line = [*tracing, sys.executable, "-m", "decabench", *shlex.split(command)]
    process = subprocess.Popen(
        line,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said = process.communicate(timeout=300)[0]
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return subprocess.CompletedProcess(line, process.returncode, said)


def contents(folder: Path) -> Mapping[str, str]:
    """Return the digest of every file, ignoring times and dates, and the names of empty folders."""
    found = {}
    for here, folders, names in os.walk(folder):
        for name in names:
            path = Path(here, name)
            inside = path.relative_to(folder).as_posix()
            if NOT_OURS.fullmatch(inside):
                continue
            data = b"" if TIMES_OF_RUNS.search(inside) else DATES.sub(b"", path.read_bytes())
            found[inside] = hashlib.sha256(data).hexdigest()[:12]
        if not folders and not names and here != str(folder / "tmp"):
            found[Path(here).relative_to(folder).as_posix() + "/"] = "empty"
    return found


def copied(folder: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(folder, target, symlinks=True))


@pytest.fixture
def begun(home: Path, tmp_path: Path) -> Path:
    """A folder with prepared data and input files."""
    folder = tmp_path / "begun"
    for task in ("sst", "schema"):
        shutil.copytree(home / "tasks" / task, folder / "home" / "tasks" / task)
    for name, task, word in (("a", "sst", "positive"), ("b", "schema", "Bob"), ("c", "sst", "negative")):
        ids = json.loads(f"[{subprocess_ids(folder, task)}]")
        rows = "".join(f"{each},{word}\n" for each in ids)
        (folder / f"{name}.csv").write_text(f"id,answer\n{rows}")
    (folder / "mine.toml").write_text(SUITE)
    (folder / "glove.txt").write_text("a 1 2 3\nb 4 5 6\nc 7 8 9\n")
    return folder


def subprocess_ids(folder: Path, task: str) -> str:
    from decabench.tasks import Store

    return ",".join(f'"{each}"' for each in Store(folder / "home").ids(task, "validation"))


@pytest.mark.heavy
@pytest.mark.parametrize("name", WRITERS)
def test_killed_commands_are_completed_by_running_them_again(name: str, begun: Path, tmp_path: Path) -> None:
    writer = WRITERS[name]
    if writer.needs_torch:
        pytest.importorskip("torch")
    for command in writer.before:
        done = run(command, begun)
        assert done.returncode == 0, done.stdout
    undisturbed, trace = copied(begun, tmp_path / "here"), tmp_path / "trace"
    strace = shutil.which("strace")
    start = time.monotonic()
    tracing = (strace, "-f", "-qq", "-o", str(trace), "-e", f"trace={CALLS}") if strace else ()
    first = run(writer.command, undisturbed, *tracing)
    seconds = time.monotonic() - start
    assert first.returncode == 0, first.stdout
    expected = contents(undisturbed)
    second = run(writer.command, undisturbed)
    assert contents(undisturbed) == expected, "a second run changes something"
    calls = max(Counter(line.split()[0] for line in trace.read_text().splitlines()).values()) if strace else 0
    chosen = random.Random(f"{name} {TIMES}")
    faults = []
    for number in range(TIMES):
        folder = copied(begun, tmp_path / "here")
        at = 1 + int(calls * (number + chosen.random()) / TIMES)
        refusal = REFUSALS[number // 3 % 2] if number % 3 == 2 else ""
        if strace:
            fault = f"error={refusal}" if refusal else "signal=SIGKILL"
            inject = ("-e", f"trace={CALLS}", "-e", f"inject={CALLS}:{fault}:when={at}")
            broken = run(writer.command, folder, strace, "-f", "-qq", "-o", os.devnull, *inject)
        else:
            refusal, at = "", int(1000 * seconds * chosen.random())
            broken = run(writer.command, folder, "timeout", "-s", "KILL", str(at / 1000))
        where = f"{refusal or 'killed'} at {at} of {calls}"
        if refusal and (broken.returncode not in (0, 3, 4) or "Traceback" in broken.stdout):
            faults.append(f"{where}: exit {broken.returncode}: {broken.stdout[-500:]}")
        again = run(writer.command, folder)
        if again.returncode not in (first.returncode, second.returncode):
            faults.append(f"{where}, then exit {again.returncode}: {again.stdout[-500:]}")
        found = contents(folder)
        if found != expected:
            names = sorted(
                each for each in found.keys() | expected.keys() if found.get(each) != expected.get(each)
            )
            faults.append(f"{where}, then other files: {', '.join(names[:8])}")
    assert not faults, "\n".join(faults)
