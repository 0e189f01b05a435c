"""Tables and model cards: other programs' parsers read back the same numbers and texts."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from decabench import evaluate
from decabench.errors import DataError, DecabenchError, UnknownNameError
from decabench.exchange import export_results
from decabench.exchange.result_exports import latex_table, markdown_table, model_index
from decabench.scoring import LimitedRun

HOSTILE = (
    r"a_b & 50% \input{/etc/passwd} $x^2$ #~{}|<b>[x](y)`**!" + "\n\x1b[2J\\\\[2pt] \ud800www.x.y @z - ↓"
)


@pytest.fixture(scope="module")
def scored(home, tmp_path_factory):
    """The results of two baselines on three tasks of the sample."""
    from decabench.runs.write import predict

    def make(name):
        folder = tmp_path_factory.mktemp("scored") / name
        predict(name, folder, ["sst", "squad", "schema"], home=home, date="2026-01-31")
        return evaluate(folder, home=home)

    return {name: make(name) for name in ("majority", "oracle")}


def renamed(results, name):
    return replace(results, submission={**results.submission, "name": name})


# Model cards


def card(text):
    hub = pytest.importorskip("huggingface_hub")
    return hub.ModelCard(f"---\n{text}---\n# A model\n").data


def test_the_hub_reads_every_score_with_its_interval(scored):
    results = scored["majority"]
    read = {
        found.dataset_args["decabench_task"]: found for found in card(model_index([results])).eval_results
    }
    assert read.keys() == results.tasks.keys()
    for name, task in results.tasks.items():
        found = read[name]
        assert found.metric_value == task.score
        assert found.metric_args["signature"] == task.signature
        assert found.metric_args["interval_95"] == list(task.interval)
        assert (found.dataset_split, found.metric_args["n"]) == ("validation", task.n)
        assert found.dataset_args["fingerprint"] == task.data.fingerprint
    sst, squad = read["sst"], read["squad"]
    assert (sst.task_type, sst.metric_type) == ("text-classification", "exact_match")
    assert (squad.task_type, squad.dataset_type, squad.metric_type) == (
        "question-answering",
        "rajpurkar/squad",
        "f1",
    )
    assert "sample" in squad.dataset_name


def test_a_failed_task_is_left_out_and_a_limited_run_says_so(scored):
    results = scored["majority"]
    failed = replace(results.tasks["sst"], status="failed", score=None, interval=None)
    partial = replace(results.tasks["squad"], status="partial", partial=LimitedRun(32, 90))
    tasks = {**results.tasks, "sst": failed, "squad": partial}
    found = card(model_index([replace(results, tasks=tasks)])).eval_results
    assert [each.metric_name for each in found] == ["nf1 (decabench, 32 of 90 examples)", "em (decabench)"]


def test_a_whole_suite_has_its_total(scored, home, submit):
    from decabench.tasks import DECATHLON

    results = evaluate(submit("majority", DECATHLON.tasks), home=home)
    total = card(model_index([results])).eval_results[-1]
    assert (total.metric_name, total.metric_value) == ("decaScore (decabench)", results.decascore)
    assert total.metric_args == {"tasks": 10, "interval_95": list(results.interval)}


# Markdown


def cells_of(text):
    """Return the cells of the only table in a text, parsed by markdown-it."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    rows: list[list[str]] = []
    inside = False
    for token in markdown.parse(text):
        if token.type == "tr_open":
            rows.append([])
        inside = token.type in ("th_open", "td_open") or (inside and token.type == "inline")
        if inside and token.type == "inline":
            assert {child.type for child in token.children} <= {"text", "text_special"}
            rows[-1].append("".join(child.content for child in token.children))
    return rows


def test_markdown_stands_systems_beside_each_other(scored):
    first, second = scored["majority"], scored["oracle"]
    rows = cells_of(markdown_table([renamed(first, "a"), renamed(second, "b")]))
    assert rows[0] == ["task", "metric", "a", "b"]
    low, high = second.tasks["squad"].interval
    (squad,) = (row for row in rows if row[0] == "squad")
    assert squad[3] == f"100.0 [{low:.1f} to {high:.1f}]"


# LaTeX


def latex_text(source):
    """Return the text that a piece of LaTeX prints. Fail on any command that the table should not use."""
    printed = {
        r"\textbackslash{}": "\\",
        r"\textasciicircum{}": "^",
        r"\textasciitilde{}": "~",
        r"\textless{}": "<",
        r"\textgreater{}": ">",
        r"\textbar{}": "|",
        r"\char34{}": '"',
        "{`}": "`",
        r"$\downarrow$": "↓",
        "{[}": "[",
        "{]}": "]",
        **{f"\\{char}": char for char in "{}$&#_%"},
    }
    form = re.compile("|".join(map(re.escape, printed)) + r"|[^\\{}$&#_%^~]")
    found = form.findall(source)
    assert "".join(found) == source
    return "".join(printed.get(piece, piece) for piece in found)


def latex_rows(text):
    table = re.search(r"\\toprule\n(.*)\n\\bottomrule", text, flags=re.DOTALL)
    assert table is not None
    lines = [line for line in table[1].split("\n") if line != r"\midrule"]
    assert all(line.endswith(r" \\") for line in lines)
    return [
        [latex_text(cell) for cell in re.split(r" (?<!\\)& ", line.removesuffix(r" \\"))] for line in lines
    ]


def test_latex_has_the_numbers(scored):
    results = scored["majority"]
    rows = {row[0]: row for row in latex_rows(latex_table([results]))}
    low, high = results.tasks["sst"].interval
    assert rows["sst"][2:4] == [f"{results.tasks['sst'].score:.1f}", f"{low:.1f} to {high:.1f}"]
    assert len({len(row) for row in rows.values()}) == 1


def test_latex_keeps_a_name_a_text(scored):
    text = latex_table([renamed(scored["majority"], HOSTILE), renamed(scored["oracle"], "b")])
    assert latex_rows(text)[0][2] == " ".join(
        HOSTILE.replace("\x1b", " ").replace("\ud800", "\ufffd").split()
    )
    assert r"\input" not in text
    assert len(text.splitlines()) == len(latex_table([scored["majority"], scored["oracle"]]).splitlines())


# Results that can share a table, and finding results


def test_results_of_other_data_do_not_stand_beside_each_other(scored):
    first, second = scored["majority"], scored["oracle"]
    task = second.tasks["sst"]
    other = replace(task, data=replace(task.data, fingerprint="sha256:" + "0" * 64))
    metric = replace(second.tasks["squad"], signature="another")
    with pytest.raises(DataError) as caught:
        export_results([first, replace(second, tasks={"sst": other, "squad": metric}, split="test")], "latex")
    assert "different split (test, not validation)" in str(caught.value)
    assert "different data for sst" in str(caught.value)
    assert "different metrics on squad" in str(caught.value)
    with pytest.raises(DecabenchError, match="describes a single model"):
        export_results([first, second], "model-index")
    with pytest.raises(UnknownNameError):
        export_results([first], "html")
