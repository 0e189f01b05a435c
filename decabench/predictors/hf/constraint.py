"""Constrained decoding: tokens that would violate an answer's JSON schema can't be chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from decabench.errors import DecabenchError
from decabench.predictors.hf.weights import Loaded

_SPACES: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""The whitespace that `json.dumps` writes. The examples in the prompt have the same whitespace.

If whitespace were optional, some models would never finish their answers.
"""


def make_constraint(loaded: Loaded, schemas: Sequence[Mapping[str, Any]]) -> Constraint:
    """Return a logits processor for a batch. `schemas` has a schema for each row.

    Raises DecabenchError if llguidance can't read the model's tokenizer.
    """
    from llguidance import LLMatcher

    try:
        vocabulary = loaded.grammar_vocabulary
    except Exception as error:
        raise DecabenchError(
            "hf: llguidance, which enforces --protocol json, can't read this model's tokenizer. Use --protocol tag."
        ) from error
    grammars = [LLMatcher.grammar_from_json_schema(dict(schema), defaults=_SPACES) for schema in schemas]
    return Constraint([LLMatcher(vocabulary, grammar) for grammar in grammars])


class Constraint:
    """A logits processor that excludes all tokens that would violate a row's schema."""

    def __init__(self, matchers: Sequence[Any]) -> None:
        self._matchers = matchers
        self._is_first = True
        self.largest: Any = None
        """The largest absolute score in each row before masking, of shape (batch, 1)."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores, of shape (batch, vocabulary), with -inf for disallowed tokens."""
        import numpy as np
        import torch

        for matcher, last in zip(self._matchers, input_ids[:, -1].tolist(), strict=True):
            if not self._is_first and not matcher.is_stopped():
                matcher.consume_token(last)
        self._is_first = False
        self.largest = scores.abs().amax(dim=-1, keepdim=True)
        masks = [np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8) for matcher in self._matchers]
        bits = np.unpackbits(np.stack(masks), axis=1, bitorder="little")[:, : scores.shape[1]]
        allowed = torch.from_numpy(bits).to(scores.device).bool()
        return scores.masked_fill(~allowed, -math.inf)
