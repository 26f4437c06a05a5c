"""Jobs that ask for types of GPUs run on no others, whatever the scheme."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.scheme import prepare, scheme_names, simulate
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation.replays import job_of, lending
from tests.lyra_opt.simulation.test_scheme import OWN, FirstFits

if TYPE_CHECKING:
    from lyra_opt.simulation.kernel import Kernel
    from lyra_opt.simulation.scheme import Scheme

FAST, SLOW = GpuType(name="fast"), GpuType(name="slow", relative_speed=0.5)
TWO_TYPES = Cluster(
    name="two types",
    gpu_types=(FAST, SLOW),
    servers=(
        Server(id="f0", gpus={"fast": 2}),
        Server(id="s0", gpus={"slow": 2}),
        Server(id="s1", gpus={"slow": 2}),
    ),
)
SCHEMES: tuple[Scheme | str, ...] = (
    *(name for name in scheme_names() if name != "gavel-gandiva"),  # it needs packed rates
    OWN,
)


def replayed(jobs: list[Job], scheme: Scheme | str, cluster: Cluster = TWO_TYPES) -> Kernel:
    """Return the replay of jobs; with a loan plan where there are servers to lend."""
    plan = lending(cluster.inference_servers) if cluster.inference_servers else None
    workload = Workload(name="asked", jobs=tuple(jobs))
    found = prepare(workload, cluster, scheme, plan=plan)
    return found.run()


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_to_ask_for_all_types_is_to_ask_for_none(scheme: Scheme | str) -> None:
    """Bit for bit, with loans, elastic, fungible and heterogeneous jobs."""
    cluster = Cluster.of_servers(
        2, gpus_per_server=2, inference_servers=3, inference_gpus_per_server=3
    )
    if scheme == "gavel-cost":
        cluster = TWO_TYPES
    fields = [
        {},
        {"fungible": True},
        {"heterogeneous": True, "max_workers": 4},
        {"fungible": True, "max_workers": 3},
        {"max_workers": 2},
    ]
    jobs = [
        job_of(f"j{place}", 7 * place, 40 + 31 * place, **fields[place % len(fields)])
        for place in range(10)
    ]
    every = tuple(gpu_type.name for gpu_type in cluster.gpu_types)
    asking = [replace(job, gpu_types=every) for job in jobs]
    one, other = (replayed(submitted, scheme, cluster) for submitted in (jobs, asking))
    for mine, theirs in zip(one.runs, other.runs, strict=True):
        assert mine.completion_s == theirs.completion_s
        assert mine.queued_s == theirs.queued_s
        assert mine.held_gpu_s == theirs.held_gpu_s
    assert one.totals.held_gpu_s == other.totals.held_gpu_s


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (job_of("x", 0, 60, gpu_types=("A100", "H100")), "job x needs 1 GPUs of type A100 or H100"),
        (job_of("x", 0, 60, 3, gpu_types=("fast",)), "job x needs 3 GPUs of type fast, but two ty"),
        (
            replace(
                Job.of_gang(GangJob(id="x", gang=1, steps=1, throughput={"fast": 1.0, "slow": 0})),
                gpu_types=("slow",),
            ),
            "job x has a gang of 1, which no type of GPUs that it asks for of cluster two types",
        ),
    ],
)
def test_a_job_that_can_never_run_is_refused(job: Job, message: str) -> None:
    """In one line, before anything runs."""
    with pytest.raises(UserError, match=message):
        simulate(Workload(name="asked", jobs=(job,)), TWO_TYPES, "gavel-las")


def test_own_policies_may_not_place_it_elsewhere() -> None:
    """`View.is_able` says so, and `View.fit` keeps to it."""
    jobs = [job_of("x", 0, 60, gpu_types=("slow",))]
    kernel = prepare(Workload(name="asked", jobs=tuple(jobs)), TWO_TYPES, OWN)
    assert isinstance(kernel.policy, FirstFits)
    able = [
        pool.gpu_type.name
        for pool in TWO_TYPES.pools
        if kernel.is_able(kernel.runs[0], pool.number)
    ]
    assert able == ["slow"]
