"""SNLI: rows with a gold label, asked as MultiNLI's, in the photograph and caption that they were written on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decabench.tasks.datasets.multinli import MULTINLI
from decabench.tasks.datasets.snli import SNLI
from decabench.tasks.example import Example
from decabench.tasks.task import Task
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
        {**ROW, "gold_label": "entailment", "pairID": "y"},
    ]
    folder = "snli_1.0.zip/snli_1.0/" if "zip" in form else ""
    write_jsonl(files.folder / f"{folder}snli_1.0_dev.jsonl", rows)
    first, second = read_form(SNLI, form, "validation", files)
    assert first == Example(
        "12.jpg#3r1n",
        'Hypothesis: "A "dog" plays." -- entailment, neutral, or contradiction?',
        'Premise: "A dog runs."',
        ("neutral",),
        ("12.jpg", "12.jpg#3"),
    )
    assert (second.id, second.answers) == ("y", ("entailment",))


def test_it_is_asked_as_multinli(sample: Callable[[Task, str], list[Example]]) -> None:
    assert (SNLI.prompt, SNLI.variants, SNLI.output) == (MULTINLI.prompt, MULTINLI.variants, MULTINLI.output)
    assert [len(sample(SNLI, split)) for split in ("train", "validation", "test")] == [64, 33, 32]
