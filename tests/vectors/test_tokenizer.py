"""Tokenization, which is exactly reversible, with RevTok's half-spaces; and the lexicon."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decabench.errors import DataError
from decabench.tasks import DECATHLON
from decabench.tasks.store import Store
from decabench.vectors.tokenizer import EOS, INIT, SPECIALS, Lexicon, detokenize, tokenize
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


def test_there_and_back():
    lexicon = Lexicon([" the ", " cat "])
    ids = lexicon.encode("The cat, the ZEBRA")
    assert ids.tolist() == [INIT, 4, 5, 6, 4, 7, EOS]
    assert lexicon.decode(ids) == "the cat, the zebra"
    assert (lexicon.size, len(lexicon)) == (6, 8)
    assert lexicon.decode([4, EOS, 5]) == "the"
    assert lexicon.encode("the cat, the", 2).tolist() == [INIT, 4, 5, EOS]


def test_it_is_written_without_what_it_learned(tmp_path):
    lexicon = Lexicon([" é ", "\ud800"])
    lexicon.encode("zebra")
    lexicon.write(tmp_path / "v.json")
    assert Lexicon.read(tmp_path / "v.json").words == [*SPECIALS, " é ", "\ud800"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", ""),
        ("[]", ""),
        ('{"format": "x", "words": []}', "its format is 'x'"),
        ('{"format": "decabench.vocabulary/1", "words": [1]}', "not all of its words are strings"),
    ],
)
def test_other_files_are_refused(tmp_path, content, said):
    (tmp_path / "v.json").write_text(content)
    with pytest.raises(DataError, match=f"is not a vocabulary .*{said}"):
        Lexicon.read(tmp_path / "v.json")


def test_a_word_twice():
    with pytest.raises(DataError, match="twice"):
        Lexicon([" a ", " a "])
