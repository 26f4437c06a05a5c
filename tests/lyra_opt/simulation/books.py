"""Books kept beside a simulation, from what jobs hold and what is free alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lyra_opt.simulation.run import NEVER
from lyra_opt.simulation.view import Observer

if TYPE_CHECKING:
    from lyra_opt.simulation.series import Series
    from lyra_opt.simulation.view import View


class Books(Observer):
    """Adds up, moment by moment, what is counted, and looks whether it is consistent.

    Not for rules whose leases are passed over.
    """

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.held_gpu_s: Counter[int] = Counter()
        self.waited_s: Counter[int] = Counter()
        self.on_gpus_s: Counter[int] = Counter()
        self.latest_s = NEVER

    def passes(self, view: View, until_s: float) -> None:
        """Check what there is after all events of a moment, and account for the time after it."""
        assert view.now_s >= self.latest_s
        assert until_s > view.now_s, "time goes on"
        self.latest_s = until_s
        self.check(view)
        self.add_up(view, until_s - view.now_s)

    def check(self, view: View) -> None:
        """No GPU is held twice, none is lost, none is on a server that is not there."""
        hosts, cluster = view.hosts, view.cluster
        held: Counter[int] = Counter()
        running = {}
        for run in view.runs:
            if run.parts:
                running[run.order] = run
                assert run.completion_s == run.waiting_since_s == NEVER
                assert run.held_gpus == sum(run.gpus.values())
                held.update(run.gpus)
            for part in run.parts:
                assert all(cluster.pool_of_host[host] == part.pool for host in part.by_host())
        assert view.running == running
        assert sum(held.values()) == hosts.held_gpus
        handed_over = 0
        for host, size in enumerate(hosts.size):
            assert size >= 0
            assert 0 <= hosts.free[host] <= size - held[host]
            handed_over += size - held[host] - hosts.free[host]
        assert handed_over == hosts.handed_over
        assert hosts.gpus == hosts.held_gpus + sum(hosts.free_of_pool) + handed_over
        if view.tenure.name == "forever":
            assert not handed_over
        for pool in cluster.pools:
            of_pool = slice(pool.hosts.start, pool.hosts.stop)
            assert hosts.gpus_of_pool[pool.number] == sum(hosts.size[of_pool])
            assert hosts.free_of_pool[pool.number] == sum(hosts.free[of_pool])

    def add_up(self, view: View, elapsed_s: float) -> None:
        """Account for a time in which nothing changes."""
        hosts, cluster, sums = view.hosts, view.cluster, self.sums
        busy = set()
        for run in view.runs:
            if run.parts:
                self.on_gpus_s[run.order] += elapsed_s
                sums["running_job_s"] += elapsed_s
                busy.update(cluster.server_of_host[host] for host in run.gpus)
                for part in run.parts:
                    gpu_s = sum(part.by_host().values()) * elapsed_s
                    self.held_gpu_s[part.pool] += gpu_s
                    sums["distance_gpu_s"] += gpu_s * (1.0 - run.efficiency)
                sums["more_copy_s"] += (len({part.copy for part in run.parts}) - 1) * elapsed_s
            elif run.completion_s == NEVER and run.job.submit_s <= view.now_s:
                self.waited_s[run.order] += elapsed_s
                sums["waiting_job_s"] += elapsed_s
        sums["busy_server_s"] += len(busy) * elapsed_s
        for free, size in zip(hosts.free, hosts.size, strict=True):
            sums["free_gpu_s"] += free * elapsed_s
            sums["there_gpu_s"] += size * elapsed_s
            if 0 < free < size:
                sums["partly_free_host_s"] += elapsed_s
                sums["stranded_gpu_s"] += free * elapsed_s

    def require_same(self, view: View) -> None:
        """Check what the simulation has counted."""
        totals, sums = view.totals, self.sums
        assert totals.held_gpu_s == pytest.approx(
            [self.held_gpu_s[pool.number] for pool in view.cluster.pools], abs=1e-6
        )
        held = sum(self.held_gpu_s.values())
        sums["handed_over_gpu_s"] = sums["there_gpu_s"] - sums["free_gpu_s"] - held
        assert sum(totals.there_gpu_s) == pytest.approx(sums["there_gpu_s"])
        names = ["free_gpu_s", "handed_over_gpu_s", "running_job_s", "waiting_job_s"]
        if not any(view.hosts.is_counted):
            names += ["busy_server_s", "partly_free_host_s", "stranded_gpu_s", "distance_gpu_s"]
            names += ["more_copy_s"]
        for name in names:
            assert getattr(totals, name) == pytest.approx(sums[name], abs=1e-6), name
        for run in view.runs:
            assert run.queued_s == pytest.approx(self.waited_s[run.order], abs=1e-6)
            assert run.on_gpus_s == pytest.approx(self.on_gpus_s[run.order], abs=1e-6)


def rows_of(series: Series) -> np.ndarray:
    """Return all columns of a series, the time first; shape (columns, moments)."""
    columns = []
    for field in fields(series):
        value = getattr(series, field.name)
        columns += list(value.values()) if isinstance(value, Mapping) else [value]
    return np.array(columns)
