"""The configurations in examples/training can be read, and name what is there."""

from pathlib import Path

import pytest

from decabench.tasks import TASKS
from decabench.training.config import read_config

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "training"
CONFIGS = sorted(path for path in FOLDER.rglob("*.toml") if path.name != "plan.toml")  # plans: tests/tools


@pytest.mark.parametrize("path", CONFIGS, ids=[str(path.relative_to(FOLDER)) for path in CONFIGS])
def test_a_configuration(path):
    config = read_config(path)
    assert config.tasks and set(config.tasks) <= set(TASKS)
    assert config.warmup + config.cooldown <= config.steps
    if config.init:
        folder = FOLDER / path.relative_to(FOLDER).parts[0]
        first = read_config(folder / f"{Path(config.init).relative_to('runs')}.toml")
        assert (first.model.dimension, first.vectors) == (config.model.dimension, config.vectors)
