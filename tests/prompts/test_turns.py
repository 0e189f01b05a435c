"""Reasoning, role headers, chat template tokens and tool calls in the outputs of current models and servers.

The forms come from models' chat templates and from the source code of the parsers in vLLM, SGLang and llama.cpp.
docs/prompts.md lists them.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decabench.errors import DecabenchError
from decabench.prompts import check_reasoning_tags, extract
from decabench.prompts.turns import read_turn
from decabench.tasks import AnswerForm
from decabench.tasks.wording import KINDS, Kind

THOUGHT = "Perhaps Carolina, or negative.\nSELECT b FROM table, then 7 and food: chinese; NOUN 2:det"
"""Reasoning that contains something like an answer of each kind."""
ANSWERS: dict[Kind, tuple[AnswerForm, str]] = {
    "span": (AnswerForm("span"), "Denver Broncos"),
    "line": (AnswerForm("line"), "Das ist gut."),
    "text": (AnswerForm("text"), "A man bit a dog. He left."),
    "label": (AnswerForm("label", ("negative", "positive")), "positive"),
    "sql": (AnswerForm("sql"), "SELECT a FROM table WHERE b = c"),
    "state": (AnswerForm("state", ("food", "area", "phone")), "food: thai, area: south; phone"),
    "tags": (AnswerForm("tags", ("ADP", "DET", "PROPN")), "ADP DET PROPN"),
    "tree": (AnswerForm("tree", ("case", "det", "obl")), "3:case 3:det 4:obl"),
    "number": (AnswerForm("number"), "3.5"),
    "raw": (AnswerForm("raw"), "x = 1\ny"),
}
CONTEXT = "From the AP"

REASONED = [
    "<think>\n{T}\n</think>\n\n{A}",  # DeepSeek, Qwen, GLM, MiniMax, Nemotron, Phi 4 and most others
    "{T}\n</think>\n\n{A}",  # opened by the prompt
    "<think>\n\n</think>\n\n{A}",
    "<think>{T}</think>\n<answer>\n{A}\n</answer>",  # Hunyuan
    "{T}\n</think>\n\n<response>\n{A}\n</response>\n",  # Ernie
    "<think>{T}</think><response>{A}</response>",  # Granite 3.3
    "Here is my thought process:\n\n{T}\n\nHere is my response:\n\n{A}",  # Granite 3.2
    "Here\u2019s my thought process: {T} Here's my response: {A}",
    "<seed:think>{T}</seed:think>{A}",  # Seed
    "<|START_THINKING|>{T}<|END_THINKING|><|START_RESPONSE|>{A}<|END_RESPONSE|>",  # Command A
    "{T}<|END_THINKING|><|START_TEXT|>{A}<|END_TEXT|>",  # Command A+
    "<|begin_of_thought|>\n{T}\n<|end_of_thought|>\n<|begin_of_solution|>\n{A}\n<|end_of_solution|>",  # OpenThinker
    "<|channel|>analysis<|message|>{T}<|end|><|start|>assistant<|channel|>final<|message|>{A}<|return|>",  # gpt-oss
    "<|channel|>final <|constrain|>json<|message|>{A}",
    "analysis<|message|>{T}<|end|>\nfinal<|message|>{A}",
    "analysis{T}.assistantcommentary{T}.assistantfinal{A}",  # the same if special tokens are left out
    "final{A}",
    "\u25c1think\u25b7{T}\u25c1/think\u25b7{A}",  # Kimi 1.5
    "<|open|>think<|sep|>{T}<|close|>think<|sep|><|open|>response<|sep|>{A}<|close|>response<|sep|>",  # Kimi K3
    "<|open|> think <|sep|>{T}<|close|> think <|sep|>{A}",
    "<|channel>thought\n{T}<channel|>{A}<turn|>",  # Gemma 4
    "<mm:think>{T}</mm:think>{A}",  # MiniMax M3
    "[THINK]{T}[/THINK]{A}",  # Magistral
    "<thought>\n{T}\n</thought>\n\n{A}",  # EXAONE Deep
    "<reasoning>\n{T}\n</reasoning>\n{A} <sep>",  # Reka
    "<longcat_think>\n{T}\n</longcat_think>\n{A}</longcat_s>",  # LongCat
    "<think:opensource>{T}</think:opensource>{A}",  # Hunyuan 3
    "<|think|>{T}<|end|><|begin|>assistant<|content|>{A}<|end|>",  # Solar Open
    "<|think:start|>{T}<|think:end|>{A}",
    "<|inner_prefix|>{T}<|inner_suffix|>{A}<|assistant_end|>",  # Apertus
    "<|content_thinking|>{T}<|end_message|><|message_model|><|content_text|>{A}<|end_message|>",  # Inkling
    "Here are my reasoning steps:\n{T}\n[BEGIN FINAL RESPONSE]\n{A}\n[END FINAL RESPONSE]\n<|end|>",  # Apriel
    "[unused16]{T}[unused17]{A}",  # openPangu
    "Thinking...\n{T}\n...done thinking.\n\n{A}",  # ollama run
    '<details type="reasoning" done="true">\n<summary>Thought for 3 s</summary>\n> {T}\n</details>\n{A}',  # Open WebUI
    "<THINK>{T}</Think>{A}",
    "< think >{T}< / think >{A}",
    '<think duration="3s">{T}</think>{A}',
    "<thinking>{T}</think>{A}",
    "<antThinking>{T}</antThinking>{A}",
    "<scratchpad>{T}</scratchpad>{A}",
    "&lt;think&gt;{T}&lt;/think&gt;{A}",
    "```\n<think>\n{T}\n</think>\n```\n{A}",
    "```xml\n<think>\n{T}\n</think>\n{A}\n```",
    "`<think>`{T}`</think>`{A}",
    "<think>{T}<think>{T}</think>{A}",
    "<think>{T}<think>{T}</think>{T}</think>{A}",
    "<think>{T}</think><think>{T}</think>{A}",
    "<think>{T}</think>Carolina<think>{T}</think>{A}",
    "<think>Then I write <answer>Carolina</answer>.</think>{A}",
    "<think>I close it with `</think>` and answer. {T}</think>{A}",
    "{A}\n<think>{T}</think>",
]


def filled(text: str, answer: str) -> str:
    return text.replace("{T}", THOUGHT).replace("{A}", answer)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", REASONED)
def test_reasoning_is_left_out(text: str, kind: Kind) -> None:
    form, answer = ANSWERS[kind]
    found = extract(filled(text, answer), form, "", "stop", CONTEXT)
    assert found.answer == answer
    assert "reasoning" in found.rule.split("+") and "unparseable" not in found.rule.split("+")


SILENT = [
    "<think>\n{T}",
    "<think>{T}</think>",
    "{T}\n</think>",
    "<seed:think>{T}",
    "<|START_THINKING|>{T}",
    "<|begin_of_thought|>{T}<|end_of_thought|>",
    "<|channel|>analysis<|message|>{T}",
    "<|channel|>analysis<|message|>{T}<|end|><|start|>assistant<|channel|>final<|message|>",
    "analysis{T}",
    "analysiswe know. {T}assistantfinal",
    "\u25c1think\u25b7{T}",
    "<|channel>thought\n{T}",
    "thought\n{T}",  # Gemma 4 if special tokens are left out: nobody can say where the answer begins
    "/think\n{T}",  # HyperCLOVA X
    "[THINK]{T}",
    "Here is my thought process:\n\n{T}",
    "<think>{T} <answer>Carolina</answer>",
    "Carolina\n<think>{T}",
    "assistant\n\n<think>{T}",
    "<think>{T}</think><answer></answer>",
]


@pytest.mark.parametrize(("finish", "name"), [("stop", "reasoning-only"), ("length", "cut-in-reasoning")])
@pytest.mark.parametrize("text", SILENT)
def test_nothing_but_reasoning_is_no_answer_and_says_so(text: str, finish: str, name: str) -> None:
    for form, answer in ANSWERS.values():
        found = extract(filled(text, answer), form, "", finish, CONTEXT)
        assert found.answer == ""
        assert found.rule.split("+")[-3:] == ["reasoning", name, "unparseable"]


@pytest.mark.parametrize(
    "answer",
    [
        "the `<think>` tag",
        "final 64",
        "finals",
        "finalizing the sale",
        "analysis",
        "analysis of variance",
        "thought",
        "thought to be a fake",
        "trick the lions [into thinking] that I stood there",
        "a < b and b > c",
        "He said: Here is my response: no.",
        "See <details>the rules</details> for more",
    ],
)
def test_an_answer_that_resembles_a_tag_stays(answer: str) -> None:
    assert extract(answer, AnswerForm("span")).answer == answer
    assert extract(f"<think>Hm.</think>{answer}", AnswerForm("span")).answer == answer


LEAKED = [
    "assistant\n\n{A}",  # Llama 3 if special tokens are left out
    "assistant\n{A}",  # ChatML
    "assistant\n\n<think>{T}</think>{A}",
    "ASSISTANT: {A}</s>",  # Vicuna
    "<|start_header_id|>assistant<|end_header_id|>\n\n{A}<|eot_id|>",
    "<|header_start|>assistant<|header_end|>\n\n{A}<|eot|>",  # Llama 4
    "<|im_start|>assistant\n{A}<|im_end|>",
    "<|im_start|>assistant\n<think>\n{T}\n</think>\n\n{A}<|im_end|>",
    "<|im_start|>assistant<|im_sep|>{A}<|im_end|>",  # Phi 4
    "<|im_start|>user\nWho won?<|im_end|>\n<|im_start|>assistant\n{A}<|im_end|>",
    "<start_of_turn>model\n{A}<end_of_turn>",
    "<|turn>model\n{A}<turn|>",  # Gemma 4
    "<\uff5cAssistant\uff5c>{A}<\uff5cend\u2581of\u2581sentence\uff5c>",  # DeepSeek
    "[/INST] {A}</s>",  # Mistral, Llama 2
    "[INST] Who won? [/INST] {A}</s>",
    "<s> {A}</s>",
    "<|assistant|>\n{A}<|end|>",  # Phi 3, Zephyr, GLM
    "<|assistant|>\n{A}<|user|>\nAnd the loser?",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{A}<|END_OF_TURN_TOKEN|>",  # Command R
    "<|start_of_role|>assistant<|end_of_role|>{A}<|end_of_text|>",  # Granite
    "<|im_assistant|>assistant<|im_middle|>{A}<|im_end|>",  # Kimi
    "<|start|>assistant<|message|>{A}<|end|>",  # gpt-oss
    "[|assistant|]{A}[|endofturn|]",  # EXAONE
    "<role>ASSISTANT</role>{A}<|role_end|>",  # Ling
    "]~b]ai\n{A}[e~[",  # MiniMax
    "<longcat_assistant>{A}</longcat_s>",
    "<|BOT|>assistant\n{A}<|EOT|>",  # Step
    "<extra_id_1>Assistant\n{A}\n<extra_id_1>",  # Nemotron 4
    "{A}<|endoftext|><|im_start|>user\nAnd the loser?",
    "</s><s>{A}",
    "{A}<|return|>",
    "{A}<|reserved_special_token_7|>",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", LEAKED)
def test_role_headers_and_tokens_are_left_out(text: str, kind: Kind) -> None:
    form, answer = ANSWERS[kind]
    found = extract(filled(text, answer), form, "", "stop", CONTEXT)
    assert found.answer == answer
    assert found.rule.startswith("template") and "unparseable" not in found.rule


NURSE = "She was a model and an assistant to the director, then an actor."


@pytest.mark.parametrize(
    ("text", "form", "context", "answer"),
    [
        ("model", AnswerForm("span"), NURSE, "model"),
        (
            "Assistant: a film",
            AnswerForm("span"),
            "He made Assistant: a film and a play.",
            "Assistant: a film",
        ),
        ("model\n\nShe worked as a model.", AnswerForm("span"), NURSE, "model"),
        ("assistant\n\nthe director", AnswerForm("span"), "She saw the director.", "the director"),
        ("Model.", AnswerForm("label", ("assistant", "model")), "", "model"),
        ("assistants", AnswerForm("line"), "", "assistants"),
        ("assistant coach", AnswerForm("line"), "", "assistant coach"),
        ("a research assistant\n\nNote: of his.", AnswerForm("span"), NURSE, "a research assistant"),
    ],
)
def test_a_role_that_may_be_the_answer_stays(
    text: str, form: AnswerForm, context: str, answer: str | None
) -> None:
    found = extract(text, form, "Which was she?", context=context)
    if answer is None:
        assert "template" not in found.rule.split("+")
        assert form.kind == "state" or found.rule.endswith("unparseable")
    else:
        assert found.answer == answer and "unparseable" not in found.rule


CALLS = [
    '<tool_call>\n{"name": "classify", "arguments": {"label": "positive"}}\n</tool_call>',
    "<think>Hm.</think><tool_call>positive</tool_call>",
    "Let me see.\n<tool_call>positive</tool_call>",
    "<|python_tag|>classify('positive')",
    '[TOOL_CALLS] [{"name": "classify", "arguments": {"label": "positive"}}]',
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.x:0<|tool_call_argument_begin|>"positive"',
    "<\uff5ctool\u2581calls\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>positive",
    '<function=classify>{"label": "positive"}</function>',
    "<|START_ACTION|>positive<|END_ACTION|>",
    '<|channel|>commentary to=functions.x <|constrain|>json<|message|>{"label": "positive"}<|call|>',
    '<minimax:tool_call><invoke name="x">positive</invoke></minimax:tool_call>',
    '{"name": "classify", "parameters": {"label": "positive"}}',
    "{'name': 'classify', 'arguments': {'label': 'positive'}}",
    '{"type": "function", "function": {"name": "classify", "arguments": "positive"}}',
    '{"tool_calls": [{"name": "classify", "arguments": {"label": "positive"}}]}',
    "```tool_code\nclassify('positive')\n```",
]


@pytest.mark.parametrize("text", CALLS)
def test_a_call_of_a_tool_is_no_answer(text: str) -> None:
    for kind, (form, _) in ANSWERS.items():
        if kind != "raw":  # a custom task may ask for calls
            found = extract(text, form, "", "stop", CONTEXT)
            assert found.answer == "" and found.rule.split("+")[-2:] == ["tool-call", "unparseable"]


@pytest.mark.parametrize(
    ("opens", "closes", "text"),
    [
        ("<plan>", "</plan>", "<plan>{T}</plan>{A}"),
        ("<plan>", "</plan>", "< PLAN time='3'>{T}</ plan>{A}"),
        ("<plan>", "</plan>", "{T}</plan>{A}"),
        ("### Draft", "### Reply", "### Draft\n{T}\n### Reply\n{A}"),
        ("{{", "}}", "{{{T}}}{A}"),
        ("BEGIN", "END", "BEGIN{T}END{A}"),
    ],
)
def test_tags_that_the_user_names(opens: str, closes: str, text: str) -> None:
    for form, answer in ANSWERS.values():
        named = AnswerForm(form.kind, form.labels, reasoning_tags=check_reasoning_tags([(opens, closes)]))
        assert extract(filled(text, answer), named, "", "stop", CONTEXT).answer == answer
        silent = extract(f"{opens}{THOUGHT}", named, "", "length", CONTEXT)
        assert (silent.answer, silent.rule) == ("", "reasoning+cut-in-reasoning+unparseable")


@pytest.mark.parametrize("pair", [("<a>", "<a>"), ("<a>", " "), ("", "</a>"), ("<a>",), "ab"])
def test_tags_that_could_mark_nothing_are_refused(pair: tuple[str, ...]) -> None:
    with pytest.raises(DecabenchError, match="--reasoning-tags requires"):
        check_reasoning_tags([pair])


PIECES = st.sampled_from(
    [
        "<think>", "</think>", "<|channel|>", "final<|message|>", "assistantfinal", "[BEGIN FINAL RESPONSE]", "```",
        "<|im_start|>", "assistant\n", "user\n", "<|im_end|>", "<|end|>", "<|start|>", "[INST]", "[/INST]",
        "`", "<s>", "</s>", "<answer>", "</answer>", "<|END_RESPONSE|>", "<|x|>", "Denver", "a", " ", "\n", "\u200b",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=9).map("".join))
@settings(max_examples=200, deadline=None)
def test_the_text_of_a_turn_is_read_again_unchanged(text: str) -> None:
    said = read_turn(text).text
    assert said in text
    assert not said or read_turn(said).text == said


def test_long_texts_take_no_time() -> None:
    """A pattern that tries all pairs of starts and ends would take minutes here."""
    pieces = ("<", "<|", "<think", "<think>", "</think>", "&lt;think ", "`<think>`", "[", "[|", "Here is ")
    more = ("<|im_start|>", "assistant\n", "<|x|>", "```", "\u200b ", "tool_call", "{'name': ", "[f(x=")
    for piece in (*pieces, *more):
        text = piece * (100_000 // len(piece))
        start = time.process_time()
        extract(text, AnswerForm("span", ("a",)), finish="length")
        assert time.process_time() - start < 2, piece
