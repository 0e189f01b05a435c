"""Plan training runs, and check everything that can be checked without data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import DecabenchError, require_name
from decabench.files import Paths
from decabench.models import (
    FAMILIES,
    Checkpoint,
    check_size,
    find_family,
    latest_checkpoint,
    with_label_names,
)
from decabench.tasks import DECATHLON, Store, Task, context_limits, get_task, known_tasks
from decabench.training.config import TrainConfig, combine_settings, named_model
from decabench.training.data import check_target_forms
from decabench.training.optimizers import freeze_parts
from decabench.training.resume import is_unstarted
from decabench.training.schedule import plan_phases
from decabench.training.validator import check_best_by
from decabench.vectors import Lexicon, WordTable, is_contextual, join_vectors

if TYPE_CHECKING:
    from decabench.exchange import Trackers

_USUAL_DIMENSION = 300
"""The dimension of word vectors assumed when checking a network's size, because opening vector files is slow."""


@dataclass(frozen=True)
class TrainingRun:
    """A training run: its settings, tasks, data and output folder, and options such as the device."""

    config: TrainConfig
    """The settings, which determine the weights."""
    tasks: Mapping[str, Task]
    """The tasks to train on, by name."""
    store: Store
    """The store with the prepared data."""
    output: Path
    """The folder to write to."""
    device: str = "auto"
    """The device, such as `auto`, `cpu` or `cuda`."""
    resume: bool = False
    """Whether to resume from the folder's latest checkpoint, if there is one."""
    report: Callable[[str], None] = print
    """Called with each progress message."""
    bar: bool = False
    """Whether to show a progress bar instead of printing a line every minute."""
    stop_after: float = 0.0
    """The number of seconds after which the run writes a checkpoint and stops, to be resumed later; 0 for no
    limit."""
    trackers: Trackers | None = None
    """Trackers to send losses and scores to. The run starts them."""


def plan_training(
    output: str | Path,
    tasks: str | Iterable[str] | None = None,
    model: str = "",
    settings: Mapping[str, Any] | Sequence[str] = (),
    *,
    config: str | Path | None = None,
    init: str | Path = "",
    home: str | Path | None = None,
    device: str = "auto",
    resume: bool = False,
    include: Paths = (),
    report: Callable[[str], None] = print,
    trackers: Trackers | None = None,
) -> TrainingRun:
    """Return the run described by the arguments of `train`.

    Raises DecabenchError if an argument is invalid, and UnknownNameError if a name is unknown.
    """
    folder, path = Path(output), Path(config) if config else None
    if ":" in (named := named_model(settings, model)):
        # Import it before reading the file, because a file must not choose the code to run.
        find_family(named)
    _check_folder(folder, resume)
    known = known_tasks(include)
    made = TrainConfig(
        skip_context=context_limits(known.values(), "skip"), cut_context=context_limits(known.values(), "cut")
    )
    if init:  # take sizes and vectors from that checkpoint, or from the run itself when resuming
        begun = (latest_checkpoint(folder) if resume else None) or Checkpoint.open(init)
        made = replace(made, init=str(init), model=begun.config, vectors=begun.vectors)
    chosen = () if tasks is None else (tasks,) if isinstance(tasks, str) else tuple(tasks)
    made, left_out = combine_settings(made, path, settings, model, chosen, str(init))
    made = made if made.tasks else replace(made, tasks=DECATHLON.tasks)
    # Any known task is allowed here, because the defaults list them all.
    for key in ("skip_context", "cut_context"):
        for task in getattr(made, key):
            require_name(task, {*known, *made.tasks}, f"task ({key})")
    if left_out:
        report(
            f"These settings in {path} were ignored, because the model {made.model.name} does not have them: "
            f"{', '.join(left_out)}."
        )
    if made.schedule.endswith("curriculum") and made.first_steps >= made.steps:
        report(
            f"The first phase takes all {made.steps:,} steps, so the other tasks are never trained. Set 'first_steps' "
            f"(now {made.first_steps:,}) to a smaller number."
        )
    return TrainingRun(
        config=made,
        tasks={name: get_task(name, known) for name in made.tasks},
        store=Store(home),
        output=folder,
        device=device,
        resume=resume,
        report=report,
        trackers=trackers,
    )


def _check_folder(folder: Path, resume: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise DecabenchError(f"{folder} is a file. Choose a folder for the run.")
    if folder.exists() and not is_unstarted(folder):
        if latest_checkpoint(folder) is None:
            raise DecabenchError(
                f"{folder} contains files that are not from a training run. Choose another folder."
            )
        if not resume:
            raise DecabenchError(
                f"{folder} already contains a run. Choose another folder, or continue that run with --resume."
            )


def check_run(run: TrainingRun) -> None:
    """Check everything about a run that can be checked without data. Raises DecabenchError if a check fails."""
    config, name = run.config, run.config.model.name
    if config.init_parts and not config.init:
        raise DecabenchError(
            f"'init_parts' lists {', '.join(config.init_parts)}, but there is no checkpoint to copy from. Specify a "
            "checkpoint with --init, or leave out 'init_parts'."
        )
    family = find_family(name)
    plan_phases(config)
    family.check_tasks(name, run.tasks.values())
    check_best_by(config, run.tasks)
    check_target_forms(config, run.tasks)
    for loss in config.loss_weights:
        weighted = [each for each in family.losses if each not in family.measures]
        require_name(loss, weighted, f"{name} loss")
    if "contextual" not in family.abilities and any(map(is_contextual, config.vectors)):
        raise DecabenchError(
            f"The model {name} does not use contextual vectors. Remove contextual:FOLDER from 'vectors'."
        )
    if getattr(config.model, "sparse_gradients", False) and (
        config.optimizer == "adam" or config.momentum or config.weight_decay
    ):
        raise DecabenchError(
            "Sparse gradients of embeddings do not work with adam, momentum or weight_decay. Set "
            "model.sparse_gradients=false, or use sgd or adagrad without momentum and weight_decay."
        )
    # A network with an empty vocabulary is enough to check its size and the names of parts to freeze.
    outputs = {task: with_label_names(value.output, ("a", "b")) for task, value in run.tasks.items()}
    if name in FAMILIES:  # a custom family may read files when building its network
        none = WordTable(Lexicon(), join_vectors([f"none:{_USUAL_DIMENSION}"]))
        check_size(lambda: family.build(config.model, outputs, none))
    if config.freeze:
        words = WordTable(Lexicon(), join_vectors(config.vectors))
        build = partial(family.build, config.model, outputs, words)
        freeze_parts(check_size(build) or build(), config.freeze)
