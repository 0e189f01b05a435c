"""The metric squad2."""

import json

import pytest

from decabench.metrics import squad2
from tests.sources import SHARED

DEV = SHARED / "mirror" / "squad2" / "dev-v2.0.json"


@pytest.mark.parametrize(
    ("prediction", "answers", "exact", "f1"),
    [  # by evaluate-v2.0
        ("The Broncos", ["Denver Broncos", "Broncos!"], 100, 100),
        ("Denver", ["Denver Broncos"], 0, 200 / 3),
        ("", ["Denver Broncos"], 0, 0),
        ("", [""], 100, 100),
        ("the", [""], 100, 100),  # no words are left of it
        ("Denver", [""], 0, 0),
        ("Denver", ["", "the", "Denver"], 100, 100),  # references without words are passed over
        ("", ["", "Denver"], 0, 0),
        ("Unanswerable.", ["unanswerable"], 100, 100),  # how files say it that cannot hold empty answers
        ("", ["unanswerable"], 100, 100),
        ("unanswerable", [""], 100, 100),
        ("unanswerable", ["Denver"], 0, 0),
        ("unanswerable it is", ["unanswerable"], 0, 0),
    ],
)
def test_one_question(prediction, answers, exact, f1):
    details = squad2([prediction], [answers]).details
    assert (details["exact"], details["f1"]) == pytest.approx((exact, f1))


def test_questions_with_and_without_an_answer_are_scored_apart():
    details = squad2(["Denver", "Denver", "", "x"], ["Denver Broncos", [""], [""], ["unanswerable"]]).details
    assert details == pytest.approx(
        {
            "exact": 25,
            "f1": (200 / 3 + 100) / 4,
            "HasAns_exact": 0,
            "HasAns_f1": 200 / 3,
            "NoAns_exact": 100 / 3,
            "NoAns_f1": 100 / 3,
        }
    )


def predict(kind, number, question, context):
    """Return good, bad and missing answers, chosen by a simple rule."""
    words, golds = context.split(), [answer["text"] for answer in question["answers"]]
    if kind == "empty":
        return ""
    if kind == "first":
        return words[0]
    choices = [
        "",
        " ".join(words[:5]),
        golds[-1] if golds else "the",
        f"The {golds[0].upper()}!" if golds else "...",
        f"{golds[0]} {words[number % len(words)]}" if golds else words[3],
        golds[0].split()[0] if golds else "",
        question["plausible_answers"][0]["text"]
        if question.get("plausible_answers")
        else question["question"],
    ]
    return choices[number % 7]


OFFICIAL = {
    "empty": (50.07159100480081, 50.07159100480081, 0.0, 0.0, 100.0),
    "first": (
        14.023414469805441,
        14.804488652254722,
        1.147098515519568,
        2.7114868030060886,
        26.862910008410427,
    ),
    "mixed": (
        47.08161374547292,
        55.06014371561568,
        35.543184885290145,
        51.523125225286606,
        58.587047939444915,
    ),
}
"""exact, f1, HasAns_exact, HasAns_f1 and NoAns_exact by evaluate-v2.0. NoAns_f1 equals NoAns_exact."""


@pytest.fixture(scope="module")
def asked():
    """The (question, context) pairs of the development set."""
    articles = json.loads(DEV.read_text(encoding="utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    return [(question, paragraph["context"]) for paragraph in paragraphs for question in paragraph["qas"]]


@pytest.mark.mirror
@pytest.mark.skipif(not DEV.is_file(), reason=f"no {DEV} (set DECABENCH_SHARED)")
@pytest.mark.parametrize("kind", OFFICIAL)
@pytest.mark.parametrize("null", ["", "unanswerable"])
def test_official_scores_of_the_development_set(asked, kind, null):
    predictions = [predict(kind, number, *pair) or null for number, pair in enumerate(asked)]
    answers = [[answer["text"] for answer in question["answers"]] or [null] for question, _ in asked]
    details = squad2(predictions, answers).details
    names = ("exact", "f1", "HasAns_exact", "HasAns_f1", "NoAns_exact")
    assert tuple(details[name] for name in names) == pytest.approx(OFFICIAL[kind], abs=1e-9)
    assert details["NoAns_f1"] == details["NoAns_exact"]
