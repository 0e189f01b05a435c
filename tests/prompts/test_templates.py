"""Template files: the built-in templates, and faults in others."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.prompts.messages import make_prompting
from decabench.prompts.templates import BUILT_IN, TemplateError, load_template
from decabench.tasks.builtin_suites import DECATHLON
from decabench.tasks.outputs import Label, Number, Output, Tags, Text, Tree
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.tasks.wording import AnswerForm, PromptTemplate
from tests.tasks.conftest import Prepared, prepared_whole, shared
from tests.tasks.fixtures import SAMPLED

__all__ = ["prepared_whole", "shared"]

HEAD = 'format = "decabench.template/1"\n'
WHOLE = '[default]\ninput = "{context} {question}"\nmax_new_tokens = 9\nform = "span"\n'


@pytest.fixture
def template(tmp_path: Path):
    def write(text: str, name: str = "mine.toml") -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


@pytest.mark.parametrize("task", DECATHLON.tasks)
def test_every_task_has_its_own(task: str) -> None:
    assert task in load_template("default").tasks
    assert TASKS[task].prompt is not None


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("default", "66c8dfc6bd83fe73aa94c156d9b3db7de26e48e1c49929f5a392a14411149081"),
        ("plain", "d9c5ff40761ab70e7eba38d3aa3a2d0e5ccf5085133eae677b1dd169e67e265f"),
    ],
)
def test_the_digests_of_the_built_in_sets_do_not_change(name: str, digest: str) -> None:
    """The digests identify earlier answers in journals and are recorded in submissions."""
    assert load_template(name).sha256 == digest


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_copy_of_a_built_in_set_is_the_same(name: str, template) -> None:
    pytest.importorskip("sphinx", reason="needs the extra docs")
    from tools.doc_tables import built_in_text

    copied = load_template(template(built_in_text(name), "copied.toml"))
    # A copy is the user's: what its [default] says goes before the prompts that other tasks bring.
    assert copied == replace(load_template(name), name="copied", prefers_own=False)
    assert copied.sha256 == load_template(name).sha256


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("em", "span"),
        ("bleu", "text"),
        ("rouge", "text"),
        ("lfem", "sql"),
        ("joint_goal_em", "state"),
        ("mse", "number"),
    ],
)
def test_a_task_of_ones_own_has_the_form_that_its_metric_reads(metric: str, kind: str) -> None:
    own = replace(TASKS["squad"], name="own", metric=metric, output=Text(), prompt=None)
    found = load_template("default").for_task(own)
    assert found.form == AnswerForm(kind, unquote=True)
    assert found.max_new_tokens == 256


@pytest.mark.parametrize(
    ("output", "form", "limit"),
    [
        (Text(extractive=True), AnswerForm("span"), 256),
        (Text(max_tokens=1000), AnswerForm("span", unquote=True), 1000),
        (
            Label(("good", "bad")),
            AnswerForm("label", ("good", "bad"), labels_from_question=True, unquote=True),
            24,
        ),
        (Label(max_tokens=7), AnswerForm("label", labels_from_question=True, unquote=True), 7),
        (Tags(names=("A", "B")), AnswerForm("tags", ("A", "B")), 512),
        (Tree(), AnswerForm("tree"), 1024),
        (Number(0, 5), AnswerForm("number"), 16),
    ],
)
def test_form_and_limit_follow_from_the_output(output: Output, form: AnswerForm, limit: int) -> None:
    own = replace(TASKS["squad"], name="own", output=output, prompt=None)
    found = load_template("default").for_task(own)
    assert (found.form, found.max_new_tokens) == (form, limit)
    assert own.answer_form == form
    with_prompt = replace(own, prompt=PromptTemplate("{question} {context}"))
    found = load_template("default").for_task(with_prompt)
    assert (found.input, found.form, found.max_new_tokens) == ("{question} {context}", form, limit)


def test_a_file_goes_before_a_tasks_own_prompt(template) -> None:
    own = replace(TASKS["sst"], name="own", prompt=PromptTemplate("Of the task: {question}"))
    assert load_template(template(HEAD + WHOLE)).for_task(own).input == "{context} {question}"


def test_the_digest_covers_what_tasks_bring() -> None:
    default, bare = load_template("default"), replace(TASKS["sst"], name="own", prompt=None, variants=())
    assert default.including(TASKS[name] for name in DECATHLON.tasks) == default
    assert default.including([replace(bare, output=Text(), metric="bleu")]).sha256 == default.sha256
    brought = [
        replace(bare, prompt=PromptTemplate("{question}")),
        replace(bare, prompt=PromptTemplate("{question}!")),
        replace(bare, output=Label(("a", "b"))),
        replace(bare, output=Text(max_tokens=9)),
    ]
    assert len({default.sha256, *(default.including([task]).sha256 for task in brought)}) == 5
    assert load_template("plain").including(brought).sha256 == load_template("plain").sha256


def words_and_bytes_over(store: Store, task: str) -> tuple[int, int]:
    """Return the number of gold answers that may be too long, at three bytes per token, and their total number."""
    limit = load_template("default").for_task(TASKS[task]).max_new_tokens
    answers = [
        answer
        for split in store.records(task)
        for row in store.read(task, split, ("answers",))
        for answer in row["answers"]
    ]
    return sum(len(answer.encode()) > 3 * limit for answer in answers), len(answers)


@pytest.mark.parametrize("task", SAMPLED)
def test_gold_answers_fit_into_the_limit(home: Path, task: str) -> None:
    over, _ = words_and_bytes_over(Store(home), task)
    assert over == 0


@pytest.mark.heavy
@pytest.mark.mirror
@pytest.mark.parametrize("task", DECATHLON.tasks)
def test_gold_answers_of_the_real_data_fit(prepared_whole: Prepared, task: str) -> None:
    over, _ = words_and_bytes_over(prepared_whole.store, task)
    assert over == (9 if task == "cnn_dailymail" else 0)


def test_stops_do_not_stand_in_gold_answers(home: Path) -> None:
    for task in SAMPLED:
        stops = make_prompting(TASKS[task], load_template("default")).stop
        assert stops
        for split in Store(home).records(task):
            for row in Store(home).read(task, split, ("answers",)):
                assert not any(stop in f" {answer}" for answer in row["answers"] for stop in stops)


def test_a_file(template) -> None:
    found = load_template(
        template(
            HEAD + 'description = "Short."\n' + WHOLE + 'stop = ["\\n"]\n\n'
            '[tasks.sst]\ninput = "\\n{question}"\nform = "label"\nlabels = ["a", "b"]\n'
        )
    )
    assert found.name == "mine"
    sst, other = found.for_task(TASKS["sst"]), found.for_task(TASKS["squad"])
    assert (sst.input, sst.max_new_tokens, sst.stop) == ("{question}", 9, ("\n",))
    assert sst.form == AnswerForm("label", labels=("a", "b"))
    assert (other.input, other.form) == ("{context} {question}", AnswerForm("span"))


def test_all_faults_are_told_together(template) -> None:
    path = template(
        HEAD + 'colour = "red"\n'
        "[default]\ninstruction = 3\nmax_new_tokens = 0\nform = 'spam'\nstop = 'x'\n"
        "[tasks.sst]\ninput = '{contxt}'\nform = 'label'\nlables = ['a']\n"
        "[tasks.'woz.en']\ninput = '{question}'\nform = 'auto'\ninstruction = 'Of {context}'\nmax_new_tokens = true\n"
    )
    with pytest.raises(TemplateError) as caught:
        load_template(path)
    faults = [line for line in str(caught.value).splitlines() if line.startswith("- ")]
    for expected in [
        "There is no key 'colour'.",
        "[default]: 'instruction' must be a string, not 3.",
        "[default]: 'max_new_tokens' must be a whole number above 0, not 0.",
        "[default]: 'stop' must be a list of strings, not \"x\".",
        "[default]: There is no form 'spam'.",
        "[default]: 'input' is missing.",
        "[tasks.sst]: There is no key 'lables'. Did you mean labels?",
        "[tasks.sst]: {contxt} in 'input' is not a placeholder",
        "[tasks.sst]: 'input' must contain {question}",
        "[tasks.sst]: form = 'label' requires 'labels'",
        "[tasks.\"woz.en\"]: There is no form 'auto'.",
        "[tasks.\"woz.en\"]: {context} is in 'instruction'",
        "[tasks.\"woz.en\"]: 'max_new_tokens' must be a whole number above 0, not true.",
    ]:
        assert sum(expected in fault for fault in faults) == 1, expected
    assert f"{path} has {len(faults)} faults" in str(caught.value)
    assert len(faults) == 13


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("format = ", "is not valid TOML"),
        ("", "has no format. Write format = 'decabench.template/1'"),
        (HEAD.replace("/1", "/2") + WHOLE, "has format 'decabench.template/2'"),
        (HEAD, "[tasks.<name>] table is required"),
        (HEAD + "[tasks]\nsst = 3\n" + WHOLE, "'sst' must be a table, not 3"),
        (HEAD + WHOLE + "labels = ['']\n", "'labels' must be a list of strings"),
        (
            HEAD + WHOLE.replace("span", "auto") + "[tasks.sst]\n",
            "[tasks.sst]: 'form' is missing. It must be one of raw,",
        ),
    ],
)
def test_what_is_no_template(template, text: str, sentence: str) -> None:
    with pytest.raises(TemplateError, match=re.escape(sentence)):
        load_template(template(text))


@pytest.mark.parametrize("output", [Tags(), Tree()])
def test_words_are_numbered_where_a_task_has_no_prompt(output: Output) -> None:
    own = replace(TASKS["squad"], name="own", output=output, prompt=None)
    assert (
        load_template("default").for_task(own).layout("?", "a b")
        == "Context: \n1 a\n2 b\n\nQuestion: ?\nAnswer:"
    )
