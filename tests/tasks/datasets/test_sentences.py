"""Sentences of Kotzias et al.: a sentence, a tab and a label a line; some hold characters that look like ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.sentences import SENTENCES
from decabench.tasks.example import Example
from decabench.tasks.task import Task
from tests.tasks.fixtures import FolderFiles, read_form, write_lines

IMDB = SENTENCES["sentences.imdb"]


@pytest.mark.parametrize("name", SENTENCES)
def test_sample(sample: Callable[[Task, str], list[Example]], name: str) -> None:
    examples = sample(SENTENCES[name], "test")
    assert len(examples) == 32
    assert {example.answers for example in examples} == {("negative",), ("positive",)}
    assert examples[0].id == f"{name}.test.0"


@pytest.mark.parametrize("form", ["upstream zip", "text file"])
def test_lines(files: FolderFiles, form: str) -> None:
    lines = ["Bad.  \t0", "Caf\u00e9\x85 and\ttab\t1"]
    folder = "sentiment+labelled+sentences.zip/sentiment labelled sentences/" if "zip" in form else ""
    write_lines(files.folder / f"{folder}imdb_labelled.txt", lines)
    found = read_form(IMDB, form, "test", files)
    assert [(example.context, example.answers[0]) for example in found] == [
        ("Bad.", "negative"),
        ("Caf\u00e9\x85 and\ttab", "positive"),
    ]


@pytest.mark.parametrize("line", ["no label", "text\t2", "text\t1 ", ""])
def test_a_line_of_another_form(files: FolderFiles, line: str) -> None:
    write_lines(files.folder / "imdb_labelled.txt", ["Good.\t1", line])
    with pytest.raises(
        DataError, match=r"^imdb_labelled\.txt, line 2: it must be a sentence, a tab and 0 or 1\.$"
    ):
        read_form(IMDB, "text file", "test", files)
