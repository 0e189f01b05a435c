"""Scoring: from a submission and prepared data to results, intervals and comparisons."""

from decabench.scoring.comparison import Compared, Comparison, compare
from decabench.scoring.evaluator import (
    ScoredTask,
    ScoringOptions,
    evaluate,
    find_metric,
    score_submission,
    score_task,
    write_statistics,
)
from decabench.scoring.pairs import (
    LEVEL,
    FlippedTask,
    PairTests,
    compare_pairs,
    flip_signs,
)
from decabench.scoring.proof import prove_task
from decabench.scoring.results import (
    DataUsed,
    InvalidResultsError,
    Results,
    SuiteTotal,
    TaskResult,
    describe_partial,
    read_bounded,
    read_results,
    read_results_file,
    write_results_file,
)
from decabench.scoring.significance import Sample, read_rows
from decabench.scoring.verification import results_files, verify

__all__ = [
    "LEVEL",
    "Compared",
    "Comparison",
    "DataUsed",
    "FlippedTask",
    "InvalidResultsError",
    "PairTests",
    "Results",
    "Sample",
    "ScoredTask",
    "ScoringOptions",
    "SuiteTotal",
    "TaskResult",
    "compare",
    "compare_pairs",
    "describe_partial",
    "evaluate",
    "find_metric",
    "flip_signs",
    "prove_task",
    "read_bounded",
    "read_results",
    "read_results_file",
    "read_rows",
    "results_files",
    "score_submission",
    "score_task",
    "verify",
    "write_results_file",
    "write_statistics",
]
