"""What a run would do: its data, prompts and fingerprints, with no model loaded and nothing written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import decabench
from decabench.answering import GIVE_UP_AFTER
from decabench.choosing import Choice
from decabench.errors import DecabenchError
from decabench.fingerprint import fingerprint
from decabench.journal import Key
from decabench.metadata import SubmissionInfo, render_metadata
from decabench.predictor import Backend, Question, Setting
from decabench.predictors import make_backend
from decabench.predictors.options import ModelOptions
from decabench.tasks import Task
from decabench.tasks.store import Store
from decabench.tasks.variants import Variant

if TYPE_CHECKING:
    from decabench.asking import Prompts
    from decabench.extraction import AnswerForm
    from decabench.prompts import Prompting

__all__ = ["ALL_VARIANTS", "Part", "Plan", "Run", "plan", "submission_info"]

ALL_VARIANTS = -1
"""In place of a variant's number."""


@dataclass(frozen=True)
class Run:
    """What `decabench predict` was asked for."""

    predictor: str
    """A name, an entry point's name, `package.module:object`, or `hf:`, `openai:` or `command:` and what to run."""
    tasks: Sequence[Task]
    """Which tasks, in order."""
    split: str
    """Which split."""
    output: Path
    """The submission's folder."""
    store: Store
    """Where the data is prepared."""
    name: str = ""
    """The submission's name; the predictor's unless given."""
    authors: tuple[str, ...] = ()
    """Who made it."""
    description: str = ""
    """A sentence or more on how it answers."""
    url: str = ""
    """Where a person reads more."""
    model_size: int | None = None
    """Number of parameters."""
    training_data: str = ""
    """What the model has seen."""
    seed: int = 0
    """For predictors that draw, for sampling and for the choice of shots."""
    batch_size: int | None = None
    """How many questions a call gets; None is the predictor's own choice, or 64."""
    compress: Any = None
    """`gz`, `zst` or None."""
    date: str = ""
    """When it ran; the day on which its journal began unless given."""
    options: ModelOptions = field(default_factory=ModelOptions)
    """How the model runs; its seed and batch size are those above."""
    prompts: Prompts | None = None
    """How a language model is asked; None for the defaults, and for predictors that take no prompts."""
    extract: bool | None = None
    """Whether answers are extracted from the texts; None where the predictor is a language model."""
    variant: int = 0
    """Which wording of the questions: 0 is the dataset's; ALL_VARIANTS answers every one."""
    choice: Choice = field(default_factory=Choice)
    """Which examples are asked."""
    engine: str = "local"
    """`local` or `ray`."""
    workers: int | None = None
    """Copies of the model, for `ray`."""
    address: str | None = None
    """The cluster's address, for `ray`; None starts one here."""
    fresh: bool = False
    """Whether to ask everything again; the new answers take the place of the old once all are there."""
    give_up_after: int = GIVE_UP_AFTER
    """Failures in a row after which the run stops; 0 for never."""


@dataclass(frozen=True)
class Part:
    """One task in one wording."""

    task: Task
    """The task."""
    variant: int
    """The wording's number."""
    wording: Variant | None
    """None for the dataset's own."""
    prompting: Prompting | None
    """How a question becomes a prompt, for language models."""
    form: AnswerForm | None
    """What an answer looks like, where answers are extracted from texts."""
    key: Key
    """Of its journal."""
    setting: Setting
    """What its predictor is made for."""

    @property
    def name(self) -> str:
        """`sst`, or `sst (variant 2)`."""
        return f"{self.task.name} (variant {self.variant})" if self.variant else self.task.name

    def questions(self, run: Run) -> Iterator[Question]:
        """The questions to answer, streamed, in its wording."""
        rewrite = self.wording.rewrite if self.wording else None
        return run.choice.questions(run.store, self.task.name, run.split, rewrite)


@dataclass(frozen=True)
class Plan:
    """A run whose data, prompts and fingerprints are known, and nothing else done."""

    run: Run
    """What was asked for."""
    backend: Backend
    """What runs the model."""
    predictor: Mapping[str, Any]
    """All that decides the answers of every task, as the submission says it."""
    parts: Sequence[Part]
    """What is to be answered, in order."""


def plan(run: Run) -> Plan:
    """What a run would do. Raises DecabenchError for what cannot be done; loads no model and writes nothing."""
    options = replace(run.options, seed=run.seed, batch_size=run.batch_size)
    backend = make_backend(run.predictor, options)
    _check(run, backend)
    run = replace(run, tasks=run.choice.tasks(run.store, run.tasks, run.split))
    description = dict(backend.describe())  # once: it may read all of the weights
    predictor = _predictor(run, backend, description)
    parts = [
        _part(run, backend, description, task, number)
        for task in run.tasks
        for number in _wordings(run, task)
    ]
    planned = Plan(run, backend, predictor, parts)
    render_metadata(submission_info(planned))  # raises now, not after hours, for what cannot be written
    return planned


def _check(run: Run, backend: Backend) -> None:
    for task in run.tasks:
        run.store.record(task.name, run.split)  # raises where it is not prepared
    if run.engine == "local" and (run.workers or run.address):
        raise DecabenchError("--workers and --address are of a cluster: give --engine ray with them.")
    if run.engine == "ray" and (run.options.device or "").startswith("cuda:"):
        raise DecabenchError(
            f"--device {run.options.device} names a GPU, and Ray gives each worker its own: give --device cuda."
        )
    if run.prompts is not None and not backend.prompted:
        raise DecabenchError(
            f"{run.predictor} takes no prompts: --template, --system and --shots are for language models (hf, openai)."
        )


def submission_info(planned: Plan) -> SubmissionInfo:
    """What a run knows of its submission before it begins."""
    run = planned.run
    return SubmissionInfo(
        name=run.name or str(planned.predictor["name"]),
        authors=run.authors,
        description=run.description,
        url=run.url,
        model_size=run.model_size,
        training_data=run.training_data,
        date=run.date,
        predictor={**planned.predictor, "decabench": decabench.__version__},
        data={
            f"{task.name}.{run.split}": run.store.record(task.name, run.split).fingerprint
            for task in run.tasks
        },
    )


def _predictor(run: Run, backend: Backend, description: Mapping[str, Any]) -> dict[str, Any]:
    """What a submission says of the predictor, with a fingerprint of all of it."""
    content: dict[str, Any] = {"name": _label(run, backend), "seed": run.seed, "backend": description}
    if run.variant not in (0, ALL_VARIANTS):
        content["variant"] = run.variant
    if backend.prompted:
        content["prompts"] = _prompts(run.prompts)
    if _extracts(run, backend):
        from decabench.extraction import EXTRACTION_VERSION

        content["extraction"] = EXTRACTION_VERSION
    content = {key: value for key, value in content.items() if value != {}}
    return {**content, "fingerprint": fingerprint(content)}


def _label(run: Run, backend: Backend) -> str:
    """As it was named, or as the backend would have it: a path of this machine is no part of a model's name."""
    return str(getattr(backend, "label", run.predictor))


def _prompts(prompts: Prompts | None) -> dict[str, Any]:
    from decabench.asking import Prompts
    from decabench.prompts import PROMPT_VERSION, load_template

    prompts = prompts or Prompts()
    template = load_template(prompts.template)
    return {
        "template": template.name,
        "sha256": template.sha256,
        "system": prompts.system,
        "shots": prompts.shots,
        "version": PROMPT_VERSION,
    }


def _extracts(run: Run, backend: Backend) -> bool:
    return backend.prompted if run.extract is None else run.extract


def _wordings(run: Run, task: Task) -> range | tuple[int]:
    if run.variant == ALL_VARIANTS:
        return range(len(task.variants) + 1)
    if run.variant > len(task.variants):
        raise DecabenchError(
            f"{task.name} has the variants 0 to {len(task.variants)}, and {run.variant} was asked for: "
            f"decabench tasks show {task.name} lists them."
        )
    return (run.variant,)


def _part(run: Run, backend: Backend, description: Mapping[str, Any], task: Task, number: int) -> Part:
    wording = task.variants[number - 1] if number else None
    prompting = _prompting(run, task, wording) if backend.prompted else None
    about = {
        "name": _label(run, backend),
        "seed": run.seed,
        "backend": description,
        "prompting": prompting.describe() if prompting else None,
        "wording": _wording(run, task, wording) if wording else None,
        "data": run.store.record(task.name, run.split).fingerprint,
        "training_data": _training_data(run, backend, task),
    }
    return Part(
        task=task,
        variant=number,
        wording=wording,
        prompting=prompting,
        form=_form(task, prompting) if _extracts(run, backend) else None,
        key=Key(task.name, run.split, number, fingerprint(about), about),
        setting=Setting(
            task=task,
            split=run.split,
            training_answers=partial(_first_answers, run.store, task.name, "train"),
            gold_answers=partial(_gold, run.store, task.name, run.split),
            seed=run.seed,
            prompting=prompting,
        ),
    )


def _wording(run: Run, task: Task, wording: Variant) -> dict[str, Any]:
    """What a variant asks and which labels it takes: its name alone would not tell that its text was edited."""
    digest = hashlib.sha256()
    for row in run.store.read(task.name, run.split, ("question",)):
        digest.update(wording.rewrite(row["question"]).encode("utf-8", "surrogatepass") + b"\0")
    return {
        "name": wording.name,
        "questions": f"sha256:{digest.hexdigest()}",
        "labels": dict(wording.labels),
    }


def _training_data(run: Run, backend: Backend, task: Task) -> str | None:
    """The fingerprint of what a Python object may learn from; no other backend is given training answers."""
    record = run.store.records(task.name).get("train") if getattr(backend, "learns", False) else None
    return record.fingerprint if record else None


def _prompting(run: Run, task: Task, wording: Variant | None) -> Prompting:
    from decabench.asking import Prompts, prompting_for

    return prompting_for(run.prompts or Prompts(), task, run.store, run.split, run.seed, wording)


def _form(task: Task, prompting: Prompting | None) -> AnswerForm:
    from decabench.asking import form_of

    return prompting.form if prompting else form_of(task)


def _first_answers(store: Store, task: str, split: str) -> Iterator[str]:
    return (row["answers"][0] for row in store.read(task, split, ("answers",)))


def _gold(store: Store, task: str, split: str) -> Mapping[str, str]:
    return {row["id"]: row["answers"][0] for row in store.read(task, split, ("id", "answers"))}
