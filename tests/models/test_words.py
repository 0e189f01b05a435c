"""Words and numbers."""

import json

import pytest

from decabench.errors import DataError
from decabench.models.words import EOS, INIT, SPECIALS, Lexicon


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
    "content",
    ["{", "[]", '{"format": "x", "words": []}', '{"format": "decabench.vocabulary/1", "words": [1]}'],
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "v.json").write_text(content)
    with pytest.raises(DataError, match="is not a vocabulary"):
        Lexicon.read(tmp_path / "v.json")


def test_the_fault_is_named(tmp_path):
    (tmp_path / "v.json").write_text('{"format": "decabench.vocabulary/1", "words": [1]}')
    with pytest.raises(DataError, match="not all of its words are strings"):
        Lexicon.read(tmp_path / "v.json")


def test_a_word_twice():
    with pytest.raises(DataError, match="twice"):
        Lexicon([" a ", " a "])
    assert json.dumps(SPECIALS) == '["<pad>", "<unk>", "<init>", "<eos>"]'
