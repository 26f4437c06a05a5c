"""The ways of a job stand for all that it may hold: none of it is cheaper than they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation.bounds.optimum import states_of
from tests.lyra_opt.simulation.bounds.small import draw

if TYPE_CHECKING:
    from collections.abc import Iterable

TOLERANCE = 1e-9
QUICK, SLOW = range(100), range(300, 10_300)


def require_none_cheaper(seed: int, reading: Reading, *, is_queue: bool) -> int:
    """Check each thing that a job may hold, for as long as it takes; return how many there are.

    From its release on, at prices of their own in each pool.
    """
    small = draw(seed, reading)
    pricer = small.pricer(reading, is_queue=is_queue)
    rng = np.random.default_rng(seed)
    dear = rng.integers(0, 9, (len(pricer.room.gpu_s), 1)) * 2.0 ** rng.integers(-4, 4)
    pricer.at(np.broadcast_to(dear, pricer.room.gpu_s.shape), counts=False)
    checked = 0
    for number, job in enumerate(small.workload.jobs):
        paid = pricer.scratch.paid[number]
        weight = 0.0 if is_queue else small.weight[number]
        for state in states_of(
            job,
            small.speed,
            borrows=small.plan is not None,
            copy_efficiency=small.copy_efficiency,
        ):
            cost = (weight + np.dot(dear[:, 0], state.gpus)) / state.rate
            assert paid <= cost + TOLERANCE * (1 + cost), (
                f"seed {seed}: {job} pays {paid}, not {state}"
            )
            checked += 1
    return checked


def check_all(seeds: Iterable[int], reading: Reading) -> None:
    found = [
        require_none_cheaper(seed, reading, is_queue=is_queue)
        for seed in seeds
        for is_queue in (False, True)
    ]
    assert np.mean(found) > 2


@pytest.mark.parametrize("reading", Reading)
def test_nothing_that_a_job_may_hold_is_cheaper_than_its_ways(reading):
    """Protects the list of ways, from which the bound is made.

    A gang on unlike GPUs, own and borrowed ones at once, replicas, near and far, copies.
    """
    check_all(QUICK, reading)


@pytest.mark.slow
@pytest.mark.parametrize("reading", Reading)
def test_nothing_of_many_is_cheaper_than_its_ways(reading):
    """The same in 10,000 cases of each reading."""
    check_all(SLOW, reading)


def test_a_job_without_a_speed_anywhere_is_refused():
    """Protects from a traceback: of a gang that runs on one type alone, which cannot hold it.

    Its workers have two GPUs each, and servers of that type have one.
    """
    types = (GpuType(name="a"), GpuType(name="b"))
    servers = tuple(
        Server(id=f"s{number}", gpus={name: count})
        for number, (name, count) in enumerate([("a", 1), ("b", 2), ("a", 1)])
    )
    gang = GangJob(id="j", gang=2, steps=4.0, throughput={"a": 1.0, "b": 0.0})
    job = Job(id="j", submit_s=0, work_worker_s=2.0, gpus_per_worker=2, measured=gang)
    cluster = Cluster(name="two", gpu_types=types, servers=servers)
    with pytest.raises(UserError, match="job j has speed 0 on all GPUs of two"):
        whole_bound(Workload(name="one", jobs=(job,)), cluster, reading=Reading.CONSERVED)
