from __future__ import annotations

import hashlib

import pytest

from decabench.prompts import extract
from decabench.tasks.datasets import reviews
from decabench.tasks.datasets.reviews import FDU, IMDB, MR, PRODUCTS, SENTENCES, SUBJ
from decabench.tasks.datasets.sst import SST_FINE
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_lines, write_parquet

# What datasets of reviews share is what the decathlon asks of sst.


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("very negative", "very negative"),
        ("Very Positive.", "very positive"),
        ("The review is positive.", "positive"),
        ("Answer: negative\n\nReview: next", "negative"),
        ("neutral", "neutral"),
    ],
)
def test_labels_that_are_parts_of_others_are_told_apart(text: str, label: str) -> None:
    form = SST_FINE.answer_form
    question = "Is this review very negative, negative, neutral, positive, or very positive?"
    assert extract(text, form, question).answer == label


# IMDB: the hub's parquet, of which the last training reviews of each label validate.


@pytest.fixture
def small(files: FolderFiles, monkeypatch: pytest.MonkeyPatch) -> FolderFiles:
    """Ten training reviews of each label, three of them for validation."""
    monkeypatch.setattr(reviews, "_IMDB_LABEL", 10)
    monkeypatch.setattr(reviews, "_IMDB_VALIDATION", 3)
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


# Sentences of Kotzias et al.: a sentence, a tab and a label a line; some hold characters that look like ends.


@pytest.mark.parametrize("form", ["upstream zip", "text file"])
def test_lines(files: FolderFiles, form: str) -> None:
    lines = ["Bad.  \t0", "Caf\u00e9\x85 and\ttab\t1"]
    write_lines(files.folder / "imdb_labelled.txt", lines)
    found = read_form(SENTENCES["sentences.imdb"], form, "test", files)
    assert [(example.context, example.answers[0]) for example in found] == [
        ("Bad.", "negative"),
        ("Caf\u00e9\x85 and\ttab", "positive"),
    ]


# SUBJ and MR: a sentence a line in Windows-1252, in a file a label, and splits that upstream does not have.


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


# FDU-MTL: one label and review per line, the last 200 lines for validation. Products: the same reviews, another split.

QUESTION = "Is this review negative or positive?"


@pytest.fixture
def domain(files: FolderFiles) -> FolderFiles:
    """1,000 training reviews and 400 test reviews. Every fifth test review is also a training review."""
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
            Example(id, QUESTION, text, (label,), (hashlib.sha256(text.encode()).hexdigest()[:16], id))
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
    write_lines(files.folder / "books.task.train", ["1\tx"] * 200)
    write_lines(files.folder / "books.task.test", ["1\tgood", "0\tbad", "1\tgood", "0\tgood"])
    examples = read(files, "test")
    units = [example.units for example in examples]
    (bad,) = (example.units[0] for example in examples if example.context == "bad")
    assert len({unit[0] for unit in units} - {bad}) == 1
    assert [unit[-1] for unit in units] == [f"fdu.books.test.{number}" for number in range(4)]
