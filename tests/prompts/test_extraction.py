"""Answers are found in what models say, and what already is an answer is left as it is."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decabench.prompts import extract
from decabench.prompts.extraction import Extracted, settle_form
from decabench.prompts.messages import make_prompting
from decabench.prompts.templates import load_template
from decabench.tasks import Label, Number
from decabench.tasks.builtin_suites import DECATHLON
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.tasks.wording import KINDS, AnswerForm, default_form
from tests.tasks.conftest import Prepared, prepared_whole, shared
from tests.tasks.fixtures import SAMPLED

__all__ = ["prepared_whole", "shared"]

NLI = 'Hypothesis: "x" -- entailment, neutral, or contradiction?'
SST = "Is this review negative or positive?"
WHO = "Who is hurt? Bob or Charlie?"
LONG_THOUGHT = "<think>\nThe passage says Denver.\nAnswer: Carolina\n</think>\n\n"


@cache
def form(task: str) -> AnswerForm:
    return make_prompting(TASKS[task], load_template("default")).form


MESSY = [
    # Spans
    ("squad", "Denver Broncos", "", "Denver Broncos", "as-is"),
    ("squad", " Denver Broncos\n", "", "Denver Broncos", "as-is"),
    ("squad", "Denver Broncos\n\nExplanation: they won.", "", "Denver Broncos", "span"),
    ("squad", "Answer: Denver Broncos", "", "Denver Broncos", "marker"),
    ("squad", "**Answer:** Denver Broncos", "", "Denver Broncos", "marker"),
    ("squad", "**Denver Broncos**", "", "Denver Broncos", "span"),
    ("squad", "The answer is Denver Broncos", "", "Denver Broncos", "marker"),
    ("squad", "It was in 2016. So the final answer is: Denver Broncos", "", "Denver Broncos", "marker"),
    (
        "squad",
        LONG_THOUGHT + "Answer: Denver Broncos\nThey won.",
        "",
        "Denver Broncos",
        "reasoning+marker+span",
    ),
    ("squad", "the hidden steps\n</think>\nDenver Broncos", "", "Denver Broncos", "reasoning"),
    ("squad", "Answer: Carolina? No.\n\nFinal Answer: Denver Broncos", "", "Denver Broncos", "marker"),
    ("squad", "Sure!\nHere is the answer:\nDenver Broncos", "", "Denver Broncos", "span"),
    ("squad", "```\nDenver Broncos\n```", "", "Denver Broncos", "span"),
    ("squad", '"Gold"', "", '"Gold"', "as-is"),
    ("squad", "the ratio is 3:1", "", "the ratio is 3:1", "as-is"),
    ("squad", "Answer:", "", "Answer:", "as-is"),
    ("squad", "I cannot tell a lie", "", "I cannot tell a lie", "as-is"),
    ("squad", "", "", "", "empty"),
    ("squad", " \n\t", "", "", "empty"),
    ("squad", "<think></think>", "", "", "reasoning+reasoning-only+unparseable"),
    ("squad", "<think>\nThe passage says that Den", "", "", "reasoning+reasoning-only+unparseable"),
    (
        "squad",
        "I'm sorry, but I can't help with that.",
        "",
        "I'm sorry, but I can't help with that.",
        "refused",
    ),
    ("zre", "The question is unanswerable from this sentence.", "", "unanswerable", "span"),
    ("zre", "Findlay, OH", "", "Findlay, OH", "as-is"),
    # Labels
    ("multinli.in.out", "neutral", NLI, "neutral", "as-is"),
    ("multinli.in.out", "Entailment.", NLI, "entailment", "label"),
    ("multinli.in.out", "The answer is **neutral**.", NLI, "neutral", "marker"),
    ("multinli.in.out", "\\boxed{neutral}", NLI, "neutral", "marker"),
    ("multinli.in.out", "The relation is one of contradiction.", NLI, "contradiction", "label"),
    (
        "multinli.in.out",
        "Neutral. The premise shows neither entailment nor contradiction.",
        NLI,
        "neutral",
        "label",
    ),
    ("multinli.in.out", "neutral, since it says nothing of entailment", NLI, "neutral", "label"),
    (
        "multinli.in.out",
        "The premise is vague.\nIt may be so.\nTherefore: neutral",
        NLI,
        "neutral",
        "label",
    ),
    (
        "multinli.in.out",
        "It is not an entailment.",
        NLI,
        "It is not an entailment.",
        "unparseable",
    ),
    ("multinli.in.out", "entailment or neutral", NLI, "entailment or neutral", "unparseable"),
    ("multinli.in.out", "non-entailment", NLI, "non-entailment", "unparseable"),
    ("multinli.in.out", "yes", NLI, "yes", "unparseable"),
    ("multinli.in.out", "Yes.", 'Is "x" true if the premise is -- yes, maybe, or no?', "yes", "label"),
    ("sst", "Positive", SST, "positive", "label"),
    ("sst", "The review is negative in tone.", SST, "negative", "label"),
    ("sst", "Happy.", "Is this review happy or angry?", "happy", "label"),
    ("sst", "unsupportive", "Is this review supportive or unsupportive?", "unsupportive", "as-is"),
    ("sst", "I'm sorry, this is hard to say.", SST, "I'm sorry, this is hard to say.", "refused"),
    ("schema", "Bob", WHO, "Bob", "as-is"),
    ("schema", "Charlie is hurt.", WHO, "Charlie", "label"),
    ("schema", "Bob hurt Charlie.", WHO, "Bob hurt Charlie.", "unparseable"),
    ("schema", "Bob's friend", WHO, "Bob's friend", "unparseable"),
    ("schema", "the ball", "What was made of steel? ball or table?", "ball", "label"),
    (
        "schema",
        "table tennis ball",
        "What was steel? table tennis ball or table?",
        "table tennis ball",
        "as-is",
    ),
    # SQL
    ("wikisql", "SELECT a FROM table", "", "SELECT a FROM table", "as-is"),
    ("wikisql", "SELECT a FROM table;", "", "SELECT a FROM table", "sql"),
    (
        "wikisql",
        "```sql\nSELECT a\nFROM table\nWHERE b = 1;\n```",
        "",
        "SELECT a FROM table WHERE b = 1",
        "sql",
    ),
    ("wikisql", "SQL: SELECT a FROM table", "", "SELECT a FROM table", "marker"),
    ("wikisql", "The query is: SELECT a FROM table", "", "SELECT a FROM table", "sql"),
    (
        "wikisql",
        "SELECT a\nFROM table\nWHERE b = c\nAND d > 3\nThis selects a.",
        "",
        "SELECT a FROM table WHERE b = c AND d > 3",
        "sql",
    ),
    (
        "wikisql",
        "SELECT a FROM table WHERE b = x; y\n\nExplanation: ...",
        "",
        "SELECT a FROM table WHERE b = x; y",
        "sql",
    ),
    ("wikisql", "```sql\nSELECT a FROM", "", "SELECT a FROM", "sql"),
    ("wikisql", "The table has no such column.", "", "The table has no such column.", "unparseable"),
    # Dialogue state
    (
        "woz.en",
        "food: thai, area: south; phone, address",
        "",
        "food: thai, area: south; phone, address",
        "as-is",
    ),
    ("woz.en", "None", "", "None", "as-is"),
    ("woz.en", "none.", "", "None", "state"),
    ("woz.en", "; phone", "", "; phone", "as-is"),
    ("woz.en", ";phone", "", "; phone", "state"),
    ("woz.en", "food: thai", "", "food: thai;", "state"),
    ("woz.en", "food:thai,area:south ; phone", "", "food: thai, area: south; phone", "state"),
    ("woz.en", "`food: thai; phone`", "", "food: thai; phone", "state"),
    ("woz.en", "The change is:\nfood: thai;\n\nThe user wants Thai.", "", "food: thai;", "state"),
    (
        "woz.en",
        "The user wants thai food in the south.",
        "",
        "The user wants thai food in the south.",
        "unparseable",
    ),
    ("woz.en", "Note: the user is hungry", "", "Note: the user is hungry", "unparseable"),
    # Sentences and paragraphs
    ("iwslt.en.de", "Er lacht.\n\n(Note: informal)", "", "Er lacht.", "line"),
    ("iwslt.en.de", "Here is the translation:\n\nEr lacht.", "", "Er lacht.", "line"),
    ("iwslt.en.de", "Okay.\n\nNote: informal.", "", "Okay.", "line"),
    ("iwslt.en.de", '"Er lacht."', "", '"Er lacht."', "as-is"),
    ("iwslt.en.de", "Und die Antwort lautet: ja.", "", "Und die Antwort lautet: ja.", "as-is"),
    ("cnn_dailymail", "A man won .\nHe left .", "", "A man won . He left .", "text"),
    (
        "cnn_dailymail",
        "A man won. He left.\n\nLet me know if you want more!",
        "",
        "A man won. He left.",
        "text",
    ),
    ("cnn_dailymail", "They ask . the answer is money .", "", "They ask . the answer is money .", "as-is"),
]


@pytest.mark.parametrize(("task", "raw", "question", "answer", "rule"), MESSY)
def test_what_models_say(task: str, raw: str, question: str, answer: str, rule: str) -> None:
    assert extract(raw, form(task), question) == Extracted(answer, rule)


@pytest.mark.parametrize(
    ("task", "first", "second"),
    [
        ("squad", "Carolina", "Denver"),
        ("sst", "positive", "negative"),
        ("wikisql", "SELECT a FROM table", "SELECT b FROM table"),
    ],
)
def test_json_that_repeats_a_key_is_unparseable(task: str, first: str, second: str) -> None:
    for raw in (
        f'{{"answer": "{first}", "answer": "{second}"}}',
        f'{{\n"answer": "{first}",\n"answer": "{second}"\n}}',
    ):
        for text in (raw, f"```json\n{raw}\n```", f"<think>x</think>{raw}"):
            assert extract(text, form(task), SST).rule.endswith("unparseable")
    assert extract(f'{{"answer": "{first}", "answer": "{first}"}}', form(task), SST).answer == first


def test_a_refusal_by_the_server_counts_as_refused() -> None:
    assert extract("positive", form("sst"), SST, "refused") == Extracted("", "refused")
    assert extract("", form("sst"), SST, "refused") == Extracted("", "refused")


def golds(store: Store, task: str) -> list[tuple[str, str]]:
    """(question, gold answer) of every split and every reference."""
    return [
        (row["question"], answer)
        for split in store.records(task)
        for row in store.read(task, split, ("question", "answers"))
        for answer in row["answers"]
    ]


DRESSES = {
    "squad": ["Answer: {}", "<think>It may be.</think>\n\n{}", "{}\n\nThe passage says so."],
    "iwslt.en.de": ["Translation: {}", "Here is the translation:\n\n{}", "{}\n\nNote: informal."],
    "cnn_dailymail": ["Summary: {}", "Here is a summary:\n\n{}", "<think>Hm.</think>{}\n\nLet me know!"],
    "multinli.in.out": ["Answer: {}", "**{}**", "{}.\n\nThe premise is vague.", "The answer is {}."],
    "sst": ["Answer: {}", "**{}**", "{}.\n\nThe words are plain.", "The answer is {}."],
    "srl": ["Answer: {}", "<think>It may be.</think>\n\n{}", "{}\n\nThe sentence says so."],
    "zre": ["Answer: {}", "<think>It may be.</think>\n\n{}", "{}\n\nThe sentence says so."],
    "woz.en": ["Answer: {}", "`{}`", "The change is:\n{}\n\nThat is all."],
    "wikisql": ["SQL: {}", "```sql\n{}\n```", "{}\n\nThis is the query.", "Here it is:\n```\n{};\n```"],
    "schema": ["Answer: {}", "**{}**", "{}.\n\nThe sentence says so.", "The answer is {}."],
}
"""How models dress an answer of each task, which must come out again whole."""

DRESSES_OF_FORMS = {
    "label": ["Answer: {}", "**{}**", "The answer is {}."],
    "span": ["Answer: {}", "<think>It may be.</think>\n\n{}"],
    "line": ["Answer: {}", "Here is the translation:\n\n{}"],
    "state": ["Answer: {}", "`{}`"],
    "tags": ["Answer: {}", "Tags: {}", "```\n{}\n```", "Here are the tags:\n\n{}"],
    "tree": ["Answer: {}", "Parse: {}", "<answer>{}</answer>"],
    "number": ["Answer: {}", "**{}**", "Score: {}/5", "{}\n\nThey share most of their words."],
}
"""How models dress answers of tasks that have no entry above."""


def assert_kept(store: Store, task: str) -> int:
    pairs = golds(store, task)
    changed = [
        (gold, found)
        for question, gold in pairs
        if (found := extract(gold, form(task), question)) != Extracted(gold, "as-is")
    ]
    assert changed == []
    for dress in DRESSES.get(task) or DRESSES_OF_FORMS[form(task).kind]:
        lost = [
            (gold, found)
            for question, gold in pairs[:5_000]
            if (found := extract(dress.replace("{}", gold), form(task), question)).answer != gold
        ]
        assert lost == [], dress
    return len(pairs)


@pytest.mark.parametrize("task", SAMPLED)
def test_gold_answers_of_the_sample_stay(home: Path, task: str) -> None:
    assert assert_kept(Store(home), task) > 0


@pytest.mark.heavy
@pytest.mark.mirror
@pytest.mark.parametrize("task", DECATHLON.tasks)
def test_gold_answers_of_the_real_data_stay(prepared_whole: Prepared, task: str) -> None:
    assert assert_kept(prepared_whole.store, task) > 200


@pytest.mark.parametrize("task", SAMPLED)
def test_labels_and_spans_stay_in_every_wording(home: Path, task: str) -> None:
    """A variant's own label words are found by its own question."""
    for variant in TASKS[task].variants:
        words = {label: word for word, label in variant.labels.items()}
        for question, gold in golds(Store(home), task):
            answer = words.get(gold, gold)
            assert extract(answer, form(task), variant.rewrite(question)) == Extracted(answer, "as-is")


TEXTS = st.text(
    alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from("*`\"'<>/:;,.\n {}\\-")),
    max_size=60,
)
PIECES = st.sampled_from(
    [
        "Answer:", "**", "`", "```sql\n", "\n", "<think>", "</think>", "neutral", "not ", "SELECT", "FROM", ";",
        "food: thai", "phone", "None", "The answer is ", "\\boxed{", "}", "Sure!", '"', "I'm sorry, but I can't",
        " or ", "<|im_end|>", "assistant\n", "<|begin_of_box|>", "final", "analysis", "\u200b", "<tool_call>",
        "model\n",
    ]
)  # fmt: skip
RAW = st.one_of(TEXTS, st.lists(st.one_of(PIECES, TEXTS), max_size=8).map("".join))
FORMS = st.builds(
    AnswerForm,
    kind=st.sampled_from(KINDS),
    labels=st.lists(TEXTS, max_size=3).map(tuple),
    labels_from_question=st.booleans(),
    markers=st.lists(TEXTS, max_size=2).map(tuple),
    unquote=st.booleans(),
)


@given(raw=RAW, form=FORMS, question=RAW, finish=st.sampled_from(["stop", "length", "refused"]))
@settings(max_examples=200, deadline=None)
def test_extraction_never_raises_and_invents_no_words(
    raw: str, form: AnswerForm, question: str, finish: str
) -> None:
    found = extract(raw, form, question, finish)
    assert found == extract(raw, form, question, finish)
    assert (found.answer == "") <= (found.rule.split("+")[-1] in ("empty", "unparseable", "refused"))
    if form.kind == "state":
        assert len(found.answer) <= 2 * len(raw) + len("None")  # spaces and the semicolon are put in
    elif form.kind in ("tags", "tree"):
        assert len(found.answer) <= 2 * (len(raw) + 100)  # words without an item get `_`
    elif "label" not in found.rule.split("+"):
        assert len(found.answer) <= len(raw)


@given(raw=RAW, form=FORMS)
@settings(max_examples=100, deadline=None)
def test_an_extracted_answer_is_extracted_unchanged(raw: str, form: AnswerForm) -> None:
    if form.kind not in ("sql", "state"):
        return
    found = extract(raw, form)
    if found.rule.split("+")[-1] in ("sql", "state"):
        assert extract(found.answer, form).rule in ("as-is", form.kind)


def test_long_texts_take_no_time() -> None:
    """Patterns that try every start against every end would take minutes here."""
    for piece in (
        "a ",
        "\n",
        "* ",
        "<think>",
        "Answer: ",
        "```",
        "SELECT ",
        "not ",
        "food: thai, ",
        "sorry ",
        '"',
        "\\boxed{",
        "`SELECT a FROM t` ",
        "(",
        "[{'a': ",
        "the premise entails. ",
        "the city is ",
    ):
        for kind in KINDS:
            text = piece * (20_000 // len(piece))
            start = time.process_time()
            extract(text, AnswerForm(kind, labels=("neutral", "a")), NLI)
            assert time.process_time() - start < 2, (piece, kind)


def test_the_declared_output_decides_the_form() -> None:
    """Found by a reader: the labels of a task gave way to words of its questions."""
    names = Label(("yes", "no"))
    form = settle_form(default_form(names, "accuracy"), names)
    assert extract("Yes, it is.", form, "Is it about Rome or Paris?").answer == "yes"
    german = settle_form(default_form(names, "accuracy"), names, {"yes": "ja", "no": "nein"})
    assert german.labels == ("ja", "nein") and not german.labels_from_question
    own = AnswerForm("label", ("true", "false"), labels_from_question=True)
    assert settle_form(own, names) == own  # of a template
    assert settle_form(own, Label()) == own
    assert settle_form(AnswerForm("number"), Number(1, 5)).scale == (1, 5)
