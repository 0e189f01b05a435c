"""The Penn Treebank from one's own files: columns, or brackets with heads beside them."""

from __future__ import annotations

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.ptb import PTB_DEP, PTB_POS
from tests.tasks.fixtures import FolderFiles, read_form, write_lines

BRACKETS = """
( (S
    (NP-SBJ-1 (DT The) (NN dog) )
    (VP (VBD seemed)
      (S (NP-SBJ (-NONE- *-1) )
        (VP (TO to) (VP (VB run) ))))
    (. .) ))
( (NP (CD 1\\/2) (-LRB- -LRB-) (NN cup) ))
"""
WORDS = ["The dog seemed to run .", r"1\/2 -LRB- cup"]
TAGS = ["DT NN VBD TO VB .", "CD -LRB- NN"]
HEADS = ["2:det 3:nsubj 0:root 5:aux 3:xcomp 3:punct", "3:num 3:punct 0:root"]


def columns() -> list[str]:
    lines = []
    for words, tags, heads in zip(WORDS, TAGS, HEADS, strict=True):
        rows = zip(words.split(), tags.split(), heads.split(), strict=True)
        for number, (word, tag, item) in enumerate(rows, 1):
            head, _, relation = item.partition(":")
            lines.append(f"{number}\t{word}\t_\t{tag}\t{tag}\t_\t{head}\t{relation}\t_\t_")
        lines.append("")
    return lines


def write(files: FolderFiles, sections: range) -> None:
    for section in sections:
        write_lines(files.folder / f"wsj_{section:02}.conllu", columns())
        write_lines(files.folder / f"wsj_{section:02}.mrg", BRACKETS.split("\n"))


@pytest.mark.parametrize("form", ["sections in conllu", "bracketed sections"])
def test_parts_of_speech(files: FolderFiles, form: str) -> None:
    write(files, range(25))
    examples = read_form(PTB_POS, form, "test", files)
    assert [(example.context, example.answers[0]) for example in examples[:2]] == list(
        zip(WORDS, TAGS, strict=True)
    )
    assert [example.id for example in examples] == [
        f"wsj_{section}.{index}" for section in (22, 23, 24) for index in (0, 1)
    ]
    assert examples[0].units == ("wsj_22", "wsj_22.0")
    assert len(read_form(PTB_POS, form, "train", files)) == 2 * 19
    assert len(read_form(PTB_POS, form, "validation", files)) == 2 * 3


def test_trees(files: FolderFiles) -> None:
    write(files, range(2, 24))
    examples = read_form(PTB_DEP, "sections in conllu", "test", files)
    assert [(example.context, example.answers[0]) for example in examples] == list(
        zip(WORDS, HEADS, strict=True)
    )
    assert examples[0].meta == {"pos": TAGS[0]}
    assert len(read_form(PTB_DEP, "sections in conllu", "train", files)) == 2 * 20


def test_columns_without_heads(files: FolderFiles) -> None:
    write_lines(files.folder / "wsj_23.conllu", ["1\tNo\t_\tRB\tRB\t_\t_\t_\t_\t_"])
    with pytest.raises(DataError, match="the head must be from 0 to 1"):
        read_form(PTB_DEP, "sections in conllu", "test", files)
