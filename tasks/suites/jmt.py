"""The tasks of the Joint Many-Task model: on open treebanks, and on the Penn Treebank as the paper has them."""

from __future__ import annotations

from decabench.tasks.suite import PublishedRow, Suite

__all__ = ["JMT", "JMT_PTB"]

_SOURCE = (
    "A Joint Many-Task Model: Growing a Neural Network for Multiple NLP Tasks "
    "(Hashimoto, Xiong, Tsuruoka and Socher 2017), Table 1, test"
)
_URL = "https://arxiv.org/abs/1611.01587"
_COLUMNS = ("ptb.pos", "conll2000", "ptb.dep", "sick.relatedness", "sick.entailment")
_OPEN = {"ptb.pos": "ud.pos", "ptb.dep": "ud.dep"}

_TABLE: tuple[tuple[str, str, tuple[float | None, ...]], ...] = (
    ("JMT all", "joint", (97.55, 97.12, 92.90, 0.233, 86.2)),
    ("JMT AB", "joint", (97.52, 95.77, None, None, None)),
    ("JMT ABC", "joint", (97.54, 97.28, 92.92, None, None)),
    ("JMT DE", "joint", (None, None, None, 0.238, 86.8)),
    ("single", "single-task", (97.45, 95.02, 91.42, 0.247, 81.8)),
)
_NOTES = (
    "Chunking's 97.12 and 97.28 stand in parentheses in the paper: the parsing data that these models learn from "
    "contains the sentences of chunking's test set.",
    "Lower is better for the mean squared error of relatedness.",
    "The numbers are those of the first version (2016), on test data, copied as printed; neither the predictions "
    "behind them nor their variance over seeds are published.",
)


def _rows(columns: tuple[str, ...]) -> tuple[PublishedRow, ...]:
    return tuple(
        PublishedRow(
            name,
            training,
            {
                task: score
                for task, score in zip(_COLUMNS, scores, strict=True)
                if score is not None and task in columns
            },
        )
        for name, training, scores in _TABLE
    )


JMT = Suite(
    name="jmt",
    title="Joint Many-Task model",
    tasks=tuple(_OPEN.get(task, task) for task in _COLUMNS),
    description=(
        "Tagging, chunking, parsing, relatedness and entailment, from words to meaning; parts of speech and trees are "
        "those of the English Web Treebank."
    ),
    source=_SOURCE,
    source_url=_URL,
    published=_rows(("conll2000", "sick.relatedness", "sick.entailment")),
    notes=(
        "The paper's parts of speech and trees are the Penn Treebank's, and no scores of ud.pos and ud.dep: on those "
        "the full model has 97.55 accuracy, and 94.67 UAS and 92.90 LAS (the suite jmt.ptb has them).",
        *_NOTES,
    ),
)

JMT_PTB = Suite(
    name="jmt.ptb",
    title="Joint Many-Task model, Penn Treebank",
    tasks=_COLUMNS,
    description="The tasks of the suite jmt with the paper's own treebank, for people who have it.",
    source=_SOURCE,
    source_url=_URL,
    published=_rows(_COLUMNS),
    notes=(
        "Parsing is the labelled attachment score; the unlabelled ones are 94.67 (all), 94.71 (ABC), 93.35 (single).",
        *_NOTES,
    ),
)
