"""Outputs of chat models for each task. Each text is scored as a person would score it, or is unparseable.

None marks texts without a clear answer. They must never become a label, a state
or a query that the model did not choose.
"""

from __future__ import annotations

from functools import cache

import pytest

from decabench.prompts import extract
from decabench.prompts.messages import make_prompting
from decabench.prompts.templates import load_template
from decabench.tasks.registry import TASKS
from decabench.tasks.wording import AnswerForm

SST = "Is this review negative or positive?"
NLI = 'Hypothesis: "The man sleeps." -- entailment, neutral, or contradiction?'
WHO = "Who is hurt? Bob or Charlie?"

Case = tuple[str, str | None]

REVIEWS: list[Case] = [
    (
        "positive\n\nReview: A bore.\nQuestion: Is this review negative or positive?\nAnswer: negative",
        "positive",
    ),
    ("Positive\n\nReview: A bore.\nAnswer: negative\n\nReview: Fun.\nAnswer: positive", "positive"),
    ("positive<|im_end|>\n<|im_start|>user\nnegative", "positive"),
    (
        "Review: A positive delight that bores.\nQuestion: Is this review negative or positive?\nAnswer: negative",
        "negative",
    ),
    ("Review: A positive delight that bores.", None),
    ("Sentiment: **Negative**\n\nThe reviewer dislikes the positive spin.", "negative"),
    ("```\nnegative\n```", "negative"),
    ('```json\n{"sentiment": "negative", "confidence": 0.93}\n```', "negative"),
    ('{"reasoning": "It is not negative.", "label": "positive"}', "positive"),
    ('{"answer": "posit', None),
    ("<answer>positive</answer>", "positive"),
    ("<answer>\nnegative", "negative"),
    ("This review is **positive**.", "positive"),
    ("\\boxed{\\text{negative}}", "negative"),
    ("(B) positive", "positive"),
    ("Option A: negative", "negative"),
    ("Option A", None),
    ('The words "a delight" praise the film.\n\nSo the review is positive.', "positive"),
    ("The review praises the cast but calls the plot dull.\n\n**Answer: negative**", "negative"),
    ("Reasoning: it praises the cast.\nLabel: positive", "positive"),
    ("I don't think this review is really all that positive.", None),
    ("The review is far from positive.", None),
    ("It is not positive at all", None),
    ("It lacks anything positive.", None),
    ("Neither negative nor positive; it is neutral.", None),
    ("mixed", None),
    ("Both positive and negative", None),
    ("Positive: 0.2\nNegative: 0.8", None),
    ("Positive: no. Negative: yes.", None),
    ("At first glance this seems positive.", None),
    ("negative\n\nWait, the last clause praises it. The answer should be positive.", None),
    ("Whether this is positive depends on the reader.", None),
    ("positive 😊", "positive"),
    ("“negative”", "negative"),
    ("Is this review negative or positive? Positive.", "positive"),
    ("Sure! positive", "positive"),
    ("negative\n\nI hope this helps!", "negative"),
    ("<think>It could be negative. No: positive", None),
    ("positive, because nothing in it is negative", "positive"),
    ("Answer: positive (confidence: high)", "positive"),
    ("While the first half is positive, the ending is a letdown.", None),
    ("It's hard to call this positive.", None),
    ("The reviewer wanted it to be positive.", None),
    ("- [x] positive\n- [ ] negative", "positive"),
    ("Text: A bore.\nSentiment: negative\n\nText: Fun.\nSentiment: positive", None),
    ("The reviewer has nothing negative to say.", None),
    ("less negative", None),
    ("The label would be negative if not for the ending", None),
    ("It could be negative.", None),
    ("Well, no negative aspects, thus positive.", None),
    ("Not positive but negative", None),
    ("The review is positive. The review is not positive.", None),
    ("It is anything but positive.", None),
    ("The answer is positive, not negative.", "positive"),
    ("Initially I thought negative.\nBut on reflection, positive.", "positive"),
    ("I don't think that, on the whole, the review is positive", None),
]

PREMISES: list[Case] = [
    (
        'neutral\n\nPremise: A dog runs.\nHypothesis: "It sleeps." -- entailment?\nAnswer: contradiction',
        "neutral",
    ),
    ("### Answer\nentailment", "entailment"),
    ("The relationship is **entailment**.", "entailment"),
    ("C) contradiction", "contradiction"),
    ("$$\\boxed{\\mathrm{neutral}}$$", "neutral"),
    ('```json\n{\n  "explanation": "No contradiction.",\n  "answer": "entailment"\n}\n```', "entailment"),
    ('{"entailment": 0.1, "neutral": 0.2, "contradiction": 0.7}', None),
    ("entailment: 0.1\nneutral: 0.2\ncontradiction: 0.7", None),
    (
        "The premise says he runs, so he cannot be asleep. Therefore, the answer is contradiction.",
        "contradiction",
    ),
    ("The premise says he runs.\n\nTherefore, the hypothesis is a contradiction.", "contradiction"),
    ("An entailment would require the premise to say so.", None),
    ("For entailment, the premise must say that he sleeps.", None),
    ("It does not contradict the premise, nor is it an entailment.", None),
    ("It is neither an entailment nor a contradiction, so the answer is neutral.", "neutral"),
    ("There is no contradiction here.", None),
    ("This isn't necessarily an entailment.", None),
    ("If he were asleep, it would be an entailment.", None),
    ("contradiction\n\nExplanation: an entailment would need the same action.", "contradiction"),
    ("Neutral\n\n**Explanation:** The premise neither supports nor refutes it.", "neutral"),
    ("It could go either way.", None),
    ('Hypothesis: "The man sleeps." -- entailment, neutral, or contradiction?\nAnswer: neutral', "neutral"),
    ("I considered entailment first.\nBut the premise leaves it open.", None),
    ("The hypothesis would be an entailment only with more facts.", None),
    ("Options: (A) entailment (B) neutral (C) contradiction\nAnswer: (B)", None),
    (
        "<|channel|>analysis<|message|>contradiction?<|end|><|start|>assistant<|channel|>final<|message|>neutral<|return|>",
        "neutral",
    ),
    ("<|channel|>analysis<|message|>It is a contradiction", None),
    ("1. neutral", "neutral"),
    ("The hypothesis is entailment.\n\nActually, wait: it is a contradiction.", None),
    ("Neither entailment nor contradiction, so neutral.", None),
    ("There is no contradiction, thus entailment", None),
    ("The hypothesis entails the premise.", None),
    ("The hypothesis does not contradict the premise.", None),
    ("The premise entails the hypothesis. The premise contradicts the hypothesis.", None),
    ("Nothing suggests that the premise entails the hypothesis.", None),
    ("The premise neither entails nor contradicts the hypothesis.", None),
]

PRONOUNS: list[Case] = [
    ("Bob\n\nSentence: Ann met Charlie.\nQuestion: Who is met? Ann or Charlie?\nAnswer: Charlie", "Bob"),
    ('The pronoun "he" refers to Bob.', "Bob"),
    ("`Charlie`", "Charlie"),
    ("Option 2: Charlie", "Charlie"),
    ("It is not Charlie.", None),
    ("Both Bob and Charlie", None),
    ("The sentence says that Bob hit Charlie. So Charlie is hurt.\n\nCharlie", "Charlie"),
    ("Bob hit Charlie, which hurts.\n\n**Answer: Charlie**", "Charlie"),
    ("Who is hurt? Bob or Charlie?\nCharlie", "Charlie"),
    ("I cannot determine this from the sentence.", None),
    ("He", None),
    ("Robert", None),
]

KNOCKS: list[Case] = [
    ("Jane got no answer because Susan was out.", None),
    ("Since Jane knocked and there was no answer, Susan was out.", None),
    ("Since Jane knocked on Susan's door and got no answer, Susan was out.", None),
    ("Susan never answered when Jane knocked.", None),
    ("Jane is the one knocking. Susan is out.", None),
    ("Susan didn't open the door for Jane.", None),
    ("Jane tried to visit but failed to find Susan.", None),
    ("Jane, having got no answer, left, so Susan was out", None),
    ("Jane said it was not Susan.", None),
    ("Jane was not out because Susan was.", None),
    ("Nobody answered Jane, as Susan was out.", None),
    ("Susan, not Jane", "Susan"),
    ("Not Jane but Susan", None),
    ("Susan, because Jane knocked.", "Susan"),
    ("Susan was out.", "Susan"),
    ("The person who was out is Susan.", "Susan"),
    ("Jane knocked. There was no answer. So, the answer is Susan.", "Susan"),
    ("Susan is out.", "Susan"),
    ("Jane knocked on Susan's door but she did not answer.", None),
    ("Jane knocked on Susan's door, and the one who was out is Susan.", None),
    ("On Susan's door knocked somebody; it is Susan.", "Susan"),
]

PERMITS: list[Case] = [
    ("The demonstrators were not given a permit because the councilmen feared violence.", None),
    ("The demonstrators did not get a permit, as the councilmen feared violence.", None),
    ("the councilmen", "the councilmen"),
    ("The councilmen feared violence.", "the councilmen"),
]

PASSAGES: list[Case] = [
    ("Denver Broncos\n\nPassage: It rained.\n\nQuestion: What fell?\nAnswer: rain", "Denver Broncos"),
    ("Denver Broncos\nQuestion: Who lost?\nAnswer: Carolina", "Denver Broncos"),
    ("Denver Broncos<|im_end|>", "Denver Broncos"),
    ("<answer>\nDenver Broncos\n</answer>\n\nThey won.", "Denver Broncos"),
    ('```json\n{"answer": "Denver Broncos"}\n```', "Denver Broncos"),
    ('Here is the answer:\n{"span": "Denver Broncos"}', "Denver Broncos"),
    ('["Denver Broncos"]', "Denver Broncos"),
    ('{"answer": 1998}', "1998"),
    ("- Denver Broncos\n- Carolina Panthers", "Denver Broncos, Carolina Panthers"),
    ("Sure! Denver Broncos", "Denver Broncos"),
    ("Sure! Here is the answer: Denver Broncos", "Denver Broncos"),
    ("## Answer\n\nDenver Broncos", "Denver Broncos"),
    ("# Super Bowl 50\n\nDenver Broncos", "Denver Broncos"),
    ("**Answer**\nDenver Broncos", "Denver Broncos"),
    ("The passage names both teams.\n\n**Denver Broncos**", "Denver Broncos"),
    ("\\boxed{\\text{Denver Broncos}}", "Denver Broncos"),
    ("The passage says that they won the game. The answer is: Denver Broncos", "Denver Broncos"),
    ("Let me look at the passage:\nDenver Broncos", "Denver Broncos"),
    ("Denver Broncos\n\nNote: they beat Carolina.", "Denver Broncos"),
    ("[THINK]Carolina?[/THINK]Denver Broncos", "Denver Broncos"),
    ("9. April 2017", "9. April 2017"),
    ("- the cup itself", "- the cup itself"),
    ("1. FC Nürnberg", "1. FC Nürnberg"),
    ("1. January 1990", "1. January 1990"),
    ("1. Denver Broncos\n2. Carolina Panthers", "Denver Broncos, Carolina Panthers"),
    ("Span: Denver Broncos", "Denver Broncos"),
    ('[{"answer": "Denver Broncos"}]', "Denver Broncos"),
    ("{'answer': 'Denver Broncos'}", "Denver Broncos"),
    ("{'answer': 'Denver's team'}", "Denver's team"),
    ('{"answer": {"text": "Denver Broncos", "start": 5}}', "Denver Broncos"),
    ("Output: Denver Broncos", "Denver Broncos"),
    ("The passage states that the Denver Broncos won. Answer: Denver Broncos", "Denver Broncos"),
]

SENTENCES: list[Case] = [
    (
        text.replace("Denver Broncos", "the old man"),
        answer and answer.replace("Denver Broncos", "the old man"),
    )
    for text, answer in PASSAGES
    if "Passage:" not in text and "Carolina Panthers" not in text
]

RELATIONS: list[Case] = [
    ("unanswerable", "unanswerable"),
    ("The sentence does not say.", "unanswerable"),
    ("The sentence doesn't mention who his father was.", "unanswerable"),
    ("Not mentioned in the sentence.", "unanswerable"),
    ("There is no information about it, so the answer is unanswerable.", "unanswerable"),
    ("The question cannot be answered from the sentence.", "unanswerable"),
    ("It is not unanswerable: Columbia Records", "It is not unanswerable: Columbia Records"),
    ('{"answer": "unanswerable"}', "unanswerable"),
    ("Columbia Records", "Columbia Records"),
    ("No Limit Records", "No Limit Records"),
    ("Columbia Records, Epic Records", "Columbia Records, Epic Records"),
    ("- Columbia Records\n- Epic Records", "Columbia Records, Epic Records"),
    ('{"answers": ["Columbia Records", "Epic Records"]}', "Columbia Records, Epic Records"),
    ('["Columbia Records", "Epic Records"]', "Columbia Records, Epic Records"),
    (
        "Columbia Records\n\nSentence: He sang.\nQuestion: What label?\nAnswer: unanswerable",
        "Columbia Records",
    ),
    ('{"answer": null}', "unanswerable"),
    ("There is no mention of the label in the sentence.", "unanswerable"),
    ("The label isn't mentioned in the sentence.", "unanswerable"),
    ("No label is mentioned.", "unanswerable"),
    (
        "The sentence does not name it, but Columbia Records is his label.",
        "The sentence does not name it, but Columbia Records is his label.",
    ),
    (
        "The sentence does not mention his label, but it is Columbia Records.",
        "The sentence does not mention his label, but it is Columbia Records.",
    ),
    ("No Mention Records", "No Mention Records"),
    ("No Answer", "unanswerable"),
    ("Not Given Records", "Not Given Records"),
    ("French: 20 people\nGerman: 40 people", "French: 20 people"),
    ("None", "unanswerable"),
    ("None of the Above Records", "None of the Above Records"),
]

TRANSLATIONS: list[Case] = [
    ("Er lacht.\n\nSentence: She cries.\nTranslation: Sie weint.", "Er lacht."),
    ("**Translation:** Er lacht.", "Er lacht."),
    ("### Translation\n\nEr lacht.", "Er lacht."),
    ("## German\n\nEr lacht.", "Er lacht."),
    ("Sure! Here is the translation: Er lacht.", "Er lacht."),
    ("Sure, here's the German translation:\n\nEr lacht.", "Er lacht."),
    ("Here is the translation of the sentence into German: Er lacht.", "Er lacht."),
    ("Hier ist die Übersetzung:\n\nEr lacht.", "Er lacht."),
    ('Er lacht.\n\n(Note: "lacht" is present tense.)', "Er lacht."),
    ("Er lacht.\n\n**Note:** informal.", "Er lacht."),
    ("1. Er lacht.\n2. Er lächelt.", "Er lacht."),
    ("**Er lacht.**", "Er lacht."),
    ('{"translation": "Er lacht."}', "Er lacht."),
    ('```json\n{"german": "Er lacht."}\n```', "Er lacht."),
    ("<translation>Er lacht.</translation>", "Er lacht."),
    ("„Er lacht“, sagte sie.", "„Er lacht“, sagte sie."),
    ("Sie sagt: „Er lacht.“", "Sie sagt: „Er lacht.“"),
    ("[Freud] sagt, dass er lacht.", "[Freud] sagt, dass er lacht."),
    ("1. FC Köln gewann.", "1. FC Köln gewann."),
    ("The translation is: Er lacht.", "Er lacht."),
    ("Das Problem ist: Wir sind allein.", "Das Problem ist: Wir sind allein."),
    ('[{"translation": "Er lacht."}]', "Er lacht."),
]

SUMMARIES: list[Case] = [
    (
        "A man won. He left.\n\nArticle: It rained.\n\nQuestion: What is the summary?\nSummary: Rain.",
        "A man won. He left.",
    ),
    ("## Summary\n\nA man won. He left.", "A man won. He left."),
    ("# A man wins\n\nA man won. He left.", "A man won. He left."),
    ("Sure! Here is a summary of the article: A man won. He left.", "A man won. He left."),
    ("Here are the key points:\n\n- A man won.\n- He left.", "A man won. He left."),
    ("1. A man won.\n2. He left.", "A man won. He left."),
    ("* A man won.\n* He left.\n\nLet me know if you need more!", "A man won. He left."),
    ("A man won.\nHe left.", "A man won. He left."),
    ("A man won.\n\nHe left.", "A man won. He left."),
    ('{"summary": "A man won. He left."}', "A man won. He left."),
    ('{"summary": ["A man won.", "He left."]}', "A man won. He left."),
    ("<summary>\nA man won. He left.\n</summary>", "A man won. He left."),
    ("# tacocannon trends in omaha .", "# tacocannon trends in omaha ."),
    ("A man won.\nOutput: he left.", "A man won. Output: he left."),
]

TURNS: list[Case] = [
    ("food: thai, area: south; phone, address", "food: thai, area: south; phone, address"),
    ("Constraints: the user wants thai food\nRequests: phone", None),
    ("Price Range: cheap;", "price range: cheap;"),
    ('{"food": "thai", "area": "south"}', "food: thai, area: south;"),
    ("{'food': 'thai'}", "food: thai;"),
    ('{"food": "thai", "mood": "hungry"}', None),
    ('{"food": {"type": "thai"}}', None),
    ('{"food": "thai"', None),
    ("**None**", "None"),
    (
        "food: thai;\n\nTurn: the south\n\nQuestion: What is the change in state?\nAnswer: area: south;",
        "food: thai;",
    ),
    ("The change in state is: food: thai;", None),
    ("food: thai;\n\nExplanation: the user asks for food: thai.", "food: thai;"),
    ("| slot | value |\n|---|---|\n| food | thai |", None),
    ("The user wants a thai restaurant.", None),
    ("food: thai, chinese; phone", None),
    ("Sure! Here is the change:\nfood: thai; phone", "food: thai; phone"),
    ("The state does not change the area.", None),
    ("area: center;", "area: center;"),
    ("food: thai or any;", "food: thai or any;"),
]

QUERIES: list[Case] = [
    ("SELECT name FROM table WHERE year = 1998", "SELECT name FROM table WHERE year = 1998"),
    (
        "SELECT name FROM table\n\nThe table has columns a and key words b -- c?\nSQL: SELECT a FROM table",
        "SELECT name FROM table",
    ),
    ("SELECT name FROM table;<|im_end|>", "SELECT name FROM table"),
    ("```sql\nSELECT name\nFROM table\nWHERE year = 1998;\n```", "SELECT name FROM table WHERE year = 1998"),
    (
        "Here is the query:\n\n```sql\nSELECT name FROM table;\n```\n\nIt selects names.",
        "SELECT name FROM table",
    ),
    ("**SQL:** `SELECT name FROM table`", "SELECT name FROM table"),
    ("### SQL\n\nSELECT name FROM table", "SELECT name FROM table"),
    ("<sql>SELECT name FROM table</sql>", "SELECT name FROM table"),
    (
        '```json\n{"query": "SELECT name FROM table WHERE year = 1998"}\n```',
        "SELECT name FROM table WHERE year = 1998",
    ),
    ("SELECT name FROM table WHERE city = 'Rome'", "SELECT name FROM table WHERE city = 'Rome'"),
    ("SELECT COUNT(name) FROM table", "SELECT COUNT(name) FROM table"),
    (
        "The question asks for names in 1998.\n\nSELECT name FROM table WHERE year = 1998",
        "SELECT name FROM table WHERE year = 1998",
    ),
    ("To answer this, select the name column where the year is 1998.", None),
    ("You can select the name from the table of 1998.", None),
    ("SELECT name FROM table -- all names", "SELECT name FROM table -- all names"),
    ("There is no such column.", None),
    ("1998", None),
    ("The query is `SELECT name FROM table WHERE year = 1998`.", "SELECT name FROM table WHERE year = 1998"),
    ("Use `SELECT name FROM table` for this", "SELECT name FROM table"),
    ("`SELECT name FROM table` answers it.", "SELECT name FROM table"),
    ("Use `SELECT `name` FROM `table`` here", "SELECT `name` FROM `table`"),
    ("```SELECT name FROM table```", "SELECT name FROM table"),
    ("```sql SELECT name FROM table```", "SELECT name FROM table"),
    ("WITH t AS (SELECT 1) SELECT name FROM t", None),
    ("```sql\nWITH t AS (\n  SELECT 1\n)\nSELECT name FROM t\n```", None),
    ("(SELECT name FROM table)", None),
    ("(SELECT name FROM table) UNION (SELECT year FROM table)", None),
    ('The query is "SELECT name FROM table".', "SELECT name FROM table"),
    ("The first is `SELECT name FROM table`, not `SELECT year FROM table`", "SELECT name FROM table"),
    ("`SELECT name FROM table", "SELECT name FROM table"),
]

TABLE: dict[str, tuple[str, list[Case]]] = {
    "sst": (SST, REVIEWS),
    "multinli.in.out": (NLI, PREMISES),
    "schema": (WHO, PRONOUNS),
    "squad": ("Who won?", PASSAGES),
    "srl": ("Who left?", SENTENCES),
    "zre": ("What label?", RELATIONS),
    "iwslt.en.de": ("Translate from English to German", TRANSLATIONS),
    "cnn_dailymail": ("What is the summary?", SUMMARIES),
    "woz.en": ("What is the change in state?", TURNS),
    "wikisql": ("What is the translation from English to SQL?", QUERIES),
}


@cache
def form(task: str) -> AnswerForm:
    return make_prompting(TASKS[task], load_template("default")).form


@pytest.mark.parametrize(
    ("task", "raw", "answer"),
    [
        pytest.param(task, raw, answer, id=f"{task}-{number}")
        for task, (_, cases) in TABLE.items()
        for number, (raw, answer) in enumerate(cases)
    ],
)
def test_a_chat_is_scored_as_a_person_would(task: str, raw: str, answer: str | None) -> None:
    found = extract(raw, form(task), TABLE[task][0])
    if answer is None:
        assert found.rule.split("+")[-1] in ("unparseable", "refused"), found
    else:
        assert found.answer == answer and found.rule.split("+")[-1] not in ("unparseable", "refused"), found


@pytest.mark.parametrize(
    "text",
    ["The review has some positive sides, such as", "Let me see whether this is posit", "It is positive in"],
)
def test_a_text_that_was_cut_off_in_a_sentence_has_no_label_yet(text: str) -> None:
    assert extract(text, form("sst"), SST, "length").rule == "unparseable"
    assert extract("positive, because it is", form("sst"), SST, "length").answer == "positive"


OUT = "Who was out? Susan or Jane?"
FEARED = "Who feared violence? the councilmen or the demonstrators?"


@pytest.mark.parametrize(
    ("question", "raw", "answer"),
    [(OUT, *case) for case in KNOCKS] + [(FEARED, *case) for case in PERMITS],
)
def test_a_negation_of_something_else_chooses_no_label(question: str, raw: str, answer: str | None) -> None:
    """Sentences of a schema contain many negations. They must not rule out the right name and leave the wrong one."""
    found = extract(raw, form("schema"), question)
    if answer is None:
        assert found.rule == "unparseable", found
    else:
        assert found.answer == answer, found


YES = 'Is the hypothesis "x" true if the premise is -- yes, maybe, or no?'


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        ("No.", "no"),
        ("No, because he runs.", "no"),
        ("The answer is no.", "no"),
        ("There is no information about it.", None),
        ("No information is given.", None),
        ("Yes", "yes"),
        ("Maybe. The premise has no details.", "maybe"),
        ("It is true, yes.", None),
    ],
)
def test_everyday_words_as_labels(raw: str, answer: str | None) -> None:
    found = extract(raw, AnswerForm("label", ("yes", "maybe", "no")), YES)
    assert (found.answer if found.rule != "unparseable" else None) == answer
