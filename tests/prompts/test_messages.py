"""Messages sent to a model: the turns of a chat, or one text."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decabench.prompts.extraction import extract
from decabench.prompts.messages import PROMPT_VERSION, Message, Prompting, show
from decabench.prompts.shots import Shot
from decabench.tasks.example import Question
from decabench.tasks.registry import TASKS
from decabench.tasks.wording import AnswerForm, PromptTemplate

TEMPLATE = PromptTemplate(
    input="Passage: {context}\n\nQuestion: {question}",
    instruction="Copy the answer.",
    answer="Answer:",
    max_new_tokens=32,
    stop=("\n\n",),
)
SHOT = Shot("t1", "Who?", "Ann ran.", "Ann")
ASKED = Question("q1", "Where?", "In Rome.")


def prompting(**changes: object) -> Prompting:
    return replace(Prompting("squad", TEMPLATE, "mine"), **changes)  # type: ignore[arg-type]


def test_a_chat() -> None:
    assert prompting(system="Be brief.", shots=(SHOT,)).messages(ASKED) == (
        Message("system", "Be brief."),
        Message("user", "Copy the answer.\n\nPassage: Ann ran.\n\nQuestion: Who?\nAnswer:"),
        Message("assistant", "Ann"),
        Message("user", "Passage: In Rome.\n\nQuestion: Where?\nAnswer:"),
    )


def test_a_text() -> None:
    assert prompting(system="Be brief.", shots=(SHOT,)).text(ASKED) == (
        "Be brief.\n\nCopy the answer.\n\nPassage: Ann ran.\n\nQuestion: Who?\nAnswer: Ann\n\n"
        "Passage: In Rome.\n\nQuestion: Where?\nAnswer:"
    )


def test_no_context_leaves_its_line_out() -> None:
    assert prompting().text(Question("q", "Why?", "")) == "Copy the answer.\n\nQuestion: Why?\nAnswer:"
    both = PromptTemplate(input="Of {context}: {question}")
    assert both.layout("Why?", "") == "Of : Why?"


@given(question=st.text(), context=st.text(min_size=1))
def test_braces_and_all_else_in_the_data_is_text(question: str, context: str) -> None:
    template = PromptTemplate(input="{{x}} {context}|{0}|{question}")
    assert template.layout(question, context) == "{{x}} " + context + "|{0}|" + question


def test_it_can_be_pickled_and_described() -> None:
    made = prompting(system="Be brief.", shots=(SHOT,))
    assert pickle.loads(pickle.dumps(made)) == made
    told = made.describe()
    assert json.loads(json.dumps(told)) == told
    assert (told["version"], told["template"], told["shots"]) == (PROMPT_VERSION, "mine", ["t1"])


@pytest.mark.parametrize(
    "changed",
    [
        prompting(system="x"),
        prompting(shots=(SHOT,)),
        prompting(template=replace(TEMPLATE, instruction="x")),
        prompting(template=replace(TEMPLATE, max_new_tokens=33)),
        prompting(template=replace(TEMPLATE, stop=())),
        prompting(template_name="theirs"),
    ],
)
def test_what_changes_the_prompt_changes_the_description(changed: Prompting) -> None:
    assert changed.describe() != prompting().describe()


def test_what_introduces_the_answer_is_a_marker() -> None:
    cue = prompting(
        template=replace(TEMPLATE, answer="Summary:", form=AnswerForm("text", markers=("TL;DR",)))
    )
    stop = (*TEMPLATE.stop, "\nPassage:", "\nQuestion:")
    assert cue.form == AnswerForm("text", markers=("TL;DR", "Summary:"), stop=stop)
    again = replace(cue, template=replace(cue.template, form=cue.form))
    assert again.form == cue.form
    assert prompting(template=replace(TEMPLATE, answer="")).form == AnswerForm(stop=stop)


def test_it_is_shown_with_its_roles() -> None:
    made = prompting(system="Be brief.", shots=(SHOT,))
    assert show(made, ASKED) == (
        "[system]\nBe brief.\n\n"
        "[user]\nCopy the answer.\n\nPassage: Ann ran.\n\nQuestion: Who?\nAnswer:\n\n"
        "[assistant]\nAnn\n\n"
        "[user]\nPassage: In Rome.\n\nQuestion: Where?\nAnswer:"
    )
    assert show(made, ASKED, chat=False) == made.text(ASKED)


TAGGED = Shot("t1", "Which tags?", "Ann ran 2 .", "N V NUM P")


def test_words_are_numbered_and_so_are_the_answers_of_shots() -> None:
    asked = Question("q1", "Which tags?", "In 2  days")
    own = prompting(
        template=replace(TASKS["ud.pos"].prompt or TEMPLATE, form=AnswerForm("tags")), shots=(TAGGED,)
    )
    *_, shown, answer, last = own.messages(asked)
    assert shown.content.endswith("\n\n1 Ann\n2 ran\n3 2\n4 .\n\nWhich tags?\nAnswer:")
    assert answer.content == "1 Ann N\n2 ran V\n3 2 NUM\n4 . P"
    assert last.content == "1 In\n2 2\n3 days\n\nWhich tags?\nAnswer:"
    assert own.text(asked).endswith(
        "Answer:\n1 Ann N\n2 ran V\n3 2 NUM\n4 . P\n\n1 In\n2 2\n3 days\n\nWhich tags?\nAnswer:"
    )


def test_a_cut_context_has_the_words_that_are_left() -> None:
    own = prompting(template=PromptTemplate("{words}\n{question}"))
    assert own.text(Question("q", "?", "a b c"), "a b") == "1 a\n2 b\n?"
    assert own.text(Question("q", "?", "")) == "?"


@pytest.mark.parametrize(
    ("layout", "stop", "text", "answer"),
    [
        ("Country: {question}", ("\n\n",), "Nairobi\nCountry: Peru\nCapital: Lima", "Nairobi"),
        ("Country: {question}", (), "Capital: Nairobi\n\nCountry: Peru\nCapital: Lima", "Nairobi"),
        ("{context}\nQ: {question}", (), "Nairobi\n\nQ: Peru?\nCapital: Lima", "Nairobi"),
        ("Text:\n{context}\n\n{question}", (), "Nairobi\n---\nText:\nIt lies.\nCapital: Lima", "Nairobi"),
        ("Country: {question}", (), "Country: Kenya\nCapital: Nairobi", "Nairobi"),  # its own prompt again
        ("The country is {question}", (), "First, Kenya.\nCapital: Nairobi", "Nairobi"),
    ],
)
def test_an_example_that_the_model_invents_begins_as_those_of_the_template(
    layout: str, stop: tuple[str, ...], text: str, answer: str
) -> None:
    template = PromptTemplate(input=layout, answer="Capital:", stop=stop, form=AnswerForm("line"))
    made = prompting(template=template)
    assert extract(text, made.form).answer == answer
    assert made.stop == stop  # what servers are sent is the template's
