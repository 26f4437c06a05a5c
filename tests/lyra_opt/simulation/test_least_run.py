"""No job runs faster than its best rate, and somewhere on the cluster it runs as fast."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.network.links import Tier
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.communication import SlowdownTable
from lyra_opt.simulation.goodput.tuning import TunedSpeed
from lyra_opt.simulation.least_run import BestRates, best_efficiency, least_run_s
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.topology import Topology
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.bounds.optimum import states_of, states_on
from tests.lyra_opt.simulation.bounds.small import draw
from tests.lyra_opt.simulation.on_racks import span_of
from tests.lyra_opt.simulation.replays import job_of, workload_of
from tests.tables import tables


def least_s(job, cluster, *, borrows=False, **settings):
    """Return the least run time of a job."""
    return float(least_run_s(workload_of(job), Speed(cluster), borrows=borrows, **settings)[0])


# By hand.


@pytest.mark.parametrize(("gang", "near", "far", "run_s"), tables(__file__)["spread"])
def test_a_measured_job_is_spread_where_that_is_faster(gang, near, far, run_s):
    """Near it has one speed, far another one, by type."""
    cluster = in_rounds.cluster_of({"a": 2}, {"a": 2}, {"b": 2}, {"b": 2})
    spread = {"a": far, "b": 1.0}
    job = in_rounds.measured("x", 60, gang=gang, spread=spread, a=near, b=1.0)
    assert least_s(job, cluster) == run_s


def test_the_best_efficiency_is_that_of_the_best_place_on_the_cluster():
    """On the shipped links the network is wider than the rack, and may be the better place."""
    topology = Topology.uniform(racks=3, machines_per_rack=2, gpus_per_machine=2)
    cluster = on_racks.linked(topology)
    communication = cluster.communication
    for gang in (1, 2, 3, 5):
        job = on_racks.job("j", 60, gang=gang, model="vgg11")
        everywhere = [
            communication.efficiency("vgg11", gang, *span_of(topology, machines, gang))
            for size in range(1, 7)
            for machines in combinations(range(6), size)
            if size <= gang <= 2 * size
        ]
        assert best_efficiency(communication, topology, "vgg11", gang) == max(everywhere)
        assert least_s(job, cluster) == pytest.approx(60 / max(everywhere))


def test_a_gang_of_which_nothing_is_known_is_left_out():
    """A table of slowdowns need not say what elastic jobs are like at their most workers."""
    table = SlowdownTable({("m", 2, Tier.MACHINE): 2.0, ("m", 2, Tier.RACK): 4.0})
    topology = Topology.uniform(racks=1, machines_per_rack=2, gpus_per_machine=2)
    job = job_of("x", 0, 10, max_workers=4, model="m")
    # One GPU has nobody to talk to; two do as much as it.
    assert least_s(job, Cluster.of_racks(topology, table)) == 10


def test_a_tuned_job_is_as_fast_as_tuning_makes_it():
    """At the number of workers at which that is most."""
    job = job_of("x", 0, 3600, max_workers=4)
    cluster = Cluster.of_servers(1, gpus_per_server=8)
    tuned = TunedSpeed(seed=1, gpus_per_server=8)
    speed = Speed(cluster, tuned=tuned)
    found = least_run_s(workload_of(job), speed, borrows=False)
    assert found.tolist() == [3600 / max(tuned.rates(job))]


def test_a_job_that_never_runs_is_refused():
    """As by a simulation."""
    with pytest.raises(UserError, match="job x needs 9 GPUs"):
        least_s(job_of("x", 0, 10, 9), Cluster.of_servers(1))


# By trying all.


@given(seed=st.integers(0, 10**6))
def test_the_best_rate_is_that_of_the_best_that_a_job_may_hold(seed):
    """Too low a rate makes a bound wrong, and too high a one makes it weak."""
    small = draw(seed, Reading.CONSERVED)
    speed, cluster = small.speed, small.cluster
    settings = small.settings
    rates = BestRates(speed, **settings)
    pools = [pool for pool in cluster.pools if settings["borrows"] or not pool.is_lent]
    hosts = [host for pool in pools for host in pool.hosts]
    for job in small.workload.jobs:
        found, work = rates.of(job), speed.unit_of(job).work
        best = [
            max((state.rate * work for state in states_on(job, speed, hosts, workers)), default=0.0)
            for workers in range(job.min_workers, job.max_workers + 1)
        ]
        highest = max(state.rate for state in states_of(job, speed, **settings)) * work
        if is_faster_spread(job):
            # The rates leave open whether a gang on GPUs of one type is on one server or on two.
            assert (np.array(found.of_workers) >= np.array(best) * (1 - 1e-6)).all()
            assert found.best >= highest * (1 - 1e-6)
        else:
            assert found.of_workers == pytest.approx(best)
            assert found.best == pytest.approx(highest)


def is_faster_spread(job):
    """Return whether a gang was measured to be faster on several servers than on one."""
    if job.measured is None or job.measured.spread_throughput is None:
        return False
    near, far = job.measured.throughput, job.measured.spread_throughput
    return any(far[name] > near[name] for name in far)
