import pytest

from decabench.metrics import joint_goal_em
from decabench.metrics.base import MetricError
from decabench.metrics.joint_goal_em import read_change


@pytest.mark.parametrize(
    ("text", "inform", "requests"),
    [  # by hand from decaNLP 2018's to_delta_state
        ("food: thai, area: north; phone, address", {"food": "thai", "area": "north"}, ("phone", "address")),
        ("Food: Thai;", {"food": "thai"}, ("",)),
        ("; phone", {}, ("phone",)),
        ("None", {}, None),
        ("none", {}, None),
        ("", {}, None),
        (" ; ", {}, None),
        ("food: thai", {}, None),  # no semicolon
        ("food: thai; phone; area", {}, None),  # two
        ("food: a: b, area: c;", {"area": "c"}, ("",)),  # two colons
        ("food:, : x;", {"food": "", "": "x"}, ("",)),
        ("none ;", {}, ("",)),
    ],
)
def test_read_change(text, inform, requests):
    change = read_change(text)
    assert (change.inform, change.request) == (inform, requests)


GOLD = ["food: thai;", "area: north; phone", "none", "food: any;"]
TURNS = ["en_0_0", "en_0_1", "en_0_2", "en_1_0"]


@pytest.mark.parametrize(
    ("predictions", "expected"),
    [  # (joint_goal_em, turn_request_em, turn_goal_em, turn_request_em_corrected)
        (GOLD, (100, 100, 100, 100)),
        (["food: chinese;", *GOLD[1:]], (25, 100, 75, 100)),  # an error stays until the dialogue ends
        (["food: chinese;", "food: thai, area: north; phone", *GOLD[2:]], (75, 100, 50, 100)),
        (["none", "food: thai, area: north;", *GOLD[2:]], (75, 50, 50, 75)),
        (["food: thai;", "area: north; phone", ";", "food: any;"], (100, 100, 100, 100)),
        (["", "", "", ""], (0, 25, 25, 75)),
    ],
)
def test_joint_goal_em(predictions, expected):
    details = joint_goal_em(predictions, GOLD, turns=TURNS).details
    names = ("joint_goal_em", "turn_request_em", "turn_goal_em", "turn_request_em_corrected")
    assert tuple(details[name] for name in names) == pytest.approx(expected)
    assert details["avg_dialogue"] == (details["joint_goal_em"] + details["turn_request_em"]) / 2


def test_order_of_turns_does_not_matter_and_goes_by_number():
    gold = [f"food: {number};" for number in range(12)]
    predictions = [*gold[:10], "none", "none"]
    turns = [f"en_3_{number}" for number in range(12)]
    forward = joint_goal_em(predictions, gold, turns=turns)
    assert float(forward) == pytest.approx(1000 / 12)
    assert joint_goal_em(predictions[::-1], gold[::-1], turns=turns[::-1]) == forward


def test_pairs_as_references():
    pairs = [[[turn, answer]] for turn, answer in zip(TURNS, GOLD, strict=True)]
    assert joint_goal_em(GOLD, pairs) == joint_goal_em(GOLD, GOLD, turns=TURNS)
    assert joint_goal_em(["none"], [["en_0_0", "none"]]).value == 100


@pytest.mark.parametrize(
    ("turns", "message"),
    [(["en_0_0"] * 4, "occurs twice"), (["a", "b", "c", "d"], "such as en_12_3"), (["en_0_x"] * 4, "en_0_x")],
)
def test_bad_ids(turns, message):
    with pytest.raises(MetricError, match=message):
        joint_goal_em(GOLD, GOLD, turns=turns)


def test_answers_without_ids():
    with pytest.raises(MetricError, match="turns="):
        joint_goal_em(GOLD, GOLD)
