import pytest

pytest.importorskip("torch")

from decabench.errors import DecabenchError
from decabench.tasks import DECATHLON
from decabench.training.config import TrainConfig
from decabench.training.schedule import Phase, Schedule, plan_phases


def order(**settings):
    config = TrainConfig(**settings)
    schedule = Schedule(config, lambda task, epoch: 1)
    return "".join(schedule.tasks_at(step)[0][0] for step in range(config.steps))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tasks": ("a", "b", "c"), "steps": 7}, "abcabca"),
        ({"tasks": ("a", "b"), "steps": 7, "iterations": {"a": 2}}, "aabaaba"),
        ({"tasks": ("a", "b", "c"), "steps": 7, "schedule": "sequential"}, "aabbccc"),
        (
            {"tasks": ("sst", "wikisql", "x"), "steps": 6, "schedule": "curriculum", "first_steps": 3},
            "swsswx",
        ),
        ({"tasks": ("x", "squad"), "steps": 6, "schedule": "anti-curriculum", "first_steps": 3}, "sssxsx"),
        (
            {
                "tasks": ("a", "b"),
                "steps": 5,
                "schedule": "anti-curriculum",
                "first_steps": 9,
                "first_tasks": ("b",),
            },
            "bbbbb",
        ),
    ],
)
def test_order(settings, expected):
    assert order(**settings) == expected


def test_the_papers_two_groups():
    config = TrainConfig(tasks=DECATHLON.tasks, schedule="curriculum", steps=10, first_steps=4)
    easy, whole = plan_phases(config)
    assert set(DECATHLON.tasks) - set(easy.tasks) == {
        "squad",
        "iwslt.en.de",
        "cnn_dailymail",
        "multinli.in.out",
    }
    assert whole == Phase(DECATHLON.tasks, 6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tasks": ()}, "no tasks to train on"),
        ({"tasks": ("sst",), "schedule": "anti-curriculum"}, "has none of these tasks"),
        ({"tasks": ("squad",), "schedule": "anti-curriculum"}, "has no other tasks"),
    ],
)
def test_what_is_refused(settings, words):
    with pytest.raises(DecabenchError, match=words):
        plan_phases(TrainConfig(**settings))


def plan(batches=None, **settings):
    config = TrainConfig(tasks=("a", "b"), **settings)
    return Schedule(config, lambda task, epoch: (batches or {"a": 3, "b": 1})[task])


def shown(schedule):
    return [" ".join("+".join(schedule.tasks_at(step)) for step in range(schedule.steps))]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"epochs": 1}, "a b a b"),
        ({"epochs": 2, "order": "sequence"}, "a a a b a a a b"),
        ({"epochs": 1, "together": True}, "a+b a+b a+b"),
        ({"epochs": 2, "schedule": "sequential"}, "a a a a a a b b"),
    ],
)
def test_epochs(settings, expected):
    assert shown(plan(**settings)) == [expected]


def test_epochs_of_a_given_length():
    made = Schedule(TrainConfig(tasks=("a",), epochs=2, together=True, epoch_steps=5), lambda task, epoch: 3)
    assert made.steps == 10 and [made.stretch_at(step).epoch for step in (0, 4, 5, 9)] == [1, 1, 2, 2]
    assert made.ends_epoch(5) and not made.ends_epoch(3)
    by_pass = {"tasks": ("a", "b"), "epochs": 2, "order": "sequence"}
    with pytest.raises(DecabenchError, match="Leave out 'epoch_steps'"):  # before any data is read
        TrainConfig(**by_pass, epoch_steps=5)
    with pytest.raises(DecabenchError, match="Leave out 'iterations'"):
        TrainConfig(**by_pass, iterations={"a": 3})
    with pytest.raises(DecabenchError, match="whole passes"):
        TrainConfig(**{**by_pass, "epochs": 0})
    with pytest.raises(DecabenchError, match="the order can't be 'sequence'"):
        TrainConfig(**by_pass, together=True)


def test_shuffled_passes_are_whole_and_in_another_order_each_epoch():
    schedule = plan(epochs=60, order="shuffled", seed=3)
    epochs = [[] for _ in range(60)]
    for step in range(schedule.steps):
        epochs[schedule.stretch_at(step).epoch - 1] += schedule.tasks_at(step)
    orders = ["".join(epoch) for epoch in epochs]
    assert set(orders) == {"aaab", "baaa"}
    assert 18 <= orders.count("baaa") <= 42  # a fair coin, within three standard deviations
    assert [step for step in range(1, 13) if schedule.ends_epoch(step)] == [4, 8, 12]
    assert shown(plan(epochs=60, order="shuffled", seed=3)) == shown(schedule)
    assert shown(plan(epochs=60, order="shuffled", seed=4)) != shown(schedule)


@pytest.mark.parametrize(
    ("temperature", "expected"), [(1.0, 0.9), (2.0, 0.75), (1e9, 0.5)]
)  # 9 : 1, 3 : 1, 1 : 1
def test_a_temperature_evens_out_sizes(temperature, expected):
    made = plan({"a": 9, "b": 1}, steps=2_000, order="size", temperature=temperature)
    found = shown(made)[0].split()
    assert found.count("a") / 2_000 == pytest.approx(expected, abs=0.03)
