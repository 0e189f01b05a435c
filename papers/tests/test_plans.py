from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra train")

import decabench
from decabench.tasks import SUITES, TASKS, Store, known_suites, known_tasks, prepare
from decabench.training.config import TrainConfig, combine_settings, read_config
from papers import make_related_tasks
from papers.plan import read_plan

FOLDER = Path(__file__).resolve().parents[1] / "plans"
NAMES_OF_SUITES = ("suite.toml", "domains.toml")
NOT_TRAINED = ("plan.toml", "submission.toml", *NAMES_OF_SUITES)
CONFIGS = sorted(path for path in FOLDER.rglob("*.toml") if path.name not in NOT_TRAINED)
GENERATED = ("less.1", "less.2", "less.3")  # by papers/make_related_tasks.py
SUITE_FILES = sorted(path for name in NAMES_OF_SUITES for path in FOLDER.rglob(name))


@pytest.mark.parametrize("path", CONFIGS, ids=[str(path.relative_to(FOLDER)) for path in CONFIGS])
def test_a_configuration(path):
    config = read_config(path)
    assert config.tasks and set(config.tasks) <= {*TASKS, *GENERATED}
    warmup = config.warmup if config.rate == "inverse-root" else 0  # the only rate with a warmup
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


FILES_OF_SUITES = ("suite.toml", "domains.toml", "transfer.py")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/plan.toml")), ids=lambda path: path.parent.name)
def test_plans_of_the_project(path, tmp_path):
    import torch

    from decabench.models import find_family
    from decabench.vectors import WordTable
    from decabench.vectors.tokenizer import Lexicon
    from decabench.vectors.word_vectors import JoinedVectors, NoVectors

    include = sorted(file for name in FILES_OF_SUITES for file in path.parent.glob(name))
    if path.parent.name == "related":  # the plan's tasks are generated
        for name in ("more", "less"):
            make_related_tasks.main(
                [str(tmp_path / name), "--name", name, "--relatedness", name, "--texts", "4"]
            )
        include = [file for file in sorted(tmp_path.glob("*/*.toml")) if file.name != "train.toml"]
    plan, built, known = read_plan(path, include), set(), decabench.tasks.known_tasks(include)
    for run in plan.runs:
        config, settings = (
            path.parent / (run.config or plan.config),
            {**plan.settings, **run.settings, "seed": 1},
        )
        made, _ = combine_settings(TrainConfig(), config, settings, tasks=run.tasks)
        assert made.tasks == run.tasks
        if run.title in built:
            continue
        built.add(run.title)
        outputs = {task: _with_names(known[task].output) for task in run.tasks}
        words = WordTable(Lexicon([" a ", " cat "]), JoinedVectors((NoVectors(300),)))
        with torch.device("meta"):
            network = find_family(made.model.name).build(made.model, outputs, words)
        assert any(parameter.ndim == 2 for parameter in network.parameters())


def _with_names(output):
    if getattr(output, "names", None) == ():
        return replace(output, names=("O", "B-NP", "I-NP"))
    return replace(output, relations=("root", "obj")) if getattr(output, "relations", None) == () else output
