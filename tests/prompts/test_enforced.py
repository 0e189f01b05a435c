"""The protocol `json`: a schema from the task's output, and answers that survive being written and read."""

from __future__ import annotations

import json
import re
from itertools import islice

import pytest

from decabench.prompts import extract, load_template, make_prompting, settle_form
from decabench.prompts.enforced import answer_schema, read_json, write_json
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.tasks.wording import AnswerForm


@pytest.mark.parametrize("task", ["sst", "squad", "zre", "woz.en", "wikisql", "ud.pos", "ud.dep", "schema"])
def test_gold_answers_survive(home, task):
    form = settle_form(make_prompting(TASKS[task], load_template("default")).form, TASKS[task].output)
    for row in islice(Store(home).read(task, "validation"), 25):
        gold = row["answers"][0]
        text = write_json(gold, form.kind)
        found = extract(text, form, row["question"], "stop", row["context"], "json")
        assert (found.answer.casefold(), found.rule) == (" ".join(gold.split()).casefold(), "json")


def test_schemas():
    answer = {
        form.kind: answer_schema(form, labels, "a b c")["properties"]["answer"]
        for form, labels in (
            (AnswerForm("label", ("no", "yes")), ("no", "yes")),
            (AnswerForm("tags", ("DET", "NOUN")), ()),
            (AnswerForm("number", scale=(0, 5)), ()),
            (AnswerForm("state", ("food", "area", "phone"), constraints=("food", "area")), ()),
        )
    }
    assert answer["label"] == {"type": "string", "enum": ["no", "yes"]}
    assert answer["tags"]["items"]["enum"] == ["DET", "NOUN"]
    assert answer["tags"]["minItems"] == answer["tags"]["maxItems"] == 3
    assert (answer["number"]["minimum"], answer["number"]["maximum"]) == (0, 5)
    assert list(answer["state"]["properties"]["constraints"]["properties"]) == ["food", "area"]
    assert answer["state"]["properties"]["requests"]["items"]["enum"] == ["food", "area", "phone"]


def test_queries_of_wikisql_match_their_pattern(home):
    rows = list(islice(Store(home).read("wikisql", "validation"), 25))
    for row in rows:
        query = row["answers"][0]
        for is_escaped, written in ((False, query), (True, json.dumps(query, ensure_ascii=False)[1:-1])):
            schema = answer_schema(AnswerForm("sql"), (), row["context"], is_escaped)["properties"]["answer"]
            assert re.search(schema["pattern"], written)
            assert not re.search(schema["pattern"], written.replace("SELECT ", "SELECT other "))
        assert not re.search(schema["pattern"], query + ' " + "')  # would end the JSON string
    assert answer_schema(AnswerForm("sql"), (), "a b")["properties"]["answer"] == {"type": "string"}


@pytest.mark.parametrize(
    "text", ["positive", "{}", '{"answer": null}', '["positive"]', '{"answer": {"a": 1}}', "["]
)
def test_other_texts_are_not_json_answers(text):
    assert read_json(text, "label") is None
