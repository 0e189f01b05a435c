"""When a request may leave: the rate limit, pauses that a server asks for, and waits between tries."""

from __future__ import annotations

import asyncio
import datetime
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

__all__ = ["LONGEST_PAUSE", "Clock", "Pace", "back_off", "retry_after"]

LONGEST_PAUSE = 600.0
"""Seconds: what a server may ask for; longer pauses are cut to this."""

LONGEST_BACK_OFF = 60.0
"""Seconds."""


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Clock:
    """Time as the client sees it, so that a test need not wait."""

    now: Callable[[], float] = time.monotonic
    """Seconds since some moment."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits so many seconds."""
    date: Callable[[], datetime.datetime] = _utc_now
    """What the calendar says: servers may name the moment."""


class Pace:
    """Lets requests go one an interval, and none during a pause. Belongs to one event loop."""

    def __init__(self, clock: Clock, per_minute: float | None) -> None:
        self._clock = clock
        self._interval = 60 / per_minute if per_minute else 0.0
        self._next = -math.inf
        self._paused_until = -math.inf

    async def turn(self) -> None:
        """Waits until a request may leave."""
        slot = self._slot()
        while (wait := slot - self._clock.now()) > 0:
            await self._clock.sleep(wait)
            if self._clock.now() < self._paused_until:  # a pause began meanwhile
                slot = self._slot()

    def pause(self, seconds: float) -> None:
        """No request leaves for so long."""
        self._paused_until = max(self._paused_until, self._clock.now() + seconds)

    def _slot(self) -> float:
        slot = max(self._clock.now(), self._next, self._paused_until)
        self._next = slot + self._interval
        return slot


def back_off(tries: int) -> float:
    """Seconds to wait after so many tries: drawn evenly from 0 to 2, 4, 8 … 60, lest clients march in step."""
    return random.uniform(0, min(LONGEST_BACK_OFF, 2.0**tries))


def retry_after(header: str | None, clock: Clock) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or a date; None for none and for nonsense."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
        except ValueError:
            return None
        zoned = date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
        seconds = (zoned - clock.date()).total_seconds()
    return min(max(seconds, 0.0), LONGEST_PAUSE) if math.isfinite(seconds) else None
