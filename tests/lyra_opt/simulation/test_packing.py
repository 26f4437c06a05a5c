"""Two jobs on the same GPUs in a simulated cluster: how fast they are, and what is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous.instance import GangJob, PackedRate
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.scheme import find_scheme, simulate
from lyra_opt.simulation.tenure import Rounds
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation.in_rounds import cluster_of

if TYPE_CHECKING:
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.kernel import Kernel

FREE_ROUNDS = Rounds(round_s=10.0, restart_s=0.0, merge_s=0.0)


def kind(name: str, steps: float, *, of: str = "k", gang: int = 1, release_s: float = 0) -> GangJob:
    return GangJob(
        id=name,
        gang=gang,
        steps=steps,
        release_s=release_s,
        throughput={"a": 2.0},
        kind=f"{of} on {gang}",
    )


def workload_of(*gangs: GangJob, part: float = 0.75) -> Workload:
    """Return jobs each of which has this part of its speed beside any other of its size."""
    size = {gang.kind: gang.gang for gang in gangs}
    packed = [
        PackedRate(kind=str(one), beside=str(two), throughput={"a": 2.0 * part})
        for one in size
        for two in size
        if size[one] == size[two]
    ]
    return Workload(name="packed", jobs=tuple(map(Job.of_gang, gangs)), packed=tuple(packed))


def replayed(
    workload: Workload, cluster: Cluster, scheme: str = "gavel-las", **given: object
) -> Kernel:
    """Return the replay of jobs under a scheme that packs."""
    parameters = {} if scheme == "gavel-gandiva" else {"packs": True}
    found = find_scheme(scheme).with_parameters(parameters | given)
    return simulate(workload, cluster, found, tenure=FREE_ROUNDS)


def test_two_jobs_share_a_gpu() -> None:
    """Each at three quarters of its speed; the one that is left goes on alone at once."""
    simulation = replayed(workload_of(kind("x", 30), kind("y", 60)), cluster_of({"a": 1}))
    # 1.5 steps a second each; from 20 s on the other has 30 steps left, and 2 a second.
    assert [run.completion_s for run in simulation.runs] == [20.0, pytest.approx(35.0)]
    assert [run.queued_s for run in simulation.runs] == [0.0, 0.0]
    # Half of the GPU each for 20 s, then all of it.
    assert [run.held_gpu_s for run in simulation.runs] == [10.0, pytest.approx(25.0)]
    assert simulation.totals.held_gpu_s == [pytest.approx(35.0)]
    assert [run.slower_placement_s for run in simulation.runs] == [5.0, pytest.approx(5.0)]
    require_conserved(simulation)
    assert measure(simulation).gpu_usage == pytest.approx(1.0)


def test_without_packing_they_take_turns() -> None:
    """The same jobs and scheme, without the parameter."""
    workload = workload_of(kind("x", 30), kind("y", 60))
    simulation = simulate(workload, cluster_of({"a": 1}), "gavel-las", tenure=FREE_ROUNDS)
    assert max(run.completion_s for run in simulation.runs) > 45.0


def test_packing_that_does_not_pay_is_not_used() -> None:
    """At less than half of their speed two jobs are better off in turns."""
    simulation = replayed(workload_of(kind("x", 40), kind("y", 40), part=0.4), cluster_of({"a": 1}))
    assert all(run.slower_placement_s == 0 for run in simulation.runs)


@pytest.mark.parametrize(
    "scheme",
    [
        "gavel-las",
        "gavel-ftf",
        "gavel-makespan",
        "gavel-water-filling",
        "gavel-gandiva",
        "gavel-fifo",
    ],
)
def test_all_that_is_conserved(scheme: str) -> None:
    """Many jobs of three kinds and two sizes that come, share, part and move on two servers."""
    jobs = [
        kind(f"j{n}", 37.0 + 11 * n, of="pqr"[n % 3], gang=1 + (n % 4 == 3), release_s=7.0 * n)
        for n in range(16)
    ]
    gpus = cluster_of({"a": 2}, {"a": 1})
    simulation = replayed(workload_of(*jobs, part=0.8), gpus, scheme, least_reset_s=0)
    require_conserved(simulation)
    assert any(run.slower_placement_s > 0 for run in simulation.runs), "nobody shared"
    again = replayed(workload_of(*jobs, part=0.8), gpus, scheme, least_reset_s=0)
    assert [run.completion_s for run in again.runs] == [r.completion_s for r in simulation.runs]


def test_gandiva_packs_only_where_gpus_are_short() -> None:
    """Three jobs on three GPUs share none; on one GPU two of them do, and a pair stays."""
    jobs = [kind(name, 400) for name in "xyz"]
    roomy = replayed(workload_of(*jobs), cluster_of({"a": 3}), "gavel-gandiva")
    assert [run.completion_s for run in roomy.runs] == [200.0] * 3
    short = replayed(workload_of(*jobs), cluster_of({"a": 1}), "gavel-gandiva")
    assert sum(run.slower_placement_s > 0 for run in short.runs) >= 2
    bad = replayed(workload_of(*jobs, part=0.4), cluster_of({"a": 1}), "gavel-gandiva")
    require_conserved(bad)


def completions(simulation: Kernel) -> list[float | None]:
    return [run.completion_s for run in simulation.runs]


def test_fifo_serves_first_who_came_first() -> None:
    """Three jobs on a GPU, one after another; with packing the second joins, the third waits."""
    jobs = [kind(name, 40, release_s=place) for place, name in enumerate("xyz")]
    gpu = cluster_of({"a": 1})
    alone = replayed(workload_of(*jobs), gpu, "gavel-fifo", packs=False, least_reset_s=0)
    first, *_ = done = [run.completion_s or 0.0 for run in alone.runs]
    assert done == pytest.approx([first, first + 20, first + 40], abs=2 * FREE_ROUNDS.round_s)
    both = replayed(workload_of(*jobs, part=0.8), gpu, "gavel-fifo", least_reset_s=0)
    assert [run.slower_placement_s > 0 for run in both.runs] == [True, True, True]
    assert both.runs[2].start_s >= (both.runs[0].completion_s or 0.0)  # and joins the second
    # At three quarters of their speed two do 1.5 together, which is not above the least worth ...
    slow = workload_of(*jobs, part=0.75)
    fussy = replayed(slow, gpu, "gavel-fifo", least_reset_s=0)
    assert completions(fussy) == completions(alone)
    # ... unless that is lower.
    eager = replayed(slow, gpu, "gavel-fifo", least_reset_s=0, least_worth=1.2)
    assert completions(eager) != completions(alone)


def test_fifo_lets_who_is_left_of_a_pair_go_on() -> None:
    """The share was that of both: alone it has one in the next round, not 1,920 s later."""
    jobs = workload_of(kind("x", 32, release_s=10), kind("y", 300, release_s=10), part=0.8)
    simulation = replayed(jobs, cluster_of({"a": 1}), "gavel-fifo")
    assert [run.queued_s for run in simulation.runs] == [0, 0]


def test_fifo_lets_nobody_past_a_gang_that_waits() -> None:
    """A gang of 2 waits for both GPUs; who came after it waits too, though one GPU is free."""
    jobs = [kind("x", 80), kind("y", 20, gang=2, release_s=1), kind("z", 20, release_s=2)]
    gpus = cluster_of({"a": 2})
    simulation = replayed(workload_of(*jobs), gpus, "gavel-fifo", packs=False, least_reset_s=0)
    x, y, z = simulation.runs
    assert x.completion_s == 40
    assert y.start_s >= 40
    assert z.start_s >= y.completion_s
    require_conserved(simulation)


def test_what_is_refused() -> None:
    """Without packed rates, and for policies that are blind to types."""
    jobs = workload_of(kind("x", 30))
    with pytest.raises(UserError, match="nothing is known of how fast two are at once"):
        replayed(replace(jobs, packed=()), cluster_of({"a": 1}))
    with pytest.raises(UserError, match="packs is true: must be false for a policy that is blind"):
        replayed(jobs, cluster_of({"a": 1}), "gavel-las-agnostic")
