"""What a process loads once is nobody's solve time, and takes nothing from a time limit."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from lyra_opt.core import stopwatch
from lyra_opt.core.stopwatch import (
    GRACE_S,
    OutOfTimeError,
    Stopwatch,
    grace,
    is_out_of_time,
    loading,
    remaining_s,
    require_time,
    time_limit,
    within_time,
)


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
    """Also if it fails, and however often; once where it is within another."""
    watch = Stopwatch()
    clock.time_s += 1
    with loading():
        clock.time_s += 5
        with loading():
            clock.time_s += 5
    with suppress(ImportError), loading():
        clock.time_s += 20
        raise ImportError
    clock.time_s += 2
    assert watch.elapsed_s == 3
    assert Stopwatch().elapsed_s == 0


def test_a_time_limit_is_not_spent_on_loading(clock: Clock) -> None:
    """A solver gets all the seconds that it was given, and not one more."""
    with time_limit(5):
        with loading():
            clock.time_s += 60
        assert remaining_s() == 5
        clock.time_s += 4
        require_time()
        clock.time_s += 1
        assert is_out_of_time()
        with pytest.raises(OutOfTimeError):
            require_time()
    assert not is_out_of_time()


@pytest.mark.parametrize("time_s", [None, math.inf, 1e10])
def test_no_limit_leaves_no_number_of_seconds(time_s: float | None) -> None:
    """Backends cannot represent what is no limit to anybody."""
    assert remaining_s() is None
    with time_limit(time_s):
        assert remaining_s() is None
        require_time()


@pytest.mark.parametrize("own_s", [1, None, 100])
def test_of_nested_limits_the_first_to_end_counts(clock: Clock, own_s: float | None) -> None:
    """A heuristic that an exact solver starts from gets no more time than that has left."""
    with time_limit(10):
        clock.time_s += 6
        with time_limit(own_s):
            assert remaining_s() == min(4, own_s or math.inf)
        assert remaining_s() == 4


def test_grace_is_the_least_that_a_first_solution_gets(clock: Clock) -> None:
    """It moves no limit that leaves more, and ends with what it was given for."""
    with time_limit(0):
        assert is_out_of_time()
        with grace():
            assert remaining_s() == pytest.approx(GRACE_S)
            clock.time_s += 2 * GRACE_S
            assert is_out_of_time()
    with time_limit(5), grace():
        assert remaining_s() == 5
    with grace():
        assert remaining_s() is None


@pytest.mark.parametrize(("every", "known"), [(1, 3), (5, 5)])
def test_items_are_yielded_while_there_is_time(clock: Clock, every: int, known: int) -> None:
    """The clock is asked before each item, or before each of so many."""
    seen = []

    def go_through() -> None:
        for item in within_time(range(100), every):
            seen.append(item)
            clock.time_s += 1

    with time_limit(3), pytest.raises(OutOfTimeError):
        go_through()
    assert len(seen) == known


def test_a_limit_holds_in_one_thread() -> None:
    """Studies and backends may run others beside it."""
    with time_limit(0), ThreadPoolExecutor() as pool:
        assert is_out_of_time()
        assert not pool.submit(is_out_of_time).result()
