"""From what a model says to its answer: found by the form that the task asks for, with the rule that found it."""

from decabench.extraction.extract import extract
from decabench.extraction.form import EXTRACTION_VERSION, KINDS, AnswerForm, Extracted, Kind

__all__ = ["EXTRACTION_VERSION", "KINDS", "AnswerForm", "Extracted", "Kind", "extract"]
