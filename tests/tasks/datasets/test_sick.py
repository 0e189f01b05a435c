from __future__ import annotations

import json
from pathlib import Path

import pytest

from decabench.tasks.datasets.sick import SICK_ENTAILMENT, SICK_RELATEDNESS
from decabench.tasks.example import Example
from tests.tasks.conftest import shared
from tests.tasks.fixtures import FolderFiles, read_form

__all__ = ["shared"]

HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
ROWS = [
    "4\tA dog runs\tNo dog runs\t3.165\tCONTRADICTION",
    "9\tA cat \tAn animal\t4\tENTAILMENT",
    "12\tA dog runs \tA hound runs\t4.9\tENTAILMENT",
]


def write(path: Path, lines: list[str], end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_pairs(files: FolderFiles, end: str) -> None:
    write(files.folder / "SICK_trial.txt", [HEADER, *ROWS], end)
    related = read_form(SICK_RELATEDNESS, "semeval files", "validation", files)
    entailed = read_form(SICK_ENTAILMENT, "semeval files", "validation", files)
    assert related[0] == Example(
        "4",
        "How related are the sentences, from 1 to 5?",
        "Sentence A: A dog runs\nSentence B: No dog runs",
        ("3.165",),
        related[2].units,  # they share a sentence, but for the space at its end
    )
    assert related[1].context == "Sentence A: A cat \nSentence B: An animal"
    assert related[1].units != related[0].units
    assert [example.question for example in entailed] == ["entailment, neutral, or contradiction?"] * 3
    assert [example.answers for example in entailed] == [("contradiction",), ("entailment",), ("entailment",)]
    assert [example.units for example in entailed] == [example.units for example in related]


def test_the_archive(files: FolderFiles) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tsentence_A_original\tSemEval_set"
    rows = [
        "1\tA dog\tA hound\tNEUTRAL\t4.5\tThe dog\tTRIAL",
        "2\tA dog\tA cat\tNEUTRAL\t2\tThe dog\tTRAIN",
        "3\tNo dog\tA cat\tNEUTRAL\t2\tThe dog\tTRIAL",
    ]
    write(files.folder / "SICK.txt", [header, *rows])
    examples = read_form(SICK_RELATEDNESS, "zenodo zip", "validation", files)
    assert [(example.id, example.answers, example.units) for example in examples] == [
        ("1", ("4.5",), ("The dog",)),
        ("3", ("2",), ("The dog",)),
    ]


@pytest.mark.mirror
def test_gold_is_that_of_the_official_cases(shared: Path) -> None:
    lines = (shared / "conformance" / "sick.trial.jsonl").read_text(encoding="utf-8").splitlines()
    files = FolderFiles(shared / "mirror" / "sick")
    pairs = zip(
        *(
            read_form(task, "semeval files", "validation", files)
            for task in (SICK_RELATEDNESS, SICK_ENTAILMENT)
        ),
        strict=True,
    )
    for line, (related, entailed) in zip(lines, pairs, strict=True):
        case = json.loads(line)
        assert (case["id"], case["gold"]) == (related.id, related.answers[0])
        assert case["gold_entailment"].lower() == entailed.answers[0]
