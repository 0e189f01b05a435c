"""Tasks are values: frozen, comparable, documented field by field."""

from __future__ import annotations

import ast
import inspect
from dataclasses import FrozenInstanceError, fields, replace
from itertools import pairwise

import pytest

from decabench.tasks import example, task
from decabench.tasks.example import Example
from decabench.tasks.registry import TASKS
from decabench.tasks.task import Hub, RemoteFile, Source, Task

VALUES = [Task, Source, RemoteFile, Hub, Example]


def test_a_task_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        TASKS["sst"].name = "other"  # type: ignore[misc]
    assert replace(TASKS["sst"]) == TASKS["sst"]
    assert replace(TASKS["sst"], version=2) != TASKS["sst"]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.__name__)
def test_every_field_is_documented(value: type) -> None:
    module = ast.parse(inspect.getsource(example if value is Example else task))
    (body,) = [
        node.body for node in module.body if isinstance(node, ast.ClassDef) and node.name == value.__name__
    ]
    documented = {
        field.target.id
        for field, line in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    }
    assert documented == {field.name for field in fields(value)}
