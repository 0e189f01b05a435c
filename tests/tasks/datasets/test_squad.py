from __future__ import annotations

import json

import pytest

from decabench.prompts import extract
from decabench.tasks.datasets.squad import SQUAD, SQUAD2
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_lines, write_parquet

ARTICLES = [
    ("Oslo", [("Oslo is a city.", ["q1", "q2"]), ("It  lies by the sea. ", ["q3"])]),
    ("Bergen", [("Bergen is wet.", ["q4"])]),
]


def write_both(files: FolderFiles) -> None:
    articles = [
        {
            "title": title,
            "paragraphs": [
                {"context": context, "qas": [question(id) for id in ids]} for context, ids in paragraphs
            ],
        }
        for title, paragraphs in ARTICLES
    ]
    text = json.dumps({"data": articles, "version": "1.1"})
    write_lines(files.folder / "dev-v1.1.json", [text])
    rows = [
        {
            "id": id,
            "title": title,
            "context": context,
            "question": question(id)["question"],
            "answers": {"text": ["one", "one", "two"], "answer_start": [0, 0, 4]},
        }
        for title, paragraphs in ARTICLES
        for context, ids in paragraphs
        for id in ids
    ]
    write_parquet(files.folder / "plain_text" / "validation-00000-of-00001.parquet", rows)


def question(id: str) -> dict[str, object]:
    answers = [{"text": text, "answer_start": start} for text, start in (("one", 0), ("one", 0), ("two", 4))]
    return {"id": id, "question": f"  Which\tword is  {id}? ", "answers": answers}


@pytest.mark.parametrize("form", ["upstream json", "hub parquet"])
def test_forms_are_alike(files: FolderFiles, form: str) -> None:
    write_both(files)
    examples = read_form(SQUAD, form, "validation", files)
    answers = ("one", "one", "two")
    assert examples == [
        Example("q1", "Which word is q1?", "Oslo is a city.", answers, ("Oslo", "Oslo.0")),
        Example("q2", "Which word is q2?", "Oslo is a city.", answers, ("Oslo", "Oslo.0")),
        Example("q3", "Which word is q3?", "It  lies by the sea. ", answers, ("Oslo", "Oslo.1")),
        Example("q4", "Which word is q4?", "Bergen is wet.", answers, ("Bergen", "Bergen.0")),
    ]


@pytest.mark.parametrize("form", ["upstream json", "hub parquet"])
def test_questions_without_an_answer(files: FolderFiles, form: str) -> None:
    rows = [("q1", ["one", "One"]), ("q2", [])]
    qas = [
        {"id": id, "question": "Who?", "answers": [{"text": text, "answer_start": 0} for text in texts]}
        for id, texts in rows
    ]
    article = {"title": "A", "paragraphs": [{"context": "one", "qas": qas}]}
    write_lines(files.folder / "dev-v2.0.json", [json.dumps({"version": "v2.0", "data": [article]})])
    write_parquet(
        files.folder / "squad_v2" / "validation-00000-of-00001.parquet",
        [
            {
                "id": id,
                "title": "A",
                "context": "one",
                "question": "Who?",
                "answers": {"text": texts, "answer_start": [0] * len(texts)},
            }
            for id, texts in rows
        ],
    )
    assert read_form(SQUAD2, form, "validation", files) == [
        Example("squad2.validation.0", "Who?", "one", ("one", "One"), ("A", "A.0"), {"id": "q1"}),
        Example("squad2.validation.1", "Who?", "one", ("unanswerable",), ("A", "A.0"), {"id": "q2"}),
    ]


def test_neither_ids_nor_the_order_of_a_paragraph_tell_whether_there_is_an_answer(files: FolderFiles) -> None:
    def qas(paragraph: int) -> list[dict[str, object]]:
        return [
            {
                "id": f"{'56' if number < 2 else '5a'}{paragraph}{number}",
                "question": f"Who is {number} of {paragraph}?",
                "answers": [{"text": "one", "answer_start": 0}] if number < 2 else [],
            }
            for number in range(4)
        ]

    paragraphs = [{"context": f"one {number}", "qas": qas(number)} for number in range(100)]
    article = {"title": "A", "paragraphs": paragraphs}
    write_lines(files.folder / "dev-v2.0.json", [json.dumps({"version": "v2.0", "data": [article]})])
    found = read_form(SQUAD2, "upstream json", "validation", files)
    assert [example.id for example in found] == [f"squad2.validation.{at}" for at in range(400)]
    assert [example.context for example in found] == [f"one {at // 4}" for at in range(400)]
    none = [example.answers == ("unanswerable",) for example in found]
    assert [example.meta["id"].startswith("5a") for example in found] == none
    for place in range(4):
        assert 35 < sum(none[place::4]) < 65  # of 100, within 3 standard errors


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("unanswerable", "unanswerable"),
        ("Unanswerable.", "unanswerable"),
        ("The passage does not say.", "unanswerable"),
        ("Answer: Normandy", "Normandy"),
    ],
)
def test_answers_of_a_language_model_to_squad2(text: str, answer: str) -> None:
    assert extract(text, SQUAD2.answer_form, "Where?").answer == answer
