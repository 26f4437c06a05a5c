"""What becomes of gangs on a network of tiers, and what is counted: the same for every engine.

Simulations with leases, with elastic jobs and in rounds all leave a `NetworkRecord`, so that the
same figures (`lyra_opt.simulation.leases.metrics`) compare them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.network.topology import Topology
    from lyra_opt.simulation.leases.setup import NetworkCluster, NetworkJob, NetworkWorkload

NEVER = -1.0

MOST_SERIES_ROWS = 20_000
"""Rows of a series beyond which it is averaged."""


@dataclass(slots=True, eq=False)
class NetworkRun:
    """What becomes of a job.

    Parameters
    ----------
    job, order
        As submitted, and its place among all jobs, by submission.
    started_s, completion_s
        When it first gets GPUs, and when it completes; NEVER before.
    queued_s
        The sum of all waits: for its first GPUs, and after each lease.
    running_s
        Seconds in which it held GPUs and ran; hand-over and pauses left out.
    computing_gpu_s
        GPU-seconds in which it computed: `running_s` without communication, times its gang.
    held_gpu_s
        GPU-seconds in which it held GPUs, pauses after migrations or restarts included.
    leases
        How often it got GPUs, migrations included.
    lease_losses, preemptions
        How often it lost GPUs before it was complete, and how often it was not running again as
        soon as they were free.
    migrations
        How often it got GPUs on other machines, or other numbers of them, than the last time;
        whether it moved, was restarted or had lost its GPUs.
    leases_by_tier, gpu_s_by_tier
        `leases` and `held_gpu_s` by `Tier`.
    gpus
        What it got last, by machine; None before.
    """

    job: NetworkJob
    order: int
    started_s: float = NEVER
    completion_s: float = NEVER
    queued_s: float = 0.0
    running_s: float = 0.0
    computing_gpu_s: float = 0.0
    held_gpu_s: float = 0.0
    leases: int = 0
    lease_losses: int = 0
    preemptions: int = 0
    migrations: int = 0
    leases_by_tier: list[int] = field(default_factory=lambda: [0] * len(Tier))
    gpu_s_by_tier: list[float] = field(default_factory=lambda: [0.0] * len(Tier))
    gpus: dict[int, int] | None = None

    @property
    def jct_s(self) -> float:
        """From submission to completion."""
        return self.completion_s - self.job.submit_s

    def get(self, tier: Tier, gpus: dict[int, int]) -> None:
        """Account for GPUs, by machine, that it gets at a tier."""
        self.leases += 1
        self.leases_by_tier[tier] += 1
        if self.gpus is not None and self.gpus != gpus:
            self.migrations += 1
        self.gpus = gpus

    def hold(self, tier: Tier, elapsed_s: float, running_s: float, efficiency: float) -> None:
        """Account for GPUs held at a tier, of which it ran for a part of the time."""
        gang = self.job.gang
        self.held_gpu_s += gang * elapsed_s
        self.gpu_s_by_tier[tier] += gang * elapsed_s
        self.running_s += running_s
        self.computing_gpu_s += gang * running_s * efficiency


class Occupancy:
    """Which GPUs of a cluster are free, and how scattered they are.

    Parameters
    ----------
    topology
        The cluster, all of it free.
    """

    def __init__(self, topology: Topology) -> None:
        self.free: np.ndarray = topology.gpus_of_machine.copy()
        """Free GPUs of each machine, int64, shape (machines,)."""
        self.free_gpus = self.gpus = topology.gpus
        """Free GPUs, and all."""
        self.partly_free_machines = 0
        """Machines with both free GPUs and others."""
        self.stranded_gpus = 0
        """Free GPUs of machines that are not wholly free."""
        self._of_machine: list[int] = topology.gpus_of_machine.tolist()
        self._free = list(self._of_machine)

    def holds(self, gpus: Mapping[int, int]) -> bool:
        """Whether so many GPUs, by machine, are free."""
        free = self._free
        for machine, count in gpus.items():
            if not (0 <= machine < len(free) and free[machine] >= count):
                return False
        return True

    def change(self, gpus: Mapping[int, int], sign: int) -> None:
        """Give back GPUs by machine, or take them, which must be free, where `sign` is -1."""
        for machine, count in gpus.items():
            size = self._of_machine[machine]
            before = self._free[machine]
            after = before + sign * count
            assert 0 <= after <= size, "GPUs are taken that are free, and given back once"
            self._free[machine] = self.free[machine] = after
            if 0 < before < size:
                self.partly_free_machines -= 1
                self.stranded_gpus -= before
            if 0 < after < size:
                self.partly_free_machines += 1
                self.stranded_gpus += after
            self.free_gpus += after - before


class Series:
    """Rows over time for plots, averaged where they are many.

    Rows are the time, waiting gangs, running gangs, GPUs held by gangs, GPUs that compute, GPUs
    that are not free but held by no gang, and machines partly free; each holds until the next.

    Where there are too many, all but the last become means over intervals of equal length. To
    leave some out would not do: leases end and begin in turn, and all that is left may be ends.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []

    def add(self, row: tuple[float, ...]) -> None:
        """Take a row in, no earlier than the one before it; O(1) over all rows."""
        self.rows.append(row)
        if len(self.rows) > MOST_SERIES_ROWS:
            self._average()

    def _average(self) -> None:
        table = np.array(self.rows)
        time_s, values = table[:, 0], table[:-1, 1:]
        edges_s = np.linspace(time_s[0], time_s[-1], MOST_SERIES_ROWS // 2 + 1)
        length_s = edges_s[1] - edges_s[0]
        if length_s > 0:
            areas = np.cumsum(values * np.diff(time_s)[:, None], axis=0)
            columns = [
                np.diff(np.interp(edges_s, time_s, np.concatenate(([0.0], column)))) / length_s
                for column in areas.T
            ]
            means = zip(
                edges_s[:-1].tolist(), *(column.tolist() for column in columns), strict=True
            )
            self.rows = [*means, self.rows[-1]]
        else:
            self.rows = self.rows[-1:]


@dataclass(slots=True)
class NetworkTotals:
    """What is counted while a simulation runs.

    Parameters
    ----------
    held_gpu_s
        GPU-seconds that gangs held.
    handed_over_gpu_s
        GPU-seconds in which GPUs were idle between two gangs, and not free.
    free_gpu_s
        GPU-seconds in which GPUs were free, from the first submission to the last completion.
    stranded_gpu_s
        Those of them on machines that were not wholly free.
    partly_free_machine_s
        Machine-seconds in which machines were partly free.
    decisions
        How often the rule was asked; 0 where that is not known, since no job is done without.
    decision_s
        Wall time of each of them.
    series
        The cluster over time.
    """

    held_gpu_s: float = 0.0
    handed_over_gpu_s: float = 0.0
    free_gpu_s: float = 0.0
    stranded_gpu_s: float = 0.0
    partly_free_machine_s: float = 0.0
    decisions: int = 0
    decision_s: list[float] = field(default_factory=list)
    series: Series = field(default_factory=Series)

    def pass_time(self, elapsed_s: float, occupancy: Occupancy, held_gpus: int) -> None:
        """Account for a time in which nothing changed."""
        free = occupancy.free_gpus
        self.held_gpu_s += held_gpus * elapsed_s
        self.handed_over_gpu_s += (occupancy.gpus - free - held_gpus) * elapsed_s
        self.free_gpu_s += free * elapsed_s
        self.stranded_gpu_s += occupancy.stranded_gpus * elapsed_s
        self.partly_free_machine_s += occupancy.partly_free_machines * elapsed_s


_SUMS_OF_RUN = (
    "queued_s",
    "running_s",
    "computing_gpu_s",
    "held_gpu_s",
    "leases",
    "lease_losses",
    "preemptions",
    "migrations",
)
_SUMS_BY_TIER = ("leases_by_tier", "gpu_s_by_tier")
_SUMS_OF_TOTALS = (
    "held_gpu_s",
    "handed_over_gpu_s",
    "free_gpu_s",
    "stranded_gpu_s",
    "partly_free_machine_s",
    "decisions",
)


class Mark:
    """What had been counted at a moment, of a job and of all, so that a while can be repeated.

    Parameters
    ----------
    run, totals
        As they are now.
    """

    def __init__(self, run: NetworkRun, totals: NetworkTotals) -> None:
        self._run = {name: getattr(run, name) for name in _SUMS_OF_RUN}
        self._by_tier = {name: list(getattr(run, name)) for name in _SUMS_BY_TIER}
        self._totals = {name: getattr(totals, name) for name in _SUMS_OF_TOTALS}

    def repeat(self, run: NetworkRun, totals: NetworkTotals, times: int) -> None:
        """Count so many times again what has been counted since."""
        for target, before in ((run, self._run), (totals, self._totals)):
            for name, value in before.items():
                now = getattr(target, name)
                setattr(target, name, now + times * (now - value))
        for name, values in self._by_tier.items():
            now = getattr(run, name)
            for tier, value in enumerate(values):
                now[tier] += times * (now[tier] - value)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRecord:
    """A finished simulation of gangs on a network of tiers.

    Parameters
    ----------
    workload, cluster
        What was simulated.
    runs
        By order of submission, all complete.
    totals
        Over all of them.
    """

    workload: NetworkWorkload
    cluster: NetworkCluster
    runs: list[NetworkRun]
    totals: NetworkTotals
