from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_keys_and_proxies_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DECABENCH_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
