"""What holds of placement rules on every small cluster, beside what holds of any policy.

That runs are sound and the same each time, and that leases which are passed over are not missed:
`tests.lyra_opt.simulation.product`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from lyra_opt.network.heuristics.delay_scheduling import consolidated, manual, no_wait
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES, SUMMARIES
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import measure
from lyra_opt.simulation.policies.placing_gangs import PlacingGangs
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.workload import Job, Workload
from tests.draws import draws
from tests.lyra_opt.simulation.on_racks import cases, linked, run_rule

if TYPE_CHECKING:
    from lyra_opt.network.heuristics.policy import PlacementPolicy
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.view import Observer, View
    from tests.lyra_opt.simulation.on_racks import Case


def simulate(rule: PlacementPolicy, case: Case, *observers: Observer) -> Kernel:
    workload, cluster, leases = case
    return run_rule(rule, workload, cluster, leases, observers=observers)


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@pytest.mark.parametrize("links", LINK_SETS)
def test_nobody_waits_for_a_tier_that_cannot_be(name: str, links: str) -> None:
    """A machine of 8 GPUs is the largest rack; the rack of two machines does not hold the gang."""
    racks = (Rack(machines=1, gpus_per_machine=8), Rack(machines=2, gpus_per_machine=2))
    cluster = linked(Topology(name="odd", racks=racks), links)
    assert cluster.communication is not None
    for model in cluster.communication.models():
        job = Job.rigid(id="j0", submit_s=0, gpus=8, work_gpu_s=8 * 9000, model=model)
        workload = Workload(name="alone", jobs=(job,))
        (run,) = simulate(PLACEMENT_POLICIES[name](), (workload, cluster, Leases())).runs
        assert run.start_s == 0


@draws(20)
@given(case=cases())
def test_no_gang_moves_in_the_instant_in_which_it_starts(case: Case) -> None:
    """That would be a lease of no time, and GPUs handed over for nothing."""
    held_s, simulation = noted(*case)
    assert min(held_s) > 0
    assert len(held_s) <= sum(run.allocations for run in simulation.runs)


def noted(workload: Workload, cluster: Cluster, leases: Leases) -> tuple[list[float], Kernel]:
    """Return for how long each lease is held under a rule that moves gangs, and the run."""
    held_s: list[float] = []

    class Noting(PlacingGangs):
        def gives_back(self, view: View, run: JobRun) -> None:
            held_s.append(view.now_s - run.began_s)
            super().gives_back(view, run)

    policy = Noting(PLACEMENT_POLICIES["gandiva-affinity"], reclaimer=None)
    return held_s, Kernel(workload, cluster, policy, tenure=leases).run()


def test_a_gang_that_started_far_apart_moves_later() -> None:
    """Six GPUs over two racks, beside a rack of three machines: it moves as the next job comes."""
    racks = (Rack(machines=1, gpus_per_machine=4), Rack(machines=3, gpus_per_machine=4))
    cluster = linked(Topology(name="odd", racks=racks))
    large = Job.rigid(id="j0", submit_s=0, gpus=6, work_gpu_s=6 * 2000, model="resnet50")
    small = Job.rigid(id="j1", submit_s=100, gpus=1, work_gpu_s=10, model="resnet50")
    for jobs, by_tier in (((large,), [0, 0, 1]), ((large, small), [0, 1, 1])):
        held_s, simulation = noted(Workload(name="large", jobs=jobs), cluster, Leases())
        first = simulation.runs[0]
        assert first.allocations_by_tier == by_tier
        assert first.migrations == len(jobs) - 1
        assert held_s[0] > 0


@pytest.mark.parametrize(
    ("leases", "other"), [(0.0, no_wait), (math.inf, consolidated)], ids=["zero", "for ever"]
)
@draws(20)
@given(case=cases())
def test_timers_of_dally(leases: float, other: type[PlacementPolicy], case: Case) -> None:
    """Timers of 0 are no-wait and infinite ones consolidated, on every figure."""
    first, second = simulate(manual(leases, leases), case), simulate(other(), case)
    assert measure(first) == measure(second)


@draws(20)
@given(case=cases())
def test_consolidated_stays_at_the_nearest_tier(case: Case) -> None:
    """With infinite timers no gang spans more than the least that the empty cluster allows."""
    topology = case[1].topology
    assert topology is not None
    for run in simulate(consolidated(), case).runs:
        lowest = next(tier for tier in Tier if topology.can_span(tier, run.job.min_gpus))
        assert run.allocations == run.allocations_by_tier[lowest]


def test_every_policy_has_a_summary() -> None:
    """The command line prints a line on each."""
    assert SUMMARIES.keys() == PLACEMENT_POLICIES.keys()
