"""The training loop. It trains, validates with the tasks' own metrics, and writes checkpoints.

The random numbers of a step depend only on the seed and the step. The step's batches depend only on each
task's position in its data. On a CPU, a resumed run therefore ends with exactly the same weights as an
uninterrupted run.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from decabench.errors import DecabenchError
from decabench.files import lock_file, make_folder, sweep_temporary, write_file
from decabench.models import (
    FAMILIES,
    Checkpoint,
    Losses,
    MultitaskNetwork,
    TrainedModel,
    find_family,
    flush_denormals,
    latest_checkpoint,
    newest_checkpoint,
    pick_device,
    release_memory,
    reuse_memory,
    write_checkpoint,
)
from decabench.training.config import TrainConfig, to_mapping, to_toml
from decabench.training.data import BatchStream, count_words, encode_tasks, require_splits
from decabench.training.logs import ProgressReport, TrainingLog, plot_curves
from decabench.training.optimizers import (
    clip_gradients,
    freeze_parts,
    learning_rate,
    make_optimizer,
    optimizer_state,
)
from decabench.training.planning import TrainingRun, check_run
from decabench.training.resume import (
    TRACKED,
    RunState,
    check_same_course,
    check_same_run,
    check_vectors,
    config_of,
    copy_weights,
    describe_run,
    restore,
)
from decabench.training.schedule import Schedule, Stretch
from decabench.training.validator import Validator, can_be_summed, check_best_by, show_score, total_score
from decabench.vectors import WordTable, join_vectors

_RELEASE_EVERY = 200  # steps; memory that was returned to the system must be cleared again before it is used
_READ_EVERY = 50  # steps; reading a loss makes a GPU wait


@dataclass(frozen=True)
class FinishedRun:
    """The outcome of a training run."""

    checkpoint: Path
    """The best checkpoint, or the last checkpoint if the run has no validation."""
    step: int
    """The last step."""
    best: float | None
    """The best score according to `best_by`. If `best_by` is "last", this is the sum of the last
    validation's scores. None without a validation, or if the scores can't be summed.
    """
    scores: Mapping[str, float]
    """The scores of the last validation, by task."""
    ended: str = ""
    """Why the run ended early; empty if it reached its last step."""
    goes_on: bool = False
    """Whether the run was stopped by its time limit and can be resumed."""


class TrainingInterrupted(KeyboardInterrupt):
    """Raised if Ctrl-C or SIGTERM ended a run.

    The message names the last checkpoint's step and says how to continue.
    """

    def __init__(self, output: Path, step: int, number: int, lost: str = "") -> None:
        super().__init__(
            f"Interrupted. The last checkpoint in {output} is from step {step:,}{lost}. To continue, run the same "
            "command with --resume."
        )
        self.exit_code = 128 + number


def run_training(run: TrainingRun) -> FinishedRun:
    """Train, validate and write checkpoints.

    Ctrl-C and SIGTERM end the run after the next step, with a checkpoint. Raises TrainingInterrupted, a
    KeyboardInterrupt, if the run was interrupted and can be continued. Raises DecabenchError for all other errors;
    errors in the configuration are raised before any data is read.
    """
    device = pick_device(run.device)
    check_run(run)
    require_splits(run.store, run.tasks.values())
    refusal = (
        f"Another process is training in {run.output}. Wait for that process to finish, or use another --output for "
        "this run."
    )
    with lock_file(run.output / "config.toml", refusal):
        if not run.resume and newest_checkpoint(run.output) is not None:
            raise DecabenchError(
                f"Another run wrote checkpoints to {run.output} while this run was starting. Choose another "
                "folder."
            )
        try:
            return _Trainer(run, device).train()
        except TrainingInterrupted:
            raise
        except KeyboardInterrupt:  # interrupted before the first step, or for the second time
            if (saved := latest_checkpoint(run.output)) is None:
                raise  # without a checkpoint, the same command starts the run again
            lost = "; later steps are lost"
            raise TrainingInterrupted(run.output, saved.record.step, signal.SIGINT, lost) from None


class _Trainer:
    def __init__(self, run: TrainingRun, device: torch.device) -> None:
        begun = time.perf_counter()
        make_folder(run.output)
        sweep_temporary(run.output, recursive=True)
        saved = latest_checkpoint(run.output) if run.resume else None
        if saved is not None:  # the initial checkpoint is no longer needed and may have been deleted
            run = replace(run, config=replace(run.config, init=saved.record.config.get("init", "")))
        origin = Checkpoint.open(run.config.init) if run.config.init and saved is None else None
        self.run, self.device, self.config = run, device, run.config
        self.family = find_family(run.config.model.name)
        self.ends_at = begun + run.stop_after if run.stop_after else math.inf
        self.is_late = False
        self.progress: ProgressReport | None = None
        self.log: TrainingLog
        self.interruption = _Interruption(self._say)
        self.thread: ThreadPoolExecutor
        self.ahead: Future[list[_Batch]] | None = None  # the next step's batches
        self.higher_is_better = check_best_by(run.config, run.tasks)
        self._read_data(saved or origin)
        self._plan_steps(saved)
        self._build_network(origin, saved)
        self.validator = Validator(run.store, run.tasks.values(), run.config.validation_examples)
        tasks, words = self.data.tasks, self.data.lexicon.size
        self._say(
            f"{sum(map(len, tasks.values())):,} examples from {len(tasks)} {'task' if len(tasks) == 1 else 'tasks'}, "
            f"{words:,} words in the {'output ' if 'max_new_tokens' in self.family.abilities else ''}vocabulary, "
            f"{sum(p.numel() for p in self.network.parameters()):,} weights, ready after "
            f"{time.perf_counter() - begun:.0f} s; training on {device} from step {self.state.step}."
        )

    # Before the first step

    def _read_data(self, begins_with: Checkpoint | None) -> None:
        run, config = self.run, self.config
        vectors = join_vectors(config.vectors)  # before tokenizing, because vectors could be missing
        self.data = encode_tasks(run.store, config, run.tasks)
        lexicon = self.data.lexicon
        lexicon.counts = count_words(self.data.tasks.values(), self.family, len(lexicon))
        self.words = WordTable(lexicon, vectors)
        if begins_with is not None:
            check_vectors(begins_with, self.words)
        self.record = describe_run(config, self.data, self.words)

    def _plan_steps(self, saved: Checkpoint | None) -> None:
        config, lexicon = self.config, self.data.lexicon
        if saved is not None:
            check_same_run(saved, config, self.record, lexicon.words[: lexicon.size])
        self.state = RunState() if saved is None else RunState.of(saved)
        self.streams = {
            task: BatchStream(data, config, self.state.positions.get(task, (0, 0)))
            for task, data in self.data.tasks.items()
        }
        self.schedule = self._schedule(config)
        if config.cooldown > self.schedule.steps:  # for runs in epochs, the number of steps is only known now
            raise DecabenchError(
                f"'cooldown' is {config.cooldown}, but must be at most {self.schedule.steps}, the number of steps."
            )
        if saved is not None:
            check_same_course(saved, config, self._schedule(config_of(saved)), self.schedule)

    def _schedule(self, config: TrainConfig) -> Schedule:
        return Schedule(config, lambda task, epoch: self.streams[task].count(epoch))

    def _build_network(self, origin: Checkpoint | None, saved: Checkpoint | None) -> None:
        config, outputs = self.config, self.data.outputs
        torch.manual_seed(config.seed)
        self.network: MultitaskNetwork = self.family.build(config.model, outputs, self.words)
        if origin is not None:
            copy_weights(origin, self.network, self.words, outputs, config)
        freeze_parts(self.network, config.freeze)
        self.network.to(self.device)
        self.optimizer = make_optimizer(config, self.network)
        if saved is not None:
            restore(saved, self.network, self.optimizer)

    def _say(self, text: str) -> None:
        if self.progress is not None:
            self.progress.say(text)
        else:
            self._say_plainly(text)

    def _say_plainly(self, text: str) -> None:
        try:
            self.run.report(text)
        except BrokenPipeError:  # the program reading the output has quit, but a long run must not be lost
            self.interruption.signal = signal.SIGPIPE

    # The loop

    def train(self) -> FinishedRun:
        run = self.run
        write_file(run.output / "config.toml", to_toml(self.config))
        if run.trackers is not None:
            name, tracked = run.output.name, run.output / TRACKED
            run.trackers.start(name, to_mapping(self.config), run.output, tracked, run.resume)
        columns = self.family.losses if len(self.family.losses) > 1 else ()
        self.log = TrainingLog(run.output, self.state.step, columns, run.trackers)
        failed = True
        try:
            with reuse_memory(), flush_denormals(), ThreadPoolExecutor(1) as self.thread, self.interruption:
                self._loop()
            failed = bool(self.interruption.signal)
        finally:
            if self.progress is not None:
                self.progress.close()
            self.log.close()
            if run.trackers is not None:
                run.trackers.finish(failed)
        plot_curves(run.output)
        if self.interruption.signal and self.state.step < self.schedule.steps:
            raise TrainingInterrupted(run.output, self.state.step, self.interruption.signal)
        return self._outcome()

    def _loop(self) -> None:
        config, state, steps = self.config, self.state, self.schedule.steps
        time_left = self.ends_at - time.perf_counter()
        self.progress = progress = ProgressReport(
            state.step, steps, self.run.bar, self._say_plainly, time_left=time_left
        )
        unread: list[_UnreadStep] = []
        begun = time.perf_counter()
        if state.unvalidated:
            self._validate()
            self._checkpoint()
        while state.step < steps and not self._has_stopped():
            begun = begun if unread else time.perf_counter()
            unread.append(self._step())
            if state.step % _RELEASE_EVERY == 0:
                release_memory()
            is_last, is_best = state.step == steps, False
            validates = is_last or self._is_due(config.validate_every, state.step)
            saves = is_last or self.is_late or self._is_due(config.checkpoint_every, state.step)
            if validates or saves or self.device.type == "cpu" or len(unread) >= _READ_EVERY:
                unread[-1].wait()
                seconds = (time.perf_counter() - begun) / len(unread)
                for row in [step.read(seconds) for step in unread]:
                    self.log.step(row)
                    progress.step(row)
                unread.clear()
            if validates:
                is_best = self._validate()
            if saves or is_best or self._has_stopped():
                self._checkpoint()

    def _is_due(self, every: int, step: int) -> bool:
        return step % every == 0 if every else self.schedule.ends_epoch(step)

    def _has_stopped(self) -> bool:
        return self.is_late or 0 < self.config.patience <= self.state.stale

    def _outcome(self) -> FinishedRun:
        state, steps, patience = self.state, self.schedule.steps, self.config.patience
        best = state.best
        if self.config.best_by == "last" and state.scores:
            best = total_score(state.scores) if can_be_summed(self.run.tasks) else None
        ended, goes_on = "", False
        if state.step < steps and self._has_stopped():
            goes_on = not 0 < patience <= state.stale
            validations = f"{patience} validation{'' if patience == 1 else 's'}"
            why = "the time limit was reached" if goes_on else f"{validations} without a better score"
            ended = f"stopped at step {state.step:,} of {steps:,}: {why}"
        folder = Checkpoint.open(self.run.output).folder
        return FinishedRun(folder, state.step, best, state.scores, ended, goes_on)

    # A step

    def _step(self) -> _UnreadStep:
        config, step = self.config, self.state.step + 1
        stretch, tasks = self.schedule.stretch_at(step - 1), self.schedule.tasks_at(step - 1)
        batches = self._take_batches(step - 1) if self.ahead is None else self.ahead.result()
        self.ahead = self._begin_next()
        # Seed each step, so that its random numbers do not depend on earlier steps.
        torch.manual_seed(int(np.random.SeedSequence([config.seed, step, 0]).generate_state(1)[0]))
        self._call_hooks(stretch, tasks, batches)
        self.network.train()
        found: list[Losses] = self.network(*(each.content for each in batches))
        means = [self._average(losses) for losses in found]
        losses = [self._weighted_sum(own) for own in means]
        rate = learning_rate(config, step, self.schedule.steps, stretch.epoch)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        objective = sum(
            loss * config.weights.get(task, 1.0) for loss, task in zip(losses, tasks, strict=True)
        )
        cast(Tensor, objective).backward()  # type: ignore[no-untyped-call]
        self.network.adjust_gradients()
        limit = min(config.clips.get(task, config.clip) or math.inf for task in tasks)
        norm = clip_gradients(self.network.parameters(), limit)
        self.network.before_step(rate)
        self.optimizer.step()
        self.state.step = step
        row = {
            "step": step,
            "task": "+".join(tasks),
            "learning_rate": f"{rate:.6g}",
            "examples": sum(each.examples for each in batches),
        }
        named: dict[str, list[Tensor]] = {}  # each task's losses by name, if the model has several losses
        for own in means if len(self.family.losses) > 1 else ():
            for name, (value, _) in own.items():
                named.setdefault(name, []).append(value.detach().clone())
        totals = [loss.detach().clone() for loss in losses]
        return _UnreadStep(row, totals, norm, [next(iter(own.values()))[1] for own in means], named)

    def _begin_next(self) -> Future[list[_Batch]] | None:
        """Start building the next step's batches in a thread.

        Returns None if the batches must be built later. This is the case if the run may validate, save a
        checkpoint or stop first, because the lexicon and stream positions must not change until then.
        Custom families may draw random numbers for their batches, which are therefore never built ahead.
        """
        step = self.state.step + 1
        self.is_late = bool(self.interruption.signal) or time.perf_counter() > self.ends_at
        every = (self.config.validate_every, self.config.checkpoint_every)
        waits = step == self.schedule.steps or self.is_late or any(self._is_due(each, step) for each in every)
        if waits or self.config.model.name not in FAMILIES:
            return None
        return self.thread.submit(self._take_batches, step)

    def _call_hooks(self, stretch: Stretch, tasks: tuple[str, ...], batches: list[_Batch]) -> None:
        if self.state.step == stretch.start and stretch.begins and stretch.epoch:
            self.network.begin_epoch(stretch.epoch)
        for task, batch in zip(tasks, batches, strict=True):
            if batch.begins_pass:
                self.network.begin_pass(task, batch.begins_pass)

    def _take_batches(self, step: int) -> list[_Batch]:
        return [self._take_batch(task) for task in self.schedule.tasks_at(step)]

    def _take_batch(self, task: str) -> _Batch:
        begins = self.streams[task].begins_pass
        items = [self.data.tasks[task].item(row) for row in next(self.streams[task])]
        batch = self.family.make_batch(task, items, self.words, self.config.model)
        return _Batch(batch.to(self.device), len(items), begins)

    def _average(self, losses: Losses) -> dict[str, tuple[Tensor, Tensor]]:
        """Divide each loss by its count, and return the means and the counts."""
        made = {}
        for name, (value, count) in losses.items():
            total = torch.as_tensor(count, device=self.device).reshape(1).clamp_min(1)
            made[name] = (value / total, total)
        return made

    def _weighted_sum(self, means: Mapping[str, tuple[Tensor, Tensor]]) -> Tensor:
        weights, measures = self.config.loss_weights, self.family.measures
        parts = [value * weights.get(name, 1.0) for name, (value, _) in means.items() if name not in measures]
        return cast(Tensor, sum(parts))

    # Validation and checkpoints

    def _validate(self) -> bool:
        """Score the validation sample, and return whether to save these weights as the best checkpoint."""
        state, config, tasks = self.state, self.config, self.run.tasks
        cuts, outputs = config.cut_context, self.data.outputs
        model = TrainedModel(self.family, config.model, self.network, self.words, outputs, cuts, self.device)
        try:
            found = self.validator(model)
        except Exception:  # for example in a custom metric; a resumed run starts by repeating this validation
            state.unvalidated = True
            self._checkpoint()
            raise
        state.scores, state.unvalidated = found, False
        total = {"total": total_score(found)} if can_be_summed(tasks) else {}
        self.log.validation(state.step, {**found, **total})
        shown = ", ".join(f"{task} {show_score(score, tasks[task])}" for task, score in found.items())
        more = f"; total {total['total']:.1f}" if total and len(found) > 1 else ""
        self._say(f"step {state.step}: {shown}{more}")
        score = total_score(found, config.best_by)
        is_best = state.best is None or (score > state.best if self.higher_is_better else score < state.best)
        if is_best:
            state.best, state.best_step, state.stale = score, state.step, 0
        else:
            state.stale += 1
        return is_best or config.best_by == "last"

    def _checkpoint(self) -> None:
        self.state.positions = {task: stream.position for task, stream in self.streams.items()}
        if self.config.best_by == "last":
            self.state.best_step = self.state.step
        record = replace(self.record, step=self.state.step, state=self.state.record())
        weights = {name: value.detach() for name, value in self.network.state_dict().items()}
        floats = ((name, value) for name, value in weights.items() if value.is_floating_point())
        if odd := next((name for name, value in floats if not bool(value.isfinite().all())), ""):
            raise DecabenchError(
                f"After step {self.state.step}, the weights in {odd} are not finite, so no checkpoint was saved. Start "
                "again with a lower 'learning_rate' or 'clip', or a larger 'epsilon'. To start from the last "
                "checkpoint, use --init."
            )
        optimizer = optimizer_state(self.network, self.optimizer)
        best_step = self.state.best_step
        write_checkpoint(self.run.output, record, weights, optimizer, self.data.lexicon, best_step)


@dataclass(frozen=True)
class _Batch:
    """A batch that is ready for the network."""

    content: Any
    """The batch as tensors on the device."""
    examples: int
    """The number of examples in the batch."""
    begins_pass: int
    """The number of the pass that the batch starts, counted from 1; 0 if it doesn't start a pass."""


@dataclass(frozen=True)
class _UnreadStep:
    """A row of the step log, with values that are still on the device."""

    row: Mapping[str, Any]
    """The columns that can be filled in without waiting for the device."""
    losses: Sequence[Tensor]
    """The loss of each task."""
    norm: Tensor
    """The norm of the gradient."""
    tokens: Sequence[Tensor]
    """The number of tokens or examples that each task's first loss is divided by."""
    named: Mapping[str, Sequence[Tensor]]
    """Maps each of the model's losses to its value for each task; empty if the model has only one loss."""

    def wait(self) -> None:
        """Wait until the GPU has finished this step."""
        float(self.norm)

    def read(self, seconds: float) -> dict[str, Any]:
        value, norm = sum(map(float, self.losses)), float(self.norm)
        if not math.isfinite(value) or not math.isfinite(norm):
            place = f"At step {self.row['step']} ({self.row['task']})"
            where = f"{place}, the loss is {value} and the gradient norm is {norm}"
            if self.row["step"] == 1:
                raise DecabenchError(
                    f"{where}, before any update. Check for very large numbers in the word vectors, in the initial "
                    "checkpoint, and in the settings 'weights' and 'loss_weights'."
                )
            raise DecabenchError(
                f"{where}. Start again with a lower 'learning_rate' or 'clip'. To start from the last checkpoint, use "
                "--init."
            )
        return {
            **self.row,
            "loss": f"{value:.6g}",
            "gradient_norm": f"{norm:.4g}",
            "tokens": sum(map(int, self.tokens)),
            "seconds": f"{seconds:.3f}",
            **{f"loss.{name}": f"{sum(map(float, values)):.6g}" for name, values in self.named.items()},
        }


class _Interruption:
    """Turns the first Ctrl-C or SIGTERM into a request to stop after the next step.

    A second signal ends the process. This works only in the main thread. If the program has set its own handler for
    a signal, that handler is kept.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.signal = 0
        self._say = say
        usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
        catches = threading.current_thread() is threading.main_thread()
        self._usual = {
            each: handler for each, handler in usual.items() if catches and signal.getsignal(each) == handler
        }

    def __enter__(self) -> None:
        for each in self._usual:
            signal.signal(each, self._ask)

    def __exit__(self, *error: object) -> None:
        for each, handler in self._usual.items():
            signal.signal(each, handler)

    def _ask(self, number: int, frame: object) -> None:
        self.signal = number
        self.__exit__()
        self._say(
            "Interrupted. A checkpoint will be written after the next step. To stop at once, interrupt again."
        )
