"""The recurrent networks against a transcription of their equations, in double precision, and finite differences."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[models]'")


from decabench.models.recurrent_cells import LSTM, BasicLSTM, HyperLSTM, MetaNetwork
from tests.models.equations import meta as equations

B, T, D, H, M, Z, N, E = 3, 5, 4, 3, 3, 2, 3, 2


def randomize(*networks):
    """Double precision, and weights of a size that shows a wrong term."""
    torch.manual_seed(0)
    for network in networks:
        network.double()
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.7)
    return networks if len(networks) > 1 else networks[0]


def words(*shape):
    torch.manual_seed(1)
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def named(**networks):
    return {
        f"{name}.{key}": value
        for name, network in networks.items()
        for key, value in network.named_parameters()
    }


def cells():
    """A network's name, what it computes, what the equations say, and its parameters."""
    lstm, hyper = randomize(LSTM(D, H)), randomize(HyperLSTM(D, H, N, E))
    meta, basic = randomize(MetaNetwork(D, H, M, Z), BasicLSTM(D, H, Z))
    return {
        "lstm": (lstm, lambda x: equations.lstm(x, named(net=lstm), "net"), [lstm]),
        "hyper": (hyper, lambda x: equations.hyper_lstm(x, named(net=hyper), "net"), [hyper]),
        "meta": (
            lambda x: basic(x, meta),
            lambda x: equations.meta_lstm(x, named(meta=meta, basic=basic), "meta", "basic"),
            [meta, basic],
        ),
    }


@pytest.mark.parametrize("name", ["lstm", "hyper", "meta"])
def test_it_is_what_the_equations_say(name):
    fast, slow, networks = cells()[name]
    x = words(B, T, D)
    made, expected = fast(x), torch.stack([slow(text) for text in x])
    torch.testing.assert_close(made, expected, rtol=1e-10, atol=1e-12)
    parameters = [x, *(p for network in networks for p in network.parameters())]
    one, two = (torch.autograd.grad(states.sin().sum(), parameters) for states in (made, expected))
    for ours, theirs in zip(one, two, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
        assert (ours != 0).any()
