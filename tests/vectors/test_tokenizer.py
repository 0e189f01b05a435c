import pytest
from hypothesis import given
from hypothesis import strategies as st

from decabench.errors import DataError
from decabench.vectors.tokenizer import EOS, INIT, Lexicon, detokenize, tokenize


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


def test_there_and_back():
    lexicon = Lexicon([" the ", " cat "])
    ids = lexicon.encode("The cat, the ZEBRA")
    assert ids.tolist() == [INIT, 4, 5, 6, 4, 7, EOS]
    assert lexicon.decode(ids) == "the cat, the zebra"
    assert (lexicon.size, len(lexicon)) == (6, 8)
    assert lexicon.decode([4, EOS, 5]) == "the"
    assert lexicon.encode("the cat, the", 2).tolist() == [INIT, 4, 5, EOS]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", ""),
        ("[]", ""),
        ('{"format": "x", "words": []}', "'format' is 'x'"),
        ('{"format": "decabench.vocabulary/1", "words": [1]}', "not all words are strings"),
    ],
)
def test_other_files_are_refused(tmp_path, content, said):
    (tmp_path / "v.json").write_text(content)
    with pytest.raises(DataError, match=f"is not a vocabulary .*{said}"):
        Lexicon.read(tmp_path / "v.json")


def test_a_word_twice():
    with pytest.raises(DataError, match="more than once"):
        Lexicon([" a ", " a "])
