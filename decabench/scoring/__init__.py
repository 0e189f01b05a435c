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
from decabench.scoring.manifest import (
    BoundResults,
    BoundTask,
    InvalidManifestError,
    Manifest,
    ManifestFault,
    check_manifest,
    read_manifest,
)
from decabench.scoring.pairs import FlippedTask, PairTests, compare_pairs, flip_signs
from decabench.scoring.proof import prove_task
from decabench.scoring.record import Recorded, manifest_root, record_scores
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
    score_digits,
    show_units,
    write_results_file,
)
from decabench.scoring.significance import (
    Sample,
    describe_units,
    read_rows,
    score_interval,
    total_interval,
)
from decabench.scoring.signing import SignatureError, check_signature, sign_manifest
from decabench.scoring.verification import VerifiedResults, results_files, verify, verify_file

__all__ = [
    "BoundResults",
    "BoundTask",
    "Compared",
    "Comparison",
    "DataUsed",
    "FlippedTask",
    "InvalidManifestError",
    "InvalidResultsError",
    "Manifest",
    "ManifestFault",
    "PairTests",
    "Recorded",
    "Results",
    "Sample",
    "ScoredTask",
    "ScoringOptions",
    "SignatureError",
    "SuiteTotal",
    "TaskResult",
    "VerifiedResults",
    "check_manifest",
    "check_signature",
    "compare",
    "compare_pairs",
    "describe_partial",
    "describe_units",
    "evaluate",
    "find_metric",
    "flip_signs",
    "manifest_root",
    "prove_task",
    "read_bounded",
    "read_manifest",
    "read_results",
    "read_results_file",
    "read_rows",
    "record_scores",
    "results_files",
    "score_digits",
    "score_interval",
    "score_submission",
    "score_task",
    "show_units",
    "sign_manifest",
    "total_interval",
    "verify",
    "verify_file",
    "write_results_file",
    "write_statistics",
]
