"""CNN/DailyMail: summarization of news articles in which names are not anonymized.

The data is published in two forms: as parquet on the Hugging Face Hub, and as the original archives
of stories with a list of URLs for each split.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from decabench.errors import DataError, StorageError
from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import github_raw, hub_source, listed_files, open_text, parquet_records
from decabench.tasks.task import ContextLimit, Files, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, fixed, labelled_prompt

if TYPE_CHECKING:
    import sqlite3

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


def _joined(lines: Sequence[str]) -> str:
    """Join lines into one NFKC-normalized text, adding a period to each line that ends without punctuation."""
    stripped = (line.strip() for line in lines)
    ended = (line if line.endswith(_END_MARKS) else f"{line}." for line in stripped if line)
    return unicodedata.normalize("NFKC", " ".join(ended))


def _example(id: str, article: str, highlights: Sequence[str]) -> Example:
    return Example(id, _QUESTION, article, (_joined(highlights),), (id,))


# Parquet

_HUB = ("abisee/cnn_dailymail", "96df5e686bee6baa90b8bee7c28b81fa3fa6223d")
_PARTS = {"train": 3, "validation": 1, "test": 1}


def _names(split: str, parts: int) -> tuple[str, ...]:
    return tuple(f"3.0.0/{split}-{part:05d}-of-{parts:05d}.parquet" for part in range(parts))


def _read_parquet(files: Files, split: str, parts: int) -> Iterator[Example]:
    for name in _names(split, parts):
        for row in parquet_records(files, name, ("article", "highlights", "id")):
            article = unicodedata.normalize("NFKC", row.text("article")).strip()
            yield _example(row.text("id"), article, row.text("highlights").split("\n"))


def _read_hub(files: Files, split: str) -> Iterator[Example]:
    return _read_parquet(files, split, _PARTS[split])


# Upstream's stories

_ARCHIVES = (
    RemoteFile(
        "cnn_stories.tgz",
        (
            "https://huggingface.co/datasets/cnn_dailymail/resolve/"
            "11343c3752184397d56efc19a8a7cceb68089318/data/cnn_stories.tgz",
            "https://drive.usercontent.google.com/download?export=download&confirm=t&id=0BwmD_VLjROrfTHk4NFg2SndKcjQ",
        ),
        "e8fbc0027e54e0a916abd9c969eb35f708ed1467d7ef4e3b17a56739d65cb200",
        158_577_824,
    ),
    RemoteFile(
        "dailymail_stories.tgz",
        (
            "https://huggingface.co/datasets/cnn_dailymail/resolve/"
            "11343c3752184397d56efc19a8a7cceb68089318/data/dailymail_stories.tgz",
            "https://drive.usercontent.google.com/download?export=download&confirm=t&id=0BwmD_VLjROrfM1BxdkxVaTY2bWs",
        ),
        "ad69010002210b7c406718248ee66e65868b9f6820f163aa966369878d14147e",
        375_893_739,
    ),
)
_LISTS = listed_files(
    github_raw("abisee/cnn-dailymail", "8eace60f306dcbab30d1f1d715e379f07a3782db", "url_lists"),
    """
    train      e074c2245c475b00c455cefb911e0066b27fe17085dd0c773101e10d3088583b - cnn_wayback_training_urls.txt
    train      3913d6a90c29a81196128346d81c28d6c7f7e91777d886e8417163ce83b2a04a - dailymail_wayback_training_urls.txt
    validation b1ae81ff058ca640da3ae2b3c98fefca3adfea358736b6e29efc2ec1cbef5b5c - cnn_wayback_validation_urls.txt
    validation 2377b8f809bd07b143bbbd9e60594d10e7b8a211c8a5672181ea6000bbf548a2 - dailymail_wayback_validation_urls.txt
    test       a0796c3c7812e3c9fcb1a65faa9aee7bb6f8a3869e953c7f61b401790c0a6f33 - cnn_wayback_test_urls.txt
    test       554d18fc79a06a16902662d926cb7cc981ea36a3f82d5ae1426e25bf62f65b87 - dailymail_wayback_test_urls.txt
    """,
)
STORY_FILES = {split: (*_ARCHIVES, *lists) for split, lists in _LISTS.items()}

Story = tuple[str, list[str], list[str]]
"""A story: (id, lines of the article, lines of the highlights)."""


def parse_story(id: str, text: str) -> Story:
    """Parse a story file: the article's lines, then the highlights, each preceded by a line `@highlight`."""
    article: list[str] = []
    highlights: list[str] = []
    lines = article
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        if line.startswith("@highlight"):
            lines = highlights
        else:
            lines.append(line)
    return id, article, highlights


def _index(archive: Path, database: sqlite3.Connection) -> None:
    """Index an archive's stories by name. The index is on disk because it is large."""
    import sqlite3

    from decabench.archives import archive_errors, archive_members, size_limit

    most = size_limit(archive)
    try:
        with archive_errors(archive):
            for member in archive_members(archive, most):
                if member.kind == "file" and member.name.endswith(".story"):
                    row = (Path(member.name).stem, member.read(most))
                    database.execute("INSERT OR REPLACE INTO story VALUES (?, ?)", row)
    except sqlite3.OperationalError as error:  # SQLite writes to the system's temporary folder
        raise StorageError(
            f"Can't index the stories in {archive.name} ({error}). Free up disk space, then run again."
        ) from error


def read_stories(files: Files, split: str) -> Iterator[Story]:
    """Yield CNN's stories, then the Daily Mail's, in the order of their lists, as decaNLP does.

    Raises DataError if an archive lacks a story or is damaged.
    """
    import sqlite3

    for archive, urls in zip(_ARCHIVES, _LISTS[split], strict=True):
        # An unnamed database: SQLite unlinks its file on creation, so a killed run leaves nothing behind.
        with closing(sqlite3.connect("")) as database:
            database.execute("CREATE TABLE story (id TEXT PRIMARY KEY, text BLOB) WITHOUT ROWID")
            _index(files.path(archive.name), database)
            with open_text(files.path(urls.name)) as lines:
                for url in lines:
                    id = hashlib.sha1(url.strip().encode()).hexdigest()
                    found = database.execute("SELECT text FROM story WHERE id = ?", (id,)).fetchone()
                    if found is None:
                        raise DataError(
                            f"{archive.name} has no story {id}, although the list of URLs contains it ({url.strip()})."
                        )
                    try:
                        text = found[0].decode("utf-8")
                    except UnicodeDecodeError as error:
                        raise DataError(f"{archive.name}, story {id}, is not UTF-8.") from error
                    yield parse_story(id, text)


def _read_stories(files: Files, split: str) -> Iterator[Example]:
    for id, article, highlights in read_stories(files, split):
        yield _example(id, _joined(article), highlights)


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
        hub_source(
            *_HUB,
            {split: _names(split, parts) for split, parts in _PARTS.items()},
            _read_hub,
            counts={"train": 287_113},
        ),
        Source("upstream stories", STORY_FILES, _read_stories),
        Source(
            "parquet, one file a split",
            {split: (RemoteFile(_names(split, 1)[0]),) for split in _PARTS},
            partial(_read_parquet, parts=1),
        ),
    ),
    licence="The articles belong to CNN and the Daily Mail; for research; may not be redistributed",
    citation="Hermann et al. 2015, Teaching Machines to Read and Comprehend; See et al. 2017",
    homepage="https://github.com/abisee/cnn-dailymail",
    notes=(
        "The hub's parquet files leave out 114 training documents without text, and add ` .` to lines without "
        "punctuation. Upstream's stories have the paper's 287,227 training documents."
    ),
    unit_names=("document",),
    prompt=_PROMPT,
    variants=_VARIANTS,
    context_limit=ContextLimit(400, "cut"),
    redistributable=False,
    withhold_texts=True,
)
