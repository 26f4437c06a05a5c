"""Where the GPUs of a gang are taken from; the same for all rules that choose types alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.heuristics.policy import FreeGpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.heterogeneous.instance import GangJob, GpuServer, Placement


def place_on_type(free: FreeGpus, job: GangJob, gpu_type: str) -> Placement | None:
    """Return free GPUs of one type on which the gang can run, None if there are none.

    On as few servers as possible (`FreeGpus.of_one_type`); on several where it can run on several
    only.
    """
    placement = free.of_one_type(gpu_type, job.gang)
    if placement is None:
        return None
    if not job.rate_of(placement) and len(placement) == 1:
        placement = _on_several(free, job, gpu_type)
    return placement if placement and job.rate_of(placement) else None


def place_on_mixed(free: FreeGpus, job: GangJob) -> Placement | None:
    """Return free GPUs of any types on which the gang can run, None if there are none.

    On one server if one suffices, the first in file order; else on servers with most usable GPUs
    first. Fast types are taken first. O(servers log servers).
    """
    for is_spread in (False, True):
        speeds = {name: job.rate((name,), is_spread=is_spread) for name in free.of_type}
        types = sorted((name for name in speeds if speeds[name]), key=lambda name: -speeds[name])
        usable = {
            server: sum(counts.get(name, 0) for name in types)
            for server, counts in free.by_server.items()
        }
        if is_spread:
            servers: Iterable[str] = sorted(usable, key=lambda server: -usable[server])
        else:
            servers = [server for server in usable if usable[server] >= job.gang][:1]
        placement = _take_in_order(free, job.gang, servers, types)
        if placement is not None and job.rate_of(placement):
            return placement
    return None


def place_on_first_type(free: FreeGpus, job: GangJob, types: Sequence[str]) -> Placement | None:
    """Return GPUs of the first type that will do, None if none will.

    Parameters
    ----------
    free
        What is left.
    job
        Whose gang is placed.
    types
        In the order in which they are tried.
    """
    for gpu_type in types:
        placement = place_on_type(free, job, gpu_type)
        if placement is not None:
            return placement
    return None


class GangPlacer:
    """Places gangs for schedulers that take all GPUs for equal.

    Parameters
    ----------
    servers
        The cluster.
    """

    def __init__(self, servers: Sequence[GpuServer]) -> None:
        self._empty = FreeGpus(servers)
        self._is_mixed: dict[str, bool] = {}

    def place(self, free: FreeGpus, job: GangJob) -> Placement | None:
        """Return where the gang may run on what is free, None if it has to wait.

        On one type, that with most free GPUs first (ties in file order); on mixed types only if
        the whole cluster has no type that would do.
        """
        if self.must_mix(job):
            return place_on_mixed(free, job)
        types = sorted(free.of_type, key=lambda name: -free.of_type[name])
        return place_on_first_type(free, job, types)

    def must_mix(self, job: GangJob) -> bool:
        """Whether no single type of the empty cluster can hold the gang."""
        if job.id not in self._is_mixed:
            types = list(self._empty.of_type)
            self._is_mixed[job.id] = place_on_first_type(self._empty, job, types) is None
        return self._is_mixed[job.id]

    def can_ever_run(self, job: GangJob) -> bool:
        """Whether the empty cluster can hold the gang."""
        return not self.must_mix(job) or place_on_mixed(self._empty, job) is not None


def _on_several(free: FreeGpus, job: GangJob, gpu_type: str) -> Placement | None:
    """Return GPUs of a type on at least two servers: all but one of them on the fullest."""
    counts = {
        server: types[gpu_type]
        for server, types in free.by_server.items()
        if types.get(gpu_type, 0)
    }
    if job.gang < 2 or len(counts) < 2:
        return None
    first = max(counts, key=lambda server: counts[server])
    placement: Placement = {first: {gpu_type: min(counts.pop(first), job.gang - 1)}}
    missing = job.gang - placement[first][gpu_type]
    for server in sorted(counts, key=lambda server: -counts[server]):
        taken = min(counts[server], missing)
        if taken:
            placement[server] = {gpu_type: taken}
            missing -= taken
    return None if missing else placement


def _take_in_order(
    free: FreeGpus, gpus: int, servers: Iterable[str], types: Sequence[str]
) -> Placement | None:
    placement: Placement = {}
    for server in servers:
        for name in types:
            taken = min(gpus, free.by_server[server].get(name, 0))
            if taken:
                placement.setdefault(server, {})[name] = taken
                gpus -= taken
    return None if gpus else placement
