"""The trained model that comes with the project."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from decabench.metrics import nf1
from decabench.models.checkpoint import Checkpoint
from decabench.tasks import TASKS
from decabench.tasks.store import Store

MODEL = Path(__file__).parents[2] / "examples" / "demo-model"


def test_it_is_small():
    assert sum(path.stat().st_size for path in MODEL.iterdir()) < 10e6


def answers(home, task):
    """The sample's validation examples and what it says."""
    examples = list(Store(home).examples(task, "validation"))
    replies = Checkpoint.open(MODEL).load("cpu").answer(TASKS[task], examples)
    return examples, [reply.text for reply in replies]


def test_it_tells_good_reviews_from_bad(home):
    """Random guesses get 23 or more of the 32 sentences right once in a hundred times."""
    examples, said = answers(home, "sst")
    assert len(examples) == 32
    assert sum(text in each.answers for text, each in zip(said, examples, strict=True)) >= 23


@pytest.mark.parametrize(("task", "least"), [("srl", 50), ("squad", 25)])
def test_it_points_at_spans(home, task, least):
    """The whole context, which is what knows nothing, gets 31 of 100 on srl and 7 on squad."""
    examples, said = answers(home, task)
    assert float(nf1(said, [each.answers for each in examples])) > least
