"""The schedule, which determines the tasks that are trained at each step.

Phases are split into stretches. The tasks of a step depend only on the number of the step.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decabench.errors import DecabenchError
from decabench.tasks import TASKS
from decabench.training.config import ORDERS_BY_PASS, Phase, TrainConfig

EASY = tuple(name for name, task in TASKS.items() if task.curriculum == "easy")
"""Tasks that the paper's curriculum trains first (section 4.2)."""
HARD = tuple(name for name, task in TASKS.items() if task.curriculum == "hard")
"""Tasks that the paper's anti-curriculum trains first. SQuAD alone was the best choice tried (Appendix F)."""


def plan_phases(config: TrainConfig) -> tuple[Phase, ...]:
    """Return the phases of a configuration, each with its tasks in round-robin order.

    A task with several `iterations` is repeated that number of times. Raises DecabenchError if the tasks and
    the schedule are incompatible.
    """
    if not config.tasks:
        raise DecabenchError("There are no tasks to train on. Specify at least one with --tasks.")
    orders = [phase.order for phase in config.phases] or [config.order]
    by_pass = [order for order in orders if order in ORDERS_BY_PASS]
    if by_pass and config.epoch_steps:
        raise DecabenchError(
            f"With the order {by_pass[0]!r}, an epoch is a pass over each task. Leave out 'epoch_steps'."
        )
    if by_pass == orders and config.iterations:
        raise DecabenchError(
            f"'iterations' counts batches per turn, but with the order {by_pass[0]!r} each turn is a whole pass over "
            "a task. Leave out 'iterations'."
        )
    if config.phases:
        return tuple(_own_phase(config, phase, at) for at, phase in enumerate(config.phases, 1))
    rounds = _repeat(config.tasks, config.iterations)
    steps = 0 if config.epochs else config.steps
    alternation = Phase(rounds, steps, config.epochs, config.order, config.together)
    if config.schedule == "joint":
        return (alternation,)
    if alternation.together or alternation.order in ORDERS_BY_PASS:
        raise DecabenchError(
            f"The schedule {config.schedule!r} cannot be combined with 'together' or the order "
            f"{'sequence' if alternation.together else alternation.order!r}. Use [[phases]] instead."
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
            f"The schedule {config.schedule!r} trains some tasks ({', '.join(first)}) before all others, but the run "
            f"has {'none of these' if not begins else 'no other tasks'} ({', '.join(config.tasks)}). Set 'first_tasks'."
        )
    if config.epochs:
        raise DecabenchError(
            f"The schedule {config.schedule!r} is counted in steps. Leave out 'epochs', or use [[phases]]."
        )
    split = min(config.first_steps, config.steps)
    lengths = ((begins, split), (rounds, config.steps - split))
    return tuple(Phase(tasks, steps, order=config.order) for tasks, steps in lengths if steps)


def _own_phase(config: TrainConfig, phase: Phase, number: int) -> Phase:
    unknown = [task for task in phase.tasks if task not in config.tasks]
    if unknown:
        raise DecabenchError(
            f"Phase {number} trains {', '.join(unknown)}, but the run's tasks are {', '.join(config.tasks)}. Add "
            "the missing tasks to the setting 'tasks'."
        )
    tasks = _repeat(phase.tasks or config.tasks, config.iterations)
    return Phase(tasks, phase.steps, phase.epochs, phase.order, phase.together, phase.freeze)


def _repeat(tasks: tuple[str, ...], iterations: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(task for task in tasks for _ in range(iterations.get(task, 1)))


@dataclass(frozen=True)
class Stretch:
    """Consecutive steps that choose their tasks in the same way.

    A stretch is a phase, an epoch of a phase, or a whole pass over a task.
    """

    start: int
    """The number of steps before the stretch."""
    steps: int
    """The number of steps in the stretch."""
    phase: int
    """The number of the phase, counted from 1."""
    epoch: int
    """The number of the epoch within the run, counted from 1; 0 if the stretch is counted in steps."""
    begins_phase: bool
    """Whether the stretch is the first of its phase."""
    begins_epoch: bool
    """Whether the stretch is the first of its epoch."""
    plan: Phase
    """The tasks of the stretch and their order."""
    whole_pass: int | None = None
    """The number of the pass, counted from 0, if the stretch is a task's whole pass."""


class Schedule:
    """The tasks of every step.

    They depend only on the configuration and the number of batches in each pass.
    """

    def __init__(self, config: TrainConfig, count_batches: Callable[[str, int], int]) -> None:
        """Plan all steps.

        `count_batches(task, epoch)` returns the number of batches in a pass; passes are numbered from 0.
        """
        self._config = config
        self.phases = plan_phases(config)
        self.stretches: list[Stretch] = []
        self._sizes = {task: count_batches(task, 0) for task in config.tasks}
        passes = dict.fromkeys(config.tasks, 0)
        # The next pass that has not started, because steps in another order may leave a pass unfinished.
        begun = dict(passes)
        epoch = 0

        def mix(phase: Phase, steps: int, epoch: int, first: bool, new_epoch: bool) -> None:
            self.stretches.append(Stretch(self.steps, steps, number, epoch, first, new_epoch, phase))
            for task in phase.tasks:  # more than enough, because passes differ little in size
                begun[task] += 2 * (steps // max(1, self._sizes[task])) + 2

        for number, phase in enumerate(self.phases, 1):
            if phase.steps:
                mix(phase, phase.steps, 0, True, False)
            for within in range(phase.epochs):
                epoch += 1
                distinct = tuple(dict.fromkeys(phase.tasks))
                if phase.order in ORDERS_BY_PASS:
                    for at, task in enumerate(self._order_passes(distinct, phase.order, epoch)):
                        own, whole = Phase((task,), epochs=1, freeze=phase.freeze), begun[task]
                        steps = count_batches(task, whole)
                        first = within == at == 0
                        self.stretches.append(
                            Stretch(self.steps, steps, number, epoch, first, at == 0, own, whole)
                        )
                        passes[task] = begun[task] = whole + 1
                    continue
                counts = {task: count_batches(task, passes[task]) for task in distinct}
                for task in distinct:
                    passes[task] += 1
                steps = max(counts.values()) if phase.together else sum(counts.values())
                mix(phase, config.epoch_steps or steps, epoch, within == 0, True)
        self._starts = [stretch.start for stretch in self.stretches]

    def _order_passes(self, tasks: tuple[str, ...], order: str, epoch: int) -> list[str]:
        if order == "sequence":
            return list(tasks)
        random = np.random.default_rng([self._config.seed, epoch, 2])
        return [tasks[at] for at in random.permutation(len(tasks))]

    @property
    def steps(self) -> int:
        """The total number of steps."""
        return self.stretches[-1].start + self.stretches[-1].steps if self.stretches else 0

    def stretch_at(self, step: int) -> Stretch:
        """Return the stretch that contains the step with this index (from 0). Raises IndexError after the last step."""
        if not 0 <= step < self.steps:
            raise IndexError(step)
        return self.stretches[bisect_right(self._starts, step) - 1]

    def tasks_at(self, step: int) -> tuple[str, ...]:
        """Return the tasks trained at a step, counted from 0; only tasks that train together share a step."""
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
        """Return everything that determines the first `step` steps, for comparison with another schedule."""
        return [
            (
                stretch.start,
                min(stretch.start + stretch.steps, step),
                stretch.phase,
                stretch.epoch,
                replace(stretch.plan, steps=1, epochs=0),
            )
            for stretch in self.stretches
            if stretch.start < step
        ]

    def ends_epoch(self, step: int) -> bool:
        """Whether an epoch, or a phase counted in steps, ends after this number of steps."""
        if not 0 < step < self.steps:
            return step == self.steps
        stretch = self.stretch_at(step)
        return stretch.start == step and (stretch.begins_phase or stretch.begins_epoch)
