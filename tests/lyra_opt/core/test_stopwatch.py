"""What a process loads once is nobody's solve time, and takes nothing from a time limit."""

import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from lyra_opt.core import stopwatch
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Solver
from lyra_opt.core.stopwatch import (
    GRACE_S,
    OutOfTimeError,
    Stopwatch,
    grace,
    is_out_of_time,
    limit_reached,
    limited_to,
    limits_in_force,
    loading,
    remaining_s,
    require_time,
    within_time,
)


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self):
        self.time_s = 100.0

    def __call__(self):
        return self.time_s


@pytest.fixture
def clock(monkeypatch):
    """The clock of all stopwatches."""
    clock = Clock()
    monkeypatch.setattr(stopwatch.time, "perf_counter", clock)
    return clock


def test_loading_is_left_out(clock):
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


def test_a_time_limit_is_not_spent_on_loading(clock):
    """A solver gets all the seconds that it was given, and not one more."""
    with limited_to(Limits(time_s=5)):
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
def test_no_limit_leaves_no_number_of_seconds(time_s):
    """Backends cannot represent what is no limit to anybody."""
    assert remaining_s() is None
    with limited_to(Limits(time_s=time_s)):
        assert remaining_s() is None
        require_time()


@pytest.mark.parametrize("own_s", [1, None, 100])
def test_of_nested_limits_the_first_to_end_counts(clock, own_s):
    """A heuristic that an exact solver starts from gets no more time than that has left."""
    with limited_to(Limits(time_s=10)):
        clock.time_s += 6
        with limited_to(Limits(time_s=own_s)):
            assert remaining_s() == min(4, own_s or math.inf)
        assert remaining_s() == 4


def test_grace_is_the_least_that_a_first_solution_gets(clock):
    """It moves no limit that leaves more, and ends with what it was given for."""
    with limited_to(Limits(time_s=0)):
        assert is_out_of_time()
        with grace():
            assert remaining_s() == pytest.approx(GRACE_S)
            clock.time_s += 2 * GRACE_S
            assert is_out_of_time()
    with limited_to(Limits(time_s=5)), grace():
        assert remaining_s() == 5
    with grace():
        assert remaining_s() is None


@pytest.mark.parametrize(("every", "known"), [(1, 3), (5, 5)])
def test_items_are_yielded_while_there_is_time(clock, every, known):
    """The clock is asked before each item, or before each of so many."""
    seen = []

    def go_through():
        for item in within_time(range(100), every):
            seen.append(item)
            clock.time_s += 1

    with limited_to(Limits(time_s=3)), pytest.raises(OutOfTimeError):
        go_through()
    assert len(seen) == known


def test_a_limit_holds_in_one_thread():
    """Studies and backends may run others beside it."""
    with limited_to(Limits(time_s=0)), ThreadPoolExecutor() as pool:
        assert is_out_of_time()
        assert not pool.submit(is_out_of_time).result()


@pytest.mark.parametrize(
    ("limits", "reached"),
    [
        (Limits(), None),
        (Limits(nodes=6, memory_mib=3), None),
        (Limits(nodes=5, memory_mib=1), StoppedBy.NODES),
        (Limits(memory_mib=1), StoppedBy.MEMORY),
        (Limits(time_s=0, nodes=5), StoppedBy.TIME),
    ],
)
def test_a_search_is_told_which_limit_it_has_reached(limits, reached):
    """Nodes stop it when they are used up, memory when more is taken, and time comes first."""
    with limited_to(limits):
        assert limit_reached(nodes=5, memory_bytes=2 * 2**20) is reached


def test_each_solver_runs_within_its_own_limits():
    """A search within a search counts its own nodes; limits end with the call, also by an error."""
    seen = []

    class Inner(Solver):
        name, problem, variants = "inner", "reclaim", ()

        def solve(self, *_, **__):
            seen.append(limits_in_force())
            raise OutOfTimeError

    class Outer(Inner):
        def solve(self, instance, **given):
            with suppress(OutOfTimeError):
                Inner().solve(instance, limits=Limits(nodes=3), rng=None)
            with suppress(OutOfTimeError):
                Inner().solve(instance)
            seen.append(limits_in_force())
            return SolveResult(status=Status.UNKNOWN)

    Outer().solve(None, limits=Limits(nodes=9, time_s=5), rng=None)
    assert seen == [Limits(nodes=3), *2 * [Limits(nodes=9, time_s=5)]]
    assert limits_in_force() == Limits()
