"""Addresses of pinned files."""

from decabench.tasks.readers import github_raw, hub_file
from decabench.tasks.task import Hub, RemoteFile


def test_github_raw() -> None:
    assert github_raw("a/b", "c0ffee", "d/e.txt") == "https://raw.githubusercontent.com/a/b/c0ffee/d/e.txt"


def test_hub_file() -> None:
    assert hub_file(Hub("a/b", "c0ffee"), "d/e.parquet") == RemoteFile(
        "d/e.parquet", ("https://huggingface.co/datasets/a/b/resolve/c0ffee/d/e.parquet",)
    )
