"""The Natural Language Decathlon: ten tasks, and the sum of their scores."""

from __future__ import annotations

from decabench.tasks.suite import PublishedRow, Suite

__all__ = ["DECATHLON"]

_TASKS = (
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
_SINGLE, _JOINT = "single-task", "joint"


_README = "the authors' own leaderboard, github.com/salesforce/decaNLP, README of 2019"
"""The source of rows that are not in the paper: https://github.com/salesforce/decaNLP, commit 07dd886."""


def _row(
    name: str, training: str, scores: tuple[float, ...], total: float | None = None, source: str = ""
) -> PublishedRow:
    return PublishedRow(name, training, dict(zip(_TASKS, scores, strict=True)), total, source)


DECATHLON = Suite(
    name="decathlon",
    title="The Natural Language Decathlon",
    tasks=_TASKS,
    total="sum",
    total_name="decaScore",
    description="Ten tasks as question answering; the decaScore is the sum of their ten scores, 0 to 1000.",
    source=(
        "The Natural Language Decathlon: Multitask Learning as Question Answering "
        "(McCann, Keskar, Xiong and Socher 2018), Table 2 of the version submitted to ICLR 2019, validation"
    ),
    source_url="https://arxiv.org/abs/1806.08730",
    published=(
        _row(
            "MQAN + CoVe",
            "task sampling",
            (77.0, 21.4, 24.4, 74.0, 86.5, 80.9, 40.9, 84.8, 70.2, 48.8),
            609.0,
            _README,
        ),
        _row(
            "MQAN + CoVe",
            "question answering first",
            (75.5, 18.9, 24.4, 73.6, 86.4, 80.8, 37.4, 85.8, 68.5, 48.8),
            599.9,
            _README,
        ),
        _row(
            "MQAN",
            "anti-curriculum, SQuAD first",
            (74.4, 18.6, 24.3, 71.5, 87.4, 78.4, 37.6, 84.8, 64.8, 48.8),
            590.6,
        ),
        _row("MQAN (+QPtr)", _JOINT, (70.8, 16.1, 23.9, 70.5, 86.2, 75.8, 28.0, 80.6, 62.0, 48.8), 562.7),
        _row("S2S +SAtt", _JOINT, (66.8, 13.6, 14.0, 69.0, 84.7, 75.1, 31.7, 82.8, 64.8, 43.9), 546.4),
        _row("S2S +SAtt +CAtt", _JOINT, (71.8, 9.0, 15.7, 70.4, 86.5, 76.1, 28.5, 75.1, 62.9, 37.8), 533.8),
        _row("S2S", _JOINT, (47.5, 14.2, 25.7, 60.9, 85.9, 68.7, 28.5, 84.0, 45.8, 52.4), 513.6),
        _row("MQAN (+QPtr)", _SINGLE, (75.3, 26.7, 25.5, 73.0, 88.5, 77.9, 24.3, 88.0, 73.5, 48.8)),
        _row("S2S +SAtt +CAtt", _SINGLE, (74.6, 26.0, 25.1, 34.7, 86.2, 74.8, 16.6, 86.5, 72.3, 40.4)),
        _row("S2S +SAtt", _SINGLE, (68.2, 23.3, 20.0, 68.5, 86.8, 67.8, 19.9, 86.0, 72.4, 46.3)),
        _row("S2S", _SINGLE, (48.2, 25.0, 19.0, 67.5, 86.4, 63.5, 20.0, 85.3, 60.0, 43.9)),
    ),
    notes=(
        "Single-task rows are ten models, one for each task; the paper gives them no decaScore.",
        "Table 3 of the paper has “SQuAD first” at 571.7 and the curriculum at 499.6; the row here is that of Table 2.",
        "The authors' leaderboard prints 609.0 and 599.9; the scores next to them add up to 608.9 and 600.1.",
        "The numbers are copied as printed; the predictions behind them are not published.",
    ),
)
