"""What a submission is: its files, its metadata, its answers, and what can be wrong with them."""

from decabench.submission.answers import (
    Answers,
    Limits,
    Line,
    predictions_digest,
    read_answers,
    read_details,
    read_records,
)
from decabench.submission.checker import IdList, check_submission, read_id_list, write_id_list
from decabench.submission.faults import CheckReport, FaultLog
from decabench.submission.folder import (
    Submission,
    open_submission,
    read_metadata,
    write_predictions,
    write_submission,
)
from decabench.submission.layout import FOLDER, VARIANTS, Layout, PredictionFile, file_name, find_predictions
from decabench.submission.metadata import METADATA_NAME, SubmissionInfo, render_metadata

__all__ = [
    "FOLDER",
    "METADATA_NAME",
    "VARIANTS",
    "Answers",
    "CheckReport",
    "FaultLog",
    "IdList",
    "Layout",
    "Limits",
    "Line",
    "PredictionFile",
    "Submission",
    "SubmissionInfo",
    "check_submission",
    "file_name",
    "find_predictions",
    "open_submission",
    "predictions_digest",
    "read_answers",
    "read_details",
    "read_id_list",
    "read_metadata",
    "read_records",
    "render_metadata",
    "write_id_list",
    "write_predictions",
    "write_submission",
]
