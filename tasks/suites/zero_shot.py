"""Zero-shot: tasks that a model of the decathlon is asked about without having been trained on them."""

from __future__ import annotations

from decabench.tasks.datasets.iwslt import IWSLT_OTHERS
from decabench.tasks.datasets.sentences import SENTENCES
from decabench.tasks.suite import PublishedRow, Suite

__all__ = ["ZERO_SHOT"]

_TRAINING = "decathlon, no fine-tuning"

ZERO_SHOT = Suite(
    name="zero-shot",
    title="Zero-shot tasks",
    tasks=(
        "snli",
        *SENTENCES,
        "squad2",
        "woz.de",
        "multi30k.en.de",
        *IWSLT_OTHERS,
        "imdb",
    ),
    total="none",
    description=(
        "New texts, labels, questions and languages for models of the decathlon. There is no total: the tasks are on "
        "different splits, and some of the data is not available to everybody."
    ),
    source="The Natural Language Decathlon (McCann, Keskar, Xiong and Socher 2018), section 4.3, test",
    source_url="https://arxiv.org/abs/1806.08730",
    published=(
        PublishedRow("MQAN", _TRAINING, {"snli": 62.0, "sentences.amazon": 82.1, "sentences.yelp": 80.8}),
        PublishedRow("MQAN", "decathlon, then fine-tuned on SNLI", {"snli": 87.0}),
    ),
    notes=(
        "The paper prints 62% and 87% for SNLI, without decimals.",
        "sentences.* are for testing only, and the test set of squad2 is hidden.",
    ),
)
