"""The page of `decabench show`: what is in its files. In a browser: tests/browser/test_examples.py."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

from decabench.leaderboard import write_example_pages
from decabench.leaderboard.example_pages import STATIC_FILES
from decabench.scoring import ScoringOptions, find_examples

Submit = Callable[..., Path]


def read(path: Path) -> Any:
    """The value of a data file."""
    found = re.fullmatch(r'decabench\.put\("[a-z0-9-]+",(".*")\);\n', path.read_text(encoding="ascii"))
    assert found is not None
    return json.loads(json.loads(found[1]))


def test_every_example_is_in_one_piece(home: Path, submit: Submit, tmp_path: Path) -> None:
    shown = find_examples(submit("random", ["squad"]), "squad", ScoringOptions(home=home))
    index = write_example_pages(shown, tmp_path / "page")
    content = read(tmp_path / "page/data/index.js")
    assert content["ids"] == [row.id for row in shown.rows]
    pieces = [read(tmp_path / f"page/data/piece-{number}.js") for number in range(len(content["sizes"]))]
    assert [len(piece) for piece in pieces] == content["sizes"]
    texts = [one["question"] for piece in pieces for one in piece]
    assert texts == [text["question"] for text in shown.texts]
    assert index == tmp_path / "page/index.html"


def test_the_page_asks_nobody_else(home: Path, submit: Submit, tmp_path: Path) -> None:
    shown = find_examples(submit("random", ["sst"]), "sst", ScoringOptions(home=home))
    text = write_example_pages(shown, tmp_path / "page").read_text(encoding="utf-8")
    assert "default-src 'none'; script-src 'self'" in unescape(text)
    assert not re.findall(r"(?:src|href)=\"(?!static/|#)", text)
    assert "<script>" not in text and " style=" not in text


def test_equal_answers_give_equal_bytes_and_a_page_replaces_a_page(
    home: Path, submit: Submit, tmp_path: Path
) -> None:
    shown = find_examples(submit("random", ["sst"]), "sst", ScoringOptions(home=home))
    write_example_pages(shown, tmp_path / "page")
    before = {path: path.read_bytes() for path in (tmp_path / "page").rglob("*") if path.is_file()}
    write_example_pages(shown, tmp_path / "page")
    assert {path: path.read_bytes() for path in (tmp_path / "page").rglob("*") if path.is_file()} == before


def test_the_board_does_without_the_files_of_this_page(home: Path, submit: Submit, tmp_path: Path) -> None:
    from decabench.leaderboard import write_leaderboard

    submit("majority", ["sst"], output="submissions/majority")
    write_leaderboard(tmp_path / "submissions", tmp_path / "site", home=home)
    assert not [name for name in STATIC_FILES if (tmp_path / "site/static" / name).exists()]
