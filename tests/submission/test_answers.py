"""Answer files: lines, records, checks of ids, and digests."""

import gzip
import hashlib
import json

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from decabench.errors import SubmissionError
from decabench.submission.answers import (
    AnswerLine,
    AnswerReader,
    Limits,
    PredictionFile,
    _parse_line,
    _parse_plain,
    describe_other_form,
    read_lines,
    texts_digest,
)

COMPRESSIONS = [None, "gz", "zst"]
from tests.submission.reading import read_answers


def packed(data, compress):
    if compress is None:
        return data
    return gzip.compress(data) if compress == "gz" else zstandard.compress(data)


def prediction_file(folder, data, compress=None):
    path = folder / f"squad.validation.jsonl{'.' + compress if compress else ''}"
    path.write_bytes(packed(data, compress))
    return PredictionFile(path, "squad", "validation")


@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_reading_counts_lines_and_accepts_what_is_harmless(tmp_path, compress):
    data = (
        b'\xef\xbb\xbf{"id": "a", "answer": "1", "score": [1, {"x": null}]}\r\n'
        b"\n   \r\n"
        b'{"answer": "", "id": "b"}\n'
        b'{"id":"c","answer":"\xe2\x80\xa8"}'
    )
    file = prediction_file(tmp_path, data, compress)
    lines = [(line.number, line.id, line.answer) for line in read_lines(file.path)]
    assert lines == [(1, "a", "1"), (4, "b", ""), (5, "c", "\u2028")]
    assert read_answers(file) == read_answers(file.path) == {"a": "1", "b": "", "c": "\u2028"}


@given(id_=st.text(), answer=st.text())
def test_a_plain_line_is_read_as_any_other_is(id_, answer):
    """Lines in the most common form are read without the JSON parser, with the same result."""
    line = json.dumps({"id": id_, "answer": answer}, ensure_ascii=False).encode()
    other = json.dumps({"answer": answer, "id": id_}).encode()
    assert (_parse_plain(1, line) or _parse_line(1, line)) == _parse_line(1, other)


def test_reading_stops_at_a_limit(tmp_path):
    file = prediction_file(tmp_path, b'{"id": "a", "answer": "%s"}\n' % (b"x" * 1000), "gz")
    assert list(read_lines(file.path, Limits(file_bytes=1100)))
    with pytest.raises(SubmissionError, match="too-large: the file unpacks to more than 1,000 bytes"):
        list(read_lines(file.path, Limits(file_bytes=1000)))


def test_raw_answers_are_another_text(tmp_path):
    file = prediction_file(
        tmp_path, b'{"id": "a", "answer": "1", "raw": "It is 1."}\n{"id": "b", "answer": "2"}'
    )
    assert read_answers(file) == {"a": "1", "b": "2"}
    assert read_answers(file, "raw") == {"a": "It is 1.", "b": "2"}


def test_a_reader_yields_what_answers_an_example(tmp_path):
    rows = [("b", "2"), ("x", "?"), ("a", "1"), ("b", "3")]
    data = "".join(json.dumps({"id": id_, "answer": answer}) + "\n" for id_, answer in rows)
    reader = AnswerReader(prediction_file(tmp_path, data.encode()), ["a", "b", "c"])
    assert list(reader) == [AnswerLine(1, "b", "2"), AnswerLine(3, "a", "1")]
    assert [(fault.code, fault.line) for fault in reader.faults] == [
        ("unknown-id", 2),
        ("duplicate-id", 4),
        ("missing-id", None),
    ]
    assert (reader.fault_count, reader.count.lines, reader.count.answers, reader.count.expected) == (
        3,
        4,
        2,
        3,
    )
    assert reader.reason.startswith(
        "predictions/squad.validation.jsonl:2: unknown-id: the split has no example 'x'"
    )


def test_a_flood_is_counted_in_little_memory(tmp_path):
    reader = AnswerReader(prediction_file(tmp_path, b"{x\n" * 1000), [])
    assert list(reader) == []
    assert len(reader.faults) == 20 and reader.fault_count == 1000
    assert reader.unlisted == {("predictions/squad.validation.jsonl", "bad-json"): 980}


def digest_of(file):
    answers = read_answers(file)
    return texts_digest(list(answers), list(answers.values()))


def test_the_digest_is_that_of_the_canonical_lines(tmp_path):
    file = prediction_file(tmp_path, b'{"id": "b", "answer": "\\u00fc"}\n{"id": "a", "answer": "x\\n"}\n')
    canonical = '["a","x\\n"]\n["b","ü"]\n'
    assert digest_of(file) == f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def test_the_digest_knows_only_ids_and_answers(tmp_path):
    answers = [(f"id {i % 50} {i}", f"answer\n{i} é") for i in range(500)]
    lines = [json.dumps({"id": id_, "answer": answer}) for id_, answer in answers]
    spaced = [
        json.dumps({"answer": answer, "z": 1, "id": id_}, ensure_ascii=False) for id_, answer in answers
    ]
    digests = {
        digest_of(prediction_file(tmp_path, "\n".join(order).encode(), compress))
        for order in (lines, lines[::-1], spaced)
        for compress in COMPRESSIONS
    }
    assert len(digests) == 1
    assert texts_digest(*zip(*answers[1:], strict=True)) not in digests


def test_ids_in_another_unicode_form_are_told_apart():
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert "(NFD instead of NFC)" in describe_other_form(decomposed, {composed})
    assert "(NFC instead of NFD)" in describe_other_form(composed, {decomposed})
    assert describe_other_form(composed, {composed, "cafe"}) == describe_other_form("a", {"b"}) == ""
