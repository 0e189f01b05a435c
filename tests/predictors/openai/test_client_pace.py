"""The rate limit on a clock that does not wait."""

import asyncio

import pytest

from decabench.predictors.openai.client import LoopThread, Pace
from tests.predictors.asking import Waits


def finished(coroutine):
    """In a thread of its own: another test's browser may have a loop running in this one."""
    with LoopThread() as loop:
        loop.result(coroutine)


def leave(pace, waits, count):
    """When each of some requests left, all wanting to at once."""
    times = []

    async def one():
        await pace.turn()
        times.append(waits.time)

    async def all_of_them():
        await asyncio.gather(*(one() for _ in range(count)))

    finished(all_of_them())
    return times


def test_without_a_limit_nobody_waits():
    waits = Waits()
    assert leave(Pace(waits.clock, None), waits, 5) == [0] * 5
    assert waits.slept == []


def test_one_an_interval():
    waits = Waits()
    pace = Pace(waits.clock, 30)
    assert leave(pace, waits, 1) == [0]
    assert leave(pace, waits, 1) == [2]
    waits.time = 100.0
    assert leave(pace, waits, 1) == [100]
    assert leave(pace, waits, 1) == [102]


@pytest.mark.parametrize("per_minute", [None, 60])
def test_a_pause_holds_for_all_and_does_not_add_up(per_minute):
    waits = Waits()
    pace = Pace(waits.clock, per_minute)
    pace.pause(10)
    pace.pause(4)
    assert min(leave(pace, waits, 3)) >= 10
    assert leave(pace, waits, 1)[0] <= 10 + 3 * (1 if per_minute else 0)


def test_a_pause_that_begins_while_one_waits():
    waits = Waits()
    pace = Pace(waits.clock, 60)
    left = []

    async def one():
        await pace.turn()
        left.append(waits.time)

    async def both():
        await one()
        waiting = asyncio.ensure_future(one())
        await asyncio.sleep(0)
        pace.pause(30)
        await waiting

    finished(both())
    assert left[0] == 0 and left[1] >= 30
