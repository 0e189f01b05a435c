"""A task defined in Python, with its own reader. To use it: decabench ... --include country_length.py"""

import csv
from collections.abc import Iterator
from pathlib import Path

from decabench.tasks import Example, Files, RemoteFile, Source, Task


def read(files: Files, split: str) -> Iterator[Example]:
    with files.path("train.csv").open(newline="") as file:
        for index, row in enumerate(csv.DictReader(file)):
            id = f"country_length.{split}.{index}"
            answer = str(len(row["country"]))
            yield Example(id, "How many letters does the country's name have?", row["country"], (answer,), id)


COUNTRY_LENGTH = Task(
    name="country_length",
    title="Letters of a name",
    dataset="Six countries",
    metric="em",
    counts={"validation": 6},
    sources=(Source("local csv", {"validation": (RemoteFile("train.csv"),)}, read),),
    licence="CC0",
    citation="",
    folder=Path(__file__).parent / "capitals",
)
