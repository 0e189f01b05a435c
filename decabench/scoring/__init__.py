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
    write_results_file,
)
from decabench.scoring.significance import (
    Sample,
    holm,
    p_value,
    read_rows,
    seeded_generator,
    swapped_differences,
)
from decabench.scoring.signing import SignatureError, check_signature, sign_manifest
from decabench.scoring.verification import Verification, results_files, verify, verify_file

__all__ = [
    "BoundResults",
    "BoundTask",
    "Compared",
    "Comparison",
    "DataUsed",
    "InvalidManifestError",
    "InvalidResultsError",
    "Manifest",
    "ManifestFault",
    "Recorded",
    "Results",
    "Sample",
    "ScoredTask",
    "ScoringOptions",
    "SignatureError",
    "SuiteTotal",
    "TaskResult",
    "Verification",
    "check_manifest",
    "check_signature",
    "compare",
    "describe_partial",
    "evaluate",
    "find_metric",
    "holm",
    "manifest_root",
    "p_value",
    "prove_task",
    "read_bounded",
    "read_manifest",
    "read_results",
    "read_results_file",
    "read_rows",
    "record_scores",
    "results_files",
    "score_digits",
    "score_submission",
    "score_task",
    "seeded_generator",
    "sign_manifest",
    "swapped_differences",
    "verify",
    "verify_file",
    "write_results_file",
    "write_statistics",
]
