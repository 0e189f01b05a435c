"""The journal: what is appended is read again, what a kill cut short is taken off, and nobody reads another's."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from decabench.errors import DataError
from decabench.files import fingerprint
from decabench.predictors.protocol import Answer, Failure
from decabench.runs.journal import FOLDER, Journal, JournalKey

KEY = JournalKey("sst", "validation", 0, fingerprint({"model": "a"}), {"model": "a"})


def lines(folder, key=KEY):
    return (folder / FOLDER / key.file_name).read_text(encoding="utf-8").removesuffix("\n").split("\n")


OUTCOMES = {
    "plain": Answer("positive"),
    "all": Answer("Zoë\nsaid \u2028 no", "length", (0, 12), 100, 7),
    "uncounted": Answer("", "refused", None, None, 3),
    "reasoned": Answer("positive", reasoning="It is\npraise.", served_by="m-2024-08-06 (fp_1)"),
    "failed": Failure("TimeoutError: 3 s"),
}


def test_what_is_appended_is_read_again(tmp_path):
    with Journal(tmp_path, KEY) as journal:
        for id_, outcome in OUTCOMES.items():
            journal.append(id_, outcome)
    with Journal(tmp_path, KEY) as again:
        assert again.outcomes == OUTCOMES
        assert again.begun == journal.begun
    assert len(lines(tmp_path)) == 1 + len(OUTCOMES)


def test_the_last_outcome_of_an_example_counts(tmp_path):
    with Journal(tmp_path, KEY) as journal:
        journal.append("1", Failure("once"))
    with Journal(tmp_path, KEY) as journal:
        journal.append("1", Answer("at last"))
    with Journal(tmp_path, KEY) as journal:
        assert journal.outcomes == {"1": Answer("at last")}


@pytest.mark.parametrize("cut", range(1, 28))
def test_an_incomplete_last_line_is_removed(tmp_path, cut):
    """Wherever in the last line the kill came, what was before it stays and what follows is sound."""
    with Journal(tmp_path, KEY) as journal:
        journal.append("1", Answer("first"))
        journal.append("2", Answer("sécond"))
    path = journal.path
    os.truncate(path, path.stat().st_size - cut)
    with Journal(tmp_path, KEY) as journal:
        assert journal.outcomes == {"1": Answer("first")}
        journal.append("3", Answer("third"))
    with Journal(tmp_path, KEY) as journal:
        assert journal.outcomes == {"1": Answer("first"), "3": Answer("third")}


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, fingerprint=fingerprint({"model": "b"})),
        replace(KEY, task="schema"),
        replace(KEY, split="test"),
        replace(KEY, variant=1),
    ],
)
def test_entries_of_other_runs_are_not_read(tmp_path, other):
    with Journal(tmp_path, KEY) as journal:
        journal.append("1", Answer("mine"))
    with Journal(tmp_path, other) as theirs:
        assert theirs.outcomes == {}


@pytest.mark.parametrize("field", ["task", "split", "variant", "fingerprint", "format"])
def test_a_file_under_a_wrong_name_is_refused(tmp_path, field):
    """Twelve digits of a name prove nothing: the whole fingerprint stands in the first line."""
    with Journal(tmp_path, KEY) as journal:
        journal.append("1", Answer("mine"))
    header, *rest = lines(tmp_path)
    changed = {**json.loads(header), field: "another"}
    journal.path.write_text("\n".join([json.dumps(changed), *rest]) + "\n")
    with pytest.raises(DataError, match=r"jsonl:1 is damaged \(ValueError: the first line does not match"):
        Journal(tmp_path, KEY).__enter__()


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        '{"id": "1"}',
        '{"raw": "x"}',
        '{"id": "1", "raw": 5}',
        '{"id": 1, "raw": "x"}',
        '{"id": ["1"], "raw": "x"}',
        '{"id": "1", "error": 5}',
        '{"id": "1", "raw": "x", "finish": "eos"}',
        '{"id": "1", "raw": "x", "context_kept": [5, 3]}',
        '{"id": "1", "raw": "x", "context_kept": "05"}',
        '{"id": "1", "raw": "x", "context_kept": []}',
        '{"id": "1", "raw": "x", "tokens": [-1, 2]}',
        '{"id": "1", "raw": "x", "tokens": [1]}',
        '{"id": "1", "raw": "x", "tokens": 5}',
        '{"id": "1", "raw": "x", "raw": "y"}',
        '{"id": "1", "raw": "\\ud800"}',
        pytest.param('{"id": "1", "raw": ' + "[" * 100_000 + "]" * 100_000 + "}", id="nested"),
    ],
)
def test_a_damaged_line_within_is_named(tmp_path, line):
    with Journal(tmp_path, KEY) as journal:
        journal.append("1", Answer("mine"))
    with open(journal.path, "a") as file:
        file.write(line + '\n{"id": "2", "raw": "x"}\n')
    with pytest.raises(DataError, match=r"jsonl:3 is damaged .*--fresh"):
        Journal(tmp_path, KEY).__enter__()


@pytest.mark.parametrize("content", [b"my notes", b'{"id": "1", "raw": "x"}', bytes(10), b'{"format":"other'])
def test_what_is_no_journal_is_not_overwritten(tmp_path, content):
    path = tmp_path / FOLDER / KEY.file_name
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"jsonl:1 is damaged"):
        Journal(tmp_path, KEY).__enter__()
    assert path.read_bytes() == content


def test_reading_writes_nothing(tmp_path):
    with Journal(tmp_path, KEY) as journal:
        journal.append("1", Answer("mine"))
    os.truncate(journal.path, journal.path.stat().st_size + 3)  # three zero bytes: a line begun
    before = journal.path.read_bytes()
    assert Journal(tmp_path, KEY).read() == {"1": Answer("mine")}
    assert journal.path.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is of POSIX systems")
def test_what_append_returned_from_survives_a_kill(tmp_path):
    """Every answer reported before the kill is there after it."""
    program = (
        "import sys, pathlib\n"
        "from decabench.runs.journal import Journal, JournalKey\n"
        "from decabench.predictors.protocol import Answer\n"
        "key = JournalKey('sst', 'validation', 0, 'sha256:0123456789abcdef')\n"
        "with Journal(pathlib.Path(sys.argv[1]), key) as journal:\n"
        "    for number in range(10**9):\n"
        "        journal.append(str(number), Answer('x' * 50))\n"
        "        print(number, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True)
    told = [next(child.stdout) for _ in range(500)]
    child.send_signal(signal.SIGKILL)
    told += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    numbers = [int(line) for line in told if line.endswith("\n")]
    found = Journal(tmp_path, JournalKey("sst", "validation", 0, "sha256:0123456789abcdef")).read()
    assert len(numbers) >= 500
    assert {str(number) for number in numbers} <= found.keys()
    assert len(found) <= len(numbers) + 1


def test_the_seconds_of_all_parts_add_up(tmp_path):
    with Journal(tmp_path, KEY) as journal:
        journal.append("1", Answer("a"), 0.25)
        journal.append("2", Failure("once"), 1.0)
    with Journal(tmp_path, KEY) as journal:
        assert journal.seconds == 1.25
        journal.append("2", Answer("b"), 0.5)
        assert journal.seconds == 1.75
    text = journal.path.read_text()
    for seconds in ("", ',"seconds":-1', ',"seconds":"1"'):  # the first is of an earlier version
        journal.path.write_text(text.replace(',"seconds":0.25', seconds))
        with Journal(tmp_path, KEY) as again:
            assert again.seconds is None and again.outcomes == journal.outcomes
