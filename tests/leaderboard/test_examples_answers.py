"""Answers read fast are the answers read carefully."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decabench.files import Compression
from decabench.leaderboard import examples as answers
from decabench.leaderboard.examples import scored_answers
from decabench.submission.answers import predictions_digest, read_answers
from decabench.submission.folder import SubmissionInfo, write_submission
from decabench.submission.layout import PredictionFile

PAIRS = [
    ("b", "plain"),
    ("a", ""),
    ("é", 'quotes " and \\ and \n and \u2028 and </script> and \x7f'),
    ("a1", "tab\t"),
    ("c", "emoji 😀"),
]


def written(folder: Path, pairs: list[tuple[str, str]], compress: Compression = None) -> PredictionFile:
    return write_submission(folder, SubmissionInfo("x"), {("sst", "validation"): pairs}, compress).files[
        "sst", "validation"
    ]


@pytest.mark.parametrize("compress", [None, "gz", "zst"])
def test_fast_and_careful_agree(
    tmp_path: Path, compress: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, PAIRS, compress)
    digest = predictions_digest(file)
    monkeypatch.setattr(answers, "predictions_digest", lambda file: pytest.fail("went the careful way"))
    assert scored_answers(file, digest) == read_answers(file) == dict(PAIRS)


def test_ids_with_escapes_go_the_careful_way(tmp_path: Path) -> None:
    file = written(tmp_path, [('say "a"', "x"), ("say", "y"), ("say !", "z")])
    assert scored_answers(file, predictions_digest(file)) == read_answers(file)


def test_other_spellings_go_the_careful_way(tmp_path: Path) -> None:
    file = written(tmp_path, [("a", "x")])
    file.path.write_text('\n{"answer":"\\u0078", "id":"a", "more": 1}', encoding="utf-8")
    assert scored_answers(file, predictions_digest(file)) == {"a": "x"}


def test_other_answers_are_none(tmp_path: Path) -> None:
    assert scored_answers(written(tmp_path, PAIRS), "sha256:0") is None


def test_without_a_digest_nothing_is_checked(tmp_path: Path) -> None:
    assert scored_answers(written(tmp_path, PAIRS), "") == dict(PAIRS)


def with_more(file: PredictionFile) -> PredictionFile:
    """The same answers in lines that say more of them."""
    rows = [json.loads(line) for line in file.path.read_text().split("\n") if line]
    rows[0] |= {"raw": 'He said: "answer": "no"}', "rule": "marker", "context_kept": [0, 4]}
    rows[1] |= {"finish": "length"}
    rows[2] |= {"raw": "", "rule": "empty"}
    file.path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return file


def test_lines_that_say_more_are_read_fast_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, PAIRS)
    digest = predictions_digest(file)
    assert predictions_digest(with_more(file)) == digest
    monkeypatch.setattr(answers, "read_answers", None)
    assert dict(scored_answers(file, digest) or {}) == dict(PAIRS)


def test_raw_answers_are_those_of_their_own_digest(tmp_path: Path) -> None:
    file = with_more(written(tmp_path, PAIRS))
    raw = predictions_digest(file, answers="raw")
    assert scored_answers(file, raw) is None
    expected = dict(PAIRS) | {PAIRS[0][0]: 'He said: "answer": "no"}', PAIRS[2][0]: ""}
    assert scored_answers(file, raw, "raw") == expected
