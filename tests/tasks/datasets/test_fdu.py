"""FDU-MTL: a label and a review a line, the last 200 lines for validation; products, the same reviews split anew."""

from __future__ import annotations

import hashlib

import pytest

from decabench.tasks.datasets.fdu import FDU, PRODUCTS
from decabench.tasks.datasets.reviews import text_units
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_lines

QUESTION = "Is this review negative or positive?"


@pytest.fixture
def domain(files: FolderFiles) -> FolderFiles:
    """1,000 reviews for training and 400 for testing, every fifth of them one of the training reviews."""
    train = [f"{number % 2}\treview {number} " for number in range(1_000)]
    test = [f"1\treview {number if number % 5 == 0 else f'{number} of test'} " for number in range(400)]
    for stem in ("books", "MR"):
        write_lines(files.folder / f"{stem}.task.train", train)
        write_lines(files.folder / f"{stem}.task.test", test)
    return files


def read(files: FolderFiles, split: str, name: str = "fdu.books") -> list[Example]:
    return read_form((FDU | PRODUCTS)[name], "text files", split, files)


def test_the_last_200_lines_of_train_validate(domain: FolderFiles) -> None:
    train, validation, test = (read(domain, split) for split in ("train", "validation", "test"))
    assert (len(train), len(validation), len(test)) == (800, 200, 400)
    for split, examples, numbers in (
        ("train", train, range(800)),
        ("validation", validation, range(800, 1_000)),
    ):
        rows = [(f"review {number} ", ("negative", "positive")[number % 2]) for number in numbers]
        rows.sort(key=lambda row: hashlib.sha256(f"reviews\n{row[0]}".encode()).hexdigest())
        ids = [f"fdu.books.{split}.{at}" for at in range(len(rows))]
        assert examples == [
            Example(id, QUESTION, text, (label,), text_units(id, text))
            for id, (text, label) in zip(ids, rows, strict=True)
        ]


def test_products_are_split_anew_and_equal_texts_stay_together(domain: FolderFiles) -> None:
    train, validation, test = (
        read(domain, split, "products.books") for split in ("train", "validation", "test")
    )
    assert (len(train), len(validation), len(test)) == (800, 200, 400)
    everything = [*train, *validation, *test]
    assert sorted((example.context, example.answers[0]) for example in everything) == sorted(
        (example.context, example.answers[0])
        for split in ("train", "validation", "test")
        for example in read(domain, split)
    )
    assert not {example.context for example in test} & {example.context for example in train}
    assert everything[0].id == "products.books.train.0"


def test_a_review_that_stands_there_twice_is_one_unit(files: FolderFiles) -> None:
    """Copies are drawn together. The innermost unit, which the fingerprint covers, stays the id."""
    write_lines(files.folder / "books.task.train", ["1\tx"] * 200)
    write_lines(files.folder / "books.task.test", ["1\tgood", "0\tbad", "1\tgood", "0\tgood"])
    examples = read(files, "test")
    units = [example.units for example in examples]
    (bad,) = (example.units[0] for example in examples if example.context == "bad")
    assert len({unit[0] for unit in units} - {bad}) == 1
    assert [unit[-1] for unit in units] == [f"fdu.books.test.{number}" for number in range(4)]
