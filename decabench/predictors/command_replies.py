"""One line that a program wrote, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from decabench.errors import DecabenchError
from decabench.predictor import Answer, Failure, Finish, Outcome
from decabench.predictors.texts import excerpt, well_formed
from decabench.strict_json import loads

__all__ = ["Asked", "outcome_of"]

_FORM = '{"id": "…", "answer": "…"}'


@dataclass
class Asked:
    """The questions that a program was given, by id."""

    waiting: dict[str, int]
    """Those without an answer yet, each with the length of its context."""
    answered: set[str]
    """Those with one."""


def outcome_of(line: bytes, number: int, asked: Asked) -> tuple[str, Outcome]:
    """The id and what was said; a line that is wrong in itself is a Failure of its question.

    Raises DecabenchError for a line that belongs to no question, after which nothing can be relied on.
    """
    text = line.decode("utf-8", "replace")
    try:
        row = loads(text)
    except ValueError as error:
        raise _stray(number, text, f"is no JSON ({error})") from None
    id = row.get("id") if isinstance(row, dict) else None
    if not isinstance(id, str):
        raise _stray(number, text, f"has no id: a line is {_FORM}, with the id as it was given")
    if id in asked.answered:
        raise _stray(number, text, "answers a question for the second time")
    if id not in asked.waiting:
        raise _stray(number, text, "answers a question that was not asked")
    length = asked.waiting.pop(id)
    asked.answered.add(id)
    return id, _outcome(row, number, length)


def _stray(number: int, text: str, fault: str) -> DecabenchError:
    return DecabenchError(
        f"Line {number} of the program's output {fault}: {excerpt(text, 100)!r}. Only answers belong on stdout; "
        "messages belong on stderr."
    )


def _outcome(row: Mapping[str, Any], number: int, length: int) -> Outcome:
    if row.get("error") is not None:
        return Failure(f"The program says: {excerpt(str(row['error']))}")
    answer = row.get("answer")
    if not isinstance(answer, str):
        return Failure(f"Line {number} of the program's output has no answer that is a text.")
    finish, kept = row.get("finish", "stop"), row.get("context_kept")
    tokens = [row.get("prompt_tokens"), row.get("completion_tokens")]
    if finish not in get_args(Finish):
        return _bad(number, "finish", f"one of {', '.join(get_args(Finish))}")
    if kept is not None and not _is_span(kept, length):
        return _bad(number, "context_kept", f"a list [start, end] of characters within 0 and {length}")
    if not all(count is None or _is_count(count) for count in tokens):
        return _bad(number, "prompt_tokens or completion_tokens", "a whole number")
    span = (kept[0], kept[1]) if kept is not None and kept != [0, length] else None
    return Answer(well_formed(answer), finish, span, *tokens)


def _bad(number: int, name: str, form: str) -> Failure:
    return Failure(f"Line {number} of the program's output has {name} in the wrong form: it must be {form}.")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_span(value: object, length: int) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not all(map(_is_count, value)):
        return False
    return bool(value[0] <= value[1] <= length)
