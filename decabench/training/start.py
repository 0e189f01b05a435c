"""The Python function `train`, which loads torch only when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from decabench.errors import require_torch
from decabench.files import Paths

if TYPE_CHECKING:
    from decabench.exchange import Trackers
    from decabench.training.loop import FinishedRun


def train(
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
) -> FinishedRun:
    """Train a model on prepared tasks, by default the decathlon's, and write checkpoints to a folder.

    Args:
        model: A model's name (`mqan`, `classifier`, `jmt`, ...) or `package.module:object`.
        settings: Settings by name, such as `{"steps": 2000, "model.dimension": 100}`. They override the file `config`.
        config: A TOML file of settings.
        init: A checkpoint or a run's folder to initialize the weights from.
        resume: Continue from the folder's latest checkpoint, if there is one, as if the run had not been interrupted.
        include: Files that define tasks.
        report: Called with each progress message.
        trackers: Trackers to send losses and scores to, as returned by `decabench.exchange.make_trackers(["wandb"])`.

    Raises TrainingInterrupted, a KeyboardInterrupt, if Ctrl-C or SIGTERM stopped a run that can be continued. Raises
    DecabenchError for all other errors, for example if torch is missing. Errors in the configuration are raised before
    any data is read.
    """
    require_torch("Training")
    from decabench.training.loop import run_training
    from decabench.training.planning import plan_training

    run = plan_training(
        output,
        tasks,
        model,
        settings,
        config=config,
        init=init,
        home=home,
        device=device,
        resume=resume,
        include=include,
        report=report,
        trackers=trackers,
    )
    return run_training(run)
