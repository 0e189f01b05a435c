"""Kotzias et al. 2015: single sentences of reviews of products (Amazon), restaurants (Yelp) and films (IMDB).

They have no split and are all for testing: the decathlon's paper asks a model that was trained on sst about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from decabench.tasks.datasets.reviews import (
    SENTIMENT,
    SENTIMENT_VARIANTS,
    in_random_order,
    review_examples,
    review_prompt,
)
from decabench.tasks.example import Example
from decabench.tasks.readers import text_lines
from decabench.tasks.task import Files, RemoteFile, Source, Task

__all__ = ["SENTENCES"]

_ZIP = "sentiment+labelled+sentences.zip"
_URL = f"https://archive.ics.uci.edu/static/public/331/{_ZIP}"
_ARCHIVE = RemoteFile(
    _ZIP, (_URL,), "afc26626d710899948693e1a61405dce197f57ffa719fa1130d346b4cc095343", 84_188
)


def _read(site: str, name: str, files: Files, split: str) -> Iterator[Example]:
    yield from review_examples(f"sentences.{site}", split, in_random_order(_rows(files.path(name))))


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (label, text)."""
    for line in text_lines(path):
        text, tab, label = line.value.rpartition("\t")
        if not tab or label not in ("0", "1"):
            raise line.fault("it must be a sentence, a tab and 0 or 1")
        yield SENTIMENT.names[int(label)], text.strip()


def _task(site: str, name: str, reviewed: str) -> Task:
    return Task(
        name=f"sentences.{site}",
        title="Sentiment analysis",
        dataset=f"Sentiment labelled sentences, {reviewed}",
        output=SENTIMENT,
        metric="accuracy",
        secondary=("macro_f1", "mcc"),
        counts={"test": 1_000},
        sources=(
            Source(
                "upstream zip",
                {"test": (_ARCHIVE,)},
                partial(_read, site, name),
                members=(f"sentiment labelled sentences/{name}",),
            ),
            Source("text file", {"test": (RemoteFile(name),)}, partial(_read, site, name)),
        ),
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
        citation="Kotzias et al. 2015, From Group to Individual Labels Using Deep Features",
        homepage="https://archive.ics.uci.edu/dataset/331/sentiment+labelled+sentences",
        notes="There is no split: all 1,000 sentences are for testing.",
        version=2,
        unit_names=("sentence", "copy"),
        prompt=review_prompt(f"a sentence of a review of {reviewed}"),
        variants=SENTIMENT_VARIANTS,
        shared_folder="sentences",
    )


SENTENCES = {
    f"sentences.{site}": _task(site, name, reviewed)
    for site, name, reviewed in (
        ("amazon", "amazon_cells_labelled.txt", "a product"),
        ("yelp", "yelp_labelled.txt", "a restaurant"),
        ("imdb", "imdb_labelled.txt", "a film"),
    )
}
"""The tasks of the three sites by name."""
