"""The tasks: the decathlon's in the paper's order, near matches, and sources that are pinned as published."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from decabench.errors import UnknownNameError, require_name
from decabench.tasks import TASKS, get_task
from decabench.tasks.datasets.iwslt import _DIGESTS
from decabench.tasks.task import RemoteFile, Task

PLAIN_HTTP = {"nlp.cs.washington.edu"}  # has no https
EVERY_TASK = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def remote_files(task: Task) -> list[RemoteFile]:
    return [file for source in task.sources for files in source.files.values() for file in files]


PINNED = {
    file.name: file
    for task in TASKS.values()
    for file in remote_files(task)
    if file.sha256 or file.md5 or file.git_blob
}


@EVERY_TASK
def test_what_a_person_reads(task: Task) -> None:
    assert all((task.title, task.dataset, task.licence, task.homepage))
    assert re.search(r" et al\. \d{4}, ", task.citation)
    assert task.origin == "decabench"


@EVERY_TASK
def test_files_of_a_source_have_one_meaning(task: Task) -> None:
    for source in task.sources:
        by_name: dict[str, RemoteFile] = {}
        for split, files in source.files.items():
            assert len({file.name for file in files}) == len(files) > 0, (source.name, split)
            for file in files:
                assert by_name.setdefault(file.name, file) == file
                assert not file.name.startswith(("/", ".")) and ".." not in file.name
    assert len({source.name for source in task.sources}) == len(task.sources)


@EVERY_TASK
def test_addresses(task: Task) -> None:
    for file in remote_files(task):
        for url in file.urls:
            parts = urlsplit(url)
            assert parts.hostname
            assert parts.scheme == ("http" if parts.hostname in PLAIN_HTTP else "https")
            # Over plain http a file is only as good as its digest.
            assert parts.scheme == "https" or file.sha256


@EVERY_TASK
def test_repositories_are_named_at_a_commit(task: Task) -> None:
    for source in task.sources:
        pinned = {url: file.sha256 for files in source.files.values() for file in files for url in file.urls}
        for files in source.files.values():
            for url in (url for file in files for url in file.urls):
                if urlsplit(url).hostname in ("raw.githubusercontent.com", "github.com", "huggingface.co"):
                    assert re.search("/[0-9a-f]{40}/", url) or pinned[url], url


@pytest.mark.parametrize("file", PINNED.values(), ids=PINNED)
def test_digests_have_their_form(file: RemoteFile) -> None:
    for digest, digits in ((file.sha256, 64), (file.md5, 32), (file.git_blob, 40)):
        assert digest is None or re.fullmatch(f"[0-9a-f]{{{digits}}}", digest)


def spelled_out(names: str) -> str:
    """`a.x / b.x` for `{a,b}.x`."""
    found = re.fullmatch(r"(.*?)\{(.+)\}(\S*)(.*)", names.strip())
    return names if not found else " / ".join(f"{found[1]}{part}{found[3]}" for part in found[2].split(","))


def published(text: str, file: RemoteFile) -> tuple[str, set[str]]:
    """The line of the table of checksums that has a file's digest, and the digests it gives to the file.

    A line may be about two files: `tst2013.de-en.en.xml / .de.xml`, with their digests in that order.
    """
    digest = file.sha256 or file.md5 or file.git_blob
    line = next(line for line in text.splitlines() if f"`{digest}`" in line)
    names = [
        name.split(" (")[0].replace(" .", ".").split()[-1].lstrip("\N{HORIZONTAL ELLIPSIS}")
        for name in spelled_out(line.split("|")[1]).split(" / ")
    ]
    (place,) = [place for place, name in enumerate(names) if file.name.endswith((name, f"-{name}.conllu"))]
    digests = re.findall(r"`([0-9a-f]+)`", line)
    return line, set(digests) if len(names) == 1 else {digests[place]}


@pytest.mark.mirror
@pytest.mark.parametrize("file", PINNED.values(), ids=PINNED)
def test_digests_are_the_published_ones(shared: Path, file: RemoteFile) -> None:
    path = shared / "SOURCES.md"
    if not path.exists():
        pytest.skip("the list of sources is not beside the project")
    line, digests = published(path.read_text(encoding="utf-8"), file)
    assert {file.sha256, file.md5, file.git_blob} - {None} <= digests
    for kind, digest in (("sha256", file.sha256), ("md5", file.md5), ("blob", file.git_blob)):
        assert digest is None or kind in line
    assert file.size is None or f"{file.size:,}" in line


@pytest.mark.mirror
def test_digests_of_the_hubs_slices_are_the_published_ones(shared: Path) -> None:
    path = shared / "SOURCES.md"
    if not path.exists():
        pytest.skip("the list of sources is not beside the project")
    text = path.read_text(encoding="utf-8")
    for split, year in (("validation", "tst2013"), ("test", "tst2014")):
        for language, digest in zip(("en", "de"), _DIGESTS[split], strict=True):
            assert re.search(rf"IWSLT16\.TED\.{year}\.de-en\.{language} \(text\).*`{digest}`", text)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sqaud2", "Did you mean squad2 or squad?"),
        ("woz", "Did you mean woz.en or woz.de?"),
        ("wikisq", "Did you mean wikisql?"),
        ("Schema", "Did you mean schema?"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_name(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        get_task(name)
    told = str(caught.value)
    assert told.startswith(f"There is no task {name!r}.{' ' if hint else ''}{hint}")
    known = re.search(
        r"Known: (.*) and (\d+) more\. For a task of your own, give its file with --include\.$", told
    )
    assert known is not None
    named = known[1].split(", ")
    assert (named, len(named) + int(known[2])) == (list(TASKS)[: len(named)], len(TASKS))
    assert ("Did you mean" in told) == bool(hint)
    assert isinstance(caught.value, ValueError)


def test_a_known_name() -> None:
    assert get_task("woz.en") is TASKS["woz.en"]
    assert require_name("b", ("a", "b"), "letter") == "b"


def test_a_word_of_ones_own_for_the_kind() -> None:
    with pytest.raises(UnknownNameError, match=r"^There is no split 'dev'\. Known: train, test\.$"):
        require_name("dev", iter(("train", "test")), "split")


def test_the_name_of_a_suite_is_no_task() -> None:
    with pytest.raises(
        UnknownNameError, match="fdu is a suite, not a task: choose its tasks with --suite fdu"
    ):
        get_task("fdu")
