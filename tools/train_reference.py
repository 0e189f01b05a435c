"""Train the reference models and make submissions of their answers, one configuration after another.

    python tools/train_reference.py HOME OUTPUT [--configs examples/training/cpu] [--only sst,squad] [--device cuda]
                                    [--seeds 0,1,2] [--splits validation,test] [--publish]

HOME is a folder of prepared data. For each FILE.toml of the folder of configurations: OUTPUT/runs/FILE is the run,
OUTPUT/models/FILE the exported checkpoint, OUTPUT/submissions/mqan-FILE its answers and results. What is done is not
done again, and a run that was broken off goes on: start the same command as often as it takes. A configuration whose
`init` is runs/OTHER has OTHER.toml trained first. With --seeds each configuration is trained once a seed (the names of
all but the first end in -seed-N); mean and standard deviation of each task's score are printed as a Markdown table.
Answers to the test split go to submissions/mqan-FILE-test. --publish copies answers and results of the first seed on
the validation split to submissions/, without what may not be passed on.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from make_submissions import NO_DERIVATIVES, SPLIT, SUBMISSIONS, write_table

from decabench.scoring import read_results_file
from decabench.submission import withhold

ROOT = Path(__file__).resolve().parent.parent
RUNS = "runs"


@dataclass(frozen=True)
class Work:
    """Where the configurations, the data and the results are, and how to train."""

    configs: Path
    home: Path
    output: Path
    device: str
    words: int
    """How many words' vectors go with an exported model."""
    splits: tuple[str, ...]
    """The splits to answer."""


@dataclass(frozen=True)
class Training:
    """One configuration, trained with one seed."""

    name: str
    suffix: str = ""
    """What its folders' names end in."""
    seed: int | None = None
    """In place of the configuration's."""

    def folder(self, work: Work, part: str, split: str = SPLIT) -> Path:
        """Return the folder of its `part`: models or submissions."""
        return work.output / part / f"mqan-{self.name}{self.suffix}{'' if split == SPLIT else f'-{split}'}"


def decabench(*arguments: object) -> None:
    """Run a command of decabench and show it; end this script if it fails."""
    print("$ decabench", *arguments, flush=True)
    done = subprocess.run([sys.executable, "-m", "decabench.cli", *map(str, arguments)])
    if done.returncode:
        sys.exit(done.returncode)


def train(name: str, training: Training, work: Work) -> Path:
    """Train a configuration with a training's seed, after the one that it begins with. Returns the run's folder."""
    config = work.configs / f"{name}.toml"
    first = before(read(config))
    begin = ["--init", train(first, training, work)] if first else []
    run = work.output / RUNS / f"{name}{training.suffix}"
    place = ["--home", work.home, "--output", run, "--device", work.device, "--resume"]
    place += [] if training.seed is None else ["--set", f"seed={training.seed}"]
    decabench("train", "--config", config, *begin, *place)
    return run


def score(training: Training, work: Work) -> None:
    """Make one model, from its configuration to its results."""
    model = training.folder(work, "models")
    if not (model / "checkpoint.json").exists():
        run = train(training.name, training, work)
        decabench("export", run, "--output", model, "--words", str(work.words))
    for split in work.splits:
        submission = training.folder(work, "submissions", split)
        if not (submission / "results").exists():
            tasks = read(work.configs / f"{training.name}.toml")["tasks"]
            data = ["--tasks", ",".join(tasks), "--home", work.home, "--split", split]
            about = ["--name", submission.name, "--author", "decabench", "--compress", "zst"]
            about += ["--description", description(training.name, work.configs)]
            place = ["--predictor", f"trained:{model}", "--output", submission, "--device", work.device]
            decabench("predict", *place, *data, *about)
            decabench("evaluate", "--submission", submission, *data)


def as_table(trainings: Sequence[Training], work: Work) -> str:
    """Return the scores of one configuration over seeds as Markdown: a row for each split and task."""
    lines = ["| configuration | task, split | seeds | mean | sd | scores |", "|---|---|---|---|---|---|"]
    for split in work.splits:
        folders = [training.folder(work, "submissions", split) for training in trainings]
        results = [read_results_file(folder / "results" / split / "results.json") for folder in folders]
        for task in results[0].tasks:
            scores = [found for result in results if (found := result.tasks[task].score) is not None]
            spread = f"{stdev(scores):.1f}" if len(scores) > 1 else "–"
            each = ", ".join(f"{value:.1f}" for value in scores)
            name = f"{task}, {split}"
            lines.append(
                f"| {trainings[0].name} | {name} | {len(scores)} | {mean(scores):.1f} | {spread} | {each} |"
            )
    return "\n".join(lines)


def read(config: Path) -> dict[str, Any]:
    """Read a configuration as it is written."""
    return tomllib.loads(config.read_text(encoding="utf-8"))


def before(given: dict[str, Any]) -> str:
    """Return the name of the configuration whose run this one begins with, or an empty string."""
    return Path(given["init"]).relative_to(RUNS).as_posix() if "init" in given else ""


def description(name: str, configs: Path) -> str:
    """Describe a submission: its model, training, and what is left out."""
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
    """Describe the runs before this one, the latest first."""
    if not (first := before(given)):
        return ""
    earlier = read(configs / f"{first}.toml")
    return f", after {_length(earlier)} on {_tasks(earlier)}{_beginning(earlier, configs)}"


def _tasks(given: dict[str, Any]) -> str:
    return str(given["tasks"][0]) if len(given["tasks"]) == 1 else f"{len(given['tasks'])} tasks"


def _length(given: dict[str, Any]) -> str:
    return f"{given['steps']:,} steps of {given['batch_tokens']:,} tokens"


def publish(source: Path, tasks: Iterable[str]) -> None:
    """Copy a submission to submissions/, without its journal, and with digests of what may not be passed on."""
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
    parser.add_argument(
        "--seeds", default="", help="random seeds, with commas, in place of the configuration's"
    )
    parser.add_argument("--splits", default=SPLIT, help="which splits to answer, with commas")
    parser.add_argument("--publish", action="store_true", help="copy to submissions/ what may be passed on")
    given = parser.parse_args()
    found = sorted(path.stem for path in given.configs.glob("*.toml"))
    names = given.only.split(",") if given.only else found
    if unknown := [name for name in names if name not in found]:
        parser.error(f"{given.configs} has no {', '.join(unknown)}: it has {', '.join(found) or 'no .toml'}.")
    splits = tuple(given.splits.split(","))
    work = Work(given.configs, given.home, given.output, given.device, given.words, splits)
    seeds = [int(seed) for seed in given.seeds.split(",") if seed]
    for name in names:
        others = [Training(name, f"-seed-{seed}", seed) for seed in seeds[1:]]
        trainings = [Training(name, "", seeds[0] if seeds else None), *others]
        for training in trainings:
            score(training, work)
        print(as_table(trainings, work))
        if given.publish:
            publish(trainings[0].folder(work, "submissions"), read(given.configs / f"{name}.toml")["tasks"])
    if given.publish:
        write_table("models", sorted(path.name for path in SUBMISSIONS.glob("mqan-*")))


if __name__ == "__main__":
    main()
