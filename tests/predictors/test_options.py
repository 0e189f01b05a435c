"""Which options were given for nothing."""

import pytest

from decabench.predictors.options import ModelOptions, unused


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({}, None),
        ({"seed": 3, "revision": "v2"}, None),
        ({"seed": 3, "temperature": 0.5}, "--temperature"),
        ({"max_new_tokens": 5}, "--max-new-tokens"),
        ({"chat": True}, "--chat"),
        ({"chat": False}, "--no-chat"),
        ({"timeout": 3.0, "device": "cpu"}, "--device"),
    ],
)
def test_the_first_that_is_not_used(given, flag):
    assert unused(ModelOptions(**given), ("seed", "revision")) == flag
