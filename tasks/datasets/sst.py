"""SST: the sentiment of whole sentences, with two or five labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from decabench.tasks.datasets.reviews import QUESTION, SENTIMENT, SENTIMENT_VARIANTS, review_prompt
from decabench.tasks.example import Example
from decabench.tasks.outputs import Label
from decabench.tasks.readers import csv_records, github_raw, line_records, listed_files
from decabench.tasks.task import Files, Source, Task
from decabench.tasks.wording import fixed

_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}

_FINE_QUESTION = "Is this review very negative, negative, neutral, positive, or very positive?"
_FINE_LABELS = ("very negative", "negative", "neutral", "positive", "very positive")


def _csv_rows(kind: str, files: Files, split: str) -> Iterator[tuple[int, str]]:
    """Yield a (label number, sentence) pair for each row. `kind` is part of the file name: `binary` or `fine`."""
    for row in csv_records(files.path(f"{_UPSTREAM[split]}_{kind}_sent.csv")):
        yield int(row.choice("label", tuple("01" if kind == "binary" else "01234"))), row.text("sentence")


def _jsonl_rows(last: int, files: Files, split: str) -> Iterator[tuple[int, str]]:
    """Yield a (label number, sentence) pair for each row. `last` is the highest label number."""
    for row in line_records(files.path(f"{_UPSTREAM[split]}.jsonl")):
        yield row.integer("label", 0, last), row.text("text")


def _read(
    task: str, rows: Callable[[Files, str], Iterator[tuple[int, str]]], files: Files, split: str
) -> Iterator[Example]:
    question, labels = (QUESTION, SENTIMENT.names) if task == "sst" else (_FINE_QUESTION, _FINE_LABELS)
    for index, (label, sentence) in enumerate(rows(files, split)):
        id = f"{task}.{split}.{index}"
        yield Example(id, question, sentence, (labels[label],), (id,))


_CSV_FILES = listed_files(
    github_raw(
        "openai/generating-reviews-discovering-sentiment", "0032e4b87903713ad4242599f5dda2eb7b8c40fd", "data"
    ),
    """
    train      6003623bcb35aad3a446a265b8931b7ccab61fcc10f2e9c1fec916ff67c7be35 726_331 train_binary_sent.csv
    validation f34c4987fea208fefc2d62a1b42c83a766cbfc7ce58c2a878ef953cf91f01729 92_802  dev_binary_sent.csv
    test       519cea7ed4d22fe7ec4eccbb3d5ba6d88902a3b15ce129f476aa8364463a9fc7 190_431 test_binary_sent.csv
    """,
)
_JSONL_FILES = listed_files(
    "https://huggingface.co/datasets/SetFit/sst2/resolve/00ea8ccb7a54b4e3780a3e51aa3f80361ff849c0",
    """
    train      7a4b1cfdd65be1dc48339404db86528bb2427e1d8772860ef838b76b8c38c4a8 - train.jsonl
    validation 573c3ed18d96aa0a79a6e5980a544b80543317a319f18bd4f1660c16b2f6b939 - dev.jsonl
    test       - - test.jsonl
    """,
)
_FINE_CSV_FILES = listed_files(
    github_raw("salesforce/decaNLP", "043ab56c592762517f7f14476d21cd6444d0de5c", "local_data"),
    """
    train      7b4dd6f5678a8a3e35d322e0e821ce4323081c3dd24fd67281a4eaa30b2c9cb6 887_306 train_fine_sent.csv
    validation ccf2d3b01352c043145c2892a7976d2a617675f76cd88addd7b0c9b58dd72359 115_225 dev_fine_sent.csv
    test       ee4369a454ca558083316472c40bcbad3f641432ee5dadcdd3dabfa110856f98 229_816 test_fine_sent.csv
    """,
)
_FINE_JSONL_FILES = listed_files(
    "https://huggingface.co/datasets/SetFit/sst5/resolve/e51bdcd8cd3a30da231967c1a249ba59361279a3",
    """
    train      46bde4fb5abc93ffbadfa9a9f67de17c08a2f535cfb5756c59188d070434f433 1_323_698 train.jsonl
    validation 4369df4d4229e736fa734af49b342c7d6002c4d8514d9c206a5aa26edc620b79 171_422   dev.jsonl
    test       1384216112a34f3d70b6fa210762f3399bb080410c0456ac6e54a5cb413f04b2 342_783   test.jsonl
    """,
)

_ORDER, _HAPPY, _SENTIMENT, _ANGRY = SENTIMENT_VARIANTS
_VARIANTS = (
    _ORDER,
    _HAPPY,
    fixed(
        "supportive-unsupportive",
        QUESTION,
        "Is this review supportive or unsupportive?",
        {"supportive": "positive", "unsupportive": "negative"},
        retired=True,  # the order changes, too
    ),
    _SENTIMENT,
    _ANGRY,
    fixed(
        "unsupportive-supportive",
        QUESTION,
        "Is this review unsupportive or supportive?",
        {"unsupportive": "negative", "supportive": "positive"},
    ),
)

SST = Task(
    name="sst",
    title="Sentiment analysis",
    dataset="SST, binary",
    output=SENTIMENT,
    metric="em",
    counts={"train": 6_920, "validation": 872, "test": 1_821},
    sources=(
        Source("upstream csv", _CSV_FILES, partial(_read, "sst", partial(_csv_rows, "binary"))),
        Source("hub jsonl", _JSONL_FILES, partial(_read, "sst", partial(_jsonl_rows, 1))),
    ),
    licence="Not stated (Stanford); for research",
    citation="Socher et al. 2013, Recursive Deep Models for Semantic Compositionality",
    homepage="https://nlp.stanford.edu/sentiment/",
    unit_names=("sentence",),
    prompt=review_prompt("a sentence of a film review"),
    variants=_VARIANTS,
    curriculum="easy",
    withhold_texts=True,  # the sentences have no license; the labels are free
)

SST_FINE = replace(
    SST,
    name="sst.fine",
    dataset="SST, five classes",
    output=Label(_FINE_LABELS),
    metric="accuracy",
    secondary=("macro_f1", "mcc"),
    counts={"train": 8_544, "validation": 1_101, "test": 2_210},
    sources=(
        Source("decaNLP csv", _FINE_CSV_FILES, partial(_read, "sst.fine", partial(_csv_rows, "fine"))),
        Source("hub jsonl", _FINE_JSONL_FILES, partial(_read, "sst.fine", partial(_jsonl_rows, 4))),
    ),
    variants=(
        fixed(
            "order-swapped",
            _FINE_QUESTION,
            "Is this review very positive, positive, neutral, negative, or very negative?",
        ),
        fixed(
            "stars",
            _FINE_QUESTION,
            "Does this review give one, two, three, four, or five stars?",
            dict(zip(("one", "two", "three", "four", "five"), _FINE_LABELS, strict=True)),
            retired=True,  # the wording changes, too
        ),
        fixed(
            "sentiment",
            _FINE_QUESTION,
            "What is the sentiment of this review: very negative, negative, neutral, positive, or very positive?",
        ),
        fixed(
            "terrible-great",
            _FINE_QUESTION,
            "Is this review terrible, bad, okay, good, or great?",
            dict(zip(("terrible", "bad", "okay", "good", "great"), _FINE_LABELS, strict=True)),
        ),
    ),
    curriculum=None,
)
