"""Which tasks each baseline answers, and what is left out of its submission."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import SUITES, TASKS
from tests.tasks.commands import ROOT


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_submissions", ROOT / "tools" / "make_submissions.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_submissions"] = module  # a dataclass looks its module up by name
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sample")
    for name in ("ud.pos", "ud.dep", "sick.relatedness", "sick.entailment", "sentences.yelp", "squad2"):
        prepare_task(TASKS[name], Request(home, sample=True, progress=False))
    return home


SICK = ["sick.relatedness", "sick.entailment"]


@pytest.mark.parametrize(
    ("predictor", "suite", "tasks"),
    [
        ("majority", "jmt", {"test": ["ud.pos", "ud.dep", *SICK]}),
        ("most-frequent-tag", "jmt", {"test": ["ud.pos", "ud.dep"]}),
        ("random", "jmt", {"test": SICK}),
        ("first-choice", "jmt", {"test": ["sick.entailment"]}),
        ("copy-context", "jmt", {}),
        ("oracle", "jmt", {"test": ["ud.pos", "ud.dep", *SICK]}),
        ("majority", "zero-shot", {"validation": ["squad2"]}),  # sentences.yelp has nothing to train on
        ("oracle", "zero-shot", {"test": ["sentences.yelp"], "validation": ["squad2"]}),
        ("copy-context", "zero-shot", {"validation": ["squad2"]}),
    ],
)
def test_tasks_by_split(
    tool: ModuleType, sample: Path, predictor: str, suite: str, tasks: dict[str, list[str]]
) -> None:
    assert tool.Baseline(predictor, SUITES[suite]).tasks(sample) == tasks


def test_captions_are_left_out_and_labels_are_not(tool: ModuleType) -> None:
    withheld = tool.WITHHELD["oracle"]
    assert {"iwslt.de.en", "multi30k.en.de", "conll2003.entities"} <= set(withheld)
    assert not {"fdu.books", "hien.pos", "conll2003", "sst"} & set(withheld)


def test_descriptions_name_what_is_left_out_of_the_suite_alone(tool: ModuleType) -> None:
    def description(suite: str) -> str:
        return str(tool.Baseline("oracle", SUITES[suite]).description)

    assert "left out" not in description("fdu")
    assert "The answers to iwslt.en.de, cnn_dailymail are left out here" in description("decathlon")
    assert "The answers to conll2003.entities, ontonotes.entities are left out here" in description("tagging")
