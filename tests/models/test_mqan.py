"""The models against a transcription of the paper's equations, finite differences and their own ablations."""

import pytest

torch = pytest.importorskip("torch")

from decabench.models.layers import BiLSTM, LoopMatrix
from decabench.models.mqan_batch import MODELS
from tests.models.conftest import TEXTS
from tests.models.equations import mqan as equations

HEADS = 3
ALL = sorted(MODELS)


def weights(model):
    return dict(model.named_parameters())


@pytest.mark.parametrize("name", ALL)
def test_it_is_what_the_equations_say(kit, name):
    made = kit(name)
    log_p = made.model.log_likelihood(made.batch())
    for row, text in enumerate(TEXTS):
        expected = -equations.negative_log_likelihood(made.apart(text), weights(made.model), HEADS)[0]
        torch.testing.assert_close(log_p[row, : len(expected)], expected, atol=1e-5, rtol=1e-5)
        assert log_p[row, len(expected) :].eq(0).all()


DEPARTURES = ["split_heads", "layer_by_layer", "norm_sublayers", "tanh_coattention"]


@pytest.mark.parametrize(
    ("name", "departures", "dimension"),
    [
        *(("mqan", [key], 12) for key in DEPARTURES),
        ("mqan", ["split_heads"], 10),  # which is no multiple of the heads
        ("mqan", DEPARTURES, 10),
        ("satt", DEPARTURES[:-1], 12),  # it has no coattention
    ],
)
def test_it_is_what_the_authors_code_says(kit, name, departures, dimension):
    made = kit(name, dimension=dimension, **dict.fromkeys(departures, True))
    log_p = made.model.log_likelihood(made.batch())
    as_paper = kit(name, dimension=dimension).model
    for row, text in enumerate(TEXTS):
        expected = -equations.negative_log_likelihood(
            made.apart(text), weights(made.model), HEADS, "layer_by_layer" in departures
        )[0]
        torch.testing.assert_close(log_p[row, : len(expected)], expected, atol=1e-5, rtol=1e-5)
    if departures == ["layer_by_layer"]:  # the same weights, read elsewhere
        assert not torch.allclose(log_p, as_paper.log_likelihood(made.batch()))
    elif name == "mqan":
        assert weights(made.model).keys() != weights(as_paper).keys()


@pytest.mark.parametrize("name", ALL)
def test_a_batch_gives_what_its_examples_give_alone(kit, name):
    made = kit(name)
    together = made.model.log_likelihood(made.batch())
    for row, text in enumerate(TEXTS):
        alone = made.model.log_likelihood(made.batch([text]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ALL)
def test_the_gradient_is_that_of_the_equations(kit, name):
    made = kit(name)
    made.model.log_likelihood(made.batch()).sum().backward()
    found = {key: value.grad.clone() for key, value in made.model.named_parameters()}
    made.model.zero_grad()
    sum(
        -equations.negative_log_likelihood(made.apart(text), weights(made.model), HEADS).sum()
        for text in TEXTS
    ).backward()
    for key, value in made.model.named_parameters():
        scale = value.grad.abs().max().item() + 1e-3
        torch.testing.assert_close(found[key] / scale, value.grad / scale, atol=1e-4, rtol=1e-3, msg=key)


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_is_used(kit, name):
    made = kit(name)
    made.model.log_likelihood(made.batch()).sum().backward()
    unused = [
        key for key, value in made.model.named_parameters() if value.grad is None or not value.grad.any()
    ]
    assert unused == []


@pytest.mark.parametrize("name", ALL)
def test_a_distribution_sums_to_one_and_holds_what_training_sees(kit, name):
    made = kit(name)
    batch = made.batch()
    model = made.model
    encoded = model.encoder(batch)
    a_self = model.decoder.self_attend(model.decoder.represent(batch.vectors[batch.answer]), encoded)
    h, context, attention, _ = model.decoder.recur(a_self, encoded)
    decoded = model.decoder.point(a_self, h, context, attention, encoded)
    p = model.distribution(decoded, batch)
    assert p.shape[-1] == made.lexicon.size + len(batch.others)
    torch.testing.assert_close(p.sum(-1), torch.ones(p.shape[:2]))
    chosen = p.gather(2, batch.target[..., None]).squeeze(-1).log()
    valid = batch.target > 0
    torch.testing.assert_close(chosen[valid], model.log_likelihood(batch)[valid], atol=1e-5, rtol=1e-5)


LENGTHS = torch.tensor([7, 1, 4, 6])


@pytest.mark.parametrize("width", [6, 9])
def test_a_padded_lstm_is_a_packed_one(width):
    """torch.nn.utils.rnn's packed sequences are the reference: outputs, last states, every gradient."""
    torch.manual_seed(0)
    layer = BiLSTM(width, 8, 0.0).double()
    found = []
    for way in (layer._packed, layer._padded):
        layer.zero_grad()
        x = torch.randn(4, 7, width, dtype=torch.float64, generator=torch.manual_seed(1), requires_grad=True)
        out, h, c = way(x, LENGTHS)
        (out.sin().sum() + (2 * h).cos().sum() + (c**2).sum()).backward()
        found.append([out, h, c, x.grad, *(weight.grad.clone() for weight in layer.parameters())])
    assert all(len(made) == 12 for made in found)
    for packed, padded in zip(*found, strict=True):
        torch.testing.assert_close(padded, packed, rtol=1e-9, atol=1e-9)


def test_a_matrix_in_a_loop_has_the_gradient_of_autograd():
    torch.manual_seed(0)
    x, *matrices = (
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in [(2, 3, 4), (4, 4), (2, 4, 4)]
    )

    def loop(first, second):
        state = x
        for _ in range(3):
            state = second(first(state).tanh()).sin()
        return state.cos().sum()

    multiply = [lambda state, matrix=matrix: state @ matrix for matrix in matrices]
    found = [
        torch.autograd.grad(loop(*ways), (x, *matrices)) for ways in (multiply, map(LoopMatrix, matrices))
    ]
    for plain, late in zip(*found, strict=True):
        torch.testing.assert_close(plain, late, rtol=1e-12, atol=1e-12)
