"""Baselines: trivial predictors as a leaderboard's floor, and an oracle that knows the answers as its ceiling."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from decabench.errors import DecabenchError, MissingDataError
from decabench.predictors.protocol import Predictor, Setting
from decabench.tasks import Number, Question, Tags, Tree, describe_output

__all__ = [
    "copy_context",
    "first_choice",
    "first_option",
    "lead_3",
    "majority",
    "most_frequent_tag",
    "oracle",
    "random_answer",
]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_BEFORE_OPTIONS = re.compile(r"\? | -- ")


@dataclass(frozen=True)
class _EachAlone:
    answer: Callable[[Question], str]

    def predict(self, questions: Sequence[Question]) -> list[str]:
        return [self.answer(question) for question in questions]


def majority(setting: Setting) -> Predictor:
    """Answer with the most common training answer, or with the mean of numbers.

    Every word gets the most common tag. In a tree, every word gets the most common relation. Its head is the
    previous word, or the next word if that is more often the head in the training data; the first or last word
    is the root. Ties go to the first in training order.
    """
    match setting.task.output:
        case Tags():
            tags = Counter(tag for answer in setting.training_answers() for tag in answer.split())
            tag = _most_common(tags, "majority", setting)
            return _EachAlone(lambda question: " ".join(tag for _ in question.context.split()))
        case Tree():
            chain = _learn_chain(setting, "majority")
            return _EachAlone(lambda question: chain.parse(question.context, {}))
        case Number(low=low, high=high):
            numbers = [float(answer) for answer in setting.training_answers()]
            if not numbers:
                raise _no_training_data("majority", setting)
            mean = f"{min(max(math.fsum(numbers) / len(numbers), low), high):.6g}"
            return _EachAlone(lambda question: mean)
        case _:
            answer = _most_common(Counter(setting.training_answers()), "majority", setting)
            return _EachAlone(lambda question: answer)


def most_frequent_tag(setting: Setting) -> Predictor:
    """Answer with each word's most frequent training tag; an unseen word gets the most common tag of all.

    Words are compared in lower case. In a tree, each word gets its most frequent relation, and the same head as
    in `majority`. Ties go to the first in training order.
    """
    output = setting.task.output
    if not isinstance(output, Tags | Tree):
        raise DecabenchError(
            "most-frequent-tag works only for tasks with a tag or a head for each word; an answer to "
            f"{setting.task.name} is {describe_output(output)}: choose another predictor."
        )
    chain = _learn_chain(setting, "most-frequent-tag") if isinstance(output, Tree) else None
    counts: dict[str, Counter[str]] = {}
    total = Counter[str]()
    for question, answer in setting.training_examples():
        for word, item in zip(question.context.lower().split(), answer.split(), strict=False):
            head, _, relation = item.partition(":") if chain else ("", "", item)
            if head != "0":  # a tree has only one root, so its relation is no choice
                counts.setdefault(word, Counter())[relation] += 1
                total[relation] += 1
    best = {word: found.most_common(1)[0][0] for word, found in counts.items()}
    if chain:
        return _EachAlone(lambda question: chain.parse(question.context, best))
    common = _most_common(total, "most-frequent-tag", setting)
    return _EachAlone(
        lambda question: " ".join(best.get(word, common) for word in question.context.lower().split())
    )


@dataclass(frozen=True)
class _Chain:
    """Trees in which every word depends on the word before or after it."""

    step: int
    """-1 if each word's head is the word before it, 1 if it is the word after it."""
    root: str
    """The most common relation of roots."""
    relation: str
    """The most common relation of other words."""

    def parse(self, context: str, relations: Mapping[str, str]) -> str:
        words = context.lower().split()
        last = len(words) if self.step > 0 else 1
        return " ".join(
            f"0:{self.root}" if index == last else f"{index + self.step}:{relations.get(word, self.relation)}"
            for index, word in enumerate(words, 1)
        )


def _learn_chain(setting: Setting, name: str) -> _Chain:
    steps, roots, relations = Counter[int](), Counter[str](), Counter[str]()
    for answer in setting.training_answers():
        for index, item in enumerate(answer.split(), 1):
            head, _, relation = item.partition(":")
            (roots if head == "0" else relations)[relation] += 1
            steps[int(head) - index] += head != "0"
    root = _most_common(roots, name, setting)
    relation = relations.most_common(1)[0][0] if relations else root
    return _Chain(1 if steps[1] > steps[-1] else -1, root, relation)


def _most_common(counts: Counter[str], name: str, setting: Setting) -> str:
    if not counts:
        raise _no_training_data(name, setting)
    return counts.most_common(1)[0][0]


def _no_training_data(name: str, setting: Setting) -> MissingDataError:
    return MissingDataError(
        f"{name} needs training answers, and {setting.task.name} has none: choose another predictor."
    )


def random_answer(setting: Setting) -> Predictor:
    """Answer with a random training answer, drawn for each id from the seed, the
    task and the id."""
    answers = list(setting.training_answers())
    if not answers:
        raise _no_training_data("random", setting)

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
    if mark:  # only the options: `Who is hurt? Bob or Charlie?`
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
    """The setting of the baseline `oracle`; only that name creates it."""

    gold_answers: Callable[[], Mapping[str, str]] = dict
    """Returns a map from id to first answer for the split itself."""


def oracle(setting: Setting) -> Predictor:
    """Answer with the first reference, which shows the score of a perfect system, including the metric's
    quirks."""
    if not isinstance(setting, OracleSetting):
        raise DecabenchError("The baseline oracle runs only under its own name: use --predictor oracle.")
    gold = setting.gold_answers()
    return _EachAlone(lambda question: gold[question.id])
