"""Text in, text out; and half precision, and torch.compile."""

import pytest

torch = pytest.importorskip("torch")

from decabench.models.answering import Answerer, autocast, by_length, kept_characters, pick_device
from decabench.models.batches import Encoded
from decabench.models.words import Lexicon
from tests.models.conftest import TEXTS

PAIRS = [(context, question) for question, context, _ in TEXTS]


def answerer(made):
    return Answerer(made.model, made.collate, torch.device("cpu"))


@pytest.mark.parametrize("name", ["mqan", "s2s"])
def test_batches_and_order_do_not_matter(kit, name):
    made = answerer(kit(name))
    whole = made.answer(PAIRS, limit=6)
    assert made.answer(PAIRS, limit=6, batch_tokens=1) == whole
    assert made.answer(PAIRS[::-1], limit=6)[::-1] == whole
    assert [reply.said for reply in whole if not reply.finished] == [6] * sum(not r.finished for r in whole)
    wide = made.answer(PAIRS, limit=6, beam=2)
    assert len(wide) == len(PAIRS)
    assert made.answer(PAIRS, limit=6, beam=2, batch_tokens=1) == wide
    assert made.answer(PAIRS, limit=6, beam=1) == whole
    assert made.answer([]) == []


@pytest.mark.parametrize(("beam", "sizes"), [(1, [4]), (2, [2, 2]), (4, [1, 1, 1, 1])])
def test_hypotheses_count_as_rows(kit, monkeypatch, beam, sizes):
    made, seen = answerer(kit("mqan")), []
    kind = type(made.collate)
    whole = kind.__call__
    monkeypatch.setattr(
        kind, "__call__", lambda self, examples: seen.append(len(examples)) or whole(self, examples)
    )
    made.answer([("one two three", "x")] * 4, limit=2, batch_tokens=32, beam=beam)  # of five and three tokens
    assert seen == sizes


def test_batches_by_length():
    encode = Lexicon().encode
    examples = [Encoded(encode("x " * n), encode("y"), encode("")) for n in (1, 9, 2, 8, 3)]
    batches = list(by_length(examples, 30))
    assert sorted(row for batch in batches for row in batch) == [0, 1, 2, 3, 4]
    assert batches == [[1, 3], [4, 2, 0]]


def test_what_a_cut_keeps():
    text = "One two, three four"
    assert text[: kept_characters(text, 3)].strip() == "One two,"
    assert kept_characters(text, 5) is None


def test_half_precision_is_near(kit):
    made = kit("mqan")
    batch = made.batch()
    exact = made.model(batch)
    with autocast(torch.device("cpu"), "bfloat16"):
        near = made.model(batch)
    near.sum().backward()
    assert near.dtype == torch.float32
    assert all(parameter.grad.isfinite().all() for parameter in made.model.parameters())
    valid = batch.target > 0
    assert (near - exact)[valid].abs().mean() < 0.15
    assert not torch.equal(near, exact)


def test_devices():
    assert pick_device("cpu").type == "cpu"
    assert pick_device("auto").type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize("name", ["mqan", "s2s"])
def test_half_precision_answers(kit, name):
    made = kit(name)
    half = Answerer(made.model, made.collate, torch.device("cpu"), "bfloat16")
    assert all(1 <= reply.said <= 4 for reply in half.answer(PAIRS, limit=4))
    assert len(half.answer(PAIRS, limit=4, beam=2)) == len(PAIRS)
