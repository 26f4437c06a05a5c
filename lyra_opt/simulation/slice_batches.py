"""Place a batch of jobs on an empty cluster: by a placement rule, and as well as possible.

The best placement keeps the most GPUs busy, in thousandths. The problem is a multiple knapsack
problem whose bins are the GPUs, with jobs that need several GPUs of one host.
"""

from collections.abc import Iterator, Sequence

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.hosts import Group, Hosts
from lyra_opt.simulation.slices import SliceFit, Slices, placement_rule
from lyra_opt.simulation.workload import WHOLE_GPU, Job

Host = tuple[int, ...]
"""The free thousandths of the GPUs of a host, in increasing order."""


def placed_by(rule: str, cluster: Cluster, jobs: Sequence[Job]) -> int:
    """Return the thousandths of GPUs that a rule fills with a batch, one job after the other.

    Parameters
    ----------
    rule
        One of `lyra_opt.simulation.slices.PLACEMENTS`.
    cluster
        An empty cluster with one GPU type; only own servers are used.
    jobs
        The jobs in order, with one worker each; a job that does not fit is left out.
    """
    needs = _needs(cluster, jobs)
    hosts = Hosts(cluster)
    slices = Slices(cluster, hosts, jobs)
    fit = SliceFit(hosts, 0, placement_rule(rule, cluster, 0, jobs), slices)
    found = 0
    for job, (gpus, part) in zip(jobs, needs, strict=True):
        if part and fit.has_room_for(part):
            fit.place_slice(part, 1.0)
            found += part
        elif gpus and fit.room(gpus, Group.BASE):
            fit.place(job.min_workers, gpus, Group.BASE)
            found += gpus * WHOLE_GPU
    return found


def most_placed(cluster: Cluster, jobs: Sequence[Job]) -> int:
    """Return the most thousandths of GPUs that any choice and placement of a batch can fill.

    Parameters
    ----------
    cluster, jobs
        See `placed_by`.

    Notes
    -----
    Exact search over the jobs, largest first. Equal states of the cluster are searched once, and a
    search ends when the jobs that are left, or the free GPUs, are used up. O(exponential).
    """
    largest_first = sorted(
        (need for need in _needs(cluster, jobs)), key=lambda need: (-need[0], -need[1])
    )
    left = [0]
    for gpus, part in reversed(largest_first):
        left.append(left[-1] + gpus * WHOLE_GPU + part)
    left.reverse()
    known: dict[tuple[int, tuple[Host, ...]], int] = {}

    def search(number: int, hosts: tuple[Host, ...]) -> int:
        most = min(left[number], sum(map(sum, hosts)))
        if not most:
            return 0
        key = number, hosts
        if (found := known.get(key)) is not None:
            return found
        gpus, part = largest_first[number]
        best = 0
        for after in _placements(hosts, gpus, part):
            best = max(best, gpus * WHOLE_GPU + part + search(number + 1, after))
            if best == most:
                break
        else:
            best = max(best, search(number + 1, hosts))
        known[key] = best
        return best

    return search(0, tuple(sorted((WHOLE_GPU,) * gpus for gpus in cluster.pools[0].gpus)))


def _needs(cluster: Cluster, jobs: Sequence[Job]) -> list[tuple[int, int]]:
    """Return the whole GPUs and the thousandths that each job needs, both 0 if it cannot run."""
    if len(cluster.own_gpus) > 1:
        raise FieldError("cluster", cluster.name, "must have one GPU type")
    found = []
    for job in jobs:
        if job.min_workers > 1:
            raise FieldError("jobs", job.id, "must have one worker each")
        part = cluster.pools[0].gpu_type.thousandths_for(job)
        whole = job.gpus_per_worker if part and not job.is_slice else 0
        found.append((whole, part if job.is_slice else 0))
    return found


def _placements(hosts: tuple[Host, ...], gpus: int, part: int) -> Iterator[tuple[Host, ...]]:
    """Yield the states after placing a job, once each: on GPUs with less free room first."""
    for place, host in enumerate(hosts):
        if place and host == hosts[place - 1]:
            continue
        others = (*hosts[:place], *hosts[place + 1 :])
        if gpus:
            if host.count(WHOLE_GPU) >= gpus:
                after = (*(0,) * gpus, *host[: len(host) - gpus])
                yield tuple(sorted((*others, after)))
            continue
        for gpu, free in enumerate(host):
            if free >= part and not (gpu and host[gpu - 1] == free):
                after = tuple(sorted((*host[:gpu], free - part, *host[gpu + 1 :])))
                yield tuple(sorted((*others, after)))
