"""Dialogue state tracking: joint goal EM (dsEM), and exact match of a turn's goals and requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._numeric import percent
from .base import Item, Metric, MetricError, Reference, Row, Score, Scores, Totals, evaluate, items

__all__ = ["JOINT_GOAL_EM", "joint_goal_em"]

COLUMNS = ("n", "joint_goal", "turn_request", "turn_goal", "turn_request_corrected")


@dataclass(frozen=True)
class Change:
    """What a turn changes."""

    inform: dict[str, str]
    """Slots of the goal with their new values."""
    request: tuple[str, ...] | None
    """What the user asks for; None where the text says nothing at all, which 2018 keeps apart from ('',)."""

    @property
    def requested(self) -> tuple[str, ...]:
        """The requests without empty ones."""
        return tuple(filter(None, self.request or ()))


NOTHING = Change({}, None)


def read_change(text: str) -> Change:
    """The change that `slot: value, slot: value; request, request` stands for.

    Text with other than one semicolon (`none` among them) changes nothing, and so does a lone semicolon; a
    part of the goal with other than one colon is passed over.
    """
    if text.strip() == ";" or text.count(";") != 1:
        return NOTHING
    goal, requests = ([piece.strip() for piece in part.split(",")] for part in text.lower().split(";"))
    pairs = (piece.split(":") for piece in goal if piece.count(":") == 1)
    return Change({slot.strip(): value.strip() for slot, value in pairs}, tuple(requests))


def read_turn(identity: str) -> tuple[str, int]:
    """(dialogue, turn number) of an id such as `en_12_3`."""
    dialogue, _, turn = identity.rpartition("_")
    if not dialogue or not turn.isdecimal():
        raise MetricError(f"A turn's id is language_dialogue_turn, such as en_12_3; given {identity!r}.")
    return dialogue, int(turn)


def in_order(references: Sequence[Reference]) -> list[tuple[str, int]]:
    """(dialogue, index) of every turn, dialogue by dialogue and by turn number."""
    seen: dict[tuple[str, int], int] = {}
    for index, reference in enumerate(references):
        turn = read_turn(reference.id)
        if turn in seen:
            raise MetricError(f"The turn {reference.id!r} stands twice (examples {seen[turn]} and {index}).")
        seen[turn] = index
    return [(dialogue, seen[dialogue, number]) for dialogue, number in sorted(seen)]


def statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    """One row a turn. Turns go by number; 2018 sorted ids as strings, the same for under 11 turns."""
    rows: list[Row] = [()] * len(predictions)
    current, state, gold_state = "", dict[str, str](), dict[str, str]()
    for dialogue, index in in_order(references):
        if dialogue != current:
            current, state, gold_state = dialogue, {}, {}
        change, gold = read_change(predictions[index]), read_change(references[index].answers[0])
        state, gold_state = state | change.inform, gold_state | gold.inform
        rows[index] = (
            1.0,
            float(state == gold_state),
            float(change.request == gold.request),
            float(change.inform == gold.inform),
            float(change.requested == gold.requested),
        )
    return rows


def score(totals: Totals) -> Scores:
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
    definition="Share of turns whose goal state, built up from the predicted changes, equals the gold one.",
    source="Wen et al. 2016; decaNLP 2018 (dsEM)",
    signature="joint_goal_em|case:lower|turns:numeric|unreadable:nothing|v:1",
    columns=COLUMNS,
    headline="joint_goal_em",
    statistics=statistics,
    score=score,
    scope="group",
)


def joint_goal_em(
    predictions: Sequence[str], references: Sequence[Any], turns: Sequence[str] | None = None
) -> Score:
    """Joint goal EM, 0-100: turns whose accumulated goal state is right / all turns (decaNLP 2018).

    References are gold answers with `turns` giving each its id (`en_12_3`), or lists of one [id, answer].
    `details` also has turn_request_em, turn_goal_em and avg_dialogue (mean of joint goal and turn request).
    Quirk of 2018: a turn without requests differs from one that says nothing (`food: thai;` and `none`);
    turn_request_em_corrected takes them as equal.
    Raises MetricError for ids that cannot be read or stand twice.
    """
    if turns is None:
        return evaluate(JOINT_GOAL_EM, predictions, [pair_item(pair) for pair in references])
    return evaluate(JOINT_GOAL_EM, predictions, items(references, id=turns))


def pair_item(reference: Any) -> Item:
    pair = reference[0] if isinstance(reference, list | tuple) and len(reference) == 1 else reference
    is_pair = isinstance(pair, list | tuple) and len(pair) == 2
    if not is_pair or not all(isinstance(part, str) for part in pair):
        raise MetricError(f"Without turns= a reference is [[id, answer]]; given {reference!r}.")
    return Item([pair[1]], id=pair[0])
