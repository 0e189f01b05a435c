"""Build the prompt for a language model: the turns of a chat, or one text, shortened to fit the model's window."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from decabench.errors import DecabenchError
from decabench.prompts.enforced import answer_schema, json_request, write_json
from decabench.prompts.extraction import Protocol
from decabench.prompts.labels import labels_for
from decabench.prompts.shots import Shot
from decabench.prompts.tagged import CLOSING, OPENING, TAG_REQUEST
from decabench.prompts.templates import TemplateSet, describe_template, sha256_of
from decabench.tasks import AnswerForm, PromptTemplate, Question, Task, Text

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

PROMPT_VERSION = 1
"""Incremented whenever the same template and question would give a different prompt."""

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: Role
    """Who speaks."""
    content: str
    """The text of the turn."""


@dataclass(frozen=True)
class Prompting:
    """Makes the prompts of one task; it is small and can be pickled."""

    task: str
    """The task's name."""
    template: PromptTemplate
    """The text that surrounds an example."""
    template_name: str
    """The name of the template set."""
    system: str = ""
    """The system message; if empty, none is sent."""
    shots: tuple[Shot, ...] = ()
    """Worked examples from the training split, in the order in which they are shown."""
    protocol: Protocol = "prose"
    """How the prompt asks for the answer."""

    @property
    def max_new_tokens(self) -> int:
        """The maximum number of tokens in an answer."""
        return (self.template.max_new_tokens or Text().max_tokens) + (
            _TAG_TOKENS if self.protocol in ("tag", "json") else 0
        )

    @property
    def stop(self) -> tuple[str, ...]:
        """Texts that end an answer in plain text."""
        return (CLOSING, *self.template.stop) if self._is_tagged else self.template.stop

    @property
    def _is_tagged(self) -> bool:
        return self.protocol == "tag"

    @property
    def _is_json(self) -> bool:
        return self.protocol == "json"

    def schema(self, question: Question, context: str) -> dict[str, Any]:
        """Return the JSON schema of the answer to a question."""
        return answer_schema(self.form, self.labels(question), context)

    @property
    def _instruction(self) -> str:
        request = TAG_REQUEST if self._is_tagged else json_request(self.form.kind) if self._is_json else ""
        return " ".join(filter(None, (self.template.instruction, request)))

    @property
    def gap(self) -> str:
        """The space between a plain-text prompt and its answer."""
        return " " if self.template.answer and self.form.kind not in ("tags", "tree") else "\n"

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return the labels that may answer a question."""
        return labels_for(self.form, question.question) if self.form.kind == "label" else ()

    def _shown(self, shot: Shot) -> str:
        if self._is_json:
            return write_json(shot.answer, self.form.kind)
        shown = self.template.shown(shot.context, shot.answer)
        return f"{OPENING}{shown}{CLOSING}" if self._is_tagged else shown

    @property
    def chat_stop(self) -> tuple[str, ...]:
        """Texts that end an answer in a chat, namely beginnings of another example.

        An empty line is not among them, because a chat may put one between `Here is the answer:` and the
        answer.
        """
        return tuple(stop for stop in self.template.stop if stop.strip())

    @property
    def form(self) -> AnswerForm:
        """The form of the answer, with the prompt's text before an answer and before an example.

        A model may repeat the former before its answer, and the latter after it.
        """
        form, own = self.template.form or AnswerForm(), self.template.answer
        markers = form.markers if not own or own in form.markers else (*form.markers, own)
        return replace(form, markers=markers, stop=(*self.template.stop, *self._headings()))

    def _headings(self) -> list[str]:
        """Return other texts with which an example in the prompt begins: `Country:` for `Country: {question}`."""
        known = {text.strip() for text in (*self.template.stop, self.template.answer)}
        return [f"\n{heading}" for heading in _HEADING.findall(self.template.input) if heading not in known]

    def messages(self, question: Question, context: str | None = None) -> tuple[Message, ...]:
        """Return the turns of a chat; `context` replaces the question's own if that was shortened."""
        messages = [Message("system", self.system)] if self.system else []
        start = f"{self._instruction}\n\n" if self._instruction else ""
        for shot in self.shots:
            shown = self.template.layout(shot.question, shot.context)
            messages += [
                Message("user", start + shown),
                Message("assistant", self._shown(shot)),
            ]
            start = ""  # only once, because the following turns illustrate it
        return (*messages, Message("user", start + self._layout(question, context)))

    def text(self, question: Question, context: str | None = None) -> str:
        """Return one plain text, for models without a chat template; the answer continues it, within an open
        tag."""
        space = self.gap
        shots = [
            self.template.layout(shot.question, shot.context) + space + self._shown(shot)
            for shot in self.shots
        ]
        last = self._layout(question, context) + (f"{space}{OPENING}" if self._is_tagged else "")
        return "\n\n".join(part for part in (self.system, self._instruction, *shots, last) if part)

    def describe(self) -> dict[str, Any]:
        """Return everything that affects the prompt, as JSON values."""
        return {
            "version": PROMPT_VERSION,
            "template": self.template_name,
            "template_sha256": sha256_of(describe_template(self.template)),
            "system": self.system,
            "shots": [shot.id for shot in self.shots],
            "shots_sha256": sha256_of([asdict(shot) for shot in self.shots]),
            # Journals from before there were protocols lack this key, and `prose` continues them.
            **({} if self.protocol == "prose" else {"protocol": self.protocol}),
        }

    def _layout(self, question: Question, context: str | None) -> str:
        return self.template.layout(question.question, question.context if context is None else context)


_TAG_TOKENS = 16
"""How many tokens the tags around an answer may take."""
_HEADING = re.compile(
    r"^[ \t]*([^\W\d_][^{}\n:]{0,40}:)[ \t]*\n?[ \t]*\{(?:question|context)\}", re.MULTILINE
)


def make_prompting(
    task: Task,
    templates: TemplateSet,
    system: str | None = None,
    shots: tuple[Shot, ...] = (),
    protocol: Protocol = "prose",
) -> Prompting:
    """Return the prompting of a task with a set of templates.

    `system` replaces the template's system message: an empty text sends none, None keeps the template's. Raises
    UnknownNameError if the set has no template for the task.
    """
    template = templates.for_task(task)
    system = template.system if system is None else system
    return Prompting(task.name, template, templates.name, system, shots, protocol)


def show(prompting: Prompting, question: Question, chat: bool = True) -> str:
    """Return the prompt for one question: the turns, with the role above each, or the plain text."""
    if not chat:
        return prompting.text(question)
    return "\n\n".join(f"[{turn.role}]\n{turn.content}" for turn in prompting.messages(question))


# Fitting a context into a model's window

NEAR = 64
"""Words longer than this many characters may be cut in the middle; shorter words are kept whole or dropped."""

_WORD = re.compile(r"\S+")


class PromptTooLongError(DecabenchError):
    """A prompt that does not fit even without its context."""


def fit(question: Question, budget: int, count: Callable[[str], int]) -> tuple[int, int] | None:
    """Return the characters [0, end) of the context whose prompt fits into `budget` tokens; None if all of it
    fits.

    `count` returns the tokens of the whole prompt for a given context; it is called about ten times. The
    context is cut after a word, at its end. Raises PromptTooLongError.
    """
    context = question.context
    whole = count(context)
    if whole <= budget:
        return None
    bare = count("")
    if bare > budget:
        raise PromptTooLongError(
            f"The prompt of {question.id} takes {bare:,} tokens without its context, but only {budget:,} fit: use "
            "fewer shots, a shorter template or a longer window."
        )

    def fits(end: int) -> bool:
        return count(context[:end]) <= budget

    ends = [0, *(match.end() for match in _WORD.finditer(context))]
    guess = bisect_left(ends, len(context) * (budget - bare) // max(1, whole - bare))
    last = _last_true(0, len(ends), guess, lambda index: fits(ends[index]))
    start = ends[last]
    stop = ends[last + 1] if last + 1 < len(ends) else start
    if stop - start <= NEAR:
        return 0, start
    return 0, _last_true(start, stop, (start + stop) // 2, fits)


def _last_true(low: int, high: int, guess: int, holds: Callable[[int], bool]) -> int:
    """Return the last number in [low, high) for which `holds` is true: it is true for `low`, and false from
    some number on. Steps away from the guess first grow, then halve, so a close guess takes few calls.
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
