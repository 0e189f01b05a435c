"""Exported tasks: files for other harnesses, and scores equal to those of `decabench evaluate`.

test_task_exports_harnesses.py runs them in the harnesses.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from decabench import evaluate, write_submission
from decabench.errors import DataError, DecabenchError
from decabench.exchange import ExportedTask, export_tasks, make_inspect_task
from decabench.prompts import load_template, make_prompting
from decabench.tasks import DECATHLON, TASKS, Question, Store


@pytest.fixture
def export(home, tmp_path):
    """Export tasks of the sample into a folder named after the harness."""

    def call(*tasks: str, harness: str = "lm-eval", **settings: Any) -> Path:
        export_tasks(tasks, tmp_path / harness, harness, home=home, **settings)
        return tmp_path / harness

    return call


def read(folder: Path, task: str) -> ExportedTask:
    return ExportedTask.read(folder / "data" / f"{task}.validation.jsonl.gz")


def load_utils(folder: Path) -> Any:
    """Load the functions named in the YAML files, like lm-eval."""
    spec = importlib.util.spec_from_file_location("exported_utils", folder / "utils.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_yaml(path: Path, utils: Any) -> Any:
    """Load an lm-eval task, with functions instead of their names."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

    class Loader(yaml.SafeLoader):
        pass

    def function(loader: Any, node: Any) -> Any:
        module, name = loader.construct_scalar(node).split(".")
        assert module == "utils"
        return getattr(utils, name)

    Loader.add_constructor("!function", function)
    return yaml.load(path.read_text(), Loader)


@pytest.mark.parametrize("name", DECATHLON.tasks)
def test_scores_are_those_of_evaluate(export, home, tmp_path, name):
    pytest.importorskip("datasets", reason="datasets is not installed; lm-eval brings it")
    folder = export(name)
    utils = load_utils(folder)
    task = load_yaml(folder / f"decabench_{name}.yaml", utils)
    exported = read(folder, name)
    texts = [
        f"Answer: {row['answers'][0]}" if at % 3 else "no" for at, row in enumerate(exported.rows.values())
    ]
    documents = task["custom_dataset"]()[task["validation_split"]]
    collected = [
        task["process_results"](document, [text]) for document, text in zip(documents, texts, strict=True)
    ]
    theirs = {
        each["metric"]: each["aggregation"]([row[each["metric"]] for row in reversed(collected)])
        for each in task["metric_list"]
    }
    answers = {id_: exported.answer(id_, text) for id_, text in zip(exported.rows, texts, strict=True)}
    write_submission(tmp_path / "same", "same", {(name, "validation"): answers.items()})
    ours = evaluate(tmp_path / "same", tasks=name, home=home).tasks[name]
    assert theirs == {headline: ours.scores[headline] for headline in theirs}
    assert theirs[ours.headline] == ours.score


def test_prompts_are_those_of_predict(export, home):
    pytest.importorskip("datasets", reason="datasets is not installed; lm-eval brings it")
    folder = export("sst")
    documents = load_utils(folder).documents_of_sst()["validation"]
    task = load_yaml(folder / "decabench_sst.yaml", load_utils(folder))
    prompting = make_prompting(TASKS["sst"], load_template("default"))
    examples = list(Store(home).examples("sst", "validation"))
    for example, document in zip(examples, documents, strict=True):
        question = Question(example.id, example.question, example.context)
        assert document[task["doc_to_text"]] == prompting.text(question)
        assert document[task["doc_to_target"]] == example.answers[0]
        assert document["id"] == example.id
    assert task["generation_kwargs"]["until"] == list(prompting.stop)
    assert task["generation_kwargs"]["max_gen_toks"] == prompting.max_new_tokens


def test_chats_go_on_after_an_empty_line(export, command, home, tmp_path):
    """A chat model may put an empty line between `Here is the answer:` and the answer."""
    chat_stop = list(make_prompting(TASKS["sst"], load_template("default")).chat_stop)
    plain = export("sst")
    assert "with `--chat`" in (plain / "README.md").read_text()
    assert "--apply_chat_template" not in (plain / "README.md").read_text()
    folder = export("sst", chat=True)
    task = (folder / "decabench_sst.yaml").read_text()
    until = load_yaml(folder / "decabench_sst.yaml", load_utils(folder))["generation_kwargs"]["until"]
    assert until == chat_stop and "\n\n" not in until
    assert "--output_path out --apply_chat_template\n" in (folder / "README.md").read_text()
    options = ("export", "tasks", "sst", "--output", tmp_path / "out", "--home", home, "--chat")
    done = command(*options, "--for", "inspect")
    assert done.exit_code == 2 and "Leave out --chat" in done.stderr
    assert command(*options, "--for", "lm-eval").exit_code == 0
    assert (tmp_path / "out" / "decabench_sst.yaml").read_text() == task


@pytest.mark.parametrize("name", ["squad2", "sst", "woz.en"])
def test_refused_answers_are_wrong(export, name):
    """This includes questions of SQuAD 2.0 that have no answer, where an empty answer would be right."""
    exported = read(export(name), name)
    right = [(id_, row["answers"][0]) for id_, row in exported.rows.items()]
    ids = [id_ for id_, _ in right]
    refused = [(id_, exported.answer(id_, text, "refused")) for id_, text in right]
    assert exported.scores(right)[exported.headlines[0]] == 100.0
    assert exported.scores(refused, ids)[exported.headlines[0]] == 0.0
    assert not any(exported.example_score(id_, text, True) for id_, text in refused)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda lines: lines[:-1], "31 of 32 examples"),
        (lambda lines: [], "is not an exported task"),
        (lambda lines: ["{}", *lines[1:]], "'format'"),
        (lambda lines: ["[", *lines[1:]], "is not an exported task"),
        (lambda lines: [lines[0].replace("harness/1", "harness/9"), *lines[1:]], "harness/9"),
        (lambda lines: [lines[0].replace("em|", "em|other:yes|"), *lines[1:]], "was exported for the metric"),
    ],
)
def test_damaged_and_outdated_files_are_refused(export, tmp_path, damage, says):
    path = export("sst") / "data" / "sst.validation.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join(damage(lines)))
    with pytest.raises(DataError, match=says):
        ExportedTask.read(other)


def test_without_inspect_it_says_how_to_install_it(export):
    if importlib.util.find_spec("inspect_ai") is not None:
        pytest.skip("inspect_ai is installed")
    with pytest.raises(
        DecabenchError, match=r"inspect_ai, which is not installed.* run pip install 'decabench\[inspect\]'"
    ):
        make_inspect_task(export("sst", harness="inspect") / "data" / "sst.validation.jsonl.gz")


def test_the_command(command, home, tmp_path):
    out = tmp_path / "out"
    done = command("export", "tasks", "sst,schema", "--for", "lm-eval", "--output", out, "--home", home)
    assert done.exit_code == 0
    assert done.stderr.endswith(f"To run the tasks, see {out / 'README.md'}\n")
    head = json.loads(
        gzip.decompress((out / "data" / "sst.validation.jsonl.gz").read_bytes()).split(b"\n")[0]
    )
    assert (head["format"], head["rows"]) == ("decabench.harness/1", 32)
    assert (out / "decabench_schema.yaml").exists()
