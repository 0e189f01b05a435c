"""WOZ 2.0, English and German: goal-oriented dialogue. The answer is the turn's change to the dialogue state."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import Record, github_raw, json_records, listed_files
from decabench.tasks.task import Files, Source, Task
from decabench.tasks.wording import AnswerForm, fixed, labelled_prompt

_QUESTION = "What is the change in state?"
_UPSTREAM = {"train": "train", "validation": "validate", "test": "test"}

Slot = tuple[str, str]


def _acts(turn: Record) -> str:
    """Return the system's acts as text to put before the user's words, for example `food: thai, area -- `."""
    named = [act if isinstance(act, str) else ": ".join(act) for act in turn.field("system_acts", list)]
    return f"{', '.join(named)} -- " if named else ""


def _state(turn: Record) -> tuple[list[Slot], list[str]]:
    """Return all informed (slot, value) pairs and all requested slots of a belief state, in upstream's order."""
    informed: list[Slot] = []
    requested: list[str] = []
    for item in turn.records("belief_state", "state entry"):
        for slot, value in item.field("slots", list):
            if item.choice("act", ("inform", "request")) == "inform":
                informed.append((slot, value))
            else:
                requested.append(value)
    return informed, requested


def _change(changed: Sequence[Slot], requested: Sequence[str]) -> str:
    """Write a change as `food: thai, area: south; phone, address`, or as `None` if nothing changes."""
    informs = ", ".join(f"{slot}: {value}" for slot, value in changed)
    requests = f" {', '.join(requested)}" if requested else ""
    return f"{informs};{requests}" if informs or requests else "None"


def _informed(answer: str) -> dict[str, str]:
    pieces = [piece.split(": ") for piece in answer.partition(";")[0].split(", ")]
    return {piece[0]: piece[1] for piece in pieces if len(piece) == 2 and piece[1]}


def _as_said(example: Example, earlier: Sequence[Example]) -> str:
    """Extend a turn's change with values that are already in the state, but that the user repeats in this turn.

    A model that sees a single turn can't always tell which values are new. Joint goal EM compares accumulated
    states, so repeating a value that is already in the state does no harm, but leaving out a new value does.
    A value counts as repeated if one of the user's words begins with it (`moderate` in *moderately*). `dontcare` is
    left out, because users express it in many ways. In the English train split, this adds 144 values in 120 turns.
    Upstream's own `turn_label` repeats 92 values there, 85 of which are among these 144.
    """
    answer = example.answers[0]
    changed, said = _informed(answer), example.context.rpartition(" -- ")[2].lower()
    state: dict[str, str] = {}
    for turn in earlier:
        state |= _informed(turn.answers[0])
    again = [
        f"{slot}: {value}"
        for slot, value in state.items()
        if slot not in changed and value != "dontcare" and re.search(rf"\b{re.escape(value.lower())}", said)
    ]
    if not again:
        return answer
    informs, _, requests = ("" if answer == "None" else answer).partition(";")
    return f"{', '.join(filter(None, (informs, *again)))};{requests}"


def _turns(name: str, turns: Iterator[Record]) -> Iterator[Example]:
    previous: list[Slot] = []
    for number, turn in enumerate(turns):
        informed, requested = _state(turn)
        changed = [pair for pair in informed if pair not in previous]
        context = " ".join(f"{_acts(turn)}{turn.text('transcript')}".split())
        yield Example(f"{name}_{number}", _QUESTION, context, (_change(changed, requested),), (name,))
        previous = informed


def _read(language: str, files: Files, split: str) -> Iterator[Example]:
    dialogues = json_records(files.path(f"woz_{_UPSTREAM[split]}_{language}.json"), "item", "dialogue")
    for number, dialogue in enumerate(dialogues):
        yield from _turns(f"{language}_{number}", dialogue.records("dialogue", "turn"))


_URL = github_raw("nmrksic/neural-belief-tracker", "63b5933d867fd9dacc2bfadcc5f6be3a3ef8ee77", "data/woz")
_ENGLISH = listed_files(
    _URL,
    """
    train      7cd9e971553e5f3e80bb0c93164bf4c619c7f49f45d636a0512474cdeb074485 3_825_261 woz_train_en.json
    validation ae1ea9067fd05c0179d349f140b38de1b2db587d5bfcb4f99ef0d77474ab00ad 1_222_746 woz_validate_en.json
    test       3673e433b21a6b0d74e9144bd059e64b29bc3e1c5dc0e18654a98ec597c0d72c 2_481_214 woz_test_en.json
    """,
)
_GERMAN = listed_files(
    _URL,
    """
    train      5a45bf0aefd258dbd05fd178b0be04ea7bbd4594b245e381f4ffeaabe3fa3c8a 3_879_554 woz_train_de.json
    validation d2c0086b86430b61eab7f816c6f34d52e79a403a46e9b45d5867b0fa912cfb48 1_233_820 woz_validate_de.json
    test       e40219302733703ae5beadccd7cc4079befdc720903b9ccf22b4a952c83bdbe6 2_513_360 woz_test_de.json
    """,
)

_PROMPT = labelled_prompt(
    "Turn",
    instruction=(
        "You are given one turn of a dialogue in which a user looks for a restaurant: what the system asked or "
        "offered, if anything, then --, then the user's words. Answer with what the turn changes in the state, on "
        "one line: first the constraints that the user sets, as `slot: value` separated by commas, then a semicolon, "
        "then the slots that the user asks about, separated by commas. Slots of constraints are food, area and price "
        "range; a user who has no preference gives a slot the value dontcare. Slots to ask about are phone, address, "
        "postcode, food, area, price range and name. Either part may be empty, but the semicolon stays. If the turn "
        "changes nothing, answer: None\n"
        "Forms of answers: food: thai, area: south; phone, address\n"
        "Only constraints: price range: cheap;\n"
        "Only asked about: ; phone, address"
    ),
    form=AnswerForm(
        "state",
        labels=("food", "area", "price range", "phone", "address", "postcode", "name", "signature"),
        constraints=("food", "area", "price range"),
        unquote=True,
    ),
)

_VARIANTS = (
    fixed("how-changed", _QUESTION, "How did the state change?"),
    fixed("turn", _QUESTION, "What does this turn change in the state of the dialogue?"),
    fixed("give", _QUESTION, "Give the change in the dialogue state"),
)

WOZ_EN = Task(
    name="woz.en",
    title="Goal-oriented dialogue",
    dataset="WOZ 2.0, English",
    output=Text(max_tokens=48),
    metric="joint_goal_em",
    counts={"train": 2_536, "validation": 830, "test": 1_646},
    sources=(Source("upstream json", _ENGLISH, partial(_read, "en")),),
    licence="Apache-2.0 (repository)",
    citation="Wen et al. 2016, A Network-based End-to-End Trainable Task-oriented Dialogue System",
    homepage="https://github.com/nmrksic/neural-belief-tracker",
    notes="Ids have the form `en_<dialogue>_<turn>`, because the metric rebuilds each dialogue's state turn by turn.",
    unit_names=("dialogue",),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="easy",
    target_forms={"as-said": _as_said},
)

WOZ_DE = replace(
    WOZ_EN,
    name="woz.de",
    dataset="WOZ 2.0, German",
    languages=("de",),
    secondary=("nf1", "dialogue_f1"),
    sources=(Source("upstream json", _GERMAN, partial(_read, "de")),),
    citation="Mrksic et al. 2017, Semantic Specialisation of Distributional Word Vector Spaces",
    notes=(
        "The English dialogues and their slots, translated into German. The question is still in English. Ids have "
        "the form `de_<dialogue>_<turn>`. The system's words, which upstream did not translate, are not part of the "
        "context."
    ),
    prompt=replace(
        _PROMPT,
        instruction=(
            "You are given one turn of a German dialogue in which a user looks for a restaurant: what the system asked "
            "or offered, if anything, then --, then the user's words. Answer in German with what the turn changes in "
            "the state, on one line: first the constraints that the user sets, as `slot: value` separated by commas, "
            "then a semicolon, then the slots that the user asks about, separated by commas. Slots of constraints are "
            "essen, gegend and preisklasse; a user who has no preference gives a slot the value es ist egal. Slots to "
            "ask about are telefon, adresse, postleitzahl, essen, gegend, preisklasse and name. Either part may be "
            "empty, but the semicolon stays. If the turn changes nothing, answer: None\n"
            "Forms of answers: essen: chinesisch, gegend: süden; telefon, adresse\n"
            "Only constraints: preisklasse: billig;\n"
            "Only asked about: ; telefon, adresse"
        ),
        form=AnswerForm(
            "state",
            labels=("essen", "gegend", "preisklasse", "telefon", "adresse", "postleitzahl", "name"),
            constraints=("essen", "gegend", "preisklasse"),
            unquote=True,
        ),
    ),
    curriculum=None,
    target_forms={},  # German words are inflected, so `as-said` would find only half of the values
)
