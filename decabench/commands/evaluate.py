"""`decabench evaluate`."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from decabench.commands import _options
from decabench.commands._console import (
    TableColumn,
    changed_since,
    console,
    describe_origin,
    describe_valid,
    echo,
    format_count,
    format_score,
    headline_name,
    is_set,
    print_json,
    print_table,
    submission_argument,
    write_run_file,
)
from decabench.options import option
from decabench.text import excerpt, printable, show_cost

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from decabench.commands._documents import ConfusionCount
    from decabench.scoring import Results, ScoredTask, TaskResult


@click.command()
@submission_argument
@_options.with_options
@click.pass_context
def evaluate(
    context: click.Context,
    submission: Path,
    tasks: tuple[str, ...] = _options.TASKS,
    suite: str | None = _options.SUITE,
    split: _options.ScoredSplit = option("validation", "Split to score."),
    output: Path | None = option(
        None,
        "Write results.json to this folder.",
        type=_options.FOLDER,
        unset="results/<split> in the submission's folder, or next to the archive. The name ends in -<suite> for "
        "suites other than the decathlon, in -raw with --answers raw, and in -without with --without",
    ),
    answers: _options.Answers = _options.ANSWERS,
    without: Path | None = option(
        None,
        "Leave out the examples in this id list (see decabench tasks overlap --write).",
        type=_options.EXISTING_FILE,
    ),
    all_texts: bool = option(
        False,
        "In the files of scored examples, include texts that may not be redistributed.",
    ),
    all_scores: bool = option(False, "Print every score, not just each task's headline score."),
    confusion: bool = option(
        False, "For labels and tags, print counts by class and the most frequent confusions."
    ),
    log: tuple[str, ...] = _options.LOG,
    home: Path | None = _options.HOME,
    jobs: int = _options.JOBS,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Score a submission, print a table, and write results.json and files of scored examples.

    With --tasks, results.json contains only these tasks. Tasks that were scored before are not scored again.

    Exits with 1 if a task or variant failed or a task in --tasks has no answers, and with 3 if the data is missing or
    differs from the data that the submission was made for. A decaScore needs all ten tasks of the decathlon. Without
    them, the total shows how many tasks it covers. Tasks from a limited run are scored on the examples that were
    answered, marked as partial, and left out of totals.

    With --without, the examples in the given list are left out. Their tasks are marked as partial and never ranked.
    """
    import json

    from decabench.scoring import (
        ScoringOptions,
        describe_forms,
        score_submission,
        without_digests,
    )
    from decabench.tasks import Store, choose_tasks, select_suite

    started, trackers = time.monotonic(), None
    if log:
        from decabench.exchange import make_trackers, track_results

        trackers = make_trackers(log)
    reported, names = select_suite(suite, include), choose_tasks(tasks, suite, include)
    options = ScoringOptions(split, names, home, jobs, include, answers, reported, all_texts=all_texts)
    if without is not None:
        options = replace(options, without=_left_out(without, split, home))
    results, scored = score_submission(submission, options)
    written = results.write(output)
    write_run_file(written.parent, started)
    if trackers is not None:
        track_results(trackers, results, written.parent)
    expected = names or reported.tasks
    missing = [name for name in expected if name not in results.tasks]
    if not names and len(missing) == len(expected):
        missing = []  # the answers are all to tasks outside the suite
    store = Store(home)
    forms = [
        f"{name}: {sentence}."
        for name, found in scored.items()
        for sentence in describe_forms(found, store, split)
    ]
    forms += changed_since(scored, split, home, include)
    if is_set("json"):
        from decabench.commands._documents import EvaluationDocument

        print_json(
            EvaluationDocument(
                results=json.loads(without_digests(results, home, include).to_json()),
                path=str(written),
                missing=missing,
                remarks=[*_remarks(results, missing), *forms],
                confusions=_count_confusions(scored) if confusion else None,
            )
        )
    else:
        _print(results, missing, all_scores)
        for sentence in forms:
            echo(sentence)
        _print_variants(results)
        if confusion:
            _print_confusions(scored)
        echo(f"Results: {written}", wrap=False)
    whole = results.ok and not any(task.variants and task.variants.failed for task in results.tasks.values())
    context.exit(0 if whole and not (tasks and names and missing) else 1)


def _left_out(path: Path, split: str, home: Path | None) -> dict[str, tuple[str, ...]]:
    from decabench.errors import DataError
    from decabench.submission import read_id_list
    from decabench.tasks import Store

    listed, store = read_id_list(path), Store(home)
    ids = {task: each for (task, part), each in listed.ids.items() if part == split}
    if not ids:
        raise DataError(
            f"{path} lists no {split} examples. Write the list again with decabench tasks overlap --write."
        )
    for task in ids:
        record = store.records(task).get(split)
        stated = listed.fingerprints.get((task, split))
        if record is not None and stated not in (None, record.stated):
            raise DataError(
                f"{path} does not match the prepared {split} data for {task}. Write the list again with "
                "decabench tasks overlap --write."
            )
    return ids


def _print(results: Results, missing: list[str], all_scores: bool) -> None:
    out = console()
    raw = ", raw answers" if results.answers == "raw" else ""
    out.print(f"{results.submission['name']}, {results.split}{raw}", style="bold")
    print_table(out, _COLUMNS, [score_row(name, task) for name, task in results.tasks.items()])
    if all_scores:
        for name, task in results.tasks.items():
            echo(f"{name}: {_all_scores(name, task)}", indent=2)
    if total := _total(results):
        out.print(total, style="bold")
    for sentence in _remarks(results, missing):
        out.print(sentence)


def _total(results: Results) -> str:
    """Return a line such as `decaScore: 590.5 (95%: 588.1 to 592.7)`, or an empty string if there is nothing to
    report.

    The line also says if the total is partial, or if no task has a complete score.
    """
    from decabench.scoring import show_interval

    total, suite = results.total, results.suite
    if total.score is None or not (total.tasks or total.failed or total.partial):
        return ""
    if total.on_subsets is not None:
        shown = f"{total.on_subsets:.{results.total_digits}f}"
        return f"{suite.total_name} (partial): {shown} on the answered examples (never ranked)"
    if not total.tasks:
        return f"No {suite.total_name}: none of the suite's {len(suite.tasks)} tasks has a complete score."
    part = f"{suite.total.capitalize()} (no {suite.total_name})"
    ends = f" (95%: {show_interval(results.interval, results.total_digits)})" if results.interval else ""
    return f"{suite.total_name if total.complete else part}: {total.text}{ends}"


_COLUMNS = (
    TableColumn("task"),
    TableColumn("metric"),
    TableColumn("score", right=True),
    TableColumn("95%", right=True),
    TableColumn("n", right=True, rank=1),
    TableColumn("empty", right=True, rank=2),
    TableColumn("data", rank=3, is_text=True),
)


def score_row(name: str, task: TaskResult) -> list[str]:
    """Return a row of the table of scores: task, metric, score, interval, answers, empty answers and data."""
    from decabench.scoring import score_digits, show_interval

    digits = score_digits(name, task.metric)
    figures = ["failed", "–", "–", "–"]
    if task.status != "failed":
        partial = " partial" if task.status == "partial" else ""
        figures = [
            f"{format_score(task.score, max(2, digits))}{partial}",
            show_interval(task.interval, digits),
            format_count(task.n),
            format_count(task.empty),
        ]
    return [name, headline_name(task), *figures, describe_origin(task.data)]


def _all_scores(name: str, task: TaskResult) -> str:
    from decabench.scoring import score_digits

    digits = score_digits(name, task.metric, least=2)
    shown = {
        headline_name(task) if key == task.headline else key: value for key, value in task.scores.items()
    }
    return ", ".join(f"{key} {value:.{digits}f}" for key, value in shown.items()) or "–"


def _print_variants(results: Results) -> None:
    from decabench.scoring import score_digits

    asked = {name: task.variants for name, task in results.tasks.items() if task.variants}
    if not asked:
        return
    summed = {name: variants for name, variants in asked.items() if len(variants.scores) > 1}
    numbers = sorted({int(number) for variants in summed.values() for number in variants.scores})
    columns = [TableColumn(heading, right=True) for heading in ("mean", "worst", "spread")]
    columns += [TableColumn(f"variant {number}", right=True, rank=1) for number in numbers]
    rows = []
    for name, variants in summed.items():
        scores = (variants.scores.get(str(number)) for number in numbers)
        values = (variants.mean, variants.worst, variants.spread, *scores)
        digits = score_digits(name, results.tasks[name].metric)
        rows.append([name, *("–" if value is None else f"{value:.{digits}f}" for value in values)])
    out = console()
    out.print("\nOther wordings of the questions (variant 0 is the dataset's own)", style="bold")
    if rows:
        print_table(out, [TableColumn("task"), *columns], rows)
    for name, variants in asked.items():
        if variants.retired:
            digits = score_digits(name, results.tasks[name].metric)
            scored = ", ".join(f"{number}: {score:.{digits}f}" for number, score in variants.retired.items())
            out.print(f"Retired wordings, not counted above: {name}, variant {scored}")
        for number, reason in variants.failed.items():
            out.print(f"Not scored: {name}, variant {number}: {reason}")


def _print_confusions(scored: Mapping[str, ScoredTask]) -> None:
    from decabench.tasks import Label, Tags

    out = console()
    for name, counts in _count_confusions(scored).items():
        out.print(f"\n{name}: classes", style="bold")
        print_table(out, _CLASS_COLUMNS, list(_class_rows(counts)))
        wrong = [each for each in counts if each.gold != each.predicted]
        if wrong:
            out.print(f"\n{name}: most frequent confusions", style="bold")
        for each in wrong[:10]:
            gold, predicted = excerpt(each.gold, 40), excerpt(each.predicted, 40) or "no answer"
            out.print(f"  {gold} → {predicted}: {each.count:,}")
        if isinstance(scored[name].task.output, Tags) and any(each.predicted == _NO_TAG for each in counts):
            out.print(f"{_NO_TAG}: no answer for this token", style="dim")
    if hidden := [name for name, found in scored.items() if found.hidden]:
        out.print(f"No confusions for {', '.join(hidden)}: the labels are hidden.")
    others = [name for name, found in scored.items() if not isinstance(found.task.output, Label | Tags)]
    if others:
        out.print(f"No confusions: the answers to {', '.join(others)} are neither labels nor tags.")


_NO_TAG = "_"
"""The placeholder for a missing tag."""

_CLASS_COLUMNS = (
    TableColumn("class", is_text=True),
    *(TableColumn(heading, right=True) for heading in ("gold", "predicted", "right", "P", "R", "F1")),
)


def _count_confusions(scored: Mapping[str, ScoredTask]) -> dict[str, list[ConfusionCount]]:
    """Count the pairs of gold and predicted class, most frequent first, for each task with labels or tags."""
    from decabench.commands._documents import ConfusionCount
    from decabench.metrics import confusions
    from decabench.tasks import Label, Tags

    counted = {}
    for name, found in scored.items():
        output = found.task.output
        if not found.predictions or found.hidden or not isinstance(output, Label | Tags):
            continue
        is_tags = isinstance(output, Tags)
        stated: dict[str, str] = {}  # the first spelling of each class in the gold answers
        for reference in found.references:
            for answer in reference.answers[:1] if is_tags else reference.answers:
                for label in answer.split() if is_tags else [" ".join(answer.split())]:
                    stated.setdefault(label.lower(), label)
        pairs = confusions(found.predictions, found.references, tags=is_tags)
        counted[name] = [
            ConfusionCount(
                gold=stated.get(gold, gold), predicted=stated.get(predicted, predicted), count=count
            )
            for (gold, predicted), count in pairs.most_common()
        ]
    return counted


def _class_rows(counts: Sequence[ConfusionCount]) -> Iterator[list[str]]:
    gold, predicted, right = Counter[str](), Counter[str](), Counter[str]()
    for each in counts:
        gold[each.gold] += each.count
        predicted[each.predicted] += each.count
        right[each.gold] += each.count if each.gold == each.predicted else 0
    for label in sorted(gold, key=str.lower):
        numbers = (gold[label], predicted[label], right[label])
        precision = right[label] / predicted[label] if predicted[label] else 0.0
        shares = (precision, right[label] / gold[label], 2 * right[label] / (gold[label] + predicted[label]))
        cells = [*(f"{count:,}" for count in numbers), *(f"{100 * share:.2f}" for share in shares)]
        yield [excerpt(label, 40), *cells]


def _describe_usage(results: Results) -> Iterator[str]:
    predictor = results.submission.get("predictor", {})
    tables = [predictor.get(name) for name in ("served_by", "usage")]
    served, usage = (
        [table.get(f"{task}.{results.split}") for task in results.tasks] if isinstance(table, dict) else []
        for table in tables
    )
    names = dict.fromkeys(str(name) for each in served if isinstance(each, list) for name in each)
    if names:
        yield f"Answered by: {', '.join(excerpt(name, 80) for name in names)}."
    sums = {name: 0.0 for name in ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cost")}
    for each in usage:
        found = each if isinstance(each, dict) else {}
        for name in sums.keys() & found.keys():
            sums[name] += found[name] if isinstance(found[name], int | float) else 0
    if sums["prompt_tokens"] or sums["completion_tokens"]:
        cost = f", at a cost of {show_cost(sums['cost'])}" if sums["cost"] else ""
        reasoned = f" ({sums['reasoning_tokens']:,.0f} for reasoning)" if sums["reasoning_tokens"] else ""
        yield f"Tokens: {sums['prompt_tokens']:,.0f} in, {sums['completion_tokens']:,.0f} out{reasoned}{cost}."


def _remarks(results: Results, missing: list[str]) -> Iterator[str]:
    from decabench.scoring import SAMPLE_NOTE, describe_partial, find_metric, score_digits, show_units

    tasks = results.tasks.items()
    if units := [f"{name} {text}" for name, task in tasks if (text := show_units(task.units))]:
        yield f"Sampling units for intervals: {'; '.join(units)}."
    if not all(find_metric(task.metric).higher_is_better for _, task in tasks):
        yield "↓ lower is better"
    if variant := results.submission.get("predictor", {}).get("variant"):
        yield f"The questions were reworded: this is variant {variant}, not the datasets' own wording."
    yield from _describe_usage(results)
    for name, task in tasks:
        if found := task.samples:
            digits = score_digits(name, task.metric, least=2)
            low, high, majority, spread = (
                f"{value:.{digits}f}"
                for value in (min(found.scores), max(found.scores), found.majority, found.between_samples)
            )
            chances = [f"pass@{k} {value:.{digits}f}" for k, value in found.pass_at.items()]
            yield (
                f"{name}: the mean of {len(found.scores)} samples with scores from {low} to {high} "
                f"(standard deviation {spread}); "
                f"{', '.join([f'majority vote {majority}', *chances])}."
            )
    if missing:
        yield f"No answers for: {', '.join(missing)}"
    if results.unknown_tasks:
        which = "this name" if len(results.unknown_tasks) == 1 else "these names"
        yield (
            f"Not scored, because there is no task with {which}: "
            f"{', '.join(map(printable, results.unknown_tasks))}. Correct the file name, or use --include "
            "to specify the file that defines the task."
        )
    for name, task in tasks:
        if task.status == "failed":
            more = f" ({task.faults:,} faults in all; to see them, run decabench check)"
            yield f"Failed: {name}: {task.reason}{more if task.faults > 1 else ''}"
    for name, task in tasks:
        if task.status == "partial" and task.partial:
            run = describe_partial(task.partial)
            yield f"Partial: {name}: a limited run ({run}), excluded from totals and rankings."
        yield from (f"{name}: {sentence}." for sentence in (*_answer_forms(task), *_lenient(task)))
    if any(task.data.origin == "sample" for _, task in tasks):
        yield SAMPLE_NOTE
    for name, task in tasks:
        data = task.data
        if data.origin != "sample" and data.published_count not in (None, data.rows):
            yield f"{name}: {data.rows:,} of the {data.published_count:,} published examples, not the whole split."
        if data.note:
            yield f"{name}: {data.note}"


def _lenient(task: TaskResult) -> Iterator[str]:
    other = task.scores.get("lfem_normalised", task.score)
    if task.headline == "lfem" and task.score is not None and other is not None and other != task.score:
        ignored = "quotation marks, COUNT(column) and case"
        yield f"lfem {task.score:.2f} (strict), lfem_normalised {other:.2f}, which ignores {ignored}"


_FORMS = {
    "unparseable": "unparseable",
    "reasoning_only": "of them only reasoning",
    "cut_in_reasoning": "of them cut off while reasoning (raise --max-new-tokens)",
    "tool_call": "of them tool calls",
    "refused": "refused",
    "truncated": "cut off at the token limit",
    "template": "with chat-template tokens",
    "not_in_context": "not in the context",
}
_ITEM_FORMS = {
    "missing_items": "missing",
    "extra_items": "extra",
    "unknown_items": "unknown",
    "outside_heads": "with a head outside the sentence",
}
"""Phrases for faulty items in tags and trees, by their key in `TaskResult.answers`."""


def _answer_forms(task: TaskResult) -> Iterator[str]:
    for forms, start in ((_FORMS, ""), (_ITEM_FORMS, "items in answers: ")):
        if counts := [
            f"{task.answers[kind]:,} {form}" for kind, form in forms.items() if kind in task.answers
        ]:
            yield f"{start}{', '.join(counts)}"
    if found := task.calibration:
        yield (
            f"label probabilities: Brier score {found.brier:.3f}, log loss {found.log_loss:.3f}, "
            f"calibration error {100 * found.error:.1f}%"
        )
    others = task.answers.get("other_label")
    if others and others != task.answers.get("unparseable"):
        yield describe_valid(task.n - others, task.n)
    if cut := task.answers.get("context_cut"):
        verb = "context was" if cut == 1 else "contexts were"
        left = f"; {task.ceiling or 0:.1f}% of contexts still contain the gold answer (ceiling)"
        yield f"{cut:,} {verb} truncated{'' if task.ceiling is None else left}"
