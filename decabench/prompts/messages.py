"""Build prompts for language models, as chat messages or plain text, and shorten contexts to fit."""

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

PROMPT_VERSION = 1
"""The version of the prompts, incremented whenever the same template and question would give a different prompt."""

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """A chat message."""

    role: Role
    """The author of the message: `system`, `user` or `assistant`."""
    content: str
    """The text of the message."""


@dataclass(frozen=True)
class Prompting:
    """Builds the prompts for a task. Instances are small and can be pickled."""

    task: str
    """The task name."""
    template: PromptTemplate
    """The text around each example."""
    template_name: str
    """The name of the template set."""
    system: str = ""
    """The system message, which is left out if empty."""
    shots: tuple[Shot, ...] = ()
    """Worked examples from the training split, in the order shown."""
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
        """Stop sequences for plain-text prompts."""
        return (CLOSING, *self.template.stop) if self.protocol == "tag" else self.template.stop

    def schema(self, question: Question, context: str, is_escaped: bool = False) -> dict[str, Any]:
        """Return the JSON schema for the answer to a question. See `answer_schema` for `is_escaped`."""
        return answer_schema(self.form, self.labels(question), context, is_escaped)

    @property
    def _instruction(self) -> str:
        request = TAG_REQUEST if self.protocol == "tag" else ""
        request = json_request(self.form.kind) if self.protocol == "json" else request
        return " ".join(filter(None, (self.template.instruction, request)))

    @property
    def gap(self) -> str:
        """The whitespace between a plain-text prompt and its answer."""
        return " " if self.template.answer and self.form.kind not in ("tags", "tree") else "\n"

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return the labels to choose from for a question; empty unless the answer is a label."""
        return labels_for(self.form, question.question) if self.form.kind == "label" else ()

    def _shown(self, shot: Shot) -> str:
        if self.protocol == "json":
            return write_json(shot.answer, self.form.kind)
        shown = self.template.shown(shot.context, shot.answer)
        return f"{OPENING}{shown}{CLOSING}" if self.protocol == "tag" else shown

    @property
    def chat_stop(self) -> tuple[str, ...]:
        """Stop sequences for chats, which are strings that begin another example.

        Empty lines are left out because models may write one between `Here is the answer:` and the
        answer.
        """
        return tuple(stop for stop in self.template.stop if stop.strip())

    @property
    def form(self) -> AnswerForm:
        """The form of an answer, including strings from the prompt that may appear before or after it.

        Models may repeat such a string before an answer, or continue with another example after it.
        """
        form, own = self.template.form or AnswerForm(), self.template.answer
        markers = form.markers if not own or own in form.markers else (*form.markers, own)
        # Other text at the start of an example, such as `Country:` for `Country: {question}`.
        known = {text.strip() for text in (*self.template.stop, own)}
        headings = [f"\n{text}" for text in _HEADING.findall(self.template.input) if text not in known]
        return replace(form, markers=markers, stop=(*self.template.stop, *headings))

    def messages(self, question: Question, context: str | None = None) -> tuple[Message, ...]:
        """Return the chat messages for a question.

        `context` replaces the question's own context, for example if it was shortened.
        """
        messages = [Message("system", self.system)] if self.system else []
        start = f"{self._instruction}\n\n" if self._instruction else ""
        for shot in self.shots:
            shown = self.template.layout(shot.question, shot.context)
            messages += [
                Message("user", start + shown),
                Message("assistant", self._shown(shot)),
            ]
            start = ""  # the instruction appears only once, because the turns that follow illustrate it
        return (*messages, Message("user", start + self._layout(question, context)))

    def text(self, question: Question, context: str | None = None) -> str:
        """Return the prompt as plain text, for models without a chat template.

        The model continues this text. For the `tag` protocol, the text ends with an opening tag.
        """
        space = self.gap
        shots = [
            self.template.layout(shot.question, shot.context) + space + self._shown(shot)
            for shot in self.shots
        ]
        last = self._layout(question, context) + (f"{space}{OPENING}" if self.protocol == "tag" else "")
        return "\n\n".join(part for part in (self.system, self._instruction, *shots, last) if part)

    def describe(self) -> dict[str, Any]:
        """Return everything that affects the prompt, as JSON-compatible data."""
        return {
            "version": PROMPT_VERSION,
            "template": self.template_name,
            "template_sha256": sha256_of(describe_template(self.template)),
            "system": self.system,
            "shots": [shot.id for shot in self.shots],
            "shots_sha256": sha256_of([asdict(shot) for shot in self.shots]),
            # For `prose`, the key is left out, so that journals from before protocols existed can be resumed.
            **({} if self.protocol == "prose" else {"protocol": self.protocol}),
        }

    def _layout(self, question: Question, context: str | None) -> str:
        return self.template.layout(question.question, question.context if context is None else context)


_TAG_TOKENS = 16
"""The number of additional tokens for the tags or JSON around an answer."""
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
    """Return a Prompting for a task, using a set of templates.

    `system` replaces the template's system message: an empty string removes it, and None keeps it. Raises
    UnknownNameError if the set has no template for the task.
    """
    template = templates.for_task(task)
    system = template.system if system is None else system
    return Prompting(task.name, template, templates.name, system, shots, protocol)


def show(prompting: Prompting, question: Question, chat: bool = True) -> str:
    """Return the prompt for a question, as plain text or as chat messages with their roles."""
    if not chat:
        return prompting.text(question)
    return "\n\n".join(f"[{turn.role}]\n{turn.content}" for turn in prompting.messages(question))


# Fitting contexts into a model's window

NEAR = 64
"""Only words longer than about this many characters may be cut in the middle."""

_WORD = re.compile(r"\S+")


class PromptTooLongError(DecabenchError):
    """Raised if a prompt doesn't fit even without its context."""


def fit(question: Question, budget: int, count: Callable[[str], int]) -> tuple[int, int] | None:
    """Return the span [0, end) of the context that fits into `budget` tokens, or None if all of it fits.

    `count` returns the number of tokens in the prompt for a given context, and is called about a dozen times. The
    context is cut at the end, after a word. Raises PromptTooLongError if the prompt doesn't fit without its context.
    """
    context = question.context
    whole = count(context)
    if whole <= budget:
        return None
    bare = count("")
    if bare > budget:
        raise PromptTooLongError(
            f"The prompt for {question.id} takes {bare:,} tokens without the context, but only {budget:,} fit. Use "
            "fewer shots, a shorter template or a longer context window."
        )

    def is_over(end: int) -> bool:
        return count(context[:end]) > budget

    ends = [0, *(match.end() for match in _WORD.finditer(context))]
    last = bisect_left(ends, True, lo=1, key=is_over) - 1
    start, stop = ends[last], ends[min(last + 1, len(ends) - 1)]
    if stop - start > NEAR:
        return 0, bisect_left(range(stop), True, lo=start + 1, key=is_over) - 1
    return 0, start
