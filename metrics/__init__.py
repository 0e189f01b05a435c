"""Metrics for the Natural Language Decathlon and other tasks, computed from sums of per-example statistics.

    >>> from decabench.metrics import nf1
    >>> float(nf1(["the Denver Broncos"], [["Denver Broncos", "the Broncos"]]))
    100.0

Importing this package loads only the standard library; sacrebleu and rouge-score are imported on first use.
"""

from .accuracy import accuracy
from .base import (
    REFUSED,
    DecabenchError,
    GroupState,
    Item,
    Metric,
    MetricError,
    Reference,
    Row,
    Score,
    Scores,
    Totals,
    UnknownNameError,
    evaluate,
    fold_label,
    items,
    near_matches,
    per_example,
    require_name,
    score_rows,
)
from .bleu import bleu
from .chrf import chrf2, chrf_plus_plus
from .classes import confusions, macro_f1, mcc, tag_macro_f1
from .corpus_f1 import corpus_f1
from .joint_goal_em import (
    DIALOGUE_F1,
    JOINT_GOAL_EM,
    dialogue_f1,
    find_loss,
    joint_goal_em,
    read_change,
    write_change,
)
from .lfem import LFEM, LFEM_NORMALISED, lfem
from .nf1 import em, nem, nf1
from .regression import mse, pearson, relatedness, spearman
from .rouge import ROUGE, ROUGE_LINES, ROUGE_PERL, ROUGE_PERL_LINES, rouge, rouge_perl, rouge_score
from .squad2 import squad2
from .tagging import (
    PARSING,
    PARSING_UD,
    ItemFaults,
    chunks,
    count_faults,
    parsing_ud,
    sequence_f1,
    tag_accuracy,
    uas_las,
)
from .ter import ter

__all__ = [
    "METRICS",
    "REFUSED",
    "DecabenchError",
    "GroupState",
    "Item",
    "ItemFaults",
    "Metric",
    "MetricError",
    "Reference",
    "Row",
    "Score",
    "Scores",
    "Totals",
    "UnknownNameError",
    "accuracy",
    "bleu",
    "chrf2",
    "chrf_plus_plus",
    "chunks",
    "confusions",
    "corpus_f1",
    "count_faults",
    "dialogue_f1",
    "em",
    "evaluate",
    "find_loss",
    "fold_label",
    "items",
    "joint_goal_em",
    "lfem",
    "macro_f1",
    "mcc",
    "mse",
    "near_matches",
    "nem",
    "nf1",
    "parsing_ud",
    "pearson",
    "per_example",
    "read_change",
    "relatedness",
    "require_name",
    "rouge",
    "rouge_perl",
    "rouge_score",
    "score_rows",
    "sequence_f1",
    "spearman",
    "squad2",
    "tag_accuracy",
    "tag_macro_f1",
    "ter",
    "uas_las",
    "write_change",
]


METRICS: dict[str, Metric] = {
    "nf1": nf1,
    "em": em,
    "nem": nem,
    "squad2": squad2,
    "bleu": bleu,
    "chrf2": chrf2,
    "chrf_plus_plus": chrf_plus_plus,
    "ter": ter,
    "rouge": ROUGE,
    "rouge_lines": ROUGE_LINES,
    "rouge_perl": ROUGE_PERL,
    "rouge_perl_lines": ROUGE_PERL_LINES,
    "rouge_score": rouge_score,
    "corpus_f1": corpus_f1,
    "joint_goal_em": JOINT_GOAL_EM,
    "dialogue_f1": DIALOGUE_F1,
    "lfem": LFEM,
    "lfem_normalised": LFEM_NORMALISED,
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "mcc": mcc,
    "tag_accuracy": tag_accuracy,
    "tag_macro_f1": tag_macro_f1,
    "sequence_f1": sequence_f1,
    "parsing": PARSING,
    "parsing_ud": PARSING_UD,
    "pearson": pearson,
    "spearman": spearman,
    "mse": mse,
    "relatedness": relatedness,
}
"""All metrics by name."""
