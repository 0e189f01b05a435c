"""Multi30k: two compressed files line by line."""

from __future__ import annotations

import gzip

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.multi30k import MULTI30K_EN_DE
from decabench.tasks.example import Example
from tests.tasks.fixtures import FolderFiles, read_form


def write(files: FolderFiles, english: bytes, german: bytes) -> None:
    files.folder.mkdir(exist_ok=True)
    (files.folder / "val.en.gz").write_bytes(gzip.compress(english))
    (files.folder / "val.de.gz").write_bytes(gzip.compress(german))


def read(files: FolderFiles) -> list[Example]:
    return read_form(MULTI30K_EN_DE, "gzip files", "validation", files)


def test_pairs(files: FolderFiles) -> None:
    write(files, b"A man .\nTwo\xe2\x80\xa8dogs .\n", "Ein Mann .\nZwei Hunde ä .\n".encode())
    first, second = read(files)
    assert first == Example(
        "multi30k.en.de.validation.0",
        "Translate from English to German",
        "A man .",
        ("Ein Mann .",),
        ("multi30k.en.de.validation.0",),
    )
    assert (second.context, second.answers) == ("Two\u2028dogs .", ("Zwei Hunde ä .",))


def test_a_file_that_was_cut_off(files: FolderFiles) -> None:
    write(files, b"a\n" * 999, b"a\n" * 999)
    path = files.folder / "val.de.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"val\.de\.gz is damaged"):
        read(files)
