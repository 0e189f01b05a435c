"""IMDB: the hub's parquet, of which the last training reviews of each label validate."""

from __future__ import annotations

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
        split: [
            int(e.context.split()[1].removesuffix("<br"))
            for e in read_form(IMDB, "hub parquet", split, small)
        ]
        for split in ("train", "validation", "test")
    }
    assert numbers == {
        "train": [*range(7), *range(10, 17)],
        "validation": [7, 8, 9, 17, 18, 19],
        "test": [*range(20)],
    }


def test_an_example(small: FolderFiles) -> None:
    last = read_form(IMDB, "hub parquet", "validation", small)[-1]
    assert (last.id, last.context, last.answers) == ("imdb.validation.5", "train 19<br />", ("positive",))


def test_counts() -> None:
    assert IMDB.counts["train"] + IMDB.counts["validation"] == IMDB.counts["test"] == 25_000
    assert IMDB.counts["validation"] == 2 * imdb._VALIDATION
