"""Tags, heads and numbers in a model's text: placed by number, by order, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decabench.prompts.extraction import extract
from decabench.prompts.sequences import find_items, find_number
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
        "1 ADP 2 DET 3 PROPN 4 VERB 5 NUM 6 PUNCT",
        "1:ADP, 2:DET, 3:PROPN, 4:VERB, 5:NUM, 6:PUNCT",
        "1 From ADP 2 the DET 3 AP PROPN 4 comes VERB 5 15 NUM 6 : PUNCT",
        "From/ADP the/DET AP/PROPN comes/VERB 15/NUM :/PUNCT",
        '["ADP", "DET", "PROPN", "VERB", "NUM", "PUNCT"]',
        '{"tags": ["ADP", "DET", "PROPN", "VERB", "NUM", "PUNCT"]}',
        '{"1": "ADP", "2": "DET", "3": "PROPN", "4": "VERB", "5": "NUM", "6": "PUNCT"}',
        '[["From", "ADP"], ["the", "DET"], ["AP", "PROPN"], ["comes", "VERB"], ["15", "NUM"], [":", "PUNCT"]]',
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
def test_what_is_wrong_stays_where_it_is(raw: str, found: str) -> None:
    assert answer(raw) == found


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("1 From 3:case\n2 the 99:det\n3 AP 0:root", "3:case 99:det 0:root"),
        ("1 From 3 case\n2 the 3, det\n3 AP root", "3:case 3:det root"),
        ("1 From head 3 nmod:poss", "From"),
    ],
    ids=["outside the sentence", "other spellings", "one line"],
)
def test_heads_that_are_wrong_stay(raw: str, found: str) -> None:
    assert answer(raw, TREE).split()[: len(found.split())] == found.split() or found == "From"


@pytest.mark.parametrize(
    "raw", ["I am sorry, but I cannot tag this sentence.", "The sentence has six words in it."]
)
def test_prose_is_unparseable(raw: str) -> None:
    assert extract(raw, TAGS, context=" ".join(WORDS)).rule.split("+")[-1] in ("unparseable", "refused")


def test_text_without_end_is_bounded() -> None:
    assert len(answer("NOUN " * 10_000).split()) <= len(WORDS) + 100


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        ("3.4", "3.4"),
        ("**4**", "4"),
        ("Answer: 2,5", "2.5"),
        ("4.5/5", "4.5"),
        ("I would rate them 4.5 out of 5.", "4.5"),
        ("On a scale from 1 to 5, the sentences are related: 3", "3"),
        ("Score: 3.5\nSentence 1 says more than sentence 2.", "3.5"),
        ('{"score": 3.5}', "3.5"),
        ("They differ.\nRating: 2", "2"),
        ("-1", "-1"),
    ],
)
def test_numbers(raw: str, number: str) -> None:
    assert extract(raw, AnswerForm("number")).answer == number


@pytest.mark.parametrize("raw", ["They are related.", "Either 3 or 4.", "from 1 to 5"])
def test_texts_without_one_number(raw: str) -> None:
    assert extract(raw, AnswerForm("number")).rule.endswith("unparseable")


@settings(max_examples=200, deadline=None)
@given(
    st.text(st.sampled_from("12345 :/|\n[]{}\"',.ANOUNDETx-_"), max_size=80),
    st.sampled_from([TAGS, ANY, TREE]),
)
def test_it_never_raises(raw: str, form: AnswerForm) -> None:
    extract(raw, form, context=" ".join(WORDS))
    find_items(raw, form.kind, form.labels, WORDS)
    find_number(raw)
