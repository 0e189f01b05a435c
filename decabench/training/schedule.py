"""The schedule, which determines the tasks to train at each step.

A run has one or more phases, which are split into stretches. The tasks of a step depend only on the step's number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decabench.errors import DecabenchError
from decabench.tasks import TASKS
from decabench.training.config import ORDERS_BY_PASS, Order, TrainConfig

EASY = tuple(name for name, task in TASKS.items() if task.curriculum == "easy")
"""Tasks that the paper's curriculum trains first (section 4.2)."""
HARD = tuple(name for name, task in TASKS.items() if task.curriculum == "hard")
"""Tasks that the paper's anti-curriculum trains first. SQuAD alone worked best in the paper (Appendix F)."""


@dataclass(frozen=True)
class Phase:
    """A part of a run whose tasks are all chosen in the same way. Its length is set in steps or in epochs."""

    tasks: tuple[str, ...]
    """The tasks in round-robin order. A task with several `iterations` occurs several times."""
    steps: int = 0
    """The length in steps; 0 if it is set in epochs."""
    epochs: int = 0
    """The length in epochs; 0 if it is set in steps."""
    order: Order = "turn"
    """How the task of each step is chosen."""
    together: bool = False
    """Whether each step takes a batch from every task."""


def plan_phases(config: TrainConfig) -> tuple[Phase, ...]:
    """Return the phases of a configuration.

    Raises DecabenchError if the tasks and the schedule are incompatible.
    """
    if not config.tasks:
        raise DecabenchError("There are no tasks to train on. Specify at least one with --tasks.")
    rounds = tuple(task for task in config.tasks for _ in range(config.iterations.get(task, 1)))
    if config.schedule == "joint":
        steps = 0 if config.epochs else config.steps
        return (Phase(rounds, steps, config.epochs, config.order, config.together),)
    if config.together or config.order in ORDERS_BY_PASS:
        raise DecabenchError(
            f"The schedule {config.schedule!r} can't be combined with 'together', or with the order 'sequence' or "
            "'shuffled'. Start several runs instead, each with --init and the checkpoint of the previous run."
        )
    if config.schedule == "sequential":
        if config.epochs:
            return tuple(Phase((task,), epochs=config.epochs) for task in config.tasks)
        ends = [config.steps * (at + 1) // len(config.tasks) for at in range(len(config.tasks))]
        parts = zip(config.tasks, [0, *ends], ends, strict=False)
        return tuple(Phase((task,), end - start) for task, start, end in parts if end > start)
    first = config.first_tasks or (EASY if config.schedule == "curriculum" else HARD)
    begins = tuple(task for task in rounds if task in first)
    if not begins or set(begins) == set(config.tasks):
        raise DecabenchError(
            f"The schedule {config.schedule!r} trains the tasks {', '.join(first)} before all others, but this "
            f"run ({', '.join(config.tasks)}) has {'no other tasks' if begins else 'none of these tasks'}. Set "
            "'first_tasks' to some of the run's tasks."
        )
    if config.epochs:
        raise DecabenchError(
            f"The schedule {config.schedule!r} does not support 'epochs'. Set 'steps' instead of 'epochs'."
        )
    split = min(config.first_steps, config.steps)
    lengths = ((begins, split), (rounds, config.steps - split))
    return tuple(Phase(tasks, steps, order=config.order) for tasks, steps in lengths if steps)


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps whose tasks are all chosen in the same way.

    A stretch is a phase, an epoch of a phase, or a whole pass over a task.
    """

    start: int
    """The number of steps before the stretch."""
    steps: int
    """The number of steps in the stretch."""
    epoch: int
    """The number of the epoch within the run, counted from 1; 0 if the stretch is counted in steps."""
    begins: bool
    """Whether an epoch, or a phase counted in steps, begins with this stretch."""
    plan: Phase
    """The tasks of the stretch and their order."""


class Schedule:
    """The tasks of every step, which depend only on the configuration and the number of batches in each pass."""

    def __init__(self, config: TrainConfig, count_batches: Callable[[str, int], int]) -> None:
        """Plan all steps.

        `count_batches(task, epoch)` returns the number of batches in a pass; passes are numbered from 0.
        """
        self._config = config
        self._sizes = {task: count_batches(task, 0) for task in config.tasks}
        self.stretches: list[Stretch] = []
        epoch = 0

        def add(steps: int, epoch: int, plan: Phase, begins: bool = True) -> None:
            self.stretches.append(Stretch(self.steps, steps, epoch, begins, plan))

        for phase in plan_phases(config):
            if phase.steps:
                add(phase.steps, 0, phase)
            for number in range(phase.epochs):
                epoch += 1
                counts = {task: count_batches(task, number) for task in phase.tasks}
                if phase.order in ORDERS_BY_PASS:
                    tasks = list(counts)
                    if phase.order == "shuffled":
                        random = np.random.default_rng([config.seed, epoch, 2])
                        tasks = [tasks[at] for at in random.permutation(len(tasks))]
                    for at, task in enumerate(tasks):
                        add(counts[task], epoch, Phase((task,), epochs=1), begins=at == 0)
                else:
                    steps = max(counts.values()) if phase.together else sum(counts.values())
                    add(config.epoch_steps or steps, epoch, phase)
        self._starts = [stretch.start for stretch in self.stretches]

    @property
    def steps(self) -> int:
        """The total number of steps."""
        return self.stretches[-1].start + self.stretches[-1].steps if self.stretches else 0

    def stretch_at(self, step: int) -> Stretch:
        """Return the stretch that contains the step with the given 0-based index.

        Raises IndexError if there is no such step.
        """
        if not 0 <= step < self.steps:
            raise IndexError(step)
        return self.stretches[bisect_right(self._starts, step) - 1]

    def tasks_at(self, step: int) -> tuple[str, ...]:
        """Return the tasks trained at the step with the given 0-based index.

        There is only one task unless tasks are trained together.
        """
        stretch = self.stretch_at(step)
        tasks, order = stretch.plan.tasks, stretch.plan.order
        if stretch.plan.together:
            return tuple(dict.fromkeys(tasks))
        if order in ("random", "size"):
            random = np.random.default_rng([self._config.seed, step, 1])
            shares = np.array([self._share(task, order) for task in tasks])
            return (tasks[int(random.choice(len(tasks), p=shares / shares.sum()))],)
        return (tasks[(step - stretch.start) % len(tasks)],)

    def _share(self, task: str, order: str) -> float:
        if order == "random":
            return 1.0
        # Sizes are relative to the largest, so that no power overflows.
        return float((self._sizes[task] / max(self._sizes.values())) ** (1 / self._config.temperature))

    def course(self, step: int) -> list[tuple[Any, ...]]:
        """Return a description of the first `step` steps.

        If two schedules have equal descriptions, they train the same tasks in these steps.
        """
        return [
            (
                stretch.start,
                min(stretch.start + stretch.steps, step),
                stretch.epoch,
                replace(stretch.plan, steps=1, epochs=0),
            )
            for stretch in self.stretches
            if stretch.start < step
        ]

    def ends_epoch(self, step: int) -> bool:
        """Return whether an epoch, or a phase counted in steps, ends after this number of steps."""
        if not 0 < step < self.steps:
            return step == self.steps
        stretch = self.stretch_at(step)
        return stretch.start == step and stretch.begins
