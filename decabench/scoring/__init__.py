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
from decabench.scoring.significance import (
    Sample,
    bootstrap,
    combine,
    holm,
    interval,
    p_value,
    read_rows,
    seeded_generator,
    swapped_differences,
)
from decabench.scoring.verification import results_files, verify

__all__ = [
    "Compared",
    "Comparison",
    "DataUsed",
    "InvalidResultsError",
    "Results",
    "Sample",
    "ScoredTask",
    "ScoringOptions",
    "SuiteTotal",
    "TaskResult",
    "bootstrap",
    "combine",
    "compare",
    "describe_partial",
    "evaluate",
    "find_metric",
    "holm",
    "interval",
    "p_value",
    "prove_task",
    "read_bounded",
    "read_results",
    "read_results_file",
    "read_rows",
    "results_files",
    "score_submission",
    "score_task",
    "seeded_generator",
    "swapped_differences",
    "verify",
    "write_results_file",
    "write_statistics",
]
