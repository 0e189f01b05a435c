"""The page of changes since the last build, and the files that other sites can embed."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import fromstring

from decabench.leaderboard import write_leaderboard
from tests.leaderboard.small import results, write

ATOM = "{http://www.w3.org/2005/Atom}"
HOSTILE = '<b>&"x\uffff</b>'


def built(folder: Path, *files: dict[str, object], **options: bool) -> list[dict[str, object]]:
    """Build the site again, and return all recorded builds."""
    write(folder / "in", files)
    write_leaderboard(folder / "in", folder / "site", rank_reported=True, **options)
    found: list[dict[str, object]] = json.loads((folder / "site/changes.json").read_text())["builds"]
    return found


def test_changes_of_totals_ranks_and_rows_are_listed(tmp_path: Path) -> None:
    assert built(tmp_path, results("a", 50.0), results("b", 40.0)) == []
    assert "No changes yet" in (tmp_path / "site/changes.html").read_text()
    (build,) = built(tmp_path, results("a", 50.0), results("b", 60.0), results(HOSTILE, 10.0))
    words = {change["name"]: change["words"] for change in build["changes"]}  # type: ignore[attr-defined]
    assert words == {
        "a": "rank 1 \u2192 2",
        "b": "total 400 \u2192 600; rank 2 \u2192 1",
        HOSTILE: "new, total 100, rank 3",
    }
    again = built(tmp_path, results("a", 50.0), results("b", 60.0), results(HOSTILE, 10.0))
    assert again == [build]
    for path in (tmp_path / "in" / "submission-0").rglob("*"):
        if path.is_file():
            path.unlink()
    write_leaderboard(tmp_path / "in", tmp_path / "site", rank_reported=True)
    newest, last = json.loads((tmp_path / "site/changes.json").read_text())["builds"]
    assert last == build
    assert [each["words"] for each in newest["changes"] if each["name"] == "a"] == ["withdrawn or renamed"]
    page = (tmp_path / "site/changes.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page and "<b>" not in page


def test_the_feed_is_atom(tmp_path: Path) -> None:
    built(tmp_path, results("a", 50.0, about={"date": "2026-02-03"}))
    feed = fromstring((tmp_path / "site/changes.xml").read_bytes())
    assert feed.findtext(f"{ATOM}updated") == "2026-02-03T00:00:00Z"
    (build,) = built(tmp_path, results("a", 50.0), results(HOSTILE, 60.0))
    feed = fromstring((tmp_path / "site/changes.xml").read_bytes())
    (entry,) = feed.iter(f"{ATOM}entry")
    assert entry.findtext(f"{ATOM}updated") == build["date"] == feed.findtext(f"{ATOM}updated")
    assert '<b>&"x</b> (The Natural Language Decathlon): new' in str(entry.findtext(f"{ATOM}content"))
    for one in (feed, entry):
        assert all(one.findtext(f"{ATOM}{name}") for name in ("id", "title", "updated"))


def test_a_row_has_a_badge_and_a_board_a_table_to_embed(tmp_path: Path) -> None:
    built(tmp_path, results("a", 50.0), results(HOSTILE, 60.0))
    badge = fromstring((tmp_path / "site/badges/submission-0-validation.svg").read_bytes())
    assert badge.get("aria-label") == "decaScore: 500.0 \xb7 rank 2 of 2"
    table = (tmp_path / "site/board-embed.html").read_text(encoding="utf-8")
    assert table.index("&lt;b&gt;") < table.index(">a<") and "<b>" not in table
