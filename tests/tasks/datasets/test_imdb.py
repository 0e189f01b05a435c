"""IMDB: the hub's parquet, of which the last training reviews of each label validate."""

from __future__ import annotations

import hashlib

import pytest

from decabench.tasks.datasets import imdb
from decabench.tasks.datasets.imdb import IMDB
from tests.tasks.fixtures import FolderFiles, read_form, write_parquet


@pytest.fixture
def small(files: FolderFiles, monkeypatch: pytest.MonkeyPatch) -> FolderFiles:
    """Ten training reviews of each label, of which three validate."""
    monkeypatch.setattr(imdb, "_LABEL", 10)
    monkeypatch.setattr(imdb, "_VALIDATION", 3)
    for split in ("train", "test"):
        rows = [{"text": f"{split} {number}<br />", "label": number // 10} for number in range(20)]
        write_parquet(files.folder / f"plain_text/{split}-00000-of-00001.parquet", rows)
    return files


def test_the_last_of_each_label_validate(small: FolderFiles) -> None:
    numbers = {
        split: sorted(
            int(e.context.split()[1].removesuffix("<br"))
            for e in read_form(IMDB, "hub parquet", split, small)
        )
        for split in ("train", "validation", "test")
    }
    assert numbers == {
        "train": [*range(7), *range(10, 17)],
        "validation": [7, 8, 9, 17, 18, 19],
        "test": [*range(20)],
    }


def test_an_example(small: FolderFiles) -> None:
    examples = read_form(IMDB, "hub parquet", "validation", small)
    assert [example.id for example in examples] == [f"imdb.validation.{at}" for at in range(6)]
    answers = {example.context: example.answers for example in examples}
    assert answers["train 19<br />"] == ("positive",)
    assert answers["train 7<br />"] == ("negative",)


def test_the_order_does_not_tell_the_label(small: FolderFiles) -> None:
    """That of the texts' digests: upstream's is negative first."""
    contexts = [example.context for example in read_form(IMDB, "hub parquet", "test", small)]
    assert contexts == sorted(
        contexts, key=lambda text: hashlib.sha256(f"reviews\n{text}".encode()).hexdigest()
    )
