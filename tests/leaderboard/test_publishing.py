"""A site is replaced completely or not at all, and no other files are changed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from decabench import files
from decabench.errors import StorageError
from decabench.leaderboard import LeaderboardError, write_leaderboard
from decabench.leaderboard import site as site_module
from decabench.leaderboard.publishing import MARKER, publish
from tests.folders import contents


def site_of(number: int, pages: int = 3) -> list[tuple[str, bytes]]:
    """Write a site whose pages all name their build."""
    names = ["index.html", *(f"submissions/s-{index}.html" for index in range(pages))]
    return [(name, f"build {number}".encode()) for name in names]


def test_a_site_replaces_the_one_before(tmp_path: Path) -> None:
    publish(site_of(1, pages=5), tmp_path / "site")
    publish(site_of(2, pages=2), tmp_path / "site")
    found = contents(tmp_path / "site")
    assert found.pop(MARKER) and found == dict(site_of(2, pages=2)), (
        "a page that is no longer part of it is gone"
    )
    assert os.listdir(tmp_path) == ["site"]


def test_an_empty_folder_and_a_link_to_a_folder_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "site").symlink_to("real")
    publish(site_of(1), tmp_path / "site")
    publish(site_of(2), tmp_path / "site")
    assert (tmp_path / "site").is_symlink() and contents(tmp_path / "real")["index.html"] == b"build 2"


def test_files_beside_the_pages_move_along(tmp_path: Path) -> None:
    site = tmp_path / "site"
    publish(site_of(1), site)
    (site / "CNAME").write_text("board.example.org")
    (site / ".nojekyll").touch()
    publish(site_of(2), site)
    assert (site / "CNAME").read_text() == "board.example.org" and (site / ".nojekyll").exists()
    publish(site_of(3), site)
    assert (site / "CNAME").exists()


@pytest.mark.parametrize("name", ["notes.txt", "index.html", "deep/er/thesis.doc"])
def test_a_folder_that_is_no_board_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "home" / name).parent.mkdir(parents=True)
    (tmp_path / "home" / name).write_text("mine")
    with pytest.raises(
        LeaderboardError, match=r"home is not empty and is not a board .* Choose an empty or new"
    ):
        publish(site_of(1), tmp_path / "home")
    assert (tmp_path / "home" / name).read_text() == "mine" and os.listdir(tmp_path) == ["home"]


def add_a_file_below(site: Path) -> None:
    (site / "submissions" / "mine.html").write_text("mine")


def add_a_folder(site: Path) -> None:
    (site / ".git").mkdir()
    (site / ".git" / "HEAD").write_text("mine")


def add_a_link(site: Path) -> None:
    (site / "link").symlink_to("/etc")


@pytest.mark.parametrize(
    "change",
    [
        add_a_file_below,
        add_a_folder,
        add_a_link,
    ],
)
def test_a_board_with_something_else_in_it_is_refused(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    site = tmp_path / "site"
    publish(site_of(1), site)
    change(site)
    before = contents(site)
    with pytest.raises(LeaderboardError, match="the folder also contains other files: "):
        publish(site_of(2), site)
    assert contents(site) == before


@pytest.mark.parametrize("content", ["", "{}", '{"format": "decabench.site/1", "files": []}', "[1]"])
def test_a_folder_with_another_marker_is_refused(tmp_path: Path, content: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.doc").write_text("mine")
    (home / MARKER).write_text(content)
    with pytest.raises(LeaderboardError, match="is not the record of a board built by this version"):
        publish(site_of(1), home)
    assert (home / "thesis.doc").read_text() == "mine"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "site").touch()
    with pytest.raises(StorageError, match="is not a folder"):
        publish(site_of(1), tmp_path / "site")


def test_a_build_that_fails_leaves_the_site_and_nothing_beside_it(tmp_path: Path) -> None:
    def broken() -> Iterator[tuple[str, bytes]]:
        yield "index.html", b"build 2"
        raise RuntimeError

    publish(site_of(1), tmp_path / "site")
    with pytest.raises(RuntimeError):
        publish(broken(), tmp_path / "site")
    assert contents(tmp_path / "site")["index.html"] == b"build 1" and os.listdir(tmp_path) == ["site"]


BUILD = """
import sys, time
from pathlib import Path
from decabench.leaderboard.publishing import publish

def slow(number):
    for index in range(40):
        time.sleep(0.002)
        yield ("index.html" if index == 0 else f"submissions/s-{index}.html"), f"build {number}".encode()

print("ready", flush=True)
for number in range(1000):
    publish(slow(number), Path(sys.argv[1]))
"""


def test_builds_that_are_killed_leave_a_whole_site_and_the_next_removes_the_rest(tmp_path: Path) -> None:
    site, generator = tmp_path / "site", random.Random(1)
    publish(site_of(0), site)
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", BUILD, str(site)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline()
            time.sleep(generator.uniform(0.0, 0.4))
            process.send_signal(signal.SIGKILL)
            process.wait()
        found = contents(site)
        assert found.pop(MARKER) and len(set(found.values())) == 1, "all pages are from one build"
    publish(site_of(2), site)
    assert os.listdir(tmp_path) == ["site"]
    assert contents(site)["index.html"] == b"build 2"


def test_a_build_that_is_killed_between_its_two_renames_loses_nothing(tmp_path: Path) -> None:
    """The next build restores the earlier site, even if that build fails."""
    site = tmp_path / "site"
    publish(site_of(1), site)
    site.rename(tmp_path / ".decabench-site.before")

    def broken() -> Iterator[tuple[str, bytes]]:
        yield "index.html", b"build 2"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        publish(broken(), site)
    assert contents(site)["index.html"] == b"build 1" and os.listdir(tmp_path) == ["site"]


def test_a_rename_that_fails_leaves_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, rename = tmp_path / "site", os.rename
    publish(site_of(1), site)

    def fails(source: Path, target: Path) -> None:
        if Path(source).parent.name.endswith(".tmp"):
            raise OSError(28, "No space left on device", str(target))
        rename(source, target)

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(StorageError):
        publish(site_of(2), site)
    assert contents(site)["index.html"] == b"build 1"


def test_two_builds_at_once_take_turns(tmp_path: Path) -> None:
    site = tmp_path / "site"
    threads = [threading.Thread(target=publish, args=(site_of(number, 30), site)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = contents(site)
    assert found.pop(MARKER) and len(found) == 31 and len(set(found.values())) == 1
    assert os.listdir(tmp_path) == ["site"]


def test_boards_are_built_where_files_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "try_lock", lambda handle: None)
    publish(site_of(1), tmp_path / "site")
    publish(site_of(2), tmp_path / "site")
    assert os.listdir(tmp_path) == ["site"]
    assert contents(tmp_path / "site")["index.html"] == b"build 2"


def test_a_site_of_the_same_inputs_is_left_as_it_is(
    made_up: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site is built again if a file is damaged, or if an option or an answer changes."""
    monkeypatch.setattr(site_module, "_SETTLED", 0.0)
    folder, site = tmp_path / "submissions", tmp_path / "site"
    for name in ("system-02", "system-03"):
        shutil.copytree(made_up / name, folder / name)
    index = write_leaderboard(folder, site, home=home)
    before = contents(site)
    with monkeypatch.context() as patch:
        patch.setattr(site_module, "publish", None)
        write_leaderboard(folder, site, home=home)
    index.write_text("", encoding="utf-8")
    write_leaderboard(folder, site, home=home)
    assert contents(site) == before
    write_leaderboard(folder, site, home=home, examples="none")
    assert not (site / "data/texts").exists()
    write_leaderboard(folder, site, home=home)
    answers = folder / "system-03/predictions/sst.validation.jsonl"
    answers.write_text(answers.read_text(encoding="utf-8").replace("positive", "negative"), encoding="utf-8")
    write_leaderboard(folder, site, home=home)
    assert index.read_bytes() != before["index.html"]
    monkeypatch.setattr(site_module, "_SETTLED", 3600.0)  # recently written files may change again
    index.write_text("", encoding="utf-8")
    for _ in range(2):
        write_leaderboard(folder, site, home=home)
        assert json.loads((site / MARKER).read_text())["inputs"] == ""
