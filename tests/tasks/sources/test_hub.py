"""The hub's client against a server that plays the hub, in processes of their own.

The client reads HF_ENDPOINT and HF_HUB_OFFLINE when it is imported.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tasks.sources.build import sha256
from tests.tasks.sources.server import Fault, FileServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "plain_text/train-00000-of-00001.parquet"
RESOLVED = f"datasets/owner/name/resolve/{COMMIT}/{NAME}"
SCRIPT = """
import json, sys
from pathlib import Path
from decabench.metrics.base import DecabenchError
from decabench.tasks.sources.download import Downloads
from decabench.tasks.sources.fetch import fetch
from decabench.tasks.task import Hub, RemoteFile, Source
given = json.loads(sys.argv[1])
file = RemoteFile(given["name"], (), given.get("sha256"))
hub = Source("hub", {"train": (file,)}, lambda files, split: iter(()), Hub("owner/name", given["commit"]))
try:
    fetched = fetch("task", [hub], ["train"], Downloads(Path(given["folder"])))
    rows = list(fetched.files.rows(given["name"], ("answers", "id")))
    print(json.dumps({"rows": len(rows), "row": rows[7], "record": vars(fetched.records[0])}))
except DecabenchError as error:
    print(json.dumps({"error": str(error), "kind": type(error).__name__}))
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FileServer]:
    path = tmp_path / "hub" / RESOLVED
    path.parent.mkdir(parents=True)
    answers = [{"text": ["a"], "start": [index]} for index in range(3000)]
    pq.write_table(pa.table({"id": range(3000), "answers": answers, "other": ["x"] * 3000}), path)
    with FileServer(tmp_path / "hub", headers={"X-Repo-Commit": COMMIT}) as running:
        yield running


def run(
    hub: FileServer, folder: Path, environment: dict[str, str] | None = None, **given: Any
) -> dict[str, Any]:
    """What the fetching process printed; nothing but that may be printed."""
    home = {"HF_HOME": str(folder / "hf"), "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_secret"}
    arguments = {"name": NAME, "commit": COMMIT, "folder": str(folder / "raw")} | given
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(arguments)],
        env=os.environ | home | (environment or {}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert "hf_secret" not in done.stdout
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def asked(hub: FileServer) -> list[str]:
    """How the file was asked for; the client may ask for other things of its own."""
    return [seen.method for seen in hub.seen if seen.path == RESOLVED]


def test_rows_and_record_then_again_without_network(hub: FileServer, tmp_path: Path) -> None:
    digest = sha256(hub.folder / RESOLVED)
    expected = {
        "rows": 3000,
        "row": {"answers": {"text": ["a"], "start": [7]}, "id": 7},
        "record": {
            "name": NAME,
            "url": f"hf://datasets/owner/name@{COMMIT}/{NAME}",
            "sha256": digest,
            "size": (hub.folder / RESOLVED).stat().st_size,
            "status": "verified",
        },
    }
    assert run(hub, tmp_path, sha256=digest) == expected
    assert asked(hub) == ["HEAD", "GET"]
    assert not list((tmp_path / "raw").glob(".extract-*"))
    assert not list((tmp_path / "hf").rglob("*.arrow"))
    hub.seen.clear()
    assert run(hub, tmp_path, sha256=digest) == expected
    assert run(hub, tmp_path, {"HF_HUB_OFFLINE": "1"}, sha256=digest) == expected
    assert asked(hub) == []


def test_cut_transfer_is_taken_up_again(hub: FileServer, tmp_path: Path) -> None:
    hub.faults[RESOLVED] = [Fault(), Fault(cut=10_000)]
    assert run(hub, tmp_path)["rows"] == 3000
    assert asked(hub) == ["HEAD", "GET", "GET"]


def test_no_published_digest(hub: FileServer, tmp_path: Path) -> None:
    assert run(hub, tmp_path)["record"]["status"] == "unpinned"


def test_other_bytes_than_the_hub_says_are_refused(hub: FileServer, tmp_path: Path) -> None:
    hub.always[RESOLVED] = Fault(wrong=True)
    result = run(hub, tmp_path)
    assert result["kind"] == "MissingDataError"
    assert "but the hub says" in result["error"]
    assert asked(hub) == ["HEAD", "GET"] * 2


def test_other_bytes_than_pinned_are_refused(hub: FileServer, tmp_path: Path) -> None:
    result = run(hub, tmp_path, sha256="0" * 64)
    assert "expected 0000" in result["error"]


def test_damaged_cache_is_fetched_again(hub: FileServer, tmp_path: Path) -> None:
    run(hub, tmp_path)
    (blob,) = (path for path in (tmp_path / "raw" / "hub").rglob("blobs/*") if path.is_file())
    blob.write_bytes(b"damaged")
    assert run(hub, tmp_path)["rows"] == 3000


@pytest.mark.parametrize(
    ("given", "fault", "reason"),
    [
        ({"name": "none.parquet"}, None, "HTTP 404"),
        ({}, Fault(404, headers={"X-Error-Code": "EntryNotFound"}), "HTTP 404: no such file at that commit"),
        ({}, Fault(401, headers={"X-Error-Code": "RepoNotFound"}), "no such repository, or not a public one"),
        ({}, Fault(404, headers={"X-Error-Code": "RevisionNotFound"}), "no such commit"),
        ({}, Fault(403, headers={"X-Error-Code": "GatedRepo"}), "its terms must be accepted"),
    ],
)
def test_refusal_is_a_sentence(
    hub: FileServer, tmp_path: Path, given: dict[str, Any], fault: Fault | None, reason: str
) -> None:
    if fault is not None:
        hub.always["datasets"] = fault
    result = run(hub, tmp_path, None, **given)
    assert result["kind"] == "MissingDataError"
    assert f"'hub': hf://datasets/owner/name@{COMMIT}/" in result["error"]
    assert reason in result["error"]


def test_offline_with_nothing_in_the_cache(hub: FileServer, tmp_path: Path) -> None:
    result = run(hub, tmp_path, {"HF_HUB_OFFLINE": "1"})
    assert "HF_HUB_OFFLINE is set" in result["error"] or "not in the cache" in result["error"]


def test_hub_that_is_not_there_is_left_soon(hub: FileServer, tmp_path: Path) -> None:
    started = time.monotonic()
    result = run(hub, tmp_path, {"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert "(connection refused)" in result["error"]
    assert time.monotonic() - started < 25  # the client alone would take half a minute


@pytest.mark.mirror
def test_real_parquet(hub: FileServer, tmp_path: Path, real_mirror: Path) -> None:
    real = real_mirror / "cnn_dailymail" / "3.0.0" / "test-00000-of-00001.parquet"
    table = pq.read_table(real).rename_columns({"highlights": "answers"})
    pq.write_table(table, hub.folder / RESOLVED)
    assert run(hub, tmp_path)["rows"] == 1490
