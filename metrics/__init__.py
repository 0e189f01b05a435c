"""Metrics of the Natural Language Decathlon and beyond: statistics that add up, and scores of their sums.

    >>> from decabench.metrics import nf1
    >>> float(nf1(["the Denver Broncos"], [["Denver Broncos", "the Broncos"]]))
    100.0

Importing this loads only the standard library; sacrebleu and rouge-score are loaded when first used.
"""

from .accuracy import ACCURACY, accuracy
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
from .bleu import BLEU, bleu
from .chrf import CHRF2, CHRF_PLUS_PLUS, chrf2, chrf_plus_plus
from .classes import MACRO_F1, MCC, TAG_MACRO_F1, confusions, macro_f1, mcc, tag_macro_f1
from .corpus_f1 import CORPUS_F1, corpus_f1
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
from .nf1 import EM, NEM, NF1, em, nem, nf1
from .regression import MSE, PEARSON, RELATEDNESS, SPEARMAN, mse, pearson, relatedness, spearman
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
from .squad2 import SQUAD2, squad2
from .tagging import (
    PARSING,
    PARSING_UD,
    SEQUENCE_F1,
    TAG_ACCURACY,
    ItemFaults,
    chunks,
    count_faults,
    parsing_ud,
    sequence_f1,
    tag_accuracy,
    uas_las,
)
from .ter import TER, ter

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
    "nf1": NF1,
    "em": EM,
    "nem": NEM,
    "squad2": SQUAD2,
    "bleu": BLEU,
    "chrf2": CHRF2,
    "chrf_plus_plus": CHRF_PLUS_PLUS,
    "ter": TER,
    "rouge": ROUGE,
    "rouge_lines": ROUGE_LINES,
    "rouge_perl": ROUGE_PERL,
    "rouge_perl_lines": ROUGE_PERL_LINES,
    "rouge_score": ROUGE_SCORE,
    "corpus_f1": CORPUS_F1,
    "joint_goal_em": JOINT_GOAL_EM,
    "dialogue_f1": DIALOGUE_F1,
    "lfem": LFEM,
    "lfem_normalised": LFEM_NORMALISED,
    "accuracy": ACCURACY,
    "macro_f1": MACRO_F1,
    "mcc": MCC,
    "tag_accuracy": TAG_ACCURACY,
    "tag_macro_f1": TAG_MACRO_F1,
    "sequence_f1": SEQUENCE_F1,
    "parsing": PARSING,
    "parsing_ud": PARSING_UD,
    "pearson": PEARSON,
    "spearman": SPEARMAN,
    "mse": MSE,
    "relatedness": RELATEDNESS,
}
"""Every metric by name."""
