"""Outcomes as they may be kept: what somebody else's code put into one is checked before it is written, and after."""

from __future__ import annotations

import json
import operator
from typing import Any, get_args

from decabench.lines import Limits
from decabench.predictor import Answer, Failure, Finish, Outcome
from decabench.predictors.texts import excerpt

__all__ = ["checked", "sound"]

_TEXT_BYTES = Limits().line_bytes // 4
"""Of one text as JSON. A line of a submission may have it twice, extracted and raw, and its id and more beside.

It is four times what `decabench check` allows an answer on average, so that a model may think long now and then.
Bytes, not characters: JSON writes a control character with six.
"""

_ERROR_LENGTH = 500
"""Characters of a failure's sentence; submission.toml takes as many."""

_MOST = 2**53
"""Above this, many readers of JSON no longer tell whole numbers apart."""


def sound(outcome: object) -> Outcome:
    """The outcome as it can be written and read again; what is wrong with it is a Failure that says so."""
    try:
        found = checked(outcome)
    except ValueError as error:
        return Failure(excerpt(str(error), _ERROR_LENGTH))
    if isinstance(found, Failure):
        return Failure(excerpt(found.error, _ERROR_LENGTH) or "the predictor gave no reason")
    size = len(json.dumps(found.text, ensure_ascii=False).encode())
    if size > _TEXT_BYTES:
        return Failure(
            f"too-large: the answer takes {size:,} bytes as JSON, and {_TEXT_BYTES:,} are the most for one"
        )
    return found


def checked(outcome: object) -> Outcome:
    """The outcome with every field of its kind; numbers of numpy and the like become ints. Raises ValueError."""
    if isinstance(outcome, Failure):
        if not isinstance(outcome.error, str):
            raise ValueError(f"the error is {_shown(outcome.error)}, and must be a text")
        return outcome
    if not isinstance(outcome, Answer):
        raise ValueError(f"the outcome is {_shown(outcome)}, and must be an Answer or a Failure")
    return Answer(
        _text(outcome.text),
        _finish(outcome.finish),
        _span(outcome.context_kept),
        _tokens(outcome.prompt_tokens, "prompt_tokens"),
        _tokens(outcome.completion_tokens, "completion_tokens"),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"the answer is {_shown(value)}, and must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "bad-encoding: the answer holds half of a surrogate pair, which is no text"
        ) from None
    return value


def _finish(value: Any) -> Any:
    if isinstance(value, str) and value in get_args(Finish):
        return value
    raise ValueError(f"finish is {_shown(value)}, and must be one of {', '.join(get_args(Finish))}")


def _span(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    ends = [_count(end) for end in value] if isinstance(value, (tuple, list)) else []
    match ends:
        case [int(start), int(end)] if start <= end:
            return start, end
    raise ValueError(
        f"context_kept is {_shown(value)}, and must be the first and the last character kept: (0, 1234)"
    )


def _tokens(value: Any, name: str) -> int | None:
    if value is None:
        return None
    count = _count(value)
    if count is None:
        raise ValueError(
            f"{name} is {_shown(value)}, and must be a whole number, or None where it is not known"
        )
    return count


def _count(value: Any) -> int | None:
    """A whole number from 0; None where it is none."""
    try:
        count = None if isinstance(value, bool) else int(operator.index(value))
    except TypeError:
        return None
    return count if count is not None and 0 <= count <= _MOST else None


def _shown(value: object) -> str:
    return excerpt(repr(value), 60)
