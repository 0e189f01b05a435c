"""Export results to model cards (`model-index`), Markdown and LaTeX.

Names in results are untrusted, so all text is escaped for its format. No metric code is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from decabench.errors import DataError, DecabenchError, ModelError, require_name, require_package
from decabench.exchange.task_exports import dump_yaml
from decabench.metrics import METRICS
from decabench.scoring import (
    Results,
    TaskResult,
    read_results_file,
    results_files,
    score_digits,
    show_interval,
    show_units,
    system_and_seed,
)
from decabench.submission import ARCHIVE_SUFFIXES
from decabench.tasks import TASKS, Label, Tags, Task, Tree
from decabench.text import well_formed


def find_results(path: str | Path, split: str = "validation") -> Results:
    """Return a submission's results on a split, or the results in a `results.json` file.

    Scores are read from the file, not recomputed. Raises MissingDataError if the submission has no results at all,
    DataError unless it has exactly one set of results on the split, and DecabenchError for any other kind of file.
    """
    path = Path(path)
    if path.name.endswith(".json"):
        return read_results_file(path)
    if path.is_file() and not path.name.lower().endswith(ARCHIVE_SUFFIXES):
        kinds = ", ".join(ARCHIVE_SUFFIXES)
        raise DecabenchError(
            f"{path} has no results. Specify a submission's folder, a results.json or an archive ({kinds})."
        )
    found = [read_results_file(each) for each in results_files(path)]
    of_split = [each for each in found if each.split == split and each.answers == "extracted"]
    if len(of_split) == 1:
        return of_split[0]
    listed = ", ".join(sorted({f"{each.split} ({each.suite.name})" for each in found}))
    many = "several" if of_split else "no"
    raise DataError(
        f"{path} has {many} {split} results. Its results are for {listed}. Specify the path to a results.json."
    )


def export_results(results: Sequence[Results], format: str) -> str:
    """Return results as text in the given format.

    The `markdown` and `latex` tables show several results side by side, and runs that differ only in their seeds in
    one column; `model-index` accepts only one result.
    Raises DataError if the results can't share a table, and DecabenchError for several results in a model
    card.
    """
    make = TABLES[require_name(format, TABLES, "format")]
    if format == "model-index" and len(results) > 1:
        raise DecabenchError(
            f"A model card describes a single model, but {len(results)} results were given. Export each result "
            "separately."
        )
    _require_comparable(results)
    return make(results)


def group_seeds(results: Sequence[Results]) -> list[list[int]]:
    """Return the indices of the results, with runs that differ only in their seeds in the same list."""
    groups: dict[str, dict[str, int]] = {}
    for at, each in enumerate(results):
        system, seed = system_and_seed(each.submission.get("predictor")) or (str(at), "")
        if seed in groups.get(system, {}):
            system = str(at)
        groups.setdefault(system, {})[seed] = at
    return [[*runs.values()] for runs in groups.values()]


def _require_comparable(results: Sequence[Results]) -> None:
    first, faults = results[0], []
    scored: dict[str, tuple[str, TaskResult]] = {}  # each task's first result, which all others must match
    for other in results:
        name = repr(str(other.submission["name"]))
        for what, ours, theirs in (
            ("split", first.split, other.split),
            ("suite", first.suite.name, other.suite.name),
            ("kind of answers", first.answers, other.answers),
        ):
            if ours != theirs:
                faults.append(f"{name} has a different {what} ({theirs}, not {ours})")
        for task, another in other.tasks.items():
            if another.status == "failed":
                continue
            owner, one = scored.setdefault(task, (name, another))
            if one.data.fingerprint != another.data.fingerprint:
                faults.append(f"{name} and {owner} were scored on different data for {task}")
            elif one.signature != another.signature:
                faults.append(f"{name} and {owner} were scored by different metrics on {task}")
    if faults:
        raise DataError(f"These results can't be shown in one table: {'; '.join(sorted(faults))}.")


# Model card


def model_index(results: Sequence[Results]) -> str:
    """Return the `model-index` for the YAML header of a model card's README.md.

    Failed tasks are left out because a model card can't show them. For a limited run, the name of the metric
    includes the number of examples.
    """
    (one,) = results
    entries = [_task_entry(task, found, one) for task, found in one.tasks.items() if found.score is not None]
    suite, total = one.suite, one.total
    if total.complete and total.score is not None:
        entries.append(
            _entry(
                one,
                {"type": "text-generation", "name": suite.title},
                {"type": suite.name, "name": suite.title},
                {
                    "type": suite.total_name.lower(),
                    "value": total.score,
                    "name": f"{suite.total_name} (decabench)",
                    "args": {"tasks": len(suite.tasks), **_interval_95(one.interval)},
                },
            )
        )
    return dump_yaml(
        {"model-index": [{"name": well_formed(str(one.submission["name"])), "results": entries}]}
    )


def _entry(
    results: Results, task: dict[str, Any], dataset: dict[str, Any], metric: dict[str, Any]
) -> dict[str, Any]:
    url = results.submission.get("url")
    source = {"name": f"decabench {results.decabench}", "url": url}
    return {
        "task": task,
        "dataset": {**dataset, "split": results.split},
        "metrics": [metric],
        **({"source": source} if isinstance(url, str) and url else {}),  # the Hub requires a URL
    }


def _task_entry(name: str, found: TaskResult, results: Results) -> dict[str, Any]:
    known = TASKS.get(name)
    title, dataset = (known.title, known.dataset) if known else (name, name)
    if found.data.origin == "sample":
        dataset = f"{dataset} (decabench's bundled sample)"
    limited = found.status == "partial" and found.partial
    partial = f", {found.n:,} of {limited.of:,} examples" if limited else ""
    units = show_units(found.units) if found.interval else ""
    hubs = [source.repository for source in known.sources if source.repository] if known else []
    return _entry(
        results,
        {"type": _card_task(known), "name": title},
        {
            "type": hubs[0] if hubs else name,
            "name": dataset,
            "args": {
                "decabench_task": name,
                "fingerprint": found.data.fingerprint,
                "origin": found.data.origin,
            },
        },
        {
            "type": _CARD_METRICS.get(found.headline, found.headline),
            "value": found.score,
            "name": f"{found.headline} (decabench{partial})",
            "args": {
                "n": found.n,
                "signature": found.signature,
                **_interval_95(found.interval),
                **({"interval_over": units} if units else {}),
            },
        },
    )


def _interval_95(interval: tuple[float, float] | None) -> dict[str, Any]:
    return {"interval_95": [float(end) for end in interval]} if interval else {}


_CARD_METRICS = {"nf1": "f1", "em": "exact_match", "nem": "exact_match", "sacrebleu": "bleu"}
"""The Hub's names for metrics, where they differ from decabench's names."""


def _card_task(task: Task | None) -> str:
    if task is None:
        return "text-generation"
    if isinstance(task.output, Label):
        return "text-classification"
    if isinstance(task.output, Tags | Tree):
        return "token-classification"
    if task.extractive:
        return "question-answering"
    kinds = {"bleu": "translation", "chrf2": "translation", "ter": "translation", "rouge": "summarization"}
    return kinds.get(task.metric.partition("_")[0], "text-generation")


# Tables


def markdown_table(results: Sequence[Results]) -> str:
    """Return a Markdown table for GitHub and CommonMark renderers."""
    heading, rows, notes = _cells(results)
    right = ["---:" if at > 1 else "---" for at in range(len(heading))]
    table = [heading, right, *rows]
    lines = [
        f"| {' | '.join(cell if row is right else escape_markdown(cell) for cell in row)} |" for row in table
    ]
    return "\n".join([*lines, *(f"\n{escape_markdown(note)}" for note in notes)]) + "\n"


_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~&$@]|:(?=//))")
"""Characters that are special within a line of Markdown, or that turn a word into a link or a mention.

Parentheses are not escaped, because `\\(` could start a formula.
"""


def escape_markdown(text: str) -> str:
    """Escape the characters that are special within a line of Markdown.

    Characters that are special only at the start of a line, such as `#`, are not escaped. Don't start a
    line with untrusted text.
    """
    return re.sub(r"\bwww\.", r"www\\.", _MARKDOWN.sub(r"\\\1", _line(text)))


def latex_table(results: Sequence[Results]) -> str:
    """Return a LaTeX `tabular` that uses the booktabs package."""
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
    '"': r"\char34{}",  # babel makes it a special character in some languages
    "[": "{[}",
    "]": "{]}",
    "`": "{`}",
    "–": "--",
    "↓": r"$\downarrow$",
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in _line(text))


def _line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in well_formed(text)).split())


def _cells(results: Sequence[Results]) -> tuple[list[str], list[list[str]], list[str]]:
    first = results[0]
    groups = [[results[at] for at in group] for group in group_seeds(results)]
    names = [
        f"{runs[0].submission['name']}{f' ({len(runs)} runs)' if len(runs) > 1 else ''}" for runs in groups
    ]
    tasks = list(dict.fromkeys(task for each in results for task in each.tasks))
    alone = len(results) == 1
    heading = ["task", "metric", *(["score", "95%", "n"] if alone else names)]
    rows = []
    for task in tasks:
        found = [[each.tasks.get(task) for each in runs] for runs in groups]
        known = next(each for runs in found for each in runs if each is not None)
        metric = METRICS.get(known.metric)
        arrow = " ↓" if metric is not None and not metric.higher_is_better else ""
        shown = [_task_cell(task, runs) for runs in found]
        cells = [*shown[0], f"{known.n:,}"] if alone else [_pair(*each) for each in shown]
        rows.append([task, f"{known.headline}{arrow}", *cells])
    if len(rows) > 1 and any(each.total.score is not None for each in results):
        shown = [_total_cell(runs) for runs in groups]
        complete = all(each.total.complete for each in results)
        name = first.suite.total_name if complete else first.suite.total
        rows.append([name, "", *([*shown[0], ""] if alone else [_pair(*each) for each in shown])])
    return heading, rows, list(dict.fromkeys(_notes(first, results, len(groups))))


def _task_cell(task: str, runs: Sequence[TaskResult | None]) -> tuple[str, str]:
    """Return the score and the interval of a task; for several runs, the mean score, without an interval."""
    found = [each for each in runs if each is not None]
    if len(found) < len(runs):
        return "–", "–"
    scores = [each.score for each in found if each.score is not None]
    if len(scores) < len(found):
        return "failed", "–"
    digits = score_digits(task, found[0].metric)
    partial = " (partial)" if any(each.status == "partial" for each in found) else ""
    interval = found[0].interval if len(found) == 1 else None
    return f"{_mean(scores, digits)}{partial}", show_interval(interval, digits)


def _total_cell(runs: Sequence[Results]) -> tuple[str, str]:
    scores = [each.total.score for each in runs if each.total.score is not None]
    if len(runs) == 1:
        return runs[0].total.text if scores else "–", show_interval(runs[0].interval, runs[0].total_digits)
    if len(scores) < len(runs) or not all(each.total.complete for each in runs):
        return "–", "–"
    return _mean(scores, runs[0].total_digits), "–"


def _mean(scores: Sequence[float], digits: int) -> str:
    mean, low, high = (f"{number:.{digits}f}" for number in (fmean(scores), min(scores), max(scores)))
    return mean if len(scores) == 1 else f"{mean} ({low} to {high})"


def _pair(score: str, interval: str) -> str:
    return score if interval == "–" else f"{score} [{interval}]"


def _notes(first: Results, results: Sequence[Results], models: int) -> Iterator[str]:
    raw = ", scored without answer extraction" if first.answers == "raw" else ""
    name = f" of {first.submission['name']}" if len(results) == 1 else ""
    yield f"Results{name} on {first.split}{raw}. Scores and 95% intervals by decabench {first.decabench}."
    if models < len(results):
        yield "For a model with several runs, the score is their mean, with the lowest and highest in parentheses."
    origins = {task.data.origin for each in results for task in each.tasks.values()}
    if "sample" in origins:
        yield "Scored on decabench's bundled sample: not comparable with scores on the full datasets."
    for each in results:
        for task, found in each.tasks.items():
            if found.status == "partial" and (run := found.partial):
                limit = f"{run.answered:,} of {run.of:,} examples of {task}"
                yield f"{each.submission['name']} was run on only {limit}."


TABLES: Mapping[str, Callable[[Sequence[Results]], str]] = {
    "markdown": markdown_table,
    "latex": latex_table,
    "model-index": model_index,
}
"""Export formats for results, by name."""


# The Hugging Face Hub


def push_card(model_index: str, repository: str) -> str:
    """Add results to a model card on the Hub and return the URL of the commit.

    `model_index` is the YAML from `export_results`. Earlier values of the same results are replaced; other
    results and the card's text are kept. Raises DecabenchError if there is no token, and ModelError if the
    Hub rejects the change.
    """
    require_package("--push", "hf", "huggingface_hub")
    from huggingface_hub import HfApi, ModelCard, ModelCardData, errors, get_token
    from huggingface_hub.repocard_data import model_index_to_eval_results
    from yaml import safe_load

    if not get_token():
        raise DecabenchError(
            "--push requires a Hugging Face token with write access. Set HF_TOKEN, or run hf auth login."
        )
    name, results = model_index_to_eval_results(safe_load(model_index)["model-index"])
    api = HfApi()
    try:
        with TemporaryDirectory() as folder:
            try:
                path = api.hf_hub_download(repository, "README.md", local_dir=folder)
                card = ModelCard(Path(path).read_text(encoding="utf-8"), ignore_metadata_errors=False)
            except errors.EntryNotFoundError:
                data = ModelCardData(model_name=name, eval_results=results)
                card = ModelCard(f"---\n{data.to_yaml()}\n---\n\n# {name}\n")
        about: Any = card.data  # its declared type is the base class of all kinds of cards
        replaced = set(map(_subject, results))
        kept = [each for each in about.eval_results or () if _subject(each) not in replaced]
        about.eval_results = [*kept, *results]
        about.model_name = about.model_name or name
        made = api.upload_file(
            path_or_fileobj=str(card).encode(),
            path_in_repo="README.md",
            repo_id=repository,
            commit_message="Add decabench results",
        )
    except errors.RepositoryNotFoundError:
        raise ModelError(
            f"Can't write to the model {repository} on the Hugging Face Hub with this token. Create the model "
            "first, or check that the token has write access."
        ) from None
    except errors.HfHubHTTPError as error:  # its message may contain the token
        raise ModelError(
            f"The Hugging Face Hub did not accept the change to {repository} "
            f"(HTTP {getattr(error.response, 'status_code', 'error')})."
        ) from None
    except errors.HFValidationError:
        raise DecabenchError(
            f"{repository!r} is not a valid model name. Write the name as owner/name."
        ) from None
    except OSError as error:
        cause = os.strerror(error.errno) if error.errno else type(error).__name__
        raise ModelError(
            f"The Hugging Face Hub can't be reached ({cause}). Check the network connection, then run the "
            "command again."
        ) from None
    return str(made.commit_url)


def _subject(result: Any) -> tuple[object, ...]:
    """Return a result's identity on the card: its data, split and metric.

    Full and partial runs of the same metric have the same identity."""
    name = str(result.metric_name).partition(", ")[0].removesuffix(")")
    return result.dataset_type, result.dataset_name, result.dataset_split, result.metric_type, name
