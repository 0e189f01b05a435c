"""Recognizing the form of an answer file: gold answers are given back in another form, or for another example.

Every score in a message is the metric's score for gold answers in that form.
"""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from decabench.metrics import METRICS, Item
from decabench.prompts import GivenAnswers, describe_format
from decabench.tasks import TASKS, Label, Number, Output, Store, Tags, Text
from decabench.tasks.preparation import sample_sources

Answers = Callable[[str], Sequence[Item]]


@pytest.fixture
def items(home: Path) -> Answers:
    return lambda task: list(Store(home).references(task, "validation"))


def describe(
    task: str, references: Sequence[Item], texts: Sequence[str], metric: str = "", known: bool = True
) -> str:
    places = [f"line {number}" for number in range(1, len(texts) + 1)]
    measure = METRICS[metric or TASKS[task].metric]
    output, form = TASKS[task].output, TASKS[task].answer_form
    return describe_format(
        GivenAnswers(output, measure, places, texts, references if known else None, read_form=lambda: form)
    )


def golds(references: Sequence[Item]) -> list[str]:
    return [item.answers[0] for item in references]


@pytest.mark.parametrize(
    "task", [name for name, task in TASKS.items() if task.files_folder in sample_sources()]
)
@pytest.mark.parametrize("which", [0, -1])
def test_gold_answers_look_like_themselves(task: str, which: int, home: Path, items: Answers) -> None:
    references = items(task) if "validation" in Store(home).records(task) else ()
    texts = [item.answers[which] for item in references]
    if len(set(texts)) > 1:
        assert describe(task, references, texts) == ""
        assert describe(task, references, texts, known=False) == ""


def pieces(text: str) -> str:
    return "\u2581" + text.replace(" ", " \u2581")


def tokenized(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"([^\w\s])", r" \1 ", text)).strip()


UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
WRITTEN: dict[str, tuple[str, str, Callable[[str], str], str]] = {
    "pieces": ("iwslt.en.de", "", lambda text: pieces(text), "pieces of words"),
    "byte pieces": ("squad", "", lambda text: "\u0120" + text.replace(" ", "\u0120"), "pieces of words"),
    "tokens": ("iwslt.en.de", "", lambda text: f"<s> {text} </s>", "special tokens or tags"),
    "entities": ("iwslt.en.de", "", lambda text: text.encode("ascii", "xmlcharrefreplace").decode(), "HTML entities"),
    "escapes": ("iwslt.en.de", "", lambda text: json.dumps(text)[1:-1], "backslash escapes"),
    "mojibake": ("iwslt.en.de", "", lambda text: text.encode().decode("latin-1"), "UTF-8 decoded"),
    "two at once": ("iwslt.en.de", "", lambda text: f"<s> {pieces(text)} </s>", "pieces of words and contain special"),
    "lower case": ("iwslt.en.de", "chrf2", str.lower, "are in lower case"),
    
    "JSON": ("squad", "", lambda text: json.dumps({"answer": text}), "are JSON or Python values"),
    
    "a prefix": ("squad", "", lambda text: f"The answer is {text}", "begin with 'The answer is'"),
    "a suffix": ("squad", "", lambda text: f"{text} - sure", "end with '- sure'"),
    
    "tokenized": ("iwslt.en.de", "em", tokenized, "are tokenized"),
    "quotes": ("squad", "em", lambda text: f'"{text}"', "are in quotation marks"),
    "umlauts": ("iwslt.en.de", "", lambda text: text.translate(UMLAUTS), "often contain accents"),
    "question marks": ("iwslt.en.de", "", lambda text: text.encode("ascii", "replace").decode(), "contain accents"),
    "no marks": ("iwslt.en.de", "", lambda text: re.sub(r"[^\w\s]", "", text), "often contain punctuation marks"),
    "choices": ("squad", "", lambda text: f"{text}; something else", "give several answers"),
    "lines": ("squad", "", lambda text: f"{text}\n\nQuestion: Who?\nAnswer: me", "give several answers"),
    "SQL": ("wikisql", "", lambda text: re.sub("SELECT (.*?) FROM table", r"SELECT `\1` FROM t", text), "are SQL for"),
    "columns": (
        "wikisql", "", lambda text: re.sub(r"(?<=[a-z]) (?=[a-z]\w* FROM)", "_", text), "are SQL for",
    ),
    "heads": ("ud.dep", "", tokenized, "are tokenized"),
    "fastText": ("sst", "", lambda text: f"__label__{text}", "begin with '__label__'"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITTEN)
def test_a_format_is_named_with_the_score_without_it(case: str, items: Answers) -> None:
    task, metric, write, phrase = WRITTEN[case]
    references = items(task)
    said = describe(task, references, [write(text) for text in golds(references)], metric)
    assert phrase in said
    before, after = re.findall(r"score (\d+\.\d+) in \w+ instead of (\d+\.\d+)", said)[0][::-1]
    assert float(after) - float(before) >= 1
    assert case in ("heads", "SQL", "columns", "tokenized") or float(after) > 99


@pytest.mark.parametrize(
    ("task", "metric", "write"),
    [
        ("iwslt.en.de", "", str.lower),  # BLEU is of lower-cased texts
        ("iwslt.en.de", "", lambda text: html.escape(text, quote=False)),  # and resolves these
        ("squad", "", str.upper),  # nF1 ignores case
        ("squad", "", lambda text: f'"{text}"'),  # and marks
        ("squad", "", lambda text: f"**{text}**"),
        ("cnn_dailymail", "", lambda text: text.replace(" ", "  ")),
        ("sst", "", str.title),
    ],
)
def test_nothing_is_reported_that_the_metric_ignores(
    task: str, metric: str, write: Callable[[str], str], items: Answers
) -> None:
    references = items(task)
    assert describe(task, references, [write(text) for text in golds(references)], metric) == ""


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda text, at: text[1:], "29 of 32 answers don't occur in their context"),
        (
            lambda text, at: f"It is {text}" if at % 2 else text,
            "16 of 32 answers don't occur in their context",
        ),
        (lambda text, at: f"{text} [{at}]", "32 of 32 answers end with a remark in brackets"),
        (lambda text, at: f"{text} [{at}]" if at < 3 else text, ""),  # too few
        (lambda text, at: f"the blue banana {at}", ""),  # a weak model
    ],
)
def test_spans_that_are_not_in_their_context(
    write: Callable[[str, int], str], said: str, home: Path, items: Answers
) -> None:
    references = items("squad")
    texts = [write(text, at) for at, text in enumerate(golds(references))]
    prompts = Store(home).prompts("squad", "validation")
    places = [f"line {at}" for at in range(1, 33)]
    found = describe_format(GivenAnswers(Text(), METRICS["nf1"], places, texts, references, lambda: prompts))
    assert found.startswith(said) and bool(found) == bool(said)


def test_queries_after_an_introduction(items: Answers) -> None:
    references = items("wikisql")
    texts = [f"Here is query {at}: {text}" for at, text in enumerate(golds(references))]
    assert "are SQL for a database" in describe("wikisql", references, texts)


def test_a_format_that_shows_in_few_answers(items: Answers) -> None:
    references = items("squad") * 20
    texts = [text.replace("0", "&#48;") if at % 9 == 0 else text for at, text in enumerate(golds(references))]
    texts = [f"Caf{'&eacute;' if at % 40 == 0 else 'é'} {text}" for at, text in enumerate(texts)]
    references = [Item((f"Café {item.answers[0]}",), id=f"{at}") for at, item in enumerate(references)]
    said = describe("squad", references, texts)
    assert re.match(r"\d\d of 640 answers contain HTML entities\. For example, line 1 has", said)


def test_without_gold_answers_only_what_nobody_writes_on_purpose(items: Answers) -> None:
    references = items("squad")
    written = list(map(pieces, golds(references)))
    assert describe("squad", references, written, known=False).startswith(
        "32 of 32 answers are pieces of words. For example, line 1 has "
    )
    assert describe("squad", references, written[:4], known=False) == ""
    assert describe("squad", references, [f"I say {text}" for text in golds(references)], known=False) == ""
    assert "'Answer:'" in describe(
        "squad", references, [f"Answer: {text}" for text in golds(references)], known=False
    )


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        (lambda texts: texts[1:] + texts[:1], "to the next example"),
        (lambda texts: texts[-1:] + texts[:-1], "to the previous example"),
        (lambda texts: [text[:20] for text in texts], "have exactly 20 characters, and no answer is longer"),
        (lambda texts: [str(len(text)) for text in texts], "are numbers or letters that stand for labels"),
        (lambda texts: [f"{7 * at} 345 {at}" for at in range(len(texts))], "that stand for labels or tokens"),
    ],
)  # fmt: skip
def test_what_cannot_be_decoded(
    change: Callable[[list[str]], list[str]], phrase: str, items: Answers
) -> None:
    references = items("wikisql")
    said = describe("wikisql", references, change(golds(references)))
    assert phrase in said
    assert not any(gold in said for gold in golds(references) if gold not in change(golds(references)))


@pytest.mark.parametrize(
    ("first", "last", "said"), [(0, 300, True), (120, 300, True), (60, 220, True), (290, 300, False)]
)
def test_answers_that_are_shifted_from_a_line_on(first: int, last: int, said: bool) -> None:
    names = ("entailment", "neutral", "contradiction")
    golds = [names[at * at % 11 % 3] for at in range(300)]
    shifted = [golds[at - 1] if first < at < last else golds[at] for at in range(300)]
    texts = [names[at % 3] if at % 4 == 0 else text for at, text in enumerate(shifted)]  # some are wrong
    references = [Item((gold,), id=str(at)) for at, gold in enumerate(golds)]
    given = GivenAnswers(Label(names), METRICS["em"], [*map(str, range(300))], texts, references)
    assert ("to the previous example" in describe_format(given)) is said


def test_copies(home: Path, items: Answers) -> None:
    store, references = Store(home), items("iwslt.en.de")
    prompts = {
        row["id"]: (row["question"], row["context"]) for row in store.read("iwslt.en.de", "validation")
    }
    for texts, phrase in (
        ([f"{prompts[item.id][0]} {item.answers[0]}" for item in references], "contain their question"),
        ([f"{prompts[item.id][1]} {item.answers[0]}" for item in references], "contain their context"),
        ([f"{item.id}\t{item.answers[0]}" for item in references], "contain their id"),
    ):
        given = GivenAnswers(Text(), METRICS["bleu"], golds(references), texts, references, lambda: prompts)
        assert phrase in describe_format(given)


def describe_with_prompts(task: str, home: Path, change: Callable[[str, str, str, int], str]) -> str:
    """Describe gold answers that `change` has replaced, given the question, the context and the row."""
    store = Store(home)
    references = list(store.references(task, "validation"))
    prompts = {row["id"]: (row["question"], row["context"]) for row in store.read(task, "validation")}
    texts = [change(item.answers[0], *prompts[item.id], at) for at, item in enumerate(references)]
    measure, places = METRICS[TASKS[task].metric], [str(at + 1) for at in range(len(texts))]
    return describe_format(
        GivenAnswers(TASKS[task].output, measure, places, texts, references, lambda: prompts)
    )


@pytest.mark.parametrize("task", ["squad", "srl", "zre", "iwslt.en.de", "cnn_dailymail", "wikisql"])
def test_whole_copies(task: str, home: Path) -> None:
    for which, name in enumerate(("question", "context")):

        def copy(gold: str, question: str, context: str, at: int, which: int = which) -> str:
            return (question, context)[which] if at % 4 == 0 else gold

        said = describe_with_prompts(task, home, copy)
        assert re.match(rf"\d+ of \d+ answers contain their {name}\. .* For example, 1 has", said)
    assert describe_with_prompts(task, home, lambda gold, *_: gold) == ""


@pytest.mark.parametrize("task", ["squad", "srl", "zre"])
def test_refusals_that_quote_the_question(task: str, home: Path) -> None:
    def refuse(gold: str, question: str, _: str, at: int) -> str:
        return f'Unable to determine "{question}" from the text.' if at % 4 == 0 else gold

    assert " answers contain their question. Write only" in describe_with_prompts(task, home, refuse)


@pytest.mark.parametrize("task", ["squad", "srl", "zre", "iwslt.en.de", "cnn_dailymail"])
def test_answers_that_end_in_the_middle_of_a_word(task: str, home: Path) -> None:
    def cut(gold: str, *_: object) -> str:
        pieces = re.findall(r"\s*\w{1,4}|\s*\W", gold)  # like a tokenizer's
        return "".join(pieces[: 1 if len(pieces) < 6 else len(pieces) - 2])

    assert "end in the middle of a word. Raise the maximum number of tokens" in describe_with_prompts(
        task, home, cut
    )
    assert "middle" not in describe_with_prompts(task, home, lambda gold, *_: " ".join(gold.split()[:2]))
    assert "middle" not in describe_with_prompts(task, home, lambda _, __, context, ___: context[-30:])


def test_numbers_that_are_the_beginning_of_other_numbers() -> None:
    references = [Item((f"{at}9 apples",), id=str(at)) for at in range(10, 40)]
    prompts = {item.id: ("How many?", f"There are {item.answers[0]}.") for item in references}
    texts = [item.id for item in references]
    given = GivenAnswers(Text(), METRICS["em"], texts, texts, references, lambda: prompts)
    assert "middle" not in describe_format(given)


def test_words_without_spaces_between_them() -> None:
    context = "北京市是中华人民共和国的首都"
    references = [Item(("北京",), id=str(at)) for at in range(9)]
    prompts = {item.id: ("首都", context) for item in references}
    texts = ["北京市是" if at % 2 else "北京" for at in range(9)]
    given = GivenAnswers(Text(), METRICS["em"], texts, texts, references, lambda: prompts)
    assert "middle" not in describe_format(given)


def test_numbers_of_columns(home: Path) -> None:
    def number(gold: str, question: str, context: str, at: int) -> str:
        return re.sub("^SELECT .*? FROM", "SELECT COUNT(col3) FROM", gold) if at % 8 == 0 else gold

    said = describe_with_prompts("wikisql", home, number)
    assert "4 of 32 answers refer to columns by number, such as col3. Write the column names" in said
    assert describe_with_prompts("wikisql", home, lambda gold, *_: gold.replace("col", "")) == ""


@pytest.mark.parametrize("task", ["squad", "srl", "iwslt.en.de", "cnn_dailymail"])
def test_a_part_that_is_shifted(task: str, items: Answers) -> None:
    references = items(task)
    texts = golds(references)
    said = describe(task, references, [*texts[:4], *texts[5:13], *texts[12:]])
    assert re.match(
        r"[78] of \d+ answers resemble the gold answer to the next example more than their own", said
    )
    wrong = [texts[0] if at % 3 else text for at, text in enumerate(texts)]  # a weak model
    assert "example" not in describe(task, references, wrong)


@pytest.mark.parametrize(("wrong", "said"), [(7, False), (10, True)])
def test_answers_to_other_questions_about_the_same_context(wrong: int, said: bool) -> None:
    words = [f"{letter}{number}" for number in range(20) for letter in "abcdefghij"]
    contexts = [" ".join(words[at - at % 10 :][:10]) for at in range(200)]
    references = [Item((word,), id=str(at)) for at, word in enumerate(words)]
    prompts = {str(at): ("Which?", context) for at, context in enumerate(contexts)}
    # A weak model gives the answers to other questions in 7 of 10 cases.
    texts = [words[at - at % 10 + (at * 7 + 3) % 10] if at % 10 < wrong else words[at] for at in range(200)]
    given = GivenAnswers(Text(), METRICS["em"], words, texts, references, lambda: prompts)
    assert (UNRELATED in describe_format(given)) is said


UNRELATED = "resemble their own gold answers only slightly more than those of other examples"


@pytest.mark.parametrize("right", [0.0, 0.3])
def test_labels_in_any_other_order(right: float) -> None:
    names = ("entailment", "neutral", "contradiction")
    golds = Random(1).choices(names, k=600)
    moved = Random(2).sample(golds, 600)
    texts = [gold if at % 10 < 10 * right else moved[at] for at, gold in enumerate(golds)]
    for answers in (texts, sorted(texts)):
        said = describe_golds(Label(names), "em", golds, answers)
        assert (UNRELATED in said) is (right == 0 or answers is not texts)


def test_a_part_of_the_answers_that_is_repeated() -> None:
    """Half of the answers are 64 lines too late, as if a batch had been written twice."""
    golds = [f"a{at} b{at}" for at in range(600)]
    said = describe_golds(Text(), "nf1", golds, [*golds[:300], *golds[236:536]])
    assert re.match(rf"(29|30)\d of 600 answers {UNRELATED}.* For example, (29\d|30\d) has", said)


def test_a_form_that_the_metric_accepts_is_no_repeated_text() -> None:
    golds = ["unanswerable" if at % 2 else f"gold {at}" for at in range(60)]
    texts = [gold.replace("unanswerable", "Unanswerable.") for gold in golds]
    assert describe_golds(Text(), "corpus_f1", golds, texts) == ""


def describe_golds(output: Output, metric: str, golds: Sequence[str], texts: Sequence[str]) -> str:
    references = [Item((gold,), id=str(at)) for at, gold in enumerate(golds)]
    prompts = {item.id: ("Which?", "") for item in references}
    places = [str(at) for at in range(len(texts))]
    return describe_format(GivenAnswers(output, METRICS[metric], places, texts, references, lambda: prompts))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda number: number, ""),
        (lambda number: round(number), ""),  # a coarser scale is no mistake
        (lambda number: 6 - number, "or on a reversed scale"),
        (lambda number: 3.5, "all 100 answers are '3.5'"),
    ],
)
def test_numbers_on_a_scale(change: Callable[[float], float], said: str) -> None:
    golds = [1 + at * 37 % 100 / 25 for at in range(100)]
    texts = [str(change(gold)) for gold in golds]
    found = describe_golds(Number(1, 5), "pearson", list(map(str, golds)), texts)
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda words: words, ""),
        (lambda words: [word.upper() for word in words], ""),
        (lambda words: words[-1:] + words[:-1], "seem to have one word too many at the beginning"),
        (lambda words: words[1:] + words[:1], "seem to lack their first word"),
        (lambda words: words[::-1], "seem to be in reverse order"),
        (lambda words: ["x" for word in words], "answers repeat the tag 'x'"),
        (lambda words: [{"c": "d", "d": "c"}.get(word, word) for word in words], "were swapped (c, d)"),
    ],
)
def test_tags_of_other_words(change: Callable[[list[str]], list[str]], said: str) -> None:
    golds = [" ".join(Random(at).choices("abcdx", k=7)) for at in range(60)]
    texts = [" ".join(change(gold.split())) for gold in golds]
    found = describe_golds(Tags("plain", (*"abcdx",)), "tag_accuracy", golds, texts)
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda words: words[1:], "seem to lack their first word"),
        (lambda words: words[:-1], "seem to lack their last word"),
        (lambda words: [f"{words[0]}x", *words], "seem to have one word too many at the beginning"),
        (lambda words: [*words, f"{words[0]}x"], "seem to have one word too many at the end"),
    ],
)
def test_texts_that_begin_or_end_elsewhere(change: Callable[[list[str]], list[str]], said: str) -> None:
    golds = [f"a{at} b{at} c{at}" for at in range(60)]
    texts = [" ".join(change(gold.split())) for gold in golds]
    assert said in describe_golds(Text(), "nf1", golds, texts)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda words, at: words, ""),
        (
            lambda words, at: words[:3],
            "are only the beginning of a gold answer, and no answer has more than 3 words",
        ),
        (
            lambda words, at: words[-3:],
            "are only the end of a gold answer, and no answer has more than 3 words",
        ),
        (
            lambda words, at: words[:3] if at % 2 else [*words[:2], "x"],
            "are only the beginning of a gold answer",
        ),
        (lambda words, at: [f"x{at}", *words[1:3]], ""),  # a weak model whose answers are short
    ],
)
def test_spans_cut_to_a_few_words(change: Callable[[list[str], int], list[str]], said: str) -> None:
    golds = [" ".join(f"{letter}{at}" for letter in "abcdefg"[: 1 + at % 7]) for at in range(70)]
    golds[0] = "a0 b0 c0 d0 e0 f0 g0"
    texts = [" ".join(change(gold.split(), at)) for at, gold in enumerate(golds)]
    found = describe_golds(Text(extractive=True), "nf1", golds, texts)
    assert said in found and (said != "" or "only" not in found)


@pytest.mark.parametrize("several", [8, 1])  # of eight gold answers, as in summaries and in translations
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda first, rest: f"{first}. {rest}.", False),
        (lambda first, rest: f"{first}.", True),
        (lambda first, rest: f"{rest or first}.", True),
        (lambda first, rest: f"{first}, {rest}" if rest else first, False),  # a model that joins sentences
    ],
)
def test_texts_cut_to_one_sentence(change: Callable[[str, str], str], said: bool, several: int) -> None:
    pairs = [
        (
            f"Man {at} saw the {'big ' * (at % 5)}dogs",
            f"They ran to {'house ' * (at % 7)}{at}" if at % 8 < several else "",
        )
        for at in range(160)
    ]
    golds = [f"{first} . {rest} ." if rest else f"{first} ." for first, rest in pairs]
    texts = [
        f"Nobody here knows what to make of the big house {at}" if at % 5 == 0 else change(*pair)
        for at, pair in enumerate(pairs)
    ]
    assert (
        "have one sentence, unlike their gold answers" in describe_golds(Text(), "bleu", golds, texts)
    ) is said


TYPES = ("PER", "LOC", "ORG", "MISC")


@pytest.mark.parametrize(
    ("right", "change", "said"),
    [
        (0.9, {}, ""),
        (
            0.9,
            {"MISC": ""},
            "no answer contains 'MISC' (40 times in the gold answers). Answers to these examples usually contain 'O'.",
        ),
        (0.9, {"MISC": "", "ORG": "LOC"}, "'ORG' (40 times in the gold answers) or 'MISC' (40 times"),
        (0.4, {"MISC": ""}, ""),  # a weak model
    ],
)
def test_a_type_that_is_lost(right: float, change: dict[str, str], said: str) -> None:
    def write(names: Sequence[str]) -> str:
        return " ".join(f"I-{name}" if name else "O" for name in names)

    random, rows = Random(0), [["", TYPES[at % 4], "", ""] for at in range(160)]
    guesses = [
        [name if random.random() < right else random.choice((*TYPES, "")) for name in row] for row in rows
    ]
    texts = [write([change.get(name, name) for name in row]) for row in guesses]
    found = describe_golds(
        Tags("IOB1", tuple(f"I-{name}" for name in TYPES)), "sequence_f1", list(map(write, rows)), texts
    )
    assert said in found and bool(said) == ("no answer contains" in found)


@pytest.mark.parametrize(("right", "said"), [(0.85, True), (0.4, False)])
def test_a_label_that_is_lost(right: float, said: bool) -> None:
    names, random = ("entailment", "neutral", "contradiction"), Random(0)
    golds = [random.choice(names) for _ in range(300)]
    texts = [gold if random.random() < right else random.choice(names) for gold in golds]
    texts = ["neutral" if text == "contradiction" else text for text in texts]
    found = describe_golds(Label(names), "em", golds, texts)
    assert ("no answer contains 'contradiction' (" in found) is said


def test_a_model_that_nearly_always_gives_the_same_label() -> None:
    golds = ["negative" if at % 2 else "positive" for at in range(100)]
    texts = ["No." if at == 0 else "positive" for at in range(100)]
    assert "no answer contains" not in describe_golds(Label(("negative", "positive")), "em", golds, texts)


@pytest.mark.parametrize("metric", ["pearson", "mse"])
@pytest.mark.parametrize(
    ("noise", "first", "last", "said"),
    [
        (0.5, 200, 400, True),
        (0.5, 100, 200, True),
        (0.5, 0, 0, False),
        (20, 200, 400, False),
        (20, 0, 0, False),
    ],
)
def test_a_part_on_a_reversed_scale(metric: str, noise: float, first: int, last: int, said: bool) -> None:
    random = Random(0)
    golds = [1 + 4 * random.random() for _ in range(400)]
    numbers = [min(max(gold + random.gauss(0, noise), 1), 5) for gold in golds]
    texts = [f"{6 - number if first <= at < last else number:.2f}" for at, number in enumerate(numbers)]
    found = describe_golds(Number(1, 5), metric, list(map(str, golds)), texts)
    assert ("are consecutive and seem to be on a reversed scale" in found) is said


def test_brackets_of_a_treebank() -> None:
    golds = [f"{at} (a) word" for at in range(60)]
    texts = [gold.replace("(", "-LRB-").replace(")", "-RRB-") for gold in golds]
    said = describe_golds(Text(), "em", golds, texts)
    assert said.startswith("60 of 60 answers contain -LRB-") and "score 100.00 in em instead of 0.00" in said


@pytest.mark.parametrize(
    ("text", "every", "said"),
    [
        ("Lo siento, no puedo.", 20, True),
        ("Lo siento, no puedo.", 60, False),
        (
            "unanswerable",
            20,
            False,
        ),  # the demo's model, which also learned QA-ZRE, says so of SQuAD's questions
    ],
)
def test_the_same_text_for_many_examples(text: str, every: int, said: bool) -> None:
    golds = [f"gold {at}" for at in range(300)]
    texts = [text if at % every == 0 else gold for at, gold in enumerate(golds)]
    found = describe_golds(Text(), "nf1", golds, texts)
    assert ("repeat a text that is not a gold answer" in found) is said
    assert describe_golds(Text(), "nf1", texts, texts) == ""


def test_a_long_answer_without_spaces_takes_no_time() -> None:
    references = [Item(("word",), id=str(at)) for at in range(30)]
    texts = ["x" * 19_990 + "!"] * 30
    start = time.process_time()
    given = GivenAnswers(Text(), METRICS["em"], texts, texts, references, dict)
    assert describe_format(given) == ""
    assert time.process_time() - start < 5


@pytest.mark.parametrize(("right", "said"), [(0.9, True), (0.5, False)])
def test_swapped_labels(right: float, said: bool) -> None:
    names = ("entailment", "neutral", "contradiction")
    golds = [names[at * at % 11 % 3] for at in range(300)]
    other = {"entailment": "contradiction", "contradiction": "entailment"}
    texts = [other.get(gold, gold) if at % 10 < 10 * right else gold for at, gold in enumerate(golds)]
    references = [Item((gold,), id=str(at)) for at, gold in enumerate(golds)]
    given = GivenAnswers(Label(names), METRICS["em"], [*map(str, range(300))], texts, references)
    assert ("if the labels were swapped (contradiction, entailment)" in describe_format(given)) is said


def test_a_metric_that_fails_is_no_error() -> None:
    def fail(*_: object) -> list[tuple[float, ...]]:
        raise ValueError("no")

    metric = replace(METRICS["em"], statistics=fail)
    references = [Item((f"a {at}",), id=str(at)) for at in range(9)]
    texts = [f"a {at}</s>" for at in range(9)]
    given = GivenAnswers(Text(), metric, texts, texts, references)
    assert describe_format(given).startswith("9 of 9 answers contain special tokens or tags")


@pytest.mark.parametrize("right", [0.5, 0.7, 0.9])
def test_labels_in_the_order_of_ids_as_text(right: float) -> None:
    ids = [f"x.{at}" for at in range(300)]
    golds = [("negative", "positive")[at * at % 7 % 2] for at in range(300)]
    texts = [gold if at % 10 < 10 * right else "negative" for at, gold in enumerate(golds)]
    references = [Item((gold,), id=id_) for id_, gold in zip(ids, golds, strict=True)]
    moved = [text for _, text in sorted(zip(ids, texts, strict=True))]
    for answers, said in ((texts, False), (moved, right > 0.5), (texts[::-1], right > 0.5)):
        given = GivenAnswers(Label(("negative", "positive")), METRICS["em"], ids, answers, references)
        assert ("more than their own, so they are in the wrong order" in describe_format(given)) is said
