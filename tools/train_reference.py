"""Trains the reference models and makes submissions of their answers, one configuration after another.

    python tools/train_reference.py HOME OUTPUT [--configs examples/training/cpu] [--only sst,squad] [--device cuda]
                                    [--publish]

HOME is a folder of prepared data. For each FILE.toml of the folder of configurations: OUTPUT/runs/FILE is the run,
OUTPUT/models/FILE the exported checkpoint, OUTPUT/submissions/mqan-FILE its answers and results. What is done is not
done again, and a run that was broken off goes on: start the same command as often as it takes. A configuration whose
`init` is runs/OTHER has OTHER.toml trained first. --publish copies answers and results to submissions/, without what
may not be passed on.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from make_submissions import NO_DERIVATIVES, SPLIT, SUBMISSIONS, write_table

from decabench.submission import withhold

ROOT = Path(__file__).resolve().parent.parent
RUNS = "runs"


def decabench(*arguments: str | Path) -> None:
    """Runs a command of decabench and shows it; ends this script where it fails."""
    print("$ decabench", *arguments, flush=True)
    done = subprocess.run([sys.executable, "-m", "decabench.cli", *map(str, arguments)])
    if done.returncode:
        sys.exit(done.returncode)


def trained(name: str, configs: Path, home: Path, output: Path, device: str) -> Path:
    """The run of a configuration, after the one that it begins with."""
    config = configs / f"{name}.toml"
    first = before(read(config))
    begin = ["--init", trained(first, configs, home, output, device)] if first else []
    run = output / RUNS / name
    place = ["--home", home, "--output", run, "--device", device, "--resume"]
    decabench("train", "--config", config, *begin, *place)
    return run


def reference(name: str, configs: Path, home: Path, output: Path, device: str, words: int) -> None:
    """One model, from its configuration to its results."""
    model, submission = (output / part / f"mqan-{name}" for part in ("models", "submissions"))
    if not (model / "checkpoint.json").exists():
        run = trained(name, configs, home, output, device)
        decabench("export", run, "--output", model, "--words", str(words))
    if not (submission / "results").exists():
        config = configs / f"{name}.toml"
        data = ["--tasks", ",".join(read(config)["tasks"]), "--home", home, "--split", SPLIT]
        about = ["--name", submission.name, "--author", "decabench", "--compress", "zst"]
        about += ["--description", description(name, configs)]
        place = ["--predictor", f"mqan:{model}", "--output", submission, "--device", device]
        decabench("predict", *place, *data, *about)
        decabench("evaluate", "--submission", submission, *data)


def read(config: Path) -> dict[str, Any]:
    """A configuration as it is written."""
    return tomllib.loads(config.read_text(encoding="utf-8"))


def before(given: dict[str, Any]) -> str:
    """The configuration whose run this one begins with, if any."""
    return Path(given["init"]).relative_to(RUNS).as_posix() if "init" in given else ""


def description(name: str, configs: Path) -> str:
    """What a submission says of itself."""
    given = read(configs / f"{name}.toml")
    sizes = given.get("model", {})
    text = (
        f"MQAN trained on {_tasks(given)} for {_length(given)}{_beginning(given, configs)}, "
        f"d {sizes.get('dimension', 200)}, {sizes.get('layers', 2)} layer(s), {sizes.get('heads', 3)} heads, vectors "
        f"{' and '.join(given['vectors'])}; examples/training has its configuration."
    )
    withheld = [task for task in NO_DERIVATIVES if task in given["tasks"]]
    return text + f" Answers to {', '.join(withheld)} may not be passed on and are left out." * bool(withheld)


def _beginning(given: dict[str, Any], configs: Path) -> str:
    """The runs before this one, the latest first."""
    if not (first := before(given)):
        return ""
    earlier = read(configs / f"{first}.toml")
    return f", after {_length(earlier)} on {_tasks(earlier)}{_beginning(earlier, configs)}"


def _tasks(given: dict[str, Any]) -> str:
    return str(given["tasks"][0]) if len(given["tasks"]) == 1 else f"{len(given['tasks'])} tasks"


def _length(given: dict[str, Any]) -> str:
    return f"{given['steps']:,} steps of {given['batch_tokens']:,} tokens"


def publish(source: Path, tasks: Iterable[str]) -> None:
    """Copies a submission to submissions/, without its journal, and with digests of what may not be passed on."""
    target = SUBMISSIONS / source.name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("journal", "run.json"))
    for task in set(NO_DERIVATIVES) & set(tasks):
        withhold(target, task, SPLIT, compress="zst")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("home", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--configs", type=Path, default=ROOT / "examples" / "training" / "cpu")
    parser.add_argument("--only", default="", help="names of configurations, with commas")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--words", type=int, default=400_000, help="vectors that go with each model")
    parser.add_argument("--publish", action="store_true", help="copy to submissions/ what may be passed on")
    given = parser.parse_args()
    found = sorted(path.stem for path in given.configs.glob("*.toml"))
    names = given.only.split(",") if given.only else found
    if unknown := [name for name in names if name not in found]:
        parser.error(f"{given.configs} has no {', '.join(unknown)}: it has {', '.join(found) or 'no .toml'}.")
    for name in names:
        reference(name, given.configs, given.home, given.output, given.device, given.words)
        if given.publish:
            publish(
                given.output / "submissions" / f"mqan-{name}", read(given.configs / f"{name}.toml")["tasks"]
            )
    if given.publish:
        write_table("models", sorted(path.name for path in SUBMISSIONS.glob("mqan-*")))


if __name__ == "__main__":
    main()
