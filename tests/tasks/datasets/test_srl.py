"""QA-SRL: blocks, plain text out of treebank tokens, answers in the words of their sentence."""

from __future__ import annotations

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.srl import SRL, detokenise
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form, write_lines


def row(question: str, answers: str) -> str:
    """Eight tab-separated fields of a question, then its answers."""
    return f"{question}\t?\t{answers}"


def read(files: FolderFiles, *lines: str) -> list[Example]:
    write_lines(files.folder / "wiki1.dev.qa", lines)
    return read_form(SRL, "upstream qa", "validation", files)


def answers_to(files: FolderFiles, sentence: str, answers: str) -> tuple[str, ...]:
    question = row("who\tdid\t_\tit\t_\t_\t_", answers)
    (example,) = read(files, "WIKI1_1\t1", sentence, "3\tdid\t1", question, "")
    return example.answers


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("Well , it ended .", "Well, it ended."),
        ("Is it ? Yes ! Now : go ; stop", "Is it? Yes! Now: go; stop"),
        ("a -LRB- b -RRB- c", "a (b) c"),
        ("-LRB- $ 5 , 10 % -RRB- .", "($5, 10%)."),
        ("-LAB- x -RAB- -AMP- y", "< x > & y"),
        ("they 'll , I 'm , he 'd , we 're , it 's", "they'll, I'm, he'd, we're, it's"),
        ("I do n't know", "I don't know"),
        ("no , I do n't .", "no, I do n't."),  # the full stop is closed up first, as in 2018
        ("did n't", "did n't"),  # the table has a space on both sides of n't
        ("they 've gone", "theyve gone"),  # not in the table, and a quote is dropped with its space
        ("the boys ' club", "the boys club"),
        ("he said `` go '' and ` come '", "he said go and come"),
        ("he said \N{LEFT DOUBLE QUOTATION MARK} go \N{RIGHT DOUBLE QUOTATION MARK}", "he said go"),
        ("36 - page well-known - ", "36-page well-known -"),
        ("a%pwb", "a b"),
        ("  many \t spaces\n", "many spaces"),
    ],
)
def test_detokenise(tokens: str, text: str) -> None:
    assert detokenise(tokens) == text


@pytest.mark.parametrize(
    ("sentence", "answers", "expected"),
    [
        ("The army left .", "The army ### left", ("The army", "left")),
        ("The army left .", "the army", ("The army",)),
        ("He saw an army .", "An army", ("an army",)),
        ("an army left", "AN ARMY", ("an army",)),
        ("It -LRB- the 10 % -RRB- fell .", "It ( the 10 % )", ("It (the 10%)",)),
        ("It was `` good '' .", "`` good ''", ("good",)),
        ("He joined the US Army .", "the US army", ("the US Army",)),
        ("an electronic sender works .", "an electric sender", ("an electronic sender",)),
        (
            "to plan to work with the E Street Band again in the future ,",
            "plan to work with E Street Band again in the future",
            ("plan to work with the E Street Band again in the future",),
        ),
        (
            "they rather die than name the cause of his disease to his father .",
            "Rather than name the cause of his disease to his father",
            ("rather die than name the cause of his disease to his father",),
        ),
        (
            "by Darcy Burner and other 2008 Democratic congressional candidates , in cooperation with some "
            "retired national security officials .",
            "Darcy Burner and other 2008 Democratic congressional candidates  in cooperation with some "
            "retired national security officials",
            (
                "Darcy Burner and other 2008 Democratic congressional candidates, in cooperation with some "
                "retired national security officials",
            ),
        ),
    ],
)
def test_answers_are_words_of_the_sentence(
    files: FolderFiles, sentence: str, answers: str, expected: tuple[str, ...]
) -> None:
    assert answers_to(files, sentence, answers) == expected


def test_an_answer_that_is_not_in_the_sentence(files: FolderFiles) -> None:
    with pytest.raises(DataError, match=r"not in its sentence: 'the navy' in 'The army left\.'"):
        answers_to(files, "The army left .", "the navy")
