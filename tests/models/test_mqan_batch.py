import numpy as np
import pytest

torch = pytest.importorskip("torch")

from decabench.vectors.tokenizer import EOS, INIT, PAD, UNKNOWN
from tests.models.conftest import TEXTS


def number(kit, word):
    return kit.lexicon.words.index(word)


@pytest.mark.parametrize("name", ["mqan", "catt", "satt"])
def test_words_come_back_from_a_batch(kit, name):
    made = kit(name)
    batch = made.batch()
    size = made.lexicon.size
    numbers = torch.cat([torch.arange(size), batch.other_words])
    for row, (question, context, _) in enumerate(TEXTS):
        length = int(batch.context_lengths[row])
        tokens = numbers[batch.context_output[row, :length]].tolist()
        assert batch.context_output[row, length:].eq(PAD).all()
        if name == "satt":
            middle = tokens.index(EOS)
            assert tokens[middle + 1] == INIT
            assert made.lexicon.decode(tokens[middle + 2 :]) == question
            tokens = tokens[:middle]
        assert made.lexicon.decode(tokens[1:]) == context
        expected = made.table[numbers[batch.context_output[row]].numpy()]
        assert np.array_equal(batch.vectors[batch.context[row]].numpy(), expected)
    assert not batch.vectors[0].any()


def test_targets(kit):
    made = kit("mqan")
    batch = made.batch()
    bob = made.lexicon.size + batch.other_words.tolist().index(number(made, " bob "))
    assert batch.target[0].tolist()[:3] == [number(made, " good "), EOS, PAD]
    assert batch.target[1].tolist()[:2] == [bob, EOS]
    # `unheard` can be neither generated nor pointed at.
    assert batch.target[3].tolist()[:3] == [UNKNOWN, number(made, " words "), EOS]
    quito = batch.target[2].tolist()[3]
    assert quito >= made.lexicon.size and quito in batch.context_output[2].tolist()
    assert made.model.losses(batch)["loss"][1] == 2 + 2 + 5 + 3


def test_a_training_step_waits_for_no_device(kit, monkeypatch):
    made = kit("mqan")
    batch = made.batch()
    for name in ("__int__", "__bool__", "__float__", "item", "tolist", "nonzero"):
        monkeypatch.setattr(torch.Tensor, name, lambda *own, name=name: pytest.fail(f"{name} was called"))
    loss, count = made.model.losses(batch)["loss"]
    (loss / count).backward()


def test_a_word_of_another_example_cannot_be_pointed_at(kit):
    made = kit("mqan")
    texts = [("who?", "bob", "ann"), ("who?", "ann", "ann")]
    batch = made.batch(texts)
    ann = made.lexicon.size + batch.other_words.tolist().index(number(made, " ann "))
    assert batch.target[:, 0].tolist() == [UNKNOWN, ann]


def test_new_words_get_their_vectors_later(kit):
    made = kit("mqan")
    for n in range(5):
        batch = made.batch([("what?", f"new{n} word{n}", "x")])
        expected = made.table.vectors.rows([made.lexicon.words[at] for at in batch.other_words.tolist()])
        assert np.array_equal(batch.vectors[batch.others].numpy(), expected)
