from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from decabench.models.mqan_batch import MQANConfig
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.training.config import TrainConfig
from decabench.training.data import encode_tasks
from decabench.training.planning import TrainingRun

TINY = TrainConfig(
    model=MQANConfig(dimension=8, hidden=6, heads=2, layers=1, dropout=0.2, max_answer_tokens=8),
    tasks=("sst", "schema"),
    steps=6,
    vectors=("none:12",),
    batch_tokens=300,
    train_examples=12,
    warmup=4,
    validate_every=3,
    validation_examples=4,
    checkpoint_every=2,
)
"""Settings for six steps, which take a second."""


def change_record(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the record in a checkpoint's folder."""
    path = folder / "checkpoint.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def flip(path: Path) -> None:
    """Change the lowest bit of a file's last byte."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def encode_config(store, config):
    """Return the lexicon and the tasks' data for a configuration."""
    found = encode_tasks(store, config, {name: TASKS[name] for name in config.tasks})
    return found.lexicon, found.tasks


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_run(home: Path, tmp_path: Path) -> Callable[..., TrainingRun]:
    def make(output: str = "run", resume: bool = False, **changes: Any) -> TrainingRun:
        config = replace(TINY, **changes)
        tasks = {name: TASKS[name] for name in config.tasks}
        return TrainingRun(
            config, tasks, Store(home), tmp_path / output, "cpu", resume, report=lambda text: None
        )

    return make
