"""A fast and strong baseline for tasks with labels: logistic regression on the states of a sentence encoder.

    pip install 'decabench[hf,dev]'
    ENCODER=minilm decabench predict --predictor papers.encoder_baseline:LabelClassifier --tasks sst --output baseline

The encoder is a folder, as for `encode_words`, and is not trained. A text's features are the mean of the last layer's
states. If a task's questions vary, for example because each contains a hypothesis, the features are the context's and
the question's features, their product and their absolute difference, as in InferSent (Conneau et al. 2017).
Cross-validation on the training split chooses the strength of the penalty.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from decabench.errors import DecabenchError
from decabench.predictors import Setting
from decabench.tasks import Label, Question
from papers.encode_words import encode_texts

FOLDS = 5
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
"""The inverse penalty strengths for cross-validation to choose from, for standardized features."""


class LabelClassifier:
    """A classifier trained on a task's training split. Raises DecabenchError for tasks without labels."""

    def __init__(self, setting: Setting) -> None:
        if not isinstance(setting.task.output, Label):
            raise DecabenchError(f"{setting.task.name} has no fixed labels. Choose another task.")
        if not (folder := os.environ.get("ENCODER")):
            raise DecabenchError("Set ENCODER to the encoder's folder.")
        self.encoder = Path(folder)
        questions, labels = zip(*setting.training_examples(), strict=True)
        if min(Counter(labels).values()) < FOLDS:
            raise DecabenchError(
                f"Some labels of {setting.task.name} have fewer than {FOLDS} training examples. Choose another task."
            )
        self.is_paired = len({question.question for question in questions}) > 1
        self.model = make_pipeline(
            StandardScaler(),
            LogisticRegressionCV(
                Cs=PENALTIES,
                cv=FOLDS,
                l1_ratios=(0,),
                use_legacy_attributes=False,
                max_iter=1000,
                scoring="accuracy",
            ),
        )
        self.model.fit(self.features(questions), labels)

    def features(self, questions: Sequence[Question]) -> npt.NDArray[np.float32]:
        """Return features of shape (N, d), or (N, 4d) if the questions differ."""
        context = encode_texts(self.encoder, [question.context for question in questions])
        if not self.is_paired:
            return context
        asked = encode_texts(self.encoder, [question.question for question in questions])
        return np.concatenate([context, asked, context * asked, np.abs(context - asked)], 1)

    def predict(self, questions: Sequence[Question]) -> list[str]:
        """Return the most probable label for each question."""
        return [str(label) for label in self.model.predict(self.features(questions))]
