"""Options out of range, and options that were given for nothing."""

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.protocol import ModelOptions, refuse_unused


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({"seed": 3, "temperature": 0.5}, "--temperature"),
        ({"max_new_tokens": 5}, "--max-new-tokens"),
        ({"chat": True}, "--chat"),
        ({"chat": False}, "--no-chat"),
        ({"device": "cpu", "timeout": 3.0}, "--device"),
    ],
)
def test_the_first_that_is_not_used_is_named(given, flag):
    with pytest.raises(DecabenchError, match=rf"^The predictor x does not use {flag}\. Leave it out\.$"):
        refuse_unused(ModelOptions(**given), ("seed", "revision"), "x", "Leave it out.")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch_size": 0}, "--batch-size must be 1 or more, not 0."),
        ({"temperature": -0.5}, "--temperature must be 0 or more, not -0.5."),
        ({"temperature": float("inf")}, "--temperature must be 0 or more, not inf."),
        ({"temperature": float("nan")}, "--temperature must be 0 or more, not nan."),
        ({"top_p": 0.0}, "--top-p must be more than 0 and at most 1, not 0."),
        ({"top_p": 1.5}, "--top-p must be more than 0 and at most 1, not 1.5."),
        ({"timeout": 0.0}, "--timeout must be more than 0, not 0."),
        ({"retries": -1}, "--retries must be 0 or more, not -1."),
        (
            {"dtype": "int8"},
            "--dtype must be one of auto, float32, bfloat16, float16, not int8.",
        ),
        ({"api": "responses"}, "--api must be one of chat, completions, not responses."),
    ],
)
def test_values_out_of_range(given, message):
    with pytest.raises(DecabenchError) as caught:
        ModelOptions(**given)
    assert str(caught.value) == message and caught.value.exit_code == 2
