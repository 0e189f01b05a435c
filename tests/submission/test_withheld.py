"""Digests in place of answers that may not be passed on."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from decabench.errors import StorageError, SubmissionError
from decabench.submission import check_submission, find_predictions, read_answers
from decabench.submission.answers import answers_digest
from decabench.submission.folder import open_submission
from decabench.submission.withheld import keyed_digest, read_withheld, withhold
from decabench.tasks import Store

SST = ("sst", "validation")


@pytest.fixture
def folder(submit: Callable[..., Path]) -> Path:
    return submit("majority", ["sst", "schema"], "s")


def check(folder: Path, home: Path, **options: object) -> list[str]:
    """The codes of faults and warnings."""
    expected = {
        (task, "validation"): tuple(Store(home).ids(task, "validation")) for task in ("sst", "schema")
    }
    report = check_submission(folder, expected, ["sst", "schema"], **options)  # type: ignore[arg-type]
    assert report.exit_code == (1 if report.faults else 0)
    return [fault.code for fault in (*report.faults, *report.warnings)]


def test_the_digest() -> None:
    """HMAC-SHA256 as RFC 2104 has it, cut to 128 bits (RFC 4868 cuts to half as well)."""
    key = bytes(range(32))
    inner = hashlib.sha256(
        bytes(byte ^ 0x36 for byte in key.ljust(64, b"\0")) + '["a","ö"]'.encode()
    ).digest()
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key.ljust(64, b"\0")) + inner).hexdigest()
    assert keyed_digest(key, "a", "ö") == outer[:32]
    assert hmac.new(key, '["a","ö"]'.encode(), "sha256").hexdigest() == outer
    assert keyed_digest(key, 'a","b', "c") != keyed_digest(key, "a", 'b","c')


def test_answers_that_may_be_passed_on_cannot_be_withheld(folder: Path, home: Path) -> None:
    withhold(folder, "schema", "validation")
    assert check(folder, home) == ["not-withheld", "withheld"]
    withhold(folder, *SST)  # which some predictors answer with sentences that may not be passed on
    assert check(folder, home).count("not-withheld") == 1


def test_answers_become_digests(folder: Path, home: Path) -> None:
    answers = read_answers(find_predictions(folder)[0][SST])
    path = withhold(folder, *SST, compress="zst")
    assert path == folder / "withheld" / "sst.validation.jsonl.zst"
    found = read_withheld(path)
    assert found.answers == answers_digest(answers) and list(found.digests) == list(answers)
    assert found.differing(answers) == []
    one, two, *_ = answers
    assert found.differing({**answers, one: "other"}) == [one]
    assert found.differing({id: text for id, text in answers.items() if id != two}) == [two]
    assert found.differing({**answers, "more": ""}) == ["more"]
    with open_submission(folder) as opened:
        assert list(opened.files) == [("schema", "validation")] and opened.withheld == {SST: path}
        assert list(opened.files_of(*SST)) == ["withheld/sst.validation.jsonl.zst"]


def test_the_same_answers_give_the_same_bytes(submit: Callable[..., Path]) -> None:
    first, second = (
        withhold(submit("majority", ["sst"], name), *SST).read_bytes() for name in ("first", "second")
    )
    assert first == second
    other = read_withheld(withhold(submit("random", ["sst"], "other"), *SST))
    assert other.key.hex() not in first.decode()


def test_check_knows_them(folder: Path, home: Path) -> None:
    answers = (folder / "predictions" / "sst.validation.jsonl").read_bytes()
    withhold(folder, *SST)
    assert check(folder, home) == ["withheld"]
    assert check(folder, home, tasks=["sst"], splits=["validation"]) == ["withheld"]
    path = folder / "predictions" / "sst.validation.jsonl"
    path.write_bytes(answers)
    assert check(folder, home) == []
    path.write_bytes(answers.replace(b"positive", b"negative", 2))
    assert check(folder, home) == ["other-answer", "other-answer"]


@pytest.mark.parametrize(
    ("damage", "codes"),
    [
        (lambda lines: lines[1:], ["bad-withheld", "missing-id"]),
        (lambda lines: [], ["bad-withheld", *["missing-id"] * 20]),
        (lambda lines: ['{"format": "decabench.withheld/1", "key": "00"}', *lines[1:]], ["bad-withheld"]),
        (lambda lines: [lines[0], lines[1], *lines[1:]], ["duplicate-id"]),
        (lambda lines: lines[:-1], ["missing-id"]),
        (lambda lines: [*lines, '{"id": "x", "digest": "%s"}' % ("0" * 32)], ["unknown-id"]),
        (lambda lines: [*lines, '{"id": "x", "digest": "0"}'], ["bad-record"]),
        (lambda lines: [*lines, '{"id": 1, "digest": "0"}'], ["non-string-id"]),
        (lambda lines: [*lines, '{"id": "x"}'], ["missing-field"]),
        (lambda lines: [*lines, "[1]"], ["not-an-object"]),
        (lambda lines: [*lines, "{"], ["bad-json"]),
        (lambda lines: [*lines, "x" * 70_000], ["too-large"]),
        (lambda lines: [*lines, *["{}"] * 2_000], ["missing-field"] * 20 + ["bad-withheld"]),
    ],
)
def test_damaged_files(
    folder: Path, home: Path, damage: Callable[[list[str]], list[str]], codes: list[str]
) -> None:
    path = withhold(folder, *SST)
    path.write_text("".join(line + "\n" for line in damage(path.read_text().splitlines())))
    assert [code for code in check(folder, home) if code != "withheld"] == codes


def test_a_damaged_file_is_not_read(folder: Path) -> None:
    path = withhold(folder, *SST)
    path.write_text(path.read_text() + "{\n")
    with pytest.raises(SubmissionError, match=r"withheld/sst\.validation\.jsonl:34: bad-json"):
        read_withheld(path)


def test_other_files_in_the_folder(folder: Path, home: Path) -> None:
    withhold(folder, *SST)
    (folder / "withheld" / "readme.txt").touch()
    assert check(folder, home) == ["unknown-file", "withheld"]


def test_what_cannot_be_withheld(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match=r"no answers for squad\.validation to withhold"):
        withhold(folder, "squad", "validation")
    variant = folder / "variants" / "1" / "predictions"
    variant.mkdir(parents=True)
    (variant / "schema.validation.jsonl").write_text(json.dumps({"id": "a", "answer": "b"}) + "\n")
    with pytest.raises(SubmissionError, match="in other wordings"):
        withhold(folder, "schema", "validation")
    (folder / "withheld").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="a link that leads out of"):
        withhold(folder, *SST)
    assert (folder / "predictions" / "sst.validation.jsonl").exists()
