"""`decabench metrics`: list, selftest."""

from __future__ import annotations

import click

from decabench.commands._console import echo

__all__ = ["metrics"]


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.pass_context
def metrics(context: click.Context, as_json: bool) -> None:
    """List the metrics: what they measure, their ranges, and the scorers they reproduce."""
    if context.invoked_subcommand is not None:
        return
    import json

    from decabench.metrics import METRICS

    if as_json:
        keys = ("definition", "range", "higher_is_better", "headline", "signature", "source")
        content = {name: {key: getattr(metric, key) for key in keys} for name, metric in METRICS.items()}
        echo(json.dumps(content, indent=1))
        return
    for name, metric in METRICS.items():
        low, high = metric.range
        direction = "higher is better" if metric.higher_is_better else "lower is better"
        echo(name, bold=True)
        echo(f"  {metric.definition}")
        echo(f"  range      {low:g} to {high:g}, {direction}")
        echo(f"  signature  {metric.signature}")
        echo(f"  source     {metric.source}\n")


@metrics.command()
@click.pass_context
def selftest(context: click.Context) -> None:
    """Check this installation against bundled official scores: offline, in a few seconds."""
    from rich.table import Table

    from decabench.commands._console import console
    from decabench.metrics.selftest import run_selftest

    results = run_selftest()
    table = Table("case", "scorer", "score", "expected", "got", "", box=None, header_style="bold")
    for case in results:
        state = "pass" if case.passed else "FAIL"
        table.add_row(case.name, case.scorer, case.score, f"{case.expected:.6f}", f"{case.got:.6f}", state)
    console().print(table)
    failed = sum(not case.passed for case in results)
    echo(f"{len(results)} scores: " + (f"{failed} differ" if failed else "all agree"))
    context.exit(1 if failed else 0)
