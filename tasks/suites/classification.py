"""Suites of classification: FDU-MTL's 16 domains, and the films and products of the shared-memory paper."""

from __future__ import annotations

from decabench.tasks.datasets.fdu import FDU, PRODUCTS
from decabench.tasks.suite import PublishedRow, Suite

__all__ = ["FDU_SUITE", "MOVIES", "PRODUCTS_SUITE"]

_PAPER = "Deep Multi-Task Learning with Shared Memory (Liu, Qiu and Huang 2016)"
_PAPER_URL = "https://arxiv.org/abs/1609.07222"
_SINGLE, _JOINT = "single-task", "joint"

FDU_SUITE = Suite(
    name="fdu",
    title="Reviews of 16 domains (FDU-MTL)",
    tasks=tuple(FDU),
    total="mean",
    total_name="mean accuracy",
    description="Negative or positive reviews of 14 kinds of products and two kinds of film reviews.",
    source="Meta Multi-Task Learning for Sequence Modeling (Chen, Qiu, Liu and Huang 2018)",
    source_url="https://arxiv.org/abs/1802.08969",
    notes=(
        "The paper reports that Meta-MTL gains 5.1 points over the mean of its single-task models, and that a "
        "transferred meta-network gains 3.1 over that mean; its table of accuracies is not reproduced here.",
        "539 of the 6,400 test texts are also in their own training file (train and validation here), word for word: "
        "see decabench tasks overlap --suite fdu --split test --against train --against validation.",
    ),
)


def _films(name: str, training: str, *scores: float | None) -> PublishedRow:
    tasks = ("sst.fine", "sst", "subj", "imdb")
    pairs = zip(tasks, scores, strict=True)
    return PublishedRow(name, training, {task: score for task, score in pairs if score is not None})


MOVIES = Suite(
    name="movies",
    title="Film reviews",
    tasks=("sst.fine", "sst", "subj", "mr", "imdb"),
    total="mean",
    total_name="mean accuracy",
    description="Sentences and whole reviews of films: five classes, two, or subjective against objective.",
    source=f"{_PAPER}, Table 3, test",
    source_url=_PAPER_URL,
    published=(
        _films("LSTM", _SINGLE, 45.9, 85.8, 91.6, 88.5),
        _films("ME-LSTM", _SINGLE, 46.4, 85.5, 91.0, 88.7),
        _films("ARC-I", _JOINT, 48.6, 87.0, 93.8, 89.8),
        _films("ARC-II", _JOINT, 49.5, 87.8, 95.0, 91.2),
        _films("MT-CNN", _JOINT, 46.7, 86.1, 92.2, 88.4),
        _films("MT-DNN", _JOINT, 44.5, 84.0, 90.1, 85.6),
        _films("NBOW", _SINGLE, 42.4, 80.5, 91.3, 83.6),
        _films("RAE", _SINGLE, 43.2, 82.4, None, None),
        _films("MV-RNN", _SINGLE, 44.4, 82.9, None, None),
        _films("RNTN", _SINGLE, 45.7, 85.4, None, None),
        _films("DCNN", _SINGLE, 48.5, 86.8, None, 89.3),
        _films("CNN-multichannel", _SINGLE, 47.4, 88.1, 93.2, None),
        _films("Tree-LSTM", _SINGLE, 50.6, 86.9, None, None),
    ),
    notes=(
        "The paper calls sst.fine SST-1 and sst SST-2. It has no mr, and its split of subj is not known.",
        "subj holds 701 of the 2,210 test sentences of sst.fine, and mr 1,780, with other case and spaces: a model "
        "that trains on them has seen what sst.fine measures. See decabench tasks overlap.",
        "sst is scored by em, as in the decathlon, the others by accuracy; for labels the two are the same.",
        "imdb is to be downloaded: no mirror or sample of it comes with decabench.",
    ),
)


def _products(name: str, training: str, *scores: float) -> PublishedRow:
    return PublishedRow(name, training, dict(zip(PRODUCTS, scores, strict=True)))


PRODUCTS_SUITE = Suite(
    name="products",
    title="Product reviews",
    tasks=tuple(PRODUCTS),
    total="mean",
    total_name="mean accuracy",
    description="Negative or positive reviews of books, DVDs, electronics and kitchen appliances.",
    source=f"{_PAPER}, Table 4, test",
    source_url=_PAPER_URL,
    published=(
        _products("LSTM", _SINGLE, 78.0, 79.5, 81.2, 81.8),
        _products("ME-LSTM", _SINGLE, 77.5, 80.2, 81.5, 82.1),
        _products("ARC-I", _JOINT, 81.2, 82.0, 84.5, 84.3),
        _products("ARC-II", _JOINT, 82.8, 83.0, 85.5, 84.0),
        _products("MT-CNN", _JOINT, 80.2, 81.0, 83.4, 83.0),
        _products("MT-DNN", _JOINT, 79.7, 80.5, 82.5, 82.8),
    ),
    notes=(
        "The paper's split is not published; the split here has its sizes (1,400, 200 and 400 reviews), so the rows "
        "are on other reviews of the same domains.",
    ),
)
