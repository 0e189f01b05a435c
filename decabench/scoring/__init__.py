"""From a submission and prepared data to results, intervals and comparisons."""

from decabench.scoring.comparison import Compared, Comparison, Pair, compare
from decabench.scoring.evaluator import Scoring, evaluate, score_submission
from decabench.scoring.frames import load, read_results
from decabench.scoring.results import DataUsed, Results, TaskResult, partial_text, write_results_file
from decabench.scoring.rows import find_metric, score_task
from decabench.scoring.significance import Sample, holm
from decabench.scoring.statistics import write_statistics
from decabench.scoring.validation import validate_task
from decabench.scoring.verification import results_files, verify

__all__ = [
    "Compared",
    "Comparison",
    "DataUsed",
    "Pair",
    "Results",
    "Sample",
    "Scoring",
    "TaskResult",
    "compare",
    "evaluate",
    "find_metric",
    "holm",
    "load",
    "partial_text",
    "read_results",
    "results_files",
    "score_submission",
    "score_task",
    "validate_task",
    "verify",
    "write_results_file",
    "write_statistics",
]
