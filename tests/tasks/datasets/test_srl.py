from __future__ import annotations

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.srl import SRL
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_lines


def row(question: str, answers: str) -> str:
    """Return a line with the eight tab-separated fields of a question, followed by its answers."""
    return f"{question}\t?\t{answers}"


def read(files: FolderFiles, *lines: str) -> list[Example]:
    write_lines(files.folder / "wiki1.dev.qa", lines)
    return read_form(SRL, "upstream qa", "validation", files)


def answers_to(files: FolderFiles, sentence: str, answers: str) -> tuple[str, ...]:
    question = row("who\tdid\t_\tit\t_\t_\t_", answers)
    (example,) = read(files, "WIKI1_1\t1", sentence, "3\tdid\t1", question, "")
    return example.answers


def test_an_answer_that_is_not_in_the_sentence(files: FolderFiles) -> None:
    with pytest.raises(
        DataError, match=r"answer 'the navy' does not occur in its sentence, 'The army left\.'"
    ):
        answers_to(files, "The army left .", "the navy")
