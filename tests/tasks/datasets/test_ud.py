"""UD English EWT: words without ranges and empty nodes, documents, and columns that can be rebuilt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.ud import UD_DEP, UD_POS
from decabench.tasks.example import Example
from tests.tasks.conftest import shared
from tests.tasks.fixtures import FolderFiles, read_form, write_lines

__all__ = ["shared"]

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


def test_comments_without_words(files: FolderFiles) -> None:
    write_lines(files.folder / DEV, ["# newdoc id = a", "", *LINES])
    with pytest.raises(DataError, match="line 1: the sentence has no words"):
        read_form(UD_POS, "upstream conllu", "validation", files)


@pytest.mark.mirror
def test_gold_is_that_of_the_official_cases(shared: Path) -> None:
    lines = (shared / "conformance" / "ud_ewt.dev.jsonl").read_text(encoding="utf-8").splitlines()
    examples = read_form(UD_DEP, "upstream conllu", "validation", FolderFiles(shared / "mirror" / "ud_ewt"))
    for line, example in zip(lines, examples, strict=True):
        case = json.loads(line)
        assert (" ".join(case["tokens"]), case["gold"]) == (example.context, example.answers[0])
        assert case["gold_pos"] == example.meta["upos"]
