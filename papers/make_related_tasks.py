"""Make tagging tasks with a known relatedness that changes within each text, to study how models share.

    python -m papers.make_related_tasks FOLDER [--name NAME] [--relatedness more] [--tasks 3] [--texts 400] [--seed 0]
    decabench prepare related.1 related.2 related.3 --include FOLDER/related.1.toml --include ...
    decabench train --config FOLDER/train.toml --set model.extension=rmn --include ... --output run

The tasks replace the tf-MRI tasks of "Multi-Task Recurrent Modular Networks", which need licensed recordings: 28 time
steps in 7 segments of 4 (in the paper, a person's 7 activities). Here, each segment has its own words, the segments
are in random order, and a table gives the tag for each pair of a word and the kind of the previous word. In segment s,
an entry of the table is the same in all tasks with probability `relatedness[s]`, and is otherwise drawn separately for
each task. Two tasks therefore agree on a share r + (1 - r) / TAGS of the entries in a segment with relatedness r.

A share `--noise` of the tags is drawn at random: a model that has learned the tables scores 1 - noise (1 - 1 / TAGS).
The command writes to FOLDER a data file for each task and split, a task file for each task, `suite.toml`, `train.toml`
(a model so small that tasks compete, as in the paper's Figure 3), and `truth.json` with the tables, the relatedness of
each segment, the share of entries common to each pair of tasks, and the highest possible score.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SEGMENTS, STEPS = 7, 4
"""The number of segments in a text, and the number of words in each segment."""
WORDS, KINDS, TAGS = 8, 2, 4
"""The number of words to draw from in each segment, the number of kinds of words, and the number of tags."""
MORE_RELATED = (1.0, 0.9, 0.8, 0.9, 1.0, 0.7, 0.9)
LESS_RELATED = (0.4, 0.0, 0.2, 0.9, 0.1, 0.0, 0.3)
"""The relatedness of two groups of tasks, by segment, modeled on the paper's groups.

The tasks of the first group are related in all segments, and those of the second mainly in one segment.
"""
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class RelatedTasks:
    """A family of tasks with known relatedness."""

    tables: npt.NDArray[np.int64]
    """The tag of each word, depending on the kind of the previous word, (tasks, SEGMENTS, WORDS, KINDS)."""
    relatedness: Sequence[float]
    """The expected share of entries common to all tasks, by segment."""
    noise: float
    """The share of tags drawn at random."""

    @property
    def agreement(self) -> npt.NDArray[np.float64]:
        """The share of entries common to each pair of tasks, (tasks, tasks, SEGMENTS)."""
        same = self.tables[:, None] == self.tables[None]
        agreement: npt.NDArray[np.float64] = same.mean((3, 4))
        return agreement

    @property
    def ceiling(self) -> float:
        """The accuracy, 0–100, of a model that has learned the tables exactly."""
        return 100 * (1 - self.noise * (1 - 1 / TAGS))


def draw_tasks(
    random: np.random.Generator, tasks: int, relatedness: Sequence[float], noise: float
) -> RelatedTasks:
    """Draw the tables for a family of tasks."""
    shape = SEGMENTS, WORDS, KINDS
    common, own = random.integers(0, TAGS, shape), random.integers(0, TAGS, (tasks, *shape))
    is_common = random.random(shape) < np.array(relatedness)[:, None, None]
    return RelatedTasks(np.where(is_common, common, own), tuple(relatedness), noise)


def draw_text(random: np.random.Generator, family: RelatedTasks, task: int) -> tuple[list[str], list[str]]:
    """Draw a text's words and their tags.

    A word's kind is 1 if its number is odd, otherwise 0. The first word follows kind 0.
    """
    words, tags, before = [], [], 0
    for segment in random.permutation(SEGMENTS):
        for word in random.integers(0, WORDS, STEPS):
            tag = family.tables[task, segment, word, before % KINDS]
            if random.random() < family.noise:
                tag = random.integers(0, TAGS)
            words.append(f"{'abcdefg'[segment]}{word}")
            tags.append(f"T{tag}")
            before = int(word)
    return words, tags


def rows(
    random: np.random.Generator, family: RelatedTasks, task: int, count: int
) -> Iterator[dict[str, Any]]:
    """Yield the records of a split, each with a text's words and tags."""
    for number in range(count):
        words, tags = draw_text(random, family, task)
        yield {"id": str(number), "words": " ".join(words), "tags": " ".join(tags)}


def task_file(name: str, number: int) -> str:
    """Return the contents of a task file."""
    names = ", ".join(f'"T{tag}"' for tag in range(TAGS))
    files = "\n".join(f'{split} = "{name}.{split}.jsonl"' for split in SPLITS)
    return f"""format = "decabench.taskfile/1"
name = "{name}"
title = "Related tasks, number {number}"
dataset = "Generated by papers/make_related_tasks.py"
question = "What are the tags of the words?"
context = "{{words}}"
answer = "tags"
id = "id"

[output]
kind = "tags"
names = [{names}]

[files]
{files}
"""


def suite_file(names: Sequence[str], prefix: str = "related") -> str:
    """Return the contents of a suite file for all tasks."""
    return f"""format = "decabench.suite/1"
name = "{prefix}"
title = "Related tasks"
description = "Generated tagging tasks whose relatedness is known and changes within each text."
tasks = {json.dumps(list(names))}
total = "mean"
total_name = "mean accuracy"
"""


def config_file(names: Sequence[str]) -> str:
    """Return a configuration for training on all tasks."""
    return f"""# shared-lstm is FS-MTL; ns-mtl with model.extension none, direct (DC-MTL), shared (IC-MTL), rrn or rmn.
tasks = {json.dumps(list(names))}
vectors = ["none:20"]
together = true
epochs = 40
rate = "constant"
learning_rate = 0.003
beta2 = 0.999
batch_examples = 16
clip = 0
validate_every = 0
validation_examples = 0
checkpoint_every = 0
best_by = "decascore"

[model]
name = "ns-mtl"
hidden = 32  # small enough for tasks to compete, as in the paper's controlled experiment
module_size = 32
unseen_vectors = false
"""


def write_family(
    folder: Path, family: RelatedTasks, seed: int, texts: int, prefix: str = "related"
) -> list[str]:
    """Write a family's tasks, and return their names. Each split and task has its own random numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{prefix}.{number}" for number in range(1, len(family.tables) + 1)]
    sizes = dict(zip(SPLITS, (texts, max(20, texts // 4), max(20, texts)), strict=True))
    for task, name in enumerate(names):
        for at, split in enumerate(SPLITS):
            random = np.random.default_rng([seed, 1 + task, at])
            lines = [json.dumps(row) + "\n" for row in rows(random, family, task, sizes[split])]
            (folder / f"{name}.{split}.jsonl").write_text("".join(lines), encoding="utf-8")
        (folder / f"{name}.toml").write_text(task_file(name, task + 1), encoding="utf-8")
    (folder / "suite.toml").write_text(suite_file(names, prefix), encoding="utf-8")
    (folder / "train.toml").write_text(config_file(names), encoding="utf-8")
    truth = {
        "format": "decabench.related/1",
        "seed": seed,
        "relatedness": list(family.relatedness),
        "noise": family.noise,
        "ceiling": family.ceiling,
        "agreement": family.agreement.tolist(),
        "tables": family.tables.tolist(),
    }
    (folder / "truth.json").write_text(json.dumps(truth) + "\n", encoding="utf-8")
    return names


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--relatedness",
        default="more",
        help=f"more, less, or {SEGMENTS} numbers from 0 to 1, separated by commas",
    )
    parser.add_argument(
        "--name", default="related", help="name of the suite; its tasks are NAME.1, NAME.2, ..."
    )
    parser.add_argument("--tasks", type=int, default=3)
    parser.add_argument(
        "--texts", type=int, default=400, help="number of training texts of each task, and of test texts"
    )
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    groups = {"more": MORE_RELATED, "less": LESS_RELATED}
    try:
        relatedness = groups.get(given.relatedness) or tuple(map(float, given.relatedness.split(",")))
    except ValueError:
        parser.error(f"--relatedness is {given.relatedness!r}, but must be more, less, or {SEGMENTS} numbers")
    if len(relatedness) != SEGMENTS or not all(0 <= share <= 1 for share in (*relatedness, given.noise)):
        parser.error(f"--relatedness must be {SEGMENTS} numbers and --noise a number, all from 0 to 1")
    if given.tasks < 1 or given.texts < 1:
        parser.error("--tasks and --texts must be 1 or more")
    family = draw_tasks(np.random.default_rng([given.seed, 0]), given.tasks, relatedness, given.noise)
    names = write_family(given.folder, family, given.seed, given.texts, given.name)
    shares = family.agreement
    for segment, share in enumerate(relatedness):
        pairs = [shares[a, b, segment] for a in range(given.tasks) for b in range(a)]
        found = f", {np.mean(pairs):.0%} of entries agree" if pairs else ""
        print(f"segment {'abcdefg'[segment]}: relatedness {share:.2f}{found}")
    print(f"Wrote {', '.join(names)} to {given.folder}; ceiling {family.ceiling:.1f}.")


if __name__ == "__main__":
    main()
