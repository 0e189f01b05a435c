"""Baselines: trivial predictors as a lower bound, and an oracle as an upper bound."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from decabench.errors import DecabenchError, MissingDataError
from decabench.predictors.protocol import Predictor, Setting
from decabench.prompts import options
from decabench.tasks import Number, Question, Tags, Tree, describe_output

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class _EachAlone:
    answer: Callable[[Question], str]

    def predict(self, questions: Sequence[Question]) -> list[str]:
        return [self.answer(question) for question in questions]


def majority(setting: Setting) -> Predictor:
    """Answer with the most common training answer, or with the mean if the answers are numbers.

    In tagging tasks, every word gets the most common tag. In parsing tasks, either every word depends
    on the previous word and the first word is the root, or every word depends on the next word and the
    last word is the root, whichever is more common in the training data. The root gets the most common
    relation of roots, and all other words get the most common other relation. Ties go to the answer
    that comes first in the training data.
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
    """Tag each word with its most frequent tag in the training data; unseen words get the most common tag.

    Words are lower-cased. For trees, the heads and the root's relation are those of `majority`, and
    each other word gets its most frequent relation. Ties go to the tag that comes first in the training
    data. Raises DecabenchError if the answers are neither tags nor trees.
    """
    output = setting.task.output
    if not isinstance(output, Tags | Tree):
        raise DecabenchError(
            "The predictor most-frequent-tag requires a task whose answers have a tag or a head for each word, but "
            f"an answer to {setting.task.name} is {describe_output(output)}. Choose another predictor."
        )
    chain = _learn_chain(setting, "most-frequent-tag") if isinstance(output, Tree) else None
    counts: dict[str, Counter[str]] = {}
    total = Counter[str]()
    for question, answer in setting.training_examples():
        for word, item in zip(question.context.lower().split(), answer.split(), strict=False):
            head, _, relation = item.partition(":") if chain else ("", "", item)
            if head != "0":  # every parsed tree gets exactly one root, so root relations aren't counted
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
    """A tree in which every word depends on the previous or the next word."""

    step: int
    """The position of a word's head relative to the word: -1 for the previous word, 1 for the next word."""
    root: str
    """The most common relation of a root."""
    relation: str
    """The most common relation of any other word."""

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
        f"The predictor {name} requires training answers, but {setting.task.name} has none. Choose another predictor."
    )


def random_answer(setting: Setting) -> Predictor:
    """Answer with a random training answer. The draw depends only on the seed, the task and the question's id."""
    answers = list(setting.training_answers())
    if not answers:
        raise _no_training_data("random", setting)

    def draw(question: Question) -> str:
        key = f"{setting.seed}\n{setting.task.name}\n{question.id}".encode()
        return answers[int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % len(answers)]

    return _EachAlone(draw)


def first_choice(setting: Setting) -> Predictor:
    """Answer with the first option in the question, or with an empty answer if the question has no options."""
    return _EachAlone(lambda question: next(iter(options(question.question)), ""))


def copy_context(setting: Setting) -> Predictor:
    """Answer with the whole context."""
    return _EachAlone(lambda question: question.context)


def lead_3(setting: Setting) -> Predictor:
    """Answer with the first three sentences of the context, a common baseline for summarization."""
    return _EachAlone(lambda question: " ".join(_SENTENCE_END.split(question.context.strip())[:3]))


@dataclass(frozen=True)
class OracleSetting(Setting):
    """A setting with gold answers, passed only to the baseline named `oracle`."""

    gold_answers: Callable[[], Mapping[str, str]] = dict
    """Returns the first gold answer for each id of the split."""


def oracle(setting: Setting) -> Predictor:
    """Answer with the first gold answer.

    This shows the score of a perfect system, including any quirks of the metric.
    """
    if not isinstance(setting, OracleSetting):
        raise DecabenchError(
            "The baseline oracle gets the gold answers only if it is selected by name. Use --predictor oracle."
        )
    gold = setting.gold_answers()
    return _EachAlone(lambda question: gold[question.id])
