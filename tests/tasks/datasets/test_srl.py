"""QA-SRL: blocks, plain text out of treebank tokens, answers in the words of their sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.srl import SRL, detokenise
from decabench.tasks.example import Example
from decabench.tasks.task import Task
from tests.tasks.fixtures import FolderFiles, read_form, triples, write_lines


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


@pytest.mark.parametrize(("split", "rows", "sentences"), [("train", 65, 13), ("validation", 34, 7)])
def test_sample(sample: Callable[[Task, str], list[Example]], split: str, rows: int, sentences: int) -> None:
    examples = sample(SRL, split)
    assert [example.id for example in examples] == [f"srl.{split}.{index}" for index in range(rows)]
    groups = list(dict.fromkeys(example.units[0] for example in examples))
    assert groups == [f"srl.{split}.sentence.{index}" for index in range(sentences)]
    assert all(answer in example.context for example in examples for answer in example.answers)


def test_sample_starts_as_upstream_does(sample: Callable[[Task, str], list[Example]]) -> None:
    assert sample(SRL, "validation")[0] == Example(
        "srl.validation.0",
        "what might be oxygenated?",
        "Plans to artificially oxygenate areas of the Baltic that have experienced eutrophication have been "
        "proposed by the University of Gothenburg and Inocean AB.",
        ("areas of the Baltic that have experienced eutrophication",),
        ("srl.validation.sentence.0",),
    )


def test_blocks(files: FolderFiles) -> None:
    examples = read(
        files,
        "WIKI1_4\t2",
        "Bo ran and Liv sat .",
        "1\tran\t1",
        row("who\t_\t_\tran\t_\t_\t_", "Bo"),
        "4\tsat\t2",
        row("who\t_\t_\tsat\t_\t_\t_", "Liv"),
        row("who\tdid\tn't\tsit\t_\t_\t_", "Bo"),
        "",
        "WIKI1_9\t0",
        "Nobody asked about this .",
        "",
        "WIKI1_12\t1",
        "2 men left .",
        "2\tleft\t1",
        row("who\t_\t_\tleft\tsome_thing\tfrom\t_", "2 men"),
    )
    assert triples(examples) == [
        ("who ran?", "Bo ran and Liv sat.", ("Bo",)),
        ("who sat?", "Bo ran and Liv sat.", ("Liv",)),
        ("who didn't sit?", "Bo ran and Liv sat.", ("Bo",)),
        ("who left some_thing from?", "2 men left.", ("2 men",)),
    ]
    sentences = [example.units[0] for example in examples]
    assert sentences == [f"srl.validation.sentence.{number}" for number in (0, 0, 0, 2)]


BLOCK = [
    "WIKI1_1\t2",
    "Bo ran .",
    "1\tran\t1",
    row("who\t_\t_\tran\t_\t_\t_", "Bo"),
    "1\tran\t1",
    row("what\tdid\t_\trun\t_\t_\t_", "Bo"),
    " \t ",
]


@pytest.mark.parametrize("dropped", range(6))
def test_a_block_without_one_of_its_lines_is_named(files: FolderFiles, dropped: int) -> None:
    """A block says how many lines it has; without the check, a lost line moved answers to other sentences."""
    assert len(read(files, *BLOCK)) == 2
    with pytest.raises(DataError, match=r"^wiki1\.dev\.qa, line \d: "):
        read(files, *BLOCK[:dropped], *BLOCK[dropped + 1 :])


def test_two_blocks_without_an_empty_line_are_named(files: FolderFiles) -> None:
    with pytest.raises(DataError, match=r"^wiki1\.dev\.qa, line 7: the block does not have as many lines"):
        read(files, *BLOCK[:-1], *BLOCK)


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
