"""The protocol `tag`: the last complete tag outside the reasoning, else a text that is an answer, else nothing."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from decabench.prompts import extract, load_template, make_prompting, settle_form, show
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store

OUTPUTS = Path(__file__).parents[3] / "shared" / "cases" / "model-outputs" / "outputs.jsonl"
SST = "Is this review negative or positive?"
SQUAD = "The AFC champion Denver Broncos defeated the Carolina Panthers 24–10 to earn a third title."
UNANSWERED = {"unparseable", "refused", "empty"}


def read(task, text, question="", context="", finish="stop", is_opened=False):
    made = make_prompting(TASKS[task], load_template("default"), protocol="tag")
    form = settle_form(made.form, TASKS[task].output)
    found = extract(text, form, question, finish, context, "tag", is_opened)
    return found.answer, found.rule


@pytest.mark.parametrize(
    ("text", "answer", "rule"),
    [
        ("<answer>positive</answer>", "positive", "tag"),
        ("It praises the cast.\n<answer>\nPositive.\n</answer> Anything else?", "positive", "tag"),
        ("<answer>negative</answer> No: <answer>positive</answer>", "positive", "tag"),
        ("<ANSWER>**positive**</ANSWER>", "positive", "tag"),
        ("I write <answer>…</answer>: <answer>positive", "positive", "tag"),
        (
            "<think>Maybe <answer>negative</answer></think><answer>positive</answer>",
            "positive",
            "reasoning+tag",
        ),
        ("<answer>positive, on the whole</answer>", "", "tag+unparseable"),
        ("positive", "positive", "as-is"),
        ("**Positive.**", "positive", "label"),
        ("Answer: Positive", "positive", "label"),
        ("The review is positive.", "", "unparseable"),
        ("positive\nReview: dull\nnegative", "", "unparseable"),
        ("I'm sorry, but I can't help with that.", "", "refused"),
        ("<answer>…</answer>", "", "unparseable"),
    ],
)
def test_a_label(text, answer, rule):
    assert read("sst", text, SST) == (answer, rule)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Denver Broncos", "Denver Broncos"),
        ('"Denver Broncos"', "Denver Broncos"),
        ("<answer>The Denver team</answer>", "The Denver team"),
        ("The Denver Broncos represented the AFC.", ""),
        ("Denver B", ""),
    ],
)
def test_a_span_without_a_tag_is_in_the_context(text, answer):
    assert read("squad", text, "Who?", SQUAD)[0] == answer


def test_free_text_needs_its_tag():
    german = "Die klügsten Menschen kennen Sie nicht."
    assert read("iwslt.en.de", f"Sure!\n<answer>{german}</answer>") == (german, "tag")
    assert read("iwslt.en.de", german) == ("", "unparseable")
    assert read("iwslt.en.de", f"<answer>{german}", finish="length") == ("", "unparseable")
    assert read("iwslt.en.de", german, is_opened=True) == (german, "tag")


@pytest.mark.parametrize(
    ("task", "text", "answer"),
    [
        ("wikisql", "<answer>SELECT a FROM table;</answer>", "SELECT a FROM table"),
        ("wikisql", "SELECT COUNT(a) FROM table WHERE b = 42", "SELECT COUNT(a) FROM table WHERE b = 42"),
        ("wikisql", "SELECT a FROM table WHERE b = 42 (assuming that b is a number)", ""),
        ("wikisql", "SELECT a FROM table WHERE b = 42. This selects a.", ""),
        ("woz.en", "food: thai, area: south; phone", "food: thai, area: south; phone"),
        ("woz.en", "none.", "None"),
        ("woz.en", "phone: yes, address: yes", ""),
        ("woz.en", "food: thai (unchanged), area: south;", ""),
    ],
)
def test_queries_and_states(task, text, answer):
    assert read(task, text)[0] == answer


def test_the_prompt_asks_for_the_tag_in_a_chat_and_opens_it_in_a_text():
    made = make_prompting(TASKS["sst"], load_template("default"), protocol="tag")
    question = Question("1", SST, "A fine film.")
    assert "<answer>…</answer>" in show(made, question)
    assert show(made, question, chat=False).endswith("Answer: <answer>")
    assert made.stop[0] == "</answer>"


@pytest.mark.parametrize(
    "task", ["sst", "squad", "zre", "woz.en", "wikisql", "iwslt.en.de", "multinli.in.out", "schema"]
)
def test_gold_answers_in_a_tag_are_read_unchanged(home, task):
    for row in islice(Store(home).read(task, "validation"), 40):
        for gold in row["answers"]:
            said = read(task, f"<answer>{gold}</answer>", row["question"], row["context"])[0]
            assert said.casefold() == " ".join(gold.split()).casefold()


def test_no_output_of_todays_models_is_read_as_another_value():
    """The outputs were written by hand, for prompts without a tag: what is not itself an answer is flagged."""
    if not OUTPUTS.exists():
        pytest.skip(f"needs the outputs of models in {OUTPUTS}, which are not part of the repository")
    wrong, answered = [], 0
    for line in OUTPUTS.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        words = {"ud.pos": "From the AP comes this story :"}
        context = words.get(case["task"], case["expected"] or "")  # any span of the context
        answer, rule = read(case["task"], case["output"], case["question"], context)
        if UNANSWERED.isdisjoint(rule.split("+")):
            answered += 1
            same = case["expected"] and answer.casefold() == case["expected"].casefold()
            wrong += [] if same else [(case["task"], case["output"], answer)]
    assert wrong == []
    assert answered >= 30, "the rule reads fewer plain answers than before"
