"""CNN/DailyMail, not anonymised: summarization."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import partial

from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import hub_file, parquet_records
from decabench.tasks.task import ContextLimit, Files, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, fixed, labelled_prompt

_QUESTION = "What is the summary?"
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


def _summary(highlights: str) -> str:
    """Join lines into one NFKC-normalised text, adding a period to each line that ends without punctuation."""
    stripped = (line.strip() for line in highlights.split("\n"))
    ended = (line if line.endswith(_END_MARKS) else f"{line}." for line in stripped if line)
    return unicodedata.normalize("NFKC", " ".join(ended))


_HUB = ("abisee/cnn_dailymail", "96df5e686bee6baa90b8bee7c28b81fa3fa6223d")
_PARTS = {"train": 3, "validation": 1, "test": 1}


def _names(split: str, parts: int) -> tuple[str, ...]:
    return tuple(f"3.0.0/{split}-{part:05d}-of-{parts:05d}.parquet" for part in range(parts))


def _read_parquet(files: Files, split: str, parts: int) -> Iterator[Example]:
    for name in _names(split, parts):
        for row in parquet_records(files, name, ("article", "highlights", "id")):
            article = unicodedata.normalize("NFKC", row.text("article")).strip()
            id = row.text("id")
            yield Example(id, _QUESTION, article, (_summary(row.text("highlights")),), (id,))


def _read_hub(files: Files, split: str) -> Iterator[Example]:
    return _read_parquet(files, split, _PARTS[split])


# The task

_PROMPT = labelled_prompt(
    "Article",
    instruction=(
        "You are given a news article. Answer the question with three or four short sentences that say what is most "
        "important, in the article's own words where they serve. Give only the summary, as one paragraph of plain "
        "text without a title or list."
    ),
    answer="Summary:",
    form=AnswerForm("text"),
)

_VARIANTS = (
    fixed("summarize", _QUESTION, "Summarize this article"),
    fixed("highlights", _QUESTION, "What are the highlights of this article?"),
    fixed("few-sentences", _QUESTION, "What does this article say, in a few sentences?"),
)

CNN_DAILYMAIL = Task(
    name="cnn_dailymail",
    title="Summarization",
    dataset="CNN/DailyMail",
    output=Text(max_tokens=384),
    metric="rouge",
    counts={"train": 287_227, "validation": 13_368, "test": 11_490},
    sources=(
        Source(
            "hub parquet",
            {
                split: tuple(hub_file(*_HUB, name) for name in _names(split, _PARTS[split]))
                for split in _PARTS
            },
            _read_hub,
            counts={"train": 287_113},
        ),
        Source(
            "parquet, one file a split",
            {split: (RemoteFile(_names(split, 1)[0]),) for split in _PARTS},
            partial(_read_parquet, parts=1),
        ),
    ),
    licence="The articles are CNN's and the Daily Mail's; for research, not to be redistributed",
    citation="Hermann et al. 2015, Teaching Machines to Read and Comprehend; See et al. 2017",
    homepage="https://github.com/abisee/cnn-dailymail",
    notes=(
        "The hub's parquet drops 114 of the paper's 287,227 training documents, which have no text, and adds ` .` to "
        "lines without punctuation."
    ),
    unit_names=("document",),
    prompt=_PROMPT,
    variants=_VARIANTS,
    context_limit=ContextLimit(400, "cut"),
    redistributable=False,
    withhold_texts=True,
)
