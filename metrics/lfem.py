"""Logical form exact match (lfEM) of text-to-SQL, and execution accuracy where the table has rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._execution import Table
from ._logical_form import LogicalForm, from_sql, parse
from ._numeric import any_nonzero, percent
from .base import Item, Metric, Reference, Row, Score, Scores, Totals, evaluate, items
from .errors import MetricError

__all__ = ["LFEM", "lfem"]

SHARES = ("lfem", "lfem_unordered", "lfem_corrected")
COLUMNS = ("n", *SHARES, "n_executed", "executed_right")


def row(prediction: str, reference: Reference) -> Row:
    gold = from_sql(_required(reference, "sql"))
    predicted = parse(prediction, _required(reference, "header"))
    same = predicted == gold
    unordered = predicted is not None and predicted.equals_unordered(gold)
    same_text = prediction.lower().split() == reference.answers[0].lower().split()
    executed, right = execution(predicted, gold, reference.meta)
    return tuple(map(float, (1, same, unordered, same or same_text, executed, right)))


def _required(reference: Reference, key: str) -> Any:
    value = reference.meta.get(key)
    if value is None:
        raise MetricError(f"lfem needs meta[{key!r}] of every example; {reference.id or 'one'} has none.")
    return value


def execution(predicted: LogicalForm | None, gold: LogicalForm, meta: Mapping[str, Any]) -> tuple[bool, bool]:
    """(the gold query could be run, the prediction finds the same values)."""
    if not meta.get("rows"):
        return (False, False)
    table = Table(meta["rows"], meta.get("types"))
    try:
        wanted = table.run(gold)
        right = predicted is not None and wanted is not None and table.run(predicted) == wanted
    finally:
        table.close()
    return (wanted is not None, right)


def statistics(predictions: Sequence[str], references: Sequence[Reference]) -> list[Row]:
    return [row(text, reference) for text, reference in zip(predictions, references, strict=True)]


def score(totals: Totals) -> Scores:
    scores = {name: percent(totals[name], totals["n"]) for name in SHARES}
    if any_nonzero(totals["n_executed"]):
        scores["execution"] = percent(totals["executed_right"], totals["n_executed"])
    return scores


LFEM = Metric(
    name="lfem",
    definition="Share of queries whose (select, aggregate, ordered conditions) equal the gold form.",
    source="Zhong et al. 2017; decaNLP 2018 (lfEM)",
    signature="lfem|case:lower|parser:decanlp2018|conditions:ordered|v:1",
    columns=COLUMNS,
    headline="lfem",
    statistics=statistics,
    score=score,
)


def lfem(
    predictions: Sequence[str],
    references: Sequence[Any],
    tables: Sequence[Mapping[str, Any]] | None = None,
) -> Score:
    """Logical form exact match, 0-100, of WikiSQL queries (Zhong et al. 2017, as decaNLP 2018 counts it).

    References are gold query texts with `tables` giving each {sql, header} (and types, rows), or lists of one
    {sql, header, answer}. `details` also has lfem_unordered (conditions in any order), lfem_corrected (right
    too where the text equals the gold text: three gold queries of the test set cannot be read back), and,
    where there are rows, execution: the share that finds the same values as the gold query.
    Raises MetricError for an example without its form or header.
    """
    if tables is None:
        return evaluate(LFEM, predictions, [gold_item(reference) for reference in references])
    return evaluate(LFEM, predictions, items(references, meta=tables))


def gold_item(reference: Any) -> Item:
    gold = reference[0] if isinstance(reference, list | tuple) and len(reference) == 1 else reference
    if not isinstance(gold, Mapping) or "answer" not in gold:
        raise MetricError(f"Without tables= a reference is [{{sql, header, answer}}]; given {reference!r}.")
    # The table of WikiSQL's own files holds rows and types beside the header.
    return Item([gold["answer"]], meta={**gold.get("table", {}), **gold})
