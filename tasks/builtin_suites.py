"""The built-in suites, and the scores that papers report for them."""

from __future__ import annotations

from collections.abc import Iterable

from decabench.tasks.datasets.reviews import FDU, PRODUCTS, SENTENCES
from decabench.tasks.datasets.translation import IWSLT_OTHERS
from decabench.tasks.suite import PublishedRow, Suite

_SINGLE, _JOINT = "single-task", "joint"


def _row(
    tasks: Iterable[str],
    name: str,
    training: str,
    scores: Iterable[float | None],
    total: float | None = None,
    source: str = "",
) -> PublishedRow:
    given = {task: score for task, score in zip(tasks, scores, strict=True) if score is not None}
    return PublishedRow(name, training, given, total, source)


# The Natural Language Decathlon: ten tasks, and the sum of their scores.

_DECATHLON = (
    "squad",
    "iwslt.en.de",
    "cnn_dailymail",
    "multinli.in.out",
    "sst",
    "srl",
    "zre",
    "woz.en",
    "wikisql",
    "schema",
)
_README = "the authors' leaderboard, github.com/salesforce/decaNLP, README of 2019"
"""The source of the rows that are not in the paper: https://github.com/salesforce/decaNLP, commit 07dd886."""


_DECATHLON_ROWS: tuple[tuple[str, str, tuple[float, ...], float | None], ...] = (
    ("MQAN + CoVe", "task sampling", (77.0, 21.4, 24.4, 74.0, 86.5, 80.9, 40.9, 84.8, 70.2, 48.8), 609.0),
    (
        "MQAN + CoVe",
        "question answering first",
        (75.5, 18.9, 24.4, 73.6, 86.4, 80.8, 37.4, 85.8, 68.5, 48.8),
        599.9,
    ),
    (
        "MQAN",
        "anti-curriculum, SQuAD first",
        (74.4, 18.6, 24.3, 71.5, 87.4, 78.4, 37.6, 84.8, 64.8, 48.8),
        590.6,
    ),
    ("MQAN (+QPtr)", _JOINT, (70.8, 16.1, 23.9, 70.5, 86.2, 75.8, 28.0, 80.6, 62.0, 48.8), 562.7),
    ("S2S +SAtt", _JOINT, (66.8, 13.6, 14.0, 69.0, 84.7, 75.1, 31.7, 82.8, 64.8, 43.9), 546.4),
    ("S2S +SAtt +CAtt", _JOINT, (71.8, 9.0, 15.7, 70.4, 86.5, 76.1, 28.5, 75.1, 62.9, 37.8), 533.8),
    ("S2S", _JOINT, (47.5, 14.2, 25.7, 60.9, 85.9, 68.7, 28.5, 84.0, 45.8, 52.4), 513.6),
    ("MQAN (+QPtr)", _SINGLE, (75.3, 26.7, 25.5, 73.0, 88.5, 77.9, 24.3, 88.0, 73.5, 48.8), None),
    ("S2S +SAtt +CAtt", _SINGLE, (74.6, 26.0, 25.1, 34.7, 86.2, 74.8, 16.6, 86.5, 72.3, 40.4), None),
    ("S2S +SAtt", _SINGLE, (68.2, 23.3, 20.0, 68.5, 86.8, 67.8, 19.9, 86.0, 72.4, 46.3), None),
    ("S2S", _SINGLE, (48.2, 25.0, 19.0, 67.5, 86.4, 63.5, 20.0, 85.3, 60.0, 43.9), None),
)

DECATHLON = Suite(
    name="decathlon",
    title="The Natural Language Decathlon",
    tasks=_DECATHLON,
    total="sum",
    total_name="decaScore",
    description="Ten tasks cast as question answering. The decaScore is the sum of the ten scores, from 0 to 1000.",
    source=(
        "The Natural Language Decathlon: Multitask Learning as Question Answering "
        "(McCann, Keskar, Xiong and Socher 2018), Table 2 of the version submitted to ICLR 2019, validation"
    ),
    source_url="https://arxiv.org/abs/1806.08730",
    published=tuple(
        _row(_DECATHLON, name, training, scores, total, _README if "CoVe" in name else "")
        for name, training, scores, total in _DECATHLON_ROWS
    ),
    notes=(
        "Each single-task row combines ten models, one per task. The paper doesn't give a decaScore for these rows.",
        "Table 3 of the paper gives 571.7 for “SQuAD first” and 499.6 for the curriculum. The row shown here is from "
        "Table 2.",
        "The authors' leaderboard prints totals of 609.0 and 599.9, but the scores add up to 608.9 and 600.1.",
        "The scores are copied as printed. The predictions behind them are not published.",
    ),
)


# Zero-shot: tasks for testing a decathlon model that was not trained on them.

_TRAINING = "decathlon, no fine-tuning"

ZERO_SHOT = Suite(
    name="zero-shot",
    title="Zero-shot tasks",
    tasks=("snli", *SENTENCES, "squad2", "woz.de", "multi30k.en.de", *IWSLT_OTHERS, "imdb"),
    total="none",
    description=(
        "New texts, labels, questions and languages for testing models trained on the decathlon. There is no total, "
        "because the tasks use different splits and some of the data is not available to everyone."
    ),
    source="The Natural Language Decathlon (McCann, Keskar, Xiong and Socher 2018), section 4.3, test",
    source_url="https://arxiv.org/abs/1806.08730",
    published=(
        PublishedRow("MQAN", _TRAINING, {"snli": 62.0, "sentences.amazon": 82.1, "sentences.yelp": 80.8}),
        PublishedRow("MQAN", "decathlon, then fine-tuned on SNLI", {"snli": 87.0}),
    ),
    notes=(
        "The paper prints 62% and 87% for SNLI, without decimals.",
        "The sentences.* tasks have only a test split. The test set of squad2 is hidden.",
    ),
)


# Classification suites: FDU-MTL's 16 domains, and the film and product reviews of the shared-memory paper.

_PAPER = "Deep Multi-Task Learning with Shared Memory (Liu, Qiu and Huang 2016)"
_PAPER_URL = "https://arxiv.org/abs/1609.07222"
FDU_SUITE = Suite(
    name="fdu",
    title="Reviews from 16 domains (FDU-MTL)",
    tasks=tuple(FDU),
    total="mean",
    total_name="mean accuracy",
    description="Sentiment of reviews from 16 domains: 14 kinds of products and two kinds of film reviews.",
    source="Meta Multi-Task Learning for Sequence Modeling (Chen, Qiu, Liu and Huang 2018)",
    source_url="https://arxiv.org/abs/1802.08969",
    notes=(
        "The paper reports that Meta-MTL gains 5.1 points over the mean of its single-task models, and that a "
        "transferred meta-network gains 3.1 points. Its table of accuracies is not reproduced here.",
        "539 of the 6,400 test texts also occur, word for word, in the training file of the same domain (train and "
        "validation here). See decabench tasks overlap --suite fdu --split test --against train --against validation.",
    ),
)


_FILMS = ("sst.fine", "sst", "subj", "imdb")

MOVIES = Suite(
    name="movies",
    title="Film reviews",
    tasks=("sst.fine", "sst", "subj", "mr", "imdb"),
    total="mean",
    total_name="mean accuracy",
    description="Sentences from film reviews, and whole reviews: sentiment in two or five classes, and subjectivity.",
    source=f"{_PAPER}, Table 3, test",
    source_url=_PAPER_URL,
    published=(
        _row(_FILMS, "LSTM", _SINGLE, (45.9, 85.8, 91.6, 88.5)),
        _row(_FILMS, "ME-LSTM", _SINGLE, (46.4, 85.5, 91.0, 88.7)),
        _row(_FILMS, "ARC-I", _JOINT, (48.6, 87.0, 93.8, 89.8)),
        _row(_FILMS, "ARC-II", _JOINT, (49.5, 87.8, 95.0, 91.2)),
        _row(_FILMS, "MT-CNN", _JOINT, (46.7, 86.1, 92.2, 88.4)),
        _row(_FILMS, "MT-DNN", _JOINT, (44.5, 84.0, 90.1, 85.6)),
        _row(_FILMS, "NBOW", _SINGLE, (42.4, 80.5, 91.3, 83.6)),
        _row(_FILMS, "RAE", _SINGLE, (43.2, 82.4, None, None)),
        _row(_FILMS, "MV-RNN", _SINGLE, (44.4, 82.9, None, None)),
        _row(_FILMS, "RNTN", _SINGLE, (45.7, 85.4, None, None)),
        _row(_FILMS, "DCNN", _SINGLE, (48.5, 86.8, None, 89.3)),
        _row(_FILMS, "CNN-multichannel", _SINGLE, (47.4, 88.1, 93.2, None)),
        _row(_FILMS, "Tree-LSTM", _SINGLE, (50.6, 86.9, None, None)),
    ),
    notes=(
        "The paper calls sst.fine SST-1 and sst SST-2. It doesn't include mr, and its split of subj is unknown.",
        "subj contains 701 of the 2,210 test sentences of sst.fine, and mr contains 1,780; only case and "
        "spaces differ. A model trained on subj or mr has therefore seen test sentences of sst.fine. See decabench "
        "tasks overlap.",
        "sst is scored by em, as in the decathlon, and the other tasks by accuracy. For labels, both give the "
        "same score.",
        "imdb must be downloaded, because decabench includes no sample of it.",
    ),
)


PRODUCTS_SUITE = Suite(
    name="products",
    title="Product reviews",
    tasks=tuple(PRODUCTS),
    total="mean",
    total_name="mean accuracy",
    description="Sentiment of reviews of books, DVDs, electronics and kitchen appliances.",
    source=f"{_PAPER}, Table 4, test",
    source_url=_PAPER_URL,
    published=(
        _row(PRODUCTS, "LSTM", _SINGLE, (78.0, 79.5, 81.2, 81.8)),
        _row(PRODUCTS, "ME-LSTM", _SINGLE, (77.5, 80.2, 81.5, 82.1)),
        _row(PRODUCTS, "ARC-I", _JOINT, (81.2, 82.0, 84.5, 84.3)),
        _row(PRODUCTS, "ARC-II", _JOINT, (82.8, 83.0, 85.5, 84.0)),
        _row(PRODUCTS, "MT-CNN", _JOINT, (80.2, 81.0, 83.4, 83.0)),
        _row(PRODUCTS, "MT-DNN", _JOINT, (79.7, 80.5, 82.5, 82.8)),
    ),
    notes=(
        "The paper's split is not published. The split here has the same sizes (1,400, 200 and 400 reviews), but the "
        "paper's scores are for different reviews from the same domains.",
    ),
)


# The tasks of the Joint Many-Task model, on open treebanks and, as in the paper, on the Penn Treebank.

_JMT_PAPER = (
    "A Joint Many-Task Model: Growing a Neural Network for Multiple NLP Tasks "
    "(Hashimoto, Xiong, Tsuruoka and Socher 2017), Table 1, test"
)
_JMT_URL = "https://arxiv.org/abs/1611.01587"
_JMT = ("ptb.pos", "conll2000", "ptb.dep", "sick.relatedness", "sick.entailment")
_OPEN = {"ptb.pos": "ud.pos", "ptb.dep": "ud.dep"}

_JMT_ROWS: tuple[tuple[str, str, tuple[float | None, ...]], ...] = (
    ("JMT all", "joint", (97.55, 97.12, 92.90, 0.233, 86.2)),
    ("JMT AB", "joint", (97.52, 95.77, None, None, None)),
    ("JMT ABC", "joint", (97.54, 97.28, 92.92, None, None)),
    ("JMT DE", "joint", (None, None, None, 0.238, 86.8)),
    ("single", "single-task", (97.45, 95.02, 91.42, 0.247, 81.8)),
)
_JMT_NOTES = (
    "The paper prints the chunking scores 97.12 and 97.28 in parentheses, because these models are also trained on "
    "parsing data that contains the chunking test sentences.",
    "Lower is better for the mean squared error of relatedness.",
    "The scores are for the test data, as printed in the first version of the paper (2016). Neither the predictions "
    "nor the variance over seeds is published.",
)


JMT = Suite(
    name="jmt",
    title="Joint Many-Task model",
    tasks=tuple(_OPEN.get(task, task) for task in _JMT),
    description=(
        "Tagging, chunking, parsing, relatedness and entailment. Parts of speech and dependency trees come from the "
        "English Web Treebank."
    ),
    source=_JMT_PAPER,
    source_url=_JMT_URL,
    published=tuple(
        _row(
            _JMT,
            name,
            training,
            [None if task in _OPEN else score for task, score in zip(_JMT, scores, strict=True)],
        )
        for name, training, scores in _JMT_ROWS
    ),
    notes=(
        "The paper takes parts of speech and trees from the Penn Treebank, so it has no scores for ud.pos and "
        "ud.dep. On the Penn Treebank, the full model reaches 97.55 accuracy, 94.67 UAS and 92.90 LAS (see the suite "
        "jmt.ptb).",
        *_JMT_NOTES,
    ),
)

JMT_PTB = Suite(
    name="jmt.ptb",
    title="Joint Many-Task model, Penn Treebank",
    tasks=_JMT,
    description=(
        "The tasks of the suite jmt with the Penn Treebank, as in the paper. You need your own copy of the treebank."
    ),
    source=_JMT_PAPER,
    source_url=_JMT_URL,
    published=tuple(_row(_JMT, *row) for row in _JMT_ROWS),
    notes=(
        "Parsing is scored by labeled attachment. The unlabeled attachment scores are 94.67 (all), 94.71 (ABC) and "
        "93.35 (single).",
        *_JMT_NOTES,
    ),
)


# Sequence labeling: parts of speech, chunks and named entities.

TAGGING = Suite(
    name="tagging",
    title="Sequence tagging",
    tasks=("ud.pos", "conll2000", "conll2003", "conll2003.entities", "ontonotes", "ontonotes.entities"),
    description=(
        "Tagging each word with its part of speech, chunk or named entity, and finding the named entities of one type. "
        "The texts of CoNLL-2003 and OntoNotes are not freely available, so you need your own copies."
    ),
    notes=(
        "Chen et al. 2018 (Meta Multi-Task Learning for Sequence Modeling, Table 5) report scores for "
        "CoNLL-2000, CoNLL-2003 and the Wall Street Journal. They are not shown here, because they could not be "
        "checked against the paper.",
    ),
)


# Hindi-English code-switching: part-of-speech tagging of mixed posts, with a task in each language.

_COLUMNS = ("", "DC-MTL", "IC-MTL", "rrn-RMN", "MT-RMN")
_TABLE = {
    "NS-MTL": (44.3, 51.5, 51.4, 53.5, 55.2),
    "Cross-stitch": (46.0, 48.5, 47.7, 52.1, 51.7),
    "Sluice": (58.7, 59.2, 59.5, 60.4, 61.5),
    "GIRNet": (62.8, 62.5, 63.1, 63.6, 64.5),
}
"""Accuracy by base model (rows) and extension (columns)."""

CODESWITCH = Suite(
    name="codeswitch",
    title="Hindi-English code-switching",
    tasks=("hien.pos", "en.pos", "hi.pos"),
    description=(
        "Part-of-speech tagging of posts that mix Hindi and English (hien.pos, the primary task). Tagging English "
        "texts and tagging Hindi texts are auxiliary tasks for multi-task models."
    ),
    source="Multi-Task Recurrent Modular Networks (Xu et al. 2021), Table 3, accuracy, test",
    published=tuple(
        PublishedRow(f"{base} + {added}" if added else base, "joint", {"hien.pos": score})
        for base, scores in _TABLE.items()
        for added, score in zip(_COLUMNS, scores, strict=True)
    ),
    notes=(
        "The printed accuracies are low: a simple tagger scores higher than every row of the paper, and so does a "
        "baseline that gives each word its most frequent training tag.",
        "The paper trains on all 2,102 training posts, and GIRNet's code chooses its epoch on the test posts. Here, "
        "the last tenth of the training posts is used for validation.",
        "The paper also prints F1 (62.6 for GIRNet + MT-RMN), apparently macro-averaged in some rows and weighted in "
        "others, and deviations across folds (2.1 for that row).",
    ),
)


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (DECATHLON, FDU_SUITE, MOVIES, PRODUCTS_SUITE, ZERO_SHOT, JMT, JMT_PTB, TAGGING, CODESWITCH)
}
"""The built-in suites by name."""
