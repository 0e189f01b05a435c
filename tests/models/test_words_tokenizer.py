"""Tokenization: exactly reversible, with RevTok's half-spaces."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decabench.models.words import detokenize, tokenize
from decabench.tasks import DECATHLON
from decabench.tasks.store import Store
from tests.tasks.conftest import prepared, shared  # noqa: F401


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("the cat", [" the ", " cat "]),
        ("the cat, sat.", [" the ", " cat ", ", ", " sat ", ". "]),
        ("don't", [" don ", "'", " t "]),
        ('say "yes" now', [" say ", ' "', " yes ", '" ', " now "]),
        ("a  b", [" a ", "  ", " b "]),
        ("$5.20", [" $", " 5 ", ".", " 20 "]),
        ("état-major", [" état ", "-", " major "]),
        (" a ", [" ", " a ", " "]),
        ("a\nb", [" a ", "\n", " b "]),
    ],
)
def test_tokens(text, tokens):
    assert tokenize(text) == tokens
    assert detokenize(tokens) == text


@given(st.text())
def test_any_text_comes_back(text):
    assert detokenize(tokenize(text)) == text


@given(st.text(alphabet="ab1 2.,\n\t$-é́\u00a0\u2028", max_size=30))
def test_spaces_and_signs_come_back(text):
    tokens = tokenize(text)
    assert detokenize(tokens) == text
    assert all(tokens)


@pytest.mark.parametrize("task", DECATHLON.tasks)
def test_the_ten_tasks_come_back(task, home):
    for split in ("train", "validation"):
        for example in Store(home).examples(task, split):
            for text in (example.question, example.context, *example.answers):
                assert detokenize(tokenize(text)) == text
                assert detokenize(tokenize(text.lower())) == text.lower()


@pytest.mark.mirror
@pytest.mark.heavy
@pytest.mark.parametrize("task", DECATHLON.tasks)
def test_the_real_data_comes_back(task, prepared):  # noqa: F811
    # Every fourth row of every split: all of them take minutes.
    columns, seen = ("question", "context", "answers"), set()
    for split in prepared.store.records(task):
        for row in islice(prepared.store.read(task, split, columns), 0, None, 4):
            seen |= {row["question"], row["context"], *row["answers"]}
    assert len(seen) > 100
    for text in seen:
        assert detokenize(tokenize(text)) == text


def test_a_word_is_one_token_wherever_it_stands():
    for text in ("cat", "the cat sat", '"cat"', "(cat)", "cat,", "a-cat-b"):
        assert " cat " in tokenize(text)
