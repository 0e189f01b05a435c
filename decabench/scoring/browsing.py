"""Choose which examples to show: right or wrong ones, of a kind, by id or by what they say, in an order."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

from decabench.errors import DataError, UnknownNameError, near_matches
from decabench.scoring.inspection import Inspected
from decabench.scoring.scored_examples import Course, ScoredExample, describe_parting
from decabench.text import excerpt

__all__ = ["Browsed", "Chosen", "Order", "browse_examples", "show_json"]

FORMAT = "decabench.shown/1"

Order = Literal["data", "loss", "length"]
"""As in the data; the worst first; or the longest answer first."""


@dataclass(frozen=True)
class Chosen:
    """Which examples to show."""

    right: bool | None = None
    """Only right or only wrong ones; None for all."""
    flags: tuple[str, ...] = ()
    """Only those with one of these flags, in any wording."""
    ids: tuple[str, ...] = ()
    """Only these."""
    search: str = ""
    """Only those with this text in the question, context, references or answer, ignoring case."""
    order: Order = "data"
    """The order."""


@dataclass(frozen=True)
class Browsed:
    """An example with everything that is shown of it."""

    row: ScoredExample
    """The answer."""
    question: str
    """The question."""
    context: str
    """The context."""
    loss: float
    """How far the answer is from the best score; infinite if it is wrong and has no score of its own."""
    wordings: Mapping[int, ScoredExample] = field(default_factory=dict)
    """The answers to other wordings, by their number."""
    other: ScoredExample | None = None
    """The answer of the submission that it is held against."""
    course: Course | None = None
    """The state that the answers of its group add up to, if its metric compares states."""
    before: tuple[str, ...] = ()
    """The contexts of the earlier examples in its group, in order: the earlier turns of a dialogue."""
    parted: str = ""
    """Where the state diverged from gold, and because of which answer; `here` if it is this example's."""


def browse_examples(shown: Inspected, chosen: Chosen, other: Inspected | None = None) -> Sequence[Browsed]:
    """Return the examples that were chosen, in order.

    With another submission, only those that one of the two has right and the other wrong; `right` then says which.
    Raises UnknownNameError for an id that is not in the data, DataError if the two were scored differently.
    """
    if other is not None and (shown.head.data, shown.head.metric) != (other.head.data, other.head.metric):
        raise DataError(
            f"{shown.submission} and {other.submission} were not scored on the same data by the same metric."
        )
    if other is None and chosen == Chosen():
        return _Found(shown, range(len(shown.rows)), None, None)
    others = {row.id: at for at, row in enumerate(other.rows)} if other is not None else None
    if chosen.ids:
        _require_ids(shown, chosen.ids)
    places, keys = array("Q"), array("d")
    for place, row in _matching(shown, chosen, other, others):
        places.append(place)
        if chosen.order != "data":
            keys.append(shown.head.loss(row) if chosen.order == "loss" else len(row.prediction or ""))
    if keys:
        places = array("Q", [places[at] for at in sorted(range(len(keys)), key=lambda at: -keys[at])])
    return _Found(shown, places, other, others)


class _Found(Sequence[Browsed]):
    """Examples that were chosen, of which each is read when it is asked for."""

    def __init__(
        self,
        shown: Inspected,
        places: Sequence[int],
        other: Inspected | None,
        others: Mapping[str, int] | None,
    ) -> None:
        self._shown, self._places, self._other, self._others = shown, places, other, others

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Browsed: ...
    @overload
    def __getitem__(self, index: slice) -> list[Browsed]: ...
    def __getitem__(self, index: int | slice) -> Browsed | list[Browsed]:
        if isinstance(index, slice):
            return [self._make(place) for place in self._places[index]]
        return self._make(self._places[index])

    def _make(self, place: int) -> Browsed:
        shown = self._shown
        row = shown.rows[place]
        text, course = shown.texts.at(place), shown.courses.get(place)
        at = self._others.get(row.id) if self._others is not None else None
        return Browsed(
            row,
            text["question"],
            text["context"],
            shown.head.loss(row),
            shown.wordings.at(place),
            None if self._other is None or at is None else self._other.rows[at],
            course,
            tuple(shown.texts.at(at)["context"] for at in course.before) if course else (),
            _describe_parted(shown, place, course),
        )


def _require_ids(shown: Inspected, ids: Sequence[str]) -> None:
    known = {row.id for row in shown.rows}
    for id_ in ids:
        if id_ not in known:
            near = near_matches(id_, known)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise UnknownNameError(
                f"There is no example {excerpt(id_, 60)!r} among the {len(known):,} of {shown.task.name}, "
                f"{shown.head.split}, that were answered.{hint}"
            )


def _matching(
    shown: Inspected, chosen: Chosen, other: Inspected | None, others: Mapping[str, int] | None
) -> Iterator[tuple[int, ScoredExample]]:
    """Yield the rows that were chosen, with their places."""
    needle = chosen.search.casefold()
    for place, row in enumerate(shown.rows):
        if chosen.ids and row.id not in chosen.ids:
            continue
        if other is not None and others is not None and not chosen.ids:
            at = others.get(row.id)
            if at is None or {row.right, other.rows[at].right} != {True, False}:
                continue
        if chosen.right is not None and row.right is not chosen.right:
            continue
        if chosen.flags and not any(
            set(chosen.flags) & set(each.flags) for each in (row, *shown.wordings.at(place).values())
        ):
            continue
        if needle:
            text = shown.texts.at(place)
            said = (text["question"], text["context"], row.prediction or "", row.raw or "", *row.references)
            if not any(needle in each.casefold() for each in said):
                continue
        yield place, row


def _describe_parted(shown: Inspected, place: int, course: Course | None) -> str:
    if course is None or course.parted is None:
        return ""
    row = shown.rows[course.parted]
    gold = row.references[0] if row.references else ""
    return "here" if course.parted == place else describe_parting(row.id, gold, row.prediction or "")


def show_json(
    shown: Inspected, found: Sequence[Browsed], limit: int, other: Inspected | None = None
) -> dict[str, Any]:
    """Return chosen examples as JSON: of which submission and task, how many there are, and the first `limit`."""
    head = shown.head
    content: dict[str, Any] = {
        "format": FORMAT,
        "submission": shown.submission,
        "task": head.task,
        "split": head.split,
        "metric": head.metric,
        "headline": head.headline,
        "score": shown.score,
        "examples": len(shown.rows),
        "matching": len(found),
        "shown": [_record(each) for each in found[:limit]],
    }
    if other is not None:
        content["against"] = {"submission": other.submission, "score": other.score}
    return content


def _record(each: Browsed) -> dict[str, Any]:
    record = {
        "id": each.row.id,
        "question": each.question,
        "context": each.context,
        "references": list(each.row.references),
        **_answer(each.row),
    }
    if each.course is not None:
        record["course"] = {
            "before": list(each.before),
            "predicted": each.course.predicted,
            "gold": each.course.gold,
            "parted": each.parted,
        }
    if each.wordings:
        record["wordings"] = {str(number): _answer(row) for number, row in sorted(each.wordings.items())}
    if each.other is not None:
        record["against"] = _answer(each.other)
    return record


def _answer(row: ScoredExample) -> dict[str, Any]:
    answer: dict[str, Any] = {"prediction": row.prediction, "score": row.score, "right": row.right}
    if row.raw is not None:
        answer["raw"] = row.raw
    if row.flags:
        answer["flags"] = list(row.flags)
    return answer
