"""SNLI: rows with a gold label, asked as MultiNLI's, in the photograph and caption that they were written on."""

from __future__ import annotations

import pytest

from decabench.tasks.datasets.snli import SNLI
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_jsonl

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
    """A `pairID` ends in the label; the hypotheses of a caption keep no order of the file."""
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
