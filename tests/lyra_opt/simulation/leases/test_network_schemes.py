"""Schemes of all papers on one network of tiers: the same rules, the same books."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lyra_opt.errors import UserError
from lyra_opt.heterogeneous.instance import GangJob, GpuServer, GpuType
from lyra_opt.heterogeneous.policies import ROUND_POLICIES
from lyra_opt.network.policies import PLACEMENT_POLICIES
from lyra_opt.network.topology import Rack, Topology
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.engine import Simulation
from lyra_opt.simulation.leases.elastic_schemes import run_elastic_scheme
from lyra_opt.simulation.leases.metrics import measure_network, require_leases_conserved
from lyra_opt.simulation.leases.network_schemes import (
    ELASTIC,
    LEFT_OUT,
    NETWORK_SCHEMES,
    ROUNDS,
    NetworkOptions,
    find_network_scheme,
)
from lyra_opt.simulation.leases.round_schemes import run_round_policy
from lyra_opt.simulation.leases.setup import LeaseOptions, NetworkCluster, NetworkWorkload
from lyra_opt.simulation.rounds.engine import RoundSimulation
from lyra_opt.simulation.rounds.setup import (
    HeterogeneousCluster,
    HeterogeneousWorkload,
    RoundOptions,
)
from lyra_opt.simulation.scheme import SCHEMES
from lyra_opt.simulation.workload import TrainingJob, Workload
from tests.lyra_opt.simulation.leases.clusters import cluster_of, job
from tests.lyra_opt.simulation.leases.drawn import cases, workloads

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from lyra_opt.simulation.leases.record import NetworkRecord
    from lyra_opt.simulation.leases.setup import NetworkJob

    Case = tuple[NetworkWorkload, NetworkCluster, LeaseOptions]

ROUND_OPTIONS = RoundOptions(round_s=10.0, restart_s=2.0, merge_s=0.0)
ELASTIC_NAMES = [name for name, scheme in NETWORK_SCHEMES.items() if name in SCHEMES]
ROUND_NAMES = [name for name, scheme in NETWORK_SCHEMES.items() if scheme.engine == ROUNDS]


def workload_of(*jobs: NetworkJob) -> NetworkWorkload:
    return NetworkWorkload(name="small", jobs=tuple(jobs))


@st.composite
def flat_cases(draw: DrawFn) -> tuple[NetworkWorkload, NetworkCluster]:
    """Draw gangs on a cluster whose network costs nothing."""
    cluster = cluster_of(
        draw(st.integers(1, 2)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        slowdowns=(1, 1, 1),
    )
    drawn = draw(workloads(cluster, most_jobs=5))
    jobs = tuple(
        job(entry.id, entry.ideal_s, gang=entry.gang, submit_s=entry.submit_s)
        for entry in drawn.jobs
    )
    return NetworkWorkload(name="flat", jobs=jobs), cluster


def completions(record: NetworkRecord) -> list[float]:
    return [run.completion_s for run in record.runs]


class TestRegistry:
    """Which schemes run with a topology, and what is said of the others."""

    def test_every_scheme_is_in_or_out(self) -> None:
        """Nothing is forgotten, and no name stands for two schemes."""
        names = [*PLACEMENT_POLICIES, *SCHEMES, *ROUND_POLICIES]
        assert len(names) == len(set(names))
        assert NETWORK_SCHEMES.keys() | LEFT_OUT.keys() == set(names)
        assert not NETWORK_SCHEMES.keys() & LEFT_OUT.keys()
        assert all(find_network_scheme(name).name == name for name in NETWORK_SCHEMES)

    def test_refusals_give_reasons(self) -> None:
        """The message says why a scheme does not run, or which ones do."""
        with pytest.raises(UserError, match="allox.* runs jobs of one GPU alone"):
            find_network_scheme("allox")
        with pytest.raises(UserError, match="must be one of: .*dally"):
            find_network_scheme("nonsense")

    @pytest.mark.parametrize(
        ("left_out", "like"),
        [(name, why.split()[-1]) for name, why in LEFT_OUT.items() if why.startswith("gangs are")],
    )
    @settings(max_examples=8)
    @given(case=cases(are_uniform=True))
    def test_what_is_left_out_is_alike(self, left_out: str, like: str, case: Case) -> None:
        """Schemes left out for being the same as another one are the same, to the last second."""
        first, second = (run_elastic_scheme(name, *case[:2]) for name in (left_out, like))
        assert completions(first) == completions(second)

    @settings(max_examples=20)
    @given(case=cases(are_uniform=True))
    def test_sjf_is_lyra(self, case: Case) -> None:
        """Of gangs whose durations are known, Lyra takes the shortest first, as sjf does."""
        first, second = (run_elastic_scheme(name, *case[:2]) for name in ("sjf", "lyra"))
        assert completions(first) == completions(second)


@pytest.mark.parametrize("name", NETWORK_SCHEMES)
@settings(max_examples=8)
@given(case=cases(are_uniform=True))
def test_books_balance(name: str, case: Case) -> None:
    """Under every scheme of every engine all work is done, and no GPU-second lost."""
    workload, cluster, leases = case
    options = NetworkOptions(leases=leases, rounds=ROUND_OPTIONS)
    record = NETWORK_SCHEMES[name].run(workload, cluster, options=options)
    require_leases_conserved(record)
    metrics = measure_network(record)
    assert metrics.finished == len(workload.jobs)
    assert 0 < metrics.computing_usage <= metrics.gpu_usage * (1 + 1e-9) <= 1 + 1e-6
    assert metrics.decisions is None or metrics.decisions > 0
    assert (metrics.decisions is None) == (NETWORK_SCHEMES[name].engine == ELASTIC)
    times_s = [row[0] for row in record.totals.series.rows]
    assert times_s == sorted(times_s)
    again = NETWORK_SCHEMES[name].run(workload, cluster, options=options)
    assert measure_network(again) == metrics


class TestElastic:
    """Lyra's schemes."""

    def test_placed_by_hand(self) -> None:
        """Best fit looks at GPUs alone, and the gang runs as its place allows."""
        # x takes a machine's GPU; y fills the rest of it first, and spans a rack; z the other one.
        workload = workload_of(job("x", 10), job("y", 10, gang=2), job("z", 10, gang=3))
        record = run_elastic_scheme("fifo", workload, cluster_of())
        assert completions(record) == [10, 20, 40]
        assert [run.leases_by_tier for run in record.runs] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        metrics = measure_network(record)
        assert metrics.decision_mean_s is metrics.decisions is None
        assert metrics.allocations == 3
        assert metrics.preemptions == metrics.migrations == metrics.lease_losses == 0

    @pytest.mark.parametrize("name", ELASTIC_NAMES)
    @settings(max_examples=15)
    @given(case=flat_cases())
    def test_without_a_network_nothing_changes(
        self, name: str, case: tuple[NetworkWorkload, NetworkCluster]
    ) -> None:
        """With efficiency 1 everywhere, jobs complete as in the engine without a topology."""
        workload, cluster = case
        jobs = tuple(
            TrainingJob(
                id=entry.id,
                submit_s=entry.submit_s,
                work_worker_s=entry.work_gpu_s,
                min_workers=entry.gang,
                max_workers=entry.gang,
            )
            for entry in workload.jobs
        )
        topology = cluster.topology
        plain = Simulation(
            Workload(name="flat", jobs=jobs),
            Cluster(servers=topology.machines, gpus_per_server=topology.gpus // topology.machines),
            SCHEMES[name],
        ).run()
        record = run_elastic_scheme(name, workload, cluster)
        assert completions(record) == [run.completion_s for run in plain.runs]
        assert [run.queued_s for run in record.runs] == [run.queued_s for run in plain.runs]

    def test_unequal_machines_are_refused(self) -> None:
        """The engine knows servers of one size alone, and says so."""
        racks = (Rack(machines=1, gpus_per_machine=2), Rack(machines=1, gpus_per_machine=4))
        cluster = NetworkCluster(topology=Topology(name="odd", racks=racks))
        workload = workload_of(job("x", 1))
        with pytest.raises(UserError, match="job x trains 'm'"):
            run_elastic_scheme("fifo", workload, cluster)
        known = cluster_of().communication
        with pytest.raises(UserError, match="machines of equal size alone, .* odd have 2, 4 GPUs"):
            run_elastic_scheme(
                "fifo", workload, NetworkCluster(topology=cluster.topology, communication=known)
            )


class TestRounds:
    """Policies that decide in rounds."""

    def test_placed_by_hand(self) -> None:
        """A gang runs at the tier that it spans, whatever the policy was told of it."""
        workload = workload_of(job("x", 30, gang=6), job("y", 5, gang=2, submit_s=1))
        record = run_round_policy(
            ROUND_POLICIES["yarn-cs"](), workload, cluster_of(), options=ROUND_OPTIONS
        )
        first, second = record.runs
        assert first.completion_s == 2 + 30 * 4
        assert (first.queued_s, first.running_s, first.held_gpu_s) == (0, 120, 6 * 122)
        assert first.leases_by_tier == [0, 0, 1]
        assert (second.started_s, second.completion_s) == (10, 17)
        # GPUs stay with a round to its end; nothing happens after the last completion.
        assert record.totals.handed_over_gpu_s == 2 * 3
        assert record.totals.decisions == len(record.totals.decision_s) == 13

    def test_moves_and_waits(self) -> None:
        """A gang that goes elsewhere migrates, and one that pauses was preempted."""
        workload = workload_of(*(job(f"j{number}", 60, gang=2 + number % 3) for number in range(6)))
        record = run_round_policy(
            ROUND_POLICIES["gavel-las"](), workload, cluster_of(), options=ROUND_OPTIONS
        )
        require_leases_conserved(record)
        assert sum(run.preemptions for run in record.runs) > 0
        for run in record.runs:
            assert run.preemptions < run.leases <= 1 + run.preemptions + run.migrations
            paused_s = run.held_gpu_s / run.job.gang - run.running_s
            assert paused_s == pytest.approx(2 * run.leases)

    @pytest.mark.parametrize("name", ROUND_NAMES)
    @settings(max_examples=10)
    @given(case=flat_cases())
    def test_without_a_network_nothing_changes(
        self, name: str, case: tuple[NetworkWorkload, NetworkCluster]
    ) -> None:
        """With efficiency 1 everywhere, jobs complete as in the engine without a topology."""
        workload, cluster = case
        topology = cluster.topology
        plain = RoundSimulation(
            HeterogeneousWorkload(
                name="flat",
                jobs=tuple(
                    GangJob(
                        id=entry.id,
                        gang=entry.gang,
                        steps=entry.ideal_s,
                        throughput={"gpu": 1.0},
                        release_s=entry.submit_s,
                    )
                    for entry in workload.jobs
                ),
            ),
            HeterogeneousCluster(
                name="flat",
                gpu_types=(GpuType(name="gpu"),),
                servers=tuple(
                    GpuServer(id=machine, gpus={"gpu": int(gpus)})
                    for machine, gpus in zip(
                        topology.machine_names(), topology.gpus_of_machine, strict=True
                    )
                ),
            ),
            ROUND_POLICIES[name](),
            options=ROUND_OPTIONS,
        ).run()
        record = run_round_policy(ROUND_POLICIES[name](), workload, cluster, options=ROUND_OPTIONS)
        assert completions(record) == pytest.approx([run.completion_s for run in plain.runs])
        assert [run.queued_s for run in record.runs] == pytest.approx(
            [run.queued_s for run in plain.runs], abs=1e-6
        )
        assert [run.preemptions for run in record.runs] == [run.preemptions for run in plain.runs]
