"""Bundles: folders with everything that `decabench train` needs on a machine without decabench or a network.

config.toml                     the configuration; its vectors are files of the bundle
vectors*, ngrams*               the vectors of the tasks' words, in half precision
home/tasks/TASK/                the prepared data
site/decabench/                 this version of decabench
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

import decabench
from decabench.errors import DecabenchError
from decabench.models import write_vectors
from decabench.tasks import Store, get_task, known_tasks
from decabench.training.config import TrainConfig, combine_settings, to_mapping
from decabench.training.data import encode_tasks
from decabench.vectors import SPECIALS, join_vectors

HOW_TO = """{folder}: {size:.1f} MB. On the other machine, in that folder:

  export PYTHONPATH=site
  python3 -m decabench train --config config.toml --home home --output run --resume --stop-after 9
  python3 -m decabench predict --predictor trained:run --home home --output answers
  python3 -m decabench export weights run --output weights

Repeat the second command to continue. Packages that the other machine lacks must be installed there
(pip install --target site NAME), or copied: wheels are zip files that you can unpack into site/."""


def write_bundle(
    folder: Path,
    config: Path | None,
    tasks: Sequence[str],
    settings: Mapping[str, Any] | Sequence[str],
    home: Path | None,
) -> str:
    """Write a bundle for built-in tasks, and return instructions for the other machine.

    Raises DecabenchError if the folder is not empty, a setting is invalid, or a task is not prepared.
    """
    if folder.exists() and any(folder.iterdir()):
        raise DecabenchError(f"{folder} is not empty. Choose another folder.")
    made, _ = combine_settings(TrainConfig(), config, settings, tasks=tuple(tasks))
    if made.init:
        raise DecabenchError("A bundle's run starts from random weights. Leave out init.")
    store, known = Store(home), known_tasks(())
    chosen = {name: get_task(name, known) for name in made.tasks}
    for split in ("train", "validation"):
        store.require(list(chosen.values()), split)
    words = encode_tasks(store, made, chosen).lexicon.words[len(SPECIALS) :]
    folder.mkdir(parents=True, exist_ok=True)
    vectors = list(made.vectors)
    if not all(name.startswith("none:") for name in vectors):
        written = write_vectors(folder, join_vectors(made.vectors), [word.strip() for word in words])
        vectors = list(written.names)
    with (folder / "config.toml").open("wb") as file:
        tomli_w.dump({**to_mapping(made), "vectors": vectors}, file)
    for task in made.tasks:
        for path in store.folder(task).iterdir():
            if path.suffix == ".json" or path.stem in ("train", "validation"):
                target = Store(folder / "home").folder(task) / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    package = Path(
        decabench.__file__
    ).parent  # the folders that it links to, such as metrics/, are copied too
    shutil.copytree(
        package, folder / "site" / "decabench", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return HOW_TO.format(folder=folder, size=size / 1e6)
