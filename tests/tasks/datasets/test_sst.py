"""SST: whole sentences with a label, from csv or jsonl."""

from __future__ import annotations

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.sst import SST, SST_FINE
from tests.tasks.fixtures import FolderFiles, read_form, write_csv, write_lines


def test_unquoted_csv(files: FolderFiles) -> None:
    write_lines(files.folder / "dev_binary_sent.csv", ["label,sentence", "0,No yuks .", '1,"So, so good"'])
    contexts = [example.context for example in read_form(SST, "upstream csv", "validation", files)]
    assert contexts == ["No yuks .", "So, so good"]


@pytest.mark.parametrize(("split", "stem"), [("train", "train"), ("validation", "dev"), ("test", "test")])
def test_five_classes(files: FolderFiles, split: str, stem: str) -> None:
    labels = ("very negative", "negative", "neutral", "positive", "very positive")
    rows = [(str(number), f"sentence {number}, with a comma") for number in (4, 0, 2, 1, 3)]
    write_csv(files.folder / f"{stem}_fine_sent.csv", [("label", "sentence"), *rows])
    found = read_form(SST_FINE, "decaNLP csv", split, files)
    assert [example.answers for example in found] == [(labels[int(label)],) for label, _ in rows]
    assert (found[0].id, found[0].context) == (f"sst.fine.{split}.0", "sentence 4, with a comma")


def test_a_sixth_class_is_refused(files: FolderFiles) -> None:
    write_csv(files.folder / "dev_fine_sent.csv", [("label", "sentence"), ("5", "x")])
    with pytest.raises(DataError, match="'label' must be"):
        read_form(SST_FINE, "decaNLP csv", "validation", files)
