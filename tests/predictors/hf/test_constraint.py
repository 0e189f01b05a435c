"""`--protocol json` for `hf:`: even models with random weights answer with JSON in the task's schema."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra hf")
pytest.importorskip("transformers", reason="needs the extra hf")
pytest.importorskip("llguidance", reason="needs the extra hf")

from decabench.predictors.hf.backend import backend
from decabench.predictors.protocol import Answer, ModelOptions, Setting
from decabench.prompts import extract
from decabench.tasks.example import Question
from decabench.tasks.wording import AnswerForm
from tests.predictors.hf.hf_models import CHAT, asked, save_llama, save_t5, setting

LABELS = AnswerForm("label", ("negative", "positive"))


def enforced(task: str, form: AnswerForm, max_new_tokens: int = 64) -> Setting:
    made = setting(task, form=form, max_new_tokens=max_new_tokens)
    assert made.prompting is not None
    return replace(made, prompting=replace(made.prompting, protocol="json"))


def texts(folder: Path, made: Setting, questions: list[Question], **options: object) -> list[str]:
    with backend(str(folder), ModelOptions(**options)).open() as factory:
        answers = dict(factory(made).stream(questions))
    found = [answers[question.id] for question in questions]
    return [answer.text for answer in found if isinstance(answer, Answer) and answer.finish == "stop"]


@pytest.mark.parametrize(("chat", "temperature"), [(None, 0.0), (CHAT, 1.0)])
def test_labels(tmp_path: Path, chat: str | None, temperature: float) -> None:
    folder, made = save_llama(tmp_path, chat=chat, ties=True), enforced("sst", LABELS)
    alone = texts(folder, made, asked(4), batch_size=1, temperature=temperature)
    assert alone == texts(folder, made, asked(4), batch_size=3, temperature=temperature)
    assert len(alone) == 4 and {json.loads(text)["answer"] for text in alone} <= set(LABELS.labels)
    assert {extract(text, LABELS, protocol="json").rule for text in alone} == {"json"}


def test_an_encoder_decoder(tmp_path: Path) -> None:
    found = texts(save_t5(tmp_path), enforced("sst", LABELS), asked(3))
    assert len(found) == 3 and all(json.loads(text)["answer"] in LABELS.labels for text in found)


def test_each_word_gets_a_tag(tmp_path: Path) -> None:
    made = enforced("ud.pos", AnswerForm("tags", ("DET", "NOUN")), 99)
    (text,) = texts(save_llama(tmp_path), made, [Question("q", "Tags?", "the old man the boats")])
    tags = json.loads(text)["answer"]
    assert len(tags) == 5 and set(tags) <= {"DET", "NOUN"}


def test_a_query_names_the_columns_of_the_table(tmp_path: Path) -> None:
    context = "The table has columns Round (no.), Pick, % won and key words MAX, MIN-- Which pick?"
    questions = [Question(f"q{seed}", "SQL?", context) for seed in range(3)]
    made = enforced("wikisql", AnswerForm("sql"), 200)
    found = texts(save_llama(tmp_path), made, questions, temperature=1.0)
    assert found  # other answers are cut off within a value
    for text in found:
        column = r"(Round \(no\.\)|Pick|% won)"
        query = rf"SELECT ((MAX|MIN|COUNT|SUM|AVG) )?{column} FROM table( WHERE {column} [=<>] .+)?"
        assert re.fullmatch(query, json.loads(text)["answer"])
