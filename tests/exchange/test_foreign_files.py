"""Readers: what stands in a file, row for row. What becomes of the rows: test_imports.py."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decabench.errors import SubmissionError
from decabench.exchange.foreign_files import frame_answers, open_foreign
from decabench.exchange.foreign_rows import Places


def test_a_large_file_is_not_read(monkeypatch, tmp_path):
    monkeypatch.setattr("decabench.exchange.foreign_files.FILE_BYTES", 10)
    (tmp_path / "a.csv").write_text("id,answer\na,b\n")
    with pytest.raises(SubmissionError, match="has 14 bytes; at most 10 are read"):
        open_foreign(tmp_path / "a.csv", "csv", Places())


def test_the_limit_of_other_csv_readers_stays(tmp_path):
    import csv

    before = csv.field_size_limit()
    (tmp_path / "a.csv").write_text(f"id,answer\na,{'b' * 200_000}\n")
    (row,) = open_foreign(tmp_path / "a.csv", "csv", Places()).rows
    assert len(row.answer or "") == 200_000
    assert csv.field_size_limit() == before


def test_numbers_are_answers_where_numbers_are_asked_for():
    np = pytest.importorskip("numpy")
    table = {"id": np.array([3, 4, 5]), "answer": np.array([1.5, 2.0, np.nan])}
    rows = list(frame_answers(table, Places(), numbers=True).rows)
    assert [(row.id, row.answer) for row in rows] == [("3", "1.5"), ("4", "2.0"), ("5", None)]
    assert all(row.answer is None for row in frame_answers(table, Places()).rows)


@given(
    st.sampled_from(["squad", "csv", "text", "lm-eval"]),
    st.binary(max_size=400)
    | st.text(max_size=400).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["doc", "id", "doc_id", "filter", "resps", "filtered_resps", "arguments"]),
                inner,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode()),
)
@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_file_gives_rows_or_a_sentence(tmp_path, format, content):
    path = tmp_path / "given"
    path.write_bytes(content)
    try:
        rows = list(open_foreign(path, format, Places()).rows)
    except SubmissionError as error:
        assert str(error).endswith(".")
        return
    for row in rows:
        assert (
            row.answer is not None and (row.id is not None or format == "text")
        ) or row.problem is not None


PACK = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.compress,
    "zip": lambda content: b"PK\x03\x04" + content,
}


@pytest.mark.parametrize("name", PACK)
@pytest.mark.parametrize("format", ["csv", "squad", "text", "lm-eval"])
def test_packed_files_are_to_be_unpacked(tmp_path, format, name):
    """They were "not UTF-8"."""
    path = tmp_path / "answers.csv"
    path.write_bytes(PACK[name](b"id,answer\n"))
    with pytest.raises(SubmissionError, match=rf"answers\.csv is compressed \({name}\): unpack it first"):
        open_foreign(path, format, Places())


def test_a_file_that_is_parsed_whole_has_a_smaller_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("decabench.exchange.foreign_files.WHOLE_BYTES", 10)
    path = tmp_path / "answers.json"
    path.write_text('{"a": "answer"}')
    with pytest.raises(SubmissionError, match="has 15 bytes; at most 10 are read"):
        open_foreign(path, "squad", Places())
    path.write_text("id,answer\na,b\n")
    assert len(list(open_foreign(path, "csv", Places()).rows)) == 1
