"""Least remaining GPU time first, with preemption: a scheme on every kind of cluster.

And what else a package of one's own can add: schemes of known parts, workloads, clusters, layouts
of job traces, and a folder of scenarios.
"""

from lyra_opt.instances.heterogeneous.clusters import NamedCluster
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.traces import TraceJob
from lyra_opt.instances.workloads.named import NamedWorkload
from lyra_opt.instances.workloads.tables import TableLayout
from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.policy import QueuePolicy
from lyra_opt.simulation.scheme import ComposedScheme, OwnScheme
from lyra_opt.simulation.workload import Job, Workload


class LeastRemaining(QueuePolicy):
    """Runs the jobs with least GPU time left, and stops others for them."""

    def decide(self, view):
        """Rank all jobs anew, stop those at the end, and start others where there is room."""
        runs = [*view.running.values(), *self.waiting.values()]
        for run in runs:
            view.account(run)
        ranked = sorted(runs, key=lambda run: (view.left_gpu_s(run), run.order))
        gpus = view.hosts.gpus
        for run in ranked:
            gpus -= run.job.min_gpus
            if gpus < 0 and run.is_running:
                view.stop(run)
        for run in ranked:
            if not run.is_running and (parts := view.fit(run)):
                self.start(view, run, parts)


LEAST_REMAINING = OwnScheme(
    name="least-remaining",
    summary="least remaining GPU time first, with preemption",
    make=LeastRemaining,
)

# Parts by name make a scheme too: this one is Lyra with another order and the proved optimum.
BORROWED = ComposedScheme(
    name="least-remaining-borrowed",
    summary="smallest remaining work first, with loans taken back at least cost",
    queue="smallest-work",
    scaling="policy:srw",
    reclaimer="exact",
)


def our_jobs(cluster, seed):
    """Return two jobs for each GPU, one a minute, of an hour at most."""
    draws = IntegerStream(workload="our-jobs", seed=seed)
    jobs = [
        Job.rigid(
            id=f"j{number}",
            submit_s=60 * number,
            gpus=draws.between(1, 2),
            work_gpu_s=draws.between(60, 3600),
            model="bert",
        )
        for number in range(2 * cluster.gpus)
    ]
    return Workload(name=f"our-jobs-seed{seed}", jobs=tuple(jobs))


OUR_JOBS = NamedWorkload(
    name="our-jobs", summary="two jobs for each GPU, one a minute", make=our_jobs
)

OUR_CLUSTER = NamedCluster(
    name="our-cluster",
    summary="4 GPUs, and 4 that are half as fast",
    make=lambda: Cluster(
        name="our-cluster",
        gpu_types=(GpuType(name="new"), GpuType(name="old", relative_speed=0.5)),
        servers=(Server(id="s1", gpus={"new": 4}), Server(id="s2", gpus={"old": 4})),
    ),
)

# And a table of jobs of our own.
OUR_TABLE = TableLayout(
    "our cluster's table",
    ("our_job", "our_start", "our_length", "our_gpus"),
    lambda row: TraceJob(
        row.required("our_job"),
        row.milliseconds("our_start"),
        row.milliseconds("our_length"),
        row.count("our_gpus"),
    ),
)
