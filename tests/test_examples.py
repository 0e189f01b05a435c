"""The configurations in examples/training can be read, and name what is there."""

from pathlib import Path

import pytest

from decabench.tasks import SUITES, TASKS, Store, known_suites, known_tasks, prepare
from decabench.training.config import read_config

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "training"
NAMES_OF_SUITES = ("suite.toml", "domains.toml")
# Plans are read in tests/tools, suites in test_a_suite; a submission beside a plan is a baseline of it.
NOT_TRAINED = ("plan.toml", "submission.toml", *NAMES_OF_SUITES)
CONFIGS = sorted(path for path in FOLDER.rglob("*.toml") if path.name not in NOT_TRAINED)
GENERATED = ("less.1", "less.2", "less.3")  # by tools/make_related_tasks.py
SUITE_FILES = sorted(path for name in NAMES_OF_SUITES for path in FOLDER.rglob(name))


@pytest.mark.parametrize("path", CONFIGS, ids=[str(path.relative_to(FOLDER)) for path in CONFIGS])
def test_a_configuration(path):
    config = read_config(path)
    assert config.tasks and set(config.tasks) <= {*TASKS, *GENERATED}
    warmup = config.warmup if config.rate == "inverse-root" else 0  # the only one that has it
    assert warmup + config.cooldown <= config.steps
    if config.init:
        folder = FOLDER / path.relative_to(FOLDER).parts[0]
        first = read_config(folder / f"{Path(config.init).relative_to('runs')}.toml")
        assert (first.model.dimension, first.vectors) == (config.model.dimension, config.vectors)


@pytest.mark.parametrize("path", SUITE_FILES, ids=[str(path.relative_to(FOLDER)) for path in SUITE_FILES])
def test_a_suite(path):
    known = known_suites([path])
    (name,) = known.keys() - SUITES.keys()
    assert known[name].tasks and set(known[name].tasks) <= set(known_tasks([path]))


def test_snli_small_learns_the_validation_part_of_snli(tmp_path):
    transfer = FOLDER / "decathlon" / "transfer.py"
    assert "snli.small" in known_suites([transfer])["transfer"].tasks
    prepare(["snli", "snli.small"], sample=True, home=tmp_path, include=[transfer])
    for own, part in (("train", "validation"), ("validation", "test")):
        mine, theirs = (
            {(one.context, one.question, one.answers) for one in Store(tmp_path).examples(name, split)}
            for name, split in (("snli.small", own), ("snli", part))
        )
        assert mine == theirs and mine
