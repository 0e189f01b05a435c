"""Export tasks to lm-eval or Inspect, using decabench's data, prompts and scorers.

The exported folder contains the examples and prompts of each task, along with a few lines of code that call
decabench. decabench must be installed alongside the other harness. Scores are the same as those of `decabench
evaluate` for the same answers.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

import decabench
from decabench.errors import DataError, DecabenchError, UnknownNameError, require_name
from decabench.files import (
    atomic_file,
    is_temporary,
    make_folder,
    require_within,
    sweep_temporary,
    write_file,
)
from decabench.metrics import Item
from decabench.prompts import Shot, extract, load_template, make_prompting, select_shots, settle_form
from decabench.scoring import find_metric, score_task
from decabench.submission import BrokenFileError, Limits, numbered_lines
from decabench.tasks import SPLITS, AnswerForm, Question, Store, Task, get_task, known_tasks
from decabench.text import excerpt, quoted
from decabench.untrusted import parse_json

FORMAT = "decabench.harness/1"
DATA = "data"
"""Subfolder for the example files."""

_LIMITS = Limits(1 << 32, 20_000_000, 1 << 26)


# Reading exported tasks (called by other harnesses)


@dataclass(frozen=True)
class ExportedTask:
    """A task for use in another harness: examples with prompts, answer extraction and scoring."""

    path: Path
    """The file that contains the task."""
    name: str
    """The task name."""
    split: str
    """The split name."""
    metrics: tuple[str, ...]
    """Metric names, starting with the headline metric."""
    headlines: tuple[str, ...]
    """The name of each metric's headline score."""
    form: AnswerForm
    """The form of the answers, used to find them in a model's output."""
    max_tokens: int
    """The maximum answer length, in tokens."""
    stop: tuple[str, ...]
    """Stop sequences for plain-text prompts."""
    chat_stop: tuple[str, ...]
    """Stop sequences for chats."""
    rows: Mapping[str, Mapping[str, Any]]
    """Rows by id, in dataset order.

    Each row has `prompt`, `messages`, `question`, `context`, `answers`, `units` and `meta`.
    """

    @classmethod
    def read(cls, path: str | Path) -> ExportedTask:
        """Read a file written by `export_tasks`.

        Raises DataError if the file is damaged or if its metrics have changed since the export.
        """
        return _read(Path(path))

    def documents(self) -> dict[str, Any]:
        """Return the examples for lm-eval, as a mapping from the split name to a `datasets.Dataset`."""
        import datasets

        rows = [
            {"id": id_, "prompt": row["prompt"], "target": row["answers"][0], "answers": row["answers"]}
            for id_, row in self.rows.items()
        ]
        return {self.split: datasets.Dataset.from_list(rows)}

    def answer(self, id: str, text: str, finish: str = "stop") -> str:
        """Return the answer extracted from a model's output, as in `decabench predict`."""
        row = self.rows[id]
        return extract(text, self.form, row["question"], finish, row["context"]).answer

    def results(self, document: Mapping[str, Any], texts: Sequence[str]) -> dict[str, list[str]]:
        """Return a dict that maps the name of each metric's headline score to the pair [id, answer].

        lm-eval collects these pairs and passes them to the function from `aggregate`.
        """
        answer = self.answer(document["id"], texts[0])
        return {name: [document["id"], answer] for name in self.headlines}

    def aggregate(self, name: str) -> Callable[[Sequence[Sequence[str]]], float]:
        """Return a function that computes a score from the collected `results` of all examples."""
        metric = self.metrics[self.headlines.index(name)]
        return lambda collected: self.scores([(id_, answer) for id_, answer in collected], (), [metric])[name]

    def scores(
        self,
        answers: Sequence[tuple[str, str]],
        refused: Collection[str] = (),
        metrics: Sequence[str] | None = None,
    ) -> dict[str, float]:
        """Return all scores of the task's metrics for (id, answer) pairs.

        `refused` contains the ids of examples that the model or its server refused to answer. They are scored as
        wrong. Raises DataError for an unknown or duplicate id.
        """
        given = dict(answers)
        if len(given) < len(answers):
            raise DataError(
                f"{self.name} has {len(answers):,} answers to {len(given):,} examples. Answer each example only once, "
                "in a single epoch."
            )
        if unknown := given.keys() - self.rows.keys():
            raise DataError(f"{self.name} has no example {quoted(min(unknown))}.")
        ids = [id_ for id_ in self.rows if id_ in given]
        found = score_task(
            metrics or self.metrics,
            [given[id_] for id_ in ids],
            [self._item(id_) for id_ in ids],
            None,
            [place for place, id_ in enumerate(ids) if id_ in refused],
        )
        return dict(found.scores)

    def example_score(self, id: str, answer: str, is_refused: bool = False) -> float:
        """Return the headline score of a single example.

        For metrics that don't score single examples, the score is 100 if the answer is a reference and 0
        otherwise.
        """
        metric, item = find_metric(self.metrics[0]), self._item(id)
        if metric.scope != "example":
            return 100.0 * (answer in item.answers and not is_refused)
        found = score_task(self.metrics[:1], [answer], [item], None, [0] * is_refused)
        return float(found.scores[metric.headline])

    def _item(self, id: str) -> Item:
        row = self.rows[id]
        return Item(tuple(row["answers"]), id, tuple(row["units"]), row["meta"])


@lru_cache(maxsize=64)
def _read(path: Path) -> ExportedTask:
    import msgspec

    again = "Export the task again"
    try:
        with closing(numbered_lines(path, _LIMITS)) as lines:
            records = [parse_json(raw.decode()) for _, raw in lines if raw]
        head, *rows = records
        if head["format"] != FORMAT:
            raise ValueError(f"the format is {quoted(str(head['format']))}, not {FORMAT!r}")
        exported = ExportedTask(
            path,
            head["task"],
            head["split"],
            tuple(head["signatures"]),
            tuple(find_metric(name).headline for name in head["signatures"]),
            msgspec.convert(head["form"], AnswerForm),
            head["max_tokens"],
            tuple(head["stop"]),
            tuple(head["chat_stop"]),
            {row["id"]: row for row in rows},
        )
        if len(exported.rows) != head["rows"]:
            raise ValueError(f"the file has only {len(exported.rows):,} of {head['rows']:,} examples")
    except (BrokenFileError, ValueError, KeyError, TypeError, LookupError) as error:
        raise DataError(f"{path} is not an exported task ({error}). {again}.") from error
    for name, signature in head["signatures"].items():
        now = find_metric(name).full_signature
        if now != signature:
            raise DataError(
                f"{path.name} was exported for the metric {signature}, but this version of decabench uses {now}. "
                f"{again}."
            )
    return exported


# Writing


def export_tasks(
    tasks: Sequence[str | Task],
    output: str | Path,
    harness: str,
    split: str = "validation",
    shots: int = 0,
    seed: int = 0,
    home: str | Path | None = None,
    include: Sequence[Path] = (),
    chat: bool = False,
) -> list[Path]:
    """Write a folder of tasks for a harness (`lm-eval` or `inspect`) and return its files.

    Prompts are the same as in `decabench predict`, with `shots` worked examples. In lm-eval, a blank
    line ends an answer unless `chat` is set, because chat models may begin an answer with a blank line.
    In Inspect, a blank line never ends an answer. Raises MissingDataError if a split has not been
    prepared, DataError if its labels are hidden, and DecabenchError if the folder contains other files.
    """
    write = HARNESSES[require_name(harness, HARNESSES, "harness")]
    require_name(split, SPLITS, "split")
    known = known_tasks(include)
    chosen = [task if isinstance(task, Task) else get_task(task, known) for task in tasks]
    names = {_identifier(task.name): task.name for task in chosen}
    if not chosen or len(names) < len(chosen):
        raise UnknownNameError(
            f"Specify at least one task, and don't repeat any. Got {', '.join(task.name for task in chosen) or 'none'}."
        )
    folder, store = Path(output), Store(home)
    store.require(chosen, split)  # check all tasks before writing anything
    if hidden := [task.name for task in chosen if store.hides(task, split)]:
        raise DataError(
            f"The {split} labels of {', '.join(hidden)} are hidden, and other harnesses can't score without them. "
            "Export another split, or use decabench predict and evaluate."
        )
    files = write(chosen, split, chat)
    files["README.md"] = _readme(chosen, store, split, harness, shots, chat)
    _require_own(folder, {*files, *(_data_name(task, split) for task in chosen)})
    make_folder(folder / DATA)
    made = [_write_data(folder, store, task, split, shots, seed) for task in chosen]
    for name, text in files.items():
        write_file(folder / name, text)
    return [*made, *(folder / name for name in files)]


def _require_own(folder: Path, names: set[str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise DecabenchError(f"{folder} is a file. Specify a folder for the tasks.")
    sweep_temporary(folder, recursive=True)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    found = {name for name in found if "__pycache__" not in name and not is_temporary(PurePath(name).name)}
    if others := sorted(found - names):
        raise DecabenchError(
            f"{folder} contains other files ({excerpt(', '.join(others), 100)}). Choose a separate folder for "
            "these tasks."
        )
    require_within(folder, *(folder / name for name in names))


def _write_data(folder: Path, store: Store, task: Task, split: str, shots: int, seed: int) -> Path:
    drawn: tuple[Shot, ...] = ()
    if shots:
        rows = store.read(task.name, split, ("question", "context"))
        evaluated = ((row["question"], row["context"]) for row in rows)
        drawn = select_shots(task, store.examples(task.name, "train"), evaluated, shots, seed)
    prompting = make_prompting(task, load_template("default"), None, drawn)
    record = store.record(task.name, split)
    names = task.metrics
    head = {
        "format": FORMAT,
        "task": task.name,
        "split": split,
        "rows": record.rows,
        "fingerprint": record.fingerprint,
        "signatures": {name: find_metric(name).full_signature for name in names},
        "form": asdict(settle_form(prompting.form, task.output)),
        "max_tokens": prompting.max_new_tokens,
        "stop": prompting.stop,
        "chat_stop": prompting.chat_stop,
        "prompt": prompting.describe(),
        "decabench": decabench.__version__,
    }
    path = folder / _data_name(task, split)
    with atomic_file(path, "gz") as file:
        file.write(json.dumps(head, ensure_ascii=False).encode() + b"\n")
        for example in store.examples(task.name, split):
            question = Question(example.id, example.question, example.context)
            row = {
                "id": example.id,
                "prompt": prompting.text(question),
                "messages": [[turn.role, turn.content] for turn in prompting.messages(question)],
                "question": example.question,
                "context": example.context,
                "answers": list(example.answers),
                "units": list(example.units),
                "meta": dict(example.meta),
            }
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    return path


def _data_name(task: Task, split: str) -> str:
    return f"{DATA}/{task.name}.{split}.jsonl.gz"


def _identifier(name: str) -> str:
    made = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"{made}_" if keyword.iskeyword(made) or not made.isidentifier() else made


class _Function(str):
    """The name of a function in utils.py. lm-eval's YAML files refer to it with the tag `!function`."""


def dump_yaml(value: Mapping[str, Any]) -> str:
    """Return a mapping as YAML, keeping the order of its keys."""
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_representer(
        _Function, lambda dumper, name: dumper.represent_scalar("!function", f"utils.{name}")
    )
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=math.inf)
    return text


def _write_lm_eval(tasks: Sequence[Task], split: str, chat: bool) -> dict[str, str]:
    lines = [
        '"""Functions for the YAML files. Written by decabench."""\n',
        "from pathlib import Path\n",
        "from decabench.exchange import ExportedTask\n",
        f'_DATA = Path(__file__).parent / "{DATA}"\n',
    ]
    files = {}
    for task in tasks:
        own = _identifier(task.name)
        # The leading underscore avoids clashes between a task and a function of another task.
        lines += [
            f'_{own} = ExportedTask.read(_DATA / "{task.name}.{split}.jsonl.gz")',
            f"\n\ndef documents_of_{own}(**settings):",
            f'    """Return the examples of {task.name}."""',
            f"    return _{own}.documents()\n",
            f"\nresults_of_{own} = _{own}.results",
        ]
        metrics = []
        for metric in map(find_metric, task.metrics):
            score = f"{_identifier(metric.headline)}_of_{own}"
            lines.append(f"{score} = _{own}.aggregate({metric.headline!r})")
            metrics.append(
                {
                    "metric": metric.headline,
                    "aggregation": _Function(score),
                    "higher_is_better": metric.higher_is_better,
                }
            )
        lines.append("")
        prompting = make_prompting(task, load_template("default"))
        content = {
            "task": f"decabench_{task.name}",
            "tag": "decabench",
            "custom_dataset": _Function(f"documents_of_{own}"),
            f"{split}_split" if split != "train" else "training_split": split,
            "output_type": "generate_until",
            "doc_to_text": "prompt",
            "doc_to_target": "target",
            "num_fewshot": 0,
            "generation_kwargs": {
                "until": list(prompting.chat_stop if chat else prompting.stop),
                "do_sample": False,
                "temperature": 0.0,
                "max_gen_toks": prompting.max_new_tokens,
            },
            "process_results": _Function(f"results_of_{own}"),
            "metric_list": metrics,
            "metadata": {"version": task.version},
        }
        files[f"decabench_{task.name}.yaml"] = dump_yaml(content)
    return {"utils.py": "\n".join(lines), **files}


def _write_inspect(tasks: Sequence[Task], split: str, chat: bool) -> dict[str, str]:
    lines = [
        '"""Tasks for Inspect. Written by decabench."""\n',
        "from pathlib import Path\n",
        "from inspect_ai import Task, task\n",
        "from decabench.exchange import make_inspect_task\n",
        f'_DATA = Path(__file__).parent / "{DATA}"\n',
    ]
    for each in tasks:
        lines += [
            f"\n@task\ndef decabench_{_identifier(each.name)}() -> Task:",
            f'    """Return the task {each.name}."""',
            f'    return make_inspect_task(_DATA / "{each.name}.{split}.jsonl.gz")\n',
        ]
    return {"decabench_tasks.py": "\n".join(lines)}


HARNESSES: Mapping[str, Callable[[Sequence[Task], str, bool], dict[str, str]]] = {
    "lm-eval": _write_lm_eval,
    "inspect": _write_inspect,
}
"""Maps each supported harness to a function that returns the content of its files by file name."""


_COMMANDS = {
    "lm-eval": "lm_eval --model hf --model_args pretrained=MODEL --include_path . --tasks {tasks} --log_samples "
    "--output_path out",
    "inspect": "inspect eval decabench_tasks.py{tasks} --model PROVIDER/MODEL",
}


def _readme(tasks: Sequence[Task], store: Store, split: str, harness: str, shots: int, chat: bool) -> str:
    names = ",".join(f"decabench_{task.name}" for task in tasks)
    own, advice = "", ""
    if harness == "inspect":
        names = f"@decabench_{_identifier(tasks[0].name)}" if len(tasks) == 1 else ""
    elif chat:
        own = " --apply_chat_template"
    else:
        advice = "For chat models, write the folder again with `--chat`.\n\n"
    rows = []
    for task in tasks:
        record = store.record(task.name, split)
        keep = "" if task.redistributable and not task.withhold_texts else " (do not redistribute this file)"
        origin = f"{record.origin}, `{record.fingerprint[:19]}…`"
        rows.append(f"| {task.name} | {split} | {record.rows:,} | {origin} | {task.licence}{keep} |\n")
    return f"""# decabench tasks for {harness}

Written by decabench {decabench.__version__}, which must be installed alongside {harness}. Run the tasks in this folder:

    {_COMMANDS[harness].format(tasks=names)}{own}

{advice}Prompts, answer extraction and scores come from decabench. `decabench evaluate` gives the same scores for
the same answers. Prompts have {shots or "no"} worked example{"" if shots == 1 else "s"}. To get intervals and
comparisons, import the answers with `decabench import`.

| task | split | examples | data | license |
|---|---|---|---|---|
{"".join(rows)}"""
