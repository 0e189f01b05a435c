"""Files that are read where they lie: paths, members of archives and rows of parquet, whole and broken."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decabench.errors import DataError, MissingDataError
from decabench.tasks.sources.published import (
    LocalFiles,
    SourceFiles,
    read_folder,
)
from decabench.tasks.task import RemoteFile, Source
from tests.tasks.sources.build import no_reader, pinned, sha256, source


def local(tmp_path: Path, name: str, content: bytes, members: tuple[str, ...] = ()) -> LocalFiles:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return LocalFiles({name: path}, tmp_path / "scratch", members)


def test_rows_stream_the_columns_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    answers = [{"text": ["a"], "start": [index]} for index in range(3000)]
    pq.write_table(pa.table({"id": range(3000), "answers": answers, "other": ["x"] * 3000}), path)
    files = LocalFiles({"rows.parquet": path}, tmp_path / "scratch")
    rows = list(files.rows("rows.parquet", ("answers", "id")))
    assert [row["id"] for row in rows] == list(range(3000))
    assert rows[7] == {"answers": {"text": ["a"], "start": [7]}, "id": 7}
    with pytest.raises(DataError, match=r"has no column none \(it has id, answers, other\)"):
        next(files.rows("rows.parquet", ("id", "none")))


@pytest.mark.parametrize("content", [b"PAR1", b"not parquet" * 100])
def test_rows_of_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    with local(tmp_path, "rows.parquet", content) as files:
        with pytest.raises(DataError, match="is not a complete parquet file"):
            next(files.rows("rows.parquet", ("id",)))


@pytest.mark.parametrize("name", ["rows.parquet", "data.json", "data.tgz"])
def test_an_empty_file_is_named(tmp_path: Path, name: str) -> None:
    with (
        local(tmp_path, name, b"") as files,
        pytest.raises(DataError, match=f"{name} is empty: fetch it again"),
    ):
        files.path(name)


DATA = "data.json"


def read(tmp_path: Path, *sources: Source, splits: tuple[str, ...] = ("train",)) -> SourceFiles:
    return read_folder("task", sources, splits, tmp_path / "mirror" / "task", tmp_path / "raw", "mirror")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a task in a mirror."""
    folder = tmp_path / "mirror" / "task"
    folder.mkdir(parents=True)
    (folder / DATA).write_bytes(b"whole")
    return folder


@pytest.mark.parametrize(
    ("published", "held", "status"),
    [(b"whole", b"whole", "verified"), (b"whole", b"part", "mirror-differs"), (None, b"part", "unpinned")],
)
def test_how_a_file_compares(
    tmp_path: Path, folder: Path, published: bytes | None, held: bytes, status: str
) -> None:
    file = RemoteFile(DATA)
    if published is not None:
        (tmp_path / DATA).write_bytes(published)
        file = pinned(tmp_path / DATA)
    (folder / DATA).write_bytes(held)
    (record,) = read(tmp_path, source(file)).records
    assert (record.name, record.url, record.size) == (DATA, f"mirror:{DATA}", len(held))
    assert (record.status, record.sha256) == (status, sha256(folder / DATA))


def test_a_folder_that_lacks_files(tmp_path: Path, folder: Path) -> None:
    sources = [source(RemoteFile(DATA), RemoteFile("a.json"), name="first"), source(RemoteFile("b.json"))]
    with pytest.raises(MissingDataError) as caught:
        read(tmp_path, *sources)
    assert str(caught.value) == (
        f"{folder} does not contain the files for task: 'first': no a.json; 'upstream': no b.json; "
        "add those of one of these sources."
    )


def test_only_the_files_of_the_splits_are_needed(tmp_path: Path, folder: Path) -> None:
    form = Source("words", {"train": (RemoteFile(DATA),), "test": (RemoteFile("test.json"),)}, no_reader)
    assert len(read(tmp_path, form).records) == 1
    opened = read(tmp_path, form, splits=("train", "test"))
    assert ([record.name for record in opened.records], opened.missing) == ([DATA], ("test",))
    with pytest.raises(MissingDataError, match=r"no test\.json"):
        read(tmp_path, form, splits=("test",))


def test_a_folder_is_held_to_its_checksums(tmp_path: Path) -> None:
    folder = tmp_path / "mirror" / "task"
    folder.mkdir(parents=True)
    (folder / "data.json").write_bytes(b"a subset")
    listed = folder.parent / "SHA256SUMS"
    listed.write_text(f"{sha256(folder / 'data.json')}  task/data.json\n")
    arguments = ("task", [source(RemoteFile("data.json"))], ["train"], folder, tmp_path / "raw")
    assert read_folder(*arguments, "mirror").records[0].status == "unpinned"
    (folder / "data.json").write_bytes(b"a sub")
    with pytest.raises(DataError, match=r"data\.json is damaged: its sha256 is .*, but SHA256SUMS has "):
        read_folder(*arguments, "mirror")
    assert read_folder(*arguments, "local").records
