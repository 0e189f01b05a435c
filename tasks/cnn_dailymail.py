"""CNN/DailyMail, not anonymised: summarization."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from decabench.tasks.example import Example
from decabench.tasks.stories import STORY_FILES, read_stories
from decabench.tasks.task import Files, Hub, RemoteFile, Source, Task
from decabench.tasks.urls import hub_file
from decabench.tasks.variants import fixed

__all__ = ["CNN_DAILYMAIL"]

_QUESTION = "What is the summary?"
_SPLITS = ("train", "validation", "test")
_END_MARKS = (
    ".",
    "!",
    "?",
    "'",
    "`",
    '"',
    "\N{RIGHT SINGLE QUOTATION MARK}",
    "\N{RIGHT DOUBLE QUOTATION MARK}",
    ")",
)
_HUB = Hub("abisee/cnn_dailymail", "96df5e686bee6baa90b8bee7c28b81fa3fa6223d")
_PARTS = {"train": 3, "validation": 1, "test": 1}


def _names(split: str, parts: int) -> tuple[str, ...]:
    return tuple(f"3.0.0/{split}-{part:05d}-of-{parts:05d}.parquet" for part in range(parts))


def _joined(lines: Sequence[str]) -> str:
    """Lines as one text: a missing final period is added to each, compatibility forms are folded (NFKC)."""
    stripped = (line.strip() for line in lines)
    ended = (line if line.endswith(_END_MARKS) else f"{line}." for line in stripped if line)
    return unicodedata.normalize("NFKC", " ".join(ended))


def _example(id: str, article: str, highlights: Sequence[str]) -> Example:
    return Example(id, _QUESTION, article, (_joined(highlights),), id)


def _read_parquet(files: Files, split: str, parts: int) -> Iterator[Example]:
    for name in _names(split, parts):
        for row in files.rows(name, ("article", "highlights", "id")):
            article = unicodedata.normalize("NFKC", row["article"]).strip()
            yield _example(row["id"], article, row["highlights"].split("\n"))


def _read_hub(files: Files, split: str) -> Iterator[Example]:
    return _read_parquet(files, split, _PARTS[split])


def _read_single_file(files: Files, split: str) -> Iterator[Example]:
    return _read_parquet(files, split, 1)


def _read_stories(files: Files, split: str) -> Iterator[Example]:
    for id, article, highlights in read_stories(files, split):
        yield _example(id, _joined(article), highlights)


_VARIANTS = (
    fixed("summarize", _QUESTION, "Summarize this article"),
    fixed("highlights", _QUESTION, "What are the highlights of this article?"),
    fixed("few-sentences", _QUESTION, "What does this article say, in a few sentences?"),
)

CNN_DAILYMAIL = Task(
    name="cnn_dailymail",
    title="Summarization",
    dataset="CNN/DailyMail",
    metric="rouge",
    counts={"train": 287_227, "validation": 13_368, "test": 11_490},
    sources=(
        Source(
            "hub parquet",
            {
                split: tuple(hub_file(_HUB, name) for name in _names(split, _PARTS[split]))
                for split in _SPLITS
            },
            _read_hub,
            hub=_HUB,
        ),
        Source("upstream stories", STORY_FILES, _read_stories),
        Source(
            "parquet, one file a split",
            {split: (RemoteFile(_names(split, 1)[0]),) for split in _SPLITS},
            _read_single_file,
        ),
    ),
    licence="The articles are CNN's and the Daily Mail's; for research, not to be passed on",
    citation="Hermann et al. 2015, Teaching Machines to Read and Comprehend; See et al. 2017",
    homepage="https://github.com/abisee/cnn-dailymail",
    notes=(
        "The hub's parquet drops 114 training documents without text and ends lines that had no mark in ` .`; "
        "upstream's stories give the paper's 287,227."
    ),
    variants=_VARIANTS,
)
