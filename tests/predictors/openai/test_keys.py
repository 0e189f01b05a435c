"""Which key is sent to which server, and warnings about unencrypted connections."""

from __future__ import annotations

import pytest

from decabench.predictors.openai.client import Client
from decabench.predictors.openai.keys import read_key
from decabench.predictors.protocol import Header, ModelOptions

OPENAI, OTHER = "https://api.openai.com/v1", "https://example.org/v1"


@pytest.mark.parametrize(
    ("url", "variables", "key"),
    [
        (OPENAI, {}, ""),
        (OPENAI, {"OPENAI_API_KEY": "a"}, "a"),
        ("https://eu.api.openai.com/v1", {"OPENAI_API_KEY": "a"}, "a"),
        (OPENAI, {"OPENAI_API_KEY": "a", "DECABENCH_API_KEY": "b\n"}, "b"),
        (OPENAI, {"OPENAI_API_KEY": "a", "DECABENCH_API_KEY": ""}, ""),
        # OpenAI's key is only sent to OpenAI, and never unencrypted
        (OTHER, {"OPENAI_API_KEY": "a"}, ""),
        ("http://localhost:8000/v1", {"OPENAI_API_KEY": "a"}, ""),
        ("http://api.openai.com/v1", {"OPENAI_API_KEY": "a"}, ""),
        ("https://api.openai.com.example.org/v1", {"OPENAI_API_KEY": "a"}, ""),
        ("https://notopenai.com/v1", {"OPENAI_API_KEY": "a"}, ""),
        ("https://example.org/api.openai.com/v1", {"OPENAI_API_KEY": "a"}, ""),
        ("https://m.openai.azure.com/openai/v1", {"OPENAI_API_KEY": "a"}, ""),
        # the other key is sent to any server that the user names
        (OTHER, {"DECABENCH_API_KEY": "b"}, "b"),
        ("http://localhost:8000/v1", {"DECABENCH_API_KEY": "b"}, "b"),
    ],
)
def test_which_key_goes_where(
    monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str], key: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert read_key((), url).value == key


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://localhost:8000/v1", False),
        ("http://127.0.0.1:8000/v1", False),
        ("http://[::1]:8000/v1", False),
        ("https://example.org/v1", False),
        ("http://example.org/v1", True),
        ("http://10.0.0.7:8000/v1", True),
        ("http://localhost.example.org/v1", True),
    ],
)
@pytest.mark.parametrize("header", [False, True])
def test_a_key_that_others_can_read_is_sent_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, url: str, said: bool, header: bool
) -> None:
    if not header:
        monkeypatch.setenv("DECABENCH_API_KEY", "canary-0123456789")
    key = read_key((Header("api-key", "canary-0123456789"),) if header else (), url)
    Client(url, key, ModelOptions(model="m"))
    assert ("are not encrypted" in caplog.text) == said and "canary" not in caplog.text
    caplog.clear()
    monkeypatch.delenv("DECABENCH_API_KEY", raising=False)
    Client(url, read_key((), url), ModelOptions(model="m"))
    assert not caplog.records
