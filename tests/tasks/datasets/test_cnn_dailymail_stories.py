"""Stories: text above, highlights below; archives in any order, lists decide."""

from __future__ import annotations

import hashlib

import pytest

from decabench.errors import DataError
from decabench.tasks.datasets.cnn_dailymail import STORY_FILES, Story, parse_story, read_stories
from tests.tasks.fixtures import FolderFiles, tar_bytes, write_lines

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


@pytest.mark.parametrize(
    ("text", "article", "highlights"),
    [
        ("one\n\n two \n\n@highlight\n\nthree\n\n@highlight\n\nfour\n", ["one", "two"], ["three", "four"]),
        ("one\r\n@highlight\r\ntwo\r\n", ["one"], ["two"]),
        ("@highlight\n\nonly", [], ["only"]),
        ("no highlight", ["no highlight"], []),
        ("one\n@highlight\ntwo\nthree", ["one"], ["two", "three"]),
    ],
    ids=["usual", "crlf", "no article", "no highlights", "two lines below one mark"],
)
def test_parse_story(text: str, article: list[str], highlights: list[str]) -> None:
    assert parse_story("id", text) == ("id", article, highlights)


def test_order_is_the_lists(files: FolderFiles) -> None:
    write_all(files)
    expected: list[Story] = [(digest(url), [url], []) for urls in URLS.values() for url in urls]
    assert list(read_stories(files, "test")) == expected


def test_a_listed_story_that_the_archive_lacks(files: FolderFiles) -> None:
    write_all(files)
    write_archive(files, "cnn", ["http://c/1"])
    with pytest.raises(DataError, match=rf"cnn_stories\.tgz has no story {digest('http://c/2')}.*http://c/2"):
        list(read_stories(files, "test"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"<html>not found</html>", "is damaged"), (tar_bytes({"cnn/a.story": b""})[:60], "cnn_stories")],
    ids=["another file", "cut"],
)
def test_an_archive_that_is_not_whole(files: FolderFiles, content: bytes, sentence: str) -> None:
    write_all(files)
    files.path("cnn_stories.tgz").write_bytes(content)
    with pytest.raises(DataError, match=sentence):
        list(read_stories(files, "test"))


def test_each_split_has_both_archives_and_its_own_lists() -> None:
    names = {split: [file.name for file in files] for split, files in STORY_FILES.items()}
    for split, word in (("train", "training"), ("validation", "validation"), ("test", "test")):
        lists = [f"{paper}_wayback_{word}_urls.txt" for paper in ("cnn", "dailymail")]
        assert names[split] == ["cnn_stories.tgz", "dailymail_stories.tgz", *lists]
