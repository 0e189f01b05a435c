"""Scored examples: a row for each example and wording, stored in files next to the results.

examples/<task>.jsonl.gz        a line about the file, then a line for each example, in the order of the data

These files show which answers were right and wrong. Scores don't depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

import decabench
from decabench.errors import require_package
from decabench.metrics import Metric, Reference
from decabench.submission import AnswerLine

if TYPE_CHECKING:
    import pandas

FORMAT = "decabench.examples/1"

EXACT = 0.005
"""The largest distance between the score of a right answer and the best possible score."""


class ScoredExample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An answer with its score and the details that explain the score."""

    id: str
    """The example's id."""
    variant: int = 0
    """The wording of the question; 0 is the dataset's own."""
    prediction: str | None = None
    """The scored answer; None if its text was left out."""
    raw: str | None = None
    """The text that was not scored, if it differs: the model's whole output or, if that was scored, the extracted
    answer."""
    reasoning: str | None = None
    """The model's reasoning, if the model returned it separately from the output."""
    references: tuple[str, ...] = ()
    """All references; empty if they were left out, and for other wordings."""
    score: float | None
    """The headline score of this example; None if examples have no individual score."""
    right: bool | None
    """Whether the answer has the best possible score or is equal to a reference; None if unknown."""
    statistics: tuple[float, ...]
    """The metric's statistics, in the order of `ExamplesHead.columns`."""
    flags: tuple[str, ...] = ()
    """Notable properties of the answer: `empty`, `unparseable`, `reasoning_only`, `cut_in_reasoning`, `tool_call`,
    `refused`, `cut` (the answer reached the limit of new tokens), `context_cut` (the context was truncated),
    `not_in_context` (the answer to an extractive task isn't in the context), `other_label` (the answer is not a
    label), `label_form` (the answer is a label in another form)."""


@dataclass(frozen=True, slots=True)
class Course:
    """The dialogue states behind one example's score, for metrics that compare states instead of answers."""

    before: tuple[int, ...]
    """The positions of earlier examples in the same group, in order."""
    predicted: str
    """The predicted state, according to the answers up to this turn."""
    gold: str
    """The gold state, according to the gold answers up to this turn."""
    parted: int | None
    """The position of the example whose answer made the states differ; None if the states are equal."""


def find_courses(
    metric: Metric, predictions: Sequence[str], references: Sequence[Reference]
) -> dict[int, Course]:
    """Return the states behind each score, by position, or an empty dict if the metric doesn't compare states."""
    courses: dict[int, Course] = {}
    for group in metric.states(predictions, references) if metric.states else ():
        parted: int | None = None
        for number, state in enumerate(group):
            if state.predicted == state.gold:
                parted = None
            elif parted is None:
                parted = state.place
            before = tuple(earlier.place for earlier in group[:number])
            courses[state.place] = Course(before, state.predicted, state.gold, parted)
    return courses


def describe_parting(id: str, gold: str, answer: str) -> str:
    """Describe the answer that made a state diverge from the gold state."""
    return f"at {id}: gold {gold!r}, answer {answer!r}"


@dataclass(frozen=True)
class ExamplesHead:
    """The first line of a file of scored examples, which describes the file."""

    task: str
    """The task's name."""
    split: str
    """The split: `validation` or `test`."""
    metric: str
    """The metric's name."""
    headline: str
    """The name of the score that is shown for each example."""
    signature: str
    """The metric's signature."""
    columns: tuple[str, ...]
    """The names of the statistics."""
    best: float | None
    """The best possible score; None if examples have no individual score."""
    higher_is_better: bool
    """Whether a higher score is better."""
    data: str
    """The fingerprint of the data."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of each answer file, by path in the submission."""
    answers: str = "extracted"
    """Which texts were scored: `extracted` or `raw`."""
    left_out: tuple[str, ...] = ()
    """Fields left out of all rows because their text can't be redistributed."""
    decabench: str = decabench.__version__
    """The version of decabench that scored the examples."""

    def loss(self, row: ScoredExample) -> float:
        """Return the distance from an answer's score to the best score: 0 for a right answer, infinity if unknown."""
        if row.right:
            return 0.0
        if row.score is None or self.best is None:
            return float("inf")
        return abs(self.best - row.score)


def examples_frame(head: ExamplesHead, rows: Iterable[ScoredExample]) -> pandas.DataFrame:
    """Return scored examples as a DataFrame. Raises DecabenchError if pandas (extra `pandas`) is not installed."""
    require_package("A table of examples", "pandas", "pandas")
    import pandas

    names = ("id", "prediction", "raw", "reasoning", "references", "score", "right", "flags", "variant")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    numbers: list[tuple[float, ...]] = []
    references: dict[str, tuple[str, ...]] = {}
    for row in rows:
        known = references.setdefault(row.id, row.references)
        for name, values in columns.items():
            value = known if name == "references" else getattr(row, name)
            values.append(list(value) if isinstance(value, tuple) else value)
        numbers.append(row.statistics)
    frame = pandas.DataFrame(columns)
    for at, name in enumerate(head.columns):
        frame[f"statistics.{name}"] = [float(row[at]) for row in numbers]
    return frame


_RULES = ("unparseable", "reasoning-only", "cut-in-reasoning", "tool-call", "template", "not-in-context")
"""Extraction rules that are counted and shown next to a score, because they point to a problem."""


def line_flags(line: AnswerLine) -> list[str]:
    """Return the flags recorded in a line, with the names used in `TaskResult.answers`."""
    rules = line.rule.split("+") if line.rule else ()
    flags = [rule.replace("-", "_") for rule in _RULES if rule in rules]
    if line.finish == "refused" or "refused" in rules:
        flags.append("refused")
    if line.finish == "length":
        flags.append("truncated")
    if line.context_kept is not None:
        flags.append("context_cut")
    return flags


def answer_flags(line: AnswerLine | None, text: str, form: str = "") -> tuple[str, ...]:
    """Return the flags that apply to an answer; see `ScoredExample.flags`."""
    found = [] if line is None else line_flags(line)
    flags = ["empty"] if not text.strip() and not {"unparseable", "refused"} & {*found} else []
    flags += ("cut" if flag == "truncated" else flag for flag in found if flag != "template")
    return (*flags, form) if form else tuple(flags)
