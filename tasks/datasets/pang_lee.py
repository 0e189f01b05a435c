"""Pang and Lee's sentences on films: subjective or objective (SUBJ, 2004), and negative or positive (MR, 2005)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from decabench.tasks.datasets.reviews import (
    SENTIMENT,
    SENTIMENT_VARIANTS,
    in_random_order,
    review_examples,
    review_prompt,
)
from decabench.tasks.example import Example
from decabench.tasks.outputs import Label
from decabench.tasks.readers import (
    github_raw,
    hub_file,
    listed_files,
    parquet_records,
    shuffle_key,
    text_lines,
)
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import fixed, labelled_prompt

__all__ = ["MR", "SUBJ"]

_NLTK = ("nltk/nltk_data", "5db857e6f7df11eabb5e5665836db9ec8df07e28")
_SPLITS = ("train", "validation", "test")

# SUBJ has no split. The shared-memory paper tests on 1,000 sentences and trains on the other 9,000, of which it
# validates on none; here a tenth tests and a tenth validates. Which they are is decided by the text and this seed.
_SUBJ_QUESTION = "Is this sentence objective or subjective?"
_SUBJ_LABELS = ("objective", "subjective")
_SUBJ_SEED = "subj"
_SUBJ_ZIP = "subjectivity.zip"
_SUBJ_MEMBERS = {"objective": "plot.tok.gt9.5000", "subjective": "quote.tok.gt9.5000"}


def _subj_examples(paths: Mapping[str, Path], split: str) -> Iterator[Example]:
    rows = [(line.value.strip(), label) for label, path in paths.items() for line in text_lines(path)]
    rows.sort(key=lambda row: shuffle_key(_SUBJ_SEED, row[0]))
    tenth = len(rows) // 10
    slices = {"test": rows[:tenth], "validation": rows[tenth : 2 * tenth], "train": rows[2 * tenth :]}
    for index, (text, label) in enumerate(slices[split]):
        id = f"subj.{split}.{index}"
        yield Example(id, _SUBJ_QUESTION, text, (label,), (id,))


def _read_subj_zip(files: Files, split: str) -> Iterator[Example]:
    members = {label: files.path(name) for label, name in _SUBJ_MEMBERS.items()}
    yield from _subj_examples(members, split)


def _read_subj(files: Files, split: str) -> Iterator[Example]:
    yield from _subj_examples({label: files.path(f"subj.{label}") for label in _SUBJ_LABELS}, split)


_TEXT_FILES = listed_files(
    "",
    """
    subj 5ddc9b44dc60d64d651347fcd7bdd489b0c70661e3f768215c16eea36f51204a 669_456 subj.objective
    subj 73a2dcf8dc3cbcc7f068a70ef9f021c86b2a8e4dac81566b7fd015b3e938f2c5 630_790 subj.subjective
    mr   2da124ec187a9d5a29c9f04e91c540e02baed5af8868f550a26bd6fd4dbf8bf0 626_139 rt-polarity.pos
    mr   4ace77d558c3714723843f1d65b60c01e3417b208180f0728808d76ad0eeeaca 612_256 rt-polarity.neg
    """,
)
_NLTK_FILE = RemoteFile(
    _SUBJ_ZIP,
    (github_raw(*_NLTK, f"packages/corpora/{_SUBJ_ZIP}"),),
    "741f3371e1a4375051b874fd82fd55857b90975473c91c19a3101cbe17fc4d8c",
    521_628,
)

SUBJ = Task(
    name="subj",
    title="Subjectivity",
    dataset="SUBJ",
    output=Label(_SUBJ_LABELS),
    metric="accuracy",
    secondary=("macro_f1", "mcc"),
    counts={"train": 8_000, "validation": 1_000, "test": 1_000},
    sources=(
        Source(
            "nltk zip",
            dict.fromkeys(_SPLITS, (_NLTK_FILE,)),
            _read_subj_zip,
            members=tuple(f"subjectivity/{name}" for name in _SUBJ_MEMBERS.values()),
        ),
        Source("text files", dict.fromkeys(_SPLITS, _TEXT_FILES["subj"]), _read_subj),
    ),
    licence="CC BY 4.0 (NLTK's package)",
    citation="Pang et al. 2004, A Sentimental Education: Sentiment Analysis Using Subjectivity Summarization",
    homepage="https://www.cs.cornell.edu/people/pabo/movie-review-data/",
    notes=(
        "Upstream has no split: sentences are sorted by the sha256 of `subj` and the text; the first tenth tests, the "
        "next validates. The shared-memory paper trains on 9,000. Many sentences are in sst.fine too."
    ),
    unit_names=("sentence",),
    prompt=labelled_prompt(
        "Sentence",
        instruction=(
            "You are given a sentence about a film: one of a review, which gives an opinion, or one of a summary of "
            "its plot, which states facts. Answer with exactly one of the labels that the question names, and "
            "nothing else."
        ),
        gap="\n",
    ),
    variants=(
        fixed("order-swapped", _SUBJ_QUESTION, "Is this sentence subjective or objective?"),
        fixed(
            "opinion-fact",
            _SUBJ_QUESTION,
            "Is this sentence fact or opinion?",
            {"fact": "objective", "opinion": "subjective"},
        ),
        fixed("which", _SUBJ_QUESTION, "Which is this sentence, objective or subjective?"),
    ),
)

# The hub's split: the first 80 % of each label train, the next 10 % validate, the last 10 % test; positive ones first.
_MR_HUB = ("cornell-movie-review-data/rotten_tomatoes", "aa13bc287fa6fcab6daf52f0dfb9994269ffea28")


def _read_mr(files: Files, split: str) -> Iterator[Example]:
    yield from review_examples("mr", split, in_random_order(_mr_rows(files, split)))


def _mr_rows(files: Files, split: str) -> Iterator[tuple[str, str]]:
    """Yield (label, text)."""
    for label, end in (("positive", "pos"), ("negative", "neg")):
        lines = list(text_lines(files.path(f"rt-polarity.{end}")))
        first, second = (int(len(lines) * share + 0.5) for share in (0.8, 0.9))
        slices = {"train": lines[:first], "validation": lines[first:second], "test": lines[second:]}
        for line in slices[split]:
            yield label, line.value.strip()


def _read_mr_parquet(files: Files, split: str) -> Iterator[Example]:
    rows = parquet_records(files, f"{split}.parquet", ("text", "label"))
    labelled = ((SENTIMENT.names[row.integer("label", 0, 1)], row.text("text").strip()) for row in rows)
    yield from review_examples("mr", split, in_random_order(labelled))


MR = Task(
    name="mr",
    title="Sentiment analysis",
    dataset="MR, sentence polarity",
    output=SENTIMENT,
    metric="accuracy",
    secondary=("macro_f1", "mcc"),
    counts={"train": 8_530, "validation": 1_066, "test": 1_066},
    sources=(
        Source(
            "hub parquet",
            {split: (hub_file(*_MR_HUB, f"{split}.parquet"),) for split in _SPLITS},
            _read_mr_parquet,
        ),
        Source("text files", dict.fromkeys(_SPLITS, _TEXT_FILES["mr"]), _read_mr),
    ),
    licence="CC BY 4.0 (NLTK's package)",
    citation="Pang et al. 2005, Seeing Stars: Exploiting Class Relationships for Sentiment Categorization",
    homepage="https://www.cs.cornell.edu/people/pabo/movie-review-data/",
    notes=(
        "Upstream has no split: the hub's is used, the first 80 % of each label for training, the next 10 % for "
        "validation. It holds 1,780 of the 2,210 test sentences of sst.fine: a model measured there must not train "
        "on it."
    ),
    unit_names=("sentence", "copy"),
    version=2,
    prompt=review_prompt("a sentence of a film review"),
    variants=SENTIMENT_VARIANTS,
)
