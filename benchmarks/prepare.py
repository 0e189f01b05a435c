"""`decabench prepare` against the loaders of the `datasets` library, task by task, on the same published files.

    pip install -e '.[datasets]'
    python benchmarks/prepare.py --mirror MIRROR [--tasks sst,squad] [--repeats 3] [--tenfold]

Theirs unpack archives and read each file into their own format with the builder for its form (json, csv, parquet,
text); ours make examples with units of sampling, check counts and fingerprints, and write what scoring needs. Each
measurement is a process of its own: its CPU seconds, children included, after the smallest task has been read once,
and its peak memory beyond that. `--tenfold` repeats the records of files ten times and says how memory grows.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from timing import describe_machine, peak_memory

from decabench.tasks import TASKS, Request
from decabench.tasks.preparation import prepare_task


@dataclass(frozen=True)
class Loader:
    """How the `datasets` library reads a task's files."""

    builder: str
    """Its name there."""
    pattern: str
    """The files, once archives are unpacked."""
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
    """Unpack the archives in a copy of a task's files."""
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
    """Read a task's files with the `datasets` library, each kind of record by itself."""
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
    """Print the CPU seconds and megabytes of one side as JSON."""
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
    """Run `measure` in a process of its own."""
    command = [sys.executable, __file__, "--measure", f"{task} {side}", "--mirror", str(folder)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{task}, {side}: {done.stderr[-1000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def repeat_squad(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    articles = content["data"]
    content["data"] = [
        {
            **article,
            "paragraphs": [
                {**paragraph, "qas": [{**qa, "id": f"{qa['id']}-{copy}"} for qa in paragraph["qas"]]}
                for paragraph in article["paragraphs"]
            ],
        }
        for copy in range(10)
        for article in articles
    ]
    path.write_text(json.dumps(content), encoding="utf-8")


def repeat_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    at, ids = table.column_names.index("id"), table.column("id").to_pylist()
    copies = [
        table.set_column(at, "id", pa.array([f"{id_}-{copy}" for id_ in ids], pa.string()))
        for copy in range(10)
    ]
    pq.write_table(pa.concat_tables(copies), path, row_group_size=1_000)


def repeat_lines(path: Path) -> None:
    head, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text(head + "".join(rest * 10), encoding="utf-8")


REPEATED: dict[str, tuple[str, Callable[[Path], None]]] = {
    "squad": ("*.json", repeat_squad),
    "cnn_dailymail": ("**/*.parquet", repeat_parquet),
    "sst": ("*.csv", repeat_lines),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mirror", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join(LOADERS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tenfold", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        task, side = given.measure.split()
        measure(task, side, given.mirror)
        return
    print(describe_machine())
    with tempfile.TemporaryDirectory(prefix="decabench-") as temporary:
        if given.tenfold:
            tenfold(given.mirror, Path(temporary), given.tasks.split(","))
            return
        print(
            "| task | ours, CPU s | datasets, CPU s | times ours | ours, MB | datasets, MB |\n|---|---|---|---|---|---|"
        )
        for task in given.tasks.split(","):
            found: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
            for _ in range(given.repeats):
                found["ours"].append(in_own_process(task, "ours", given.mirror))
                found["theirs"].append(in_own_process(task, "theirs", given.mirror))
            seconds, megabytes = (
                {side: statistics.median(one[key] for one in runs) for side, runs in found.items()}
                for key in ("seconds", "megabytes")
            )
            print(
                f"| {task} | {seconds['ours']:.2f} | {seconds['theirs']:.2f} | "
                f"{seconds['theirs'] / seconds['ours']:.1f} | {megabytes['ours']:.0f} | {megabytes['theirs']:.0f} |",
                flush=True,
            )


def tenfold(mirror: Path, temporary: Path, tasks: Sequence[str]) -> None:
    """Print how memory grows with files of ten times the records."""
    shutil.copytree(mirror / SMALLEST, temporary / "large" / SMALLEST)
    print("| task | CPU s | with ten times | MB | with ten times |\n|---|---|---|---|---|")
    for task in tasks:
        if task not in REPEATED:
            continue
        pattern, repeat = REPEATED[task]
        large = temporary / "large" / task
        shutil.copytree(mirror / task, large)
        for path in large.glob(pattern):
            repeat(path)
        small, big = (in_own_process(task, "ours", folder) for folder in (mirror, temporary / "large"))
        print(
            f"| {task} | {small['seconds']:.2f} | {big['seconds']:.2f} | {small['megabytes']:.0f} | "
            f"{big['megabytes']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
