"""`decabench predict`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from decabench.commands._console import console, format_count
from decabench.commands._options import (
    SectionedCommand,
    home_option,
    include_option,
    output_option,
    section,
    split_option,
    tasks_option,
)

if TYPE_CHECKING:
    from decabench.commands._console import Clock
    from decabench.runs import Estimate, Plan, Prompts, Report, Run, Tally

__all__ = ["Prices", "predict", "print_estimate", "print_report", "write_record"]

# ---- predict_output

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
        cells = [format_count(row.examples), format_count(row.answered), format_count(row.prompt_tokens)]
        cells += [format_count(row.completion_tokens), _time(row.seconds), _money(cost)]
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
        "answers": format_count(tally.resumed + tally.answered),
        "failed": format_count(tally.failed),
        "time": _time(tally.seconds),
        "examples/s": f"{tally.answered / tally.seconds:,.1f}" if tally.answered and tally.seconds else "–",
        "resumed": format_count(tally.resumed),
        "context cut": format_count(tally.cut),
        "cut off": format_count(tally.truncated),
        "tokens in": format_count(tally.prompt_tokens if counted else None),
        "tokens out": format_count(tally.completion_tokens if counted else None),
        "cost": _money(cost if counted else None),
    }


def _remarks(planned: Plan, report: Report) -> list[str]:
    from decabench.commands._console import peak_memory

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
    from decabench.commands._console import write_run_file

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


# ---- predict

asked = section("What is asked")
prompts = section("Prompts, for language models")
model = section("The model")
server = section("Servers and programs")
running = section("The run")

_MODEL = (
    "model",
    "revision",
    "api",
    "dtype",
    "device",
    "device_map",
    "max_new_tokens",
    "max_prompt_tokens",
    "temperature",
    "top_p",
    "beam",
    "concurrency",
    "requests_per_minute",
    "timeout",
    "retries",
    "chat",
)
"""The options that are fields of `ModelOptions`."""


@click.command(cls=SectionedCommand)
@click.option(
    "--predictor",
    required=True,
    metavar="NAME",
    help="hf:NAME_OR_PATH, openai:BASE_URL, command:'PROGRAM ARGUMENTS', mqan:CHECKPOINT, "
    "package.module:object, or a baseline: majority, first-choice, copy-context, lead-3, random, oracle.",
)
@tasks_option
@split_option("validation", "Which split to answer.")
@output_option("The submission's folder: new, empty, or one where the same run goes on.", required=False)
@click.option("--name", default="", help="The submission's name.  [default: the predictor's]")
@click.option("--author", "authors", multiple=True, help="Who made it; may be repeated.")
@click.option("--description", default="", help="A sentence on how it answers.")
@click.option("--url", default="", help="Where a person reads more.")
@click.option("--model-size", type=click.IntRange(min=0), metavar="N", help="Number of parameters.")
@click.option("--training-data", default="", help="What the model has seen.")
@click.option("--compress", type=click.Choice(["gz", "zst"]), help="Compress the files of answers.")
@click.option(
    "--force",
    is_flag=True,
    help="Replace a submission of another predictor that is in the folder: its answers and results are removed.",
)
@home_option
@include_option
@asked("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N of each task.")
@asked(
    "--ids",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Only these examples: one id a line.",
)
@asked(
    "--question-variant",
    "variant",
    default="0",
    show_default=True,
    metavar="K|all",
    help="Another wording of the questions; 0 is the dataset's. decabench tasks show lists them.",
)
@asked("--dry-run", is_flag=True, help="Count examples and tokens, estimate time and cost, ask nothing.")
@asked("--show-prompt", metavar="TASK", help="Print what would be sent for the first example, ask nothing.")
@prompts(
    "--template",
    metavar="NAME|FILE",
    help="default, plain (question and context alone), or a file of your own.  [default: default]",
)
@prompts("--system", metavar="TEXT", help="The system message.  [default: the template's]")
@prompts(
    "--shots",
    type=click.IntRange(min=0),
    metavar="N",
    help="Examples of the training split before each question.  [default: 0]",
)
@prompts(
    "--extract/--no-extract",
    default=None,
    help="Whether the answer is taken out of the text.  [default: for hf: and openai:]",
)
@model("--model", metavar="NAME", help="The name that the server knows the model by (openai:).")
@model("--revision", metavar="TEXT", help="Of the hub's model (hf:); else any text that names the weights.")
@model(
    "--chat/--no-chat",
    default=None,
    help="Whether to use the model's chat template (hf:).  [default: where it has one]",
)
@model(
    "--dtype",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    help="Of the weights in memory (hf:).  [default: auto]",
)
@model("--device", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps (hf:).  [default: auto]")
@model("--device-map", metavar="NAME", help="How weights are spread over devices: auto, balanced, … (hf:).")
@model(
    "--batch-size",
    default="auto",
    show_default=True,
    metavar="N|auto",
    help="Questions at once. auto grows while it fits (hf:); a Python object gets 64.",
)
@model(
    "--max-new-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="For all tasks.  [default: the template's]",
)
@model(
    "--max-prompt-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help="Contexts are cut to fit, and the answers say so.  [default: what the model takes]",
)
@model("--temperature", type=click.FloatRange(min=0), default=0.0, show_default=True, help="0 is greedy.")
@model(
    "--top-p", type=click.FloatRange(min=0, max=1), metavar="P", help="Nucleus sampling, above temperature 0."
)
@model(
    "--beam",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of a beam search (mqan:); 1 is greedy.  [default: 1]",
)
@model("--seed", default=0, show_default=True, help="For sampling, for the choice of shots, and for random.")
@server("--api", type=click.Choice(["chat", "completions"]), help="Of the server (openai:).  [default: chat]")
@server("--concurrency", type=click.IntRange(min=1), metavar="N", help="Requests in flight.  [default: 8]")
@server("--requests-per-minute", type=click.FloatRange(min=0, min_open=True), metavar="N", help="A limit.")
@server(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For a request or a program's next answer.  [default: 120 for a request, none for a program]",
)
@server("--retries", type=click.IntRange(min=0), metavar="N", help="Of a request.  [default: 5]")
@running(
    "--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True, help="Where it runs."
)
@running("--workers", type=click.IntRange(min=1), metavar="N", help="Copies of the model, with --engine ray.")
@running("--address", metavar="ADDRESS", help="The Ray cluster.  [default: one is started here]")
@running(
    "--fresh",
    is_flag=True,
    help="Ask everything again instead of going on from the journal; old answers stay until all new ones are there.",
)
@running(
    "--give-up-after",
    type=click.IntRange(min=0),
    default=25,
    show_default=True,
    metavar="N",
    help="Stop after so many failures in a row; 0: never.",
)
@running("--price-in", type=click.FloatRange(min=0), metavar="PRICE", help="Of a million tokens given.")
@running("--price-out", type=click.FloatRange(min=0), metavar="PRICE", help="Of a million tokens made.")
@click.pass_context
def predict(context: click.Context, /, **given: Any) -> None:
    """Answer the questions of prepared tasks and write a submission.

    Without --tasks or --suite: every task of the ten that has the split. Every answer goes to DIR/journal as it comes:
    after a kill, a Ctrl-C or failures the same command goes on from there. Ends with 1 where examples failed; the
    submission is then marked incomplete.
    """
    if given["show_prompt"]:
        _show_prompt(given)
        return
    if given["output"] is None and not given["dry_run"]:
        raise click.UsageError("Missing option '--output'.")
    from decabench.runs import plan

    price = Prices(given["price_in"], given["price_out"])
    planned = plan(_run(given))
    if given["dry_run"]:
        from decabench.runs import estimate

        print_estimate(estimate(planned), price)
        return
    _refuse_occupied(planned, given["force"])
    context.exit(_predict(planned, price))


def _predict(planned: Plan, price: Any) -> int:
    from decabench.commands._console import start_clock
    from decabench.runs import reporter, run_predictor

    clock = start_clock()
    with reporter() as progress:
        report = run_predictor(planned, progress)
    write_record(planned, report, clock, price)
    print_report(planned, report, price)
    return 1 if report.failed else 0


def _run(given: dict[str, Any]) -> Run:
    from decabench.commands._options import chosen_tasks
    from decabench.predictors import ModelOptions
    from decabench.runs import Choice, Run, read_ids
    from decabench.tasks import DECATHLON, Store, available_splits, home_folder, known_tasks

    known = known_tasks(given["include"])
    names = chosen_tasks(given["tasks"], given["include"], given["suite"])
    if names is None or not given["tasks"]:  # a whole suite: some of its tasks may have no such split
        whole = names or DECATHLON.tasks
        names = [task for task in whole if given["split"] in available_splits(known[task])]
    return Run(
        predictor=given["predictor"],
        tasks=[known[task] for task in names],
        split=given["split"],
        output=given["output"] or Path(),
        store=Store(home_folder(given["home"])),
        name=given["name"],
        authors=given["authors"],
        description=given["description"],
        seed=given["seed"],
        batch_size=_batch_size(given["batch_size"]),
        url=given["url"],
        model_size=given["model_size"],
        training_data=given["training_data"],
        compress=given["compress"],
        options=ModelOptions(**{name: given[name] for name in _MODEL}),
        prompts=_prompts(given),
        extract=given["extract"],
        variant=_variant(given["variant"]),
        choice=Choice(given["limit"], read_ids(given["ids"]) if given["ids"] else None),
        engine=given["engine"],
        workers=given["workers"],
        address=given["address"],
        fresh=given["fresh"],
        give_up_after=given["give_up_after"],
    )


def _prompts(given: dict[str, Any]) -> Prompts | None:
    """None where nothing was said of prompts: a predictor that takes none would refuse them."""
    said = {name: given[name] for name in ("template", "system", "shots") if given[name] is not None}
    if not said:
        return None
    from decabench.runs import Prompts

    return Prompts(**said)


def _batch_size(text: str) -> int | None:
    if text == "auto":
        return None
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise click.BadParameter(f"{text!r} is neither a number above 0 nor auto.", param_hint="--batch-size")


def _variant(text: str) -> int:
    from decabench.runs import ALL_VARIANTS

    if text == "all":
        return ALL_VARIANTS
    if text.isdecimal():
        return int(text)
    raise click.BadParameter(
        f"{text!r} is neither a variant's number nor all.", param_hint="--question-variant"
    )


def _refuse_occupied(planned: Plan, force: bool) -> None:
    """A folder takes one run's submission: another's is replaced only where that is asked for."""
    from decabench.runs import occupied_by

    owner = occupied_by(planned)
    if owner and not force:
        raise click.UsageError(
            f"{planned.run.output} {owner}: name another folder, or replace it with --force."
        )


def _is_chat(given: dict[str, Any]) -> bool:
    """Whether turns are sent; a hub's model may have no chat template, which only loading it would tell."""
    return given["api"] != "completions" and given["chat"] is not False


def _show_prompt(given: dict[str, Any]) -> None:
    from decabench.errors import DecabenchError
    from decabench.prompts import show
    from decabench.runs import plan

    planned = plan(_run({**given, "tasks": (given["show_prompt"],)}))
    for part in planned.parts:
        if part.prompting is None:
            raise DecabenchError(
                f"{planned.run.predictor} takes no prompts: it gets id, question and context as they are."
            )
        question = next(part.questions(planned.run))
        click.echo(f"{part.name}, {question.id}")
        click.echo(show(part.prompting, question, chat=_is_chat(given)))
