"""Run a predictor on tasks, and write the submission from the journals once all tasks are answered.

A submission is therefore never half-written, and an interrupted run produces the same submission once it is
completed.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decabench.errors import DecabenchError
from decabench.files import (
    Paths,
    make_folder,
    names_in,
    require_within,
    storage_errors,
    sweep_temporary,
    write_file,
)
from decabench.metrics import METRICS
from decabench.predictors import CHOICES_BY, PREDICTORS, Answer, Choice, best_choice
from decabench.prompts import (
    NOT_IN_CONTEXT,
    GivenAnswers,
    describe_format,
    extract,
    is_elsewhere,
    is_other_label,
    possible_labels,
    silent_rule,
)
from decabench.runs.ask import (
    BATCH,
    Engine,
    LocalEngine,
    Progress,
    Silent,
    Tally,
    TaskRun,
    answer_task,
)
from decabench.runs.journal import FOLDER as JOURNAL
from decabench.runs.journal import OLD, Journal
from decabench.runs.plan import (
    ALL_VARIANTS,
    Budget,
    Plan,
    PlannedTask,
    Reading,
    Run,
    Selection,
    plan_run,
)
from decabench.submission import (
    FOLDER,
    METADATA_NAME,
    RESULTS,
    TIME,
    VARIANTS,
    SubmissionInfo,
    changed_answers,
    file_name,
    lock_submission,
    read_metadata,
    remove_if_empty,
    remove_results,
    render_metadata,
    write_predictions,
)
from decabench.tasks import (
    DECATHLON,
    TASKS,
    Label,
    Question,
    Store,
    Task,
    Variant,
    known_tasks,
    select_tasks,
    tasks_with_split,
)
from decabench.text import excerpt

RUN_FILE = "run.json"
"""A file in the submission folder with the time and memory use of the last run. It isn't part of the submission."""

HALF_WRITTEN = ".partial"
"""A subfolder where the submission is written until it is complete."""

RELABELLED = "relabelled"
"""The rule recorded for an answer if a variant's label was replaced by the dataset's label."""

_MOST_SERVED = 10
"""The maximum number of served models to record per task in submission.toml.

Further names are dropped. If a server reports more names than this, they probably aren't models.
"""

_ERROR_LENGTH = 500
"""The maximum length of an error in submission.toml, in characters."""

Mark = Mapping[str, Any]
"""An entry of `partial` or `incomplete` in submission.toml."""


@dataclass(frozen=True)
class Report:
    """The result of a run: the submission folder, and a tally for each task and wording."""

    folder: Path
    """The submission folder."""
    tallies: Sequence[Tally]
    """A tally for each task and wording, in order."""
    removed: tuple[str, ...] = ()
    """Result folders that were removed because their answers changed, such as `results/test`."""

    @property
    def failed(self) -> int:
        """The number of questions without an answer, over all tasks, wordings and samples."""
        return sum(tally.failed for tally in self.tallies)


@dataclass(frozen=True)
class _Answered:
    planned: PlannedTask
    tally: Tally
    journal: Journal
    samples: tuple[_Answered, ...] = ()
    """Further answers to the same questions, for runs with several samples."""

    @property
    def failed(self) -> int:
        if not self.samples:
            return self.tally.failed
        journals = [each.journal.outcomes for each in (self, *self.samples)]
        ids = [question.id for question in self.planned.questions()]
        return sum(not all(isinstance(journal.get(id_), Answer) for journal in journals) for id_ in ids)


def predict(
    predictor: str,
    output: str | Path,
    tasks: str | Task | Iterable[str | Task] | None = None,
    split: str = "validation",
    home: str | Path | None = None,
    include: Paths = (),
    **settings: Any,
) -> Path:
    """Answer prepared tasks with a predictor, write the submission atomically and return its folder.

    `predictor` is a name as in `decabench predict --predictor`. `tasks` contains task names or tasks, by
    default those of the decathlon, and `include` contains files that define tasks. All other settings are
    fields of `decabench.runs.Run`. Existing answers of the same predictor to other tasks and splits are
    kept, and those of another predictor are replaced. Raises DecabenchError if the run can't start or is
    stopped by an error.
    """
    if tasks is None:
        tasks = tasks_with_split(DECATHLON.tasks, split, TASKS)
    chosen = select_tasks(tasks, known_tasks(include))
    run = Run(predictor, chosen, split, Path(output), Store(home), **settings)
    return run_plan(plan_run(run)).folder


def run_plan(plan: Plan, progress: Progress | None = None) -> Report:
    """Answer the questions missing from the journals, and write the submission.

    Raises DecabenchError if an error stops the run. The journals then keep all earlier answers, and the same run
    can be resumed.
    """
    run = plan.run
    shown = progress or Silent()
    with _locked(run.output), _make_engine(plan) as engine:
        with shown.show(run.name or str(plan.predictor["name"])):
            budget = _budget(plan)
            answered = [_answer(run, task, engine, shown, budget) for task in plan.tasks]
        removed = _write(plan, _with_samples(answered))
    tallies = [done.tally for done in answered]
    for tally in tallies:
        tally.cost = run.tariff.cost(tally.prompt_tokens, tally.completion_tokens)
    return Report(run.output, tallies, removed)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    _require_own_files(folder)
    with lock_submission(folder):
        sweep_temporary(folder, recursive=True)
        try:
            yield
        finally:
            remove_if_empty(folder / JOURNAL)


def _require_own_files(folder: Path) -> None:
    """Raise StorageError if a link would redirect a write or deletion outside the folder."""
    for name in (JOURNAL, HALF_WRITTEN, FOLDER, VARIANTS, RESULTS):
        require_within(folder, folder / name)
        for here, folders, files in os.walk(folder / name):
            require_within(
                folder, *(path for each in (*folders, *files) if (path := Path(here, each)).is_symlink())
            )


def _make_engine(plan: Plan) -> Engine:
    size = plan.run.options.batch_size or BATCH
    if plan.run.engine == "ray":
        from decabench.runs.ray_engine import RayEngine

        return RayEngine(plan.backend, size, plan.run.workers, plan.run.address)
    return LocalEngine(plan.backend, size)


def _with_samples(answered: Sequence[_Answered]) -> list[_Answered]:
    samples: dict[str, list[_Answered]] = {}
    for done in answered:
        if done.planned.sample:
            samples.setdefault(done.planned.task.name, []).append(done)
    firsts = (done for done in answered if not done.planned.sample)
    return [replace(done, samples=tuple(samples.get(done.planned.task.name, ()))) for done in firsts]


def _budget(plan: Plan) -> Budget | None:
    run = plan.run
    if run.max_cost is None:
        return None
    budget = Budget(run.tariff, run.max_cost)
    for task in plan.tasks if not run.fresh else ():
        for outcome in Journal(run.output, task.key).read().values():
            budget.count(outcome)
    return budget


def _answer(
    run: Run, planned: PlannedTask, engine: Engine, progress: Progress, budget: Budget | None
) -> _Answered:
    journal = Journal(run.output, planned.key)
    if run.fresh:
        journal.set_aside()
    with journal:
        tally = answer_task(TaskRun(planned, journal, engine, progress, run.give_up_after, budget))
    return _Answered(planned, tally, journal)


def occupied_by(plan: Plan) -> str:
    """Describe the contents of a folder that only --force may replace.

    The description is empty if the run may start or resume. Raises DecabenchError for a folder with other
    files, which is never replaced.
    """
    output = plan.run.output
    found = names_in(output)
    if METADATA_NAME in found:
        old, _ = read_metadata(output)
        if old is None:
            return "contains a submission that can't be read"
        if _is_same(old, plan):
            return _more_answers(old, plan)
        changed = "made by an earlier version of this model or with different settings"
        is_earlier = old.predictor.get("name") == plan.predictor["name"]
        return f"contains the submission {old.name}{f', {changed}' if is_earlier else ''}"
    journals = {path.name.removesuffix(OLD) for path in (output / JOURNAL).glob("*.jsonl*")}
    if journals & {task.key.file_name for task in plan.tasks}:
        return ""  # a run was killed, perhaps while moving its files into place
    if journals:
        return "contains the answers of another model"
    if found - {HALF_WRITTEN, JOURNAL, RUN_FILE}:
        raise DecabenchError(
            f"{output} contains other files and is not a submission. Choose another folder for the submission."
        )
    return ""


def _more_answers(old: SubmissionInfo, plan: Plan) -> str:
    """Describe answers that a run would replace with fewer answers to the same data, or return an empty string."""
    run, fewer = plan.run, []
    if run.selection == Selection():  # a run on all examples keeps everything
        return ""
    for task in run.tasks:
        key, record = f"{task.name}.{run.split}", run.store.record(task.name, run.split)
        if old.data.get(key) != record.stated:
            continue
        failed = old.incomplete.get(key, {}).get("failed", 0)
        there = old.partial[key]["answered"] if key in old.partial else record.rows - failed
        asked = next(planned for planned in plan.tasks if planned.task.name == task.name)
        if (count := sum(1 for _ in asked.questions())) < there:
            fewer.append(f"{there:,} answers to {key}, but this run would keep only {count:,} of them")
    return f"contains {'; '.join(fewer)}" if fewer else ""


def _is_same(old: SubmissionInfo, plan: Plan) -> bool:
    return bool(old.predictor.get("fingerprint") == plan.predictor["fingerprint"])


def _write(plan: Plan, answered: Sequence[_Answered]) -> tuple[str, ...]:
    run = plan.run
    old, _ = read_metadata(run.output)
    kept = old if old is not None and _is_same(old, plan) else None
    half = run.output / HALF_WRITTEN
    shutil.rmtree(half, ignore_errors=True)  # left over from a killed run
    try:
        for done in answered:
            number = _folder_number(run, done.planned)
            folder = half / VARIANTS / str(number) if number else half
            lines = {(done.planned.task.name, run.split): _lines(done)}
            write_predictions(folder, lines, compress=run.compress)
        info = _info(plan, answered, kept)
        write_file(half / METADATA_NAME, render_metadata(info))
        redone = {file_name(task.name, run.split) for task in run.tasks} if kept else None
        with storage_errors(run.output):
            removed = _remove_stale_results(plan, half, kept, info)
        _put_in_place(half, run.output, redone)
        return removed
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _remove_stale_results(
    plan: Plan, half: Path, old: SubmissionInfo | None, new: SubmissionInfo
) -> tuple[str, ...]:
    output, split = plan.run.output, plan.run.split
    if old is None:
        # The results belong to another predictor. Its metadata is deleted first, so that a killed process never
        # leaves answers that are attributed to the wrong predictor.
        (output / METADATA_NAME).unlink(missing_ok=True)
        return remove_results(output)
    pairs = [(task.name, split) for task in plan.run.tasks if f"{task.name}.{split}" in old.data]
    return remove_results(output, {split for _, split in changed_answers((output, old), (half, new), pairs)})


def _folder_number(run: Run, planned: PlannedTask) -> int:
    """Return the number of the variant's folder if all wordings are run, or else 0 for the main folder."""
    return planned.variant if run.variant == ALL_VARIANTS else 0


def _lines(done: _Answered) -> Iterator[dict[str, Any]]:
    answers: dict[str, str] = {}
    for question in done.planned.questions():
        outcomes = [each.journal.outcomes.get(question.id) for each in (done, *done.samples)]
        given = [outcome for outcome in outcomes if isinstance(outcome, Answer)]
        if len(given) == len(outcomes):
            planned, outcome = done.planned, given[0]
            line, *others = [make_line(question, each, planned.reading) for each in given]
            if others:
                pairs = zip(others, given[1:], strict=True)
                line["samples"] = [
                    None if each.finish == "refused" else other["answer"] for other, each in pairs
                ]
            form = planned.reading.form
            if form and planned.task.extractive and is_elsewhere(line["answer"], form, question.context):
                line["rule"] = f"{line['rule']}+{NOT_IN_CONTEXT}"
            _count_form(done, question, outcome, line)
            answers[question.id] = line["answer"]
            yield line
    task = done.planned.task
    if task.metric in METRICS and (done.tally.other_label or not isinstance(task.output, Label)):
        ids, texts, metric = list(answers), list(answers.values()), METRICS[task.metric]
        found = GivenAnswers(task.output, metric, ids, texts, read_form=lambda: task.answer_form)
        done.tally.answer_format = describe_format(found)


def _count_form(done: _Answered, question: Question, answer: Answer, line: Mapping[str, Any]) -> None:
    """Add an answer's problems, such as a refusal, to the tally. Right answers can have problems too."""
    tally, rules = done.tally, str(line.get("rule", "")).split("+")
    tally.template += "template" in rules
    tally.not_in_context += NOT_IN_CONTEXT in rules
    is_empty = not line["answer"].strip()
    is_silent = bool({"reasoning-only", "cut-in-reasoning"}.intersection(rules))
    is_unparseable = "unparseable" in rules and not is_silent
    has_reasoned = bool(answer.reasoning) or "reasoning" in rules
    if answer.finish == "refused" or "refused" in rules:
        tally.refused += 1
    elif "tool-call" in rules:
        tally.tool_calls += 1
    elif is_unparseable:
        tally.unparseable += 1
    elif is_empty and answer.finish == "length" and (has_reasoned or done.planned.prompting is not None):
        tally.cut_reasoning += 1  # servers may not return the reasoning that was cut off
    elif is_empty and has_reasoned and answer.finish != "length":
        tally.only_reasoning += 1
    elif is_empty:
        tally.empty += 1
    if (served := answer.served_by) and served not in tally.served_by and len(tally.served_by) < _MOST_SERVED:
        tally.served_by.append(served)
    output = done.planned.task.output
    names = output.names if isinstance(output, Label) else ()
    if line["answer"] not in names and is_other_label(line["answer"], output, question.question):
        tally.other_label += 1
        if is_unparseable or not is_empty:
            tally.other_label_example = tally.other_label_example or _explain_label(done, question, answer)


def _explain_label(done: _Answered, question: Question, answer: Answer) -> str:
    task = done.planned.task
    labels = ", ".join(possible_labels(task.output, question.question))
    asked = done.planned.prompting is not None
    advice = (
        f"Check the prompt with --show-prompt {task.name}, or try another --protocol, --template or --shots"
        if asked
        else "The model must answer with only a label"
    )
    wrote = excerpt(answer.text, 60)
    return f"For example, {question.id} has {wrote!r}, but the labels are {labels}. {advice}."


_AS_IT_IS = Reading()


def make_line(question: Question, answer: Answer, reading: Reading = _AS_IT_IS) -> dict[str, Any]:
    """Return a line of `predictions/<task>.<split>.jsonl`.

    If `reading` has a form, the answer is extracted from the text. If it has a wording, the
    wording's labels are replaced by the dataset's. A refused answer becomes empty because a filter
    might cut the text off right after a correct word.
    """
    form, wording = reading.form, reading.wording
    text, rules = answer.text, []
    if answer.choices:
        text, rules = best_choice(answer.choices, reading.choices_by), ["choices"]
    elif answer.finish == "refused":
        text, rules = "", ["refused"]
    elif form is not None and answer.reasoning and not answer.text.strip():
        rules = [silent_rule(answer.finish)]
    elif form is not None:
        extracted = extract(
            answer.text,
            form,
            question.question,
            answer.finish,
            question.context,
            reading.protocol,
            reading.is_opened,
        )
        text, rules = extracted.answer, [extracted.rule]
    if wording is not None and wording.labels:
        relabelled = wording.relabel(text)
        if relabelled != text:
            text = relabelled
            rules.append(RELABELLED)
    line: dict[str, Any] = {"id": question.id, "answer": text}
    if text != answer.text:
        line["raw"] = answer.text
    if rules:
        line["rule"] = "+".join(rules)
    if answer.finish != "stop":
        line["finish"] = answer.finish
    if answer.context_kept is not None:
        line["context_kept"] = list(answer.context_kept)
    if answer.choices:
        line["choices"] = _scored(answer.choices, reading.choices_by, wording)
    if answer.reasoning is not None:
        line["reasoning"] = answer.reasoning
    return line


def _scored(choices: Sequence[Choice], by: str, wording: Variant | None) -> dict[str, dict[str, float]]:
    top = max(choice.score(by) for choice in choices)
    weights = [math.exp(choice.score(by) - top) for choice in choices]
    return {
        wording.relabel(choice.label) if wording else choice.label: {
            "probability": round(weight / sum(weights), 9),
            **{name: round(choice.score(name), 6) for name in CHOICES_BY if name != "unconditional"},
            **({} if choice.alone is None else {"unconditional": round(choice.score("unconditional"), 6)}),
        }
        for choice, weight in zip(choices, weights, strict=True)
    }


def _info(plan: Plan, answered: Sequence[_Answered], old: SubmissionInfo | None) -> SubmissionInfo:
    run = plan.run
    whole = [each for done in answered for each in (done, *done.samples)]
    begun = min(done.journal.begun for done in whole)
    info = replace(
        plan.submission_info(),
        date=run.date or begun,
        partial=dict(_partial(run, answered)),
        incomplete=dict(_incomplete(run, answered)),
    )
    redone = tuple(info.data)
    predictor = dict(info.predictor)
    for name, describe in ((_SERVED, _served_by), (_USAGE, _usage), (TIME, _time)):
        earlier = {} if old is None else old.predictor.get(name, {})
        table = {key: each for key, each in earlier.items() if key not in redone}
        for key in redone:
            group = [done for done in whole if f"{done.planned.task.name}.{run.split}" == key]
            if found := describe(run, group):
                table[key] = found
        if table:
            predictor[name] = table
    if old is None:
        return replace(info, predictor=predictor)
    about = ("name", "authors", "description", "url", "model_size", "training_data")
    given = {name: value for name in about if (value := getattr(run, name))}
    return replace(
        old,  # keep the description if a run retries failures or adds a task
        **given,
        date=run.date or min(begun, old.date or begun),
        predictor=predictor,
        data={**old.data, **info.data},
        partial={**_without(old.partial, redone), **info.partial},
        incomplete={**_without(old.incomplete, redone), **info.incomplete},
    )


_SERVED = "served_by"
"""Key in submission.toml's `predictor` for the models reported by servers, by `<task>.<split>`."""


_USAGE = "usage"
"""Key in submission.toml's `predictor` for tokens and costs, by `<task>.<split>`."""


def _served_by(run: Run, group: Sequence[_Answered]) -> list[str]:
    return list(dict.fromkeys(name for done in group for name in done.tally.served_by))


def _usage(run: Run, group: Sequence[_Answered]) -> dict[str, float]:
    answers = [
        outcome
        for done in group
        for question in done.planned.questions()
        if isinstance(outcome := done.journal.outcomes.get(question.id), Answer)
    ]
    tokens = {
        name: sum(getattr(answer, name) or 0 for answer in answers)
        for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens")
    }
    if not tokens["reasoning_tokens"]:
        del tokens["reasoning_tokens"]
    if not any(tokens.values()):
        return {}
    cost = run.tariff.cost(tokens["prompt_tokens"], tokens["completion_tokens"])
    return {**tokens} if cost is None else {**tokens, "cost": round(cost, 6)}


def _time(run: Run, group: Sequence[_Answered]) -> dict[str, float]:
    """Return a dict with the answering time in seconds and the number of answers.

    The dict is empty if a journal lacks times. It is also empty for baselines, so that their
    submissions are always the same.
    """
    seconds = [done.journal.seconds for done in group if done.journal.seconds is not None]
    answers = sum(isinstance(each, Answer) for done in group for each in done.journal.outcomes.values())
    if not answers or len(seconds) < len(group) or run.predictor in PREDICTORS:
        return {}
    return {"seconds": round(math.fsum(seconds), 3), "answers": answers}


def _without(marks: Mapping[str, Mark], redone: Sequence[str]) -> dict[str, Mark]:
    """Return the marks for files that aren't rewritten. Redoing a task removes the marks of all its wordings."""
    return {
        key: mark
        for key, mark in marks.items()
        if not any(key == name or key.startswith(f"{name}.variant") for name in redone)
    }


def _partial(run: Run, answered: Sequence[_Answered]) -> Iterator[tuple[str, Mark]]:
    """Yield a mark for every task with examples that were left out."""
    for done in answered:
        task, tally = done.planned.task.name, done.tally
        rows = run.store.record(task, run.split).rows
        if _folder_number(run, done.planned) == 0 and tally.total < rows:
            mark = {"answered": tally.total - done.failed, "of": rows, "chosen": str(run.selection)}
            yield f"{task}.{run.split}", mark


def _incomplete(run: Run, answered: Sequence[_Answered]) -> Iterator[tuple[str, Mark]]:
    for done in answered:
        number, tally = _folder_number(run, done.planned), done.tally
        if failed := done.failed:
            wording = f".variant{number}" if number else ""
            errors = (each.tally.commonest_error for each in (done, *done.samples))
            error = next(filter(None, errors), "")[:_ERROR_LENGTH]
            mark = {"failed": failed, "of": tally.total, "error": error}
            yield f"{done.planned.task.name}.{run.split}{wording}", mark


def _put_in_place(half: Path, output: Path, redone: set[str] | None) -> None:
    """Move new answers into place, changing only files written by decabench.

    `redone` contains the names of the files to replace. If it is None, all old answers are removed,
    because they belong to another predictor.
    """
    with storage_errors(output):
        variants = (path for path in sorted((output / VARIANTS).glob("*")) if path.name.isdecimal())
        for folder in (output, *variants):
            _remove_answers(folder / FOLDER, redone)  # including other wordings from an earlier run
        for new in sorted(path.parent for path in half.rglob(FOLDER) if path.is_dir()):
            folder = make_folder(output / new.relative_to(half) / FOLDER)
            for path in sorted((new / FOLDER).iterdir()):
                os.replace(path, folder / path.name)
        os.replace(half / METADATA_NAME, output / METADATA_NAME)


def _remove_answers(folder: Path, redone: set[str] | None) -> None:
    for path in sorted(folder.glob("*.jsonl*")):
        name = path.name.removesuffix(".gz").removesuffix(".zst")
        if name.endswith(".jsonl") and (redone is None or name in redone):
            path.unlink()
    remove_if_empty(folder, folder.parent)
