from __future__ import annotations

import pytest

from decabench.tasks.datasets.sst import SST, SST_FINE
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_csv, write_jsonl

SENTENCES = [
    ("1", "A stirring, funny film ."),
    ("0", 'He says "no, ""never"" again" twice.'),
    ("1", "two\nlines"),
    ("1", "a carriage\rreturn\r\n"),
    ("0", " Müller  `` quoted '' "),
]


def expected(split: str) -> list[Example]:
    labels = {"0": "negative", "1": "positive"}
    return [
        Example(
            f"sst.{split}.{index}",
            "Is this review negative or positive?",
            sentence,
            (labels[label],),
            (f"sst.{split}.{index}",),
        )
        for index, (label, sentence) in enumerate(SENTENCES)
    ]


@pytest.mark.parametrize(
    ("split", "stem"), [("train", "train"), ("validation", "dev"), ("test", "test")], ids=str
)
def test_forms_are_alike(files: FolderFiles, split: str, stem: str) -> None:
    write_csv(files.folder / f"{stem}_binary_sent.csv", [("label", "sentence"), *SENTENCES])
    rows = [{"text": text, "label": int(label), "label_text": "?"} for label, text in SENTENCES]
    write_jsonl(files.folder / f"{stem}.jsonl", rows)
    assert read_form(SST, "upstream csv", split, files) == expected(split)
    assert read_form(SST, "hub jsonl", split, files) == expected(split)


@pytest.mark.parametrize(("split", "stem"), [("train", "train"), ("validation", "dev"), ("test", "test")])
def test_five_classes(files: FolderFiles, split: str, stem: str) -> None:
    labels = ("very negative", "negative", "neutral", "positive", "very positive")
    rows = [(str(number), f"sentence {number}, with a comma") for number in (4, 0, 2, 1, 3)]
    write_csv(files.folder / f"{stem}_fine_sent.csv", [("label", "sentence"), *rows])
    write_jsonl(files.folder / f"{stem}.jsonl", [{"text": text, "label": int(label)} for label, text in rows])
    found = read_form(SST_FINE, "decaNLP csv", split, files)
    assert found == read_form(SST_FINE, "hub jsonl", split, files)
    assert [example.answers for example in found] == [(labels[int(label)],) for label, _ in rows]
    assert (found[0].id, found[0].context) == (f"sst.fine.{split}.0", "sentence 4, with a comma")
