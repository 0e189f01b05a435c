from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from decabench.tasks.datasets.cnn_dailymail import CNN_DAILYMAIL
from decabench.tasks.example import Example
from decabench.tasks.task import Task
from tests.tasks.fixtures import FolderFiles, read_form, write_parquet

# CNN/DailyMail: periods added, compatibility forms folded, parts in order.


def write_part(
    files: FolderFiles, split: str, part: int, parts: int, rows: Sequence[tuple[str, str, str]]
) -> None:
    keys = ("article", "highlights", "id")
    path = files.folder / "3.0.0" / f"{split}-{part:05d}-of-{parts:05d}.parquet"
    write_parquet(path, [dict(zip(keys, row, strict=True)) for row in rows])


def highlights_as_read(files: FolderFiles, highlights: str) -> str:
    write_part(files, "test", 0, 1, [("An article.", highlights, "a")])
    (example,) = read_form(CNN_DAILYMAIL, "hub parquet", "test", files)
    return example.answers[0]


def test_sample_starts_with_its_first_row(sample: Callable[[Task, str], list[Example]]) -> None:
    first = sample(CNN_DAILYMAIL, "validation")[0]
    assert (first.id, first.units) == ("wiki-064", ("wiki-064",))
    assert first.context.startswith("The exodus of Huguenots from France created a brain drain, as many")
    assert first.answers[0].startswith("The flight of Huguenots robbed France of talented people")


HIGHLIGHTS = {
    "periods": ("Khan trains .\nHe took a break .", "Khan trains . He took a break ."),
    "none": ("Khan trains\nHe took a break", "Khan trains. He took a break."),
    "percent": ("Down to 22 %", "Down to 22 %."),
    "question and exclamation": (" Who? \n\n Me! \n", "Who? Me!"),
    "closing marks": ("He said \"go\"\n'no'\n(yes)\n`so`", "He said \"go\" 'no' (yes) `so`"),
    "typographic": ("said \u201d\nit\u2019", "said \u201d it\u2019"),
    "comma": ("one, two,", "one, two,."),
    # A mark folded to a period gets one too.
    "NFKC": ("\ufb01rst ½\u00a0mile\u2026", "first 1\N{FRACTION SLASH}2 mile...."),
}


@pytest.mark.parametrize(("highlights", "answer"), HIGHLIGHTS.values(), ids=HIGHLIGHTS)
def test_missing_periods(files: FolderFiles, highlights: str, answer: str) -> None:
    assert highlights_as_read(files, highlights) == answer


ROWS = [(f"Article {number}.", f"Highlight {number}\nMore", f"id{number}") for number in range(6)]


def test_parts_are_read_in_order(files: FolderFiles) -> None:
    for part in range(3):
        write_part(files, "train", part, 3, ROWS[2 * part : 2 * part + 2])
    write_part(files, "train", 0, 1, ROWS)
    parts = read_form(CNN_DAILYMAIL, "hub parquet", "train", files)
    assert [example.id for example in parts] == [f"id{number}" for number in range(6)]
    assert parts == read_form(CNN_DAILYMAIL, "parquet, one file a split", "train", files)
    assert parts[5].answers == ("Highlight 5. More.",)
