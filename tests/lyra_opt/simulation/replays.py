"""Small workloads, replays of them, and the strategies that draw both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan
from lyra_opt.simulation.scheme import ComposedScheme, Options, find_scheme, scheme_names, simulate
from lyra_opt.simulation.tenure import Forever
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.kernel import Kernel
    from lyra_opt.simulation.scheme import Scheme
    from lyra_opt.simulation.view import Observer

SAME_GPU = GpuType(name="V100")
"""As fast as a training GPU."""

EVERY_EVENT = Options(scaling_interval_s=0)

COMPOSED_SCHEMES = [
    name for name in scheme_names() if isinstance(find_scheme(name), ComposedScheme)
]


def job_of(name: str, submit_s: float, duration_s: float, workers: int = 1, **fields: Any) -> Job:
    """Return a job that runs `duration_s` with its base demand of `workers` workers."""
    fields.setdefault("max_workers", workers)
    return Job(
        id=name,
        submit_s=submit_s,
        work_worker_s=duration_s * workers,
        min_workers=workers,
        **fields,
    )


def job_from(name: str, submit_s: float, duration_s: float, workers: int = 1, *rest: Any) -> Job:
    """Return a job as a table has it, the rest of whose fields come last."""
    (fields,) = rest or ({},)
    return job_of(name, submit_s, duration_s, workers, **fields)


def borrowing(gpus: int, servers: int, lent_gpus: int, gpu: GpuType = SAME_GPU) -> Cluster:
    """Return a server of so many GPUs, and servers that may be lent."""
    return Cluster.of_servers(
        1,
        gpus_per_server=gpus,
        inference_servers=servers,
        inference_gpus_per_server=lent_gpus,
        inference_gpu=gpu,
    )


def replay(
    jobs: Sequence[Job],
    cluster: Cluster,
    scheme: Scheme | str,
    *,
    plan: LoanPlan | None = None,
    options: Options | None = None,
    observers: Sequence[Observer] = (),
) -> Kernel:
    """Replay jobs in the order given."""
    workload = Workload(name="drawn", jobs=tuple(jobs))
    return simulate(workload, cluster, scheme, plan=plan, options=options, observers=observers)


def completions(simulation: Kernel) -> list[float]:
    """Return when each job completed, in the order of the workload."""
    return [run.completion_s for run in simulation.runs]


def starts(simulation: Kernel) -> list[float]:
    """Return when each job started first, in the order of the workload."""
    return [run.start_s for run in simulation.runs]


def preemptions(simulation: Kernel) -> int:
    """Return how often jobs were preempted."""
    return sum(run.preemptions for run in simulation.runs)


def lending(*on_loan: int, interval_s: float = 100.0, busy: float = 0.0) -> LoanPlan:
    """Return a plan that lends so many servers in turn."""
    return LoanPlan(interval_s=interval_s, on_loan=on_loan, busy_share=(busy,))


class Case(NamedTuple):
    """What a replay needs beside its scheme."""

    jobs: tuple[Job, ...]
    cluster: Cluster
    plan: LoanPlan
    options: Options


@st.composite
def cases(draw: st.DrawFn, most_jobs: int = 9) -> Case:
    """Draw small clusters with loans, and jobs of every type with integer times and many ties."""
    cluster = Cluster.of_servers(
        draw(st.integers(1, 3)),
        gpus_per_server=draw(st.sampled_from([1, 2, 4])),
        inference_servers=draw(st.integers(0, 10)),
        inference_gpus_per_server=draw(st.sampled_from([1, 2, 4])),
        # Of 0.4, no whole number is as fast as a training GPU.
        inference_gpu=GpuType(
            name="T4", relative_speed=draw(st.sampled_from([1.0, 0.5, 0.4, 1 / 3, 2.5]))
        ),
    )
    largest_worker = draw(st.sampled_from([1, 2]))
    drawn = draw(st.lists(_job_fields(largest_worker), min_size=1, max_size=most_jobs))
    drawn.sort(key=lambda fields: fields["submit_s"])
    jobs = [Job(id=f"j{place}", **fields) for place, fields in enumerate(drawn)]
    jobs = [job for job in jobs if cluster.holds(job)]
    if not jobs:
        jobs = [Job(id="only", submit_s=0, work_worker_s=10)]
    return Case(tuple(jobs), cluster, draw(_plans(cluster)), draw(_options()))


@st.composite
def _job_fields(draw: st.DrawFn, largest_worker: int) -> dict[str, Any]:
    least = draw(st.integers(1, 4))
    most = least + draw(st.sampled_from([0, 0, 1, 4]))
    duration_s = draw(st.integers(1, 60))
    estimate = draw(st.sampled_from([None, None, 0.5, 1.3]))
    return {
        "submit_s": float(draw(st.integers(0, 12)) * 5),
        "work_worker_s": float(duration_s * least),
        "min_workers": least,
        "max_workers": most,
        "gpus_per_worker": draw(st.integers(1, largest_worker)),
        "scaling_loss": draw(st.sampled_from([0.0, 0.0, 0.2, 1.0])),
        "fungible": draw(st.booleans()),
        "heterogeneous": draw(st.sampled_from([False, False, True])),
        "checkpoints": draw(st.booleans()),
        "estimated_work_worker_s": None if estimate is None else estimate * duration_s * least,
    }


@st.composite
def _plans(draw: st.DrawFn, cluster: Cluster) -> LoanPlan:
    servers = cluster.inference_servers
    on_loan = draw(st.lists(st.integers(0, servers), min_size=1, max_size=8))
    busy = [draw(st.integers(0, servers - lent)) / servers if servers else 0.0 for lent in on_loan]
    return LoanPlan(
        interval_s=float(draw(st.sampled_from([5, 7, 20, 45]))),
        on_loan=tuple(on_loan),
        busy_share=tuple(busy),
    )


def _options() -> st.SearchStrategy[Options]:
    return st.builds(
        Options,
        seed=st.integers(0, 3),
        scaling_interval_s=st.sampled_from([0.0, 10.0, 60.0]),
        forever=st.builds(Forever, preemption_s=st.sampled_from([0.0, 3.0, 63.0])),
    )
