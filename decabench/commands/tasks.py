"""`decabench tasks`: list, show, validate, overlap."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from decabench.commands import _options
from decabench.commands._console import (
    TableColumn,
    console,
    format_count,
    is_set,
    print_field,
    print_json,
    print_table,
    shortened,
)
from decabench.options import option

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from decabench.commands._documents import TaskDescription
    from decabench.tasks import Overlap, Source, SplitRecord, Store, Task, Variant


@click.group(invoke_without_command=True)
@_options.with_options
@click.pass_context
def tasks(
    context: click.Context,
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """List the tasks with their sizes and prepared data."""
    from decabench.commands._documents import TasksDocument
    from decabench.tasks import SPLITS, Store, known_tasks

    if context.invoked_subcommand is not None:
        return
    store = Store(home)
    found = [_describe(task, store) for task in known_tasks(include).values()]
    if is_set("json"):
        print_json(TasksDocument(home=str(store.home), tasks=found))
        return
    columns = [
        TableColumn("task"),
        TableColumn("dataset", rank=5, is_text=True),
        TableColumn("metric", rank=3),
        *(TableColumn(split, rank=2) for split in SPLITS),
        TableColumn("prepared", is_text=True),
        TableColumn("license", rank=5, is_text=True),
    ]
    rows = [
        [each.name, each.dataset, each.metric, *_counts(each), _status(each), each.licence] for each in found
    ]
    out = console(piped_width=80)
    print_table(out, columns, rows)
    out.print(f"Counts are as published. Prepared data: {store.home}", style="dim")


def _describe(task: Task, store: Store) -> TaskDescription:
    from decabench.commands._documents import PreparedSplit, TaskDescription
    from decabench.errors import DataError

    state: Literal["prepared", "not prepared", "damaged"] = "damaged"
    records: Mapping[str, SplitRecord] = {}
    with suppress(DataError):
        records = store.records(task.name)
        state = "prepared" if records else "not prepared"
    prepared = {split: PreparedSplit.from_value(record) for split, record in records.items()}
    return TaskDescription.from_value(task, state=state, prepared=prepared)


def _counts(task: TaskDescription) -> list[str]:
    from decabench.tasks import SPLITS

    return [
        f"{format_count(task.counts.get(split))}{' hidden' if split in task.hidden else ''}"
        for split in SPLITS
    ]


def _status(task: TaskDescription) -> str:
    from decabench.tasks import SPLITS

    if task.state != "prepared":
        return "no" if task.state == "not prepared" else task.state
    origins = "/".join(sorted({each.origin for each in task.prepared.values()}))
    rows = (format_count(each.rows) if (each := task.prepared.get(split)) else "–" for split in SPLITS)
    return f"{origins}: {' / '.join(rows)}"


@tasks.command()
@click.argument("name", shell_complete=_options.complete_task)
@_options.with_options
def show(
    name: str,
    examples: int = option(3, "Number of examples to show.", at_least=0),
    split: _options.Split = option("validation", "Split to show examples from."),
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Show a task's sources, its prepared data, and a few examples."""
    from decabench.commands._documents import ExampleFields, TaskDocument
    from decabench.errors import MissingDataError
    from decabench.tasks import SPLITS, Store, get_task, known_tasks

    task, store, out = get_task(name, known_tasks(include)), Store(home), console()
    hidden, facts, advice = store.hides(task, split), _facts(task), ""
    found: list[ExampleFields] = []
    try:
        store.require([task], split)
        for example in islice(store.examples(name, split), examples):
            found.append(ExampleFields.from_value(example, answers=() if hidden else example.answers))
    except MissingDataError as error:
        advice = str(error)
    if is_set("json"):
        print_json(TaskDocument(task=_describe(task, store), facts=facts, examples=found))
        return
    for label, value in facts.items():
        print_field(out, label, value)
    for number, variant in enumerate(task.variants, start=1):
        called = f"{variant.name} (retired)" if variant.retired else variant.name
        print_field(out, "variant", f"{number} {called}: {_wording(variant, task, store)}")
    records = store.records(name)
    for prepared in sorted(records, key=SPLITS.index):
        _print_record(prepared, records[prepared], store.hides(task, prepared))
    if advice:
        out.print()
        print_field(out, "examples", advice)
    for shown in found:
        out.print(f"\n{shown.id}", style="bold")
        print_field(out, "question", shown.question)
        print_field(out, "context", shortened(shown.context, 400))
        for answer in ("(hidden)",) if hidden else dict.fromkeys(shown.answers):
            print_field(out, "answer", shortened(answer, 400))


def _facts(task: Task) -> dict[str, str]:
    from decabench.tasks import describe_output

    counts = ", ".join(f"{split} {count:,}" for split, count in task.counts.items())
    hidden = f" (labels of {', '.join(task.hidden)} are not public)" if task.hidden else ""
    sources = "; ".join(f"{source.name} ({_address(source)})" for source in task.sources)
    limit = f"at most {task.output.max_tokens:,} tokens"
    facts = {
        "task": f"{task.name}: {task.title}",
        "dataset": task.dataset,
        "languages": ", ".join(task.languages),
        "output": f"{describe_output(task.output)}, {limit}",
        "metric": "; ".join(map(_metric, task.metrics)),
        "units": ", ".join(task.unit_names) or "each example",
        "published": counts + hidden if counts else "",
        "license": task.licence + _restrictions(task),
        "cite": task.citation,
        "home": task.homepage,
        "sources": sources,
        "notes": task.notes,
    }
    return {label: value for label, value in facts.items() if value}


def _metric(name: str) -> str:
    """Return a metric's name, range and direction, as in `nf1 (0 to 100, higher is better)`.

    For a metric from another package, returns only the name.
    """
    from decabench.metrics import METRICS

    if name not in METRICS:
        return name
    low, high = METRICS[name].range
    better = "higher" if METRICS[name].higher_is_better else "lower"
    return f"{name} ({low:g} to {high:g}, {better} is better)"


def _restrictions(task: Task) -> str:
    withheld = [
        *(["answers may not be redistributed"] if not task.redistributable else []),
        *(["texts may not be shown on public pages"] if task.withhold_texts else []),
    ]
    return f" ({'; '.join(withheld)})" if withheld else ""


def _wording(variant: Variant, task: Task, store: Store) -> str:
    """Return an example of a question in the wording of `variant`, and the meanings of its label words."""
    records = store.records(task.name)
    split = next(iter(records), None)
    rows = store.read(task.name, split, ("question",)) if split else iter(())
    first = next((row["question"] for row in rows), None)
    labels = ", ".join(f"{word} means {label}" for word, label in variant.labels.items())
    asked = variant.rewrite(first) if first is not None else "prepare the task to see its wording"
    return f"{asked} ({labels})" if labels else asked


def _address(source: Source) -> str:
    return source.repository or next(iter(source.urls), "not published; use your own files")


_AS_PUBLISHED = {
    "verified": "verified",
    "unpinned": "no published checksum",
    "mirror-differs": "not the published file",
}


def _print_record(split: str, record: SplitRecord, hidden: bool) -> None:
    """Print facts about a prepared split.

    If its labels are hidden, the digests of its files are left out, because they could confirm a guess.
    """
    out = console()
    out.print()
    source = f"{record.rows:,} examples from {record.origin} ({record.source})"
    print_field(out, "prepared", f"{split}: {source}")
    print_field(out, "", record.fingerprint)
    for file in () if hidden else record.files:
        size = file.get("size")
        size = f"{size:,}" if isinstance(size, int) else size
        digest = f"sha256 {str(file.get('sha256'))[:16]}…"
        print_field(
            out,
            "",
            f"{file.get('name')}  {size} bytes  {digest}  {_AS_PUBLISHED.get(str(file.get('status')), '')}",
        )
    if record.note:
        print_field(out, "", record.note)


@tasks.command()
@click.argument("name", shell_complete=_options.complete_task)
@_options.with_options
@click.pass_context
def validate(
    context: click.Context,
    name: str,
    split: _options.Split = option("validation", "Split to check."),
    hidden: bool = _options.HIDDEN,
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Check a task: references score 100, empty answers score lowest, and shuffled answers score below the references.

    Labels, numbers, tags, trees, dialogue states and queries must also stay the same when they are written and read
    again. Every example must have text, and the task must set question_varies if its questions vary.
    """
    from decabench.scoring import prove_task
    from decabench.tasks import Store, get_task, known_tasks

    task, out = get_task(name, known_tasks(include)), console()
    checks = prove_task(task, split, Store(home), hidden)
    failed = sum(not check.passed for check in checks)
    if is_set("json"):
        from decabench.commands._documents import ProofDocument

        print_json(ProofDocument(task=name, split=split, checks=checks, failed=failed))
        context.exit(1 if failed else 0)
    for check in checks:
        out.print(f"{'pass' if check.passed else 'FAIL'}  {check.name}: {check.detail}")
    out.print(
        f"{name}, {split}: "
        f"{'all checks passed' if not failed else f'{failed} of {len(checks)} checks failed'}"
    )
    context.exit(1 if failed else 0)


@tasks.command()
@_options.with_options
def overlap(
    tasks: tuple[str, ...] = _options.TASKS,
    suite: str | None = _options.SUITE,
    split: tuple[_options.ScoredSplit, ...] = option(
        (), "Check only texts in this split. Can be repeated.", unset="validation and test"
    ),
    against: tuple[_options.Split, ...] = option(("train",), "Search in this split. Can be repeated."),
    compare: Literal["context", "example"] = option(
        "context", "Compare contexts alone, or questions with their contexts."
    ),
    write: Path | None = option(
        None,
        "Write the ids of the matching examples to this .json or .json.gz file, for use with evaluate --without.",
        type=_options.FILE,
    ),
    home: Path | None = _options.HOME,
    include: tuple[Path, ...] = _options.INCLUDE,
) -> None:
    """Find validation and test texts that also occur in the training data of any task.

    A model that is trained on one task may have seen the test texts of another. Checks the listed tasks, or else all
    prepared tasks. Texts are compared unchanged (exact), and ignoring case, spaces and punctuation (normalized: Unicode
    NFKC, case-folded, only letters, marks and digits).
    """
    from decabench.errors import MissingDataError
    from decabench.tasks import NORMALISATION, Store, choose_tasks, find_overlap, known_tasks

    if write and not write.name.lower().endswith((".json", ".json.gz")):
        raise click.UsageError(f"--write requires a name that ends in .json or .json.gz, but got {write}.")
    store, known = Store(home), known_tasks(include)
    wanted = choose_tasks(tasks, suite, include)
    names = [name for name in wanted or known if store.records(name)]
    absent = [name for name in wanted or () if name not in names]
    if not names or (absent and tasks):
        verb = "are" if len(absent) > 1 else "is"
        state = f"{', '.join(absent)} {verb} not prepared" if absent else "Nothing is prepared"
        raise MissingDataError(
            f"{state} in {store.home}. Run {' '.join(['decabench prepare', *absent])} first."
        )
    if not any(each in store.records(name) for name in names for each in against):
        raise MissingDataError(
            f"No {' or '.join(against)} split of {', '.join(names)} is prepared, so there is nothing to "
            "search. Prepare the tasks that your model is trained on and add them to --tasks, or choose "
            "another split with --against."
        )
    found = list(find_overlap(store, names, split or ("validation", "test"), against, compare))
    if write:
        _write_overlap(write, found, store)
    if is_set("json"):
        from decabench.commands._documents import OverlapDocument, OverlapFields

        rows = [
            OverlapFields.from_value(
                one, in_=one.source, exact=len(one.exact), normalised=len(one.normalised)
            )
            for one in found
        ]
        print_json(
            OverlapDocument(
                compare=compare,
                against=against,
                normalisation=NORMALISATION,
                not_prepared=absent,
                overlap=rows,
            )
        )
        return
    _print_overlap(found, against)
    if absent:
        console().print(f"Left out because they are not prepared: {', '.join(absent)}", style="yellow")
    if write:
        console().print(
            f"Wrote the ids to {write}. To leave out these examples, use decabench evaluate --without {write}"
        )


def _print_overlap(found: list[Overlap], against: Sequence[str]) -> None:
    rows = []
    for one in found:
        counts = (len(one.exact), len(one.normalised), one.examples)
        source = f"{one.source} {'+'.join(against)}"
        rows.append([one.task, one.split, source, *(f"{count:,}" for count in counts)])
    out = console()
    columns = [TableColumn(heading, right=True) for heading in ("exact", "normalized", "of")]
    print_table(out, [*map(TableColumn, ("task", "split", "also in")), *columns], rows)
    places = " or ".join("training" if split == "train" else split for split in against)
    for split in ("validation", "test"):
        own = [one for one in found if one.split == split and one.task == one.source]
        if own:
            exact, normalised = sum(len(one.exact) for one in own), sum(len(one.normalised) for one in own)
            verb = "is" if exact == 1 else "are"
            out.print(
                f"{split}: {exact:,} of {sum(one.examples for one in own):,} texts {verb} also in the {places} data of "
                f"the same task, {normalised:,} if case, spaces and punctuation are ignored."
            )


def _write_overlap(path: Path, found: list[Overlap], store: Store) -> None:
    from decabench.submission import write_id_list

    ids: dict[tuple[str, str], dict[str, None]] = {}
    for one in found:
        ids.setdefault((one.task, one.split), {}).update(dict.fromkeys(one.normalised))
    written = {pair: list(each) for pair, each in ids.items() if each}
    write_id_list(path, written, {pair: store.record(*pair).stated for pair in written})
