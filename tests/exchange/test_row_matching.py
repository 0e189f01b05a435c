"""Matching rows with examples by id, by order or by text, in the forms that other programs write."""

from __future__ import annotations

import csv
import html
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from decabench import import_answers
from decabench.errors import SubmissionError
from decabench.exchange import ImportSettings, Places, RefusedImportError
from decabench.exchange.text_matching import ExampleTexts, TextMatcher
from decabench.tasks import DECATHLON, Store

# Rows find their examples by id, by order or by texts, and a file whose texts are others is refused.

BY_TEXT = "32 of 32 examples matched by their texts; answers used as given."
BY_ID = "32 of 32 examples matched by id, and their texts agree; answers used as given."
BY_ORDER = "32 of 32 examples matched by order, and their texts agree; answers used as given."


def write_table(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def sorted_as_text(rows: list[Any]) -> list[Any]:
    return [rows[at] for at in sorted(range(len(rows)), key=str)]


def moved(rows: list[Any]) -> list[Any]:
    return [*rows[1:], rows[0]]


COLUMNS: dict[str, Any] = {
    "sentence": lambda example: {"sentence": example.context.lower()},
    "two columns": lambda example: {"question": example.question, "context": example.context},
    "prompt": lambda example: {"prompt": f"Rate this review.\n{example.context}\nRating:"},
    "chat": lambda example: {"messages": json.dumps([{"role": "user", "content": example.context}])},
}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_a_table_without_known_ids_is_matched_by_texts(bring, score, examples, tmp_path, columns):
    """Rows may be in any order. With --in-order, they must be in the order of the data."""
    rows = [{**columns(each), "answer": each.answers[0]} for each in examples("sst")]
    path = tmp_path / "answers.csv"
    done = bring(write_table(path, sorted_as_text(rows)), "sst", "csv")
    assert (done.words, score(done)) == (BY_TEXT, 100.0)
    numbered = [{"id": str(at), **row} for at, row in enumerate(rows)]
    done = bring(write_table(path, moved(numbered)), "sst", "csv", force=True)
    assert (done.words, score(done)) == (BY_TEXT, 100.0)
    done = bring(write_table(path, rows), "sst", "csv", force=True, in_order=True)
    assert (done.words, score(done)) == (BY_ORDER, 100.0)
    with pytest.raises(
        RefusedImportError, match="32 rows have a different text from the example in the same position"
    ) as caught:
        bring(write_table(path, moved(rows)), "sst", "csv", force=True, in_order=True)
    said = str(caught.value)
    assert len(caught.value.faults) == 32
    assert said.count("which is the text of 'sst.validation.") == 3
    assert said.endswith("Leave out --in-order to match rows by their texts.")


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_ids_do_not_stand_for_other_texts(bring, score, examples, tmp_path, columns):
    data = examples("sst")
    texts = [columns(each) for each in data]
    path = tmp_path / "answers.csv"

    def rows(texts: list[dict[str, str]]) -> list[dict[str, str]]:
        return [
            {"id": each.id, **text, "answer": each.answers[0]} for each, text in zip(data, texts, strict=True)
        ]

    done = bring(write_table(path, rows(texts)[::-1]), "sst", "csv")
    assert (done.words, score(done)) == (BY_ID, 100.0)
    for wrong, count in ((moved(texts), 32), ([texts[1], texts[0], *texts[2:]], 2)):
        with pytest.raises(
            RefusedImportError, match=r"different text from the example with the same id"
        ) as caught:
            bring(write_table(path, rows(wrong)), "sst", "csv", force=True)
        assert [fault.code for fault in caught.value.faults] == ["other-text"] * count
        assert "--in-order" not in str(caught.value)


@pytest.mark.parametrize("is_marked_later", [False, True])
def test_hidden_right_answers_are_not_compared(tmp_path, is_marked_later):
    """Messages would quote them. The task file decides, even if the data was prepared before it hid the labels."""
    from decabench import prepare

    rows = [
        {"number": at, "text": f"The word number {at} is {'ab'[at % 2]}{at}", "answer": f"secret{at % 2}"}
        for at in range(8)
    ]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    toml = tmp_path / "own.toml"
    toml.write_text(
        'format = "decabench.taskfile/1"\nname = "own"\nmetric = "em"\nanswer = "answer"\nid = "number"\n'
        'question = "Is it?"\ncontext = "{text}"\nhidden = ["test"]\n[files]\ntest = "test.jsonl"\n'
    )
    text = toml.read_text()
    if is_marked_later:
        toml.write_text(text.replace('hidden = ["test"]\n', ""))
    prepare(["own"], home=tmp_path / "home", include=[toml])
    toml.write_text(text)

    def call(table: dict[str, list[str]], **settings: Any) -> Any:
        made = ImportSettings(force=True, **settings)
        return import_answers(
            table, "own", tmp_path / "out", "x", "test", "", made, tmp_path / "home", [toml]
        )

    table = {"answer": ["secret1"] * 8, "gold": ["secret1", "secret0"] * 4}
    assert "right answers" not in call(table, in_order=True).words
    table = {**table, "text": moved([row["text"] for row in rows])}
    with pytest.raises(RefusedImportError, match="different text from the example") as caught:
        call(table, in_order=True)
    assert "secret0" not in str(caught.value)


# Files without texts


@pytest.mark.parametrize("form", ["{}", "dev-{}", "{}.0", "sst2_{}.txt", "[{}]", " {} "])
def test_ids_that_count_the_rows_must_count_them_in_order(bring, examples, tmp_path, form):
    """If 10 follows 1, the file was sorted by id as text, so it isn't in the order of the data."""
    ids = [form.format(at) for at in range(1, 33)]
    table = {"id": ids, "answer": [each.answers[0] for each in examples("sst")]}
    with pytest.raises(RefusedImportError, match="match the rows with --in-order"):
        bring(table, "sst")
    assert "matched by order;" in bring(table, "sst", in_order=True).words
    table = {key: sorted_as_text(column) for key, column in table.items()}
    with pytest.raises(RefusedImportError, match="none of the 32 rows has the id of an example") as caught:
        bring(table, "sst", force=True)
    assert "--in-order" not in str(caught.value)
    with pytest.raises(SubmissionError, match="the numbers in the ids begin with"):
        bring(table, "sst", force=True, in_order=True)


def test_a_column_that_counts_the_rows_must_count_them_in_order(bring, examples):
    table = {"row": [*map(str, range(32))], "answer": [each.answers[0] for each in examples("sst")]}
    assert "matched by order;" in bring(table, "sst", in_order=True).words
    table = {key: sorted_as_text(column) for key, column in table.items()}
    with pytest.raises(SubmissionError, match="the numbers in the column 'row' begin with '0', '1', '10'"):
        bring(table, "sst", force=True, in_order=True)
    table = {"stars": ["2", "1"] * 16, "answer": [each.answers[0] for each in examples("sst")]}
    bring(table, "sst", force=True, in_order=True)


@pytest.mark.parametrize("column", ["y_pred", "llm_output", "hypothesis", "system answer"])
def test_right_texts_next_to_a_model_s_are_refused(bring, examples, column):
    rows = examples("squad")
    table = {"id": [each.id for each in rows], "answer": [each.answers[0] for each in rows]}
    with pytest.raises(
        SubmissionError, match="The table contains only right answers, which may be the labels"
    ):
        bring({**table, column: [each.context.split()[0] + each.id for each in rows]}, "squad")
    bring({**table, column: ["gpt-4"] * len(rows)}, "squad")


@pytest.mark.parametrize(
    "line", ["{}\t{}", "     {}\t{}", "H-{}\t-0.21\t{}", "{} ||| {} ||| -1.2", "-0.{}\t{}"]
)
def test_lines_with_numbers_are_no_answers(bring, examples, tmp_path, line):
    path = tmp_path / "answers.txt"
    path.write_text("\n".join(line.format(at, each.answers[0]) for at, each in enumerate(examples("squad"))))
    with pytest.raises(SubmissionError, match="a number and a separator at the beginning of every line"):
        bring(path, "squad", "text")


@pytest.mark.parametrize("column", ["prediction", "model_output", "Response", "pred", "gpt-4o"])
def test_a_column_of_right_answers_is_not_taken_for_the_models(bring, score, examples, column):
    """Before, files with the columns `answer` and `prediction` scored 100."""
    data = examples("sst")
    table = {
        "id": [each.id for each in data],
        "answer": [each.answers[0] for each in data],
        column: ["negative"] * 32,
    }
    with pytest.raises(SubmissionError, match=f"the column '{column}'. Select"):
        bring(table, "sst")
    done = bring(table, "sst", places=Places(answer=column))
    assert (score(done), "and their right answers agree" in done.words) == (59.375, True)
    del table[column]
    others = {"label": table["answer"], "length": ["9"] * 32}
    assert score(bring({**table, **others}, "sst", force=True)) == 100


# Faults of a file


QUOTES: dict[str, tuple[str, str, str]] = {
    "inch marks around rows": ('5"', '"11', '1508"'),
    "one that never ends": ('"11', "x", "y"),
    "one that ends early": ('"11" and more', "x", "y"),
    "blank lines between": ('"11', "x\n\n", '1508"'),
}


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("name", QUOTES)
def test_stray_quotation_marks_never_merge_rows(bring, examples, tmp_path, name, suffix):
    ids = [each.id for each in examples("squad")]
    comma = {"csv": ",", "tsv": "\t"}[suffix]
    answers = [*QUOTES[name], *["z"] * 29]
    path = tmp_path / f"answers.{suffix}"
    path.write_text(
        f"id{comma}answer\n" + "".join(f"{i}{comma}{a}\n" for i, a in zip(ids, answers, strict=True))
    )
    with pytest.raises(SubmissionError, match=rf"answers\.{suffix}:[23]: .*quotation mark"):
        bring(path, "squad", "csv")


# Texts match their own example, and no other, in all the forms that other programs write.


def tokenized(text: str) -> str:
    """Return a text tokenized like the Penn Treebank."""
    text = text.replace("(", " -LRB- ").replace(")", " -RRB- ").replace("n't", " n't")
    return re.sub(r"([.,!?;:\"])", r" \1 ", text).lower()


PROMPT = "Read the text and answer the question about it.\n\nText: {}\nQuestion: {}\nAnswer:"
FORMS: dict[str, Any] = {
    "columns": lambda example: [example.question, example.context],
    "beside others": lambda example: [
        example.context,
        "validation",
        example.question,
        "https://example.org/a",
    ],
    "prompt": lambda example: [PROMPT.format(example.context, example.question)],
    "tokenized": lambda example: [tokenized(example.context), tokenized(example.question)],
    "tokenized prompt": lambda example: [PROMPT.format(tokenized(example.context), example.question)],
    "escaped": lambda example: [html.escape(example.context), html.escape(example.question)],
    "cut": lambda example: [example.context[:300], example.question],
    "shouted": lambda example: [re.sub(r"[^\w\s]", "", f"{example.context} {example.question}").upper()],
}


@pytest.fixture
def split(home):
    """Return the texts of a task's examples."""

    def read(task: str) -> list[ExampleTexts]:
        examples = Store(home).examples(task, "validation")
        return [ExampleTexts(example.question, example.context, example.answers) for example in examples]

    return read


def compare(matcher: TextMatcher, rows: list[list[str]], places: list[int]) -> list[int]:
    """Return the rows that differ from their examples."""
    words = matcher.read(dict(enumerate(rows)))
    return [each.row for each in matcher.compare(words, dict(enumerate(places)))[0]]


@pytest.mark.parametrize("task", DECATHLON.tasks)
@pytest.mark.parametrize("form", FORMS)
def test_texts_are_those_of_their_example_and_of_no_other(split, task, form):
    examples = split(task)
    matcher, size = TextMatcher(examples), len(examples)
    rows = [FORMS[form](example) for example in examples]
    assert compare(matcher, rows, list(range(size))) == []
    texts = [example[:2] for example in examples]
    shuffled = random.Random(1).sample(range(size), size)
    as_text = sorted(range(size), key=str)
    two = [1, 0, *range(2, size)] if texts[0] != texts[1] else []
    for order in [[*range(1, size), 0], shuffled, as_text, two]:
        differ = [row for row, place in enumerate(order) if texts[row] != texts[place]]
        assert set(compare(matcher, rows, order)) <= set(differ)
        assert (compare(matcher, rows, order) != []) == (differ != [])
    found = matcher.find(matcher.read(dict(enumerate(rows))))
    assert all(row in places or not places for row, places in found.items())
    assert sum(len(places) == 1 for places in found.values()) > 0.7 * size or form == "cut"


def test_questions_tell_examples_of_one_paragraph_apart(split):
    """In SQuAD's prompts, the paragraph alone would match a quarter of the examples in a wrong order."""
    examples = split("squad")
    rows = [[f"{example.context}\n{example.question}"] for example in examples]
    following = [
        at + 1 if at + 1 < len(examples) and examples[at].context == examples[at + 1].context else at
        for at in range(len(examples))
    ]
    differ = [row for row, place in enumerate(following) if row != place]
    assert len(differ) > 20
    assert compare(TextMatcher(examples), rows, following) == differ
