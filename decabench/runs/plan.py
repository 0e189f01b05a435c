"""What a run would do: its data, prompts and fingerprints, with no model loaded and nothing written."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import decabench
from decabench.errors import DecabenchError
from decabench.files import fingerprint
from decabench.predictors import Backend, ModelOptions, Setting, make_backend
from decabench.prompts import DrawnShots, Prompting, load_template, make_prompting, select_shots
from decabench.runs.ask import GIVE_UP_AFTER
from decabench.runs.journal import Key
from decabench.submission import SubmissionInfo, read_id_list, render_metadata
from decabench.tasks import AnswerForm, Question, Store, Task, Variant
from decabench.text import quoted

__all__ = [
    "ALL_VARIANTS",
    "Choice",
    "Part",
    "Plan",
    "Prompts",
    "Run",
    "form_of",
    "plan",
    "prompting_for",
    "read_ids",
    "submission_info",
]

# ---- choosing


@dataclass(frozen=True)
class Choice:
    """Which examples are asked."""

    limit: int | None = None
    """The first so many of each task."""
    ids: frozenset[str] | None = None
    """Only these, of any task."""

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.limit is None and self.ids is None

    @property
    def text(self) -> str:
        """What a submission says of it: `limit 100`, or the number of ids and a digest of the list."""
        parts = [] if self.limit is None else [f"limit {self.limit}"]
        if self.ids is not None:
            digest = hashlib.sha256("\n".join(sorted(self.ids)).encode()).hexdigest()
            parts.insert(0, f"{len(self.ids)} ids, sha256:{digest}")
        return ", ".join(parts)

    def questions(
        self, store: Store, task: str, split: str, rewrite: Callable[[str], str] | None = None
    ) -> Iterator[Question]:
        """The questions in the order of the data, streamed, in the wording that is asked for."""
        rows = store.read(task, split, ("id", "question", "context"))
        chosen = (Question(**row) for row in rows if self.ids is None or row["id"] in self.ids)
        for question in islice(chosen, self.limit):
            if rewrite is None:
                yield question
            else:
                yield Question(question.id, rewrite(question.question), question.context)

    def tasks(self, store: Store, tasks: Sequence[Task], split: str) -> list[Task]:
        """The tasks that have any chosen example. Raises DecabenchError where none has one that is named."""
        if self.ids is None:
            return list(tasks)
        found = {task.name: self.ids.intersection(store.ids(task.name, split)) for task in tasks}
        missing = self.ids.difference(*found.values())
        if missing:
            named = ", ".join(quoted(id_) for id_ in sorted(missing)[:5])
            more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
            raise DecabenchError(
                f"--ids names examples that {', '.join(found)} ({split}) lack: {named}{more}; decabench prepare "
                "--export-ids writes a list of all."
            )
        return [task for task in tasks if found[task.name]]


def read_ids(path: Path) -> frozenset[str]:
    """One id a line, blank lines passed over, or a file of `--export-ids`. Raises DecabenchError for no id."""
    if path.name.endswith((".json", ".json.gz")):
        return frozenset(chain.from_iterable(read_id_list(path).ids.values()))
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DecabenchError(
            f"{path} cannot be read as a list of ids ({error}): write one id a line, in UTF-8."
        ) from error
    ids = frozenset(line.strip() for line in lines if line.strip())
    if not ids:
        raise DecabenchError(f"{path} names no example: write one id a line.")
    return ids


# ---- asking


@dataclass(frozen=True)
class Prompts:
    """How a language model is asked."""

    template: str = "default"
    """A built-in template's name, or the path of a file."""
    system: str | None = None
    """The system text; None for the template's own."""
    shots: int = 0
    """Examples of the training split before each question."""


def prompting_for(
    prompts: Prompts, task: Task, store: Store, split: str, seed: int, wording: Variant | None
) -> Prompting:
    """The prompts of one task in one wording; shots are put in the same words. Raises DecabenchError."""
    shots = _selection(task, store, split, prompts.shots, seed).shots if prompts.shots else ()
    made = make_prompting(task, load_template(prompts.template), prompts.system, shots)
    return _worded(made, wording) if wording else made


def _selection(task: Task, store: Store, split: str, count: int, seed: int) -> DrawnShots:
    evaluated = (
        (row["question"], row["context"]) for row in store.read(task.name, split, ("question", "context"))
    )
    return select_shots(task, store.examples(task.name, "train"), evaluated, count, seed)


def _worded(prompting: Prompting, wording: Variant) -> Prompting:
    """Shots with the variant's question and label words; those words are the labels to be found."""
    words = {label: word for word, label in wording.labels.items()}
    shots = tuple(
        replace(shot, question=wording.rewrite(shot.question), answer=words.get(shot.answer, shot.answer))
        for shot in prompting.shots
    )
    return replace(
        prompting, shots=shots, template=replace(prompting.template, form=_form(prompting.form, words))
    )


def _form(form: AnswerForm, words: Mapping[str, str]) -> AnswerForm:
    return replace(form, labels=tuple(words.get(label, label) for label in form.labels))


def form_of(task: Task) -> AnswerForm:
    """What an answer of a task looks like, for predictors that are not given prompts."""
    return task.answer_form


# ---- planning

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
        content["prompts"] = _prompts(run.prompts, run.tasks)
    if _extracts(run, backend):
        from decabench.prompts import EXTRACTION_VERSION

        content["extraction"] = EXTRACTION_VERSION
    content = {key: value for key, value in content.items() if value != {}}
    return {**content, "fingerprint": fingerprint(content)}


def _label(run: Run, backend: Backend) -> str:
    """As it was named, or as the backend would have it: a path of this machine is no part of a model's name."""
    return str(getattr(backend, "label", run.predictor))


def _prompts(prompts: Prompts | None, tasks: Sequence[Task]) -> dict[str, Any]:
    from decabench.prompts import PROMPT_VERSION, load_template

    prompts = prompts or Prompts()
    template = load_template(prompts.template).including(tasks)
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
        form=_form__planning(task, prompting) if _extracts(run, backend) else None,
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
    return prompting_for(run.prompts or Prompts(), task, run.store, run.split, run.seed, wording)


def _form__planning(task: Task, prompting: Prompting | None) -> AnswerForm:
    return prompting.form if prompting else form_of(task)


def _first_answers(store: Store, task: str, split: str) -> Iterator[str]:
    return (row["answers"][0] for row in store.read(task, split, ("answers",)))


def _gold(store: Store, task: str, split: str) -> Mapping[str, str]:
    return {row["id"]: row["answers"][0] for row in store.read(task, split, ("id", "answers"))}
