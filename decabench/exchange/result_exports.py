"""Results for readers elsewhere: a Hugging Face model card's `model-index`, and Markdown and LaTeX tables.

Names in results come from strangers: every text is escaped for its format, and no metric's code is loaded. Neither are
their numbers passed on as ours if the statistics or the manifest beside them say otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from decabench.errors import DataError, DecabenchError, StorageError, require_name
from decabench.exchange.yaml_text import dump_yaml
from decabench.files import is_within
from decabench.metrics import METRICS
from decabench.scoring import (
    Results,
    Sample,
    TaskResult,
    check_manifest,
    is_version_of,
    read_head,
    read_results_file,
    read_sample,
    results_files,
    score_digits,
    score_interval,
    show_interval,
    show_units,
    statistics_path,
    total_interval,
)
from decabench.submission import ARCHIVE_SUFFIXES, MANIFEST, METADATA_NAME
from decabench.tasks import TASKS, Label, Tags, Task, Tree
from decabench.text import quoted, well_formed

__all__ = ["TABLES", "export_results", "find_results", "latex_table", "markdown_table", "model_index"]


def find_results(path: str | Path, split: str = "validation") -> Results:
    """Read the results of a submission's split, or a `results.json`, and hold them against what is beside them.

    Scores without statistics are as the file states them: `verify` scores the answers again. Raises MissingDataError if
    there are none, DataError if there are several of the split, or if their statistics or manifest contradict them,
    DecabenchError for a file of another kind.
    """
    path = Path(path)
    if path.name.endswith(".json"):
        return _read_consistent(path)
    if path.is_file() and not path.name.lower().endswith(ARCHIVE_SUFFIXES):
        kinds = ", ".join(ARCHIVE_SUFFIXES)
        raise DecabenchError(
            f"{path} has no results: give the folder of a submission, a results.json, or an archive ({kinds})."
        )
    found = {each: read_results_file(each) for each in results_files(path)}
    of_split = [at for at, each in found.items() if each.split == split and each.answers == "extracted"]
    if len(of_split) == 1:
        return _read_consistent(of_split[0])
    listed = ", ".join(sorted({f"{each.split} ({each.suite.name})" for each in found.values()}))
    many = "no" if not of_split else "several"
    raise DataError(
        f"{path} has {many} results on {split}; it has: {listed}. Give the path of a results.json."
    )


# What is beside results


_MOST_FAULTS = 3
"""So many contradictions are listed."""


def _read_consistent(path: Path) -> Results:
    """Read a `results.json`. Raises DataError if its statistics or its manifest contradict it."""
    results = read_results_file(path)
    faults = [*_statistics_faults(path.parent, results), *_manifest_faults(path)]
    if faults:
        listed = "; ".join(faults[:_MOST_FAULTS])
        more = f"; and {len(faults) - _MOST_FAULTS} more" if len(faults) > _MOST_FAULTS else ""
        raise DataError(
            f"{path} is contradicted by what is beside it: {listed}{more}. Run decabench evaluate again, and export "
            "what it writes."
        )
    return results


def _statistics_faults(folder: Path, results: Results) -> Iterator[str]:
    """Yield every score and interval that statistics beside the results contradict."""
    samples: dict[str, Sample] = {}
    for name, task in results.tasks.items():
        path = statistics_path(folder, name)
        if task.status != "scored" or not path.is_file() or not is_within(folder, path):
            continue
        try:
            sample = _sample_of(folder, name, task)
        except StorageError:
            raise
        except DataError as error:
            yield f"{name}: {str(error).rstrip('.')}"
            continue
        if sample is not None:
            samples[name] = sample
            interval = score_interval(sample)
            yield from _interval_faults(name, task.interval, interval.ends if interval else None)
    suite = results.suite
    if suite.total != "none" and samples.keys() >= set(suite.tasks):
        total = total_interval([samples[name] for name in suite.tasks], suite.total)
        yield from _interval_faults(suite.total_name, results.interval, total.ends if total else None)


def _sample_of(folder: Path, name: str, task: TaskResult) -> Sample | None:
    """Return the statistics of a task; None if they are of another version of its metric, or of somebody else's.

    Raises DataError if they contradict the task's result.
    """
    path = statistics_path(folder, name)
    try:
        head = read_head(path)
    except StorageError:
        raise
    except Exception as error:  # a damaged file can fail in many ways
        raise DataError(f"its statistics are damaged ({type(error).__name__})") from error
    if head.rows != task.n:
        raise DataError(f"its statistics have {head.rows:,} examples, results.json has {task.n:,}")
    for key, label, stated in head.differing(task.metric, task.signature):
        raise DataError(f"its statistics are of the {key} {quoted(label)}, its result of {quoted(stated)}")
    metric = METRICS.get(task.metric)
    if metric is None:
        return None
    if task.headline != metric.headline:
        raise DataError(
            f"results.json has {quoted(task.headline)} as its score, but that of {metric.name} is {metric.headline}"
        )
    if task.signature and not is_version_of(task.signature, metric):
        return None
    return read_sample(folder, folder, name, task)


_ENDS_DIFFER = 1e-3
"""How far, relative to it, an end of an interval may be off: ends are rounded, and libraries sum in any order."""


def _interval_faults(
    name: str, stated: tuple[float, float] | None, found: tuple[float, float] | None
) -> Iterator[str]:
    if stated is None or (
        found is not None
        and all(
            abs(one - other) <= _ENDS_DIFFER * max(1.0, abs(other))
            for one, other in zip(stated, found, strict=True)
        )
    ):
        return
    shown = "none" if found is None else show_interval(found)
    yield f"{name}: its statistics give the interval {shown}, results.json has {show_interval(stated)}"


def _manifest_faults(path: Path) -> Iterator[str]:
    """Yield what contradicts the manifest of a `results.json`, if it has one.

    It is beside it, beside all results of an archive, or in the submission. Statistics that are missing contradict
    nothing: without them, scores are as the file states them.
    """
    folder = path.resolve().parent
    above = [folder, *([folder.parent] if folder.parent.name.endswith(".results") else [])]
    above += [each for each in folder.parents if (each / METADATA_NAME).is_file()][:1]
    root = next((each for each in above if (each / MANIFEST).exists()), None)
    if root is None:
        return
    name = folder.relative_to(root).as_posix()
    for fault in check_manifest(root):
        if fault.folder in ("", name) and not fault.is_absent:
            yield f"{fault.task}: {fault.reason}" if fault.task else fault.reason


# Every format


def export_results(results: Sequence[Results], format: str) -> str:
    """Return results as text: `markdown` and `latex` take several, side by side; `model-index` takes one.

    Raises DataError for several results that cannot stand in one table, DecabenchError for several in a model card.
    """
    make = TABLES[require_name(format, TABLES, "format")]
    if format == "model-index" and len(results) > 1:
        raise DecabenchError(
            f"A model card is about one model; given {len(results)} results: export them one by one."
        )
    _require_comparable(results)
    return make(results)


def _require_comparable(results: Sequence[Results]) -> None:
    """Raise DataError with every reason why results may not stand beside each other."""
    first, faults = results[0], []
    scored: dict[str, tuple[str, TaskResult]] = {}  # the first of each task, which the others must equal
    for other in results:
        name = repr(str(other.submission["name"]))
        for what, ours, theirs in (
            ("split", first.split, other.split),
            ("suite", first.suite.name, other.suite.name),
            ("kind of answers", first.answers, other.answers),
        ):
            if ours != theirs:
                faults.append(f"{name} has another {what} ({theirs}, not {ours})")
        for task, another in other.tasks.items():
            if another.status == "failed":
                continue
            owner, one = scored.setdefault(task, (name, another))
            if one.data.fingerprint != another.data.fingerprint:
                faults.append(f"{name} was scored on other data of {task} than {owner}")
            elif one.signature != another.signature:
                faults.append(f"{name} was scored by another metric on {task} than {owner}")
    if faults:
        raise DataError(f"These results cannot stand in one table: {'; '.join(sorted(faults))}.")


# Model card


def model_index(results: Sequence[Results]) -> str:
    """Return the `model-index` of a model card, to stand between the `---` lines of its README.md.

    Failed tasks are left out, for a model card has no way to say so; a limited run's metric says that it is one.
    """
    (one,) = results
    name = str(one.submission["name"])
    entries = [_card_entry(task, found, one) for task, found in one.tasks.items() if found.score is not None]
    total = one.total
    if total.complete and total.score is not None:
        entries.append(_total_entry(one, total.score))
    return dump_yaml({"model-index": [{"name": name, "results": entries}]})


def _card_entry(task: str, found: TaskResult, results: Results) -> dict[str, Any]:
    known = TASKS.get(task)
    title = known.title if known else task
    dataset = known.dataset if known else task
    if found.data.origin == "sample":
        dataset = f"{dataset} (decabench's bundled sample)"
    limited = found.status == "partial" and found.partial
    partial = f", {found.n:,} of {limited.of:,} examples" if limited else ""
    arguments: dict[str, Any] = {"n": found.n, "signature": found.signature}
    if found.interval:
        arguments |= {"interval_95": [float(end) for end in found.interval]}
        if units := show_units(found.units):
            arguments |= {"interval_over": units}
    return {
        "task": {"type": _card_task(known), "name": title},
        "dataset": {
            "type": _card_dataset(known) or task,
            "name": dataset,
            "split": results.split,
            "args": {
                "decabench_task": task,
                "fingerprint": found.data.fingerprint,
                "origin": found.data.origin,
            },
        },
        "metrics": [
            {
                "type": _CARD_METRICS.get(found.headline, found.headline),
                "value": found.score,
                "name": f"{found.headline} (decabench{partial})",
                "args": arguments,
            }
        ],
        **_card_source(results),
    }


def _total_entry(results: Results, score: float) -> dict[str, Any]:
    suite = results.suite
    interval = {"interval_95": [float(end) for end in results.interval]} if results.interval else {}
    return {
        "task": {"type": "text-generation", "name": suite.title},
        "dataset": {"type": suite.name, "name": suite.title, "split": results.split},
        "metrics": [
            {
                "type": suite.total_name.lower(),
                "value": score,
                "name": f"{suite.total_name} (decabench)",
                "args": {"tasks": len(suite.tasks), **interval},
            }
        ],
        **_card_source(results),
    }


def _card_source(results: Results) -> dict[str, Any]:
    """Return who says so, if the submission names an address: the hub wants one."""
    url = results.submission.get("url")
    if not isinstance(url, str) or not url:
        return {}
    return {"source": {"name": f"decabench {results.decabench}", "url": url}}


_CARD_METRICS = {"nf1": "f1", "em": "exact_match", "nem": "exact_match", "sacrebleu": "bleu"}
"""Our name for a metric to the hub's, where they differ."""


def _card_task(task: Task | None) -> str:
    """Return the hub's name for a kind of task."""
    if task is None:
        return "text-generation"
    if isinstance(task.output, Label):
        return "text-classification"
    if isinstance(task.output, Tags | Tree):
        return "token-classification"
    if task.extractive:
        return "question-answering"
    by_metric = {
        "bleu": "translation",
        "chrf2": "translation",
        "ter": "translation",
        "rouge": "summarization",
    }
    return by_metric.get(task.metric.partition("_")[0], "text-generation")


def _card_dataset(task: Task | None) -> str:
    """Return the hub's name for a task's dataset; empty if it is not on the hub."""
    hubs = (source.hub for source in task.sources) if task else ()
    return next((hub.repository for hub in hubs if hub is not None), "")


# Tables


def markdown_table(results: Sequence[Results]) -> str:
    """Return a table as GitHub and CommonMark renderers read it."""
    heading, rows, notes = _cells(results)
    right = ["---:" if at > 1 else "---" for at in range(len(heading))]
    table = [heading, right, *rows]
    lines = [f"| {' | '.join(cell if row is right else _markdown(cell) for cell in row)} |" for row in table]
    return "\n".join([*lines, *(f"\n{_markdown(note)}" for note in notes)]) + "\n"


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~&$@]|:(?=//))")
"""What Markdown acts on inside a line, and what makes an address a link. `\\(` might begin a formula."""


def _markdown(text: str) -> str:
    """Escape what Markdown acts on inside a line. No line begins with the text of strangers."""
    return re.sub(r"\bwww\.", r"www\\.", _MARKDOWN.sub(r"\\\1", _line(text)))


def latex_table(results: Sequence[Results]) -> str:
    """Return a `tabular` for LaTeX with the package booktabs."""
    heading, rows, notes = _cells(results)
    lines = [
        "% \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{ll{'r' * (len(heading) - 2)}}}",
        "\\toprule",
        _latex_row(heading),
        "\\midrule",
        *(_latex_row(row) for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join([*lines, *(f"\n{_latex(note)}" for note in notes)]) + "\n"


def _latex_row(cells: Sequence[str]) -> str:
    return f"{' & '.join(map(_latex, cells))} \\\\"


_LATEX = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "{}$&#_%"},
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",  # also where babel gives it a meaning
    "[": "{[}",
    "]": "{]}",
    "`": "{`}",
    "–": "--",
    "↓": r"$\downarrow$",
}


def _latex(text: str) -> str:
    """Escape everything that LaTeX acts on. Other characters need an engine or an encoding that has them."""
    return "".join(_LATEX.get(char, char) for char in _line(text))


def _line(text: str) -> str:
    """Return a text on one line, without what is not printed."""
    return " ".join("".join(char if char.isprintable() else " " for char in well_formed(text)).split())


def _cells(results: Sequence[Results]) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the heading, the rows and the notes of a table, not escaped."""
    first = results[0]
    names = [str(each.submission["name"]) for each in results]
    tasks = list(dict.fromkeys(task for each in results for task in each.tasks))
    alone = len(results) == 1
    heading = ["task", "metric", *(["score", "95 %", "n"] if alone else names)]
    rows = []
    for task in tasks:
        found = [each.tasks.get(task) for each in results]
        known = next(each for each in found if each is not None)
        metric = METRICS.get(known.metric)
        arrow = " ↓" if metric is not None and not metric.higher_is_better else ""
        cells = [f"{known.headline}{arrow}"]
        if alone:
            cells += [_score(task, known), _interval(task, known), f"{known.n:,}"]
        else:
            cells += [_with_interval(task, each) for each in found]
        rows.append([task, *cells])
    if len(rows) > 1 and any(each.total.score is not None for each in results):
        rows.append(_total_row(results, alone))
    return heading, rows, list(_notes(first, results))


def _score(task: str, found: TaskResult) -> str:
    if found.score is None:
        return "failed"
    partial = " (partial)" if found.status == "partial" else ""
    return f"{found.score:.{score_digits(task, found.metric)}f}{partial}"


def _interval(task: str, found: TaskResult) -> str:
    digits = score_digits(task, found.metric)
    return "–" if found.interval is None else "{:.{d}f} to {:.{d}f}".format(*found.interval, d=digits)


def _with_interval(task: str, found: TaskResult | None) -> str:
    if found is None:
        return "–"
    interval = f" [{_interval(task, found)}]" if found.interval else ""
    return f"{_score(task, found)}{interval}"


def _total_row(results: Sequence[Results], alone: bool) -> list[str]:
    suite = results[0].suite
    shown = []
    for each in results:
        ends = each.interval
        interval = "" if ends is None else "{:.{d}f} to {:.{d}f}".format(*ends, d=each.total_digits)
        text = each.total.text if each.total.score is not None else "–"
        shown.append([text, interval or "–"] if alone else [f"{text} [{interval}]" if interval else text])
    name = suite.total_name if all(each.total.complete for each in results) else suite.total
    return [name, "", *(cell for cells in shown for cell in cells), *([""] if alone else [])]


def _notes(first: Results, results: Sequence[Results]) -> Iterator[str]:
    """Yield what a reader of the numbers must know."""
    raw = ", the models' whole output" if first.answers == "raw" else ""
    name = f" of {first.submission['name']}" if len(results) == 1 else ""
    yield f"Results{name}, {first.split}{raw}. Scores and 95 % intervals by decabench {first.decabench}."
    origins = {task.data.origin for each in results for task in each.tasks.values()}
    if "sample" in origins:
        yield "Scored on decabench's bundled sample: not comparable with scores on the full datasets."
    for each in results:
        for task, found in each.tasks.items():
            if found.status == "partial" and (run := found.partial):
                limit = f"{run.answered:,} of {run.of:,} examples of {task}"
                yield f"A limited run of {each.submission['name']}: {limit}."


TABLES: Mapping[str, Callable[[Sequence[Results]], str]] = {
    "markdown": markdown_table,
    "latex": latex_table,
    "model-index": model_index,
}
"""Every format of results by name."""
