"""SST, binary labels, whole sentences: sentiment."""

from __future__ import annotations

from collections.abc import Iterator

from decabench.tasks.example import Example
from decabench.tasks.outputs import Label
from decabench.tasks.readers import csv_records, github_raw, line_records
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import PromptTemplate, fixed

__all__ = ["SST"]

_QUESTION = "Is this review negative or positive?"
_LABELS = ("negative", "positive")
_UPSTREAM = {"train": "train", "validation": "dev", "test": "test"}
_COMMIT = "0032e4b87903713ad4242599f5dda2eb7b8c40fd"
_SETFIT = "https://huggingface.co/datasets/SetFit/sst2/resolve/00ea8ccb7a54b4e3780a3e51aa3f80361ff849c0"


def _example(split: str, index: int, label: int, sentence: str) -> Example:
    id = f"sst.{split}.{index}"
    return Example(id, _QUESTION, sentence, (_LABELS[label],), (id,))


def _read_csv(files: Files, split: str) -> Iterator[Example]:
    path = files.path(f"{_UPSTREAM[split]}_binary_sent.csv")
    for index, row in enumerate(csv_records(path, ("label", "sentence"))):
        yield _example(split, index, int(row.choice("label", ("0", "1"))), row.text("sentence"))


def _read_jsonl(files: Files, split: str) -> Iterator[Example]:
    for index, row in enumerate(line_records(files.path(f"{_UPSTREAM[split]}.jsonl"))):
        yield _example(split, index, row.integer("label", 0, 1), row.text("text"))


def _csv(split: str, sha256: str, size: int) -> tuple[RemoteFile, ...]:
    name = f"{_UPSTREAM[split]}_binary_sent.csv"
    url = github_raw("openai/generating-reviews-discovering-sentiment", _COMMIT, f"data/{name}")
    return (RemoteFile(name, (url,), sha256, size),)


def _jsonl(split: str, sha256: str | None = None) -> tuple[RemoteFile, ...]:
    name = f"{_UPSTREAM[split]}.jsonl"
    return (RemoteFile(name, (f"{_SETFIT}/{name}",), sha256),)


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
    ),
    fixed(
        "supportive-unsupportive",
        _QUESTION,
        "Is this review supportive or unsupportive?",
        {"supportive": "positive", "unsupportive": "negative"},
    ),
    fixed("sentiment", _QUESTION, "What is the sentiment of this review, negative or positive?"),
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
