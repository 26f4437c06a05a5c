"""No job runs faster than its best rate, and somewhere on the cluster it runs as fast."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.communication import ClosedForm, SlowdownTable
from lyra_opt.simulation.goodput.tuning import TunedSpeed
from lyra_opt.simulation.job_run import Part
from lyra_opt.simulation.least_run import BestRates, best_efficiency, best_rates, least_run_s
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.topology import Topology
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation import on_racks
from tests.lyra_opt.simulation.places import placed_efficiency
from tests.lyra_opt.simulation.product import share_rate
from tests.lyra_opt.simulation.replays import job_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import DrawFn


def workload_of(*jobs: Job) -> Workload:
    return Workload(name="small", jobs=jobs)


def least_s(job: Job, cluster: Cluster, *, borrows: bool = False, **settings: Any) -> float:
    """Return the least run time of a job."""
    return float(least_run_s(workload_of(job), Speed(cluster), borrows=borrows, **settings)[0])


# By hand.


def test_an_elastic_job_has_its_most_workers() -> None:
    """With what scaling loses; and no more than its cluster holds."""
    four = Cluster.of_servers(2, gpus_per_server=2)
    assert least_s(job_of("x", 0, 30, max_workers=3), four) == 10
    assert least_s(job_of("x", 0, 30, max_workers=9), four) == 7.5
    assert least_s(job_of("x", 0, 30, max_workers=3, scaling_loss=0.5), four) == 15
    # Workers of two GPUs each, and servers of three.
    three = Cluster.of_servers(2, gpus_per_server=3)
    assert least_s(job_of("x", 0, 30, max_workers=9, gpus_per_worker=2), three) == 15


LENDING = Cluster.of_servers(
    1,
    gpus_per_server=4,
    inference_servers=2,
    inference_gpus_per_server=6,
    inference_gpu=GpuType(name="T4", relative_speed=0.4),
)


def test_a_job_that_may_borrow_is_as_fast_as_its_replicas() -> None:
    """Three GPUs of 0.4 do 1.2; there is room for four such workers, or five of both kinds."""
    rigid = job_of("x", 0, 12, 2, fungible=True)
    assert least_s(rigid, LENDING) == 12
    assert least_s(rigid, LENDING, borrows=True) == pytest.approx(10)
    assert least_s(job_of("x", 0, 12, 2), LENDING, borrows=True) == 12
    elastic = job_of("x", 0, 12, max_workers=9, fungible=True)
    # Twelve GPUs one for one are as fast as four replicas: 9 * 0.4 < 4 * 1.2.
    assert least_s(elastic, LENDING, borrows=True) == pytest.approx(12 / 4.8)
    mixed = job_of("x", 0, 12, max_workers=9, heterogeneous=True)
    best = max(0.7 * (4 * 1.2 + 4), 4.8)
    assert least_s(mixed, LENDING, borrows=True) == pytest.approx(12 / best)


def test_a_job_runs_on_the_types_that_it_asks_for() -> None:
    """However fast the others are."""
    types = (GpuType(name="slow", relative_speed=0.5), GpuType(name="fast", relative_speed=2.0))
    servers = tuple(Server(id=each.name, gpus={each.name: 2}) for each in types)
    cluster = Cluster(name="two", gpu_types=types, servers=servers)
    assert least_s(job_of("x", 0, 10, 2), cluster) == 5
    assert least_s(job_of("x", 0, 10, 2, gpu_types=("slow",)), cluster) == 20
    # Four workers on both kinds keep the pace of the slower one.
    assert least_s(job_of("x", 0, 10, max_workers=4), cluster) == 10 / 4
    assert least_s(job_of("x", 0, 10, max_workers=4, scaling_loss=1.0), cluster) == 5


def test_a_measured_job_is_spread_where_that_is_faster() -> None:
    """Near it has one speed, far another one, by type."""
    types = (GpuType(name="a"), GpuType(name="b"))
    servers = tuple(
        Server(id=f"{name}{place}", gpus={name: 2}) for name in "ab" for place in range(2)
    )
    cluster = Cluster(name="two", gpu_types=types, servers=servers)

    def measured(gang: int, near: float, far: float) -> Job:
        rates = {"a": near, "b": 1.0}
        spread = {"a": far, "b": 1.0}
        return Job.of_gang(
            GangJob(id="x", gang=gang, steps=60, throughput=rates, spread_throughput=spread)
        )

    assert least_s(measured(2, 3.0, 2.0), cluster) == 20
    assert least_s(measured(2, 2.0, 3.0), cluster) == 20
    # No server has four GPUs.
    assert least_s(measured(4, 3.0, 2.0), cluster) == 30
    assert least_s(measured(4, 3.0, 0.0), cluster) == 60


def test_copies_add_up_on_servers_of_their_own() -> None:
    """As many as are worth it."""
    types = (GpuType(name="a"), GpuType(name="b", relative_speed=0.5))
    servers = (
        Server(id="one", gpus={"a": 2}),
        Server(id="two", gpus={"a": 1, "b": 2}),
        Server(id="three", gpus={"a": 1}),
    )
    cluster = Cluster(name="three", gpu_types=types, servers=servers)
    job = job_of("x", 0, 60, 2)
    assert least_s(job, cluster) == 60
    assert least_s(job, cluster, copy_efficiency=(1.0,)) == 40
    assert least_s(job, cluster, copy_efficiency=(1.0, 0.8)) == pytest.approx(50)
    assert least_s(job, cluster, copy_efficiency=(1.0, 0.5)) == 60


def test_the_best_efficiency_is_that_of_the_best_place_on_the_cluster() -> None:
    """On the shipped links the network is wider than the rack, and may be the better place."""
    topology = Topology.uniform(racks=3, machines_per_rack=2, gpus_per_machine=2)
    communication = ClosedForm(links=LINK_SETS["shipped"])
    cluster = Cluster.of_racks(topology, communication)
    for gang in (1, 2, 3, 5):
        job = Job.rigid(id="j", submit_s=0, gpus=gang, work_gpu_s=60 * gang, model="vgg11")
        everywhere = [
            placed_efficiency(communication, "vgg11", gang, machines, topology)
            for size in range(1, 7)
            for machines in combinations(range(6), size)
            if size <= gang <= 2 * size
        ]
        assert best_efficiency(communication, topology, "vgg11", gang) == max(everywhere)
        assert least_s(job, cluster) == pytest.approx(60 / max(everywhere))


def test_run_times_are_at_the_best_efficiency() -> None:
    """A job of two GPUs that computes half of the time takes twice as long."""
    table = SlowdownTable({("m", 2, Tier.MACHINE): 2.0, ("m", 2, Tier.RACK): 3.0})
    topology = Topology.uniform(racks=1, machines_per_rack=2, gpus_per_machine=2)
    slow = Cluster.of_racks(topology, table)
    jobs = workload_of(on_racks.job("x", 10, gang=2), on_racks.job("y", 10))
    assert least_run_s(jobs, Speed(slow), borrows=False).tolist() == [20, 10]
    near = Speed(slow, ignores_distance=True)
    assert least_run_s(jobs, near, borrows=False).tolist() == [10, 10]


def test_a_gang_of_which_nothing_is_known_is_left_out() -> None:
    """A table of slowdowns need not say what elastic jobs are like at their most workers."""
    table = SlowdownTable({("m", 2, Tier.MACHINE): 2.0, ("m", 2, Tier.RACK): 4.0})
    topology = Topology.uniform(racks=1, machines_per_rack=2, gpus_per_machine=2)
    job = job_of("x", 0, 10, max_workers=4, model="m")
    # One GPU has nobody to talk to; two do as much as it.
    assert least_s(job, Cluster.of_racks(topology, table)) == 10


def test_a_tuned_job_is_as_fast_as_tuning_makes_it() -> None:
    """At the number of workers at which that is most."""
    job = job_of("x", 0, 3600, max_workers=4)
    cluster = Cluster.of_servers(1, gpus_per_server=8)
    tuned = TunedSpeed(seed=1, gpus_per_server=8)
    speed = Speed(cluster, tuned=tuned)
    best = best_rates(workload_of(job), speed, borrows=False)
    assert best.tolist() == [max(tuned.rates(job))]


def test_a_job_that_never_runs_is_refused() -> None:
    """As by a simulation."""
    with pytest.raises(UserError, match="job x needs 9 GPUs"):
        least_s(job_of("x", 0, 10, 9), Cluster.of_servers(1))


# By trying all.

KINDS = (
    GpuType(name="one"),
    GpuType(name="fast", relative_speed=2.5),
    GpuType(name="slow", relative_speed=0.4),
)


@st.composite
def clusters(draw: DrawFn) -> Cluster:
    """Return up to three servers of one type or two, and up to two servers that are lent."""
    servers = [
        Server(
            id=f"s{place}",
            gpus=draw(
                st.dictionaries(
                    st.sampled_from(["one", "fast"]), st.integers(1, 2), min_size=1, max_size=2
                )
            ),
        )
        for place in range(draw(st.integers(1, 3)))
    ]
    lent = [
        Server(id=f"lent{place}", gpus={"slow": draw(st.integers(1, 3))}, is_lent=True)
        for place in range(draw(st.integers(0, 2)))
    ]
    return Cluster(name="drawn", gpu_types=KINDS, servers=(*servers, *lent))


@st.composite
def jobs(draw: DrawFn) -> Job:
    """Return a job, elastic or measured or none of both."""
    least = draw(st.integers(1, 2))
    width = draw(st.integers(1, 2))
    measured = None
    if draw(st.booleans()):
        rates = draw(
            st.dictionaries(
                st.sampled_from(["one", "fast", "slow"]),
                st.sampled_from([1.0, 2.0, 3.0]),
                min_size=1,
            )
        )
        share = draw(st.sampled_from([None, 0.0, 0.5, 1.0]))
        spread = None if share is None else {name: share * rate for name, rate in rates.items()}
        measured = GangJob(
            id="x", gang=least * width, steps=10, throughput=rates, spread_throughput=spread
        )
    names = st.lists(st.sampled_from(["one", "fast", "slow"]), unique=True, max_size=2)
    return Job(
        id="x",
        submit_s=0,
        work_worker_s=10,
        min_workers=least,
        max_workers=least + draw(st.integers(0, 3)),
        gpus_per_worker=width,
        scaling_loss=draw(st.sampled_from([0.0, 0.3, 1.0])),
        fungible=draw(st.booleans()),
        heterogeneous=draw(st.booleans()),
        gpu_types=tuple(draw(names)),
        measured=measured,
    )


def holdings(job: Job, speed: Speed, *, borrows: bool) -> Iterator[list[Part]]:
    """Yield all that a job may hold on an empty cluster."""
    cluster = speed.cluster
    is_measured = speed.unit_of(job).is_measured
    for has_replicas in (False, True):
        if has_replicas and is_measured:
            return
        most = []
        for pool in cluster.pools:
            is_able = speed.relative_speed(job, pool.number) > 0 and (borrows or not pool.is_lent)
            most += [gpus // job.gpus_per_worker if is_able else 0 for gpus in pool.gpus]
        for counts in product(*(range(count + 1) for count in most)):
            of_pool: Counter[int] = Counter()
            for host, count in enumerate(counts):
                of_pool[cluster.pool_of_host[host]] += count
            parts = []
            is_whole = True
            for pool, count in of_pool.items():
                found = cluster.pools[pool]
                replicas = found.gpu_type.replicas if has_replicas and found.is_lent else 1
                is_whole &= count % replicas == 0
                if count:
                    gpus = {
                        host: counts[host] * job.gpus_per_worker
                        for host in found.hosts
                        if counts[host]
                    }
                    held = count * job.gpus_per_worker
                    parts.append(Part(pool, gpus, count // replicas, held))
            kinds = {cluster.pools[part.pool].is_lent for part in parts}
            workers = sum(part.base for part in parts)
            if (
                is_whole
                and job.min_workers <= workers <= job.max_workers
                and (len(kinds) == 1 or job.heterogeneous)
            ):
                yield parts


@given(jobs(), clusters(), st.booleans())
def test_the_best_rate_is_that_of_the_best_that_a_job_may_hold(
    job: Job, cluster: Cluster, borrows: bool
) -> None:
    """Too low a rate makes a bound wrong, and too high a one makes it weak."""
    speed = Speed(cluster)
    if speed.obstacle(job) is not None:
        return
    found = BestRates(speed, borrows=borrows).of(job)
    work = speed.unit_of(job).work
    best = [0.0] * (1 + job.max_workers - job.min_workers)
    for parts in holdings(job, speed, borrows=borrows):
        place = sum(part.base for part in parts) - job.min_workers
        best[place] = max(best[place], share_rate(speed, job, parts) * work)
    assert found.of_workers == pytest.approx(best)
    assert found.best == pytest.approx(max(best))
