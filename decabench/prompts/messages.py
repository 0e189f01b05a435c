"""How the questions of one task become what a language model is sent."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from decabench.errors import DecabenchError
from decabench.prompts.answer_forms import AnswerForm
from decabench.prompts.shots import Shot
from decabench.prompts.templates import TaskTemplate, TemplateSet, sha256_of
from decabench.tasks import Question, Task

__all__ = [
    "NEAR",
    "PROMPT_VERSION",
    "Message",
    "PromptTooLongError",
    "Prompting",
    "Role",
    "fit",
    "make_prompting",
    "show",
]

# ---- fitting

NEAR = 64
"""A word longer than this many characters may be cut within; every other stays whole or goes."""

_WORD = re.compile(r"\S+")


class PromptTooLongError(DecabenchError):
    """A prompt does not fit even without its context."""


def fit(question: Question, budget: int, count: Callable[[str], int]) -> tuple[int, int] | None:
    """The characters [0, end) of the context whose prompt fits into `budget` tokens; None where all of it does.

    `count` gives the tokens of the whole prompt with that context; it is called some ten times. What is cut is
    the end, after a word. Raises PromptTooLongError.
    """
    context = question.context
    whole = count(context)
    if whole <= budget:
        return None
    bare = count("")
    if bare > budget:
        raise PromptTooLongError(
            f"The prompt of {question.id} takes {bare:,} tokens without its context, and {budget:,} fit: use fewer "
            "shots, a shorter template or a longer window."
        )

    def fits(end: int) -> bool:
        return count(context[:end]) <= budget

    ends = [0, *(match.end() for match in _WORD.finditer(context))]
    guess = bisect_left(ends, len(context) * (budget - bare) // max(1, whole - bare))
    last = _last(0, len(ends), guess, lambda index: fits(ends[index]))
    start = ends[last]
    stop = ends[last + 1] if last + 1 < len(ends) else start
    if stop - start <= NEAR:
        return 0, start
    return 0, _last(start, stop, (start + stop) // 2, fits)


def _last(low: int, high: int, guess: int, holds: Callable[[int], bool]) -> int:
    """The last number in [low, high) for which it holds: it does for `low`, and then ever after the last it does not.

    Steps away from the guess that grow, then halves: few calls where the guess is near.
    """
    step = 2
    probe = guess
    while high - low > 1:
        if not low < probe < high:
            probe = (low + high) // 2
        if holds(probe):
            low, probe = probe, probe + step
        else:
            high, probe = probe, probe - step
        step *= 4
    return low


# ---- prompting

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
