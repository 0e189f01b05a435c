"""Plan a run before loading a model: the tasks, their prompts and the fingerprints of the answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, cast, get_args

import decabench
from decabench.errors import DecabenchError, MissingDataError, require_name
from decabench.files import fingerprint, read_errors
from decabench.options import OptionInfo, option
from decabench.predictors import (
    CHOICES_BY,
    Answer,
    Backend,
    ModelOptions,
    OracleSetting,
    Outcome,
    Setting,
    check_ranges,
    make_backend,
)
from decabench.prompts import (
    EXTRACTION_VERSION,
    PROMPT_VERSION,
    Prompting,
    Protocol,
    Shot,
    check_reasoning_tags,
    load_template,
    make_prompting,
    select_shots,
    settle_form,
)
from decabench.runs.journal import FOLDER as JOURNAL
from decabench.runs.journal import JournalKey
from decabench.submission import SubmissionInfo, read_id_list, render_metadata
from decabench.tables import TomlTable, read_toml
from decabench.tasks import (
    AnswerForm,
    Label,
    Question,
    Store,
    Task,
    Variant,
    available_splits,
    describe_absent,
)
from decabench.text import quoted

_question = partial(option, section="Questions")
_prompt = partial(option, section="Prompts (language models)")
_run = partial(option, section="Run")
AUTO = "auto"


def read_ids(path: str | Path) -> frozenset[str]:
    """Read ids from a file with one id per line, or from a file written by `decabench prepare --export-ids`.

    Raises DecabenchError if the file can't be read or contains no ids.
    """
    path = Path(path)
    if path.name.endswith((".json", ".json.gz")):
        return frozenset(chain.from_iterable(read_id_list(path).ids.values()))
    try:
        with read_errors(path):
            lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError as error:
        raise DecabenchError(
            f"There is no file {path}. --ids requires a list of ids, one per line."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DecabenchError(
            f"{path} can't be read as a list of ids ({error}). Write one id per line, in UTF-8."
        ) from error
    ids = frozenset(line.strip() for line in lines if line.strip())
    if not ids:
        raise DecabenchError(f"{path} contains no ids. Write one id per line.")
    return ids


@dataclass(frozen=True)
class Prices:
    """Prices per million tokens, in any currency. A price is None if unknown."""

    prompt: float | None = None
    """The price of prompt tokens."""
    completion: float | None = None
    """The price of generated tokens."""

    def cost(self, prompt_tokens: int | None, completion_tokens: int | None) -> float | None:
        """Return the cost of the given token counts, or None if neither price is known. Unknown counts are treated
        as 0.
        """
        if self.prompt is None and self.completion is None:
            return None
        prompt = (self.prompt or 0) * (prompt_tokens or 0)
        return (prompt + (self.completion or 0) * (completion_tokens or 0)) / 1_000_000


def read_prices(path: str | Path, model: str) -> Prices:
    """Read a model's prices from a TOML file.

    The file has a table for each model: `["gpt-x"]`, `in = 2.5`, `out = 10`. Raises DecabenchError if the
    model is missing or the file has other content.
    """
    content = read_toml(Path(path), DecabenchError)
    require_name(model, content, f"price in {path} for the model")
    faults: list[str] = []
    table = TomlTable(content, "", faults).table(model)
    table.refuse_unknown(("in", "out"))
    found = Prices(table.number("in"), table.number("out"))
    table.raise_faults(str(path), DecabenchError)
    return found


@dataclass
class Budget:
    """The cost limit of a submission, and the cost of its answers from all runs."""

    prices: Prices
    """Token prices."""
    most: float
    """The maximum cost."""
    spent: float = 0.0
    """The cost of all answers, including those from earlier runs."""

    @property
    def is_spent(self) -> bool:
        """Whether the budget is used up. If it is, no more questions are asked."""
        return self.spent >= self.most

    def count(self, outcome: Outcome) -> None:
        """Add the cost of an outcome. Raises DecabenchError if an answer has no token counts."""
        if not isinstance(outcome, Answer):
            return
        if outcome.prompt_tokens is None and outcome.completion_tokens is None:
            raise DecabenchError(
                "--max-cost requires token counts, but the server's replies have none. Leave out the option."
            )
        self.spent += self.prices.cost(outcome.prompt_tokens, outcome.completion_tokens) or 0.0


@dataclass(frozen=True)
class Selection:
    """Selects the examples to run."""

    limit: int | None = _question(
        None, "Use only the first N examples of each task.", metavar="N", at_least=1
    )
    ids: frozenset[str] | None = _question(
        None,
        "Use only the examples whose ids are in this file, one per line.",
        metavar="FILE",
        parse=read_ids,
    )
    sample: int | None = _question(
        None,
        "Use about N examples of each task, drawn at random in whole units, such as paragraphs or dialogues.",
        metavar="N",
        at_least=1,
    )
    sample_seed: int = _question(
        0, "Seed for --sample. The same seed draws the same examples for every model."
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.sample is None and self.sample_seed:
            raise DecabenchError("--sample-seed requires --sample N.")
        if self.sample is not None and self.limit is not None:
            raise DecabenchError(
                "--limit chooses the first examples, but --sample chooses random examples. Use only one of the two."
            )

    def __str__(self) -> str:
        """Return the selection as recorded in a submission, with a digest of any list of ids."""
        parts = []
        if self.ids is not None:
            digest = hashlib.sha256("\n".join(sorted(self.ids)).encode()).hexdigest()
            parts.append(f"{len(self.ids)} ids, sha256:{digest}")
        if self.limit is not None:
            parts.append(f"limit {self.limit}")
        if self.sample is not None:
            parts.append(f"sample {self.sample}, seed {self.sample_seed}")
        return ", ".join(parts)

    def questions(
        self, store: Store, task: str, split: str, rewrite: Callable[[str], str] | None = None
    ) -> Iterator[Question]:
        """Yield the selected questions in dataset order, optionally rewritten by `rewrite`."""
        rows = store.read(task, split, ("id", "question", "context"))
        ids = self.ids if self.sample is None else self._draw(store, task, split, self.sample)
        selected = (row for row in rows if ids is None or row["id"] in ids)
        for row in islice(selected, self.limit):
            question = row["question"] if rewrite is None else rewrite(row["question"])
            yield Question(row["id"], question, row["context"])

    def _draw(self, store: Store, task: str, split: str, count: int) -> set[str]:
        """Draw whole units, such as dialogues, until there are enough examples, and return the examples' ids.

        If units are nested, the innermost ones are drawn. Units are sorted by a digest of the seed, task, split and
        first id, so a larger sample always includes the smaller ones with the same seed.
        """
        units: dict[tuple[str, ...], list[str]] = {}
        for row in store.read(task, split, ("id", "units")):
            if self.ids is None or row["id"] in self.ids:
                units.setdefault(tuple(row["units"]) or (row["id"],), []).append(row["id"])
        drawn: set[str] = set()
        for ids in sorted(
            units.values(), key=lambda ids: _digest(f"{self.sample_seed}\0{task}\0{split}\0{ids[0]}")
        ):
            if len(drawn) >= count:
                break
            drawn.update(ids)
        return drawn

    def tasks(self, store: Store, tasks: Sequence[Task], split: str) -> list[Task]:
        """Return the tasks that have at least one selected example. Raises DecabenchError for unknown ids."""
        if self.ids is None:
            return list(tasks)
        found = {task.name: self.ids.intersection(store.ids(task.name, split)) for task in tasks}
        missing = self.ids.difference(*found.values())
        if missing:
            lack = "does" if len(found) == 1 else "do"
            named = ", ".join(quoted(id_) for id_ in sorted(missing)[:5])
            more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
            raise DecabenchError(
                f"--ids lists examples that {', '.join(found)} ({split}) {lack} not have: {named}{more}. To list all "
                "ids, use decabench prepare --export-ids."
            )
        return [task for task in tasks if found[task.name]]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Prompts:
    """Prompt settings for a language model."""

    template: str = _prompt(
        "default",
        "Prompt template: default, plain (only the question and context), or your own file.",
        metavar="NAME|FILE",
    )
    system: str | None = _prompt(None, "System message.", metavar="TEXT", unset="the template's message")
    shots: int = _prompt(
        0, "Number of training examples to show before each question.", metavar="N", at_least=0
    )
    protocol: str = _prompt(
        AUTO,
        "How to get an answer: tag asks for <answer>…</answer>; choices takes the most likely label; json enforces "
        "a schema during generation; prose searches the text. auto means tag. Tasks without labels use tag instead "
        "of choices.",
        choices=(AUTO, *get_args(Protocol)),
    )
    choices_by: str = _prompt(
        "sum",
        "How --protocol choices scores a label: by its log-likelihood (sum), by its log-likelihood per character or "
        "per token, or by the difference from its log-likelihood without the prompt (unconditional).",
        choices=CHOICES_BY,
    )
    shots_seed: int | None = _prompt(
        None, "Seed for choosing the examples of --shots.", unset="the value of --seed"
    )

    def __post_init__(self) -> None:
        check_ranges(self)


ALL_VARIANTS = -1
"""The value of `variant` that selects all variants."""


def parse_variant(text: str) -> int:
    """Parse a variant number or `all`. Raises ValueError for any other string."""
    if text == "all":
        return ALL_VARIANTS
    if text.isdecimal():
        return int(text)
    raise ValueError(f"{text!r} is neither 'all' nor the number of a variant.")


_PREDICTOR = (
    "The model to run: hf:NAME_OR_PATH, vllm:NAME_OR_PATH, openai:BASE_URL, inspect:PROVIDER/MODEL, "
    "command:'PROGRAM ARGUMENTS', trained:CHECKPOINT, package.module:object, a plugin's name, or a baseline: majority, "
    "most-frequent-tag, first-choice, copy-context, lead-3, random, oracle."
)


@dataclass(frozen=True)
class Run:
    """Settings of `decabench predict`."""

    predictor: str = field(metadata={"option": OptionInfo(_PREDICTOR, metavar="NAME")})
    tasks: Sequence[Task]
    """The tasks, in order."""
    split: str
    """The split to answer."""
    output: Path
    """The submission folder."""
    store: Store
    """The prepared data."""
    name: str = option("", "Name of the submission.", unset="the predictor's name")
    authors: tuple[str, ...] = option(
        (), "Name of an author. Can be repeated.", flag="--author", variable="DECABENCH_PREDICT_AUTHOR"
    )
    description: str = option("", "One or two sentences about how the model works.")
    url: str = option("", "Link to more information.")
    model_size: int | None = option(None, "Number of parameters.", metavar="N", at_least=0)
    training_data: str = option("", "Data that the model was trained on.")
    compress: Literal["gz", "zst"] | None = option(
        None, "Compress the predictions files.", choices=("gz", "zst")
    )
    date: str = ""
    """The submission's date; by default, the day its journal was started."""
    selection: Selection = field(default_factory=Selection)
    """The examples to run."""
    variant: int = _question(
        0,
        "Wording of the questions (see decabench tasks show). Use 0 for the dataset's own wording, or all for every "
        "wording that isn't retired.",
        flag="--question-variant",
        variable="DECABENCH_PREDICT_QUESTION_VARIANT",
        metavar="K|all",
        parse=parse_variant,
    )
    samples: int = _question(
        1,
        "Number of answers to sample for each question, with --seed and the seeds that follow it. The "
        "score is the mean over these answers.",
        metavar="K",
        at_least=1,
    )
    prompts: Prompts = field(default_factory=Prompts)
    """Prompt settings. Only language models accept them."""
    extract: bool | None = _prompt(
        None,
        "Extract the answer from the model's text.",
        flag="--extract/--no-extract",
        unset="only for language models",
    )
    reasoning_tags: tuple[tuple[str, str], ...] = _prompt(
        (),
        "Tags around the model's reasoning, if decabench does not know them (see docs/extraction.md). Can be repeated.",
        metavar="OPEN CLOSE",
    )
    options: ModelOptions = field(default_factory=ModelOptions)
    """Model options."""
    engine: str = _run(
        "local", "Where to run the model: on this machine or on a Ray cluster.", choices=("local", "ray")
    )
    workers: int | None = _run(None, "Number of copies of the model (--engine ray).", metavar="N", at_least=1)
    address: str | None = _run(
        None,
        "Address of the Ray cluster.",
        metavar="ADDRESS",
        unset="$RAY_ADDRESS, or else a cluster started for the run",
    )
    fresh: bool = _run(
        False,
        "Ask all questions again. The old journal is kept as FILE.old, and the old submission is kept until the run is "
        "complete. To continue an interrupted run, leave out this option.",
    )
    give_up_after: int = _run(
        25, "Stop after this many failures in a row. Use 0 to never stop.", metavar="N", at_least=0
    )
    prices: str | None = _run(
        None,
        "TOML file of prices, with a table for each model. Each table sets in and out, per million tokens.",
        metavar="FILE",
    )
    price_in: float | None = _run(None, "Price per million prompt tokens.", metavar="PRICE", at_least=0)
    price_out: float | None = _run(None, "Price per million generated tokens.", metavar="PRICE", at_least=0)
    max_cost: float | None = _run(
        None,
        "Stop once the submission has cost this much (requests in flight are still answered). To "
        "continue, run the same command with a larger number.",
        metavar="COST",
        above=0,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.prices and (self.price_in is not None or self.price_out is not None):
            raise DecabenchError("--prices already sets both prices. Leave out --price-in and --price-out.")
        # This also reads the price file before any question is asked.
        if self.tariff == Prices() and self.max_cost is not None:
            raise DecabenchError(
                "--max-cost requires prices. Specify --prices FILE, or --price-in and --price-out."
            )
        if self.reasoning_tags:
            check_reasoning_tags(self.reasoning_tags)

    @cached_property
    def tariff(self) -> Prices:
        """Token prices for the model. Raises DecabenchError if the price file doesn't list the model."""
        if self.prices is None:
            return Prices(self.price_in, self.price_out)
        return read_prices(
            self.prices, self.options.model or self.predictor.partition(":")[2] or self.predictor
        )


def make_run(**settings: Any) -> Run:
    """Create a Run from keyword arguments, which are fields of Run, Selection, Prompts and ModelOptions."""
    parts = {"selection": Selection, "prompts": Prompts, "options": ModelOptions}
    made: dict[str, Any] = {}
    for name, owner in parts.items():
        own = {each.name for each in fields(owner)} & settings.keys()
        made[name] = owner(**{each: settings.pop(each) for each in own})
    return Run(**made, **settings)


def _training_answers(store: Store, task: Task, split: str) -> Iterator[str]:
    return (row["answers"][0] for row in _read_training(store, task, split, "answers"))


def _training_examples(store: Store, task: Task, split: str) -> Iterator[tuple[Question, str]]:
    for row in _read_training(store, task, split, "id", "question", "context", "answers"):
        yield Question(row["id"], row["question"], row["context"]), row["answers"][0]


def _read_training(store: Store, task: Task, split: str, *columns: str) -> Iterator[dict[str, Any]]:
    """Return the rows of the training split. Raises MissingDataError if it isn't prepared or is being evaluated."""
    if split == "train":
        raise MissingDataError(
            f"The training answers for {task.name} are the answers to predict, so they are hidden from predictors."
        )
    if "train" not in store.records(task.name):
        if "train" in available_splits(task):
            raise MissingDataError(store.advise(task, "train"))
        raise MissingDataError(
            f"The predictor learns from training answers, but {describe_absent(task, 'train')}."
        )
    return store.read(task.name, "train", columns)


def _gold_answers(store: Store, task: str, split: str) -> Mapping[str, str]:
    return {row["id"]: row["answers"][0] for row in store.read(task, split, ("id", "answers"))}


@dataclass(frozen=True)
class Reading:
    """How answers are read from a model's output."""

    form: AnswerForm | None = None
    """The form of an answer, if answers are extracted from the output."""
    wording: Variant | None = None
    """The wording, whose labels are converted to the dataset's labels; None for the dataset's own wording."""
    protocol: Protocol = "prose"
    """How answers are requested."""
    is_opened: bool = False
    """Whether the prompt ends with the opening tag of the answer."""
    choices_by: str = "sum"
    """How labels are scored to choose the answer: one of `CHOICES_BY`."""


@dataclass(frozen=True)
class PlannedTask:
    """A task and one of its wordings, with the questions to ask and the way to read the answers."""

    task: Task
    """The task."""
    variant: int
    """The variant number; 0 for the dataset's own wording."""
    prompting: Prompting | None
    """Builds the prompts for a language model; None for other predictors."""
    reading: Reading
    """How answers are read from the output."""
    is_chat: bool
    """Whether prompts are chat messages rather than text for the model to continue."""
    key: JournalKey
    """The key of the journal."""
    setting: Setting
    """The task, split, training data and prompts, as passed to the predictor."""
    questions: Callable[[], Iterator[Question]]
    """Yields the questions to answer in this wording, in dataset order."""

    sample: int = 0
    """The sample number, counting from 0, if each question is answered several times."""

    @property
    def name(self) -> str:
        """The display name, such as `sst`, `sst (variant 2)`, or `sst (sample 2)` for the third sample."""
        if self.sample:
            return f"{self.task.name} (sample {self.sample})"
        return f"{self.task.name} (variant {self.variant})" if self.variant else self.task.name


@dataclass(frozen=True)
class Plan:
    """A run that is ready to start. The model hasn't been loaded yet."""

    run: Run
    """The settings, limited to tasks with at least one selected example."""
    backend: Backend
    """The backend that runs the model."""
    predictor: Mapping[str, Any]
    """Everything that affects the answers to all tasks, as recorded in the submission."""
    tasks: Sequence[PlannedTask]
    """The tasks to answer, in order."""

    def submission_info(self) -> SubmissionInfo:
        """Return the part of the submission's metadata that is known before the run."""
        run = self.run
        return SubmissionInfo(
            name=run.name or str(self.predictor["name"]),
            authors=run.authors,
            description=run.description,
            url=run.url,
            model_size=run.model_size,
            training_data=run.training_data,
            date=run.date,
            predictor={**self.predictor, "decabench": decabench.__version__},
            data={
                f"{task.name}.{run.split}": run.store.record(task.name, run.split).stated
                for task in run.tasks
            },
        )


def plan_run(run: Run) -> Plan:
    """Plan a run without loading a model or writing anything.

    Raises DecabenchError if the run is not possible.
    """
    backend = make_backend(run.predictor, run.options)
    _check(run, backend)
    run = replace(run, tasks=run.selection.tasks(run.store, run.tasks, run.split))
    identity = {
        # A backend's label leaves out parent folders, which aren't part of the model's name.
        "name": getattr(backend, "label", run.predictor),
        "seed": run.options.seed,
        "backend": dict(backend.describe()),  # only once, since this may read all weights
    }
    tasks = [
        planned
        for task in run.tasks
        for number in _variants(run, task)
        for sample in range(run.samples)
        if _is_asked(run, planned := _plan_task(run, backend, identity, task, number, sample))
    ]
    plan = Plan(run, backend, _describe_predictor(run, backend, identity), tasks)
    render_metadata(plan.submission_info())  # fail now, not after hours, if a value cannot be written
    return plan


def _check(run: Run, backend: Backend) -> None:
    run.store.require(run.tasks, run.split)
    for task in run.tasks:
        run.store.require_current(task, run.split)
        run.store.require_content(task.name, run.split)
    if check := getattr(backend, "check", None):
        check(run.tasks)
    if run.engine == "local" and (run.workers or run.address):
        raise DecabenchError("--workers and --address require a cluster. Add --engine ray.")
    if run.engine == "ray" and (run.options.device or "").startswith("cuda:"):
        raise DecabenchError(
            f"--device {run.options.device} names a GPU, but Ray assigns one to each worker. Use --device cuda."
        )
    if "seed" in run.options.omit and run.options.seed and not run.prompts.shots:  # seeds also draw shots
        raise DecabenchError("--omit seed and --seed contradict each other. Use only one of the two.")
    if run.samples > 1 and run.variant == ALL_VARIANTS:
        raise DecabenchError(
            "--samples works only with a single wording. Choose a wording with --question-variant."
        )
    if run.samples > 1 and backend.prompted and not run.options.temperature:
        raise DecabenchError(
            "--samples requires a --temperature above 0, because greedy decoding always gives the same answer."
        )
    if run.reasoning_tags and not _extracts(run, backend):
        raise DecabenchError("--reasoning-tags works only for extracted answers. Add --extract.")
    if run.prompts != Prompts() and not backend.prompted:
        raise DecabenchError(
            f"{run.predictor} does not use prompts. The options --template, --system, --shots and --protocol "
            "are only for language models, such as hf: and openai:."
        )


def _variants(run: Run, task: Task) -> range | tuple[int]:
    if run.variant == ALL_VARIANTS:
        return range(len(task.variants) + 1)
    if run.variant > len(task.variants):
        raise DecabenchError(
            f"{task.name} has no variant {run.variant}. Its variants are 0 to {len(task.variants)}. "
            f"To list all variants, use decabench tasks show {task.name}."
        )
    return (run.variant,)


def _is_asked(run: Run, planned: PlannedTask) -> bool:
    """Return whether to ask a task's questions in the planned wording.

    If all variants are requested, retired wordings are skipped unless the folder already contains
    answers to them.
    """
    wording = planned.reading.wording
    if run.variant != ALL_VARIANTS or wording is None or not wording.retired:
        return True
    return (run.output / JOURNAL / planned.key.file_name).exists()


def _describe_predictor(run: Run, backend: Backend, identity: Mapping[str, Any]) -> dict[str, Any]:
    content = dict(identity)
    if run.variant not in (0, ALL_VARIANTS):
        content["variant"] = run.variant
    if run.samples > 1:
        content["samples"] = run.samples
    if backend.prompted:
        template = load_template(run.prompts.template).including(run.tasks)
        content["prompts"] = {
            "template": template.name,
            "sha256": template.sha256,
            "system": run.prompts.system,
            "shots": run.prompts.shots,
            **({} if run.prompts.shots_seed is None else {"shots_seed": run.prompts.shots_seed}),
            "version": PROMPT_VERSION,
        }
    if _extracts(run, backend):
        content["extraction"] = EXTRACTION_VERSION
        if (protocol := _protocol(run, backend)) != "prose":
            content["protocol"] = protocol
            if protocol == "choices":
                content["choices_by"] = run.prompts.choices_by
        if run.reasoning_tags:
            content["reasoning_tags"] = [list(pair) for pair in check_reasoning_tags(run.reasoning_tags)]
    content = {key: value for key, value in content.items() if value != {}}
    return {**content, "fingerprint": fingerprint(content)}


def _protocol(run: Run, backend: Backend) -> Protocol:
    if not backend.prompted:
        return "prose"
    asked = "tag" if run.prompts.protocol == AUTO else run.prompts.protocol
    if asked not in ("tag", "prose") and asked not in getattr(backend, "protocols", ()):
        is_chat = asked == "choices" and run.predictor.startswith("openai:")
        other = "Add --api completions" if is_chat else "Use --protocol tag"
        raise DecabenchError(
            f"{run.predictor} can't use the protocol {asked}{' with the chat API' * is_chat}. {other}, or see "
            "docs/prompts.md for the requirements."
        )
    return cast(Protocol, asked)


def _extracts(run: Run, backend: Backend) -> bool:
    return backend.prompted if run.extract is None else run.extract


def _plan_task(
    run: Run, backend: Backend, identity: Mapping[str, Any], task: Task, number: int, sample: int
) -> PlannedTask:
    seed = run.options.seed + sample
    if sample:
        described = identity["backend"]
        varied = {"seed": seed} if "seed" in described else {}
        identity = {**identity, "seed": seed, "backend": {**described, **varied}}
    wording = task.variants[number - 1] if number else None
    protocol = _protocol(run, backend)
    if protocol == "choices" and not isinstance(task.output, Label):
        protocol = "tag"
    prompting = build_prompting(run, task, wording, protocol) if backend.prompted else None
    form = None
    if _extracts(run, backend):
        own = prompting.form if prompting else task.answer_form
        form = settle_form(own, task.output, wording.words if wording else {})
        form = replace(form, reasoning_tags=check_reasoning_tags(run.reasoning_tags))
    if prompting and protocol in ("choices", "json"):  # the labels in this wording
        labels = settle_form(prompting.form, task.output, wording.words if wording else {})
        prompting = replace(prompting, template=replace(prompting.template, form=labels))
    described = identity["backend"]
    records = run.store.records(task.name)
    learns = getattr(backend, "learns", False) and "train" in records
    content = {
        **identity,
        "prompting": prompting.describe() if prompting else None,
        "wording": _describe_wording(run, task, wording) if wording else None,
        "data": records[run.split].fingerprint,
        "training_data": records["train"].fingerprint if learns else None,
    }
    rewrite = wording.rewrite if wording else None
    answers = partial(_training_answers, run.store, task, run.split)
    examples = partial(_training_examples, run.store, task, run.split)
    setting = Setting(task, run.split, answers, seed, prompting, examples)
    if run.predictor == "oracle":
        if run.store.hides(task, run.split):
            raise DecabenchError(
                f"The predictor oracle would write the hidden {run.split} labels of {task.name} into a submission. "
                "Choose another predictor or split."
            )
        gold = partial(_gold_answers, run.store, task.name, run.split)
        setting = OracleSetting(**vars(setting), gold_answers=gold)
    is_chat = getattr(backend, "is_chat", False)
    is_opened = protocol in ("tag", "choices") and not is_chat
    return PlannedTask(
        task=task,
        variant=number,
        prompting=prompting,
        reading=Reading(form, wording, protocol, is_opened, run.prompts.choices_by),
        is_chat=is_chat,
        key=JournalKey(task.name, run.split, number, fingerprint(content), content),
        setting=setting,
        questions=partial(run.selection.questions, run.store, task.name, run.split, rewrite),
        sample=sample,
    )


def build_prompting(run: Run, task: Task, wording: Variant | None, protocol: Protocol = "prose") -> Prompting:
    """Return a Prompting for a task in the given wording. Shots and labels are reworded too.

    Raises DecabenchError if there is no template for the task or there are too few examples for the
    shots.
    """
    store, count = run.store, run.prompts.shots
    seed = run.options.seed if run.prompts.shots_seed is None else run.prompts.shots_seed
    shots: tuple[Shot, ...] = ()
    if count:
        evaluated = (
            (row["question"], row["context"])
            for row in store.read(task.name, run.split, ("question", "context"))
        )
        training = store.examples(task.name, "train")
        shots = select_shots(task, training, evaluated, count, seed)
    templates = load_template(run.prompts.template)
    prompting = make_prompting(task, templates, run.prompts.system, shots, protocol)
    if wording is None:
        return prompting
    words = wording.words
    reworded = tuple(
        replace(shot, question=wording.rewrite(shot.question), answer=words.get(shot.answer, shot.answer))
        for shot in prompting.shots
    )
    form = replace(prompting.form, labels=tuple(words.get(label, label) for label in prompting.form.labels))
    return replace(prompting, shots=reworded, template=replace(prompting.template, form=form))


def _describe_wording(run: Run, task: Task, wording: Variant) -> dict[str, Any]:
    """Return a variant's name, a digest of its questions, and its labels.

    The name alone doesn't identify a variant, because its text may change while its name stays the
    same.
    """
    digest = hashlib.sha256()
    for row in run.store.read(task.name, run.split, ("question",)):
        digest.update(wording.rewrite(row["question"]).encode("utf-8", "surrogatepass") + b"\0")
    return {"name": wording.name, "questions": f"sha256:{digest.hexdigest()}", "labels": dict(wording.labels)}
