"""Tags, heads and numbers in a model's text: placed by number, by order, or not at all."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decabench.prompts.extraction import extract
from decabench.prompts.items import find_items
from decabench.prompts.prose import find_number
from decabench.tasks import TASKS, AnswerForm

WORDS = "From the AP comes 15 :".split()
UPOS = TASKS["ud.pos"].answer_form.labels
TAGS = AnswerForm("tags", UPOS)
ANY = AnswerForm("tags")
TREE = AnswerForm("tree")
GOLD = "ADP DET PROPN VERB NUM PUNCT"
PARSE = "3:case 3:det 4:obl 0:root 4:nsubj 4:punct"
PENN = "IN DT NNP VBZ CD :"


def answer(raw: str, form: AnswerForm = TAGS, words: list[str] = WORDS) -> str:
    return extract(raw, form, "What are the part-of-speech tags?", context=" ".join(words)).answer


def numbered(items: str, line: str) -> str:
    pairs = zip(WORDS, items.split(), strict=True)
    return "\n".join(line.format(n=n, w=word, t=item) for n, (word, item) in enumerate(pairs, 1))


LINES = [
    "{n} {w} {t}",
    "{n} {t}",
    "{n}. {w} {t}",
    "{n}\t{w}\t{t}",
    "| {n} | {w} | {t} |",
    "{n}: {w}/{t}",
    "{n} {w} -> {t}",
]


@pytest.mark.parametrize(
    "line", [*LINES, "{n}. {w}: {t}", "- {n} {w}: **{t}**", "{n}) `{w}` {t},", "{w} {t}", "{w}/{t}"]
)
def test_tags_of_lines(line: str) -> None:
    assert answer(numbered(GOLD, line)) == GOLD


@pytest.mark.parametrize("line", LINES)
def test_tags_that_are_not_known_before(line: str) -> None:
    assert answer(numbered(PENN, line), ANY) == PENN


@pytest.mark.parametrize("line", [*LINES, "{n}. {w}: {t}", "{w} {t}"])
def test_heads_and_relations_of_lines(line: str) -> None:
    assert answer(numbered(PARSE, line), TREE) == PARSE


@pytest.mark.parametrize(
    "form", ["{}", "Answer: {}", "Tags: {}", "```\n{}\n```", "<answer>{}</answer>", "Sure!\n{}"]
)
def test_tags_on_one_line(form: str) -> None:
    assert answer(form.format(GOLD)) == GOLD
    assert answer(form.format(GOLD.replace(" ", ", "))) == GOLD


@pytest.mark.parametrize(
    "raw",
    [
        "From/ADP the/DET AP/PROPN comes/VERB 15/NUM :/PUNCT",
        '["ADP", "DET", "PROPN", "VERB", "NUM", "PUNCT"]',
        '{"tags": ["ADP", "DET", "PROPN", "VERB", "NUM", "PUNCT"]}',
        '{"1": "ADP", "2": "DET", "3": "PROPN", "4": "VERB", "5": "NUM", "6": "PUNCT"}',
        "<think>Hm, 1 X 2 X.</think>\n1 adp\n2 det\n3 propn\n4 verb\n5 num\n6 punct",
    ],
)
def test_other_ways_to_write_them(raw: str) -> None:
    assert answer(raw) == GOLD


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("1 From ADP\n2 the DET\n4 comes VERB", "ADP DET _ VERB"),
        ("1 From ADP\n2 the\n3 AP PROPN", "ADP the PROPN"),
        ("1 From ADP\n2 the ARTICLE\n3 AP PROPN", "ADP ARTICLE PROPN"),
        ("1 From ADP\n2 the DET\n3 AP PROPN\n1 Another NOUN\n2 one X", "ADP DET PROPN"),
        (f"{GOLD} NOUN NOUN", f"{GOLD} NOUN NOUN"),
        (f"{numbered(GOLD, '{n} {t}')}\n7 X\n999999 X", f"{GOLD} X"),
        ("ADP DET", "ADP DET"),
    ],
    ids=["a gap", "no tag", "unknown tag", "another example", "too many", "numbers beyond", "too few"],
)
def test_wrong_tags_keep_their_places(raw: str, found: str) -> None:
    assert answer(raw) == found


@pytest.mark.parametrize(
    "raw", ["I am sorry, but I cannot tag this sentence.", "The sentence has six words in it."]
)
def test_prose_is_unparseable(raw: str) -> None:
    assert extract(raw, TAGS, context=" ".join(WORDS)).rule.split("+")[-1] in ("unparseable", "refused")


@pytest.mark.parametrize(
    "line", ["{t}", "- {w}: {t}", "* {w} ({t})", "| {w} | {t} |", "{w},{t}", "{w} → {t}"]
)
@pytest.mark.parametrize("head", ["", "Here are the tags:\n\n"])
def test_tags_of_lines_without_numbers(line: str, head: str) -> None:
    assert answer(head + numbered(GOLD, line)) == GOLD


@pytest.mark.parametrize(
    ("head", "line"), [("| Word | Tag |\n|---|---|", "| {w} | {t} |"), ("word,tag", "{w},{t}")]
)
def test_tables_without_numbers(head: str, line: str) -> None:
    assert answer(f"{head}\n{numbered(GOLD, line)}") == GOLD


def test_a_tag_a_line_of_every_tagset() -> None:
    for name, tags in (
        ("conll2003", "O O I-PER O"),
        ("conll2000", "B-NP I-NP B-VP O"),
        ("hien.pos", "G_N @ $ G_V"),
        ("ptb.pos", "DT NN PRP$ ."),
    ):
        words = "a b c d".split()
        assert answer(tags.replace(" ", "\n"), TASKS[name].answer_form, words) == tags
    for raw in ("2:det\n0:root", "2:det, 0:root"):
        assert answer(raw, TREE, ["the", "dog"]) == "2:det 0:root"


@pytest.mark.parametrize(
    "raw",
    [
        "(From, ADP) (AP, PROPN) (comes, VERB)",
        "ADP DET PROPN\nVERB NUM",
        "This sentence has a NOUN and a VERB.",
        "From the AP comes 15 :",
        '[{"word": "A", "tag": "DET"}, {"word": "dog", "tag": "NOUN"}]',
        '[{"word": "From"}, {"word": "the"}]',
    ],
    ids=["a word is missing", "cut into lines", "prose", "the sentence", "other words", "no tags"],
)
def test_what_is_not_certain_is_unparseable(raw: str) -> None:
    assert extract(raw, TAGS, context=" ".join(WORDS)).rule == "unparseable"


def test_one_word() -> None:
    for raw in ("VERB", "1 Stop VERB", "Stop/VERB"):
        assert answer(raw, TAGS, ["Stop"]) == "VERB"


@pytest.mark.parametrize("line", ["{n} {w} head: {h}, relation: {r}", "{n} {w} {r}({h})", "{w}: {r}({h})"])
def test_heads_in_words_are_unparseable_and_not_misread(line: str) -> None:
    pairs = zip(WORDS, (item.split(":") for item in PARSE.split()), strict=True)
    lines = [
        line.format(n=n, w=word, h=head, r=relation) for n, (word, (head, relation)) in enumerate(pairs, 1)
    ]
    assert extract("\n".join(lines), TREE, context=" ".join(WORDS)).rule == "unparseable"


def test_text_without_end_is_bounded() -> None:
    assert len(answer("NOUN " * 10_000).split()) <= len(WORDS) + 100


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        ("3.4", "3.4"),
        ("Answer: 2,5", "2.5"),
        ("4.5/5", "4.5"),
        ("I would rate them 4.5 out of 5.", "4.5"),
        ("On a scale from 1 to 5, the sentences are related: 3", "3"),
        ("Score: 3.5\nSentence 1 says more than sentence 2.", "3.5"),
        ('{"score": 3.5}', "3.5"),
        ("-1", "-1"),
        ("1e-05", "1e-05"),  # as Python writes 0.00001
        (".5", ".5"),
    ],
)
def test_numbers(raw: str, number: str) -> None:
    assert extract(raw, AnswerForm("number")).answer == number


@pytest.mark.parametrize(
    "raw",
    [
        "They are related.",
        "Either 3 or 4.",
        "from 1 to 5",
        "Because 2 of 3 differ, 4.",
        "I'd say 4, because both mention 2 boys.",
    ],
)
def test_texts_without_one_number(raw: str) -> None:
    assert extract(raw, AnswerForm("number")).rule.endswith("unparseable")


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.sampled_from("12345 :/|\n[]{}\"',.ANOUNDETx-_"), max_size=80),
    st.sampled_from([TAGS, ANY, TREE]),
)
def test_it_never_raises(raw: str, form: AnswerForm) -> None:
    extract(raw, form, context=" ".join(WORDS))
    find_items(raw, form.kind, form.labels, WORDS)
    find_number(raw)


@pytest.mark.parametrize("form", [AnswerForm("number"), TAGS, TREE, TASKS["woz.en"].answer_form])
@pytest.mark.parametrize("unit", [" ", "\t", "3", "/", "-", "3 ", " /", "1 "])
def test_time_is_linear(form: AnswerForm, unit: str) -> None:
    """20,000 repeated characters took 4 CPU seconds or more before. The limit is one second."""
    for before, after in (("3", "x"), ("x", "3"), ("1 ", "ADP")):
        begin = time.process_time()
        extract(before + unit * (20_000 // len(unit)) + after, form, "?", context=" ".join(WORDS))
        assert time.process_time() - begin < 1


@pytest.mark.parametrize("between", [" – ", ": ", " -> ", " ", " (", " | "])
@pytest.mark.parametrize("mark", ["**", "`", '"', "_"])
def test_words_in_marks_before_their_tags(mark: str, between: str) -> None:
    unit = f"{mark}{{w}}{mark}{between}{{t}}{')' if between == ' (' else ''}"
    for line in (unit, f"- {unit}"):
        assert answer(numbered(GOLD, line)) == GOLD


def test_words_in_marks_with_remarks_on_their_tags() -> None:
    raw = "**From** – ADP (adposition)\n**the** – DET (determiner)\n**AP** – PROPN (proper noun)\n"
    assert (
        answer(raw + "**comes** – VERB (verb)\n**15** – NUM (numeral)\n**:** – PUNCT (punctuation)") == GOLD
    )


def test_numbers_that_are_words_give_no_places() -> None:
    assert extract("**15** – NUM", TAGS, context=" ".join(WORDS)).rule == "unparseable"


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("2:nummod 3:nummod 0:root", "2:nummod 3:nummod 0:root"),
        ("1 2 2:nummod\n2 3 3:nummod\n3 o 0:root", "2:nummod 3:nummod 0:root"),
    ],
)
def test_a_word_that_is_the_number_of_its_head(raw: str, found: str) -> None:
    """Before, the gold parses of five sentences in UD EWT were misread: `5:nummod` for the word 5 became `nummod`."""
    assert answer(raw, TREE, ["2", "3", "o"]) == found


@pytest.mark.parametrize(
    ("raw", "found"), [("02 the DET", "_ DET"), ("2. the: DET", "_ DET"), ("1 ADP", "ADP")]
)
def test_a_single_line_with_its_number_and_word(raw: str, found: str) -> None:
    assert answer(raw) == found


@pytest.mark.parametrize(
    ("text", "scale", "number"),
    [
        ("1,500", None, "1500"),
        ("1,500", (0.0, 20_000.0), "1500"),
        ("3,5", (1.0, 5.0), "3.5"),
        ("1,000,000", (1.0, 5.0), "1000000"),
        ("12,345.67", None, "12345.67"),
        ("The score is \u22122.5", None, "-2.5"),
        ("1,2,3", None, None),
        ("1.234,56", (0.0, 5000.0), None),
        ("4.5,3.5", None, None),
        ("0,500", (0.0, 1000.0), "0.500"),
    ],
)
def test_commas_and_minus_signs(text: str, scale: tuple[float, float] | None, number: str | None) -> None:
    """Before, 1,500 was read as 1.5, and a minus sign was dropped."""
    assert find_number(text, scale) == number


@pytest.mark.parametrize(
    ("text", "scale", "number"),
    [
        ("3/5", (0, 5), "3"),
        ("3/10", (0, 5), None),
        ("On a scale of 1 to 10, it is 4", (0, 5), None),
        ("On a scale from 0 to 5, it is 4", (0, 5), "4"),
        ("12/05/2020", (0, 100), None),
        ("1.5 million", (0, 1e9), None),
        ("\u20133", (-5, 5), "-3"),  # typographic: an en dash, and a minus sign
        ("\u22123.2", (-5, 5), "-3.2"),
        ("minus 4", (-5, 5), "-4"),
        ("It is negative 4.", (-5, 5), "-4"),
        ("3-4", (0, 5), None),
        ("3\u20134", (0, 5), None),
        ("They mention 2 dogs.\nI would say 4", (0, 5), None),
        ("4\nBoth mention 2 dogs.", (0, 5), "4"),
        ("I would say 4.\nSo it is 4", (0, 5), "4"),
    ],
)
def test_a_number_keeps_its_sign_and_its_size(
    text: str, scale: tuple[float, float] | None, number: str | None
) -> None:
    assert find_number(text, scale) == number
