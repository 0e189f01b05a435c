from dataclasses import dataclass, replace

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file

from decabench.models import find_family, newest_checkpoint, write_checkpoint
from decabench.models.classifier import Classifier, ClassifierConfig
from decabench.training.logs import read_rows
from decabench.training.loop import run_training
from tests.training.test_loop import same, weights

SMALL = ClassifierConfig(dimension=8, train_embeddings=True)
TWO = ("sst", "multinli.in.out")
HOOKED = "tests.training.test_loop_phases:FAMILY"


class Hooked(Classifier):
    """Records the trainer's calls in a buffer, as (hook, number)."""

    def __init__(self, config, outputs, words):
        super().__init__(config, outputs, words)
        self.register_buffer("calls", torch.zeros(32, 2, dtype=torch.int64))

    def note(self, hook, number):
        self.calls[int((self.calls[:, 0] > 0).sum())] = torch.tensor([hook, number])

    def begin_epoch(self, epoch):
        self.note(1, epoch)

    def begin_pass(self, task, number):
        self.note(2, number)

    def adjust_gradients(self):
        bias = self.heads["sst"].score.bias
        if bias.grad is not None:
            bias.grad.zero_()


@dataclass(frozen=True)
class HookedConfig(ClassifierConfig):
    name: str = HOOKED


FAMILY = replace(find_family("classifier"), build=Hooked, config=HookedConfig)


def optimizer_of(output):
    return load_file(newest_checkpoint(output) / "optimizer.safetensors")


def tasks_of(output):
    return [row["task"] for row in read_rows(output / "train.csv")]


class StopHere(Exception):
    """Ends a run in the middle, like a kill."""


def stop_and_go_on(make_run, stop, **settings):
    """Return the folders of an uninterrupted run, and of a run stopped before its checkpoint `stop` + 1 and resumed."""
    whole, parts = make_run("whole", **settings), make_run("parts", **settings)
    run_training(whole)

    def write(output, record, *rest):
        if record.step > stop:
            raise StopHere
        return write_checkpoint(output, record, *rest)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(StopHere):
        patch.setattr("decabench.training.loop.write_checkpoint", write)
        run_training(parts)
    run_training(replace(parts, resume=True))
    return whole.output, parts.output


@pytest.mark.parametrize(
    ("settings", "state"),
    [
        ({"optimizer": "adam"}, {"step", "exp_avg", "exp_avg_sq"}),
        ({"optimizer": "adagrad"}, {"step", "sum"}),
        ({"optimizer": "sgd", "momentum": 0.9, "weight_decay": 0.01}, {"momentum_buffer"}),
    ],
)
def test_every_optimizer_resumes_with_its_state_by_name(make_run, settings, state):
    shared = {"model": SMALL, "tasks": TWO, "rate": "constant", "learning_rate": 0.1, "checkpoint_every": 1}
    whole, parts = stop_and_go_on(make_run, 3, **shared, **settings)
    assert same(weights(whole), weights(parts))
    assert same(optimizer_of(whole), optimizer_of(parts))
    names = {name.rpartition("/") for name in optimizer_of(whole)}
    assert {key for _, _, key in names} == state
    assert {parameter for parameter, _, _ in names} == set(weights(whole))


@pytest.mark.parametrize(
    ("stop", "schedule"),
    [
        (1, {"schedule": "anti-curriculum", "first_tasks": ("sst",), "first_steps": 3}),
        (4, {"epochs": 2, "order": "shuffled"}),
        (3, {"epochs": 2, "together": True}),
    ],
)
def test_schedules_resume_at_any_step(make_run, stop, schedule):
    model = HookedConfig(dimension=8, train_embeddings=True)
    settings = {"model": model, "tasks": TWO, "freeze": ("encoder",), **schedule}
    settings |= {"checkpoint_every": 1, "batch_examples": 5}
    whole, parts = stop_and_go_on(make_run, stop, **settings)
    assert same(weights(whole), weights(parts))
    assert tasks_of(whole) == tasks_of(parts)


def test_hooks_come_when_they_should(make_run):
    run = make_run(
        model=HookedConfig(dimension=8),
        tasks=("sst",),
        epochs=2,
        epoch_steps=3,
        batch_examples=6,
        validate_every=0,
    )
    run_training(run)
    # Two batches a pass, and three an epoch.
    calls = weights(run.output)["calls"]
    assert calls[calls[:, 0] > 0].tolist() == [[1, 1], [2, 1], [2, 2], [1, 2], [2, 3]]
    validated = {row["step"] for row in read_rows(run.output / "validation.csv")}
    assert validated == {"3", "6"}  # 0 validates at the end of each epoch
    run_training(make_run("before", model=SMALL, tasks=("sst",), steps=1, learning_rate=0.0))
    biases = [weights(folder)["heads.sst.score.bias"] for folder in (make_run("before").output, run.output)]
    assert torch.equal(*biases)  # as adjust_gradients empties their gradient


def test_a_gradient_is_clipped_by_task(make_run):
    shared = {"model": SMALL, "tasks": ("sst",), "steps": 1, "optimizer": "sgd", "rate": "constant"}
    run_training(make_run("before", **{**shared, "learning_rate": 0.0}))
    run_training(make_run("after", **shared, learning_rate=1.0, clip=9.0, clips={"sst": 0.01}))
    before, after = (weights(make_run(name).output) for name in ("before", "after"))
    moved = torch.cat([(after[name] - before[name]).flatten() for name in before]).norm()
    assert float(moved) == pytest.approx(0.01, rel=1e-3)
    assert float(read_rows(make_run("after").output / "train.csv")[0]["gradient_norm"]) > 0.01


def test_tasks_that_train_together_are_clipped_at_the_lower_of_their_limits(make_run):
    together = {"model": SMALL, "tasks": TWO, "steps": 1, "together": True}
    together |= {"optimizer": "sgd", "warmup": 1}
    for name, clips in {"low": {"sst": 0.01}, "both": {"sst": 0.01, "multinli.in.out": 9.0}}.items():
        run_training(make_run(name, **together, learning_rate=1.0, clip=9.0, clips=clips))
    run_training(make_run("before", **together, learning_rate=0.0))
    before = weights(make_run("before").output)
    for name in ("low", "both"):
        after = weights(make_run(name).output)
        moved = sum(float((after[key] - before[key]).pow(2).sum()) for key in before) ** 0.5
        assert moved == pytest.approx(0.01, rel=1e-3)
