"""The ways of a job stand for all that it may hold: none of it is cheaper than they are."""

import numpy as np
import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from tests.draws import sampled
from tests.lyra_opt.simulation.bounds.optimum import states_of
from tests.lyra_opt.simulation.bounds.small import draw
from tests.lyra_opt.simulation.in_rounds import cluster_of, gang
from tests.lyra_opt.simulation.replays import job_of, workload_of

TOLERANCE = 1e-9


def require_none_cheaper(seed, reading, *, is_queue):
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
        for state in states_of(job, small.speed, **small.settings):
            cost = (weight + np.dot(dear[:, 0], state.gpus)) / state.rate
            assert paid <= cost + TOLERANCE * (1 + cost), (
                f"seed {seed}: {job} pays {paid}, not {state}"
            )
            checked += 1
    return checked


@pytest.mark.parametrize("reading", Reading)
@pytest.mark.parametrize("seeds", sampled([(range(100),), (range(300, 10_300),)], 2))
def test_nothing_that_a_job_may_hold_is_cheaper_than_its_ways(reading, seeds):
    """Protects the list of ways, from which the bound is made.

    A gang on unlike GPUs, own and borrowed ones at once, replicas, near and far, copies.
    """
    found = [
        require_none_cheaper(seed, reading, is_queue=is_queue)
        for seed in seeds
        for is_queue in (False, True)
    ]
    assert np.mean(found) > 2


def test_a_job_without_a_speed_anywhere_is_refused():
    """Protects from a traceback: of a gang that runs on one type alone, which cannot hold it.

    Its workers have two GPUs each, and servers of that type have one.
    """
    measured = gang("j", 4.0, gang=2, a=1.0, b=0.0)
    job = job_of("j", 0, 2, gpus_per_worker=2, measured=measured)
    cluster = cluster_of({"a": 1}, {"b": 2}, {"a": 1})
    with pytest.raises(UserError, match="job j has speed 0 on all GPUs of small"):
        whole_bound(workload_of(job), cluster, reading=Reading.CONSERVED)
