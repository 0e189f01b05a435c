"""The trained model that comes with the project."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from decabench.models.saved import Saved
from decabench.tasks.store import Store

MODEL = Path(__file__).parents[2] / "examples" / "demo-model"


def test_it_is_small():
    assert sum(path.stat().st_size for path in MODEL.iterdir()) < 10e6


def test_it_has_learned(home):
    """Of the sample's 32 validation sentences a coin gets 23 or more right once in a hundred times."""
    examples = list(Store(home).examples("sst", "validation"))
    replies = Saved.open(MODEL).load("cpu").answer([(each.context, each.question) for each in examples])
    right = sum(reply.text in each.answers for reply, each in zip(replies, examples, strict=True))
    assert len(examples) == 32
    assert right >= 23
