"""SST, whole sentences, with two labels or with five: sentiment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from decabench.tasks.example import Example
from decabench.tasks.outputs import Label
from decabench.tasks.readers import csv_records, github_raw, line_records
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import PromptTemplate, fixed

__all__ = ["SST", "SST_FINE"]

_QUESTION = "Is this review negative or positive?"
_LABELS = ("negative", "positive")
_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}
_COMMIT = "0032e4b87903713ad4242599f5dda2eb7b8c40fd"
_SETFIT = "https://huggingface.co/datasets/SetFit/sst2/resolve/00ea8ccb7a54b4e3780a3e51aa3f80361ff849c0"


_FINE_QUESTION = "Is this review very negative, negative, neutral, positive, or very positive?"
_FINE_LABELS = ("very negative", "negative", "neutral", "positive", "very positive")
_DECANLP = ("salesforce/decaNLP", "043ab56c592762517f7f14476d21cd6444d0de5c")
_SETFIT_FINE = "https://huggingface.co/datasets/SetFit/sst5/resolve/e51bdcd8cd3a30da231967c1a249ba59361279a3"


def _example(split: str, index: int, label: int, sentence: str) -> Example:
    id = f"sst.{split}.{index}"
    return Example(id, _QUESTION, sentence, (_LABELS[label],), (id,))


def _fine_example(split: str, index: int, label: int, sentence: str) -> Example:
    id = f"sst.fine.{split}.{index}"
    return Example(id, _FINE_QUESTION, sentence, (_FINE_LABELS[label],), (id,))


def _read_csv(files: Files, split: str) -> Iterator[Example]:
    path = files.path(f"{_UPSTREAM[split]}_binary_sent.csv")
    for index, row in enumerate(csv_records(path, ("label", "sentence"))):
        yield _example(split, index, int(row.choice("label", ("0", "1"))), row.text("sentence"))


def _read_jsonl(files: Files, split: str) -> Iterator[Example]:
    for index, row in enumerate(line_records(files.path(f"{_UPSTREAM[split]}.jsonl"))):
        yield _example(split, index, row.integer("label", 0, 1), row.text("text"))


def _read_fine_csv(files: Files, split: str) -> Iterator[Example]:
    path = files.path(f"{_UPSTREAM[split]}_fine_sent.csv")
    for index, row in enumerate(csv_records(path, ("label", "sentence"))):
        label = int(row.choice("label", ("0", "1", "2", "3", "4")))
        yield _fine_example(split, index, label, row.text("sentence"))


def _read_fine_jsonl(files: Files, split: str) -> Iterator[Example]:
    for index, row in enumerate(line_records(files.path(f"{_UPSTREAM[split]}.jsonl"))):
        yield _fine_example(split, index, row.integer("label", 0, 4), row.text("text"))


def _csv(split: str, sha256: str, size: int) -> tuple[RemoteFile, ...]:
    name = f"{_UPSTREAM[split]}_binary_sent.csv"
    url = github_raw("openai/generating-reviews-discovering-sentiment", _COMMIT, f"data/{name}")
    return (RemoteFile(name, (url,), sha256, size),)


def _jsonl(split: str, sha256: str | None = None) -> tuple[RemoteFile, ...]:
    name = f"{_UPSTREAM[split]}.jsonl"
    return (RemoteFile(name, (f"{_SETFIT}/{name}",), sha256),)


def _fine_csv(split: str, sha256: str, size: int) -> tuple[RemoteFile, ...]:
    name = f"{_UPSTREAM[split]}_fine_sent.csv"
    return (RemoteFile(name, (github_raw(*_DECANLP, f"local_data/{name}"),), sha256, size),)


def _fine_jsonl(split: str, sha256: str, size: int) -> tuple[RemoteFile, ...]:
    name = f"{_UPSTREAM[split]}.jsonl"
    return (RemoteFile(name, (f"{_SETFIT_FINE}/{name}",), sha256, size),)


_PROMPT = PromptTemplate(
    # The labels are named by the question alone, so that its variants are not contradicted.
    instruction=(
        "You are given a sentence of a film review. Answer with exactly one of the labels that the question names, "
        "and nothing else."
    ),
    input="Review: {context}\nQuestion: {question}",
    answer="Answer:",
    stop=("\n\n", "\nReview:", "\nQuestion:"),
)

_VARIANTS = (
    fixed("order-swapped", _QUESTION, "Is this review positive or negative?"),
    fixed(
        "happy-angry",
        _QUESTION,
        "Is this review happy or angry?",
        {"happy": "positive", "angry": "negative"},
        retired=True,  # the order changes too
    ),
    fixed(
        "supportive-unsupportive",
        _QUESTION,
        "Is this review supportive or unsupportive?",
        {"supportive": "positive", "unsupportive": "negative"},
        retired=True,  # the order changes too
    ),
    fixed("sentiment", _QUESTION, "What is the sentiment of this review, negative or positive?"),
    fixed(
        "angry-happy",
        _QUESTION,
        "Is this review angry or happy?",
        {"angry": "negative", "happy": "positive"},
    ),
    fixed(
        "unsupportive-supportive",
        _QUESTION,
        "Is this review unsupportive or supportive?",
        {"unsupportive": "negative", "supportive": "positive"},
    ),
)

SST = Task(
    name="sst",
    title="Sentiment analysis",
    dataset="SST, binary",
    output=Label(_LABELS),
    metric="em",
    counts={"train": 6_920, "validation": 872, "test": 1_821},
    sources=(
        Source(
            "upstream csv",
            {
                "train": _csv(
                    "train", "6003623bcb35aad3a446a265b8931b7ccab61fcc10f2e9c1fec916ff67c7be35", 726_331
                ),
                "validation": _csv(
                    "validation", "f34c4987fea208fefc2d62a1b42c83a766cbfc7ce58c2a878ef953cf91f01729", 92_802
                ),
                "test": _csv(
                    "test", "519cea7ed4d22fe7ec4eccbb3d5ba6d88902a3b15ce129f476aa8364463a9fc7", 190_431
                ),
            },
            _read_csv,
        ),
        Source(
            "hub jsonl",
            {
                "train": _jsonl("train", "7a4b1cfdd65be1dc48339404db86528bb2427e1d8772860ef838b76b8c38c4a8"),
                "validation": _jsonl(
                    "validation", "573c3ed18d96aa0a79a6e5980a544b80543317a319f18bd4f1660c16b2f6b939"
                ),
                "test": _jsonl("test"),
            },
            _read_jsonl,
        ),
    ),
    licence="Not stated (Stanford); for research",
    citation="Socher et al. 2013, Recursive Deep Models for Semantic Compositionality",
    homepage="https://nlp.stanford.edu/sentiment/",
    unit_names=("sentence",),
    prompt=_PROMPT,
    variants=_VARIANTS,
    curriculum="easy",
    withhold_texts=True,  # the sentences come without a licence; the labels are free
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
        Source(
            "decaNLP csv",
            {
                "train": _fine_csv(
                    "train", "7b4dd6f5678a8a3e35d322e0e821ce4323081c3dd24fd67281a4eaa30b2c9cb6", 887_306
                ),
                "validation": _fine_csv(
                    "validation", "ccf2d3b01352c043145c2892a7976d2a617675f76cd88addd7b0c9b58dd72359", 115_225
                ),
                "test": _fine_csv(
                    "test", "ee4369a454ca558083316472c40bcbad3f641432ee5dadcdd3dabfa110856f98", 229_816
                ),
            },
            _read_fine_csv,
        ),
        Source(
            "hub jsonl",
            {
                "train": _fine_jsonl(
                    "train", "46bde4fb5abc93ffbadfa9a9f67de17c08a2f535cfb5756c59188d070434f433", 1_323_698
                ),
                "validation": _fine_jsonl(
                    "validation", "4369df4d4229e736fa734af49b342c7d6002c4d8514d9c206a5aa26edc620b79", 171_422
                ),
                "test": _fine_jsonl(
                    "test", "1384216112a34f3d70b6fa210762f3399bb080410c0456ac6e54a5cb413f04b2", 342_783
                ),
            },
            _read_fine_jsonl,
        ),
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
            retired=True,  # the phrasing changes too
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
