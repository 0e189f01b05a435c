"""The rows that readers of other programs' files yield, and code that the readers share.

Files are untrusted input: their size, line length and depth are bounded, and nothing in them is executed.
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

FILE_BYTES = 1 << 30
"""The maximum size of a file, unpacked, in bytes."""
WHOLE_BYTES = 1 << 26
"""The maximum size of one JSON object, which takes up to 28 times its size in memory when parsed."""
LINE_BYTES = 1 << 24
"""The maximum size of a line, and of a cell of a table: samples of lm-eval repeat the whole prompt."""


FINISHES = {
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    **dict.fromkeys(("content_filter", "refusal", "safety", "prohibited_content", "blocklist"), "refused"),
}
"""How an answer ended, keyed by the lower-case reasons that other programs and servers state."""


class ForeignAnswer(NamedTuple):
    """One row of a file: an answer, or the fault that makes it unusable."""

    line: int | None
    """The line or row, from 1; None if the format has none."""
    id: str | None = None
    """The id as given in the file; None if it is missing or unreadable."""
    answer: str | None = None
    """The answer; None if it is missing or unreadable."""
    raw: str | None = None
    """The model's whole output, if it differs from the answer."""
    finish: str = "stop"
    """How the output ended: `stop`, `length` or `refused`."""
    problem: tuple[str, str] | None = None
    """A fault code and a message, if the row is not an answer."""
    position: int | None = None
    """The example's place in the data, from 0, if the file states it."""
    texts: tuple[str, ...] = ()
    """The example's texts in the row: question, context, references, or the prompt that contains them."""
    golds: tuple[str, ...] = ()
    """The right answer according to the file, in each of its possible readings."""
    letter: str | None = None
    """The letter or number of the option that the model chose, if it chose among options."""
    is_likeliest: bool = False
    """Whether the answer is the likeliest of several choices rather than text that the model wrote."""
    is_tied: bool = False
    """Whether another choice is as likely."""
    other_output: str = ""
    """The name of another column of a table that may hold the answers."""
    ids_in_quotes: tuple[str, ...] = ()
    """The ids of rows that a stray quotation mark may have merged into this one."""


class HeadingError(SubmissionError):
    """Raised for a table whose first line lacks the required columns."""

    def __init__(self, sentence: str, heading: tuple[str, ...]) -> None:
        super().__init__(sentence)
        self.heading = heading
        """The cells of the table's first line."""


@dataclass(frozen=True)
class Places:
    """The places of ids and answers in a file, if its format allows several."""

    id: str = "id"
    """The column of a table, or the field of lm-eval's `doc`, that holds the id."""
    answer: str = "answer"
    """The column of a table that holds the answer."""
    delimiter: str = ""
    """The delimiter of a CSV file; by default a tab for `.tsv` and a comma for others."""
    choice: str = ""
    """lm-eval: the filter whose answers to use. Inspect: the scorer whose answers to use instead of the
    completions; by default `choice`, if the samples were scored by it."""
    epoch: int = 0
    """Inspect: the epoch to use; 0 if there is only one."""


@dataclass(frozen=True)
class ForeignFile:
    """An open file of answers whose rows have not been read yet."""

    rows: Iterable[ForeignAnswer]
    """The rows, read when iterated."""
    in_order: bool = False
    """Whether rows have no ids and follow the order of the data."""
    has_order: bool = True
    """Whether rows can follow the order of the data. Inspect sorts samples by their ids as strings."""
    size: int | None = None
    """The number of examples in the data that the file was made from, if the file states it."""
    is_raw: bool = False
    """Whether answers are the whole output of a language model, from which answers are extracted."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts about the answers that the file states: `model`, `task`, `version`."""


def texts_in(value: Any) -> tuple[str, ...]:
    """Return the texts in a JSON value, shortening long ones to their beginning and end."""
    found: list[str] = []
    waiting = [value]
    while waiting and len(found) < _MOST_TEXTS:
        each = waiting.pop(0)
        if hasattr(each, "tolist"):  # an array, as pandas represents parquet lists
            each = each.tolist()
        if isinstance(each, (list, tuple)) and all(
            isinstance(word, str) and " " not in word for word in each
        ):
            each = " ".join(each)  # the words of a text
        if isinstance(each, str) and each.strip():
            if each[:2] in ("[{", '{"'):  # messages of a chat, as JSON
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
    return any(len(_LETTERS.findall(text)) >= 3 for text in texts)


_LETTERS = re.compile(r"[^\W\d_]{2,}")


def as_id(value: Any) -> str | None:
    """Return an id as text: a string, or a whole number of any type but bool."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    return str(value.__index__())


def option_letter(at: int) -> str:
    """Return Inspect's name for an option: A to Z, then 1, 2, …"""
    return chr(ord("A") + at) if at < 26 else str(at - 25)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors while reading a text file into a SubmissionError, and disk errors into a StorageError."""
    try:
        yield
    except OSError as error:
        require_machine(error, path)
        raise SubmissionError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SubmissionError(f"{path.name} is not UTF-8: save it as UTF-8.") from error


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines. Raises SubmissionError for a damaged file or a line that is too long."""
    limits = Limits(FILE_BYTES, 20_000_000, LINE_BYTES)
    try:
        with closing(numbered_lines(path, limits)) as lines:
            for number, raw in lines:
                if raw is None:
                    raise SubmissionError(
                        f"{path.name}:{number}: the line is longer than {LINE_BYTES:,} bytes."
                    )
                yield number, raw
    except BrokenFileError as error:
        raise SubmissionError(f"{path.name}:{error.line}: {error.reason}.") from error


def decode_json(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse another program's JSON, including NaN and Infinity.

    The last of duplicate keys counts, unless `pairs` is set. Raises ValueError.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError as error:
        raise ValueError(re.sub(r"[;:].*", "", str(error))) from None


def kind_of(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"the number {str(value)[:30]}"
    kinds: dict[type, str] = {list: "a list", dict: "an object", str: "a string"}
    return kinds.get(type(value), f"of type {type(value).__name__}")
