import pytest
import torch

from decabench.models.layers import BiLSTM, linear_in_full, log_softmax_at

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


def test_what_stands_in_padding_does_not_matter():
    layer = BiLSTM(6, 8, 0.0)
    x = torch.randn(4, 7, 6)
    other = x.clone()
    for row, length in enumerate(LENGTHS):
        other[row, length:] = 1e3
    for one, two in zip(layer(x, LENGTHS), layer(other, LENGTHS), strict=True):
        assert torch.equal(one, two)
    assert (layer(other, LENGTHS)[0][1, 1:] == 0).all()


@pytest.mark.parametrize("count", [0, 1, 8, 19])
@pytest.mark.parametrize("size", [1.0, 300.0])
def test_a_log_softmax_at_one_number_is_that_of_torch(count, size):
    torch.manual_seed(0)
    linear = torch.nn.Linear(5, 33).double()
    x, numbers = torch.randn(count, 5, dtype=torch.float64) * size, torch.randint(0, 33, (count,))
    found = []
    for way in (
        lambda x: log_softmax_at(x, linear, numbers),
        lambda x: linear(x).log_softmax(1).gather(1, numbers[:, None]).squeeze(1),
    ):
        linear.zero_grad()
        given = x.clone().requires_grad_()
        made = way(given)
        (made * torch.linspace(-1, 2, count, dtype=torch.float64)).sum().backward()
        found.append([made, given.grad, linear.weight.grad.clone(), linear.bias.grad.clone()])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_bilstm_among_half_precision_is_computed_in_full():
    bilstm, x, lengths = BiLSTM(4, 6, 0.0), torch.randn(3, 5, 4, requires_grad=True), torch.tensor([5, 2, 4])
    with torch.autocast("cpu", torch.bfloat16):
        found, half = bilstm(x, lengths), bilstm(x.bfloat16(), lengths)
    for made, full, near in zip(found, bilstm(x, lengths), half, strict=True):
        torch.testing.assert_close(made, full)
        torch.testing.assert_close(near, full, rtol=0.02, atol=0.02)
    found[0].sum().backward()
    assert x.grad.isfinite().all()


def test_a_log_softmax_among_half_precision_is_computed_in_full():
    linear, x, numbers = torch.nn.Linear(5, 33), torch.randn(9, 5), torch.arange(9)
    with torch.autocast("cpu", torch.bfloat16):
        made, logits = log_softmax_at(x, linear, numbers), linear_in_full(linear, x)
        half = linear_in_full(linear, x.bfloat16())
    assert made.dtype == logits.dtype == half.dtype == torch.float32
    torch.testing.assert_close(made, log_softmax_at(x, linear, numbers), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, linear(x))
    torch.testing.assert_close(half, linear(x.bfloat16().float()))
