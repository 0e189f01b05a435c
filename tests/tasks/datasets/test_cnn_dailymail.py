from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.cnn_dailymail import CNN_DAILYMAIL, Story, read_stories
from decabench.tasks.example import Example
from decabench.tasks.task import Task
from tests.tasks.fixtures import FolderFiles, read_form, tar_bytes, write_lines, write_parquet

# CNN/DailyMail: periods added, compatibility forms folded, three forms of the data.


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


def write_stories(files: FolderFiles, stories: Mapping[str, Mapping[str, str]]) -> None:
    """Write the archives of both newspapers, sorted by digest, and the lists in the given order."""
    for paper, texts in stories.items():
        write_lines(files.folder / f"{paper}_wayback_validation_urls.txt", texts)
        named = {hashlib.sha1(url.encode()).hexdigest(): text for url, text in texts.items()}
        members = {f"{paper}/stories/{name}.story": named[name].encode() for name in sorted(named)}
        (files.folder / f"{paper}_stories.tgz").write_bytes(tar_bytes(members))


def test_stories_are_like_parquet(files: FolderFiles) -> None:
    urls = [f"http://web.archive.org/{number}" for number in range(4)]
    text = "(CNN) -- It rains {n}.\n\nNobody \ufb01nds it odd\n\n@highlight\n\nRain {n}\n\n@highlight\n\nNobody !\n"
    stories = {url: text.format(n=number) for number, url in enumerate(urls)}
    write_stories(
        files, {"cnn": dict(list(stories.items())[:3]), "dailymail": dict(list(stories.items())[3:])}
    )
    rows = [
        (
            f"(CNN) -- It rains {n}. Nobody finds it odd.",
            f"Rain {n}\nNobody !",
            hashlib.sha1(url.encode()).hexdigest(),
        )
        for n, url in enumerate(urls)
    ]
    write_part(files, "validation", 0, 1, rows)
    examples = read_form(CNN_DAILYMAIL, "upstream stories", "validation", files)
    assert examples == read_form(CNN_DAILYMAIL, "hub parquet", "validation", files)
    assert examples[0].answers == ("Rain 0. Nobody !",)


# Stories: text above, highlights below; archives in any order, lists decide.

URLS = {"cnn": ["http://c/1", "http://c/2"], "dailymail": ["http://d/1"]}


def digest(url: str) -> str:
    return hashlib.sha1(url.encode()).hexdigest()


def write_archive(files: FolderFiles, paper: str, urls: list[str]) -> None:
    members = {f"{paper}/stories/{digest(url)}.story": url.encode() for url in reversed(urls)}
    (files.folder / f"{paper}_stories.tgz").write_bytes(tar_bytes({f"{paper}/README": b"", **members}))


def write_all(files: FolderFiles) -> None:
    for paper, urls in URLS.items():
        write_lines(files.folder / f"{paper}_wayback_test_urls.txt", urls)
        write_archive(files, paper, urls)


def test_order_is_the_lists(files: FolderFiles) -> None:
    write_all(files)
    expected: list[Story] = [(digest(url), [url], []) for urls in URLS.values() for url in urls]
    assert list(read_stories(files, "test")) == expected


def test_a_listed_story_that_the_archive_lacks(files: FolderFiles) -> None:
    write_all(files)
    write_archive(files, "cnn", ["http://c/1"])
    with pytest.raises(DataError, match=rf"cnn_stories\.tgz has no story {digest('http://c/2')}.*http://c/2"):
        list(read_stories(files, "test"))
