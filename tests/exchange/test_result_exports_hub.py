"""`export results --push`, with huggingface_hub's own client against a local copy of the hub's API."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from decabench.errors import DecabenchError, ModelError
from decabench.exchange import push_card

pytest.importorskip("huggingface_hub", reason="needs the extra hf")

INDEX = """
model-index:
- name: mine
  results:
  - task: {type: text-classification}
    dataset: {type: sst2, name: SST}
    metrics:
    - {type: em, value: %s, name: 'em (decabench)', args: {interval_95: [%s, 99.0]}}
"""
COMMIT = "1" * 40


class Hub:
    """A repository, `me/mine`, with a single file."""

    def __init__(self) -> None:
        self.readme = b""
        self.tokens: set[tuple[str, str | None]] = set()
        self.url = ""

    def handler(hub) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def say(self, body: bytes, status: int = 200, **headers: str) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_GET(self) -> None:
                hub.tokens.add((self.command, self.headers["Authorization"]))
                if not self.path.startswith("/me/mine/"):
                    return self.say(b"", 404, X_Error_Code="RepoNotFound")
                if not hub.readme:
                    return self.say(b"", 404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
                return self.say(hub.readme, X_Repo_Commit=COMMIT, ETag=f'"{len(hub.readme)}"')

            do_HEAD = do_GET

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path.endswith("/preupload/main"):
                    files = [{"path": "README.md", "uploadMode": "regular", "shouldIgnore": False}]
                    return self.say(json.dumps({"files": files}).encode())
                if self.path.endswith("/validate-yaml"):
                    return self.say(b'{"errors": [], "warnings": []}')
                lines = [json.loads(line) for line in body.splitlines()]
                (content,) = [line["value"]["content"] for line in lines if line["key"] == "file"]
                hub.readme = base64.b64decode(content)
                url = f"{hub.url}/me/mine/commit/{COMMIT}"
                return self.say(json.dumps({"commitUrl": url, "commitOid": COMMIT}).encode())

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), made.handler())
    made.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", made.url)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        made.url + "/{repo_id}/resolve/{revision}/{filename}",
    )
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    yield made
    server.shutdown()
    server.server_close()


def test_results_join_the_card_and_replace_older_ones(hub: Hub) -> None:
    assert push_card(INDEX % (50.0, 40.0), "me/mine").endswith(f"/me/mine/commit/{COMMIT}")
    assert b"# mine" in hub.readme and b"value: 50.0" in hub.readme
    hub.readme = hub.readme.replace(b"# mine", b"# Mine\n\nMy words.").replace(
        b"---\n", b"---\nlicense: mit\n", 1
    )
    partial = (INDEX % (60.0, 50.0)).replace("(decabench)", "(decabench, 8 of 9 examples)")
    push_card(partial, "me/mine")
    push_card((INDEX % (70.0, 60.0)).replace("sst2", "imdb"), "me/mine")
    text = hub.readme.decode()
    assert "My words." in text and "license: mit" in text and "value: 50.0" not in text
    assert "value: 60.0" in text and "value: 70.0" in text
    assert ("HEAD", "Bearer hf_secret") in hub.tokens


def test_refusals_are_plain_and_do_not_show_the_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="Can't write to the model me/other") as refused:
        push_card(INDEX % (50.0, 40.0), "me/other")
    assert "hf_secret" not in str(refused.value)
    with pytest.raises(DecabenchError, match="'a/b/c' is not a valid model name"):
        push_card(INDEX % (50.0, 40.0), "a/b/c")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(DecabenchError, match="Set HF_TOKEN"):
        push_card(INDEX % (50.0, 40.0), "me/mine")
