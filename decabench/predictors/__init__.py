"""The predictors that decabench ships, by name."""

from __future__ import annotations

from decabench.predictor import PredictorFactory
from decabench.predictors.baselines import (
    copy_context,
    first_choice,
    lead_3,
    majority,
    oracle,
    random_answer,
)

__all__ = ["PREDICTORS"]

PREDICTORS: dict[str, PredictorFactory] = {
    "majority": majority,
    "first-choice": first_choice,
    "copy-context": copy_context,
    "lead-3": lead_3,
    "random": random_answer,
    "oracle": oracle,
}
