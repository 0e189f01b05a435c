"""Questions as tokens, cut to what the model has room for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from decabench.predictor import Failure, Question

if TYPE_CHECKING:
    from decabench.prompts import Message, Prompting

__all__ = ["DAY", "Prompt", "Prompter", "room"]

DAY = {
    "%Y": "2024",
    "%y": "24",
    "%m": "07",
    "%B": "July",
    "%b": "Jul",
    "%d": "26",
    "%A": "Friday",
    "%a": "Fri",
    "%H": "00",
    "%M": "00",
    "%S": "00",
}
"""What templates that show the date are told: Llama's own default. An answer must not depend on the day."""


@dataclass(frozen=True)
class Prompt:
    """A question, ready for the model."""

    question: Question
    """What was asked."""
    ids: Sequence[int]
    """Its tokens."""
    kept: tuple[int, int] | None
    """Which characters of the context are in it, where not all."""


@dataclass(frozen=True)
class Prompter:
    """Makes prompts for one task."""

    tokenizer: Any
    """The model's."""
    prompting: Prompting
    """How the task is put."""
    chat: bool
    """Whether by the tokenizer's chat template; else as plain text."""
    budget: int | None = None
    """The most tokens of a prompt; None where nothing limits it."""

    def prompts(self, questions: Sequence[Question]) -> list[Prompt | Failure]:
        """One a question, tokenized together: that is several times faster. Failure where no context would fit."""
        all_ids = self._tokens([self._text(question, None) for question in questions])
        return [self._fitted(question, ids) for question, ids in zip(questions, all_ids, strict=True)]

    def count(self, question: Question) -> int:
        """The tokens of the whole prompt."""
        return len(self._of(question, None))

    def _fitted(self, question: Question, ids: Sequence[int]) -> Prompt | Failure:
        from decabench.prompts import PromptTooLongError, fit

        if self.budget is None or len(ids) <= self.budget:
            return Prompt(question, ids, None)
        try:
            kept = fit(question, self.budget, lambda context: len(self._of(question, context)))
        except PromptTooLongError as error:
            return Failure(str(error))
        shown = question.context if kept is None else question.context[slice(*kept)]
        return Prompt(question, self._of(question, shown), kept)

    def _of(self, question: Question, context: str | None) -> Sequence[int]:
        return self._tokens([self._text(question, context)])[0]

    def _tokens(self, texts: Sequence[str]) -> Sequence[Sequence[int]]:
        """The template wrote the special tokens of a chat into the text; a second beginning would be a fault.

        Truncation is off whatever the tokenizer was saved with: a cut is made and told by `fit` alone.
        """
        found: Sequence[Sequence[int]] = self.tokenizer(
            list(texts), add_special_tokens=not self.chat, truncation=False, padding=False, verbose=False
        )["input_ids"]
        return found

    def _text(self, question: Question, context: str | None) -> str:
        if not self.chat:
            return self.prompting.text(question, context)
        return _rendered(self.tokenizer, self.prompting.messages(question, context))


def room(positions: int | None, advised: int | None, asked: int | None, answer: int) -> int | None:
    """The most tokens of a prompt; None where nothing limits it.

    `positions` is how many the model has, `advised` what its tokenizer was saved with, which the number that was
    `asked` for overrules, and `answer` the tokens to leave free where prompt and answer share the window.
    """
    windows = (positions, advised if asked is None else None)
    limits = [window - answer for window in windows if window is not None]
    return min(limits if asked is None else [*limits, asked], default=None)


def _rendered(tokenizer: Any, messages: Sequence[Message]) -> str:
    """The chat as text. A template that refuses or drops the system text gets it with the first of the user's."""
    from jinja2 import TemplateError

    turns = [{"role": message.role, "content": message.content} for message in messages]
    if turns[0]["role"] != "system":
        return _applied(tokenizer, turns)
    try:
        text = _applied(tokenizer, turns)
    except TemplateError:
        text = ""
    if turns[0]["content"].strip() in text and text:
        return text
    system, first, *others = turns
    return _applied(tokenizer, [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *others])


def _applied(tokenizer: Any, turns: Sequence[Mapping[str, str]]) -> str:
    text: str = tokenizer.apply_chat_template(
        list(turns),
        chat_template=_dated(tokenizer.get_chat_template()),
        tokenize=False,
        add_generation_prompt=True,
    )
    return text


def _dated(template: str) -> str:
    """The template with a clock that stands still, where it looks at one: a macro in the place of the function."""
    if "strftime_now" not in template:
        return template
    filters = "".join(f"|replace('{code}', '{value}')" for code, value in DAY.items())
    return (
        f"{{% macro strftime_now(format) %}}{{{{ format{filters} }}}}{{% endmacro %}}{{{{ '' }}}}{template}"
    )
