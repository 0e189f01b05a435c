"""Metrics for dialogue state tracking: joint goal EM (dsEM), exact match of goals and requests, and slot F1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from .base import (
    REFUSED,
    GroupState,
    Item,
    Metric,
    MetricError,
    Reference,
    Row,
    Score,
    Scores,
    Totals,
    evaluate,
    f1,
    items,
    percent,
    require_gold,
    show_value,
)

_Goal = dict[str, str]


class _Change(NamedTuple):
    inform: _Goal
    """The slots of the goal with their new values."""
    request: tuple[str, ...] | None
    """The slots that the user asks for, or None if the text is not a change. decaNLP 2018 treats None differently from
    ('',), a change without requests."""

    @property
    def requested(self) -> tuple[str, ...]:
        return tuple(filter(None, self.request or ()))


@lru_cache(maxsize=10_000)  # gold answers are read again for every system
def read_change(text: str) -> _Change:
    """Parse a change of the form `slot: value, slot: value; request, request`.

    Text without exactly one semicolon (such as `none`) changes nothing, and neither does a semicolon on
    its own. Parts of the goal that don't have exactly one colon are skipped. A refused answer sets and
    requests a special slot that no gold answer contains, so it never counts as right.
    """
    if text == REFUSED:
        return _Change({REFUSED: ""}, (REFUSED,))
    if text.strip() == ";" or text.count(";") != 1:
        return _Change({}, None)
    goal, requests = ([piece.strip() for piece in part.split(",")] for part in text.lower().split(";"))
    pairs = (piece.split(":") for piece in goal if piece.count(":") == 1)
    return _Change({slot.strip(): value.strip() for slot, value in pairs}, tuple(requests))


def write_change(text: str) -> str:
    """Parse a change and write it back.

    For example, `food: thai, time: 3:30; phone` becomes `food: thai; phone`.
    """
    change = read_change(text)
    if change.request is None:
        return "none"
    goal = ", ".join(f"{slot}: {value}" for slot, value in change.inform.items())
    return f"{goal}; {', '.join(change.request)}".rstrip()


LOSSES: Mapping[str, str] = {
    "no semicolon": "Write `slot: value; request`, or None if nothing changes",
    "several semicolons": "Write exactly one semicolon, after the constraints",
    "a colon in a value": "Use another character, as in 17.30 instead of 17:30",
    "a comma in a value, or a constraint without a value": "Write `slot: value`, without a comma in the value",
    "an empty slot or value": "Leave out empty slots and values",
    "the same slot twice": "Use each slot only once",
    "a colon after the semicolon": "Write constraints before the semicolon",
}
"""The reasons why a change to the dialogue state may not survive being parsed and written back, each
with advice.
"""


@lru_cache(maxsize=10_000)
def find_loss(text: str) -> str:
    """Return the reason why a change doesn't survive being parsed and written back, as a key of LOSSES.

    Returns an empty string if it stays the same.
    """
    if text.strip().lower() in ("", ";", "none"):
        return ""
    if text.count(";") != 1:
        return "several semicolons" if ";" in text else "no semicolon"
    goal, requests = ([piece.strip() for piece in part.split(",")] for part in text.lower().split(";"))
    goal, requests = (part if part != [""] else [] for part in (goal, requests))
    pairs = [[part.strip() for part in piece.split(":")] for piece in goal]
    if any(len(pair) > 2 for pair in pairs):
        return "a colon in a value"
    if not all([*requests, *(part for pair in pairs for part in pair)]):
        return "an empty slot or value"
    if any(len(pair) < 2 for pair in pairs):
        return "a comma in a value, or a constraint without a value"
    if any(len(set(names)) < len(names) for names in ([pair[0] for pair in pairs], requests)):
        return "the same slot twice"
    return "a colon after the semicolon" if any(":" in request for request in requests) else ""


def _find_fault(reference: Reference) -> str:
    loss = find_loss(reference.answers[0])
    return f"{loss}. {LOSSES[loss]}" if loss else ""


def _order_turns(references: Sequence[Reference]) -> list[tuple[str, int]]:
    """Return (dialogue, index) for every turn, sorted by dialogue and turn number. Ids look like `en_12_3`."""
    seen: dict[tuple[str, int], int] = {}
    for index, reference in enumerate(references):
        dialogue, _, number = reference.id.rpartition("_")
        if not dialogue or not number.isdecimal():
            raise MetricError(
                f"A turn's id must have the form language_dialogue_turn, such as en_12_3, but got "
                f"{show_value(reference.id)}."
            )
        turn = dialogue, int(number)
        if turn in seen:
            raise MetricError(
                f"The turn {show_value(reference.id)} occurs more than once (examples {seen[turn]} and {index})."
            )
        seen[turn] = index
    return [(dialogue, seen[dialogue, number]) for dialogue, number in sorted(seen)]


class _Turn(NamedTuple):
    change: _Change
    """The change that the turn makes."""
    state: _Goal
    """All slots of the goal after the turn, with their values."""


def _read_turns(
    predictions: Sequence[str], references: Sequence[Reference]
) -> Iterator[tuple[int, _Turn, _Turn]]:
    """Yield (index, predicted turn, gold turn) for each turn, one dialogue after another.

    Turns are sorted by number. decaNLP 2018 sorted ids as strings, which gives the same order for up to
    10 turns. Raises MetricError for gold answers that don't survive being parsed and written back.
    """
    require_gold(references, _find_fault)
    current, state, gold_state = "", _Goal(), _Goal()
    for dialogue, index in _order_turns(references):
        if dialogue != current:
            current, state, gold_state = dialogue, {}, {}
        change, gold = read_change(predictions[index]), read_change(references[index].answers[0])
        state.pop(REFUSED, None)  # a refusal makes only its own turn wrong
        state, gold_state = state | change.inform, gold_state | gold.inform
        yield index, _Turn(change, state), _Turn(gold, gold_state)


def _states(predictions: Sequence[str], references: Sequence[Reference]) -> Iterator[list[GroupState]]:
    def dialogue(turn: tuple[int, _Turn, _Turn]) -> str:
        return references[turn[0]].id.rpartition("_")[0]

    for _, turns in groupby(_read_turns(predictions, references), dialogue):
        yield [
            GroupState(index, _write_state(ours.state), _write_state(gold.state))
            for index, ours, gold in turns
        ]


def _write_state(state: _Goal) -> str:
    return ", ".join(f"{slot}: {value}" for slot, value in sorted(state.items()) if slot != REFUSED)


def _statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    rows: list[Row] = [()] * len(predictions)
    for index, ours, theirs in _read_turns(predictions, references):
        change, gold = ours.change, theirs.change
        rows[index] = (
            1.0,
            float(ours.state == theirs.state),
            float(change.request == gold.request),
            float(change.inform == gold.inform),
            float(change.requested == gold.requested),
        )
    return rows


def _score(totals: Totals) -> Scores:
    joint, request = (percent(totals[name], totals["n"]) for name in ("joint_goal", "turn_request"))
    return {
        "joint_goal_em": joint,
        "turn_request_em": request,
        "turn_goal_em": percent(totals["turn_goal"], totals["n"]),
        "avg_dialogue": (joint + request) / 2,
        "turn_request_em_corrected": percent(totals["turn_request_corrected"], totals["n"]),
    }


JOINT_GOAL_EM = Metric(
    name="joint_goal_em",
    definition="Share of turns for which the goal state accumulated from predicted changes equals the gold state.",
    source="Wen et al. 2016; decaNLP 2018 (dsEM)",
    signature="joint_goal_em|case:lower|turns:numeric|unreadable:nothing|v:1",
    columns=("n", "joint_goal", "turn_request", "turn_goal", "turn_request_corrected"),
    headline="joint_goal_em",
    statistics=_statistics,
    score=_score,
    scope="group",
    empty_may_be_right=True,
    states=_states,
    find_fault=_find_fault,
    reads="state",
)


def joint_goal_em(
    predictions: Iterable[str], references: Iterable[Any], turns: Iterable[str] | None = None
) -> Score:
    """Compute joint goal EM, the percentage of turns whose accumulated goal is right.

    The metric follows Wen et al. 2016 and decaNLP 2018. Pass gold answers as `references` and their ids
    (such as `en_12_3`) as `turns`. Without `turns`, each reference is a list with a single [id, answer]
    pair. `details` also has turn_goal_em, turn_request_em and avg_dialogue, the mean of joint_goal_em and
    turn_request_em. As in decaNLP 2018, turn_request_em distinguishes a turn without requests
    (`food: thai;`) from a turn that changes nothing (`none`). turn_request_em_corrected treats them as
    equal.

    Raises MetricError for ids that can't be parsed or occur twice, and for gold answers that don't
    survive being parsed and written back. Values can't contain a colon, a comma or a semicolon.
    """
    return evaluate(JOINT_GOAL_EM, predictions, _turn_items(references, turns))


_COUNTED = ("slot", "request", "state")
_SIDES = ("right", "predicted", "gold")


def _dialogue_f1_statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    """Return a row for each turn: the numbers of right, predicted and gold items for each name in `_COUNTED`."""
    rows: list[Row] = [()] * len(predictions)
    for index, ours, theirs in _read_turns(predictions, references):
        rows[index] = (
            *_count(ours.change.inform.items(), theirs.change.inform.items()),
            *_count(set(ours.change.requested), set(theirs.change.requested)),
            *_count(ours.state.items(), theirs.state.items()),
        )
    return rows


def _count(predicted: Set[Any], gold: Set[Any]) -> Row:
    return float(len(predicted & gold)), float(len(predicted)), float(len(gold))


def _dialogue_f1_score(totals: Totals) -> Scores:
    scores: Scores = {}
    for name in _COUNTED:
        right, predicted, gold = (totals[f"{name}_{side}"] for side in _SIDES)
        precision, recall = percent(right, predicted), percent(right, gold)
        scores |= {
            f"{name}_f1": f1(precision, recall),
            f"{name}_precision": precision,
            f"{name}_recall": recall,
        }
    return scores


DIALOGUE_F1 = Metric(
    name="dialogue_f1",
    definition=(
        "F1 of the slot-value pairs that change in a turn. The F1 scores of requests and states are also computed."
    ),
    source="micro-averaged F1, standard definition",
    signature="dialogue_f1|case:lower|turns:numeric|unreadable:nothing|average:micro|v:1",
    columns=tuple(f"{name}_{side}" for name in _COUNTED for side in _SIDES),
    headline="slot_f1",
    statistics=_dialogue_f1_statistics,
    score=_dialogue_f1_score,
    scope="group",
    empty_may_be_right=True,
    find_fault=_find_fault,
    reads="state",
)


def dialogue_f1(
    predictions: Iterable[str], references: Iterable[Any], turns: Iterable[str] | None = None
) -> Score:
    """Compute slot F1, 0-100, over the (slot, value) pairs that the turns change.

    F1 is 2PR / (P + R), with P = right / predicted pairs and R = right / gold pairs. `details` also has
    request_f1, for the slots that the user asks for, and state_f1, for the pairs in the accumulated
    states, where an error persists until it is corrected. Each F1 comes with its precision and recall.
    References, turns and errors are the same as in `joint_goal_em`.
    """
    return evaluate(DIALOGUE_F1, predictions, _turn_items(references, turns))


def _turn_items(references: Iterable[Any], turns: Iterable[str] | None) -> list[Item]:
    if turns is None:
        return [_pair_item(reference) for reference in references]
    return items(references, id=turns)


def _pair_item(reference: Any) -> Item:
    pair = reference[0] if isinstance(reference, list | tuple) and len(reference) == 1 else reference
    is_pair = isinstance(pair, list | tuple) and len(pair) == 2
    if not is_pair or not all(isinstance(part, str) for part in pair):
        raise MetricError(
            f"Without turns=, each reference must have the form [[id, answer]], but got {show_value(reference)}."
        )
    return Item([pair[1]], id=pair[0])
