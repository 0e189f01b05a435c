"""How the questions of a task are put to a language model: the template, the system text, worked examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from decabench.extraction import AnswerForm
from decabench.prompts import Prompting, Selection, load_template, make_prompting, select_shots
from decabench.tasks import Task
from decabench.tasks.store import Store
from decabench.tasks.variants import Variant

__all__ = ["Prompts", "form_of", "prompting_for"]


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


def _selection(task: Task, store: Store, split: str, count: int, seed: int) -> Selection:
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
    return load_template("default").for_task(task).form
