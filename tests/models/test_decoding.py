"""Decoding, compared with teacher-forced argmax, the transcription and exhaustive search."""

import pytest

torch = pytest.importorskip("torch")

from decabench.models.mqan_batch import MODELS
from decabench.vectors.tokenizer import EOS, INIT, PAD, UNKNOWN
from tests.models.conftest import TEXTS
from tests.models.equations import mqan as equations

ALL = sorted(MODELS)


def greedy(model, batch, limit=None):
    return model.decode(batch, limit)


def beam_search(model, batch, width, limit):
    return model.decode(batch, limit, width)


def distributions(model, batch, outputs):
    """Return p(w) of all steps at once with teacher forcing, (B, n, v + o)."""
    fed = torch.cat([torch.full((len(batch), 1), INIT), outputs[:, :-1]], 1)
    encoded = model.encoder(batch)
    a_self = model.decoder.self_attend(model.decoder.represent(model.words(fed, batch)), encoded)
    h, context, attention, _ = model.decoder.recur(a_self, encoded)
    p = model.distribution(model.decoder.point(a_self, h, context, attention, encoded), batch)
    p[..., [PAD, UNKNOWN, INIT]] = 0
    return p


MANY = [(question, context, "") for question, _, _ in TEXTS for _, context, _ in TEXTS]


def redraw(model, seed):
    """Draw weights that lead to peaked distributions."""
    torch.manual_seed(seed)
    for key, value in model.named_parameters():
        torch.nn.init.normal_(value.data, std=1.0 if "decoder" in key else 0.4)
        if "norm" in key and "weight" in key:
            value.data.fill_(1)
    model.generate.bias.data.zero_()
    model.generate.weight.data *= 5


def lively(model, batch):
    """Draw weights until some answer has three words and answers end at three different steps.

    Most random weights repeat one word forever, which would make a weak test.
    """
    for seed in range(200):
        redraw(model, seed)
        outputs = greedy(model, batch, limit=12).outputs
        lengths = (outputs == EOS).long().cumsum(1).eq(0).sum(1)
        if len(lengths.unique()) >= 3 and max(len(set(row)) for row in outputs.tolist()) >= 4:
            return
    raise AssertionError("no weights gave answers of different lengths")


def ended(outputs):
    """Return True for the tokens after the first <eos>."""
    return (outputs == EOS).cumsum(1) - (outputs == EOS).long() > 0


@pytest.mark.parametrize("name", ALL)
@torch.no_grad()
def test_greedy_is_the_argmax_of_teacher_forcing(kit, name):
    made = kit(name)
    batch = made.batch(MANY)
    lively(made.model, batch)
    answers = greedy(made.model, batch, limit=12)
    best = distributions(made.model, batch, answers.outputs).argmax(-1)
    assert torch.equal(best.masked_fill(ended(answers.outputs), EOS), answers.outputs)


@pytest.mark.parametrize("name", ALL)
@torch.no_grad()
def test_greedy_is_what_the_transcription_says(kit, name):
    made = kit(name)
    batch = made.batch()
    numbers = made.model.word_numbers(made.model.decode(batch, limit=8), batch)
    for row, text in enumerate(TEXTS):
        batch = made.apart(text)
        found = equations.greedy(
            batch, dict(made.model.named_parameters()), 3, torch.from_numpy(made.table.vocabulary()), limit=8
        )[0]
        table = torch.cat([torch.arange(made.lexicon.size), batch.other_words])
        assert made.lexicon.decode(table[found].tolist()) == made.lexicon.decode(numbers[row])


@torch.no_grad()
def test_a_wide_beam_finds_the_best_answer(kit):
    made = kit("mqan")
    batch = made.batch([TEXTS[0]])
    size = made.lexicon.size + len(batch.others)
    limit, found = 2, {}
    for first in set(range(size)) - {PAD, UNKNOWN, INIT}:
        p = distributions(made.model, batch, torch.tensor([[first, EOS]]))[0].log()
        if first == EOS:
            found[(EOS,)] = p[0, EOS].item()
        else:
            found |= {(first, second): (p[0, first] + p[1, second]).item() / 2 for second in range(size)}
    best = max(found.values())
    outputs = beam_search(made.model, batch, size, limit).outputs[0].tolist()
    outputs = tuple(outputs[: outputs.index(EOS) + 1] if EOS in outputs else outputs)
    assert found[outputs] == pytest.approx(best, abs=1e-5)
