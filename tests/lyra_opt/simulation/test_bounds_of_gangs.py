"""The bound on the makespan holds against every schedule of gangs that there is."""

from functools import cache
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.bounds.whole import makespan_bound_s
from tests.draws import draws
from tests.lyra_opt.simulation import on_racks
from tests.lyra_opt.simulation.replays import workload_of

FOUR_GPUS = on_racks.cluster_of(1, 2, 2, slowdowns=(1.0, 1.0, 1.0))


def workload(*jobs):
    """Return jobs given by submission, gang and seconds, by submission."""
    return workload_of(
        *(
            on_racks.job(f"j{number}", running_s, gang=gang, submit_s=submit_s)
            for number, (submit_s, gang, running_s) in enumerate(sorted(jobs))
        )
    )


def least_makespan_s(jobs, gpus):
    """Return the least makespan, by trying all sets of gangs in each second.

    Gangs may be interrupted every second; with whole seconds nothing shorter helps any less.
    """

    @cache
    def end_s(now, left):
        if not any(left):
            return now
        here = [n for n, (submit, _, _) in enumerate(jobs) if submit <= now and left[n]]
        sets = [
            chosen
            for size in range(bool(here), len(here) + 1)
            for chosen in combinations(here, size)
            if sum(jobs[n][1] for n in chosen) <= gpus
        ]
        return min(
            end_s(now + 1, tuple(rest - (n in chosen) for n, rest in enumerate(left)))
            for chosen in sets
        )

    return end_s(0, tuple(seconds for *_, seconds in jobs)) - min(submit for submit, *_ in jobs)


JOBS = st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 3))


@draws(50)
@given(st.lists(JOBS, min_size=1, max_size=4))
def test_no_schedule_of_tiny_workloads_beats_the_bound(jobs):
    """A bound above the best schedule would make optima look impossible."""
    assert makespan_bound_s(workload(*jobs), FOUR_GPUS) <= least_makespan_s(sorted(jobs), 4)


@pytest.mark.parametrize(
    ("jobs", "makespan_s"),
    [
        pytest.param([(0, 4, 10), (0, 4, 10)], 20, id="one after the other"),
        pytest.param([(1e6, 1, 10), (1e6 + 5, 1, 10)], 15, id="side by side"),
        pytest.param([(0, 3, 10), (0, 3, 10), (0, 3, 10)], 30, id="large gangs"),
        pytest.param([(0, 4, 30), (10, 4, 2)], 32, id="interrupted"),
    ],
)
def test_the_bound_is_reached_where_the_best_schedule_is_plain(jobs, makespan_s):
    """A bound that holds but says nothing would pass all other tests."""
    found = makespan_bound_s(workload(*jobs), FOUR_GPUS)
    assert makespan_s >= found == pytest.approx(makespan_s)
