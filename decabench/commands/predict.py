"""`decabench predict`: ask a predictor, show progress, and report the answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from decabench.commands import _options
from decabench.commands._console import (
    TableColumn,
    clock_time,
    console,
    describe_valid,
    echo,
    format_count,
    is_set,
    note,
    peak_memory,
    print_json,
    print_table,
    show_progress,
    write_run_file,
)
from decabench.commands._options import click_option, options_of
from decabench.errors import DecabenchError, ModelError
from decabench.options import option
from decabench.predictors import ModelOptions
from decabench.prompts import load_template, show
from decabench.runs import (
    Estimate,
    Plan,
    Prompts,
    Report,
    Run,
    Selection,
    Tally,
    estimate_run,
    make_run,
    occupied_by,
    plan_run,
    run_plan,
)
from decabench.tasks import DECATHLON, Store, choose_tasks, known_tasks, tasks_with_split
from decabench.text import show_cost

_QUESTIONS = "Questions"
_OUTPUT = option(
    None,
    "Folder for the submission. It must be new or empty, or contain an earlier run to continue.",
    type=_options.FOLDER,
)
_FORCE = option(
    False,
    "Replace another predictor's submission in the folder, including its answers and results. Also required "
    "if the new run would keep fewer answers of the same predictor.",
)
_DRY_RUN = option(
    False,
    "Count examples and tokens, and estimate the time and cost, without asking the model.",
    section=_QUESTIONS,
)
_SHOW_PROMPT = option(
    None,
    "Print what would be sent for the first example of TASK, without sending it.",
    section=_QUESTIONS,
    metavar="TASK",
    complete=_options.complete_task,
)


@click.command(cls=_options.SectionedCommand)
@options_of(Run, "predictor")
@click_option("tasks", tuple[str, ...], _options.TASKS)
@click_option("suite", str, _options.SUITE)
@click_option("split", _options.Split, option("validation", "Split to answer."))
@click_option("output", Path, _OUTPUT)
@options_of(Run, "name", "authors", "description", "url", "model_size", "training_data", "compress")
@click_option("force", bool, _FORCE)
@click_option("home", Path, _options.HOME)
@click_option("include", tuple[Path, ...], _options.INCLUDE)
@options_of(Selection)
@options_of(Run, "variant", "samples")
@click_option("dry_run", bool, _DRY_RUN)
@click_option("show_prompt", str, _SHOW_PROMPT)
@options_of(Prompts)
@options_of(Run, "extract", "reasoning_tags")
@options_of(ModelOptions)
@options_of(Run, "engine", "workers", "address", "fresh", "give_up_after")
@options_of(Run, "prices", "price_in", "price_out", "max_cost")
@click.pass_context
def predict(context: click.Context, /, **given: Any) -> None:
    """Answer the questions in prepared tasks and write a submission.

    Without --tasks or --suite, answers every task of the decathlon that has the split. Each answer is written to
    DIR/journal as it arrives. After a crash, Ctrl-C or failed examples, run the same command again to continue. Exits
    with 4 if examples failed. The submission is then marked as incomplete.
    """
    if given["show_prompt"]:
        _show_prompt(given)
        return
    if given["output"] is None and not given["dry_run"]:
        raise click.UsageError("Missing option '--output'.")
    plan = plan_run(_run(given))
    _note_unused_templates(given["template"], given["include"])
    if given["dry_run"]:
        estimates = estimate_run(plan)
        if is_set("json"):
            from decabench.commands._documents import EstimateDocument

            print_json(EstimateDocument(tasks=estimates))
        else:
            print_estimate(estimates)
        return
    if (occupant := occupied_by(plan)) and not given["force"]:
        raise click.UsageError(
            f"{plan.run.output} {occupant}. Choose another folder, or use --force to replace this folder's contents."
        )
    started = time.monotonic()
    report = run_plan(plan, show_progress())
    write_record(plan, report, started)
    if is_set("json"):
        _print_document(plan, report)
    else:
        print_report(plan, report)
    context.exit(ModelError.exit_code if report.failed else 0)


def _print_document(plan: Plan, report: Report) -> None:
    from decabench.commands._documents import PredictionDocument

    print_json(
        PredictionDocument(
            submission=str(plan.run.output),
            name=str(plan.submission_info().name),
            split=plan.run.split,
            tasks=report.tallies,
            failed=report.failed,
            remarks=list(_remarks(plan, report)),
        )
    )


_OF_COMMAND = frozenset(
    {"tasks", "suite", "split", "output", "force", "home", "include", "dry_run", "show_prompt"}
)
"""Options that the command uses itself, instead of passing their values to `make_run` unchanged."""


def _run(given: dict[str, Any]) -> Run:
    known = known_tasks(given["include"])
    names = choose_tasks(given["tasks"], given["suite"], given["include"])
    if names is None or not given["tasks"]:
        names = tasks_with_split(names or DECATHLON.tasks, given["split"], known)
    return make_run(
        **{name: value for name, value in given.items() if name not in _OF_COMMAND},
        tasks=[known[task] for task in names],
        split=given["split"],
        output=given["output"] or Path(),
        store=Store(given["home"]),
    )


def _note_unused_templates(template: str, include: tuple[Path, ...]) -> None:
    if template == "default":
        return
    if unknown := sorted(load_template(template).tasks.keys() - known_tasks(include).keys()):
        note(f"The template has prompts for unknown tasks, which were ignored: {', '.join(unknown)}.")


def _show_prompt(given: dict[str, Any]) -> None:
    plan = plan_run(_run({**given, "tasks": (given["show_prompt"],)}))
    _note_unused_templates(given["template"], given["include"])
    shown = []
    for task in plan.tasks:
        if task.prompting is None:
            raise DecabenchError(
                f"{plan.run.predictor} does not use prompts. It receives the id, question and context unchanged."
            )
        question = next(task.questions())
        shown.append((task.name, question.id, show(task.prompting, question, chat=task.is_chat)))
    if is_set("json"):
        from decabench.commands._documents import PromptDocument, ShownPrompt

        print_json(
            PromptDocument(prompts=[ShownPrompt(task=name, id=id, text=text) for name, id, text in shown])
        )
        return
    for name, id, text in shown:
        echo(f"{name}, {id}")
        echo(text, wrap=False)


_FIRST_RUN = "run with --limit 50 --output DIR, then with --dry-run --output DIR"


def print_estimate(rows: Sequence[Estimate], first_run: str = _FIRST_RUN) -> None:
    """Print the estimates of `--dry-run`, and how they were made.

    `first_run` tells the user how to get an estimate of the time.
    """
    headings = ("examples", "answered", "tokens in", "max. tokens out", "time", "max. cost")
    ranked = [TableColumn(name, right=True, rank=rank) for rank, name in enumerate(headings)]
    table = []
    for row in rows:
        counts = (row.examples, row.answered, row.prompt_tokens, row.completion_tokens)
        table.append([row.task, *map(format_count, counts), _duration(row.seconds), _money(row.cost)])
    out = console()
    print_table(out, [TableColumn("task"), *ranked], table)
    out.print("No questions were asked.")
    if prompted := [row for row in rows if row.prompt_tokens is not None]:
        given = sum(row.prompt_tokens or 0 for row in prompted)
        made = sum(row.completion_tokens or 0 for row in prompted)
        costs = [row.cost for row in prompted if row.cost is not None]
        price = f", at a cost of at most {_money(sum(costs))}" if costs else ""
        how = "counted by the model's tokenizer"
        if not prompted[0].is_counted:
            how = "estimated at four characters per token"
        if any(row.examples - row.answered > 500 for row in prompted):
            how += ", extrapolated from the first 500 examples of a task"
        out.print(f"Total: {given:,} tokens in ({how}), at most {made:,} out{price}.")
    if all(row.seconds is None for row in rows):
        out.print(f"The time is unknown. To estimate it, {first_run}.")


def write_record(plan: Plan, report: Report, started: float) -> None:
    """Write times, tokens and memory to `run.json` next to the submission."""
    prompts = {task.name: task.prompting.describe() for task in plan.tasks if task.prompting}
    tasks = [{**asdict(tally), "prompts": prompts.get(tally.task)} for tally in report.tallies]
    more = {"fingerprint": plan.predictor["fingerprint"], "engine": plan.run.engine, "tasks": tasks}
    write_run_file(report.folder, started, more)


_ALWAYS = ("answers", "failed", "time", "examples/s")
_SOMETIMES = ("resumed", "context cut", "cut off", "tokens in", "tokens out", "cost")
"""Columns that are shown only if at least one task has a value other than 0."""
_RANKS = {"time": 2, "examples/s": 3, "resumed": 1, "tokens in": 4, "tokens out": 4, "cost": 4}
"""Columns that can be hidden in a narrow window. Columns with the highest numbers are hidden first."""


def print_report(plan: Plan, report: Report) -> None:
    """Print the table at the end of a run, and warnings about the answers."""
    rows = {tally.task: _cells(tally) for tally in report.tallies}
    shown = [name for name in _SOMETIMES if any(cells[name] not in ("0", "–") for cells in rows.values())]
    headings = (*_ALWAYS, *shown)
    columns = [TableColumn(name, right=True, rank=_RANKS.get(name, 0)) for name in headings]
    out = console()
    table = [[task, *map(cells.__getitem__, headings)] for task, cells in rows.items()]
    print_table(out, [TableColumn("task"), *columns], table)
    run = plan.run
    tasks = f"{len(run.tasks)} {'task' if len(run.tasks) == 1 else 'tasks'} ({run.split})"
    name, has_answers = (
        plan.predictor["name"],
        any(tally.resumed + tally.answered for tally in report.tallies),
    )
    done = f"Wrote {name}'s answers to" if has_answers else f"{name} gave no answers to"
    out.print(f"{done} {tasks}{f' to {run.output}' if has_answers else ''}.")
    if not is_set("quiet"):
        out.print(f"Peak memory: {peak_memory():,.0f} MB{_gpu_memory()}.")
    for sentence in _remarks(plan, report):
        out.print(sentence)


def _cells(tally: Tally) -> dict[str, str]:
    counted = tally.prompt_tokens or tally.completion_tokens
    speed = f"{tally.answered / tally.seconds:,.1f}" if tally.answered and tally.seconds else "–"
    return {
        "answers": format_count(tally.resumed + tally.answered),
        "failed": format_count(tally.failed),
        "time": _duration(tally.seconds),
        "examples/s": speed,
        "resumed": format_count(tally.resumed),
        "context cut": format_count(tally.cut),
        "cut off": format_count(tally.truncated),
        "tokens in": format_count(tally.prompt_tokens if counted else None),
        "tokens out": format_count(tally.completion_tokens if counted else None),
        "cost": _money(tally.cost if counted else None),
    }


def _remarks(plan: Plan, report: Report) -> Iterator[str]:
    run = plan.run
    rows = {task.name: run.store.record(task.name, run.split).rows for task in run.tasks}
    totals = {  # by task, since the names of tallies include the variant
        planned.task.name: tally.total for planned, tally in zip(plan.tasks, report.tallies, strict=True)
    }
    if limited := [task for task in rows if totals.get(task, rows[task]) < rows[task]]:
        scores = "their scores are" if limited[1:] else "its score is"
        yield f"Partial: {', '.join(limited)} ({run.selection}): {scores} not ranked."
    if report.removed:
        removed = ", ".join(report.removed)
        yield f"Removed results whose answers have changed: {removed}. Run decabench evaluate again."
    yield from describe_answers(report, run.predictor)
    yield from (f"{tally.task}: {tally.answer_format}." for tally in report.tallies if tally.answer_format)


_FORMS = {
    "unparseable": "{} {are} unparseable.",
    "refused": "{} {were} refused by the model or its server's filter, and {are} scored as wrong.",
    "cut_reasoning": "{} ran out of tokens during reasoning. Increase --max-new-tokens, or turn reasoning off.",
    "only_reasoning": "{} {contain} only reasoning. Increase --max-new-tokens, or turn reasoning off.",
    "empty": "{} {are} empty.",
    "not_in_context": "{} {are} not in the context, although the task requires answers from the context.",
}
"""Warnings about answers, by the `Tally` field that counts them.

`{}` stands for a phrase such as `3 of 20 answers`, and `{are}`, `{were}` and `{contain}` for verbs that agree with it.
"""

_TEMPLATE_ADVICE = {
    "hf": "try --chat or --no-chat",
    "openai": "check the server's template, or try another --api",
}
"""Advice about the chat template, by predictor scheme."""


def describe_answers(report: Report, predictor: str) -> Iterator[str]:
    """Yield warnings about answers that failed, have the wrong form, or contain leftovers of a chat template."""
    for tally in report.tallies:
        if tally.failed:
            yield (
                f"Incomplete: {tally.task}: {tally.failed:,} of {tally.total:,} examples failed "
                f"({tally.commonest_error.rstrip('.')}). Run the same command again to retry them."
            )
    for tally in report.tallies:
        count = tally.resumed + tally.answered
        example = f" {tally.other_label_example}" if tally.other_label_example else ""
        has_others = tally.other_label != tally.unparseable
        if has_others and tally.other_label:
            yield f"{tally.task}: {describe_valid(count - tally.other_label, count)}.{example}"
        for kind, sentence in _FORMS.items():
            if number := getattr(tally, kind):
                more = example if kind == "unparseable" and not has_others else ""
                verbs = {"are": "is", "were": "was", "contain": "contains"}
                verbs = verbs if number == 1 else {verb: verb for verb in verbs}
                said = sentence.format(f"{number:,} of {count:,} answers", **verbs)
                yield f"{tally.task}: {said}{more}"
    # served_by is "model (fingerprint)"; a model's fingerprint may change while it answers
    served = dict.fromkeys(name.partition(" (")[0] for tally in report.tallies for name in tally.served_by)
    if len(served) > 1:
        yield (
            f"According to the server, the answers come from {len(served)} models: {', '.join(served)}. To ask "
            "all questions again, use --fresh."
        )
    count = sum(tally.resumed + tally.answered for tally in report.tallies)
    if number := sum(tally.template for tally in report.tallies):
        scheme = predictor.partition(":")[0]
        advice = _TEMPLATE_ADVICE.get(scheme, "check the prompts that the model receives")
        yield (
            f"The chat template looks wrong: {number:,} of {count:,} answers contained role headers or "
            f"special tokens, which were removed. To find out why, {advice}."
        )
    if number := sum(tally.tool_calls for tally in report.tallies):
        form = "calls a tool and is" if number == 1 else "call a tool and are"
        yield f"{number:,} of {count:,} answers {form} unparseable. Turn tools off on the server."


def _gpu_memory() -> str:
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    return f", GPU {torch.cuda.max_memory_allocated() / 2**20:,.0f} MB"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:.1f} s" if seconds < 60 else clock_time(seconds)


def _money(cost: float | None) -> str:
    return "–" if cost is None else show_cost(cost)
