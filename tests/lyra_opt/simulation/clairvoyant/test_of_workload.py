"""Whole workloads as gangs: what is found is no better than what is proved, and simulated alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from lyra_opt.simulation.clairvoyant.best import obstacle, schedule_of
from lyra_opt.simulation.cluster import Cluster, GpuType
from lyra_opt.simulation.scheme import simulate
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Job, Workload
from tests.draws import draws

FAST = GpuType(name="fast", relative_speed=1.25)
CLUSTER = Cluster.of_servers(2, gpus_per_server=4, gpu=FAST)


def workload(*jobs: tuple[float, int, float]) -> Workload:
    """Return rigid jobs given by submission, GPUs and seconds on a reference GPU."""
    return Workload(
        name="gangs",
        jobs=tuple(
            Job(
                id=f"j{number}",
                submit_s=submit_s,
                work_worker_s=gpus * seconds,
                min_workers=gpus,
                max_workers=gpus,
            )
            for number, (submit_s, gpus, seconds) in enumerate(sorted(jobs))
        ),
    )


@draws(25)
@given(
    st.lists(
        st.tuples(st.floats(5, 20), st.integers(1, 8), st.floats(0.5, 9)), min_size=1, max_size=8
    )
)
def test_found_is_between_the_proof_and_a_simulation(jobs: list[tuple[float, int, float]]) -> None:
    """Bound, schedule and simulation are three programmes: each would show a fault of another."""
    made, speed = workload(*jobs), Speed(CLUSTER)
    bound = whole_bound(made, CLUSTER, reading=Reading.RESTART, queue=False)
    found = schedule_of(made, speed, bound.jct.border_s)
    assert bound.jct_mean_bound_s <= found.jct_mean_s * (1 + 1e-9)
    if len(jobs) == 1:
        assert found.jct_mean_s == pytest.approx(bound.jct_mean_bound_s, rel=1e-6)
    runs = simulate(made, CLUSTER, "sjf").runs
    # A schedule by luck is possible, one that is much worse than that of a plain rule is not.
    assert found.jct_mean_s <= 1.5 * sum(run.jct_s for run in runs) / len(runs)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_workers": 8}, "j0 is elastic"),
        ({"gpus_per_worker": 2}, "a worker of job j0 has several GPUs"),
    ],
)
def test_what_is_no_gang_is_said(change: dict[str, int], told: str) -> None:
    """A schedule of other jobs than those of the workload would say nothing of the bound."""
    job = Job(**({"id": "j0", "submit_s": 0.0, "work_worker_s": 4.0, "min_workers": 1} | change))
    found = obstacle(Workload(name="one", jobs=(job,)), Speed(CLUSTER))
    assert found is not None
    assert told in found


def test_loans_are_no_obstacle_that_is_passed_over() -> None:
    """Servers on loan would be left out."""
    lent = Cluster.of_servers(2, inference_servers=1)
    found = obstacle(workload((0, 1, 1)), Speed(lent))
    assert found == "there are GPUs of several kinds, or on loan"
