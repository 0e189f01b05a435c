"""Layers against torch's own ways to do the same."""

import pytest
import torch

from decabench.models.layers import BiLSTM

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
