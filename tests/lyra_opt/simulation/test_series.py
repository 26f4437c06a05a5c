"""Series are means over steps, of which none hides anything; progress is told."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.job_run import NEVER, added
from lyra_opt.simulation.series import MOST_STEPS, ProgressObserver, SeriesObserver
from lyra_opt.simulation.view import Observer
from tests.lyra_opt.simulation import on_racks
from tests.lyra_opt.simulation.product import draw, prepared
from tests.lyra_opt.simulation.replays import job_of, replay


def rows_of(series):
    """Return all columns of a series, the time first; shape (columns, moments)."""
    columns = []
    for field in fields(series):
        value = getattr(series, field.name)
        columns += list(value.values()) if isinstance(value, Mapping) else [value]
    return np.array(columns)


class Spans(Observer):
    """Notes what there is, from what jobs hold and servers have, span by span."""

    def __init__(self):
        self.spans = []

    def passes(self, view, until_s):
        """Take note of a time in which nothing changes."""
        hosts, cluster, pools = view.hosts, view.cluster, view.cluster.pools
        running = [run for run in view.runs if run.parts]
        there = [run for run in view.runs if run.job.submit_s <= view.now_s]
        waiting = [run for run in there if not run.parts and run.completion_s == NEVER]
        held = Counter(added(run.gpus for run in running))
        by_pool = [sum(held[host] for host in pool.hosts) for pool in pools]
        placed = [pool.hosts for pool in pools if not hosts.is_counted[pool.number]]
        told_apart = [host for of_pool in placed for host in of_pool]
        values = [
            len(waiting),
            len(running),
            sum(len({part.copy for part in run.parts}) for run in running),
            *by_pool,
            sum(gpus for pool, gpus in zip(pools, by_pool, strict=True) if pool.is_lent),
            sum(run.held_gpus * run.efficiency for run in running),
            sum(hosts.size) - sum(hosts.free) - held.total(),
            sum(0 < hosts.free[host] < hosts.size[host] for host in told_apart),
            len({cluster.server_of_host[host] for host in told_apart if held[host]}),
            len(hosts.lent()),
            view.loans.serving_gpus,
        ]
        self.spans.append((view.now_s, until_s, [float(value) for value in values]))

    def means(self, time_s):
        """Return the means from each moment to the next; shape (columns, moments - 1)."""
        found = []
        for begin_s, end_s in pairwise(time_s):
            total = np.zeros(len(self.spans[0][2]))
            for since_s, until_s, values in self.spans:
                total += max(0.0, min(end_s, until_s) - max(begin_s, since_s)) * np.array(values)
            found.append(total / (end_s - begin_s))
        return np.array(found).T


def require_exact(simulation, spans, observer):
    """Check a series against the spans of the same simulation."""
    time_s, *columns = rows_of(observer.series)
    assert (time_s[0], time_s[-1]) == (simulation.runs[0].job.submit_s, simulation.now_s)
    expected = spans.means(time_s)
    assert np.array(columns)[:, :-1] == pytest.approx(expected, abs=1e-6)
    assert not np.array(columns)[:-1, -1].any(), "nothing is left, but what serves"
    assert columns[-1][-1] == simulation.loans.serving_gpus


@pytest.mark.parametrize(("part", "step_s"), [(0, 3.1), (1, 10.0), (2, 64.0), (3, 1e9)])
def test_means_are_exact(part, step_s):
    """With loans, leases and rounds, and jobs that grow, shrink, move and compute slowly."""
    seen = 0
    for seed in range(part, 160, 4):
        spans, observer = Spans(), SeriesObserver(step_s)
        try:
            kernel = prepared(draw(seed), (spans, observer))
        except UserError:
            continue
        seen += 1
        kernel.policy.repeats_itself = False  # where leases are passed over, means are smoothed
        require_exact(kernel.run(), spans, observer)
    assert seen > 20


def test_long_series_keep_a_size_that_can_be_drawn():
    """Their first and last moments too, and what is under them."""
    jobs = [job_of(f"j{place}", 100.0 * place, 70, 2) for place in range(300)]
    cluster = Cluster.of_servers(1, gpus_per_server=4)
    observer = SeriesObserver(0.5)
    simulation = replay(jobs, cluster, "fifo", observers=(observer,))
    series = observer.series
    end_s = 100.0 * 299 + 70
    assert (series.time_s[0], series.time_s[-1]) == (0, end_s)
    assert MOST_STEPS / 2 <= len(series.time_s) <= MOST_STEPS + 1
    lengths_s = np.diff(series.time_s)
    assert lengths_s[:-1] == pytest.approx(0.5 * 2 ** np.ceil(np.log2(2 * end_s / MOST_STEPS)))
    assert 0 < lengths_s[-1] <= lengths_s[0]
    held = float(np.sum(lengths_s * series.own_gpus_held[:-1]))
    assert held == pytest.approx(simulation.totals.held_gpu_s[0]) == 300 * 140


def test_series_of_leases_that_are_skipped():
    """A gang that is alone runs all the time but for hand-overs, in the series too."""
    observer, jobs = SeriesObserver(), [on_racks.job("x", 5000, gang=2)]
    given = {"lease_s": 10.0, "hand_over_s_per_gpu": 0.5, "observers": (observer,)}
    on_racks.simulate(jobs, policy=on_racks.Repeating(), **given)
    series = observer.series
    lengths_s = np.diff(series.time_s)
    assert len(lengths_s) > 1000
    for column, whole_s in (
        (series.running_jobs, 5000),
        (series.queued_jobs, 499),
        (series.gpus_handed_over, 2 * 499),
        (series.own_gpus_held, 2 * 5000),
    ):
        assert float(np.sum(lengths_s * column[:-1])) == pytest.approx(whole_s)
    # In the middle of all that is passed over.
    assert series.running_jobs[500:-500] == pytest.approx(10 / 11)


def test_progress_is_told():
    """In order, since the first submission, to the end, and not at every event."""
    told = []
    jobs = [job_of(f"j{place}", 1000 + 0.01 * place, 1) for place in range(9000)]
    cluster = Cluster.of_servers(1, gpus_per_server=200)
    simulation = replay(
        jobs, cluster, "fifo", observers=(ProgressObserver(lambda *now: told.append(now)),)
    )
    makespan_s = simulation.now_s - 1000
    assert told == sorted(told)
    assert 0 <= told[0][0] <= 0.02 * makespan_s
    assert 0.98 * makespan_s <= told[-1][0] <= makespan_s
    assert all(0 <= complete <= submitted <= 9000 for _, submitted, complete in told)
    assert [complete for *_, complete in told] == sorted(complete for *_, complete in told)
    assert told[-1][2] > 0.9 * 9000
    assert len(told) < 9000
