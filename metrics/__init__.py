"""Metrics of the Natural Language Decathlon: statistics rows that add up, and scores of their sums.

    >>> from decabench.metrics import nf1
    >>> float(nf1(["the Denver Broncos"], [["Denver Broncos", "the Broncos"]]))
    100.0

Standard library only on import; sacrebleu and rouge-score are loaded when their metric is first used.
"""

from .accuracy import ACCURACY, TAG_ACCURACY, accuracy, tag_accuracy
from .base import (
    DecabenchError,
    Item,
    Metric,
    MetricError,
    Reference,
    Row,
    Score,
    Scores,
    Totals,
    evaluate,
    items,
    score_rows,
)
from .bleu import BLEU, bleu
from .corpus_f1 import CORPUS_F1, corpus_f1
from .joint_goal_em import JOINT_GOAL_EM, joint_goal_em
from .lfem import LFEM, lfem
from .nf1 import EM, NEM, NF1, em, nem, nf1
from .regression import MSE, PEARSON, SPEARMAN, mse, pearson, spearman
from .rouge import (
    ROUGE,
    ROUGE_LINES,
    ROUGE_PERL,
    ROUGE_PERL_LINES,
    ROUGE_SCORE,
    rouge,
    rouge_perl,
    rouge_score,
)
from .tagging import PARSING, SEQUENCE_F1, sequence_f1, uas_las

__all__ = [
    "METRICS",
    "DecabenchError",
    "Item",
    "Metric",
    "MetricError",
    "Reference",
    "Row",
    "Score",
    "Scores",
    "Totals",
    "accuracy",
    "bleu",
    "corpus_f1",
    "em",
    "evaluate",
    "get_metric",
    "items",
    "joint_goal_em",
    "lfem",
    "mse",
    "nem",
    "nf1",
    "pearson",
    "rouge",
    "rouge_perl",
    "rouge_score",
    "score_rows",
    "sequence_f1",
    "spearman",
    "tag_accuracy",
    "uas_las",
]


def get_metric(name: str) -> Metric:
    """The metric of that name. Raises MetricError with near matches and the list for an unknown one."""
    if name in METRICS:
        return METRICS[name]
    from difflib import get_close_matches

    near = get_close_matches(name, METRICS, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise MetricError(f"There is no metric {name!r}.{hint} The metrics are: {', '.join(METRICS)}.")


METRICS: dict[str, Metric] = {
    "nf1": NF1,
    "em": EM,
    "nem": NEM,
    "bleu": BLEU,
    "rouge": ROUGE,
    "rouge_lines": ROUGE_LINES,
    "rouge_perl": ROUGE_PERL,
    "rouge_perl_lines": ROUGE_PERL_LINES,
    "rouge_score": ROUGE_SCORE,
    "corpus_f1": CORPUS_F1,
    "joint_goal_em": JOINT_GOAL_EM,
    "lfem": LFEM,
    "accuracy": ACCURACY,
    "tag_accuracy": TAG_ACCURACY,
    "sequence_f1": SEQUENCE_F1,
    "parsing": PARSING,
    "pearson": PEARSON,
    "spearman": SPEARMAN,
    "mse": MSE,
}
"""Every metric by its name."""
