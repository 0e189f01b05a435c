"""A baseline that gives each word its most frequent training tag, using only words that occur at least twice.

    PYTHONPATH=papers/plans/codeswitch decabench predict --predictor known_words:most_frequent_tag \\
      --tasks hien.pos --split test --compress zst --output papers/plans/codeswitch/known-words
    decabench evaluate --submission papers/plans/codeswitch/known-words --tasks hien.pos --split test \\
      --suite codeswitch
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from decabench.predictors import Setting
from decabench.tasks import Question

UNKNOWN = ""


class TableOfWords:
    """Answers with each lower-cased word's tag from a table, or the unknown word's tag for words not in the table."""

    def __init__(self, tags: dict[str, str]) -> None:
        self.tags = tags

    def predict(self, questions: Sequence[Question]) -> list[str]:
        """Return the tags of each question's words, separated by spaces."""
        texts = [question.context.lower().split() for question in questions]
        return [" ".join(self.tags.get(word, self.tags[UNKNOWN]) for word in words) for words in texts]


def most_frequent_tag(setting: Setting) -> TableOfWords:
    """Return a predictor with a table of tags, in which all words that occur only once count as the unknown word."""
    pairs = [
        pair
        for question, answer in setting.training_examples()
        for pair in zip(question.context.lower().split(), answer.split(), strict=True)
    ]
    occurs = Counter(word for word, _ in pairs)
    tags: dict[str, Counter[str]] = {}
    for word, tag in pairs:
        tags.setdefault(word if occurs[word] > 1 else UNKNOWN, Counter())[tag] += 1
    return TableOfWords({word: found.most_common(1)[0][0] for word, found in tags.items()})
