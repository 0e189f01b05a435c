"""SUBJ and MR: a sentence a line in Windows-1252, in a file a label, and splits that upstream does not have."""

from __future__ import annotations

import hashlib

import pytest

from decabench.tasks.datasets.pang_lee import MR, SUBJ
from tests.tasks.fixtures import FolderFiles, read_form, write_lines, write_parquet


@pytest.mark.parametrize("form", ["nltk zip", "text files"])
def test_subj(files: FolderFiles, form: str) -> None:
    names = {"objective": "plot.tok.gt9.5000", "subjective": "quote.tok.gt9.5000"}
    for label, member in names.items():
        path = member if form == "nltk zip" else f"subj.{label}"
        write_lines(files.folder / path, [f"{label} {number} . " for number in range(20)])
    found = {split: read_form(SUBJ, form, split, files) for split in ("train", "validation", "test")}
    assert {split: len(examples) for split, examples in found.items()} == {
        "train": 32,
        "validation": 4,
        "test": 4,
    }
    in_order = [example for split in ("test", "validation", "train") for example in found[split]]
    texts = [f"{label} {number} ." for label in names for number in range(20)]
    assert [example.context for example in in_order] == sorted(
        texts, key=lambda text: hashlib.sha256(f"subj\n{text}".encode()).hexdigest()
    )
    first = found["test"][0]
    assert first.question == "Is this sentence objective or subjective?"
    assert first.answers == (first.context.split()[0],)
    assert (first.id, first.units) == ("subj.test.0", ("subj.test.0",))


def test_forms_of_mr_are_alike(files: FolderFiles) -> None:
    """The hub's split: the first 80 % of each label, the next 10 %, the last 10 %; in an order that hides the label."""
    sides = {
        "pos": [f"good {number}" for number in range(31)],
        "neg": [f"bad {number}" for number in range(31)],
    }
    for end, lines in sides.items():
        write_lines(files.folder / f"rt-polarity.{end}", (f"{line} " for line in lines))
    slices = {"train": slice(0, 25), "validation": slice(25, 28), "test": slice(28, None)}
    for split, part in slices.items():
        rows = [{"text": text, "label": 1} for text in sides["pos"][part]]
        rows += [{"text": text, "label": 0} for text in sides["neg"][part]]
        write_parquet(files.folder / f"{split}.parquet", rows)
        found = read_form(MR, "text files", split, files)
        assert found == read_form(MR, "hub parquet", split, files)
        assert [example.id for example in found] == [f"mr.{split}.{at}" for at in range(len(rows))]
        rows.sort(key=lambda row: hashlib.sha256(f"reviews\n{row['text']}".encode()).hexdigest())
        assert [(example.context, example.answers[0]) for example in found] == [
            (row["text"], "positive" if row["label"] else "negative") for row in rows
        ]
