"""Reviews and sentences about films and products: FDU-MTL, IMDB, MR, SUBJ, and single sentences from three sites.

All tasks except SUBJ ask the same question about sentiment as sst. The files are often sorted by label, so
examples are sorted by a digest of their text.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from decabench.tasks.example import SPLITS, Example
from decabench.tasks.outputs import Label
from decabench.tasks.readers import (
    github_raw,
    hub_source,
    listed_files,
    parquet_records,
    shuffle_key,
    text_lines,
)
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import PromptTemplate, fixed, labelled_prompt

QUESTION = "Is this review negative or positive?"
"""The question asked about every review, worded as in the decathlon's sst."""

SENTIMENT = Label(("negative", "positive"))
"""The labels that the published files write as 0 and 1."""

SENTIMENT_VARIANTS = (
    fixed("order-swapped", QUESTION, "Is this review positive or negative?"),
    fixed(
        "happy-angry",
        QUESTION,
        "Is this review happy or angry?",
        {"happy": "positive", "angry": "negative"},
        retired=True,  # the order changes, too
    ),
    fixed("sentiment", QUESTION, "What is the sentiment of this review, negative or positive?"),
    fixed(
        "angry-happy", QUESTION, "Is this review angry or happy?", {"angry": "negative", "happy": "positive"}
    ),
)
"""Other wordings of the question."""

_Labelled = tuple[str, str]
"""A review or sentence: (label, text)."""


def review_prompt(what: str) -> PromptTemplate:
    """Return the prompt for reviews. `what` describes a review, for example `a sentence of a film review`."""
    return labelled_prompt(
        "Review",
        # Only the question names the labels, so the prompt can't contradict the question's variants.
        instruction=(
            f"You are given {what}. Answer with exactly one of the labels that the question names, and nothing else."
        ),
        gap="\n",
    )


def _examples(task: str, split: str, rows: Iterable[_Labelled]) -> Iterator[Example]:
    """Yield an example for each (label, text) row.

    All copies of a text within a split form one sampling unit, named by the text's digest.
    """
    for index, (label, text) in enumerate(rows):
        id = f"{task}.{split}.{index}"
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        yield Example(id, QUESTION, text, (label,), (digest, id))


def _read(
    task: str, rows: Callable[[Files, str], Iterable[_Labelled]], files: Files, split: str
) -> Iterator[Example]:
    """Read a split, and yield its examples sorted by a digest of their text.

    Repeated copies of a text get different digests, so that they are not next to each other.
    """
    repeats: Counter[str] = Counter()
    keyed = []
    for label, text in rows(files, split):
        repeat = f"{text}\n{repeats[text]}" if repeats[text] else text
        keyed.append((shuffle_key("reviews", repeat), label, text))
        repeats[text] += 1
    yield from _examples(task, split, [(label, text) for _, label, text in sorted(keyed)])


def _labelled_lines(files: Files, name: str, is_last: bool = False) -> Iterator[_Labelled]:
    """Yield the lines of a file. Each line has a label, 0 or 1, before the text or, if `is_last` is set, after it."""
    for line in text_lines(files.path(name)):
        first, tab, second = line.value.rpartition("\t") if is_last else line.value.partition("\t")
        label, text = (second, first.strip()) if is_last else (first, second)
        if not tab or label not in ("0", "1"):
            raise line.fault("the line must contain a label (0 or 1) and a text, separated by a tab")
        yield SENTIMENT.names[int(label)], text


def _task(name: str, reviewed: str, unit: str = "review", **about: Any) -> Task:
    return Task(
        name=name,
        title="Sentiment analysis",
        output=SENTIMENT,
        metric="accuracy",
        secondary=("macro_f1", "mcc"),
        version=2,
        unit_names=(unit, "copy"),
        prompt=review_prompt(reviewed),
        variants=SENTIMENT_VARIANTS,
        **about,
    )


# FDU-MTL: reviews of 16 domains. Each domain has a training file and a test file with lines of
# `label<TAB>text`. The last 200 lines of the training file are used for validation, as in other code for this
# data. `products.*` are the reviews of four domains that Blitzer et al. (2007) collected and that the
# shared-memory paper split differently: a domain's reviews are shuffled with a seed, the first 400 are for
# testing and the next 200 for validation.

_FDU = ("ccsasuke/man", "b57b4c14340db1ca7bffb5d9737b7c2601dc8df2")
_DOMAINS = {
    "apparel": ("apparel", 1_600),
    "baby": ("baby products", 1_500),
    "books": ("books", 1_600),
    "camera_photo": ("cameras and photography", 1_597),
    "dvd": ("DVDs", 1_600),
    "electronics": ("electronics", 1_598),
    "health_personal_care": ("health and personal care", 1_600),
    "imdb": ("films, from IMDB", 1_600),
    "kitchen_housewares": ("kitchen and housewares", 1_600),
    "magazines": ("magazines", 1_570),
    "mr": ("films, one sentence each", 1_600),
    "music": ("music", 1_600),
    "software": ("software", 1_515),
    "sports_outdoors": ("sports and outdoors", 1_600),
    "toys_games": ("toys and games", 1_600),
    "video": ("videos", 1_600),
}
"""A description of each domain, and the number of lines in its training file. Every test file has 400 lines."""

_FDU_VALIDATION, _FDU_TEST = 200, 400


def _fdu_files(domain: str) -> tuple[RemoteFile, RemoteFile]:
    stem = "MR" if domain == "mr" else domain
    train, test = (
        RemoteFile(name, (github_raw(*_FDU, f"data/fdu-mtl/{name}"),))
        for name in (f"{stem}.task.train", f"{stem}.task.test")
    )
    return train, test


def _fdu_rows(domain: str, files: Files, split: str) -> list[_Labelled]:
    train, test = _fdu_files(domain)
    rows = list(_labelled_lines(files, test.name if split == "test" else train.name))
    slices = {"train": rows[:-_FDU_VALIDATION], "validation": rows[-_FDU_VALIDATION:]}
    return slices.get(split, rows)


def _read_products(name: str, domain: str, files: Files, split: str) -> Iterator[Example]:
    rows = [row for file in _fdu_files(domain) for row in _labelled_lines(files, file.name)]
    rows.sort(key=lambda row: shuffle_key("products", row[1]))
    held_out = _FDU_TEST + _FDU_VALIDATION
    slices = {"test": rows[:_FDU_TEST], "validation": rows[_FDU_TEST:held_out], "train": rows[held_out:]}
    yield from _examples(name, split, slices[split])


def _fdu_task(name: str, domain: str, counts: dict[str, int], source: Source, notes: str) -> Task:
    return _task(
        name,
        "a review",
        dataset=f"FDU-MTL, {_DOMAINS[domain][0]}",
        counts=counts,
        sources=(source,),
        licence="Not stated; the reviews (from Amazon, IMDB and Rotten Tomatoes) belong to their authors; for research",
        citation="Liu et al. 2017, Adversarial Multi-task Learning for Text Classification",
        homepage="https://github.com/ccsasuke/man",
        shared_folder="fdu",
        withhold_texts=True,
        notes=notes,
    )


def _fdu(domain: str) -> Task:
    name, (train, test) = f"fdu.{domain}", _fdu_files(domain)
    return _fdu_task(
        name,
        domain,
        {"train": _DOMAINS[domain][1] - _FDU_VALIDATION, "validation": _FDU_VALIDATION, "test": _FDU_TEST},
        Source(
            "text files",
            {"train": (train,), "validation": (train,), "test": (test,)},
            partial(_read, name, partial(_fdu_rows, domain)),
        ),
        "Validation is the last 200 lines of the training file. Some test texts also occur in the training file: see "
        "`decabench tasks overlap --against train --against validation`.",
    )


def _product(name: str, domain: str) -> Task:
    counts = {"train": 1_400, "validation": _FDU_VALIDATION, "test": _FDU_TEST}
    train = _DOMAINS[domain][1] - _FDU_VALIDATION
    few = "" if train == 1_400 else f" There are {train:,} training reviews instead of the paper's 1,400."
    return _fdu_task(
        name,
        domain,
        counts,
        Source(
            "text files",
            dict.fromkeys(SPLITS, _fdu_files(domain)),
            partial(_read_products, name, domain),
            counts={**counts, "train": train} if few else {},
        ),
        "FDU-MTL's reviews of the domain, split at random in the shared-memory paper's proportions, "
        "because the paper doesn't describe its split. Reviews are sorted by the sha256 of "
        f"`products` and the text, so equal texts stay together.{few}",
    )


FDU = {f"fdu.{domain}": _fdu(domain) for domain in _DOMAINS}
"""The tasks of the 16 domains, by name."""

PRODUCTS = {
    name: _product(name, domain)
    for name, domain in (
        ("products.books", "books"),
        ("products.dvd", "dvd"),
        ("products.electronics", "electronics"),
        ("products.kitchen", "kitchen_housewares"),
    )
}
"""The tasks of the shared-memory paper's four domains, by name."""


# IMDB: whole film reviews (Maas et al. 2011)

_IMDB = ("stanfordnlp/imdb", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31")
_IMDB_FILES = {
    split: f"plain_text/{part}-00000-of-00001.parquet"
    for split, part in (("train", "train"), ("validation", "train"), ("test", "test"))
}
_IMDB_LABEL = 12_500
"""The number of training reviews for each label. Reviews are grouped by label, with negative reviews first."""
_IMDB_VALIDATION = 1_250
"""The number of reviews for each label that are used for validation, taken from the end of the label's group.

Reviews of the same film are next to each other, so they mostly stay in the same split.
"""


def _imdb_rows(files: Files, split: str) -> Iterator[_Labelled]:
    for number, row in enumerate(parquet_records(files, _IMDB_FILES[split], ("text", "label"))):
        is_last = number % _IMDB_LABEL >= _IMDB_LABEL - _IMDB_VALIDATION
        if split == "test" or is_last == (split == "validation"):
            yield SENTIMENT.names[row.integer("label", 0, 1)], row.text("text")


IMDB = _task(
    "imdb",
    "a review of a film",
    dataset="IMDB, whole reviews",
    counts={"train": 22_500, "validation": 2_500, "test": 25_000},
    sources=(hub_source(*_IMDB, _IMDB_FILES, partial(_read, "imdb", _imdb_rows)),),
    licence="Not stated; the reviews belong to their authors; for research",
    citation="Maas et al. 2011, Learning Word Vectors for Sentiment Analysis",
    homepage="https://ai.stanford.edu/~amaas/data/sentiment/",
    notes=(
        "Upstream has no validation split, so the last 1,250 training reviews of each label are used. "
        "Line breaks are kept as `<br />`. The hub's file doesn't say which film a review is about. "
        "fdu.imdb is a different, smaller set."
    ),
    withhold_texts=True,
)


# Kotzias et al. 2015: single sentences from reviews. The data has no splits, so all sentences are for testing.
# The decathlon paper uses them to test a model that was trained on sst.

_SENTENCES_ZIP = "sentiment+labelled+sentences.zip"
_SENTENCES_ARCHIVE = RemoteFile(
    _SENTENCES_ZIP,
    (f"https://archive.ics.uci.edu/static/public/331/{_SENTENCES_ZIP}",),
    "afc26626d710899948693e1a61405dce197f57ffa719fa1130d346b4cc095343",
    84_188,
)


def _sentence_rows(name: str, files: Files, split: str) -> Iterator[_Labelled]:
    return _labelled_lines(files, name, is_last=True)


def _sentences(site: str, reviewed: str) -> Task:
    name, file = f"sentences.{site}", f"{'amazon_cells' if site == 'amazon' else site}_labelled.txt"
    read = partial(_read, name, partial(_sentence_rows, file))
    return _task(
        name,
        f"a sentence of a review of {reviewed}",
        "sentence",
        dataset=f"Sentiment labelled sentences, {reviewed.removeprefix('a ')} reviews",
        counts={"test": 1_000},
        sources=(
            Source(
                "upstream zip",
                {"test": (_SENTENCES_ARCHIVE,)},
                read,
                members=(f"sentiment labelled sentences/{file}",),
            ),
            Source("text file", {"test": (RemoteFile(file),)}, read),
        ),
        licence="CC BY 4.0 (UCI Machine Learning Repository)",
        citation="Kotzias et al. 2015, From Group to Individual Labels Using Deep Features",
        homepage="https://archive.ics.uci.edu/dataset/331/sentiment+labelled+sentences",
        notes="The data has no splits, so all 1,000 sentences are used for testing.",
        shared_folder="sentences",
    )


SENTENCES = {
    task.name: task
    for task in (
        _sentences("amazon", "a product"),
        _sentences("yelp", "a restaurant"),
        _sentences("imdb", "a film"),
    )
}
"""The tasks of the three sites, by name."""


# Pang and Lee's sentences about films: MR (2005), negative or positive, and SUBJ (2004), objective or
# subjective

_PANG_LEE: dict[str, Any] = {
    "licence": "CC BY 4.0 (NLTK's package)",
    "homepage": "https://www.cs.cornell.edu/people/pabo/movie-review-data/",
}
_PANG_LEE_FILES = listed_files(
    "",
    """
    subj 5ddc9b44dc60d64d651347fcd7bdd489b0c70661e3f768215c16eea36f51204a 669_456 subj.objective
    subj 73a2dcf8dc3cbcc7f068a70ef9f021c86b2a8e4dac81566b7fd015b3e938f2c5 630_790 subj.subjective
    mr   2da124ec187a9d5a29c9f04e91c540e02baed5af8868f550a26bd6fd4dbf8bf0 626_139 rt-polarity.pos
    mr   4ace77d558c3714723843f1d65b60c01e3417b208180f0728808d76ad0eeeaca 612_256 rt-polarity.neg
    """,
)

# The hub's split: the first 80 % of each label for training, then 10 % for validation and 10 % for testing,
# with positive sentences first.
_MR = ("cornell-movie-review-data/rotten_tomatoes", "aa13bc287fa6fcab6daf52f0dfb9994269ffea28")


def _mr_rows(files: Files, split: str) -> Iterator[_Labelled]:
    for label, end in (("positive", "pos"), ("negative", "neg")):
        lines = list(text_lines(files.path(f"rt-polarity.{end}")))
        first, second = (int(len(lines) * share + 0.5) for share in (0.8, 0.9))
        slices = {"train": lines[:first], "validation": lines[first:second], "test": lines[second:]}
        for line in slices[split]:
            yield label, line.value.strip()


def _mr_parquet_rows(files: Files, split: str) -> Iterator[_Labelled]:
    for row in parquet_records(files, f"{split}.parquet", ("text", "label")):
        yield SENTIMENT.names[row.integer("label", 0, 1)], row.text("text").strip()


MR = _task(
    "mr",
    "a sentence of a film review",
    "sentence",
    dataset="MR, sentence polarity",
    counts={"train": 8_530, "validation": 1_066, "test": 1_066},
    sources=(
        hub_source(
            *_MR, {split: f"{split}.parquet" for split in SPLITS}, partial(_read, "mr", _mr_parquet_rows)
        ),
        Source("text files", dict.fromkeys(SPLITS, _PANG_LEE_FILES["mr"]), partial(_read, "mr", _mr_rows)),
    ),
    citation="Pang et al. 2005, Seeing Stars: Exploiting Class Relationships for Sentiment Categorization",
    notes=(
        "Upstream has no splits, so the hub's splits are used: the first 80 % of each label for training, the next "
        "10 % for validation and the rest for testing. The data contains 1,780 of the 2,210 test sentences of "
        "sst.fine, so a model that is tested on sst.fine must not train on this task."
    ),
    **_PANG_LEE,
)

# SUBJ has no splits. The shared-memory paper tests on 1,000 sentences, trains on the other 9,000, and has no
# validation data. Here, a tenth is for testing and a tenth for validation, chosen by a seeded hash of the
# text.
_SUBJ_QUESTION = "Is this sentence objective or subjective?"
_SUBJ_ZIP = RemoteFile(
    "subjectivity.zip",
    (
        github_raw(
            "nltk/nltk_data", "5db857e6f7df11eabb5e5665836db9ec8df07e28", "packages/corpora/subjectivity.zip"
        ),
    ),
    "741f3371e1a4375051b874fd82fd55857b90975473c91c19a3101cbe17fc4d8c",
    521_628,
)


def _read_subj(objective: str, subjective: str, files: Files, split: str) -> Iterator[Example]:
    sides = (("objective", objective), ("subjective", subjective))
    rows = [(line.value.strip(), label) for label, name in sides for line in text_lines(files.path(name))]
    rows.sort(key=lambda row: shuffle_key("subj", row[0]))
    tenth = len(rows) // 10
    slices = {"test": rows[:tenth], "validation": rows[tenth : 2 * tenth], "train": rows[2 * tenth :]}
    for index, (text, label) in enumerate(slices[split]):
        id = f"subj.{split}.{index}"
        yield Example(id, _SUBJ_QUESTION, text, (label,), (id,))


SUBJ = Task(
    name="subj",
    title="Subjectivity",
    dataset="SUBJ",
    output=Label(("objective", "subjective")),
    metric="accuracy",
    secondary=("macro_f1", "mcc"),
    counts={"train": 8_000, "validation": 1_000, "test": 1_000},
    sources=(
        Source(
            "nltk zip",
            dict.fromkeys(SPLITS, (_SUBJ_ZIP,)),
            partial(_read_subj, "plot.tok.gt9.5000", "quote.tok.gt9.5000"),
            members=("subjectivity/plot.tok.gt9.5000", "subjectivity/quote.tok.gt9.5000"),
        ),
        Source(
            "text files",
            dict.fromkeys(SPLITS, _PANG_LEE_FILES["subj"]),
            partial(_read_subj, "subj.objective", "subj.subjective"),
        ),
    ),
    citation="Pang et al. 2004, A Sentimental Education: Sentiment Analysis Using Subjectivity Summarization",
    notes=(
        "Upstream has no splits. Sentences are sorted by the sha256 of `subj` and the text. The first tenth is used "
        "for testing and the next tenth for validation. The shared-memory paper trains on 9,000 sentences. Many "
        "sentences also occur in sst.fine."
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
    **_PANG_LEE,
)
