import pytest
import torch

from decabench.models.layers import BiLSTM, log_softmax_at

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
