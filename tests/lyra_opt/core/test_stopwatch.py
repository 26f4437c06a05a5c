"""What a process loads once is nobody's solve time, and takes nothing from a time limit."""

from __future__ import annotations

from contextlib import suppress

import pytest

from lyra_opt.core import stopwatch
from lyra_opt.core.stopwatch import Stopwatch, loading
from lyra_opt.formulations.exact_solver import Countdown


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.time_s = 100.0

    def __call__(self) -> float:
        return self.time_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all stopwatches."""
    clock = Clock()
    monkeypatch.setattr(stopwatch.time, "perf_counter", clock)
    return clock


def test_loading_is_left_out(clock: Clock) -> None:
    """Also if it fails, and however often."""
    watch = Stopwatch()
    clock.time_s += 1
    with loading():
        clock.time_s += 10
    with suppress(ImportError), loading():
        clock.time_s += 20
        raise ImportError
    clock.time_s += 2
    assert watch.elapsed_s == 3
    assert Stopwatch().elapsed_s == 0


def test_a_time_limit_is_not_spent_on_loading(clock: Clock) -> None:
    """A solver gets all the seconds that it was given."""
    countdown = Countdown(5)
    with loading():
        clock.time_s += 60
    assert countdown.remaining_s == 5
    clock.time_s += 5
    assert countdown.is_over
    assert Countdown(None).remaining_s is None
