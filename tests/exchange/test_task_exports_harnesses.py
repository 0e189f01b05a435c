"""Exported tasks in the real lm-eval and Inspect score exactly like `decabench evaluate`.

A stub model answers, so nothing is downloaded. Needs `pip install lm_eval inspect-ai`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from decabench import evaluate, import_answers
from decabench.exchange import ExportedTask, ImportSettings, export_tasks

pytestmark = [pytest.mark.heavy]

TASKS = [
    "sst",
    "squad",
    "woz.en",
    "iwslt.en.de",
    "cnn_dailymail",
    "schema",
    "zre",
    "squad2",
    "wikisql",
    "srl",
]
"""Tasks of every kind: a mean, BLEU, ROUGE, dialogues, corpus F1, labels named in the question, and tables."""

LM_EVAL = """
import json, sys
import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

folder, answers, out = sys.argv[1:4]
said = json.load(open(answers))

class Made(LM):
    def generate_until(self, requests, disable_tqdm=False):
        return [said[request.args[0]] for request in requests]
    def loglikelihood(self, requests): raise NotImplementedError
    def loglikelihood_rolling(self, requests): raise NotImplementedError

tracker = EvaluationTracker(output_path=out)
found = lm_eval.simple_evaluate(
    evaluation_tracker=tracker, model=Made(), tasks=sys.argv[4:],
    task_manager=TaskManager(include_path=folder, include_defaults=False),
    log_samples=True, bootstrap_iters=0,
)
tracker.save_results_aggregated(results={"results": found["results"]}, samples=found["samples"])
for name, samples in found["samples"].items():
    tracker.save_results_samples(name, samples)
json.dump(found["results"], open(out + "/found.json", "w"), default=str)
"""

INSPECT = """
import json, os, sys
from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

folder, answers, out = sys.argv[1:4]
said = json.load(open(answers))
def answer(messages, tools, tool_choice, config):
    text = said[messages[-1].text]
    ended = "content_filter" if text.startswith("Answer:") else "stop"
    output = ModelOutput.from_content("mockllm/model", text, stop_reason=ended)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it downloads a tokenizer
    return output
os.chdir(folder)
logs = eval(
    "decabench_tasks.py", model=get_model("mockllm/model", custom_outputs=answer), log_dir=out,
    display="none",
)
found = {}
for log in logs:
    assert log.status == "success", log.error
    found[log.eval.task] = {
        "file": log.location,
        "scores": {name: metric.value for score in log.results.scores for name, metric in score.metrics.items()},
    }
json.dump(found, open(out + "/found.json", "w"))
"""


def require(package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def made_up(exported: ExportedTask) -> dict[str, str]:
    """Return answers by prompt: right, right with extra words, wrong, from another example, and empty, in turn."""
    rows = list(exported.rows.values())
    texts = {}
    for at, row in enumerate(rows):
        gold = row["answers"][0]
        texts[row["prompt"]] = [gold, f"Answer: {gold}", "no idea", rows[at - 1]["answers"][0], gold, ""][
            at % 6
        ]
    return texts


def run(script: str, folder: Path, texts: dict[str, str], out: Path, *arguments: str) -> None:
    out.mkdir()
    answers = out.with_suffix(".json")
    answers.write_text(json.dumps(texts))
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder), str(answers), str(out), *arguments],
        capture_output=True,
        text=True,
        cwd=out,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture
def exported(home, tmp_path):
    """Export the tasks for a harness. Return the folder, and the tasks as loaded by the harness."""

    def export(harness: str):
        folder = tmp_path / harness
        export_tasks(TASKS, folder, harness, home=home)
        return folder, {
            name: ExportedTask.read(folder / "data" / f"{name}.validation.jsonl.gz") for name in TASKS
        }

    return export


def own_scores(home, tmp_path, name: str, file: Path, format: str) -> dict[str, float]:
    """Return the scores of `decabench evaluate` for the answers in a harness's log."""
    folder = tmp_path / "imported" / name
    done = import_answers(file, name, folder, name, format=format, settings=ImportSettings(), home=home)
    assert done.imported == done.examples
    return dict(evaluate(folder, tasks=name, home=home).tasks[name].scores)


@pytest.mark.parametrize(
    ("model", "temperature", "top_k"),
    [("openai/any", 0.0, None), ("hf/any", None, 1)],  # hf always samples, and rejects a temperature of 0
)
def test_inspect_decodes_greedily(model, temperature, top_k, home, tmp_path, monkeypatch):
    require("inspect_ai")
    from decabench.exchange import inspect_scorer

    export_tasks(["sst"], tmp_path / "out", "inspect", home=home)
    monkeypatch.setattr(inspect_scorer, "get_model", lambda: model)
    config = inspect_scorer.make_inspect_task(tmp_path / "out" / "data" / "sst.validation.jsonl.gz").config
    assert (config.temperature, config.top_k) == (temperature, top_k)


def test_in_lm_eval(exported, home, tmp_path):
    require("lm_eval")
    folder, tasks = exported("lm-eval")
    texts = {prompt: text for task in tasks.values() for prompt, text in made_up(task).items()}
    out = tmp_path / "out"
    run(LM_EVAL, folder, texts, out, *(f"decabench_{name}" for name in TASKS))
    found = json.loads((out / "found.json").read_text())
    for name, task in tasks.items():
        (samples,) = out.rglob(f"samples_decabench_{name}_*.jsonl")
        ours = own_scores(home, tmp_path, name, samples, "lm-eval")
        theirs = {headline: found[f"decabench_{name}"][f"{headline},none"] for headline in task.headlines}
        assert theirs == {headline: ours[headline] for headline in task.headlines}, name
        assert 0 < theirs[task.headlines[0]] < 100


def test_in_inspect(exported, home, tmp_path):
    require("inspect_ai")
    folder, tasks = exported("inspect")
    texts = {prompt: text for task in tasks.values() for prompt, text in made_up(task).items()}
    out = tmp_path / "out"
    run(INSPECT, folder, texts, out)
    found = json.loads((out / "found.json").read_text())
    for name, task in tasks.items():
        log = found[f"decabench_{name.replace('.', '_')}"]
        path = Path(log["file"].removeprefix("file://"))
        ours = own_scores(home, tmp_path, name, path, "inspect")
        assert log["scores"] == ours, name
        assert 0 < ours[task.headlines[0]] < 100
