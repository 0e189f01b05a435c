"""The protocol `tag`: the last tag outside the reasoning, else a text that is itself an answer, else unparseable."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from decabench.prompts import extract, load_template, make_prompting, settle_form, show
from decabench.tasks import AnswerForm
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
        ("The review is positive.", "positive", "label"),
        ("The review isn't positive.", "", "unparseable"),
        ("Is this review positive?", "", "unparseable"),
        ("The plot is positive.", "", "unparseable"),
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


@pytest.mark.parametrize(
    ("text", "question", "label"),
    [
        ("Adam would have lost.", "Who would have lost? Bob or Adam?", "Adam"),
        ("<answer>Adam would have lost.</answer>", "Who would have lost? Bob or Adam?", "Adam"),
        ("Adam already speaks French.", "Who was eager to speak French? Sam or Adam?", None),
        ("Bob was ahead, so Adam would have lost.", "Who would have lost? Bob or Adam?", None),
        ("Adam was not eager.", "Who was not eager? Sam or Adam?", None),
    ],
)
def test_a_label_may_be_in_a_sentence_that_repeats_the_question(text, question, label):
    assert read("schema", text, question)[0] == (label or "")


def test_a_sentence_is_not_made_of_words_that_the_question_quotes():
    question = 'Hypothesis: "It is hard to say that it is false." -- entailment, neutral, or contradiction?'
    assert read("snli", "Entailment is hard to say.", question)[0] == ""
    assert read("snli", "The hypothesis is neutral.", question)[0] == "neutral"


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
        ("woz.en", "phone: needed", ""),
        ("woz.en", "<answer>food: thai, phone: requested</answer>", ""),
        ("woz.en", "<answer>food: thai, address: address</answer>", ""),
    ],
)
def test_queries_and_states(task, text, answer):
    assert read(task, text)[0] == answer


POS = "ADP DET PROPN VERB DET NOUN PUNCT"
WORDS = "From the AP comes this story :"
QUERY = "SELECT a FROM table WHERE b = 42"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # the second tag replaces the first only if the text says so
        ("<answer>negative</answer> Wait: <answer>positive", "positive"),
        ("<answer>positive</answer> or <answer>negative</answer>", ""),
        ("If it is sincere, <answer>positive</answer>; else <answer>negative</answer>", ""),
        ("Use <answer>your answer</answer>. <answer>positive</answer>", "positive"),
        # withdrawn in prose
        ("<answer>positive</answer>\n\nWait, it mocks the film, so it is negative.", ""),
        ("<answer>positive</answer>\nAnswer: negative", ""),
        ("<answer>positive</answer>\n\nBut wait, it mocks the film.", ""),
        ("<answer>positive</answer>\n\nIt mocks the film, so the label is negative.", ""),
        ("<answer>positive</answer>\n\nIt mocks the film. The review is negative.", ""),
        ("<answer>positive</answer>\n\nIt is not negative.", "positive"),
        ("<answer>positive</answer>\n\n- Negative: nothing\n- Positive: the cast", "positive"),
        ("<answer>positive</answer>\nLabels: negative, positive", "positive"),
        ("<answer>positive</answer>\n\nSorry, I meant negative.", ""),
        ("<answer>positive</answer>\nThe actors actually try.", "positive"),
        # denied in the words before it
        ("It is not <answer>positive</answer>.", ""),
        ("The opposite of <answer>positive</answer>", ""),
        ("It is not clearly **<answer>positive</answer>**", ""),
        ("I would not say <answer>positive</answer>", ""),
        ("**Wrong:** <answer>positive</answer>", ""),
        ("It is neither <answer>positive</answer> nor dull.", ""),
        ("I can rule out <answer>positive</answer>.", ""),
        # in a condition, or in someone else's words
        ("If it were sincere, I'd write <answer>positive</answer>, but it mocks the film.", ""),
        ("I would answer <answer>positive</answer> only if it were sincere.", ""),
        ("Only if it is sincere: <answer>positive</answer>", ""),
        ("Unless it mocks the film:\n**<answer>positive</answer>**", ""),
        ("If I have to choose: <answer>negative</answer>", "negative"),
        ("Unless it is a joke, in which case <answer>positive</answer>, I can't say.", ""),
        ("Had it praised the plot, <answer>positive</answer> would be right.", ""),
        ("One might say <answer>positive</answer>. That would be a mistake.", ""),
        ("I would have said <answer>positive</answer> at first sight.", ""),
        ("If I have to choose, <answer>negative</answer>.", "negative"),
        ("Even if the plot is thin, <answer>positive</answer>", "positive"),
        ("If it is a joke, it is a bad one, so <answer>negative</answer>", "negative"),
        ("I would say <answer>negative</answer>.", "negative"),
        ("Who would laugh if it stopped? <answer>negative</answer>", "negative"),
        # contradicted later
        ("<answer>positive</answer>, while the second half makes it negative.", ""),
        ("<answer>positive</answer> or negative", ""),
        ("<answer>negative</answer> because the tone is not positive.", "negative"),
        ("<answer>negative</answer>, although the acting gets a positive mention.", "negative"),
        ("<answer>negative</answer>\nThis is not a positive review: the answer is negative.", "negative"),
        # part of a sentence that goes on
        ("<answer>positive</answer> is wrong.", ""),
        ("A child might say <answer>positive</answer>, but the critic doesn't.", ""),
        ("<answer>positive</answer>? Hardly.", ""),
        ("My answer is **<answer>positive</answer>**.", "positive"),
        ("<answer>positive</answer> (It praises the cast.)", "positive"),
        # but not in other sentences, or on other lines
        ("The plot is not bad: <answer>positive</answer>", "positive"),
        ("The film is not good\n<answer>negative</answer>", "negative"),
        ("- Tone: not positive\n\n<answer>negative</answer>", "negative"),
        ("Does it work? It does not\n\n<answer>negative</answer>", "negative"),
        ("Everything about it is wrong\r\n<answer>negative</answer>", "negative"),
        ("There is something wrong: <answer>negative</answer>", "negative"),
        # another example that the model invents
        ("<answer>positive</answer>\n\nReview: Dull.\nAnswer: <answer>negative</answer>", "positive"),
        ("<answer>positive</answer>\nUser: And this?\n<answer>negative</answer>", "positive"),
        # a label that is struck out
        ("<answer>~~positive~~</answer>", ""),
        ("<answer>❌ positive</answer>", ""),
        ("<answer>☐ positive</answer>", ""),
        # with an introduction
        ("Final Answer: **positive**", "positive"),
        ("The answer is positive.", "positive"),
        ("The answer is not positive.", ""),
        ("Sentiment: Positive", "positive"),
        ("(b) positive", "positive"),
        ('```json\n{"sentiment": "positive", "confidence": 0.9}\n```', "positive"),
        ("<answer>$\\boxed{positive}$</answer>", "positive"),
        # with only one of the two tags
        ("positive</answer>", "positive"),
        ("I would say positive</answer>", ""),
        ("<answer>positive<answer>", "positive"),
        ("<answer>positive 👎</answer>", ""),
        ("<answer>~positive</answer>", ""),
        ("- [ ] positive", ""),
    ],
)
def test_several_tags_and_withdrawn_answers(text, answer):
    assert read("sst", text, SST)[0] == answer


@pytest.mark.parametrize(
    "text",
    [
        f'<answer id="1">{QUERY}</answer>',
        f"< Answer >{QUERY}</ ANSWER >",
        f"<answer>{QUERY}</answer",
        f"<answer>{QUERY}</answer\n",
    ],
)
def test_a_tag_may_have_attributes_spaces_and_an_unfinished_end(text):
    assert read("wikisql", text) == (QUERY, "tag")


def test_a_prompt_that_opened_the_tag_is_answered_by_the_first():
    text = " positive</answer>\n\nReview: Dull.\nAnswer: <answer>negative</answer>"
    assert read("sst", text, SST, is_opened=True)[0] == "positive"


@pytest.mark.parametrize(
    ("task", "text", "is_opened"),
    [
        ("squad", "Denver", False),
        ("squad", "Denver", True),
        ("wikisql", "SELECT a FROM table WHERE b", True),
        ("woz.en", "food: thai, area: so", False),
        ("sick.relatedness", "4", False),
        ("sst", "<answer>positive</answer> No: <answer>neg", False),
        ("ud.pos", "1 The DET\n2 AFC PROPN\n3 champion NOU", False),
        ("ud.pos", " DET PROPN NOUN PRO", True),
    ],
)
def test_a_text_that_was_cut_off_is_no_answer(task, text, is_opened):
    assert read(task, text, SST, SQUAD, "length", is_opened)[0] == ""


@pytest.mark.parametrize(
    ("inner", "answer"),
    [
        ("Answer: Denver Broncos", "Denver Broncos"),
        ('{"answer": "Denver Broncos"}', "Denver Broncos"),
        ('{"span": "Denver Broncos"}', "Denver Broncos"),
        ('{"reason": "Denver Broncos"}', ""),
        ('{"answer": "Denver Broncos", "span": [17, 31]}', "Denver Broncos"),
        ("\\boxed{Denver Broncos}", "Denver Broncos"),
        ("$\\boxed{\\text{Denver Broncos}}$", "Denver Broncos"),
        ("&quot;Denver Broncos&quot;", "Denver Broncos"),
        ("&ldquo;Denver Broncos&rdquo;", "Denver Broncos"),
        ("Denver&#xA0;Broncos", "Denver\u00a0Broncos"),
        ("Denver\u200b Broncos", "Denver Broncos"),
        ("24-10", "24\u201310"),
        ("Carolina Panthers / Denver Broncos", ""),
        ("“Denver Broncos”", "Denver Broncos"),
        ("Denver Broncos\nExplanation: the champion", ""),
        ("1. Denver Broncos\n2. Carolina Panthers", ""),
        ("Sure! Here is the answer: Denver Broncos", ""),
        ("[insert answer here]", ""),
        ("The answer is Denver Broncos.", "Denver Broncos"),
        ("The answer is not in the passage.", ""),
        ("The Denver Broncos.", "Denver Broncos"),
        ("- Denver Broncos", "Denver Broncos"),
        ("?", ""),
        (".", ""),
        ("Denver Broncos [1]", ""),
        ("**Denver** Broncos", ""),
        ("Denver Broncos. They won the title.", ""),
        ("Carolina Panthers. Wait, Denver Broncos", ""),
        ("Carolina \u2192 Denver Broncos", ""),
    ],
)
def test_a_span_has_nothing_around_it(inner, answer):
    assert read("squad", f"<answer>{inner}</answer>", "Who?", SQUAD)[0] == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>The cat sat down. = Die Katze saß.</answer>", ""),
        ("<answer>The cat sat down.\nDie Katze saß.</answer>", ""),
        ("<answer>Die Katze saß.\nTranslation: x</answer>", ""),
        ("<answer>Die Katze saß.\nThe cat was sitting.</answer>", ""),
        ("<answer>Die Katze saß. (wörtlich: setzte sich)</answer>", ""),
        ("<answer>Die Katze saß\nHope this helps</answer>", ""),
        ("<answer>Auf Deutsch: Die Katze saß.</answer>", ""),
        ("<answer>The translation is: Die Katze saß.</answer>", "Die Katze saß."),
        ("<answer>**Die Katze saß.**</answer>", "Die Katze saß."),
        ("<answer>Die Katze saß. / Die Katze setzte sich.</answer>", ""),
        ("<answer>Die Kat\u00adze saß.</answer>", "Die Katze saß."),
        ('{"translation": "Die Katze saß."}', "Die Katze saß."),
        ('{"error": "Die Katze saß."}', ""),
        ("I would translate it as: Die Katze saß.</answer>", ""),
        ("<answer>Die Katze sa&szlig;.</answer>", "Die Katze saß."),
        ("<answer>- Die Katze saß.</answer>", ""),
        ("<answer>Die Katze saß.\nSentence: Next.", "Die Katze saß."),
        ("<answer>Die Katze,\ndie saß</answer>", "Die Katze, die saß"),
        ("<answer>The cat sat down.</answer>", "The cat sat down."),
    ],
)
def test_a_translation_has_no_source_or_heading_next_to_it(text, answer):
    assert read("iwslt.en.de", text, context="The cat sat down.")[0] == answer


def test_a_translation_may_have_the_lines_and_brackets_of_its_source():
    assert read("iwslt.en.de", "<answer>Ja.\nNein.</answer>", context="Yes.\nNo.")[0] == "Ja. Nein."
    assert (
        read("iwslt.en.de", "<answer>Ja. (Lachen)</answer>", context="Yes. (Laughter)")[0] == "Ja. (Lachen)"
    )


def test_a_summary_is_not_a_list():
    assert read("cnn_dailymail", "<answer>Khan won .\n\n(Word count: 3)</answer>")[0] == ""
    assert (
        read("cnn_dailymail", "<answer>Khan won .\nHe fights again .</answer>")[0]
        == "Khan won . He fights again ."
    )
    assert read("cnn_dailymail", "<answer>1. Khan won .\n2. He fights again .</answer>")[0] == ""


@pytest.mark.parametrize(
    "said", ["The director is not mentioned.", "It is unanswerable", "unanswerable or Bob"]
)
def test_a_sentence_is_not_unanswerable(said):
    assert read("zre", f"<answer>{said}</answer>", "Who?", "A film.")[0] == ""


@pytest.mark.parametrize("task", ["squad", "zre"])
@pytest.mark.parametrize("said", ["N/A", "None", "not mentioned", "The text does not say."])
def test_a_span_that_says_nothing_is_no_answer(task, said):
    assert read(task, f"<answer>{said}</answer>", "Who?", SQUAD) == ("", "tag+no-answer+unparseable")
    assert read(task, f"<answer>{said}</answer>", "Who?", f"It reads: {said}")[0] == said


@pytest.mark.parametrize("space", [" ", "\n", "\n\n"])
def test_a_text_that_does_not_say_is_unanswerable(space):
    said = f"The text does not say{space}<answer>unanswerable</answer>"
    assert read("zre", said, "Who?", "A film.") == ("unanswerable", "tag")


@pytest.mark.parametrize(
    ("task", "first", "second"),
    [
        ("sst", "positive", "negative"),
        ("squad", "Carolina Panthers", "Denver Broncos"),
        ("woz.en", "food: thai;", "food: greek;"),
        ("wikisql", "SELECT a FROM table", "SELECT b FROM table"),
        ("iwslt.en.de", "Wir gingen", "Wir gehen"),
        ("cnn_dailymail", "Khan won .", "Khan lost ."),
    ],
)
def test_two_answers_are_none(task, first, second):
    for text in (
        f"<answer>{first}</answer>\nFinal answer: {second}",
        f"<answer>{first}</answer>\n\n**The correct answer is: {second}**",
        f"<answer>{first}\nFinal answer: {second}</answer>",
        f"{first}\nFinal answer: {second}",
        json.dumps({"answer": first, "?": second}).replace("?", "answer"),
        f"<answer>{json.dumps({'answer': first, '?': second}).replace('?', 'answer')}</answer>",
    ):
        assert read(task, text, SST, SQUAD)[0] == ""
    assert read(task, f"<answer>{first}</answer>\nFinal answer: {first}", SST, SQUAD)[0] == first


def test_markup_and_quotation_marks_of_the_context_belong_to_the_answer():
    assert (
        read("squad", "<answer><b>Denver</b></answer>", "Who?", "The <b>Denver</b> team")[0]
        == "<b>Denver</b>"
    )
    assert read("iwslt.en.de", '<answer>"Ja."</answer>', context='"Yes."')[0] == '"Ja."'
    assert read("iwslt.en.de", '<answer>"Ja."</answer>', context="Yes.")[0] == "Ja."
    assert read("srl", "<answer>“Ja”</answer>", "What?", "She said “Ja”.")[0] == "“Ja”"
    assert read("srl", "<answer>“Ja”</answer>", "What?", "She said Ja.")[0] == "Ja"


def test_digits_of_other_scripts_are_numbers():
    for protocol in ("tag", "prose"):
        found = extract("\uff14.\u0665", AnswerForm("number"), protocol=protocol)
        assert found.answer == "4.5"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": 1.50}', "1.50"),
        ('{"answer": NaN}', ""),
        ('{"answer": "I\'m sorry, but I can\'t help with that."}', ""),
    ],
)
def test_json_values_keep_their_digits(text, answer):
    assert read("squad", text, "Who?", SQUAD)[0] == answer


@pytest.mark.parametrize(
    ("constraints", "requests", "answer"),
    [
        ({"food": "thai", "area": ""}, ["phone"], "food: thai; phone"),
        ({"food": "thai", "area": None}, [], "food: thai;"),
        ({}, [], "None"),
        ({"food": "thai; phone"}, [], ""),
        ({"food": ["thai", "greek"]}, [], ""),
        ({"food": "thai"}, "phone", ""),
    ],
)
def test_states_in_json(constraints, requests, answer):
    value = {"answer": {"constraints": constraints, "requests": requests}}
    assert read("woz.en", json.dumps(value))[0] == answer


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("food: thai\narea: south", "food: thai, area: south;"),
        ("- **food:** thai\n- **area:** south", "food: thai, area: south;"),
        ("food=thai, area=south;", "food: thai, area: south;"),
        ("food: thai; area: south;", "food: thai, area: south;"),
        ("food: thai;\nphone, address", "food: thai; phone, address"),
        ("pricerange: cheap; None", "price range: cheap;"),
        ("Constraints: food: thai; Requests: phone", "food: thai; phone"),
        ("Constraints:\n- food: thai\n\nRequests: none", "food: thai;"),
        ('{"price_range": "cheap", "area": "south"}', "price range: cheap, area: south;"),
        ('{"requests": ["phone"]}', "; phone"),
        ('{"food": "thai", "requests": ["phone"]}', "food: thai; phone"),
        ('{"answer": "food: thai;"}', "food: thai;"),
        ("phone, address", "; phone, address"),
        ("area", ""),
        ("food: thai, phone", ""),
        ("food: thai; food", "food: thai; food"),
        ("No change.", "None"),
        (";", "None"),
        ("Thai food", ""),
    ],
)
def test_a_state_may_have_another_layout(text, state):
    for said in (text, f"<answer>{text}</answer>"):
        assert read("woz.en", said)[0] == state


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3.6/5", "3.6"),
        ("3.6 out of 5", "3.6"),
        ("Score: 3,6", "3.6"),
        ("**3.6**", "3.6"),
        ("3.6/10", ""),
        ("3-4", ""),
        ("> 3", ""),
        ("72%", ""),
        ("4%", ""),
        ("3.6 points", ""),
        ("-3", ""),
    ],
)
def test_a_number_may_state_its_scale(text, number):
    for said in (text, f"<answer>{text}</answer>"):
        assert read("sick.relatedness", said)[0] == number
    assert extract("3/4", AnswerForm("number"), protocol="tag").answer == ""


@pytest.mark.parametrize("said", ["not mentioned", "n/a", "-", "unspecified", "TBD", "value"])
def test_words_for_no_value_and_repeated_slots_are_no_state(said):
    assert read("woz.en", f"<answer>food: thai, area: {said};</answer>")[0] == ""
    assert read("woz.en", "<answer>food: thai, food: greek;</answer>")[0] == ""


@pytest.mark.parametrize(
    ("inner", "answer"),
    [
        (f"```sql\n{QUERY};\n```", QUERY),
        ("SELECT a\nFROM table\nWHERE b = 42", QUERY),
        (f"SQL: {QUERY}", QUERY),
        (f"{QUERY} -- the answer", ""),
        (f"{QUERY} (a number)", ""),
        (f"{QUERY} => 12", ""),
        (f"{QUERY}; this selects a", ""),
        ("SELECT a FROM table WHERE b &lt; 42", "SELECT a FROM table WHERE b < 42"),
        ("SELECT a FROM table WHERE b = 26\u20119", "SELECT a FROM table WHERE b = 26-9"),
        (json.dumps({"sql": QUERY}), QUERY),
        ("Select the players from the table", ""),
        ("SELECT a FROM table\\nWHERE b = 42", ""),
        (f"{QUERY}. This query selects a.", ""),
        ("Select the players", ""),
        (f"{QUERY}\nThis query selects a.", ""),
    ],
)
def test_a_tag_has_a_single_query_without_comments(inner, answer):
    assert read("wikisql", f"<answer>{inner}</answer>")[0] == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>" + "</answer> <answer>".join(POS.split()) + "</answer>", ""),
        (json.dumps({"answer": POS}), POS),
        (json.dumps({"answer": [POS]}), POS),
        (json.dumps({"answer": list(map("/".join, zip(WORDS.split(), POS.split(), strict=True)))}), POS),
        (json.dumps({"answer": [[word, "NOUN"] for word in WORDS.split()]}), ""),
        (json.dumps({"answer": [None, *POS.split()[1:]]}), ""),
        (f"<answer>{json.dumps(dict(enumerate(POS.split())))}</answer>", POS),
        ("\n".join(f"{at} {tag}" for at, tag in enumerate(POS.split())), POS),
        (f"<answer>{json.dumps(WORDS.split())}</answer>", ""),
        ('<answer>{"nouns": ["AP", "story"]}</answer>', ""),
        (f"<answer>Tags: {POS}</answer>", POS),
        ("ADP", ""),
        (f"<answer>{POS}\nWait, AP is a noun.</answer>", ""),
        (json.dumps({"answer": ["ADP DET", "PROPN VERB", "DET NOUN PUNCT"]}), ""),
        ("<answer>From: ADP\nstory: NOUN\nAP: PROPN :</answer>", ""),
    ],
)
def test_lists_of_tags(text, answer):
    assert read("ud.pos", text, context=WORDS)[0] == answer


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
