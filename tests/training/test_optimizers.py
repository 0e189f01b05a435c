"""Optimizers: sparse gradients of word tables against dense ones."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'decabench[train]'")

from torch import nn

from decabench.models import Lexicon, WordEmbedding, WordTable
from decabench.models.word_vectors import JoinedVectors, NoVectors
from decabench.training.config import TrainConfig
from decabench.training.optimizers import clip_gradients, make_optimizer, optimizer_state, restore_optimizer

WORDS = WordTable(Lexicon([f" w{n} " for n in range(20)]), JoinedVectors((NoVectors(3),)))
ADAGRAD = TrainConfig(optimizer="adagrad", rate="constant", learning_rate=0.1)


class Network(nn.Module):
    def __init__(self, may_be_sparse):
        super().__init__()
        torch.manual_seed(0)
        self.embed = WordEmbedding(WORDS, trainable=True, may_be_sparse=may_be_sparse)
        self.score = nn.Linear(3, 1)

    def step(self, optimizer, rows, limit):
        optimizer.zero_grad(set_to_none=True)
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        self.score(self.embed.table(torch.tensor(rows))).sin().sum().backward()
        norm = clip_gradients(self, limit)
        optimizer.step()
        return norm


@pytest.mark.parametrize("changes", [{}, {"optimizer": "sgd"}], ids=["adagrad", "sgd"])
@pytest.mark.parametrize("limit", [float("inf"), 0.5])
def test_sparse_gradients_change_nothing(changes, limit):
    config = replace(ADAGRAD, **changes)
    dense, sparse = Network(False), Network(True)
    optimizers = [make_optimizer(config, network) for network in (dense, sparse)]
    assert [network.embed.table.sparse for network in (dense, sparse)] == [False, True]
    for rows in ([4, 5, 1, 1], [6, 4], [1, 7, 1]):  # a row twice: unknown words
        norms = [
            network.step(optimizer, rows, limit)
            for network, optimizer in zip((dense, sparse), optimizers, strict=True)
        ]
        torch.testing.assert_close(*norms)
    for one, two in zip(dense.parameters(), sparse.parameters(), strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize(
    ("changes", "is_parallel"),
    [
        ({"optimizer": "adam"}, False),
        ({"weight_decay": 1e-5}, False),
        ({"optimizer": "sgd", "momentum": 0.9}, False),
        ({}, True),
    ],
)
def test_they_are_dense_where_it_matters(changes, is_parallel):
    network = Network(True)
    make_optimizer(replace(ADAGRAD, **changes), network, is_parallel)
    assert not network.embed.table.sparse


def test_the_state_of_a_sparse_table_is_restored():
    first = Network(True)
    optimizer = make_optimizer(ADAGRAD, first)
    first.step(optimizer, [4, 5], 1.0)
    second = Network(True)
    second.load_state_dict(first.state_dict())
    again = make_optimizer(ADAGRAD, second)
    restore_optimizer(second, again, {k: v.clone() for k, v in optimizer_state(first, optimizer).items()})
    for network, own in ((first, optimizer), (second, again)):
        network.step(own, [5, 6], 1.0)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
