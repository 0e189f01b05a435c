"""The answers of a file, for checks that read all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from decabench.metrics import Item, Metric
from decabench.tasks import AnswerForm, Output

__all__ = ["GivenAnswers"]


@dataclass(frozen=True)
class GivenAnswers:
    """The answers of a file, with their examples."""

    output: Output
    """The task's output."""
    metric: Metric
    """Its headline metric."""
    places: Sequence[str]
    """The place of each answer, for messages: `line 3`, or an id."""
    texts: Sequence[str]
    """The answers, in the order of the data."""
    references: Sequence[Item] | None = None
    """The example of each answer, with its gold answers, which no message shows; None if they are unknown or
    hidden."""
    read_prompts: Callable[[], Mapping[str, tuple[str, str]]] | None = None
    """Reads the question and the context of each example, by id; called only if answers may be copies of these."""
    read_form: Callable[[], AnswerForm] = AnswerForm
    """Reads the form of the task's answers, which may include special words such as `None`."""
