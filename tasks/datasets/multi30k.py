"""Multi30k: English captions of photographs and their German translations, a translation task whose data is whole."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from decabench.errors import DataError
from decabench.files import read_errors
from decabench.tasks.datasets.iwslt import IWSLT_EN_DE
from decabench.tasks.example import Example
from decabench.tasks.outputs import Text
from decabench.tasks.readers import github_raw
from decabench.tasks.task import Files, RemoteFile, Source, Task
from decabench.tasks.wording import AnswerForm, PromptTemplate

__all__ = ["MULTI30K_EN_DE"]

_QUESTION = "Translate from English to German"
_PARTS = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
_REPOSITORY = ("multi30k/dataset", "c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab")


def _names(split: str) -> tuple[str, str]:
    return f"{_PARTS[split]}.en.gz", f"{_PARTS[split]}.de.gz"


def _lines(path: Path) -> Iterator[str]:
    try:
        with read_errors(path), gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.strip()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path.name} is damaged ({error}): prepare again with --force.") from error


def _read(files: Files, split: str) -> Iterator[Example]:
    names = _names(split)
    sides = zip_longest(*(_lines(files.path(name)) for name in names))
    for index, (english, german) in enumerate(sides):
        if not english or not german:
            raise DataError(f"{' and '.join(names)}, line {index + 1}: a side has no text.")
        id = f"multi30k.en.de.{split}.{index}"
        yield Example(id, _QUESTION, english, (german,), (id,))


def _file(name: str) -> RemoteFile:
    return RemoteFile(name, (github_raw(*_REPOSITORY, f"data/task1/raw/{name}"),))


MULTI30K_EN_DE = Task(
    name="multi30k.en.de",
    title="Machine translation",
    dataset="Multi30k, English to German",
    output=Text(max_tokens=96),
    metric="bleu",
    secondary=("nf1", "chrf2", "chrf_plus_plus", "ter"),
    counts={"train": 29_000, "validation": 1_014, "test": 1_000},
    sources=(Source("gzip files", {split: tuple(map(_file, _names(split))) for split in _PARTS}, _read),),
    licence="Not stated; captions of Flickr30k, for research",
    citation="Elliott et al. 2016, Multi30K: Multilingual English-German Image Descriptions",
    homepage="https://github.com/multi30k/dataset",
    notes="Test is test_2016_flickr.",
    unit_names=("photograph",),
    prompt=PromptTemplate(
        instruction=(
            "You are given a caption of a photograph. Give only its translation, on one line, without notes or "
            "quotation marks of your own."
        ),
        input="{question}\n\nCaption: {context}",
        answer="Translation:",
        stop=("\n\n", "\nCaption:"),
        form=AnswerForm("line"),
    ),
    variants=IWSLT_EN_DE.variants,
    withhold_texts=True,
    shared_folder="multi30k",
)
