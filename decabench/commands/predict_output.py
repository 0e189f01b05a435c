"""What `decabench predict` prints and records: the estimate before, the table after."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from decabench.commands.console import console, count

if TYPE_CHECKING:
    from decabench.answering import Tally
    from decabench.estimate import Estimate
    from decabench.planning import Plan
    from decabench.predicting import Report
    from decabench.runlog import Clock

__all__ = ["Prices", "print_estimate", "print_report", "write_record"]

_MILLION = 1_000_000


@dataclass(frozen=True)
class Prices:
    """What tokens cost, in whatever currency."""

    given: float | None
    """A million tokens given."""
    made: float | None
    """A million tokens made."""

    def cost(self, given: int | None, made: int | None) -> float | None:
        """Of so many tokens; None where no price was named."""
        if self.given is None and self.made is None:
            return None
        return ((self.given or 0) * (given or 0) + (self.made or 0) * (made or 0)) / _MILLION


def print_estimate(rows: Sequence[Estimate], prices: Prices) -> None:
    """The table of `--dry-run`."""
    from rich.table import Table

    table = Table("task", box=None, header_style="bold")
    for heading in (
        "examples",
        "in the journal",
        "tokens in",
        "tokens out, at most",
        "time",
        "cost, at most",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        cost = prices.cost(row.prompt_tokens, row.completion_tokens)
        cells = [count(row.examples), count(row.answered), count(row.prompt_tokens)]
        cells += [count(row.completion_tokens), _time(row.seconds), _money(cost)]
        table.add_row(row.task, *cells)
    out = console()
    out.print(table)
    for sentence in _basis(rows, prices):
        out.print(sentence)


def _basis(rows: Sequence[Estimate], prices: Prices) -> list[str]:
    """What the estimate rests on."""
    prompted = [row for row in rows if row.prompt_tokens is not None]
    sentences = ["Nothing was asked."]
    if prompted:
        given = sum(row.prompt_tokens or 0 for row in prompted)
        made = sum(row.completion_tokens or 0 for row in prompted)
        cost = prices.cost(given, made)
        price = f", {_money(cost)} at most" if cost is not None else ""
        how = "by the model's tokenizer" if prompted[0].is_counted else "at four characters a token"
        sentences.append(
            f"All: {given:,} tokens in ({how}, from 500 examples a task), {made:,} out at most{price}."
        )
    if all(row.seconds is None for row in rows):
        sentences.append("Time: not known before a first run in this folder; try --limit 50.")
    return sentences


def print_report(planned: Plan, report: Report, prices: Prices) -> None:
    """The last table of a run, and what is wrong with the submission."""
    from rich.table import Table

    rows = {tally.task: _cells(tally, prices) for tally in report.tallies}
    table = Table("task", box=None, header_style="bold")
    shown = [*_ALWAYS] + [
        name for name in _SOMETIMES if any(cells[name] not in ("0", "–") for cells in rows.values())
    ]
    for heading in shown:
        table.add_column(heading, justify="right")
    for task, cells in rows.items():
        table.add_row(task, *(cells[name] for name in shown))
    out = console()
    out.print(table)
    for sentence in _remarks(planned, report):
        out.print(sentence)


_ALWAYS = ("answers", "failed", "time", "examples/s")
_SOMETIMES = ("resumed", "context cut", "cut off", "tokens in", "tokens out", "cost")
"""Columns that stand there where any task has something to say in them."""


def _cells(tally: Tally, prices: Prices) -> dict[str, str]:
    counted = tally.prompt_tokens or tally.completion_tokens
    cost = prices.cost(tally.prompt_tokens, tally.completion_tokens)
    return {
        "answers": count(tally.resumed + tally.answered),
        "failed": count(tally.failed),
        "time": _time(tally.seconds),
        "examples/s": f"{tally.answered / tally.seconds:,.1f}" if tally.answered and tally.seconds else "–",
        "resumed": count(tally.resumed),
        "context cut": count(tally.cut),
        "cut off": count(tally.truncated),
        "tokens in": count(tally.prompt_tokens if counted else None),
        "tokens out": count(tally.completion_tokens if counted else None),
        "cost": _money(cost if counted else None),
    }


def _remarks(planned: Plan, report: Report) -> list[str]:
    from decabench.runlog import peak_memory

    run, sentences = planned.run, []
    tasks = len(run.tasks)
    sentences.append(
        f"Wrote {run.predictor}'s answers to {tasks} {'task' if tasks == 1 else 'tasks'} ({run.split}) to {run.output}."
    )
    sentences.append(f"Peak memory: {peak_memory():,.0f} MB{_gpu_memory()}.")
    if limited := [task.name for task in run.tasks if _is_limited(planned, report, task.name)]:
        sentences.append(f"Partial: {', '.join(limited)}: only {run.choice.text}; its scores are not ranked.")
    for tally in report.tallies:
        if tally.failed:
            sentences.append(
                f"Incomplete: {tally.task}: {tally.failed:,} of {tally.total:,} examples failed "
                f"({tally.commonest_error}); the same command asks them again."
            )
    return sentences


def _is_limited(planned: Plan, report: Report, task: str) -> bool:
    rows = planned.run.store.record(task, planned.run.split).rows
    return any(tally.total < rows for tally in report.tallies if tally.task == task)


def _gpu_memory() -> str:
    """Of the GPU, where torch has used one."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    return f", of the GPU {torch.cuda.max_memory_allocated() / 2**20:,.0f} MB"


def write_record(planned: Plan, report: Report, clock: Clock, prices: Prices) -> None:
    """Times, tokens and memory, in `run.json` beside the submission."""
    from decabench.runlog import write_run_file

    prompts = {part.name: part.prompting.describe() for part in planned.parts if part.prompting}
    tasks = [
        {
            **asdict(tally),
            "prompts": prompts.get(tally.task),
            "cost": prices.cost(tally.prompt_tokens, tally.completion_tokens),
        }
        for tally in report.tallies
    ]
    more = {"fingerprint": planned.predictor["fingerprint"], "engine": planned.run.engine, "tasks": tasks}
    write_run_file(report.folder, clock, more)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


def _money(cost: float | None) -> str:
    return "–" if cost is None else f"{cost:,.4f}" if cost < 1 else f"{cost:,.2f}"
