"""Label accuracy."""

from __future__ import annotations

from .base import Metric, Reference, Row, Scores, Totals, fold_label, per_example, percent


def _row(prediction: str, reference: Reference) -> Row:
    return (1.0, float(fold_label(prediction) in map(fold_label, reference.answers)))


def _score(totals: Totals) -> Scores:
    return {"accuracy": percent(totals["right"], totals["n"])}


accuracy = Metric(
    name="accuracy",
    definition="Share of labels that equal a reference, ignoring case and extra spaces.",
    about="""Label accuracy, 0-100: 100 * right / n, where n is the number of examples.

    A label is right if it equals any reference. Case is ignored and, unlike in `em`, so are extra spaces.
    """,
    source="standard definition",
    signature="accuracy|case:lower|space:squeezed|refs:any|v:1",
    columns=("n", "right"),
    headline="accuracy",
    statistics=per_example(_row),
    score=_score,
)
