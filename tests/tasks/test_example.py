"""The one shape of every example."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from decabench.tasks.example import SPLITS, Example


def test_fields_and_splits() -> None:
    names = [field.name for field in fields(Example)]
    assert names == ["id", "question", "context", "answers", "units", "meta"]
    assert SPLITS == ("train", "validation", "test")


def test_an_example_does_not_change() -> None:
    example = Example("a", "q", "c", ("x",), ("g",))
    assert example.meta == {}
    with pytest.raises(FrozenInstanceError):
        example.id = "b"  # type: ignore[misc]


def test_examples_share_no_meta() -> None:
    one, other = Example("a", "q", "c", ("x",), ("g",)), Example("b", "q", "c", ("x",), ("g",))
    assert one.meta is not other.meta
