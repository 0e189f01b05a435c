"""Damaged files of all ten datasets: every fault names its file and place, and no row is lost in silence.

`DECABENCH_MUTATIONS=N` damages the real mirror's files N times each, where it is beside the project.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path

import pytest

from decabench.errors import DataError
from decabench.tasks import DECATHLON
from decabench.tasks.preparation import SAMPLE_FOLDER, Request, describe_missing, prepare_task
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from tests.tasks.mutations import MUTATIONS, mutate

SEEDS = 2
"""Of each of the eight kinds of damage, for each dataset, and twice as many to single rows."""

PLACE = re.compile(
    r"(line|row|article|dialogue|segment|talk|member|column|story) ?\d*|no examples|not valid|examples"
)
_MEMBERS = {
    "multinli.in.out": "dev_",
    "zre": r"dev\.0",
    "wikisql": r"dev\.(tables\.)?jsonl",
    "iwslt.en.de": "tst2013",
}


def damage_and_prepare(task: str, kind: str, seed: int, mirror: Path, folder: Path) -> str:
    """Prepare the validation split of a task from a mirror with one damaged file; return what was said."""
    rng = random.Random(f"{task} {kind} {seed}")
    copied = folder / "mirror" / task
    shutil.copytree(mirror / task, copied)
    files = {file.name for source in TASKS[task].sources for file in source.files["validation"]}
    path = rng.choice(sorted(copied / name for name in files if (copied / name).is_file()))
    name = mutate(path, kind, rng, _MEMBERS.get(task, ""))
    request = Request(folder / "home", "validation", str(copied.parent), progress=False)
    try:
        record = prepare_task(TASKS[task], request)["validation"]
    except DataError as error:
        sentence = str(error)
        assert type(error) is not Exception and error.exit_code == 3
        assert path.name in sentence or name in sentence, sentence
        if kind == "row":
            assert PLACE.search(sentence), sentence
        assert len(sentence) < 1500 and "\n" not in sentence
        assert not Store(request.home).path(task, "validation").exists()
        return sentence
    whole = TASKS[task].counts["validation"]
    assert record.rows == whole or describe_missing(TASKS[task], "validation", record)
    return ""


@pytest.mark.parametrize("kind", MUTATIONS)
@pytest.mark.parametrize("task", DECATHLON.tasks)
def test_damage_is_named(task: str, kind: str, tmp_path: Path) -> None:
    seeds = SEEDS * (2 if kind == "row" else 1)
    said = [
        damage_and_prepare(task, kind, seed, SAMPLE_FOLDER, tmp_path / str(seed)) for seed in range(seeds)
    ]
    if kind in ("empty", "garbage", "page"):
        assert all(said)


@pytest.mark.mirror
@pytest.mark.skipif("DECABENCH_MUTATIONS" not in os.environ, reason="takes minutes: set DECABENCH_MUTATIONS")
@pytest.mark.parametrize("kind", MUTATIONS)
@pytest.mark.parametrize("task", DECATHLON.tasks)
def test_damage_to_the_real_files_is_named(task: str, kind: str, tmp_path: Path) -> None:
    shared = Path(os.environ.get("DECABENCH_SHARED", Path(__file__).parents[2].parent / "shared"))
    for seed in range(int(os.environ["DECABENCH_MUTATIONS"])):
        damage_and_prepare(task, kind, 1000 + seed, shared / "mirror", tmp_path / str(seed))
        shutil.rmtree(tmp_path / str(seed))
