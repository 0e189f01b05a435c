"""Sentences of Kotzias et al.: a sentence, a tab and a label a line; some hold characters that look like ends."""

from __future__ import annotations

import pytest

from decabench.tasks.datasets.sentences import SENTENCES
from tests.tasks.fixtures import FolderFiles, read_form, write_lines

IMDB = SENTENCES["sentences.imdb"]


@pytest.mark.parametrize("form", ["upstream zip", "text file"])
def test_lines(files: FolderFiles, form: str) -> None:
    lines = ["Bad.  \t0", "Caf\u00e9\x85 and\ttab\t1"]
    write_lines(files.folder / "imdb_labelled.txt", lines)
    found = read_form(IMDB, form, "test", files)
    assert [(example.context, example.answers[0]) for example in found] == [
        ("Bad.", "negative"),
        ("Caf\u00e9\x85 and\ttab", "positive"),
    ]
