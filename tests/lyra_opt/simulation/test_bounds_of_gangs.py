"""The bounds on gangs that may be interrupted hold against every schedule that there is."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import makespan_bound_s, whole_bound
from lyra_opt.simulation.cluster import Cluster, GpuType
from lyra_opt.simulation.scheme import simulate
from lyra_opt.simulation.topology import Topology
from tests.draws import draws
from tests.lyra_opt.simulation import on_racks
from tests.lyra_opt.simulation.replays import workload_of

if TYPE_CHECKING:
    from lyra_opt.simulation.workload import Workload

IDEAL = on_racks.slowdowns_of((1.0, 1.0, 1.0))
FOUR_GPUS = on_racks.cluster_of(1, 2, 2, slowdowns=(1.0, 1.0, 1.0))


def workload(*jobs: tuple[float, int, float]) -> Workload:
    """Return jobs given by submission, gang and seconds, by submission."""
    return workload_of(
        *(
            on_racks.job(f"j{number}", running_s, gang=gang, submit_s=submit_s)
            for number, (submit_s, gang, running_s) in enumerate(sorted(jobs))
        )
    )


def mean_jct_bound_s(jobs: Workload, cluster: Cluster) -> float:
    """Return the bound on mean JCT where gangs may be interrupted."""
    return whole_bound(jobs, cluster, reading=Reading.CONSERVED, queue=False).jct_mean_bound_s


def best_of_all(jobs: list[tuple[int, int, int]], gpus: int) -> tuple[float, float]:
    """Return the least mean JCT and makespan, by trying all sets of gangs in each second.

    Gangs may be interrupted every second; with whole seconds nothing shorter helps the makespan of
    a schedule any less, and the bounds have to hold for these schedules among others.
    """

    @cache
    def least(now: int, left: tuple[int, ...]) -> tuple[float, float]:
        if not any(left):
            return 0.0, 0.0
        here = [n for n, (submit, _, _) in enumerate(jobs) if submit <= now and left[n]]
        best = float("inf"), float("inf")
        for size in range(len(here) + 1):
            for chosen in combinations(here, size):
                if sum(jobs[n][1] for n in chosen) > gpus or (here and not chosen):
                    continue
                after = tuple(rest - (n in chosen) for n, rest in enumerate(left))
                total, end = least(now + 1, after)
                total += sum(now + 1 - jobs[n][0] for n in chosen if not after[n])
                best = min(best[0], total), min(best[1], max(end, now + 1.0))
        return best

    total, end = least(0, tuple(seconds for _, _, seconds in jobs))
    return total / len(jobs), end - min(submit for submit, _, _ in jobs)


JOBS = st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 3))


@draws(50)
@given(st.lists(JOBS, min_size=1, max_size=4))
def test_no_schedule_of_tiny_workloads_beats_the_bounds(jobs):
    """A bound above the best schedule would make optima look impossible."""
    mean_jct_s, makespan_s = best_of_all(sorted(jobs), 4)
    assert mean_jct_bound_s(workload(*jobs), FOUR_GPUS) <= mean_jct_s
    assert makespan_bound_s(workload(*jobs), FOUR_GPUS) <= makespan_s


@pytest.mark.parametrize(
    ("jobs", "mean_jct_s", "makespan_s"),
    [
        pytest.param([(0, 4, 10), (0, 4, 10)], 15, 20, id="one after the other"),
        pytest.param([(0, 1, 10), (5, 1, 10)], 10, 15, id="side by side"),
        pytest.param([(0, 3, 10), (0, 3, 10), (0, 3, 10)], None, 30, id="large gangs"),
        pytest.param([(0, 4, 30), (10, 4, 2)], 17, 32, id="interrupted"),
    ],
)
def test_bounds_are_reached_where_the_best_schedule_is_plain(jobs, mean_jct_s, makespan_s):
    """Bounds that hold but say nothing would pass all other tests."""
    if mean_jct_s is not None:
        found = mean_jct_bound_s(workload(*jobs), FOUR_GPUS)
        assert found == pytest.approx(mean_jct_s, rel=5e-3)
        assert found <= mean_jct_s
    found = makespan_bound_s(workload(*jobs), FOUR_GPUS)
    assert found == pytest.approx(makespan_s)
    assert found <= makespan_s


@pytest.mark.parametrize("fastest", [0.5, 1.0, 2.5])
def test_bounds_are_those_of_the_fastest_type(fastest):
    """A bound that takes GPUs for slower than they are is none."""
    speeds = {"slow": 0.25, "fast": fastest}
    types = tuple(GpuType(name=name, relative_speed=speed) for name, speed in speeds.items())
    topology = Topology.uniform(racks=2, machines_per_rack=1, gpus_per_machine=4)
    cluster = Cluster.of_racks(topology, IDEAL, gpu_types=types)
    jobs = workload((0, 4, 10))
    shortest_s = 10 / fastest
    for found in (mean_jct_bound_s(jobs, cluster), makespan_bound_s(jobs, cluster)):
        assert found <= shortest_s
        assert found == pytest.approx(shortest_s, rel=5e-3)
    simulation = simulate(jobs, cluster, "best-fit")
    assert simulation.runs[0].completion_s >= shortest_s


def test_bounds_do_not_depend_on_when_it_all_begins():
    """Times in traces count from any moment."""
    jobs = [(0, 4, 30), (10, 2, 4), (12, 3, 9)]
    early, late = (workload(*((at_s + t, *rest) for t, *rest in jobs)) for at_s in (0, 1e6))
    assert mean_jct_bound_s(early, FOUR_GPUS) == pytest.approx(mean_jct_bound_s(late, FOUR_GPUS))
    assert makespan_bound_s(early, FOUR_GPUS) == pytest.approx(makespan_bound_s(late, FOUR_GPUS))
