from __future__ import annotations

import asyncio
import datetime
from types import SimpleNamespace

import pytest

from decabench.predictors.openai import client


class Waits:
    """A clock that records sleeps without waiting."""

    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def no_keys_and_proxies_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DECABENCH_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """The client's clock, which stands at noon of a day in 2026."""
    waits, noon = Waits(), datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    clock = SimpleNamespace(monotonic=lambda: waits.time, time=noon.timestamp)
    monkeypatch.setattr(client, "time", clock)
    monkeypatch.setattr(client, "sleep", waits.sleep)
    return waits
