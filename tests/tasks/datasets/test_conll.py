"""CoNLL-2000 and CoNLL-2003: tags as published, documents, and files that can be rebuilt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.conll import CONLL2000, CONLL2003, CONLL2003_ENTITIES, EN_POS
from tests.tasks.conftest import shared
from tests.tasks.fixtures import FolderFiles, read_form, write_lines

__all__ = ["shared"]

SENTENCES = [[f"w{number} NN B-NP", "# # I-NP", ""] for number in range(20)]


def test_the_zip_gives_the_same(files: FolderFiles) -> None:
    lines = [line for sentence in SENTENCES for line in sentence]
    for name in ("train.txt", "test.txt"):
        write_lines(files.folder / name, lines)
        write_lines(files.folder / "conll2000.zip" / "conll2000" / name, lines)
    for split in ("train", "validation", "test"):
        for task in (CONLL2000, EN_POS):
            assert read_form(task, "nltk zip", split, files) == read_form(task, "upstream text", split, files)


def test_a_line_with_another_number_of_columns(files: FolderFiles) -> None:
    write_lines(files.folder / "test.txt", ["the DT B-NP", "dog NN"])
    with pytest.raises(DataError, match=r"test\.txt, line 2: it has 2 columns, but each line must have 3"):
        read_form(CONLL2000, "upstream text", "test", files)


NEWS = [
    "-DOCSTART- -X- O O",
    "",
    "U.N. NNP I-NP I-ORG",
    "official NN I-NP O",
    "Jo NNP I-NP I-PER",
    "Wu NNP I-NP I-PER",
    "Al NNP B-NP B-PER",
    "",
    "-DOCSTART- -X- O O",
    "",
    "Rain NN I-NP O",
    "",
]


def test_entities_and_documents(files: FolderFiles) -> None:
    write_lines(files.folder / "eng.testa", NEWS)
    first, second = read_form(CONLL2003, "upstream text", "validation", files)
    assert (first.context, first.answers) == ("U.N. official Jo Wu Al", ("I-ORG O I-PER I-PER B-PER",))
    assert (first.units, second.units) == (("validation-1",), ("validation-2",))
    assert first.meta == {"pos": "NNP NN NNP NNP NNP", "chunks": "I-NP I-NP I-NP I-NP B-NP"}
    asked = read_form(CONLL2003_ENTITIES, "upstream text", "validation", files)
    assert [(example.question, example.answers[0]) for example in asked] == [
        ("Which entities are persons?", "Jo Wu, Al"),
        ("Which entities are locations?", "None"),
        ("Which entities are organizations?", "U.N."),
        ("Which entities are miscellaneous?", "None"),
        *(
            (f"Which entities are {kind}?", "None")
            for kind in ("persons", "locations", "organizations", "miscellaneous")
        ),
    ]
    assert asked[0].id == "conll2003.validation.0.PER"
    assert asked[0].units == ("validation-1", "conll2003.validation.0")


@pytest.mark.mirror
def test_the_files_of_2000_are_rebuilt(shared: Path) -> None:
    files = FolderFiles(shared / "mirror" / "conll2000")
    counts = {}
    for name, splits in (("train.txt", ("train", "validation")), ("test.txt", ("test",))):
        lines = []
        for split in splits:
            chunked, tagged = (read_form(task, "upstream text", split, files) for task in (CONLL2000, EN_POS))
            counts[split] = len(chunked)
            for chunks, tags in zip(chunked, tagged, strict=True):
                assert (chunks.context, chunks.meta["pos"]) == (tags.context, tags.answers[0])
                columns = zip(
                    *(text.split(" ") for text in (chunks.context, tags.answers[0], chunks.answers[0])),
                    strict=True,
                )
                lines += [f"{' '.join(cells)}\n" for cells in columns] + ["\n"]
        original = files.path(name).read_bytes()
        assert "".join(lines).encode() == original.removesuffix(b"\n\n") + b"\n\n"
        assert len(original.split(b"\n\n")) - 1 == sum(counts[split] for split in splits)
    assert counts == {"train": 8_043, "validation": 893, "test": 2_012} == CONLL2000.counts


@pytest.mark.mirror
def test_the_english_of_code_switching_is_the_text_of_2000(shared: Path) -> None:
    mirror = shared / "mirror"
    assert (mirror / "hien.pos" / "en_train.txt").read_bytes() == (
        mirror / "conll2000" / "train.txt"
    ).read_bytes()


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("split", "name", "sentences", "documents"),
    [
        ("train", "eng.train", 14_041, 946),
        ("validation", "eng.testa", 3_250, 216),
        ("test", "eng.testb", 3_453, 231),
    ],
)
def test_the_files_of_2003_are_rebuilt(
    shared: Path, split: str, name: str, sentences: int, documents: int
) -> None:
    """All but the lines between documents, of which the copies of this file have different ones."""
    files = FolderFiles(shared / "mirror" / "conll2003")
    examples = read_form(CONLL2003, "upstream text", split, files)
    lines = []
    for example in examples:
        texts = (example.context, example.meta["pos"], example.meta["chunks"], example.answers[0])
        lines += [" ".join(cells) for cells in zip(*(text.split(" ") for text in texts), strict=True)] + [""]
    original = [
        line for line in files.path(name).read_text().split("\n") if not line.startswith("-DOCSTART-")
    ]
    blocks = [block for block in "\n".join(original).split("\n\n") if block.strip()]
    assert "\n".join(lines).strip("\n") == "\n\n".join(block.strip("\n") for block in blocks)
    assert len(examples) == sentences == CONLL2003.counts[split]
    assert len({example.units for example in examples}) == documents
    assert {tag for example in examples for tag in example.answers[0].split()} <= set(
        CONLL2003.answer_form.labels
    )


@pytest.mark.mirror
def test_gold_is_that_of_the_official_cases(shared: Path) -> None:
    lines = (shared / "conformance" / "conll2000.chunk.jsonl").read_text(encoding="utf-8").splitlines()
    examples = read_form(CONLL2000, "upstream text", "test", FolderFiles(shared / "mirror" / "conll2000"))
    assert [json.loads(line)["gold"] for line in lines] == [example.answers[0] for example in examples]
