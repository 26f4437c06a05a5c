"""Schemes of all papers on one network of tiers: the same rules, the same books."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.scheme import (
    Options,
    PlacementScheme,
    RoundScheme,
    find_scheme,
    scheme_names,
    simulate,
)
from lyra_opt.simulation.series import CaptureObserver
from lyra_opt.simulation.tenure import Forever, Leases, Rounds
from lyra_opt.simulation.topology import Topology
from tests.draws import draws
from tests.lyra_opt.simulation import in_rounds
from tests.lyra_opt.simulation.in_rounds import measured
from tests.lyra_opt.simulation.on_racks import cases, cluster_of, job, linked, workloads
from tests.lyra_opt.simulation.product import preempts
from tests.lyra_opt.simulation.replays import (
    COMPOSED_SCHEMES,
    completions,
    preemptions,
    workload_of,
)

if TYPE_CHECKING:
    from lyra_opt.simulation.kernel import Kernel
    from lyra_opt.simulation.view import Observer
    from lyra_opt.simulation.workload import Workload

ROUNDS = Rounds(round_s=10.0, restart_s=2.0, merge_s=0.0)
OF_THEIR_OWN_SPEED = ("lyra-tuned", "pollux")
NEEDS_TYPES = ("gavel-cost", "gavel-gandiva")
NAMES = [name for name in scheme_names() if name not in (*OF_THEIR_OWN_SPEED, *NEEDS_TYPES)]
ELASTIC_NAMES = [name for name in COMPOSED_SCHEMES if name in NAMES]
ROUND_NAMES, PLACEMENT_NAMES = (
    [name for name in NAMES if isinstance(find_scheme(name), kind)]
    for kind in (RoundScheme, PlacementScheme)
)

ALIKE = {
    **dict.fromkeys(("opportunistic", "opportunistic-confined", "gandiva"), "fifo"),
    **dict.fromkeys(
        ("random", "scf", "afs", "lyra-loaning", "lyra-scaling", "lyra-exact", "sjf"), "lyra"
    ),
}
"""Schemes that are the same as another one where gangs are not elastic and nothing is lent; `sjf`
because all durations are known, so that Lyra takes the shortest first too."""


def run_scheme(name: str, workload: Workload, cluster: Cluster, *observers: Observer) -> Kernel:
    return simulate(workload, cluster, name, options=Options(rounds=ROUNDS), observers=observers)


@st.composite
def flat_cases(draw: st.DrawFn) -> tuple[Workload, Cluster]:
    """Draw gangs on a cluster whose network costs nothing."""
    sizes = [draw(st.integers(1, most)) for most in (2, 3, 3)]
    cluster = cluster_of(*sizes, slowdowns=(1, 1, 1))
    drawn = draw(workloads(cluster, most_jobs=5))
    return replace(drawn, jobs=tuple(replace(entry, model="m") for entry in drawn.jobs)), cluster


def fitted(name: str, workload: Workload, cluster: Cluster) -> Workload:
    """Return gangs no larger than a scheme takes them: one GPU, or those of a machine."""
    largest = {"allox": 1, "hadare": max(cluster.most_on_a_server.values())}
    gangs = [min(entry.min_gpus, largest.get(name, cluster.gpus)) for entry in workload.jobs]
    return workload_of(
        *(
            job(entry.id, entry.work_worker_s / gang, gang=gang, submit_s=entry.submit_s)
            for entry, gang in zip(workload.jobs, gangs, strict=True)
        )
    )


@pytest.mark.parametrize(("name", "like"), ALIKE.items())
@draws(12)
@given(case=cases(are_uniform=True))
def test_what_says_nothing_of_its_own_is_alike(name, like, case):
    """To the last second."""
    first, second = (run_scheme(scheme, *case[:2]) for scheme in (name, like))
    assert completions(first) == completions(second)


@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [("hadar", "heterogeneous", "round"), ("dally", "network", "epoch"), ("lyra", None, None)],
)
def test_captured_decisions_are_named(name, kind, what):
    """By kind and time; nobody grows and nothing is lent, so that Lyra decides nothing."""
    captured: list[tuple[str, str]] = []
    observer = CaptureObserver(
        lambda kind, instance: captured.append((kind, instance.name)),
        frozenset(("allocation", "heterogeneous", "network", "reclaim")),
    )
    run_scheme(name, workload_of(job("x", 30), job("y", 30, gang=2)), cluster_of(), observer)
    assert captured[:1] == ([] if kind is None else [(kind, f"{what}-at-0-s")])
    assert {found for found, _ in captured} <= {kind}


@pytest.mark.parametrize("name", ELASTIC_NAMES)
@draws(15)
@given(case=flat_cases())
def test_without_a_network_queues_are_as_without_racks(name, case):
    """With efficiency 1 everywhere, jobs complete as where there is no topology."""
    workload, cluster = case
    machines = len(cluster.servers)
    plain = Cluster.of_servers(machines, gpus_per_server=cluster.gpus // machines)
    on_racks, alone = (run_scheme(name, workload, found) for found in (cluster, plain))
    assert completions(on_racks) == completions(alone)
    assert [run.queued_s for run in on_racks.runs] == [run.queued_s for run in alone.runs]


TWO_MACHINES = Topology.uniform(racks=1, machines_per_rack=2, gpus_per_machine=2)
SHIPPED = linked(TWO_MACHINES)
FEWER = Cluster.of_racks(TWO_MACHINES, cluster_of(1, 1, 3).communication)


@pytest.mark.parametrize(
    ("refused", "cluster", "message"),
    [
        (job("x", 1), SHIPPED, "job x: model is 'm'"),
        (replace(job("x", 1, gang=2), model=None), SHIPPED, "job x names no model"),
        (job("x", 1, gang=4), FEWER, "no line for model 'm' on 4 GPUs at tier rack"),
    ],
)
def test_a_model_that_is_not_known_is_refused(refused, cluster, message):
    """Or not said, or known for smaller gangs alone."""
    with pytest.raises(UserError, match=message):
        run_scheme("fifo", workload_of(refused), cluster)


def test_moves_and_waits_in_rounds():
    """A gang that goes elsewhere migrates, and one that pauses was preempted."""
    workload = workload_of(*(job(f"j{number}", 60, gang=2 + number % 3) for number in range(6)))
    simulation = run_scheme("gavel-las", workload, cluster_of())
    require_conserved(simulation)
    assert preemptions(simulation) > 0
    for run in simulation.runs:
        assert run.preemptions < run.allocations <= 1 + run.preemptions + run.migrations
        paused_s = run.held_gpu_s / run.job.min_gpus - run.running_s
        assert paused_s == pytest.approx(2 * run.allocations)


@pytest.mark.parametrize("name", ROUND_NAMES)
@draws(10)
@given(case=flat_cases())
def test_without_a_network_rounds_are_as_without_racks(name, case):
    """With efficiency 1 everywhere, jobs complete as where they are measured, in steps of 1 s."""
    workload, cluster = fitted(name, *case), case[1]
    jobs = [
        measured(entry.id, entry.duration_s, gang=entry.min_gpus, release_s=entry.submit_s)
        for entry in workload.jobs
    ]
    servers = in_rounds.cluster_of(
        *({"a": sum(server.gpus.values())} for server in cluster.servers)
    )
    plain = run_scheme(name, workload_of(*jobs), servers)
    on_racks = run_scheme(name, workload, cluster)
    assert completions(on_racks) == pytest.approx(completions(plain))
    assert [run.queued_s for run in on_racks.runs] == pytest.approx(
        [run.queued_s for run in plain.runs], abs=1e-6
    )
    assert [run.preemptions for run in on_racks.runs] == [run.preemptions for run in plain.runs]


# Rules on tenures that are not their own.


@pytest.mark.parametrize("name", PLACEMENT_NAMES)
@draws(10)
@given(case=cases())
def test_leases_that_never_end(name, case):
    """Gangs keep their GPUs; nobody gives any back before it is complete."""
    workload, cluster, _ = case
    simulation = simulate(workload, cluster, name, tenure=Forever(preemption_s=0.0))
    require_conserved(simulation)
    for run in simulation.runs:
        assert run.losses == run.preemptions == 0
        assert run.allocations == 1 + run.restarts


@pytest.mark.parametrize("name", [name for name in ELASTIC_NAMES if not preempts(name)])
@draws(10)
@given(case=cases())
def test_queues_with_leases(name, case):
    """A lease that is longer than any job changes nothing, where nothing is handed over."""
    workload, cluster, _ = case
    long = Leases(lease_s=1e9, hand_over_s_per_gpu=0.0)
    simulation = simulate(workload, cluster, name, tenure=long)
    assert completions(simulation) == completions(run_scheme(name, workload, cluster))
