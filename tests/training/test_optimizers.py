from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F

from decabench.errors import DecabenchError
from decabench.models.classifier import Classifier, ClassifierConfig
from decabench.models.joint_many_task import JointManyTaskConfig
from decabench.training.config import TrainConfig
from decabench.training.loop import run_training
from decabench.training.optimizers import clip_gradients, learning_rate
from decabench.training.planning import check_run


def backward(sparse):
    """Return a table whose rows are read several times, and a dense weight, with gradients."""
    torch.manual_seed(0)
    table, weight = torch.nn.Parameter(torch.randn(9, 4)), torch.nn.Parameter(torch.randn(4, 2))
    unused = torch.nn.Parameter(torch.zeros(3))
    x = F.embedding(torch.tensor([3, 3, 1, 3, 8]), table, sparse=sparse)
    bags = F.embedding_bag(torch.tensor([0, 3, 3]), table, torch.tensor([0, 1]), mode="mean", sparse=sparse)
    (torch.cat([x, bags]) @ weight).square().sum().backward()
    return [table, weight, unused]


@pytest.mark.parametrize("limit", [0.5, 1e6, float("inf")])
def test_sparse_gradients_are_clipped_as_dense_ones(limit):
    dense, sparse = backward(False), backward(True)
    expected = torch.nn.utils.clip_grad_norm_(dense, limit)
    torch.testing.assert_close(clip_gradients(sparse, limit), expected)
    assert sparse[0].grad.is_sparse
    for one, two in zip(dense[:2], sparse[:2], strict=True):
        torch.testing.assert_close(two.grad.to_dense(), one.grad)
    torch.optim.SGD(dense, 0.1).step()
    torch.optim.SGD(sparse, 0.1).step()
    for one, two in zip(dense, sparse, strict=True):
        torch.testing.assert_close(two, one)


def test_a_network_learns_the_rate_of_the_step_that_follows(make_run, monkeypatch):
    seen = []

    def note(network, rate):
        norm = torch.stack([p.grad.norm() for p in network.parameters() if p.grad is not None]).norm()
        seen.append((rate, norm.item()))

    monkeypatch.setattr(Classifier, "before_step", note)
    run = make_run(model=ClassifierConfig(dimension=8), tasks=("sst",), clip=0.01)
    run_training(run)
    assert [rate for rate, _ in seen] == [learning_rate(run.config, at, 6, 0) for at in range(1, 7)]
    assert all(norm == pytest.approx(0.01, rel=1e-3) for _, norm in seen)


@pytest.mark.parametrize(
    "settings",
    [{"optimizer": "adam"}, {"optimizer": "sgd", "momentum": 0.5}, {"optimizer": "sgd", "weight_decay": 0.1}],
)
def test_sparse_gradients_need_a_plain_optimizer(make_run, settings):
    model = JointManyTaskConfig(sparse_gradients=True)
    run = make_run(model=model, tasks=("sst",), **settings)
    with pytest.raises(DecabenchError, match=r"model\.sparse_gradients=false"):
        check_run(run)
    check_run(replace(run, config=replace(run.config, optimizer="sgd", momentum=0.0, weight_decay=0.0)))
    assert TrainConfig().optimizer == "adam"
