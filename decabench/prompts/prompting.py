"""How the questions of one task become what a language model is sent."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from decabench.extraction import AnswerForm
from decabench.predictor import Question
from decabench.prompts.shots import Shot
from decabench.prompts.template import TaskTemplate, TemplateSet, sha256_of
from decabench.tasks import Task

__all__ = ["PROMPT_VERSION", "Message", "Prompting", "Role", "make_prompting", "show"]

PROMPT_VERSION = 1
"""Raised whenever the same template and question would be sent as another text."""

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: Role
    """Who speaks."""
    content: str
    """What is said."""


@dataclass(frozen=True)
class Prompting:
    """Makes the prompts of one task; small, and can be pickled."""

    task: str
    """The task's name."""
    template: TaskTemplate
    """What is said around an example."""
    template_name: str
    """What the template's set is called."""
    system: str = ""
    """The system's text; none where empty."""
    shots: tuple[Shot, ...] = ()
    """Worked examples of the training split, in the order in which they are shown."""

    @property
    def max_new_tokens(self) -> int:
        """The most tokens that an answer may have."""
        return self.template.max_new_tokens

    @property
    def stop(self) -> tuple[str, ...]:
        """What ends an answer, in plain text only."""
        return self.template.stop

    @property
    def form(self) -> AnswerForm:
        """What the answer looks like; what introduces it in the prompt may introduce it in the answer too."""
        form = self.template.form
        own = self.template.answer
        return form if not own or own in form.markers else replace(form, markers=(*form.markers, own))

    def messages(self, question: Question, context: str | None = None) -> tuple[Message, ...]:
        """The turns of a chat; `context` in place of the question's own, where it was cut."""
        messages = [Message("system", self.system)] if self.system else []
        start = f"{self.template.instruction}\n\n" if self.template.instruction else ""
        for shot in self.shots:
            shown = self.template.layout(shot.question, shot.context)
            messages += [Message("user", start + shown), Message("assistant", shot.answer)]
            start = ""  # said once: the turns that follow show what it means
        return (*messages, Message("user", start + self._layout(question, context)))

    def text(self, question: Question, context: str | None = None) -> str:
        """One plain text, for models without a chat template; it ends where the answer begins."""
        shots = [self._shown(shot) for shot in self.shots]
        parts = [self.system, self.template.instruction, *shots, self._layout(question, context)]
        return "\n\n".join(part for part in parts if part)

    def describe(self) -> dict[str, Any]:
        """All that decides what is sent, as JSON values."""
        return {
            "version": PROMPT_VERSION,
            "template": self.template_name,
            "template_sha256": sha256_of(self.template.sent()),
            "system": self.system,
            "shots": [shot.id for shot in self.shots],
            "shots_sha256": sha256_of([asdict(shot) for shot in self.shots]),
        }

    def _layout(self, question: Question, context: str | None) -> str:
        return self.template.layout(question.question, question.context if context is None else context)

    def _shown(self, shot: Shot) -> str:
        space = " " if self.template.answer else "\n"
        return f"{self.template.layout(shot.question, shot.context)}{space}{shot.answer}"


def make_prompting(
    task: Task, templates: TemplateSet, system: str | None = None, shots: tuple[Shot, ...] = ()
) -> Prompting:
    """How a task is put with a set of templates; None takes the template's system text, an empty one none.

    Raises UnknownNameError where the set has no template for the task.
    """
    template = templates.for_task(task)
    return Prompting(
        task.name, template, templates.name, template.system if system is None else system, shots
    )


def show(prompting: Prompting, question: Question, chat: bool = True) -> str:
    """What would be sent for one question: the turns with a line for the role above each, or the plain text."""
    if not chat:
        return prompting.text(question)
    return "\n\n".join(f"[{turn.role}]\n{turn.content}" for turn in prompting.messages(question))
