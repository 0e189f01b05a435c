"""A whole `decabench predict` against a server: what is in the folder, and what must not be."""

import json
import tomllib

import pytest

from decabench.errors import DecabenchError
from decabench.predictors.protocol import ModelOptions
from decabench.runs.write import predict
from decabench.tasks.store import Store
from tests.predictors.openai.openai_server import Say, chat, fault, serving

CANARY = "sk-canary/0123456789abcdef"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("DECABENCH_API_KEY", CANARY)
    for name in ("OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(home, tmp_path):
    def answer(server, **options):
        given = ModelOptions(**{"model": "m", "retries": 0, **options})
        return predict(f"openai:{server.url}", tmp_path / "s", ("sst", "schema"), home=home, options=given)

    return answer


def test_the_key_is_in_no_file(run, tmp_path, capfd):
    """The server echoes it in every third answer, and in the errors of others."""
    echo = f"positive {CANARY}"

    def respond(seen):
        says = [chat(echo), chat("negative"), fault(400, echo), fault(500, echo), Say(echo.encode())]
        return says[seen.number % len(says)]

    with serving(respond) as server:
        run(server)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files) + "".join(capfd.readouterr()).encode()
    assert server.seen[0].headers["Authorization"] == f"Bearer {CANARY}"
    assert b"canary" not in written and b"[key]" in written
    assert len(files) >= 5


def test_what_the_submission_says(run, tmp_path):
    with serving(lambda seen: chat("positive")) as server:
        run(server, temperature=0.5, revision="v1")
    said = tomllib.loads((tmp_path / "s" / "submission.toml").read_text())["predictor"]
    assert said["backend"] == {
        "url": server.url,
        "model": "m",
        "api": "chat",
        "temperature": 0.5,
        "seed": 0,
        "revision": "v1",
        "stop": "template",
    }


def test_a_run_that_stops_goes_on_where_it_was(run, home, tmp_path):
    """The key is refused in the middle: what was answered before is not asked again."""

    def respond(seen):
        return chat("positive") if seen.number < 20 else fault(401, "expired")

    with serving(respond) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(DecabenchError, match="Set DECABENCH_API_KEY"):
            run(server, concurrency=1)
    assert not (tmp_path / "s" / "submission.toml").exists()
    with serving(lambda seen: chat("negative"), port) as again:
        run(again, concurrency=1)
    rows = [
        json.loads(line)
        for task in ("sst", "schema")
        for line in (tmp_path / "s" / "predictions" / f"{task}.validation.jsonl").read_text().splitlines()
    ]
    count = sum(len(list(Store(home).ids(task, "validation"))) for task in ("sst", "schema"))
    assert len(rows) == count and len(again.seen) == count - 20
    assert sum("positive" in (row["answer"], row.get("raw")) for row in rows) == 20
