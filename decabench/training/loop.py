"""The training loop: one batch of one task a step, validated with real metrics, killed and resumed at will.

Every step's randomness is a function of the seed, the step and the process, and every batch of the task's position:
so a run that goes on from a checkpoint does what the uninterrupted run would have done, bit for bit on a CPU.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from decabench.errors import DecabenchError
from decabench.files import atomic_file, make_folder
from decabench.models import Answerer, Batch, Collator, Saved, VectorTable, autocast, join_vectors
from decabench.scoring import find_metric, score_task
from decabench.tasks import Example, Store, Task
from decabench.training.checkpoints import (
    adam,
    check_same,
    check_vectors,
    latest,
    new_model,
    origin_record,
    restore,
    same_scale,
    wrapped,
    write_checkpoint,
)
from decabench.training.config import TrainConfig, to_toml
from decabench.training.data import BatchStream, encode_tasks
from decabench.training.distributed import Processes, processes
from decabench.training.logs import Log, plot_curves
from decabench.training.schedule import phases, task_at

__all__ = ["Finished", "Run", "Scores", "Validator", "capped", "learning_rate", "train"]

# ---- validation


@dataclass(frozen=True)
class Scores:
    """The headline scores of a validation, 0-100 each."""

    tasks: Mapping[str, float]
    """By task."""

    @property
    def total(self) -> float:
        """Their sum: a decaScore where it is over the ten tasks, on all of their examples."""
        return sum(self.tasks.values())

    def by(self, choice: str) -> float:
        """One task's score by its name, else the total."""
        return self.tasks[choice] if choice in self.tasks else self.total


def capped(store: Store, task: str, limit: int, whole_groups: bool) -> list[Example]:
    """A sample of the validation split, always the same: `limit` examples (0 for all) in the data's order.

    Which they are is decided by the digests of their ids, or of their groups where those must be whole: the first of
    a file are often alike, and the first dialogues of WOZ easier than the rest.
    """
    if not limit:
        return list(store.examples(task, "validation"))
    column = "group" if whole_groups else "id"
    names = Counter(row[column] for row in store.read(task, "validation", (column,)))
    chosen: set[str] = set()
    count = 0
    for name in sorted(names, key=lambda name: hashlib.blake2b(name.encode(), digest_size=8).digest()):
        if count >= limit:
            break
        chosen.add(name)
        count += names[name]
    return [example for example in store.examples(task, "validation") if getattr(example, column) in chosen]


class Validator:
    """The same examples every time."""

    def __init__(
        self, store: Store, tasks: Iterable[Task], limit: int, cut_context: Mapping[str, int]
    ) -> None:
        self._cut = cut_context
        self._tasks: list[tuple[Task, list[Example]]] = []
        for task in tasks:
            whole = find_metric(task.metric).scope != "example"
            self._tasks.append((task, capped(store, task.name, limit, whole)))

    def __call__(self, answerer: Answerer) -> Scores:
        """Answers and scores."""
        scores = {}
        for task, examples in self._tasks:
            pairs = [(example.context, example.question) for example in examples]
            replies = answerer.answer(pairs, self._cut.get(task.name))
            found = score_task([task.metric], [reply.text for reply in replies], examples, None)
            scores[task.name] = found.scores[found.headline]
        return Scores(scores)


# ---- trainer


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
    """The best score, by the configuration's choice, or the last; -inf where nothing was validated."""
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
        make_folder(run.output)
        saved = latest(run.output) if run.resume else None
        if saved is not None:  # what it began with is not needed again, and may be gone
            run = replace(run, config=replace(run.config, init=saved.record["config"]["init"]))
        origin = Saved.open(run.config.init) if run.config.init and saved is None else None
        self.run, self.group, self.config = run, group, run.config
        self.schedule = phases(run.config)
        begun = time.perf_counter()
        cache = run.output / "data"
        self.lexicon, self.data = group.first_alone(lambda: encode_tasks(run.store, run.config, cache))
        table = VectorTable(self.lexicon, join_vectors(run.config.vectors))
        if found := saved or origin:
            check_vectors(found, table)
        self.record = origin_record(run.config, run.store, table, group.size)
        if saved is not None:
            check_same(saved, run.config, self.record, self.lexicon)
        parts = run.config.model.parts
        self.collate = Collator(table, parts.coattention, parts.question_pointer)
        self.model = new_model(run.config, table, origin).to(group.device)
        self.optimizer = adam(run.config, self.model)
        self.step, self.best, self.stale, self.scores = 0, -math.inf, 0, dict[str, float]()
        positions: Mapping[str, Any] = {}
        if saved is not None:
            restore(saved, self.model, self.optimizer)
            state = saved.record["state"]
            self.step, self.stale, self.scores = saved.record["step"], state["stale"], state["scores"]
            self.best = -math.inf if state["best"] is None else state["best"]
            if not same_scale(saved, run.config):
                self.best, self.stale = -math.inf, 0
            positions = state["positions"]
        budget = run.config.batch_tokens * group.size
        self.streams = {
            task: BatchStream(data, budget, run.config.seed, positions.get(task, (0, 0)))
            for task, data in self.data.items()
        }
        self.network = wrapped(self.model, run.config, group)
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
        takes_last = self.config.best_by == "last" and self.scores
        best = Scores(self.scores).total if takes_last else self.best
        return Finished(found.folder, self.step, best, self.scores)

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
                f"The loss of step {self.step} ({task}) is {value} and its gradient's norm {float(norm)}: begin again "
                "with a lower learning_rate or clip; --init takes the weights of the last checkpoint."
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
        return is_best or self.config.best_by == "last"

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
