"""IMDB: the sentiment of whole film reviews (Maas et al. 2011). Files of the user's own, or the hub's."""

from __future__ import annotations

from collections.abc import Iterator

from decabench.tasks.datasets.reviews import (
    SENTIMENT,
    SENTIMENT_VARIANTS,
    in_random_order,
    review_examples,
    review_prompt,
)
from decabench.tasks.example import Example
from decabench.tasks.readers import hub_file, parquet_records
from decabench.tasks.task import Files, Source, Task

__all__ = ["IMDB"]

_HUB = ("stanfordnlp/imdb", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31")
_PARTS = {"train": "train", "validation": "train", "test": "test"}
_LABEL = 12_500
"""Training reviews of each label, grouped, negative ones first."""
_VALIDATION = 1_250
"""The last training reviews of each label, used for validation: reviews of the same film are next to each other."""


def _read(files: Files, split: str) -> Iterator[Example]:
    yield from review_examples("imdb", split, in_random_order(_rows(files, split)))


def _rows(files: Files, split: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text)."""
    rows = parquet_records(files, f"plain_text/{_PARTS[split]}-00000-of-00001.parquet", ("text", "label"))
    for number, row in enumerate(rows):
        is_last = number % _LABEL >= _LABEL - _VALIDATION
        if split == "test" or is_last == (split == "validation"):
            yield SENTIMENT.names[row.integer("label", 0, 1)], row.text("text")


IMDB = Task(
    name="imdb",
    title="Sentiment analysis",
    dataset="IMDB, whole reviews",
    output=SENTIMENT,
    metric="accuracy",
    secondary=("macro_f1", "mcc"),
    counts={"train": 22_500, "validation": 2_500, "test": 25_000},
    sources=(
        Source(
            "hub parquet",
            {
                split: (hub_file(*_HUB, f"plain_text/{part}-00000-of-00001.parquet"),)
                for split, part in _PARTS.items()
            },
            _read,
        ),
    ),
    licence="Not stated; the reviews are their authors'; for research",
    citation="Maas et al. 2011, Learning Word Vectors for Sentiment Analysis",
    homepage="https://ai.stanford.edu/~amaas/data/sentiment/",
    notes=(
        "Upstream has no validation split: the last 1,250 training reviews of each label validate. Line breaks stay "
        "`<br />`. The hub's file does not name the film of a review. fdu.imdb is another, smaller set."
    ),
    version=2,
    unit_names=("review", "copy"),
    prompt=review_prompt("a review of a film"),
    variants=SENTIMENT_VARIANTS,
    withhold_texts=True,
)
