"""The training loop: one batch of one task a step, validated with real metrics, killed and resumed at will.

Every step's randomness is a function of the seed, the step and the process, and every batch of the task's position:
so a run that goes on from a checkpoint does what the uninterrupted run would have done, bit for bit on a CPU.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import decabench
from decabench.errors import DecabenchError
from decabench.models.answering import Answerer, autocast
from decabench.models.batches import Batch, Collator, VectorTable
from decabench.models.lexicon import Lexicon
from decabench.models.mqan import MQAN
from decabench.models.saved import MODEL, Saved, join_vectors, load_weights
from decabench.tasks import Task
from decabench.tasks.home import atomic_file, make_folder
from decabench.tasks.store import Store
from decabench.training.checkpoints import latest, restore, write_checkpoint
from decabench.training.config import TrainConfig, from_mapping, to_mapping, to_toml
from decabench.training.data import BatchStream, encode_tasks, fingerprints
from decabench.training.distributed import Processes, processes
from decabench.training.logs import Log, plot_curves
from decabench.training.schedule import phases, task_at
from decabench.training.validation import Scores, Validator

__all__ = ["Finished", "Run", "learning_rate", "train"]


@dataclass(frozen=True)
class Run:
    """What `decabench train` was asked for."""

    config: TrainConfig
    """All that decides the weights."""
    tasks: Mapping[str, Task]
    """The tasks of the configuration, by name."""
    store: Store
    """Where their data is prepared."""
    output: Path
    """The run's folder."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda`, ..."""
    resume: bool = False
    """Whether to go on from the folder's latest checkpoint, if it has one."""
    report: Callable[[str], None] = print
    """Where sentences go."""
    progress: bool = False
    """Whether to show a bar."""


@dataclass(frozen=True)
class Finished:
    """What came of a run."""

    checkpoint: Path
    """The best, or the last where nothing was validated."""
    step: int
    """Where it ended."""
    best: float
    """The best score, by the configuration's choice; -inf where nothing was validated."""
    scores: Mapping[str, float]
    """The last validation's, by task."""


def learning_rate(config: TrainConfig, step: int) -> float:
    """Of the step-th step, from 1: linear up to the highest, then as 1 / sqrt(step) (Appendix D).

    With a cooldown, which the paper has not, a last stretch falls along a line and would be 0 after the last step.
    """
    rate = config.learning_rate * min(step / config.warmup, math.sqrt(config.warmup / step))
    left = config.steps - step + 1
    return rate * min(1.0, left / (config.cooldown + 1))


def train(run: Run) -> Finished:
    """Trains, validates and writes checkpoints. Raises DecabenchError."""
    with processes(run.device) as group:
        return _Training(run, group).go()


class _Training:
    """A run that is going on."""

    def __init__(self, run: Run, group: Processes) -> None:
        self.run, self.group, self.config = run, group, run.config
        self.schedule = phases(run.config)
        make_folder(run.output)
        saved = latest(run.output) if run.resume else None
        origin = Saved.open(run.config.init) if run.config.init else None
        begun = time.perf_counter()
        cache = run.output / "data"
        self.lexicon, self.data = group.first_alone(lambda: encode_tasks(run.store, run.config, cache))
        table = VectorTable(self.lexicon, join_vectors(run.config.vectors))
        if found := saved or origin:
            _check_vectors(found, table)
        self.record = _record(run, table, group)
        if saved is not None:
            _check_same(saved, run.config, self.record, self.lexicon)
        parts = run.config.model.parts
        self.collate = Collator(table, parts.coattention, parts.question_pointer)
        self.model = _new_model(run.config, table, origin).to(group.device)
        self.optimizer = _adam(run.config, self.model)
        self.step, self.best, self.stale, self.scores = 0, -math.inf, 0, dict[str, float]()
        positions: Mapping[str, Any] = {}
        if saved is not None:
            restore(saved, self.model, self.optimizer)
            state = saved.record["state"]
            self.step, self.stale, self.scores = saved.record["step"], state["stale"], state["scores"]
            self.best = -math.inf if state["best"] is None else state["best"]
            positions = state["positions"]
        budget = run.config.batch_tokens * group.size
        self.streams = {
            task: BatchStream(data, budget, run.config.seed, positions.get(task, (0, 0)))
            for task, data in self.data.items()
        }
        self.network = _wrapped(self.model, run.config, group)
        limit, cut = run.config.validation_examples, run.config.cut_context
        self.validator = Validator(run.store, run.tasks.values(), limit, cut) if group.is_first else None
        self._say(
            f"{sum(map(len, self.data.values())):,} examples of {len(self.data)} tasks, {self.lexicon.size:,} words to "
            f"generate, {sum(p.numel() for p in self.model.parameters()):,} weights, read in "
            f"{time.perf_counter() - begun:.0f} s; training on {group.device} from step {self.step}."
        )

    def _say(self, text: str) -> None:
        if self.group.is_first:
            self.run.report(text)

    def go(self) -> Finished:
        """Trains to the end."""
        log = None
        if self.group.is_first:
            with atomic_file(self.run.output / "config.toml") as file:
                file.write(to_toml(self.config).encode())
            log = Log(self.run.output, self.step)
        try:
            self._loop(log)
        finally:
            if log is not None:
                log.close()
        if self.group.is_first:
            plot_curves(self.run.output)
        found = Saved.open(self.run.output)
        return Finished(found.folder, self.step, self.best, self.scores)

    def _loop(self, log: Log | None) -> None:
        config = self.config
        bar = _bar(self.step, config.steps, self.run.progress and self.group.is_first)
        while self.step < config.steps and not self._has_stopped():
            row = self._train_step()
            bar.update(1)
            is_last = self.step == config.steps
            if log is not None:
                bar.set_postfix_str(f"{row['task']} {float(row['loss']):.3f}", refresh=False)
                log.step(row)
            is_best = False
            if is_last or self.step % config.validate_every == 0:
                is_best = self._validate(log)
            if is_last or is_best or self.step % config.checkpoint_every == 0 or self._has_stopped():
                self._checkpoint(log, is_best)
        bar.close()

    def _has_stopped(self) -> bool:
        return 0 < self.config.patience <= self.stale

    def _train_step(self) -> dict[str, Any]:
        begun, config = time.perf_counter(), self.config
        task = task_at(self.schedule, self.step)
        rows = next(self.streams[task])
        self.step += 1
        # Not one generator that runs on: what a step draws must not hang on what was drawn before it.
        torch.manual_seed(
            int(np.random.SeedSequence([config.seed, self.step, self.group.rank]).generate_state(1)[0])
        )
        batch, weight = self._share(task, rows)
        tokens = self.group.total(torch.tensor([batch.target_tokens * weight], device=self.group.device))
        self.network.train()
        with autocast(self.group.device, config.precision):
            log_p = self.network(batch)
        # The mean over all processes' tokens; DistributedDataParallel takes the mean over processes.
        loss = -log_p.sum() * weight / tokens
        factor = config.weights.get(task, 1.0) * self.group.size
        rate = learning_rate(config, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        (loss * factor).backward()
        limit = config.clip or math.inf
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        value = float(self.group.total(loss.detach()))
        if not math.isfinite(value) or not math.isfinite(float(norm)):
            raise DecabenchError(
                f"The loss of step {self.step} ({task}) is {value} and its gradient's norm {float(norm)}: lower "
                "learning_rate or clip, and go on from the last checkpoint."
            )
        self.optimizer.step()
        return {
            "step": self.step,
            "task": task,
            "loss": f"{value:.6g}",
            "learning_rate": f"{rate:.6g}",
            "gradient_norm": f"{float(norm):.4g}",
            "examples": len(rows),
            "tokens": int(tokens),
            "seconds": f"{time.perf_counter() - begun:.3f}",
        }

    def _share(self, task: str, rows: np.ndarray[Any, Any]) -> tuple[Batch, int]:
        """This process's part of a batch, and its weight: 0 where there are more processes than examples."""
        own = rows[self.group.rank :: self.group.size]
        weight = int(len(own) > 0)
        data = self.data[task]
        examples = [data.example(row) for row in (own if weight else rows[:1])]
        return self.collate(examples).to(self.group.device), weight

    def _validate(self, log: Log | None) -> bool:
        """Scores, and whether they are the best so far."""
        if self.validator is not None and log is not None:
            answerer = Answerer(self.model, self.collate, self.group.device, self.config.precision)
            found: Scores = self.validator(answerer)
            self.scores = dict(found.tasks)
            log.validation(self.step, {**found.tasks, "total": found.total})
            shown = ", ".join(f"{task} {score:.1f}" for task, score in found.tasks.items())
            self._say(f"step {self.step}: {shown}; total {found.total:.1f}")
        score = self.group.agree(Scores(self.scores).by(self.config.best_by) if self.scores else 0.0)
        is_best = score > self.best
        self.best, self.stale = max(score, self.best), 0 if is_best else self.stale + 1
        if self.config.best_by == "last":
            self.best, is_best = score, True
        return is_best

    def _checkpoint(self, log: Log | None, is_best: bool) -> None:
        if log is None:
            return
        state = {
            "positions": {task: list(stream.position) for task, stream in self.streams.items()},
            "best": None if math.isinf(self.best) else self.best,
            "stale": self.stale,
            "scores": self.scores,
        }
        record = {**self.record, "step": self.step, "state": state}
        write_checkpoint(self.run.output, record, self.model, self.optimizer, self.lexicon, is_best)


def _bar(done: int, steps: int, shown: bool) -> Any:
    from tqdm import tqdm

    return tqdm(total=steps, initial=done, disable=None if shown else True, unit="step")


def _record(run: Run, table: VectorTable, group: Processes) -> dict[str, Any]:
    """What a checkpoint says of where it came from."""
    tasks = run.config.tasks
    return {
        "config": to_mapping(run.config),
        "data": {**fingerprints(run.store, tasks, "train"), **fingerprints(run.store, tasks, "validation")},
        "vectors": table.vectors.digest,
        "processes": group.size,
        "versions": {
            "decabench": decabench.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _new_model(config: TrainConfig, table: VectorTable, origin: Saved | None) -> MQAN:
    """A model as its seed makes it, or as a checkpoint has it, with what is frozen frozen."""
    torch.manual_seed(config.seed)
    model = MQAN(config.model, table.vocabulary())
    if origin is not None:
        _begin_with(model, table.lexicon, origin)
    _freeze(model, config.freeze)
    return model


def _adam(config: TrainConfig, model: nn.Module) -> torch.optim.Adam:
    """Adam over what is not frozen; each step sets its own learning rate."""
    free = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fused = free[0].device.type in ("cpu", "cuda")
    return torch.optim.Adam(free, 0.0, (config.beta1, config.beta2), config.epsilon, fused=fused)


def _wrapped(model: MQAN, config: TrainConfig, group: Processes) -> nn.Module:
    """The model as it is called in training: in parallel where there are processes."""
    if config.compile:
        model.compile_step()
    if group.size == 1:
        return model
    return DistributedDataParallel(model, [group.device.index] if group.device.type == "cuda" else None)


_MAY_CHANGE = {
    "steps",
    "validate_every",
    "checkpoint_every",
    "patience",
    "validation_examples",
    "best_by",
    "init",
}
"""Settings that a run may go on with otherwise: they decide how long it is and what it says, not what it does."""


def _check_same(saved: Saved, config: TrainConfig, record: Mapping[str, Any], lexicon: Lexicon) -> None:
    """Refuses to go on with anything that would make another run of it."""
    before, now = to_mapping(from_mapping(saved.record["config"])), to_mapping(config)
    differs = [key for key in now if key not in _MAY_CHANGE and before[key] != now[key]]
    if differs:
        raise DecabenchError(
            f"{saved.folder} was trained with other settings ({', '.join(differs)}): go on with the same, or "
            "name a new folder."
        )
    if config.steps != before["steps"] and saved.record["step"] > before["steps"] - before["cooldown"]:
        raise DecabenchError(
            f"{saved.folder} is in its cooldown, which ends at step {before['steps']}, not {config.steps}: keep steps, "
            "or go on from an earlier checkpoint."
        )
    vocabulary = lexicon.words[: lexicon.size]
    if saved.record["data"] != record["data"] or saved.lexicon().words != vocabulary:
        raise DecabenchError(f"The prepared data is not what {saved.folder} was trained on: begin a new run.")


def _check_vectors(saved: Saved, table: VectorTable) -> None:
    if saved.record["vectors"] != table.vectors.digest:
        raise DecabenchError(
            f"{saved.folder} was trained with the vectors {', '.join(saved.vectors)}, and these are others: name the "
            "same with --set vectors=..."
        )


def _begin_with(model: MQAN, lexicon: Lexicon, origin: Saved) -> None:
    """The weights of a checkpoint; of the softmax's rows those of the words that both vocabularies have (4.3)."""
    weights = load_weights(origin.folder / MODEL)
    sizes = replace(origin.model, vocabulary=1, dropout=0.0, max_answer_tokens=1)
    if sizes != replace(model.config, vocabulary=1, dropout=0.0, max_answer_tokens=1):
        raise DecabenchError(
            f"{origin.folder} holds {origin.model}, and {model.config} was asked for: give the same sizes."
        )
    old = {word: row for row, word in enumerate(origin.lexicon().words)}
    shared = [(row, old[word]) for row, word in enumerate(lexicon.words[: lexicon.size]) if word in old]
    rows, old_rows = (torch.tensor(numbers) for numbers in zip(*shared, strict=True))
    made: dict[str, Tensor] = dict(model.state_dict())
    for name, value in weights.items():
        if name.startswith("generate."):
            made[name] = made[name].clone()
            made[name][rows] = value[old_rows]
        else:
            made[name] = value
    model.load_state_dict(made)


def _freeze(model: nn.Module, parts: tuple[str, ...]) -> None:
    names = [name for name, _ in model.named_parameters()]
    for part in parts:
        if not any(name == part or name.startswith(f"{part}.") for name in names):
            tops = sorted(
                {".".join(name.split(".")[:2]) for name in names} | {name.split(".")[0] for name in names}
            )
            raise DecabenchError(
                f"There is no part {part!r} to freeze; parts are {', '.join(tops)}, and theirs."
            )
    for name, parameter in model.named_parameters():
        if any(name == part or name.startswith(f"{part}.") for part in parts):
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise DecabenchError("Everything is frozen: leave a part to train.")
