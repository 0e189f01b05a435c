"""`decabench metrics`: list, show, selftest."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING

import click

from decabench.commands._console import TableColumn, console, echo, is_set, print_json, print_table
from decabench.commands._options import complete_metric

if TYPE_CHECKING:
    from decabench.commands._documents import MetricFields


@click.group(invoke_without_command=True)
@click.pass_context
def metrics(context: click.Context) -> None:
    """List the metrics with their definitions, their ranges, and the scorers that they reproduce."""
    if context.invoked_subcommand is not None:
        return
    from decabench.metrics import METRICS

    if is_set("json"):
        print_json({name: _describe(name) for name in METRICS})
        return
    for name in METRICS:
        _print_metric(name)
        echo("")


@metrics.command()
@click.argument("name", shell_complete=complete_metric)
def show(name: str) -> None:
    """Show a metric's definition, its range, and the scorers that it reproduces."""
    from decabench.errors import require_name
    from decabench.metrics import METRICS

    require_name(name, METRICS, "metric")
    if is_set("json"):
        print_json(_describe(name))
    else:
        _print_metric(name)


def _print_metric(name: str) -> None:
    from decabench.metrics import METRICS

    metric = METRICS[name]
    low, high = metric.range
    direction = "higher is better" if metric.higher_is_better else "lower is better"
    echo(name, bold=True)
    echo(f"  {metric.definition}", indent=2)
    echo(f"  range      {low:g} to {high:g}, {direction}")
    echo(f"  signature  {metric.signature}", indent=13)
    echo(f"  source     {metric.source}", indent=13)


def _describe(name: str) -> MetricFields:
    from decabench.commands._documents import MetricFields
    from decabench.metrics import METRICS

    low, high = METRICS[name].range
    return MetricFields.from_value(METRICS[name], range=(low, None if isinf(high) else high))


@metrics.command()
@click.pass_context
def selftest(context: click.Context) -> None:
    """Check that this installation reproduces bundled official scores. This takes a few seconds and works offline."""
    from decabench.metrics.selftest import run_selftest

    results = run_selftest()
    failed = sum(not case.passed for case in results)
    if is_set("json"):
        from decabench.commands._documents import SelftestCase, SelftestDocument

        print_json(SelftestDocument(cases=[*map(SelftestCase.from_value, results)], failed=failed))
        context.exit(1 if failed else 0)
    rows = [
        [*(case.name, case.scorer, case.score), f"{case.expected:.6f}", f"{case.got:.6f}", state]
        for case in results
        for state in ["pass" if case.passed else "FAIL"]
    ]
    columns = [TableColumn("case"), TableColumn("scorer", is_text=True), TableColumn("score")]
    columns += [TableColumn("expected", right=True), TableColumn("got", right=True), TableColumn("")]
    print_table(console(), columns, rows)
    verb = "differs" if failed == 1 else "differ"
    echo(f"{len(results)} scores: " + (f"{failed} {verb}" if failed else "all agree"))
    context.exit(1 if failed else 0)
