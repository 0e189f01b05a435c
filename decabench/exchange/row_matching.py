"""Match rows of another program's file to examples by id, order or text.

The text of a row must always agree with its example, since ids may belong to another split and rows may be
reordered. If any row is not the answer to exactly one example, the whole file is rejected.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

from decabench.errors import SubmissionError
from decabench.exchange.foreign_rows import ForeignAnswer, ForeignFile
from decabench.exchange.text_matching import ExampleTexts, RowTexts, TextMatcher, letters_of
from decabench.submission import Fault, describe_other_form, group_faults
from decabench.tasks import Store, Task
from decabench.text import quoted

_SHOWN = 20
_CHECK = "Check the task and the split."
_UNKNOWN = "Check the task and the split, or use --ignore-unknown to leave out rows that match no example."
_IN_ORDER = (
    "If there is one row for each example, in the same order as the data, match the rows with --in-order."
)
_IN_QUOTES = (
    "a quotation mark in this row opens a field that extends into the following rows; put each field that contains a "
    "quotation mark in quotation marks, and double the marks inside"
)


class RefusedImportError(SubmissionError):
    """Raised if any row can't be imported, such as a row that matches no example. Nothing is imported."""

    def __init__(self, name: str, faults: list[Fault], reason: str = "", advice: str = "") -> None:
        self.faults = tuple(faults)
        """A fault for every row that can't be imported."""
        alike = group_faults(faults)
        kinds = alike[: 3 if reason else _SHOWN]
        shown = "".join(f"\n  {sentence}" for sentence, _ in kinds)
        rest = len(faults) - sum(count for _, count in kinds)
        more = (
            f"\n  … and {rest:,} more. To write all faults to a file, add --report FILE." if rest > 0 else ""
        )
        rows = "1 row doesn't" if len(faults) == 1 else f"{len(faults):,} rows don't"
        why = reason or f"{rows} answer exactly one example"
        if not reason and any(fault.code == "unknown-id" for fault in faults):
            advice = _UNKNOWN
        end = f"\n{advice}" if advice else ""
        super().__init__(f"{name} was not imported: {why}. Nothing was written.{shown}{more}{end}")


class Examples:
    """The examples of a split, to which rows are matched."""

    def __init__(self, store: Store, task: Task, split: str) -> None:
        self._store, self._key = store, (task.name, split)
        self._is_hidden = store.hides(task, split)
        self.ids = store.ids(task.name, split)
        """Example ids, in order."""
        self.at = {id_: number for number, id_ in enumerate(self.ids)}
        """Maps ids to example numbers, counted from 0."""

    @cached_property
    def upstream(self) -> Mapping[str, int]:
        """Maps each upstream id to the index of its example.

        Empty unless the dataset's upstream ids were replaced because they reveal the answer. Also empty if the answers
        are hidden, because accepting an upstream id would then confirm a guessed answer.
        """
        if self._is_hidden:
            return {}
        found: dict[str, int] = {}
        repeated = set()
        for number, row in enumerate(self._store.read(*self._key, ("meta",))):
            upstream = row["meta"].get("id")
            if not isinstance(upstream, str):
                return {}
            if found.setdefault(upstream, number) != number:
                repeated.add(upstream)
        return {upstream: number for upstream, number in found.items() if upstream not in repeated}

    @cached_property
    def texts(self) -> list[ExampleTexts]:
        """The questions, contexts and answers of all examples.

        Hidden answers are left out because error messages would quote them.
        """
        return [
            ExampleTexts(row["question"], row["context"], () if self._is_hidden else tuple(row["answers"]))
            for row in self._store.read(*self._key, ("question", "context", "answers"))
        ]

    @cached_property
    def golds(self) -> list[set[str]]:
        """The right answers for each example, with everything but letters and digits removed."""
        return [set(map(letters_of, example.answers)) for example in self.texts]

    @cached_property
    def matcher(self) -> TextMatcher:
        """A matcher that finds examples by their text."""
        return TextMatcher(self.texts)

    def find(self, id_: str | None) -> int | None:
        """Return the index of the example with this id or upstream id, or None if there is none."""
        if id_ is None or id_ in self.at:
            return self.at[id_] if id_ is not None else None
        return self.upstream.get(id_)


@dataclass(frozen=True)
class MatchedRows:
    """Rows matched to the examples they answer."""

    rows: Mapping[str, ForeignAnswer]
    """Rows by example id."""
    left_out: int
    """The number of rows that match no example."""
    how: str
    """A phrase that describes how the rows were matched."""


def match_rows(
    opened: ForeignFile, name: str, examples: Examples, in_order: bool, ignore_unknown: bool
) -> MatchedRows:
    """Match every row to an example.

    Raises RefusedImportError listing all rows that match no example, or the same example as an earlier row.
    """
    return _Matching(opened, name, examples, opened.in_order or in_order, ignore_unknown).match()


class _Matching:
    def __init__(
        self, opened: ForeignFile, name: str, examples: Examples, in_order: bool, ignore_unknown: bool
    ) -> None:
        self.opened, self.name, self.examples = opened, name, examples
        self.in_order, self.ignore_unknown = in_order, ignore_unknown
        self.faults: list[Fault] = []
        self.rows = list(self._answers())
        known = sum(examples.find(row.id) is not None for row in self.rows)
        self.has_ids = known > 0
        self.is_by_id = 2 * known > len(self.rows)

    def _answers(self) -> Iterator[ForeignAnswer]:
        most = 1_000_000 + 10 * len(self.examples.ids)
        for number, row in enumerate(self.opened.rows):
            if number == most:
                raise SubmissionError(
                    f"{self.name} has more than {most:,} rows, but the split has only {len(self.examples.ids):,} "
                    "examples."
                )
            if row.answer is None and row.problem is not None:
                self._fault(row, *row.problem)
            else:
                yield row

    @cached_property
    def words(self) -> Mapping[int, RowTexts]:
        texts = {number: row.texts for number, row in enumerate(self.rows) if row.texts}
        return self.examples.matcher.read(texts) if texts else {}

    def _fault(self, row: ForeignAnswer, code: str, message: str) -> None:
        self.faults.append(Fault(code, message, self.name, row.line))

    def _refuse(self, reason: str = "", advice: str = "") -> NoReturn:
        raise RefusedImportError(self.name, self.faults, reason, advice)

    def match(self) -> MatchedRows:
        for row in self.rows:
            others = row.ids_in_quotes
            if others and (not self.has_ids or any(self.examples.find(each) is not None for each in others)):
                self._fault(row, "bad-record", _IN_QUOTES)
        if self.in_order:
            places, how = self._by_order(), "by order"
        elif self.is_by_id or not self.words:
            places, how = self._by_id(), "by id"
        else:
            places, how = self._by_text(), "by their texts"
        found: dict[int, int] = {}
        for number, example in places.items():
            if example in found:
                self._repeated(self.rows[number], self.rows[found[example]], self.examples.ids[example])
            else:
                found[example] = number
        if self.faults:
            self.faults.sort(key=lambda fault: fault.line or 0)
            self._refuse()
        self._refuse_golds(found)
        if how != "by their texts":
            how += self._compare({number: example for example, number in sorted(found.items())})
        ids = self.examples.ids
        rows = {ids[example]: self.rows[number] for example, number in found.items()}
        return MatchedRows(rows, len(self.rows) - len(places), how)

    def _repeated(self, row: ForeignAnswer, first: ForeignAnswer, id_: str) -> None:
        where = f" (first on line {first.line})" if first.line else ""
        same = "the same answer" if first.answer == row.answer else "a different answer"
        given = row.id if row.id is not None and self.examples.find(row.id) is not None else id_
        self._fault(row, "duplicate-id", f"the id {quoted(given)} is repeated with {same}{where}")

    def _by_order(self) -> dict[int, int]:
        most = len(self.examples.ids)
        if not self.opened.has_order:
            raise SubmissionError(
                f"{self.name} lists samples by id, and their order in the data is unknown. Leave out --in-order."
            )
        size = len(self.rows) + len(self.faults) if self.opened.size is None else self.opened.size
        if size != most:
            message = (
                f"matching by order requires one row for each of the {most:,} examples, but the number of "
                f"rows is {size:,}"
            )
            if self.rows and size > most and not (self.rows[-1].answer or "").strip():
                message += "; the last row is empty"
            self.faults.append(Fault("wrong-count", message, self.name))
            self._refuse("the file does not have exactly one row for each example")
        if self.faults:
            self._refuse()
        places = {
            number: number if row.position is None else row.position for number, row in enumerate(self.rows)
        }
        in_place = [self.rows[number] for number in sorted(places, key=places.__getitem__)]
        if not self.is_by_id and not self.words:
            self._require_ascending(in_place)
        if self.opened.in_order and all(_NUMBERED.match(row.answer or "") for row in self.rows):
            raise SubmissionError(
                f"{self.name} has a number and a separator at the beginning of every line. If the lines are in the "
                "same order as the data, remove the numbers. Otherwise, add a header line and import the file as csv, "
                "with --delimiter for the separator."
            )
        if self.opened.in_order and all((row.answer or "").startswith('{"') for row in self.rows):
            raise SubmissionError(
                f"{self.name} has a JSON object on every line instead of an answer. Write only the answers, or choose "
                "the format of the program that wrote the file."
            )
        for number, place in places.items():
            row = self.rows[number]
            if not 0 <= place < most:
                self._fault(
                    row,
                    "unknown-id",
                    f"the row is for example number {place:,} (counted from 0), but the split has only {most:,} "
                    "examples",
                )
            elif self.is_by_id and self.examples.find(row.id) not in (None, place):
                id_, expected = quoted(row.id or ""), quoted(self.examples.ids[place])
                self._fault(
                    row,
                    "other-text",
                    f"the row has the id {id_}, but the example in the same position has the id {expected}",
                )
        if self.faults:
            self._refuse("the rows are not in the same order as the data", self._advise())
        return places

    def _require_ascending(self, rows: Sequence[ForeignAnswer]) -> None:
        """Raise SubmissionError if the ids, or the numbers in another column, are out of order."""
        columns = {"the ids": [row.id or "" for row in rows]}
        for at, name in enumerate(rows[0].columns if rows else ()):
            columns[f"the column {quoted(name)}"] = [row.cells[at] for row in rows]
        for name, cells in columns.items():
            if len(set(cells)) == len(cells) and not _are_ascending(cells):
                raise SubmissionError(
                    f"{self.name} is not in the same order as the data: the numbers in {name} begin with "
                    f"{', '.join(map(quoted, cells[:3]))}. Sort the rows by these numbers."
                )

    def _by_id(self) -> dict[int, int]:
        places = {}
        for number, row in enumerate(self.rows):
            example = self.examples.find(row.id)
            if row.id is None:
                self._fault(row, *(row.problem or ("missing-field", "the row has no id")))
            elif example is not None:
                places[number] = example
            elif not self.ignore_unknown or not self.has_ids:
                form = describe_other_form(row.id, self.examples.at)
                self._fault(row, "unknown-id", form or f"no example has the id {quoted(row.id)}")
        if self.rows and not self.has_ids:
            self._refuse_all("the id", _are_ascending([row.id or "" for row in self.rows]))
        return places

    def _by_text(self) -> dict[int, int]:
        """Match each row to the example with the same text.

        A row whose text belongs to several examples is matched by its position, provided that every row with a unique
        match is in order.
        """
        found = self.examples.matcher.find(self.words)
        places = {number: examples[0] for number, examples in found.items() if len(examples) == 1}
        order = {
            number: number if row.position is None else row.position for number, row in enumerate(self.rows)
        }
        is_ordered = bool(places) and all(order[number] == example for number, example in places.items())
        for number, row in enumerate(self.rows):
            examples = found.get(number, [])
            if is_ordered and order[number] in examples:
                places[number] = order[number]
            elif len(examples) > 1:
                ids = ", ".join(quoted(self.examples.ids[each]) for each in examples[:3])
                more = f" and {len(examples) - 3:,} more" if len(examples) > 3 else ""
                self._fault(
                    row,
                    "other-text",
                    f"the row's text occurs in several examples ({ids}{more}); add the id of the right example",
                )
            elif not examples and not self.ignore_unknown:
                says = quoted(max(row.texts, key=len, default=""))
                self._fault(row, "unknown-id", f"no example has the row's id or text {says}")
        if not any(found.values()):
            self._refuse_all("the id or the text", False)
        return dict(sorted(places.items()))

    def _refuse_all(self, what: str, is_ordered: bool) -> NoReturn:
        ids = self.examples.ids
        like = f"ids look like {quoted(ids[0])}" if ids else "the split has no examples"
        is_ordered = is_ordered and self.opened.has_order and not self.words
        count = len(self.rows)
        subject = f"none of the {count:,} rows has" if count > 1 else "the only row does not have"
        self._refuse(
            f"{subject} {what} of an example ({like})",
            f"{_CHECK} {_IN_ORDER}" if is_ordered else _CHECK,
        )

    # Comparing

    def _compare(self, places: Mapping[int, int]) -> str:
        """Compare matched rows with their examples and return a phrase that describes the result.

        Raises RefusedImportError if a row's text differs from its example, or if a row without text has a
        different right answer.
        """
        ids = self.examples.ids
        words = {number: words for number, words in self.words.items() if number in places}
        differences, are_copies = self.examples.matcher.compare(words, places) if words else ([], False)
        for each in differences:
            whose = "" if each.other is None else f", which is the text of {quoted(ids[each.other])}"
            mine = quoted(ids[places[each.row]])
            message = f"the row's text is {quoted(each.says)}{whose}, but {mine} has {quoted(each.expected)}"
            self._fault(self.rows[each.row], "other-text", message)
        rest = {number: place for number, place in places.items() if number not in words}
        golds = any(self.examples.golds) and any(self.rows[number].golds for number in rest)
        differ = bool(self.faults)
        for number, gold in self._other_golds(rest) if golds and not differ else ():
            mine, own = quoted(ids[places[number]]), self.examples.texts[places[number]].answers[0]
            message = f"the row's right answer is {quoted(gold)}, but {mine} has {quoted(own)}"
            self._fault(self.rows[number], "other-text", message)
        what = "text" if differ or (len(words) >= len(rest) and not self.faults) else "right answer"
        if self.faults:
            rows = "1 row has" if len(self.faults) == 1 else f"{len(self.faults):,} rows have"
            way = "in the same position" if self.in_order else "with the same id"
            self._refuse(f"{rows} a different {what} from the example {way}", self._advise())
        if what == "text":
            return ", and their texts agree" if are_copies else ""
        return ", and their right answers agree" if golds else ""

    def _advise(self) -> str:
        if self.in_order and self.is_by_id:
            return "Leave out --in-order to match rows by their ids."
        if self.in_order and self.words:
            return "Leave out --in-order to match rows by their texts."
        return f"{_CHECK} Remove any columns that contain unrelated text."

    def _refuse_golds(self, found: Mapping[int, int]) -> None:
        """Raise SubmissionError if all answers are right and another column may contain the model's answers.

        A column may contain them if some of its values are wrong answers, and either its name suggests a model's output
        or all its values are possible answers to the task.
        """
        rows = {example: self.rows[number] for example, number in found.items()}
        if not all(row.answer in self.examples.texts[at].answers for at, row in rows.items()):
            return
        every = set[str]().union(*self.examples.golds)
        for place, column in enumerate(self.rows[0].columns if rows else ()):
            cells = {at: letters_of(row.cells[place]) for at, row in rows.items()}
            are_answers = every.issuperset(cells.values())
            is_wrong = any(cell not in self.examples.golds[at] for at, cell in cells.items())
            may_be_answers = _PREDICTED.search(column) and len(set(cells.values())) > 1
            if is_wrong and (are_answers or may_be_answers):
                raise SubmissionError(
                    f"{self.name} contains only right answers, which may be the labels. The model's answers may "
                    f"be in the column {quoted(column)}. Select that column with --answer, or remove it from "
                    "the file."
                )

    def _other_golds(self, places: Mapping[int, int]) -> Iterator[tuple[int, str]]:
        """Yield the number and right answer of each row whose right answer differs from its example's.

        If the file spells labels differently, such as 1 for positive, each spelling is taken to mean the label that it
        occurs with most often.
        """
        answers = self.examples.golds
        every = set[str]().union(*answers)
        golds = {n: [letters_of(gold) for gold in self.rows[n].golds] for n in places if self.rows[n].golds}
        worded = [number for number, given in golds.items() if every.intersection(given)]
        if 2 * len(worded) < len(golds):  # the file spells labels differently, such as 1 for positive
            pairs = {
                number: (self.rows[number].golds[0].strip(), self.examples.texts[places[number]].answers[0])
                for number in golds
            }
            counts = Counter(pairs.values())
            theirs, ours = {gold for gold, _ in counts}, {answer for _, answer in counts}
            if max(len(theirs), len(ours)) <= _MOST_LABELS and len(golds) >= 2 * len(theirs):
                stands_for = {gold: label for (gold, label), _ in reversed(counts.most_common())}
                yield from (
                    (number, gold) for number, (gold, own) in pairs.items() if stands_for[gold] != own
                )
            return
        for number in worded:
            if not answers[places[number]].intersection(golds[number]):
                yield number, self.rows[number].golds[-1]


_MOST_LABELS = 20
_PREDICTED = re.compile(
    r"(\b|_)(pred|output|response|completion|generat|hyp|candidate|y_hat)|(model|system)[ _]answer",
    re.IGNORECASE,
)
"""Matches the names of columns that may contain the model's answers."""


def _are_ascending(ids: Sequence[str]) -> bool:
    """Return whether ids are in numerical order, unlike q0, q1, q10, q2, ….

    Ids that aren't numbered consecutively always count as ordered.
    """
    parts = [_NUMBERS.split(id_) for id_ in ids]
    columns = [set(column) for column in zip(*parts, strict=False)]
    varied = [at for at, column in enumerate(columns) if len(column) > 1]
    if len({len(each) for each in parts}) != 1 or len(varied) != 1 or varied[0] % 2 == 0:
        return True
    numbers = [int(each[varied[0]]) for each in parts]
    return numbers == sorted(numbers) or max(numbers) - min(numbers) != len(set(numbers)) - 1


_NUMBERS = re.compile(r"([0-9]{1,9})")
_NUMBERED = re.compile(r"\s*([A-Za-z]-)?-?[0-9]+(\.[0-9]+)?\s*(\t|\|\|\|)")
"""Matches a number and a separator at the start of a line.

The number can be a line number from `cat -n`, fairseq (`H-0`) or Moses, or a score (`-0.21`)."""
