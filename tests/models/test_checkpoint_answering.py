from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import numpy as np

from decabench.models.checkpoint import TrainedModel, batch_by_length
from decabench.tasks import TASKS, Question
from tests.models.conftest import TEXTS

TASK = TASKS["squad"]
ASKED = [Question(str(at), question, context) for at, (question, context, _) in enumerate(TEXTS)]


@pytest.mark.parametrize("name", ["mqan", "s2s"])
def test_batches_and_order_do_not_matter(kit, name):
    made = kit(name).trained()
    whole = made.answer(TASK, ASKED, limit=6)
    assert made.answer(TASK, ASKED, limit=6, batch_tokens=1) == whole
    assert made.answer(TASK, ASKED[::-1], limit=6)[::-1] == whole
    assert [reply.said for reply in whole if not reply.finished] == [6] * sum(not r.finished for r in whole)
    wide = made.answer(TASK, ASKED, limit=6, beam=2)
    assert len(wide) == len(ASKED)
    assert made.answer(TASK, ASKED, limit=6, beam=2, batch_tokens=1) == wide
    assert made.answer(TASK, ASKED, limit=6, beam=1) == whole
    assert made.answer(TASK, []) == []


@pytest.mark.parametrize(("beam", "sizes"), [(1, [4]), (2, [2, 2]), (4, [1, 1, 1, 1])])
def test_hypotheses_count_as_rows(kit, monkeypatch, beam, sizes):
    made, seen = kit("mqan").trained(), []
    whole = TrainedModel.make_batch
    monkeypatch.setattr(
        TrainedModel,
        "make_batch",
        lambda self, task, items: seen.append(len(items)) or whole(self, task, items),
    )
    asked = [Question("", "x", "one two three")] * 4  # of three and five tokens
    made.answer(TASK, asked, limit=2, batch_tokens=32, beam=beam)
    assert seen == sizes


def test_batches_by_length():
    batches = list(batch_by_length(np.array([6, 14, 7, 13, 8]), 30))
    assert sorted(row for batch in batches for row in batch) == [0, 1, 2, 3, 4]
    assert batches == [[1, 3], [4, 2, 0]]


def test_what_a_cut_keeps(kit):
    text = "One two, three four"
    made = kit("mqan").trained()
    for limit, kept in ((3, "One two,"), (5, None)):
        cut = replace(made, cut_context={"squad": limit})
        (reply,) = cut.answer(TASK, [Question("", "what?", text)], limit=1)
        assert (reply.context_kept and text[: reply.context_kept].strip()) == kept
    (reply,) = made.answer(TASK, [Question("", "what?", text)], limit=1)
    assert reply.context_kept is None
