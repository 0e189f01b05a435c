"""Compare `decabench prepare` with the loaders of the `datasets` library, task by task, on the same files.

    pip install -e '.[datasets]'
    python benchmarks/prepare.py --mirror MIRROR [--tasks sst,squad] [--repeats 3]

`datasets` unpacks archives and converts each file with its json, csv, parquet or text builder. decabench also makes
examples with sampling units, and checks counts and fingerprints. Each measurement runs in a separate process, which
reads the smallest task first. It counts CPU seconds, including child processes, and the growth of peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from timing import describe_machine, peak_memory

from decabench.tasks import TASKS, Request
from decabench.tasks.preparation import prepare_task


@dataclass(frozen=True)
class Loader:
    """A loader of the `datasets` library for a task's files."""

    builder: str
    """The name of the builder."""
    pattern: str
    """The pattern of the files, after unpacking archives."""
    options: Mapping[str, object] | None = None
    """The builder's options."""


LOADERS = {
    "squad": Loader("json", "*-v1.1.json", {"field": "data"}),
    "iwslt.en.de": Loader("text", "**/*.en*"),
    "cnn_dailymail": Loader("parquet", "**/*.parquet"),
    "multinli.in.out": Loader("json", "**/*.jsonl"),
    "sst": Loader("csv", "*.csv"),
    "srl": Loader("text", "*.qa"),
    "zre": Loader("text", "**/*.0"),
    "woz.en": Loader("json", "*_en.json"),
    "wikisql": Loader("json", "**/*.jsonl"),
    "schema": Loader("text", "*.txt"),
}


SMALLEST = "schema"


def unpack(target: Path) -> Path:
    """Unpack the archives in a copy of a task's files, and return the copy."""
    for path in [*target.rglob("*.zip"), *target.rglob("*.tgz"), *target.rglob("*.tar.bz2")]:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as zipped:
                zipped.extractall(path.parent)
        else:
            with tarfile.open(path) as packed:
                packed.extractall(path.parent, filter="data")
        path.unlink()
    return target


def load(task: str, folder: Path, cache: Path) -> None:
    """Read a task's files with the `datasets` library, loading tables and records separately."""
    import datasets

    loader = LOADERS[task]
    kinds: dict[str, list[str]] = {}
    for path in sorted(folder.glob(loader.pattern)):
        kind = "tables" if "tables" in path.name else "records"
        kinds.setdefault(kind, []).append(str(path))
    for kind, files in kinds.items():
        datasets.load_dataset(
            loader.builder, data_files=files, cache_dir=str(cache / kind), **(loader.options or {})
        )


def measure(task: str, side: str, folder: Path) -> None:
    """Print the CPU seconds and megabytes of a side as JSON."""
    with tempfile.TemporaryDirectory(prefix="decabench-") as temporary:
        if side == "ours":
            request = Request(Path(temporary), mirror=str(folder), progress=False)

            prepare_task(TASKS[SMALLEST], replace(request, home=Path(temporary) / "first"))

            def run() -> object:
                return prepare_task(TASKS[task], request)
        else:
            import datasets

            datasets.disable_progress_bars()
            load(SMALLEST, folder / SMALLEST, Path(temporary) / "first")

            files = Path(shutil.copytree(folder / task, Path(temporary) / "files"))

            def run() -> object:
                return load(task, unpack(files), Path(temporary) / "cache")

        before = _cpu()
        megabytes = peak_memory(run)
        print(json.dumps({"seconds": _cpu() - before, "megabytes": megabytes}))


def _cpu() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def in_own_process(task: str, side: str, folder: Path) -> dict[str, float]:
    """Run `measure` in a separate process."""
    command = [sys.executable, __file__, "--measure", f"{task} {side}", "--mirror", str(folder)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{task}, {side}: {done.stderr[-1000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mirror", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join(LOADERS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        task, side = given.measure.split()
        measure(task, side, given.mirror)
        return
    print(describe_machine())
    print(
        "| task | ours, CPU s | datasets, CPU s | ratio | ours, MB | datasets, MB |\n|---|---|---|---|---|---|"
    )
    for task in given.tasks.split(","):
        found: dict[str, list[dict[str, float]]] = {"ours": [], "datasets": []}
        for _ in range(given.repeats):
            for side, runs in found.items():
                runs.append(in_own_process(task, side, given.mirror))
        seconds, megabytes = (
            {side: statistics.median(one[key] for one in runs) for side, runs in found.items()}
            for key in ("seconds", "megabytes")
        )
        print(
            f"| {task} | {seconds['ours']:.2f} | {seconds['datasets']:.2f} | "
            f"{seconds['datasets'] / seconds['ours']:.1f} | {megabytes['ours']:.0f} | {megabytes['datasets']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
