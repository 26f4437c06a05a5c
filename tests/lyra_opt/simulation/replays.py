"""Small workloads, replays of them, and the strategies that draw both."""

from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan
from lyra_opt.simulation.scheme import Options, simulate
from lyra_opt.simulation.workload import Job, Workload

SAME_GPU = GpuType(name="V100")
"""As fast as a training GPU."""

EVERY_EVENT = Options(scaling_interval_s=0)


def job_of(name, submit_s, duration_s, workers=1, **fields):
    """Return a job that runs `duration_s` with its base demand of `workers` workers."""
    fields.setdefault("max_workers", workers)
    return Job(
        id=name,
        submit_s=submit_s,
        work_worker_s=duration_s * workers,
        min_workers=workers,
        **fields,
    )


def job_from(name, submit_s, duration_s, workers=1, *rest):
    """Return a job as a table has it, the rest of whose fields come last."""
    (fields,) = rest or ({},)
    return job_of(name, submit_s, duration_s, workers, **fields)


def workload_of(*jobs, name="small"):
    """Return jobs in the order given."""
    return Workload(name=name, jobs=jobs)


def borrowing(gpus, servers, lent_gpus, gpu=SAME_GPU):
    """Return a server of so many GPUs, and servers that may be lent."""
    return Cluster.of_servers(
        1,
        gpus_per_server=gpus,
        inference_servers=servers,
        inference_gpus_per_server=lent_gpus,
        inference_gpu=gpu,
    )


def replay(jobs, cluster, scheme, *, plan=None, options=None, observers=()):
    """Replay jobs in the order given."""
    workload = workload_of(*jobs, name="drawn")
    return simulate(workload, cluster, scheme, plan=plan, options=options, observers=observers)


def completions(simulation):
    """Return when each job completed, in the order of the workload."""
    return [run.completion_s for run in simulation.runs]


def preemptions(simulation):
    """Return how often jobs were preempted."""
    return sum(run.preemptions for run in simulation.runs)


def lending(*on_loan, interval_s=100.0, busy=0.0):
    """Return a plan that lends so many servers in turn."""
    return LoanPlan(interval_s=interval_s, on_loan=on_loan, busy_share=(busy,))
