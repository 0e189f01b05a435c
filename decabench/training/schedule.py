"""Which task trains at which step: phases of tasks and steps, round-robin over batches within a phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from decabench.errors import DecabenchError
from decabench.tasks import TASKS
from decabench.training.config import TrainConfig

__all__ = ["EASY", "HARD", "Phase", "phases", "task_at"]

EASY = tuple(name for name, task in TASKS.items() if task.curriculum == "easy")
"""What the paper's curriculum trains first (section 4.2)."""
HARD = tuple(name for name, task in TASKS.items() if task.curriculum == "hard")
"""What its anti-curriculum trains first: SQuAD alone was the best of those it tried (Appendix F)."""


@dataclass(frozen=True)
class Phase:
    """A stretch of training."""

    tasks: tuple[str, ...]
    """What takes turns, in order; a task may stand more than once."""
    steps: int
    """How long."""


def phases(config: TrainConfig) -> tuple[Phase, ...]:
    """The phases of a configuration. Raises DecabenchError where its tasks do not fit the schedule."""
    tasks, steps = config.tasks, config.steps
    if not tasks:
        raise DecabenchError("There is nothing to train on: name tasks with --tasks.")
    if config.schedule == "sequential":
        ends = [steps * (at + 1) // len(tasks) for at in range(len(tasks))]
        return tuple(
            Phase((task,), end - start) for task, start, end in zip(tasks, [0, *ends], ends, strict=False)
        )
    rounds = tuple(task for task in tasks for _ in range(_turns(config.iterations, task)))
    if config.schedule == "joint":
        return (Phase(rounds, steps),)
    first = config.first_tasks or (EASY if config.schedule == "curriculum" else HARD)
    begins = tuple(task for task in rounds if task in first)
    if not begins or len(set(begins)) == len(set(tasks)):
        raise DecabenchError(
            f"The schedule {config.schedule} trains some tasks first ({', '.join(first)}) and then all: of "
            f"{', '.join(tasks)} these are {'none' if not begins else 'all'}."
        )
    length = min(config.first_steps, steps)
    return tuple(phase for phase in (Phase(begins, length), Phase(rounds, steps - length)) if phase.steps)


def _turns(iterations: Mapping[str, int], task: str) -> int:
    turns = iterations.get(task, 1)
    if turns < 1:
        raise DecabenchError(f"iterations of {task} are {turns}: give 1 or more, or leave the task out.")
    return turns


def task_at(schedule: Sequence[Phase], step: int) -> str:
    """Which task trains at a step, counted from 0. Raises IndexError after the last."""
    for phase in schedule:
        if step < phase.steps:
            return phase.tasks[step % len(phase.tasks)]
        step -= phase.steps
    raise IndexError(step)
