"""The real data of all suites but the decathlon: its counts, and that its tasks are proven."""

from __future__ import annotations

from collections import Counter

import pytest

from decabench.scoring import prove_task
from decabench.tasks.example import Example
from decabench.tasks.registry import SUITES, TASKS
from tests.tasks.conftest import SUITES_OF_THE_MIRROR, PreparedSuites

pytestmark = pytest.mark.mirror

LINES = {  # of the training files; every test file has 400 (SOURCES.md)
    "baby": 1_500,
    "camera_photo": 1_597,
    "electronics": 1_598,
    "magazines": 1_570,
    "software": 1_515,
}
FDU = (
    "apparel baby books camera_photo dvd electronics health_personal_care imdb kitchen_housewares magazines mr music "
    "software sports_outdoors toys_games video"
).split()
ROWS = {  # of mirror/MIRROR.md; of snli, those with a gold label (16 and 23 have none)
    **{f"fdu.{name}": (LINES.get(name, 1_600) - 200, 200, 400) for name in FDU},
    "sst.fine": (8_544, 1_101, 2_210),
    "sst": (6_920, 872, 1_821),
    "subj": (8_000, 1_000, 1_000),
    "mr": (8_530, 1_066, 1_066),
    "products.books": (1_400, 200, 400),
    "products.dvd": (1_400, 200, 400),
    "products.electronics": (1_398, 200, 400),
    "products.kitchen": (1_400, 200, 400),
    "snli": (0, 1_273, 1_254),
    "sentences.amazon": (0, 0, 1_000),
    "sentences.yelp": (0, 0, 1_000),
    "sentences.imdb": (0, 0, 1_000),
    "squad2": (0, 11_873, 0),
    "woz.de": (2_536, 830, 1_646),
    "multi30k.en.de": (29_000, 1_014, 1_000),
    "iwslt.de.en": (5_585, 993, 1_305),
    "ud.pos": (12_544, 2_001, 2_077),
    "conll2000": (8_936 - 893, 893, 2_012),
    "ud.dep": (12_544, 2_001, 2_077),
    "sick.relatedness": (4_500, 500, 4_927),
    "sick.entailment": (4_500, 500, 4_927),
    "conll2003": (14_041, 3_250, 3_453),
    "conll2003.entities": (4 * 14_041, 4 * 3_250, 4 * 3_453),  # a question for each of four types
    "hien.pos": (616 + 876 + 610 - 209, 209, 155 + 220 + 153),  # of Facebook, Twitter and WhatsApp
    "en.pos": (8_936 - 893, 893, 2_012),
    "hi.pos": (1_494, 165, 1_684),
}
SPLITS = ("train", "validation", "test")
BY_ID = {"woz.de", "ud.pos", "ud.dep", "sick.relatedness", "sick.entailment"}
"""Where upstream has ids that tell nothing of the answer."""
BY_NAME = {"conll2003.entities", "hien.pos"}
"""Where ids end in a type or say which network; else they are `<task>.<split>.<index>`."""
WHOLE = {"sst", "sst.fine", "subj", "mr", "woz.de", "conll2000", "en.pos"}
"""With the published digests."""
LATER = {"ud.pos", "ud.dep"}
"""Of a later release than the published counts, with a sentence more to train on."""


def examples(prepared: PreparedSuites, task: str, split: str) -> list[Example]:
    return list(prepared.store.examples(task, split))


def test_what_the_mirror_has(prepared_suites: PreparedSuites) -> None:
    """All but imdb, OntoNotes and the translation of other languages than German, which are for users to get."""
    assert set(prepared_suites.names) == set(ROWS)
    suites = {name for suite in SUITES_OF_THE_MIRROR for name in SUITES[suite].tasks}
    pairs = {f"iwslt.{pair}" for pair in ("en.fr", "fr.en", "en.ar", "ar.en", "en.cs", "cs.en")}
    assert suites - set(ROWS) == {"imdb", "ontonotes", "ontonotes.entities", *pairs}


@pytest.mark.parametrize("task", ROWS)
def test_counts(prepared_suites: PreparedSuites, task: str) -> None:
    records = prepared_suites.store.records(task)
    found = tuple(records[split].rows if split in records else 0 for split in SPLITS)
    assert found == ROWS[task]
    assert {record.verified for record in records.values()} == {task in WHOLE}
    published = TASKS[task].counts
    assert task in LATER or all(records[split].rows <= published[split] for split in records)


@pytest.mark.parametrize("task", ROWS)
def test_ids_and_units(prepared_suites: PreparedSuites, task: str) -> None:
    for split in prepared_suites.store.records(task):
        found = examples(prepared_suites, task, split)
        assert len({example.id for example in found}) == len(found)
        if task not in BY_ID | BY_NAME:
            assert [example.id for example in found] == [f"{task}.{split}.{at}" for at in range(len(found))]
        assert {len(example.units) for example in found} == {len(TASKS[task].unit_names)}


@pytest.mark.parametrize(
    ("task", "split"),
    [
        (task, split)
        for task, rows in ROWS.items()
        for split, n in zip(SPLITS[1:], rows[1:], strict=True)
        if n
    ],
)
def test_proven(prepared_suites: PreparedSuites, task: str, split: str) -> None:
    checks = prove_task(TASKS[task], split, prepared_suites.store)
    assert [check.name for check in checks if not check.passed] == []


def test_labels(prepared_suites: PreparedSuites) -> None:
    def labels(task: str, split: str) -> Counter[str]:
        return Counter(example.answers[0] for example in examples(prepared_suites, task, split))

    assert labels("sentences.yelp", "test") == {"negative": 500, "positive": 500}
    assert labels("mr", "test") == {"negative": 533, "positive": 533}
    assert labels("snli", "test") == {"entailment": 405, "neutral": 429, "contradiction": 420}
    assert labels("fdu.magazines", "test") == {"negative": 183, "positive": 217}
    whole = sum((labels("subj", split) for split in SPLITS), Counter[str]())
    assert whole == {"objective": 5_000, "subjective": 5_000}
    assert set(labels("sst.fine", "test")) == set(TASKS["sst.fine"].output.names)  # type: ignore[union-attr]


def test_one_training_text_of_fdu_is_empty(prepared_suites: PreparedSuites) -> None:
    empty = [
        example.id
        for name in FDU
        for split in SPLITS
        for example in examples(prepared_suites, f"fdu.{name}", split)
        if not example.context.strip()
    ]
    assert len(empty) == 1
    assert empty[0].startswith("fdu.sports_outdoors.train.")


def test_questions_of_squad2(prepared_suites: PreparedSuites) -> None:
    found = examples(prepared_suites, "squad2", "validation")
    answerable = [example for example in found if example.answers != ("unanswerable",)]
    assert len(found) - len(answerable) == 5_945
    assert all(answer in example.context for example in answerable for answer in example.answers)
    assert len({example.units[0] for example in found}) == 35


def test_units_of_snli(prepared_suites: PreparedSuites) -> None:
    units = [example.units for example in examples(prepared_suites, "snli", "validation")]
    assert len({photograph for photograph, _ in units}) == 421
    assert all(caption.startswith(f"{photograph}#") for photograph, caption in units)


def test_dialogues_of_woz_are_those_of_english(prepared_suites: PreparedSuites) -> None:
    first = examples(prepared_suites, "woz.de", "validation")[:2]
    assert [(example.id, example.answers[0]) for example in first] == [
        ("de_0_0", "preisklasse: teuer, gegend: süden;"),
        ("de_0_1", "; telefon, adresse"),
    ]


def test_the_other_direction_has_the_same_pairs(prepared_suites: PreparedSuites) -> None:
    found = examples(prepared_suites, "iwslt.de.en", "validation")
    assert (found[0].question, found[0].answers) == (
        "Translate from German to English",
        ("When I was 11, I remember waking up one morning to the sound of joy in my house.",),
    )
    assert len({example.units for example in found}) == 16
