"""Which task trains when."""

import pytest

pytest.importorskip("torch")

from decabench.errors import DecabenchError
from decabench.tasks import DECATHLON
from decabench.training.config import Phase, TrainConfig
from decabench.training.schedule import Schedule, plan_phases


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
        ({"tasks": ()}, "nothing to train on"),
        ({"tasks": ("sst",), "schedule": "anti-curriculum"}, "are none"),
        ({"tasks": ("squad",), "schedule": "anti-curriculum"}, "are all"),
        ({"tasks": ("sst",), "iterations": {"sst": 0}}, "give 1 or more"),
    ],
)
def test_what_is_refused(settings, words):
    with pytest.raises(DecabenchError, match=words):
        plan_phases(TrainConfig(**settings))


def test_it_ends():
    with pytest.raises(IndexError):
        Schedule(TrainConfig(tasks=("a",), steps=2), lambda task, epoch: 1).tasks_at(2)
