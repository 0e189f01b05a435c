"""Each word's most frequent training tag, of words that occur at least twice: what `minimum_count = 2` leaves a model.

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
    """Answers with the tag that a table has for each word, in lower case; others have that of the unknown word."""

    def __init__(self, tags: dict[str, str]) -> None:
        self.tags = tags

    def predict(self, questions: Sequence[Question]) -> list[str]:
        """Answer each question by itself."""
        texts = [question.context.lower().split() for question in questions]
        return [" ".join(self.tags.get(word, self.tags[UNKNOWN]) for word in words) for words in texts]


def most_frequent_tag(setting: Setting) -> TableOfWords:
    """Learn the table: words that occur once count as the unknown word, whose tag is their most frequent one."""
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
