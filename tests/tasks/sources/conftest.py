from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from decabench.tasks.sources.download import Network
from tests.tasks.sources.server import FileServer


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A folder with the files that upstream publishes."""
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "data.json").write_bytes(bytes(range(256)) * 1200)
    return folder


@pytest.fixture
def server(published: Path) -> Iterator[FileServer]:
    """A server of the published files."""
    with FileServer(published) as running:
        yield running


@pytest.fixture
def hasty(server: FileServer) -> Network:
    """A network with short time limits, which also uses the server as Google Drive."""
    return Network(retries=3, backoff=0.01, longest_wait=0.05, connect_timeout=1.0, read_timeout=1.0)
