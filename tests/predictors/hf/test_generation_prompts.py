"""Questions as tokens: chat templates, plain text, special tokens only once, and reported cuts."""

import datetime
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="needs the extra hf: pip install 'decabench[hf]'")

from decabench.predictors.hf.generation import Prompter, room
from decabench.tasks.example import Question
from tests.predictors.hf.hf_models import CHAT, NO_SYSTEM, byte_tokenizer, setting

QUESTION = Question("q", "Which?", "one two three four")


def prompter(chat=None, budget=None, system="Be brief.", **tokenizer):
    made = byte_tokenizer(**{"bos": True, "chat": chat, **tokenizer})
    return Prompter(made, setting(system=system).prompting, chat is not None, budget)


def text(made, question=QUESTION):
    (prompt,) = made.prompts([question])
    return made.tokenizer.decode(prompt.ids)


def test_a_chat_has_its_beginning_once():
    shown = "<s><|system|>Be brief.<|end|><|user|>one two three four\nWhich?\nA:<|end|><|assistant|>"
    assert text(prompter(CHAT)) == shown


@pytest.mark.parametrize(
    "template",
    [
        NO_SYSTEM,
        CHAT.replace("{% for", "{% for", 1).replace(
            "in messages %}", "in messages if message['role'] != 'system' %}"
        ),
    ],
)
def test_a_template_without_a_system_role_gets_its_text_with_the_first_turn(template):
    """One template rejects the system role, and one would silently drop it."""
    shown = "<s><|user|>Be brief.\n\none two three four\nWhich?\nA:<|end|><|assistant|>"
    assert text(prompter(template)) == shown
    assert text(prompter(template, system="")) == shown.replace("Be brief.\n\n", "")


@pytest.mark.parametrize("code", ["%d %B %Y", "%Y-%m-%d", "%d %b %Y", "%A, %H:%M"])
def test_a_template_that_shows_the_day_is_told_the_same_one_every_day(code):
    made = prompter(f"\n{{{{ strftime_now('{code}') }}}} {{{{ messages[-1]['content'] }}}}", system="")
    assert text(made).startswith(f"\n{datetime.datetime(2024, 7, 26):{code}} one two")


def test_a_tokenizer_that_was_saved_with_truncation_cuts_nothing(tmp_path: Path):
    from transformers import AutoTokenizer

    tokenizer = byte_tokenizer(bos=True)
    tokenizer.backend_tokenizer.enable_truncation(8)
    tokenizer.backend_tokenizer.enable_padding(length=100)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    made = Prompter(loaded, setting().prompting, False)
    assert text(made) == "<s>Be brief.\n\none two three four\nWhich?\nA:"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((None, None, None, 10), None),
        ((100, None, None, 10), 90),
        ((100, 50, None, 10), 40),
        ((None, 50, None, 0), 50),
        ((None, 50, 70, 10), 70),  # the tokenizer's limit is only a recommendation
        ((100, 50, 70, 10), 70),
        ((100, 50, 95, 10), 90),  # the number of positions is a hard limit
    ],
)
def test_room(limits, expected):
    assert room(*limits) == expected
