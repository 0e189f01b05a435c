"""Baselines, the floor and ceiling of a leaderboard: predictors that know nothing, and one that knows the answers."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from decabench.errors import DecabenchError, MissingDataError
from decabench.predictors.protocol import Predictor, Setting
from decabench.tasks import Question

__all__ = ["copy_context", "first_choice", "first_option", "lead_3", "majority", "oracle", "random_answer"]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_BEFORE_OPTIONS = re.compile(r"\? | -- ")


@dataclass(frozen=True)
class _EachAlone:
    """A predictor made from a function of one question, so that batches cannot matter."""

    answer: Callable[[Question], str]

    def predict(self, questions: Sequence[Question]) -> list[str]:
        return [self.answer(question) for question in questions]


def majority(setting: Setting) -> Predictor:
    """Answer with the most common training answer; ties go to the first in training order."""
    counts = Counter(setting.training_answers())
    if not counts:
        raise MissingDataError(
            f"majority needs training answers, and {setting.task.name} has none: choose another predictor for it."
        )
    answer = counts.most_common(1)[0][0]
    return _EachAlone(lambda question: answer)


def random_answer(setting: Setting) -> Predictor:
    """Answer with a training answer, drawn separately for each id, so that order and batches do not matter."""
    answers = list(setting.training_answers())
    if not answers:
        raise MissingDataError(
            f"random needs training answers, and {setting.task.name} has none: choose another predictor for it."
        )

    def draw(question: Question) -> str:
        key = f"{setting.seed}\n{setting.task.name}\n{question.id}".encode()
        return answers[int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % len(answers)]

    return _EachAlone(draw)


def first_option(question: str) -> str:
    """Find the first option that a question offers (`... A or B?`, `-- A, B, or C?`); empty if it offers none."""
    *mark, tail = _BEFORE_OPTIONS.split(question.rstrip("? "))
    options = re.split(r",? or |, ", tail)
    if len(options) < 2 or " or " not in tail:
        return ""
    if mark:  # the options come alone: `Who is hurt? Bob or Charlie?`
        return options[0].strip()
    # Other words precede the first option: `Is this review negative or positive?` It is as long as the last.
    return " ".join(options[0].split()[-len(options[-1].split()) :])


def first_choice(setting: Setting) -> Predictor:
    """Answer with the first option that the question offers; an empty answer if it offers none."""
    return _EachAlone(lambda question: first_option(question.question))


def copy_context(setting: Setting) -> Predictor:
    """Answer with the whole context."""
    return _EachAlone(lambda question: question.context)


def lead_3(setting: Setting) -> Predictor:
    """Answer with the first three sentences of the context, the usual baseline for summarization."""
    return _EachAlone(lambda question: " ".join(_SENTENCE_END.split(question.context.strip())[:3]))


@dataclass(frozen=True)
class OracleSetting(Setting):
    """The setting of the baseline `oracle`. A run makes one for that name alone, and hands it to nothing else."""

    gold_answers: Callable[[], Mapping[str, str]] = dict
    """Returns a map from id to first answer for the split itself."""


def oracle(setting: Setting) -> Predictor:
    """Answer with the first reference answer: what a perfect system would score, including the metric's quirks."""
    if not isinstance(setting, OracleSetting):
        raise DecabenchError("The baseline oracle runs by its own name only: give --predictor oracle.")
    gold = setting.gold_answers()
    return _EachAlone(lambda question: gold[question.id])
