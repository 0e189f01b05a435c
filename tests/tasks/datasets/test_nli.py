from __future__ import annotations

import pytest

from decabench.tasks.datasets.nli import MULTINLI, SNLI
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_jsonl, write_parquet

# MultiNLI: matched then mismatched, rows without a gold label left out, both forms alike.

ROWS = {
    "matched": [
        ("1a", 7, "He ran .", 'He "moved".', "entailment"),
        ("2b", 7, "He ran .", "He  sat.", "contradiction"),
        ("3c", 8, "Nobody agrees", "at all", "-"),
    ],
    "mismatched": [("4d", 9, "Über alles", "no one knows", "neutral")],
}
LABELS = {"entailment": 0, "neutral": 1, "contradiction": 2, "-": -1}


def write_zip(files: FolderFiles, part: str, rows: list[dict[str, object]]) -> None:
    write_jsonl(files.folder / f"multinli_1.0_{part}.jsonl", rows)


def raw(part: str) -> list[dict[str, object]]:
    keys = ("pairID", "promptID", "sentence1", "sentence2", "gold_label")
    return [dict(zip(keys, row, strict=True)) for row in ROWS[part]]


def test_parquet_is_like_the_zip(files: FolderFiles) -> None:
    for part, rows in ROWS.items():
        write_zip(files, f"dev_{part}", raw(part))
        columns = ("pairID", "promptID", "premise", "hypothesis", "label")
        table = [dict(zip(columns, (*row[:4], LABELS[row[4]]), strict=True)) for row in rows]
        write_parquet(files.folder / "data" / f"validation_{part}-00000-of-00001.parquet", table)
    found = read_form(MULTINLI, "hub parquet", "validation", files)
    assert found == read_form(MULTINLI, "upstream zip", "validation", files)
    assert [example.answers[0] for example in found] == ["entailment", "contradiction", "neutral"]


def test_ids_that_end_in_a_label_are_numbers(files: FolderFiles) -> None:
    rows: list[tuple[str, int, str, str, str]] = [
        ("63735n", 63735, "He ran .", "He won.", "neutral"),
        ("91383c", 91383, "He sat .", "?", "-"),
        ("91383e", 91383, "He sat .", "He rested.", "entailment"),
    ]
    keys = ("pairID", "promptID", "sentence1", "sentence2", "gold_label")
    columns = ("pairID", "promptID", "premise", "hypothesis", "label")
    for part in ROWS:
        write_zip(files, f"dev_{part}", [dict(zip(keys, row, strict=True)) for row in rows])
        table = [dict(zip(columns, (*row[:4], LABELS[row[4]]), strict=True)) for row in rows]
        write_parquet(files.folder / "data" / f"validation_{part}-00000-of-00001.parquet", table)
    found = read_form(MULTINLI, "upstream zip", "validation", files)
    assert [example.id for example in found] == ["matched-0", "matched-1", "mismatched-0", "mismatched-1"]
    assert [example.units[1] for example in found] == ["63735", "91383"] * 2
    assert found == read_form(MULTINLI, "hub parquet", "validation", files)


# SNLI: rows with a gold label, asked as MultiNLI's, in the photograph and caption that they were written on.

ROW = {
    "captionID": "12.jpg#3",
    "gold_label": "neutral",
    "pairID": "12.jpg#3r1n",
    "sentence1": "A dog runs.",
    "sentence2": 'A "dog" plays.',
}


@pytest.mark.parametrize("form", ["upstream zip", "json lines"])
def test_rows(files: FolderFiles, form: str) -> None:
    rows = [
        ROW,
        {**ROW, "gold_label": "-", "pairID": "x"},
        {**ROW, "gold_label": "entailment", "pairID": "y", "captionID": "12.jpg#4"},
    ]
    write_jsonl(files.folder / "snli_1.0_dev.jsonl", rows)
    first, second = read_form(SNLI, form, "validation", files)
    assert first == Example(
        "snli.validation.0",
        'Hypothesis: "A "dog" plays." -- entailment, neutral, or contradiction?',
        'Premise: "A dog runs."',
        ("neutral",),
        ("12.jpg", "12.jpg#3"),
        {"id": "12.jpg#3r1n"},
    )
    assert (second.id, second.answers, second.meta) == ("snli.validation.1", ("entailment",), {"id": "y"})


def test_neither_ids_nor_the_order_of_a_caption_tell_the_label(files: FolderFiles) -> None:
    labels = ("entailment", "neutral", "contradiction")
    rows = [
        {
            **ROW,
            "captionID": f"{number}.jpg#0",
            "pairID": f"{number}.jpg#0r1{label[0]}",
            "sentence1": f"Dog {number}.",
            "sentence2": f"{number} {label}",
            "gold_label": label,
        }
        for number in range(100)
        for label in labels
    ]
    write_jsonl(files.folder / "snli_1.0_test.jsonl", rows)
    examples = read_form(SNLI, "json lines", "test", files)
    assert [example.id for example in examples] == [f"snli.test.{at}" for at in range(300)]
    assert [example.units[1] for example in examples] == [row["captionID"] for row in rows]
    for place in range(3):
        found = [example.answers[0] for example in examples[place::3]]
        assert all(20 < found.count(label) < 47 for label in labels)  # of 100, within 3 standard errors
