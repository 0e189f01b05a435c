from __future__ import annotations

import json
from pathlib import Path

import pytest

from decabench.tasks.datasets.treebanks import PTB_DEP, PTB_POS, UD_DEP, UD_POS
from decabench.tasks.example import Example
from tests.tasks.conftest import shared
from tests.tasks.fixtures import FolderFiles, read_form, write_lines

__all__ = ["shared"]


# UD English EWT: words without ranges and empty nodes, documents, and columns that can be rebuilt.

DEV = "en_ewt-ud-dev.conllu"
LINES = [
    "# newdoc id = weblog-a",
    "# sent_id = weblog-a-0001",
    "# text = I don't",
    "1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t2:nsubj\t_",
    "2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_",
    "2\tdo\tdo\tAUX\tVBP\t_\t0\troot\t0:root\t_",
    "3\tn't\tnot\tPART\tRB\t_\t2\tnmod:poss\t_\t_",
    "3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t0:root\t_",
    "",
    "# sent_id = weblog-a-0002",
    "1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_",
    "",
    "# newdoc id = weblog-b",
    "# sent_id = weblog-b-0001",
    "1\t5\t5\tNUM\tCD\t_\t0\troot\t_\t_",
    "",
]


def test_words_of_a_sentence(files: FolderFiles) -> None:
    write_lines(files.folder / DEV, LINES)
    assert read_form(UD_POS, "upstream conllu", "validation", files) == [
        Example(
            "weblog-a-0001",
            "What are the part-of-speech tags?",
            "I do n't",
            ("PRON AUX PART",),
            ("weblog-a",),
        ),
        Example("weblog-a-0002", "What are the part-of-speech tags?", "#", ("SYM",), ("weblog-a",)),
        Example("weblog-b-0001", "What are the part-of-speech tags?", "5", ("NUM",), ("weblog-b",)),
    ]
    (first, *_) = read_form(UD_DEP, "upstream conllu", "validation", files)
    assert first.question == "What are the heads and relations?"
    assert first.answers == ("2:nsubj 0:root 2:nmod:poss",)
    assert first.meta == {"upos": "PRON AUX PART"}


@pytest.mark.mirror
def test_gold_is_that_of_the_official_cases(shared: Path) -> None:
    lines = (shared / "conformance" / "ud_ewt.dev.jsonl").read_text(encoding="utf-8").splitlines()
    examples = read_form(UD_DEP, "upstream conllu", "validation", FolderFiles(shared / "mirror" / "ud_ewt"))
    for line, example in zip(lines, examples, strict=True):
        case = json.loads(line)
        assert (" ".join(case["tokens"]), case["gold"]) == (example.context, example.answers[0])
        assert case["gold_pos"] == example.meta["upos"]


# The Penn Treebank from the user's own files: columns, or brackets with heads next to them.

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


def ptb_columns() -> list[str]:
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
        write_lines(files.folder / f"wsj_{section:02}.conllu", ptb_columns())
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
