"""MultiNLI: matched then mismatched, rows without a gold label left out, both forms alike."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from decabench.tasks.datasets.multinli import MULTINLI
from decabench.tasks.example import Example
from decabench.tasks.task import Task
from tests.tasks.fixtures import FolderFiles, read_form, write_jsonl, write_parquet

ROWS = {
    "matched": [
        ("1a", 7, "He ran .", 'He "moved".', "entailment"),
        ("2b", 7, "He ran .", "He  sat.", "contradiction"),
        ("3c", 8, "Nobody agrees", "at all", "-"),
    ],
    "mismatched": [("4d", 9, "Über alles", "no one knows", "neutral")],
}
LABELS = {"entailment": 0, "neutral": 1, "contradiction": 2, "-": -1}


def digest(premise: str) -> str:
    return hashlib.sha256(premise.encode()).hexdigest()[:16]


RAN = digest("He ran .")
EXPECTED = [
    Example(
        "1a",
        'Hypothesis: "He "moved"." -- entailment, neutral, or contradiction?',
        'Premise: "He ran ."',
        ("entailment",),
        (RAN, "7"),
    ),
    Example(
        "2b",
        'Hypothesis: "He  sat." -- entailment, neutral, or contradiction?',
        'Premise: "He ran ."',
        ("contradiction",),
        (RAN, "7"),
    ),
    Example(
        "4d",
        'Hypothesis: "no one knows" -- entailment, neutral, or contradiction?',
        'Premise: "Über alles"',
        ("neutral",),
        (digest("Über alles"), "9"),
    ),
]


def write_zip(files: FolderFiles, part: str, rows: list[dict[str, object]]) -> None:
    write_jsonl(files.folder / "multinli_1.0.zip" / "multinli_1.0" / f"multinli_1.0_{part}.jsonl", rows)


def raw(part: str) -> list[dict[str, object]]:
    keys = ("pairID", "promptID", "sentence1", "sentence2", "gold_label")
    return [dict(zip(keys, row, strict=True)) for row in ROWS[part]]


def test_sample(sample: Callable[[Task, str], list[Example]]) -> None:
    train, validation = sample(MULTINLI, "train"), sample(MULTINLI, "validation")
    assert [len(train), len(validation)] == [64, 32]
    assert {example.answers[0] for example in train} == {"entailment", "neutral", "contradiction"}
    assert [example.id.split("-")[0] for example in validation] == ["matched"] * 16 + ["mismatched"] * 16
    assert validation[0] == Example(
        "matched-0",
        'Hypothesis: "Everyone really likes the newest benefits" -- entailment, neutral, or contradiction?',
        'Premise: "The new rights are nice enough"',
        ("neutral",),
        (digest("The new rights are nice enough"), "matched-0"),
    )


def test_zip(files: FolderFiles) -> None:
    for part in ROWS:
        write_zip(files, f"dev_{part}", raw(part))
    assert read_form(MULTINLI, "upstream zip", "validation", files) == EXPECTED


def test_parquet_is_like_the_zip(files: FolderFiles) -> None:
    for part, rows in ROWS.items():
        columns = ("pairID", "promptID", "premise", "hypothesis", "label")
        table = [dict(zip(columns, (*row[:4], LABELS[row[4]]), strict=True)) for row in rows]
        write_parquet(files.folder / "data" / f"validation_{part}-00000-of-00001.parquet", table)
    assert read_form(MULTINLI, "hub parquet", "validation", files) == EXPECTED


def test_ids_that_end_in_a_label_are_numbers(files: FolderFiles) -> None:
    """Upstream's `63735n` is the neutral hypothesis of prompt 63735; both forms count the rows with a gold label."""
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


def test_train_is_one_part(files: FolderFiles) -> None:
    write_zip(files, "train", raw("matched"))
    assert [example.id for example in read_form(MULTINLI, "upstream zip", "train", files)] == ["1a", "2b"]


def test_a_row_without_a_prompt_is_its_own_group(files: FolderFiles) -> None:
    rows = [{key: value for key, value in row.items() if key != "promptID"} for row in raw("matched")]
    write_zip(files, "train", rows)
    assert [example.units for example in read_form(MULTINLI, "upstream zip", "train", files)] == [
        (RAN, "1a"),
        (RAN, "2b"),
    ]
