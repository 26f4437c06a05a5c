"""The schedules of one who knows the jobs: simulated, repeatable, and above the bound."""

import math

import numpy as np
import pytest

from lyra_opt.experiments.tuning.clairvoyant_search import search_schedule
from lyra_opt.instances.network.jobs import dally_batch, dally_poisson
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import makespan_bound_s, whole_bound
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.scheme import simulate
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.topology import Topology
from lyra_opt.simulation.workload import Workload
from tests.lyra_opt.simulation.on_racks import linked, run_rule


def cluster_with(network):
    """Return two racks of three machines of four GPUs."""
    topology = Topology.uniform(racks=2, machines_per_rack=3, gpus_per_machine=4)
    return linked(topology, network)


def mean_jct_bound_s(jobs, cluster):
    """Return the bound on the mean JCT of gangs that may be interrupted."""
    return whole_bound(jobs, cluster, reading=Reading.CONSERVED, queue=False).jct_mean_bound_s


CONGESTED = cluster_with("congested-2")
FEW = dally_batch(seed=3, jobs=8)


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@pytest.mark.parametrize("network", ["shipped", "congested-2"])
@pytest.mark.parametrize("lease_s", [3600.0, 1e5])
def test_no_policy_beats_the_bounds(name, network, lease_s):
    """Whatever the leases; a bound above a schedule that was carried out is wrong."""
    cluster = cluster_with(network)
    workload = dally_poisson(seed=1, jobs=10, jobs_per_day=30.0)
    metrics = measure(simulate(workload, cluster, name, tenure=Leases(lease_s=lease_s)))
    assert mean_jct_bound_s(workload, cluster) <= metrics.jct_mean_s * (1 + 1e-9)
    assert makespan_bound_s(workload, cluster) <= metrics.makespan_s * (1 + 1e-9)


@pytest.mark.parametrize("keeps_order", [False, True])
def test_what_is_found_is_a_schedule(keeps_order):
    """Carrying it out again gives the same mean JCT, and so does another search with the seed."""
    (found, mean_jct_s), (_, again_s) = (
        search_schedule(
            FEW,
            CONGESTED,
            np.random.default_rng(5),
            leases=Leases(),
            changes=6,
            keeps_order=keeps_order,
        )
        for _ in range(2)
    )
    assert mean_jct_s == again_s
    simulation = run_rule(found.policy(FEW), FEW, CONGESTED, Leases())
    require_conserved(simulation)
    assert measure(simulation).jct_mean_s == pytest.approx(mean_jct_s)
    assert mean_jct_s >= mean_jct_bound_s(FEW, CONGESTED)
    assert (found.exponent is None) is keeps_order


def test_more_changes_are_no_worse():
    """A change that is worse is not kept."""
    values = [
        search_schedule(FEW, CONGESTED, np.random.default_rng(5), leases=Leases(), changes=changes)[
            1
        ]
        for changes in (0, 6)
    ]
    assert values[1] <= values[0]


def test_in_dallys_order_it_is_no_worse_than_timers_that_are_the_same_for_all():
    """No wait and consolidated are plain candidates."""
    _, found_s = search_schedule(
        FEW, CONGESTED, np.random.default_rng(0), leases=Leases(), changes=0, keeps_order=True
    )
    for name in ("no-wait", "consolidated", "manual"):
        simulation = simulate(FEW, CONGESTED, name)
        mean_s = math.fsum(run.jct_s for run in simulation.runs) / len(FEW.jobs)
        assert found_s <= mean_s * (1 + 1e-12)


def test_one_job_runs_at_its_best():
    """Then bound and schedule are the same."""
    one = Workload(name="one", jobs=FEW.jobs[:1])
    _, found_s = search_schedule(
        one, CONGESTED, np.random.default_rng(0), leases=Leases(), changes=2
    )
    assert found_s == pytest.approx(mean_jct_bound_s(one, CONGESTED), rel=0.01)
