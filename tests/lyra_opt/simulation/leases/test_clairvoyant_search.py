"""The schedules of one who knows the jobs: simulated, repeatable, and above the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from instances.network.generated_jobs import dally_batch, dally_poisson
from lyra_opt.network.communication import ClosedForm
from lyra_opt.network.links import LINK_SETS
from lyra_opt.network.policies import PLACEMENT_POLICIES
from lyra_opt.network.topology import Topology
from lyra_opt.simulation.leases.clairvoyant_bounds import makespan_bound_s, mean_jct_bound_s
from lyra_opt.simulation.leases.clairvoyant_search import EXPONENTS, PAIRS, search_plan
from lyra_opt.simulation.leases.engine import LeaseSimulation
from lyra_opt.simulation.leases.metrics import measure_network, require_leases_conserved
from lyra_opt.simulation.leases.setup import LeaseOptions, NetworkCluster, NetworkWorkload


def cluster_with(network: str) -> NetworkCluster:
    """Return two racks of three machines of four GPUs."""
    return NetworkCluster(
        topology=Topology.uniform(racks=2, machines_per_rack=3, gpus_per_machine=4),
        communication=ClosedForm(links=LINK_SETS[network]),
        network=network,
    )


CONGESTED = cluster_with("congested-2")
FEW = dally_batch(seed=3, jobs=8)


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@pytest.mark.parametrize("network", ["shipped", "congested-2"])
@pytest.mark.parametrize("lease_s", [3600.0, 1e5])
def test_no_policy_beats_the_bounds(name: str, network: str, lease_s: float) -> None:
    """Whatever the leases; a bound above a schedule that was carried out is wrong."""
    cluster = cluster_with(network)
    workload = dally_poisson(seed=1, jobs=10, jobs_per_day=30.0)
    simulation = LeaseSimulation(
        workload, cluster, PLACEMENT_POLICIES[name](), options=LeaseOptions(lease_s=lease_s)
    ).run()
    metrics = measure_network(simulation.record)
    assert mean_jct_bound_s(workload, cluster) <= metrics.jct_mean_s * (1 + 1e-9)
    assert makespan_bound_s(workload, cluster) <= metrics.makespan_s * (1 + 1e-9)


@pytest.mark.parametrize("keeps_order", [False, True])
def test_what_is_found_is_a_schedule(keeps_order: bool) -> None:
    """Carrying the plan out again gives the same mean JCT; the same seed finds the same plan."""
    found, again = (
        search_plan(FEW, CONGESTED, np.random.default_rng(5), changes=6, keeps_order=keeps_order)
        for _ in range(2)
    )
    assert found.mean_jct_s == again.mean_jct_s
    simulation = LeaseSimulation(FEW, CONGESTED, found.plan.policy(FEW)).run()
    require_leases_conserved(simulation.record)
    assert measure_network(simulation.record).jct_mean_s == pytest.approx(found.mean_jct_s)
    assert found.mean_jct_s >= mean_jct_bound_s(FEW, CONGESTED)
    assert found.simulations == len(PAIRS) * (1 if keeps_order else len(EXPONENTS)) + 6
    assert (found.plan.exponent is None) is keeps_order


def test_more_changes_are_no_worse() -> None:
    """A change that is worse is not kept."""
    values = [
        search_plan(FEW, CONGESTED, np.random.default_rng(5), changes=changes).mean_jct_s
        for changes in (0, 6)
    ]
    assert values[1] <= values[0]


def test_in_dallys_order_it_is_no_worse_than_timers_that_are_the_same_for_all() -> None:
    """No wait and consolidated are plain plans."""
    found = search_plan(
        FEW, CONGESTED, np.random.default_rng(0), changes=0, keeps_order=True
    ).mean_jct_s
    for name in ("no-wait", "consolidated", "manual"):
        simulation = LeaseSimulation(FEW, CONGESTED, PLACEMENT_POLICIES[name]()).run()
        mean_s = math.fsum(run.jct_s for run in simulation.runs) / len(FEW.jobs)
        assert found <= mean_s * (1 + 1e-12)


def test_one_job_runs_at_its_best() -> None:
    """Then bound and schedule are the same."""
    one = NetworkWorkload(name="one", jobs=FEW.jobs[:1])
    found = search_plan(one, CONGESTED, np.random.default_rng(0), changes=2)
    assert found.mean_jct_s == pytest.approx(mean_jct_bound_s(one, CONGESTED), rel=0.01)
