"""Slow and plain versions of the rules of heuristics, on records and in fractions."""

from fractions import Fraction


def greedy(instance, key):
    """Take the free server of least key, computed anew from (server, those taken) each time."""
    taken = []
    for _ in range(instance.reclaim_servers):
        free = [server.id for server in instance.servers if server.on_loan]
        taken.append(min((s for s in free if s not in taken), key=lambda s: key(s, set(taken))))
    return taken


def servers_of(job, *, base_only):
    """Return the servers that host a (base) worker of the job."""
    return {group.server for group in job.workers if group.base or not base_only}


def living_jobs(instance, server, taken):
    """Return the jobs with a base worker on `server` and none on a taken server."""
    return [
        job
        for job in instance.jobs
        if server in servers_of(job, base_only=True) and not servers_of(job, base_only=True) & taken
    ]


def gpus_elsewhere(jobs, server, taken):
    """Return the GPUs of all workers of `jobs` on other servers that are not taken."""
    return sum(
        group.workers * job.gpus_per_worker
        for job in jobs
        for group in job.workers
        if group.server != server and group.server not in taken
    )


def lyra_cost(instance, server, taken):
    """Return Lyra's server preemption cost: the sum of w_j / |S_j| over living jobs."""
    return sum(
        (
            Fraction(job.weight, len(servers_of(job, base_only=True)))
            for job in living_jobs(instance, server, taken)
        ),
        Fraction(0),
    )


def slack_left(job, taken):
    """Return how many more workers the job can lose."""
    lost = sum(group.workers for group in job.workers if group.server in taken)
    return job.total_workers - job.min_workers - lost


def price_of_slack(job, server, taken, unit):
    """Return w_j * (workers lost) / (slack left + 1) in multiples of 1 / unit, rounded down."""
    lost = sum(group.workers for group in job.workers if group.server == server)
    return job.weight * lost * unit // (slack_left(job, taken) + 1)
