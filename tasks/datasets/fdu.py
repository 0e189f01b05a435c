"""FDU-MTL: the sentiment of reviews in 16 domains; and four of them as the shared-memory paper splits its products.

Each domain has a file for training and one for testing, `label<TAB>text` a line. The last 200 lines of the training
file validate, as in other code for this data. `products.*` are the reviews of four domains, which Blitzer et al. (2007)
collected and the shared-memory paper split anew: all of a domain in an order that a seed decides, the first 400 for
testing, the next 200 for validation.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from decabench.tasks.datasets.reviews import (
    SENTIMENT,
    SENTIMENT_VARIANTS,
    in_random_order,
    review_examples,
    review_prompt,
)
from decabench.tasks.example import Example
from decabench.tasks.readers import github_raw, shuffle_key, text_lines
from decabench.tasks.task import Files, RemoteFile, Source, Task

__all__ = ["FDU", "PRODUCTS"]

_REPOSITORY = ("ccsasuke/man", "b57b4c14340db1ca7bffb5d9737b7c2601dc8df2")
_FOLDER = "fdu"
_VALIDATION = 200
"""The last lines of a training file, which validate."""

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
"""The products of each domain, and the lines of its training file; every test file has 400."""

_TEST = 400

Labelled = tuple[str, str]
"""(label, text)"""


def _stem(domain: str) -> str:
    return "MR" if domain == "mr" else domain


def _rows(files: Files, domain: str, part: str) -> Iterator[Labelled]:
    for line in text_lines(files.path(f"{_stem(domain)}.task.{part}")):
        label, tab, text = line.value.partition("\t")
        if not tab or label not in ("0", "1"):
            raise line.fault("it must be 0 or 1, a tab and a review")
        yield SENTIMENT.names[int(label)], text


def _read_fdu(domain: str, files: Files, split: str) -> Iterator[Example]:
    rows = list(_rows(files, domain, "test" if split == "test" else "train"))
    if split != "test":
        rows = rows[:-_VALIDATION] if split == "train" else rows[-_VALIDATION:]
    yield from review_examples(f"fdu.{domain}", split, in_random_order(rows))


def _read_products(name: str, domain: str, files: Files, split: str) -> Iterator[Example]:
    rows = [*_rows(files, domain, "train"), *_rows(files, domain, "test")]
    rows.sort(key=lambda row: shuffle_key("products", row[1]))
    held_out = _TEST + _VALIDATION
    slices = {"test": rows[:_TEST], "validation": rows[_TEST:held_out], "train": rows[held_out:]}
    yield from review_examples(name, split, slices[split])


def _files(domain: str, *parts: str) -> tuple[RemoteFile, ...]:
    names = [f"{_stem(domain)}.task.{part}" for part in parts]
    return tuple(RemoteFile(name, (github_raw(*_REPOSITORY, f"data/fdu-mtl/{name}"),)) for name in names)


def _task(name: str, domain: str, counts: dict[str, int], source: Source, notes: str) -> Task:
    reviewed, _ = _DOMAINS[domain]
    return Task(
        name=name,
        title="Sentiment analysis",
        dataset=f"FDU-MTL, {reviewed}",
        output=SENTIMENT,
        metric="accuracy",
        secondary=("macro_f1", "mcc"),
        counts=counts,
        sources=(source,),
        licence="Not stated; the reviews are their authors' (Amazon, IMDB, Rotten Tomatoes); for research",
        citation="Liu et al. 2017, Adversarial Multi-task Learning for Text Classification",
        homepage="https://github.com/ccsasuke/man",
        version=2,
        unit_names=("review", "copy"),
        prompt=review_prompt("a review"),
        variants=SENTIMENT_VARIANTS,
        shared_folder=_FOLDER,
        withhold_texts=True,
        notes=notes,
    )


def _fdu(domain: str) -> Task:
    train = _DOMAINS[domain][1]
    parts = {"train": "train", "validation": "train", "test": "test"}
    files = {split: _files(domain, part) for split, part in parts.items()}
    return _task(
        f"fdu.{domain}",
        domain,
        {"train": train - _VALIDATION, "validation": _VALIDATION, "test": _TEST},
        Source("text files", files, partial(_read_fdu, domain)),
        "Validation is the last 200 lines of the training file. Some test texts are in the training file as well: see "
        "`decabench tasks overlap --against train --against validation`.",
    )


def _product(name: str, domain: str) -> Task:
    rows = _DOMAINS[domain][1] + _TEST
    counts = {"train": 1_400, "validation": _VALIDATION, "test": _TEST}
    files = dict.fromkeys(counts, _files(domain, "train", "test"))
    reader = partial(_read_products, f"products.{name}", domain)
    found = {**counts, "train": rows - _VALIDATION - _TEST}
    few = (
        "" if found == counts else f" Here are {found['train']:,} reviews to train on, not the paper's 1,400."
    )
    return _task(
        f"products.{name}",
        domain,
        counts,
        Source("text files", files, reader, counts={} if found == counts else found),
        "FDU-MTL's reviews of the domain, split at random in the shared-memory paper's proportions, for the paper does "
        f"not say how it split them: sorted by the sha256 of `products` and the text, so equal texts stay together."
        f"{few}",
    )


FDU = {f"fdu.{domain}": _fdu(domain) for domain in _DOMAINS}
"""The tasks of the 16 domains by name."""

PRODUCTS = {
    f"products.{name}": _product(name, domain)
    for name, domain in (
        ("books", "books"),
        ("dvd", "dvd"),
        ("electronics", "electronics"),
        ("kitchen", "kitchen_housewares"),
    )
}
"""The tasks of the shared-memory paper's four domains by name."""
