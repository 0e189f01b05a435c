"""Row types and helper functions shared by the readers of other programs' files.

Files are untrusted input. Their size, line length and nesting depth are limited, and nothing in them is
executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from decabench.errors import SubmissionError
from decabench.files import require_machine
from decabench.submission import BrokenFileError, Limits, numbered_lines
from decabench.untrusted import TOO_DEEP, explain_json_error

FILE_BYTES = 1 << 30
"""The maximum size of an unpacked file, in bytes."""
WHOLE_BYTES = 1 << 26
"""The maximum size of a single JSON object, in bytes. Parsing it takes up to 28 times as much memory."""
LINE_BYTES = 1 << 24
"""The maximum size of a line or table cell, in bytes. It is large because lm-eval samples repeat the whole prompt."""


FINISHES = {
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "safety", "prohibited_content", "blocklist"), "refused"),
}
"""Maps finish reasons of other programs and servers, in lower case, to decabench's finish reasons.

All other reasons mean `stop`.
"""


class ForeignAnswer(NamedTuple):
    """A row of an imported file: either an answer, or the reason why the row can't be used."""

    line: int | None
    """The line or row number, counted from 1; None if the format has no lines."""
    id: str | None = None
    """The id as given in the file; None if it is missing or unreadable."""
    answer: str | None = None
    """The answer; None if it is missing or unreadable."""
    raw: str | None = None
    """The model's whole output, if different from the answer."""
    finish: str = "stop"
    """How the output ended: `stop`, `length` or `refused`."""
    problem: tuple[str, str] | None = None
    """A fault code and message, if the row has no usable answer."""
    position: int | None = None
    """The example's position in the data, counted from 0, if the file states it."""
    texts: tuple[str, ...] = ()
    """The example's text in the row: question, context, references, or the prompt that contains them."""
    golds: tuple[str, ...] = ()
    """The right answers given in the file. An option may appear both as a letter and as text."""
    letter: str | None = None
    """The letter or number of the chosen option, for multiple-choice questions."""
    is_likeliest: bool = False
    """Whether the answer is the most likely of several choices rather than generated text."""
    is_tied: bool = False
    """Whether another choice is equally likely."""
    columns: tuple[str, ...] = ()
    """The names of the table's columns, except the id and answer columns."""
    cells: tuple[str, ...] = ()
    """The row's value in each of `columns`, as a string."""
    ids_in_quotes: tuple[str, ...] = ()
    """Ids of rows that a stray quotation mark may have merged into this row."""


@dataclass(frozen=True)
class Places:
    """Where to find ids and answers in a file."""

    id: str = "id"
    """The table column, or the field of lm-eval's `doc`, that contains the id."""
    answer: str = "answer"
    """The table column that contains the answer."""
    delimiter: str = ""
    """The CSV delimiter; by default a tab for `.tsv` files and a comma for all others."""
    choice: str = ""
    """The lm-eval filter or Inspect scorer whose answers to use.

    By default, answers in an Inspect log are taken from the scorer `choice` if the log has its scores, and from the
    completions otherwise.
    """
    epoch: int = 0
    """The Inspect epoch to use; 0 if the log has only one epoch."""


@dataclass(frozen=True)
class ForeignFile:
    """An open answer file whose rows have not been read yet."""

    rows: Iterable[ForeignAnswer]
    """The rows, read lazily."""
    in_order: bool = False
    """Whether rows have no ids and follow the order of the data."""
    has_order: bool = True
    """Whether rows can be matched by their order.

    False for an Inspect log that doesn't record the order of its dataset, because Inspect sorts samples by their
    ids as strings.
    """
    size: int | None = None
    """The number of examples in the original data, if stated in the file."""
    is_raw: bool = False
    """Whether rows contain a model's whole output, from which the answers must still be extracted."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Information from the file, such as `model`, `task` or `version`."""


def texts_in(value: Any) -> tuple[str, ...]:
    """Return the first 100 texts in a JSON value. Long texts are shortened to their beginning and end."""
    found: list[str] = []
    waiting = [value]
    while waiting and len(found) < _MOST_TEXTS:
        each = waiting.pop(0)
        if hasattr(each, "tolist"):  # an array, which is how pandas represents parquet lists
            each = each.tolist()
        if isinstance(each, (list, tuple)) and all(
            isinstance(word, str) and " " not in word for word in each
        ):
            each = " ".join(each)  # the words of a text
        if isinstance(each, str) and each.strip():
            if each[:2] in ("[{", '{"'):  # chat messages, as JSON
                try:
                    waiting.insert(0, decode_json(each))
                    continue
                except ValueError:
                    pass
            long = len(each) > 2 * _TEXT_ENDS
            found.append(f"{each[:_TEXT_ENDS]} {each[-_TEXT_ENDS:]}" if long else each)
        elif isinstance(each, (Mapping, list, tuple)):
            waiting[:0] = each.values() if isinstance(each, Mapping) else each
    return tuple(found)


_MOST_TEXTS, _TEXT_ENDS = 100, 5_000


def has_prose(texts: Iterable[str]) -> bool:
    """Return whether any text has at least three words of two or more letters."""
    return any(len(_LETTERS.findall(text)) >= 3 for text in texts)


_LETTERS = re.compile(r"[^\W\d_]{2,}")


def as_id(value: Any) -> str | None:
    """Return a string or whole number as an id, or None for any other type, including bool."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    return str(value.__index__())


def option_letter(at: int) -> str:
    """Return Inspect's name for the option at an index: A to Z, then 1, 2, and so on."""
    return chr(ord("A") + at) if at < 26 else str(at - 25)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors from reading a text file into SubmissionError, or into StorageError if the machine caused them."""
    try:
        yield
    except OSError as error:
        require_machine(error, path)
        raise SubmissionError(f"{path} can't be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{path.name} is not valid UTF-8. Save the file as UTF-8.") from error


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line of a file with its line number.

    Raises SubmissionError for a damaged file or a line that is too long.
    """
    limits = Limits(FILE_BYTES, 20_000_000, LINE_BYTES)
    try:
        with closing(numbered_lines(path, limits)) as lines:
            for number, raw in lines:
                if raw is None:
                    raise SubmissionError(
                        f"{path.name}:{number}: the line is longer than the limit of {LINE_BYTES:,} bytes."
                    )
                yield number, raw
    except BrokenFileError as error:
        raise SubmissionError(f"{path.name}:{error.line}: {error.reason}.") from error


def decode_json(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON from another program, including NaN and Infinity.

    `pairs` converts the key-value pairs of each object. By default, the last value of a repeated key is used. Raises
    ValueError for invalid JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise ValueError(explain_json_error(error)) from None
    except ValueError as error:
        raise ValueError(re.sub(r"[;:].*", "", str(error))) from None
