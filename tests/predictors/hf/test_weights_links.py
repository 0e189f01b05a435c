"""Models behind links, as the hub's cache keeps them."""

from __future__ import annotations

from pathlib import Path

from decabench.predictors.hf.weights import find_source, local_folder


def test_a_gguf_file_behind_the_hubs_links(tmp_path: Path) -> None:
    """The snapshot's file is a link to a blob, which is named after its digest and has no suffix."""
    blob = tmp_path / "models--o--n" / "blobs" / "0a1b2c"
    snapshot = tmp_path / "models--o--n" / "snapshots" / "c0ffee"
    for folder in (blob.parent, snapshot):
        folder.mkdir(parents=True)
    blob.write_bytes(b"GGUF")
    (snapshot / "tiny-q8_0.gguf").symlink_to("../../blobs/0a1b2c")
    for target in (snapshot / "tiny-q8_0.gguf", snapshot):
        source = find_source(str(target), None)
        assert (source.name, source.gguf) == ("tiny-q8_0.gguf", "tiny-q8_0.gguf")
        assert (local_folder(source) / "tiny-q8_0.gguf").read_bytes() == b"GGUF"


def test_a_folder_behind_a_link_is_recorded_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "m.gguf").write_bytes(b"GGUF")
    (tmp_path / "link").symlink_to("real")
    assert find_source(str(tmp_path / "link" / "m.gguf"), None).folder == str(tmp_path / "real")
