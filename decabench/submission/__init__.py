"""Submissions: their files, metadata and answers, and the faults they can have."""

from decabench.submission.answers import (
    FINISHES,
    FOLDER,
    VARIANTS,
    AnswerKind,
    AnswerLine,
    AnswerReader,
    Limits,
    PredictionFile,
    answers_digest,
    read_answers,
    read_details,
)
from decabench.submission.checker import IdList, check_submission, read_id_list, write_id_list
from decabench.submission.faults import CheckReport
from decabench.submission.folder import (
    MANIFEST,
    SIGNATURE,
    WITHHELD,
    Submission,
    file_name,
    find_predictions,
    open_submission,
    read_metadata,
    write_predictions,
    write_submission,
)
from decabench.submission.metadata import METADATA_NAME, SubmissionInfo, render_metadata
from decabench.submission.withheld import WithheldAnswers, read_withheld, withhold

__all__ = [
    "FINISHES",
    "FOLDER",
    "MANIFEST",
    "METADATA_NAME",
    "SIGNATURE",
    "VARIANTS",
    "WITHHELD",
    "AnswerKind",
    "AnswerLine",
    "AnswerReader",
    "CheckReport",
    "IdList",
    "Limits",
    "PredictionFile",
    "Submission",
    "SubmissionInfo",
    "WithheldAnswers",
    "answers_digest",
    "check_submission",
    "file_name",
    "find_predictions",
    "open_submission",
    "read_answers",
    "read_details",
    "read_id_list",
    "read_metadata",
    "read_withheld",
    "render_metadata",
    "withhold",
    "write_id_list",
    "write_predictions",
    "write_submission",
]
