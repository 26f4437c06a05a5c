"""Any cluster x speed x tenure x policy, drawn from a seed, and a watch that keeps its own books.

A seed alone says what is drawn: `run_drawn(draw(seed))` replays it, such as by

    python -m tests.lyra_opt.simulation.product 4711
"""

import argparse
import math
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.heterogeneous.heuristics.baselines import DEFAULT_THRESHOLDS_GPU_S
from lyra_opt.heterogeneous.heuristics.gavel import LEAST_RESET_S
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan, Server
from lyra_opt.simulation.communication import ClosedForm
from lyra_opt.simulation.job_run import NEVER, JobRun, Part, added
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.policies.composed import ComposedPolicy
from lyra_opt.simulation.policies.composition import BORROW, IGNORE, PARTITION
from lyra_opt.simulation.policy import QueuePolicy
from lyra_opt.simulation.quotas import EQUALLY, divided
from lyra_opt.simulation.scheme import (
    Options,
    OwnScheme,
    PlacementScheme,
    PolluxScheme,
    RoundScheme,
    Scheme,
    find_scheme,
    prepare,
    scheme_names,
)
from lyra_opt.simulation.series import CaptureObserver, SeriesObserver
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.tenure import Epochs, Forever, Leases, Rounds, Tenure
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.view import Observer, View
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation import in_rounds
from tests.lyra_opt.simulation.on_racks import slowdowns_of
from tests.lyra_opt.simulation.replays import workload_of
from tests.lyra_opt.simulation.watches import PreemptsLower, WatchedPlacements, WatchedRounds

TOLERANCE = 1e-6

SLOWED = ("resnet50", "vgg11", "bert", "resnet18")
"""Models that every drawn communication model knows."""


# Rates, anew from what is held, in shares of a whole job a second.


def is_measured(job, cluster):
    """Whether the steps of a job count on a cluster."""
    if job.measured is None:
        return False
    return any(gpu_type.name in job.measured.throughput for gpu_type in cluster.gpu_types)


class Places(NamedTuple):
    """GPUs by host, and what these span."""

    gpus: Mapping[int, int]
    machines: int
    racks: int

    @property
    def tier(self):
        if self.machines == 1:
            return Tier.MACHINE
        return Tier.RACK if self.racks == 1 else Tier.NETWORK


def places_of(cluster, gpus):
    """Return what GPUs by host span."""
    return Places(
        gpus,
        len({cluster.server_of_host[host] for host in gpus}),
        len({cluster.rack_of_host[host] for host in gpus}),
    )


def gpus_of(run):
    """Return what a job holds by host, added up anew."""
    gpus = Counter()
    for part in run.parts:
        for group in part.gpus:
            gpus.update(group)
    return dict(gpus)


def distance_efficiency(speed, job, places, gpus):
    """Return the share of its speed that distance leaves a gang; 1 where distance costs nothing."""
    if speed.communication is None:
        return 1.0
    assert job.model is not None
    units = {Tier.MACHINE: gpus, Tier.RACK: places.machines, Tier.NETWORK: places.racks}
    return speed.communication.efficiency(job.model, gpus, places.tier, units[places.tier])


def share_rate(speed, job, held):
    """Return the share of a job that is done a second by what it holds, one copy of it."""
    cluster = speed.cluster
    gpus = Counter()
    workers = 0
    speeds = []
    for part in held:
        gpus.update(part.by_host())
        workers += part.workers
        gpus_per_worker = part.held / part.workers
        relative = cluster.pools[part.pool].gpu_type.relative_speed
        replicas = gpus_per_worker / job.gpus_per_worker
        assert replicas == int(replicas), "whole workers, or whole replicas of them"
        pace = relative * replicas
        speeds.append((part.workers, max(1.0, pace) if replicas > 1 else pace))
    places = places_of(cluster, gpus)
    scaled = job.min_workers + (workers - job.min_workers) * (1.0 - job.scaling_loss)
    if speed.tuned is not None:
        scaled = speed.tuned.rate(job, workers)
    if is_measured(job, cluster):
        table = job.measured.throughput
        if places.machines > 1 and job.measured.spread_throughput is not None:
            table = job.measured.spread_throughput
        slowest = min(table.get(cluster.pools[part.pool].gpu_type.name, 0.0) for part in held)
        rate = slowest / job.measured.steps * scaled / job.min_workers
    else:
        pace = min(found for _, found in speeds)
        if job.heterogeneous:
            pace = sum(count * found for count, found in speeds) / workers
            if len(speeds) > 1:
                pace *= speed.mixed_efficiency
        rate = scaled * pace / job.work_worker_s
    return rate * distance_efficiency(speed, job, places, sum(gpus.values()))


# What looks on.


class Watch(Observer):
    """Keeps books of its own of a simulation, from what jobs hold and the plan alone.

    Not for rules whose leases are passed over (`Policy.repeats_itself`).

    Parameters
    ----------
    plan
        As the simulation has it.
    quotas
        The meaning of the quotas of tenants.
    """

    def __init__(self, plan=None, quotas=IGNORE):
        self._plan, self._quotas = plan, quotas

    def begins(self, view):
        pools = view.cluster.pools
        self.books = [Counter() for _ in view.runs]
        self.sums = Counter()
        prices = [pool.gpu_type.price_per_hour for pool in pools]
        self._prices = prices if any(price != 1 for price in prices) else [0.0] * len(prices)
        self.tier_gpu_s = np.zeros((len(view.runs), len(Tier)))
        self.held_gpu_s, self.there_gpu_s = np.zeros(len(pools)), np.zeros(len(pools))
        self._before = {}
        self._handed = []
        self._on_loan = self.moments = 0
        self._there = set()
        self.latest_s = view.now_s
        self._counted = list(view.hosts.is_counted)
        self._is_reclaimed = False

    # Each moment.

    def passes(self, view, until_s):
        assert view.now_s == self.latest_s, "no time is left out"
        assert until_s > view.now_s, "time goes on"
        self.moments += 1
        assert self.moments < 100_000, "it comes to an end"
        self.check(view)
        self._add_up(view, until_s)
        self.latest_s = until_s

    def check(self, view):
        """Check what there is after all events of a moment."""
        self._check_loans(view)
        self._check_states(view)
        held = Counter()
        for run in view.runs:
            if run.parts:
                self._check_parts(view, run)
                held.update(gpus_of(run))
        self._check_hosts(view, held)
        self._check_accounts(view, held)
        if view.tenants is not None:
            self._check_quotas(view, view.tenants)
        self._note_losses(view)
        self._check_hand_over(view, held)

    def _tick(self, view):
        plan = self._plan
        if plan is None or not view.cluster.inference_servers:
            return None
        first_s, tick = view.runs[0].job.submit_s, 0
        while first_s + (tick + 1) * plan.interval_s <= view.now_s:
            tick += 1
        return tick

    def _check_loans(self, view):
        """Servers are there as the plan says."""
        tick, plan = self._tick(view), self._plan
        on_loan = 0
        if tick is not None and plan is not None and view.loans.is_active:
            on_loan = plan.on_loan[min(tick, len(plan.on_loan) - 1)]
        pools = view.cluster.pools
        there = {
            host for pool in pools if pool.is_lent for host in pool.hosts if view.hosts.size[host]
        }
        assert len(there) == on_loan == view.loans.on_loan
        self._is_reclaimed = on_loan < self._on_loan
        assert there <= self._there or self._there <= there
        self._there, self._on_loan = there, on_loan

    @staticmethod
    def _check_states(view):
        """Each job is to come, waits, runs or is done."""
        now_s = view.now_s
        count = Counter()
        for run in view.runs:
            states = {
                "to come": run.job.submit_s > now_s,
                "runs": bool(run.parts),
                "done": run.completion_s != NEVER,
                "waits": run.job.submit_s <= now_s and run.waiting_since_s != NEVER,
            }
            assert sum(states.values()) == 1, (run.job.id, states)
            count.update(name for name, holds in states.items() if holds)
            assert run.start_s == NEVER or run.start_s >= run.job.submit_s
            assert run.completion_s <= now_s
            assert (run.order in view.running) == states["runs"]
            if states["waits"]:
                assert run.job.submit_s <= run.waiting_since_s <= now_s
            if not states["runs"]:
                assert run.held_gpus == run.workers == 0
        assert view.jobs_there == count["waits"] + count["runs"]
        assert sum(count.values()) == len(view.runs)
        assert view.is_all_submitted == (not count["to come"])

    def _check_parts(self, view, run):
        """A running job holds its base demand, whole gangs and whole workers, where it may."""
        cluster, job, book = view.cluster, run.job, self.books[run.order]
        copies = sorted({part.copy for part in run.parts})
        assert copies == list(range(len(copies)))
        assert (run.copies is not None) == (len(copies) > 1)
        assert len(copies) == 1 or view.tenure.copy_efficiency is not None
        for copy in copies:
            parts = [part for part in run.parts if part.copy == copy]
            base, least = sum(part.base for part in parts), job.min_workers
            if view.policy.sizes_jobs:
                least = run.best_rates.least_workers
                assert base >= least
            else:
                assert base == least, "a whole gang"
            workers = base + sum(part.flexible for part in parts)
            assert least <= workers <= job.max_workers
            assert copy or run.workers == workers
            gpus = added(part.by_host() for part in parts)
            assert sum(gpus.values()) >= least * job.gpus_per_worker, "its base demand"
            if len(copies) > 1:
                assert places_of(cluster, gpus).machines == 1, "a copy is on a server of its own"
                assert workers == job.min_workers
        assert len({part.pool for part in run.parts}) == len(run.parts) or len(copies) > 1
        for part in run.parts:
            pool = cluster.pools[part.pool]
            replicas = part.held // (part.workers * job.gpus_per_worker)
            assert replicas in (1, pool.gpu_type.replicas if pool.is_lent else 1)
            for gpus, workers in zip(part.gpus, (part.base, part.flexible), strict=True):
                assert sum(gpus.values()) == workers * replicas * job.gpus_per_worker
                for host, count in gpus.items():
                    assert count > 0
                    assert count % job.gpus_per_worker == 0, "no worker is on two servers"
                    assert host in pool.hosts
            assert part.held == sum(part.by_host().values())
            if job.gpu_types:
                assert pool.gpu_type.name in job.gpu_types, "of a type that it asks for"
            if pool.is_lent:
                assert job.fungible or job.heterogeneous, "own GPUs alone"
                assert set(part.by_host()) <= self._there, "on servers that are there"
                book["ran_on_loan"] = 1
        kinds = {cluster.pools[part.pool].is_lent for part in run.parts}
        if len(copies) == 1 and not job.heterogeneous:
            assert len(kinds) == 1, "on both kinds of GPUs at once"
        assert run.held_gpus == sum(part.held for part in run.parts)
        own = {host for host in gpus_of(run) if host not in self._there}
        racks = len({cluster.rack_of_host[host] for host in own})
        book["most_racks"] = max(book["most_racks"], racks)

    def _check_hosts(self, view, held):
        """No host gives more than it has."""
        cluster = view.cluster
        for pool in cluster.pools:
            if self._counted[pool.number]:
                assert not pool.is_lent
                of_pool = sum(held[host] for host in pool.hosts)
                assert of_pool <= sum(cluster.gpus_of_host[host] for host in pool.hosts)
                continue
            for host in pool.hosts:
                there = not pool.is_lent or host in self._there
                assert held[host] <= (cluster.gpus_of_host[host] if there else 0)

    def _check_quotas(self, view, ledger):
        """No tenant holds more own GPUs than its quota, or than its limit if it may borrow."""
        own = Counter[str | None]()
        for run in view.runs:
            gpus = (part.held for part in run.parts if not view.cluster.pools[part.pool].is_lent)
            own[run.job.tenant] += sum(gpus)
        for quota, held in zip(ledger.quotas.quotas, ledger.held, strict=True):
            assert held == own[quota.name]
            most = {PARTITION: quota.gpus, BORROW: quota.most_gpus}.get(self._quotas)
            assert most is None or held <= most

    @staticmethod
    def _check_accounts(view, held):
        """What is free, held and handed over is all that is there."""
        hosts, handed_over = view.hosts, 0
        for host, size in enumerate(hosts.size):
            assert 0 <= hosts.free[host] <= size - held[host]
            handed_over += size - held[host] - hosts.free[host]
        assert handed_over == hosts.handed_over
        assert view.tenure.name != "forever" or not handed_over
        assert sum(held.values()) == hosts.held_gpus
        assert hosts.gpus == hosts.held_gpus + sum(hosts.free_of_pool) + handed_over
        for pool in view.cluster.pools:
            of_pool = slice(pool.hosts.start, pool.hosts.stop)
            assert hosts.gpus_of_pool[pool.number] == sum(hosts.size[of_pool])
            assert hosts.free_of_pool[pool.number] == sum(hosts.free[of_pool])

    def _note_losses(self, view):
        """A job that is stopped loses what its tenure says."""
        for run, book in zip(view.runs, self.books, strict=True):
            if run.losses > book["losses"]:
                book["losses"] = run.losses
                if view.tenure.name == "forever" and not run.job.checkpoints:
                    book["lost"] += book["done"]
                    book["done"] = 0

    def _check_hand_over(self, view, held):
        """GPUs that are handed over are not held; what was held until now begins to be."""
        cluster, tenure, now_s = view.cluster, view.tenure, view.now_s
        self._handed = [entry for entry in self._handed if entry[0] > now_s]
        for run in view.runs:
            allocations, gpus = self._before.get(run.order, (0, {}))
            if gpus and (not run.parts or run.allocations != allocations):
                free_s = now_s
                if isinstance(tenure, Leases):
                    free_s = now_s + tenure.hand_over_s_per_gpu * sum(gpus.values())
                elif isinstance(tenure, Rounds):
                    free_s = math.ceil(now_s / tenure.round_s) * tenure.round_s
                elif isinstance(tenure, Epochs):
                    free_s = math.ceil(now_s / tenure.epoch_s) * tenure.epoch_s
                if free_s > now_s and not self._is_reclaimed and not run.job.is_elastic:
                    self._handed.append((free_s, dict(gpus)))
            if run.parts:
                self._before[run.order] = run.allocations, gpus_of(run)
            else:
                self._before.pop(run.order, None)
        lent_and_gone = {
            host for pool in cluster.pools if pool.is_lent for host in pool.hosts
        } - self._there
        for _, gpus in self._handed:
            for host in lent_and_gone.intersection(gpus):
                del gpus[host]
        if not any(self._counted):
            for host, count in added(gpus for _, gpus in self._handed).items():
                assert held[host] + count <= cluster.gpus_of_host[host], "handed over, and held"

    # Over time.

    def _add_up(self, view, until_s):
        now_s, elapsed_s = view.now_s, until_s - view.now_s
        cluster, sums = view.cluster, self.sums
        busy = {cluster.server_of_host[host] for run in view.runs for host in run.gpus}
        sums["busy_server_s"] += len(busy) * elapsed_s
        for free, size in zip(view.hosts.free, view.hosts.size, strict=True):
            sums["free_gpu_s"] += free * elapsed_s
            if 0 < free < size:
                sums["partly_free_host_s"] += elapsed_s
                sums["stranded_gpu_s"] += free * elapsed_s
        sums["handed_over_gpu_s"] += view.hosts.handed_over * elapsed_s
        for run, book in zip(view.runs, self.books, strict=True):
            if not run.parts:
                if run.completion_s == NEVER and run.job.submit_s <= now_s:
                    book["queued_s"] += elapsed_s
                continue
            book["on_gpus_s"] += elapsed_s
            sums["distance_gpu_s"] += run.held_gpus * (1.0 - run.efficiency) * elapsed_s
            sums["more_copy_s"] += (len({part.copy for part in run.parts}) - 1) * elapsed_s
            for part in run.parts:
                held_gpu_s = sum(part.by_host().values()) * elapsed_s
                self.held_gpu_s[part.pool] += held_gpu_s
                book["held_gpu_s"] += held_gpu_s
                book["cost"] += self._prices[part.pool] * held_gpu_s / 3600
            works_s = max(0.0, until_s - max(now_s, run.pauses_until_s))
            book["paused_s"] += elapsed_s - works_s
            tier = run.tier
            if run.copies is None:
                tier, rate, efficiency = self._rate_of(view, run)
                book["distance_gpu_s"] += run.held_gpus * works_s * (1 - efficiency)
                book["done"] += rate * works_s
            else:
                self._add_copies(view, run, until_s)
            self.tier_gpu_s[run.order, tier] += run.held_gpus * elapsed_s
        tick = self._tick(view)
        if tick is not None and self._plan is not None:
            shares = self._plan.busy_share
            serving = shares[min(tick, len(shares) - 1)] * cluster.inference_gpus
            sums["serving_gpu_s"] += serving * elapsed_s
            sums["on_loan_server_s"] += self._on_loan * elapsed_s
        for pool in cluster.pools:
            there = [host for host in pool.hosts if not pool.is_lent or host in self._there]
            gpus = sum(cluster.gpus_of_host[host] for host in there)
            self.there_gpu_s[pool.number] += gpus * elapsed_s

    def _rate_of(self, view, run):
        places = places_of(view.cluster, gpus_of(run))
        efficiency = distance_efficiency(view.speed, run.job, places, run.held_gpus)
        rate = share_rate(view.speed, run.job, run.parts)
        tuned = view.speed.tuned
        if tuned is not None:
            rate *= tuned.rate_of(run) / tuned.rate(run.job, run.workers)
        assert rate == pytest.approx(run.rate / run.work), f"rate of {run.job.id}"
        assert efficiency == pytest.approx(run.efficiency), f"efficiency of {run.job.id}"
        rates = run.best_rates
        most = rates.of_workers[run.workers - rates.least_workers]
        assert run.rate <= most * (1 + TOLERANCE), f"rate of {run.job.id}"
        assert most <= rates.best
        if view.cluster.topology is not None:
            assert run.tier is places.tier, f"tier of {run.job.id}: {dict(places.gpus)}"
        return places.tier, rate, efficiency

    def _add_copies(self, view, run, until_s):
        """Each copy works after what its start costs it, until they are merged."""
        tenure, copies, book = view.tenure, run.copies, self.books[run.order]
        began_s = copies.began_s
        assert began_s % tenure.round_s == pytest.approx(0.0, abs=1e-9)
        assert copies.trains_s == tenure.round_s - tenure.merge_s
        count = len(copies.rates)
        for copy, (rate, lost_s) in enumerate(zip(copies.rates, copies.lost_s, strict=True)):
            parts = [part for part in run.parts if part.copy == copy]
            share = share_rate(view.speed, run.job, parts) * tenure.efficiency(count)
            assert share == pytest.approx(rate / run.work), f"rate of copy {copy} of {run.job.id}"
            assert lost_s in (0.0, tenure.restart_s)
            from_s = max(view.now_s, began_s + lost_s)
            to_s = min(until_s, began_s + copies.trains_s)
            book["done"] += share * max(0.0, to_s - from_s)
        rates = run.best_rates
        assert sum(copies.rates) <= rates.of_copies[count - 1] * (1 + TOLERANCE)
        assert rates.of_copies[count - 1] <= rates.best
        # The last steps end together, but the merge after them takes its time.
        book["done"] = min(book["done"], 1.0)

    # At the end.

    def ends(self, view):
        self._check_states(view)
        totals, is_placed = view.totals, not any(self._counted)
        for run, book in zip(view.runs, self.books, strict=True):
            names = ["queued_s", "on_gpus_s", "held_gpu_s", "cost"]
            if run.most_copies <= 1:
                names += ["paused_s", "distance_gpu_s"]
            of = f" of job {run.job.id}"
            for name in names:
                self.require_close(name + of, getattr(run, name), book[name])
            self.require_close("done" + of, book["done"], 1.0)
            self.require_close("lost" + of, run.lost_work / run.work, book["lost"])
            if view.cluster.topology is not None:
                self.require_close("tiers" + of, run.gpu_s_by_tier, self.tier_gpu_s[run.order])
                # Between two moments nobody looks.
                assert run.most_racks >= book["most_racks"]
            assert run.ran_on_loan >= book["ran_on_loan"]
            least_s = run.work / run.best_rates.best
            # A copy may run while another one starts.
            run_s = run.on_gpus_s if run.most_copies > 1 else run.running_s
            assert run_s >= least_s * (1 - TOLERANCE), f"least run time of {run.job.id}"
            assert run.completion_s >= run.start_s >= run.job.submit_s
        self.require_close("held by pool", totals.held_gpu_s, self.held_gpu_s)
        self.require_close("there by pool", totals.there_gpu_s, self.there_gpu_s)
        self.sums["waiting_job_s"] = sum(book["queued_s"] for book in self.books)
        self.sums["running_job_s"] = sum(book["on_gpus_s"] for book in self.books)
        names = ["waiting_job_s", "running_job_s", "free_gpu_s", "handed_over_gpu_s"]
        if is_placed:
            names += ["busy_server_s", "partly_free_host_s", "stranded_gpu_s", "distance_gpu_s"]
            names += ["more_copy_s"]
        if not all(view.hosts.is_counted):
            names += ["serving_gpu_s", "on_loan_server_s"]
        for name in names:
            self.require_close(name, getattr(totals, name), self.sums[name])

    @staticmethod
    def require_close(what, found, expected):
        if found != pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE):
            raise AssertionError(f"{what}: {found}, but the watch has {expected}")


# A policy of our own.


class AnyLegal(QueuePolicy):
    """Does what it is allowed to do, at random, for a while; then it starts whoever fits.

    Parameters
    ----------
    draw
        What it does.
    whims
        How many times it does something odd.
    """

    def __init__(self, draw, whims=25):
        super().__init__(OWN)
        self._draw = draw
        self._whims = whims

    def _has_a_whim(self, chance):
        if not self._whims or self._draw.random() >= chance:
            return False
        self._whims -= 1
        return True

    def decide(self, view):
        draw = self._draw
        for run in list(view.running.values()):
            if self._has_a_whim(0.3):
                act = draw.choice((View.stop, self._move, partial(grow, draw), shrink))
                act(view, run)
        waiting = list(self.waiting.values())
        draw.shuffle(waiting)
        for run in waiting:
            if self._has_a_whim(0.3):
                gpus = drawn_gpus(draw, view, run)
                if gpus and draw.random() < 0.8:
                    self.start(view, run, view.reserve(run, gpus))
            elif parts := view.fit(run):
                self.start(view, run, parts)
        if self._has_a_whim(0.3):
            self.wake_s = view.now_s + draw.choice([0.5, 1.0, 7.0, 40.0])
        elif self.waiting and not view.running:
            # It may have left somebody waiting on a whim.
            self.wake_s = view.now_s + 1.0

    def _move(self, view, run, gone=frozenset()):
        if view.tenure.swaps:
            had = gpus_of_base(run)
            is_whole = all(not part.flexible for part in run.parts)
            view.lift(run)
            gpus = drawn_gpus(self._draw, view, run, gone) or had
            view.put(run, view.reserve(run, gpus), restarts=self._draw.random() < 0.8)
            assert is_whole or not run.flexible_workers
        elif gpus := drawn_gpus(self._draw, view, run, gone):
            parts = view.reserve(run, gpus)
            view.lift(run)
            view.put(run, parts)

    def reclaim(self, view, count):
        if not self._whims:
            return super().reclaim(view, count)
        chosen = self._draw.sample(view.hosts.lent(), count)
        gone = frozenset(chosen)
        for run in view.hosted():
            if gone.isdisjoint(gpus_of(run)):
                continue
            if gone.isdisjoint(gpus_of_base(run)):
                shrink(view, run)
            elif self._has_a_whim(0.4):
                self._move(view, run, gone)
            if run.parts and not gone.isdisjoint(gpus_of(run)):
                view.stop(run)
        return chosen


def gpus_of_base(run):
    """Return what a job holds by host for its base demand."""
    return {host: count for part in run.parts for host, count in part.gpus[0].items()}


def shrink(view, run):
    """Take all flexible workers of a job away."""
    view.account(run)
    for part in list(run.parts):
        if part.flexible:
            view.shrink(run, part, part.flexible, dict(part.gpus[1]))


def grow(draw, view, run):
    """Give a job workers beside its base demand, if it can have any."""
    job, part, free = run.job, run.parts[0], view.hosts.free
    of_pool = view.cluster.pools[part.pool].hosts
    hosts = [host for host in of_pool if free[host] >= job.gpus_per_worker]
    most = job.max_workers - run.workers
    if not hosts or not most or not grows_anywhere(view, run):
        return
    host = draw.choice(hosts)
    workers = draw.randint(1, min(most, free[host] // job.gpus_per_worker))
    gpus = {host: workers * job.gpus_per_worker}
    view.account(run)
    view.hosts.take(gpus)
    view.grow(run, part, workers, gpus)


def grows_anywhere(view, run):
    """Whether a running job may have workers on any host of its pool."""
    job = run.job
    if job.measured is None or not is_measured(job, view.cluster):
        return True
    name = view.cluster.pools[run.parts[0].pool].gpu_type.name
    spread = job.measured.spread_throughput
    return spread is None or spread.get(name, 0.0) > 0


def drawn_gpus(draw, view, run, gone=frozenset()):
    """Return free GPUs for the base demand of a job, where it can run; none if there are none.

    Parameters
    ----------
    gone
        Hosts that it must not be on.
    """
    cluster, job, hosts = view.cluster, run.job, view.hosts
    able = [pool for pool in cluster.pools if view.is_able(run, pool.number)]
    if not able:
        return {}
    if job.heterogeneous and draw.random() < 0.5:
        chosen = able
    elif draw.random() < 0.4:
        chosen = [pool for pool in able if not pool.is_lent]
    else:
        chosen = [draw.choice(able)]
    found = {}
    left = job.min_workers
    places = [host for pool in chosen for host in pool.hosts if host not in gone]
    draw.shuffle(places)
    for host in places:
        workers = min(left, hosts.free[host] // job.gpus_per_worker)
        if workers and draw.random() < 0.3:
            workers = draw.randint(1, workers)
        if workers:
            found[host] = workers * job.gpus_per_worker
            left -= workers
    if left:
        return {}
    held = []
    for pool in sorted({cluster.pool_of_host[host] for host in found}):
        gpus = {host: count for host, count in found.items() if cluster.pool_of_host[host] == pool}
        count = sum(gpus.values())
        held.append(Part(pool, gpus, base=count // job.gpus_per_worker, held=count))
    return found if share_rate(view.speed, job, held) > 0 else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFitting(OwnScheme):
    """A scheme whose policy asks for `View.fit`."""

    def obstacle(self, workload, cluster, tenure):
        speed = Speed(cluster)
        if any(not speed.pools_of(job, is_lent=False) for job in workload.jobs):
            return "a job would have to be spread"
        return None


OWN = "any-legal"


def own_scheme(seed):
    """Return a scheme of the policy of our own."""
    return OwnFitting(name=OWN, summary="for tests", make=lambda: AnyLegal(random.Random(seed)))


# Parts that are combined.

CLUSTERS = (
    *("pools", "pools+loans", "pools in racks", "types", "types on a server"),
    *("far", "far+loans", "far types", "types+loans"),
)
TENURES = ("forever", "forever at once", "forever soon", "leases", "rounds", "epochs")

TUNED = ("pollux", "lyra-tuned")
KNOWN = tuple(name for name in scheme_names() if name != "gavel-gandiva")
"""But for one that asks how fast two jobs are on the same GPUs, which is not drawn."""
POLICIES = (*KNOWN, *[OWN] * 5)
"""That of our own five times, so that it is drawn often."""


def preempts(policy, *parts):
    """Whether a scheme stops jobs for waiting gangs, which needs GPUs that are free at once."""
    parts = parts or ("preempter", "serving", "priced_preemption")
    return policy != OWN and any(getattr(find_scheme(policy), part, None) for part in parts)


class Kind(NamedTuple):
    """What is combined."""

    cluster: str
    tenure: str
    policy: str
    elastic: bool
    measured: str
    distance: str
    tuned: bool

    @property
    def policy_kind(self):
        """Whose shape the policy has."""
        return policy_kind(self.policy)


@cache
def policy_kind(name):
    """Return ``composed``, ``rounds``, ``placement``, ``epochs`` or ``own``."""
    if name == OWN:
        return "own"
    scheme = find_scheme(name)
    if isinstance(scheme, RoundScheme):
        return "rounds"
    if isinstance(scheme, PolluxScheme):
        return "epochs"
    return "placement" if isinstance(scheme, PlacementScheme) else "composed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a seed stands for."""

    seed: int
    kind: Kind
    workload: Workload
    cluster: Cluster
    plan: LoanPlan | None
    scheme: Scheme
    options: Options
    tenure: Tenure
    ignores_distance: bool
    observers: tuple[str, ...]


def kind_of(seed):
    """Return what a seed combines: by rotation, so that every pair comes up alike often.

    What is refused in any case is drawn seldom.
    """
    draw = random.Random(f"kind {seed}")
    policy = POLICIES[seed % len(POLICIES)]
    turn = seed // len(POLICIES)
    kind = policy_kind(policy)
    is_careless = draw.random() < 0.04
    clusters = CLUSTERS
    if not is_careless:
        if kind == "epochs":
            clusters = tuple(name for name in CLUSTERS if "pools" in name)
        elif policy in TUNED:
            clusters = tuple(name for name in CLUSTERS if "far" not in name)
        elif policy == "gavel-cost":
            clusters = tuple(name for name in CLUSTERS if "types" in name or "loans" in name)
    cluster = clusters[turn % len(clusters)]
    tenure = TENURES[(turn // len(clusters) + turn % len(clusters)) % len(TENURES)]
    if kind in ("rounds", "epochs") and draw.random() < 0.96:
        tenure = kind
    if preempts(policy) and not is_careless:
        tenure = TENURES[turn // len(clusters) % 3]
    measured = "given"
    if "types" in cluster and (is_careless or policy not in TUNED):
        measured = draw.choice(("given", "measured", "spread"))
    distance = draw.choice(("far", "ignored")) if "far" in cluster else "near"
    return Kind(
        cluster=cluster,
        tenure=tenure,
        policy=policy,
        elastic=draw.random() < 0.6,
        measured=measured,
        distance=distance,
        tuned=policy in TUNED,
    )


def draw(seed):
    """Return what a seed stands for."""
    kind, rng = kind_of(seed), random.Random(seed)
    if kind.policy == OWN:
        scheme = own_scheme(seed)
    else:
        scheme = find_scheme(kind.policy)
        if random.Random(f"times {seed}").random() < 0.5:
            scheme = scheme.with_parameters(short_times_of(kind.policy))
    cluster = _cluster(rng, kind)
    is_careless = rng.random() < 0.03
    tenure = _tenure(rng, kind)
    options = Options(
        seed=rng.randrange(4),
        mixed_efficiency=rng.choice([0.5, 0.7, 1.0]),
        scaling_interval_s=rng.choice([0.0, 10.0, 60.0]),
    )
    jobs = _jobs(rng, kind, cluster, scheme, tenure, is_careless=is_careless)
    drawn = Drawn(
        seed=seed,
        kind=kind,
        workload=workload_of(*jobs, name="drawn"),
        cluster=cluster,
        plan=_plan(rng, cluster, is_careless=is_careless),
        scheme=scheme,
        options=options,
        tenure=tenure,
        ignores_distance=kind.distance == "ignored",
        observers=tuple(name for name in ("captures", "series") if rng.random() < 0.15),
    )
    return _with_tenants(drawn, random.Random(f"tenants {seed}"))


def _with_tenants(drawn, rng):
    """Return half of the runs with quotas, if the scheme keeps any and they hold each job."""
    if not drawn.scheme.knows_tenants or rng.random() < 0.5:
        return drawn
    jobs = [replace(job, tenant=rng.choice("ab")) for job in drawn.workload.jobs]
    workload = workload_of(*jobs, name="drawn")
    try:
        quotas = divided(workload, drawn.cluster.gpus, EQUALLY, limit=rng.choice([None, 1.5]))
    except FieldError:
        return drawn
    may_stop = drawn.tenure.frees_at_once and not preempts(drawn.kind.policy)
    takes_back = rng.choice(["exact", "reclaim:exact"]) if may_stop else None
    scheme = drawn.scheme.with_parameters(
        {"quotas": rng.choice([PARTITION, BORROW, BORROW, IGNORE]), "takes_back": takes_back}
    )
    cluster = replace(drawn.cluster, tenants=quotas)
    return replace(drawn, workload=workload, cluster=cluster, scheme=scheme)


def short_times_of(policy):
    """Return times of a policy's own with which it changes its mind about jobs of a minute."""
    if policy.startswith("gavel-"):
        return {"least_reset_s": LEAST_RESET_S / 500}
    if policy == "tiresias":
        return {"thresholds_gpu_s": tuple(gpu_s / 500 for gpu_s in DEFAULT_THRESHOLDS_GPU_S)}
    return {}


TYPES = (
    GpuType(name="V100"),
    GpuType(name="K80", relative_speed=0.25, price_per_hour=0.4),
    GpuType(name="P100", relative_speed=0.5, price_per_hour=1.5),
    GpuType(name="H100", relative_speed=2.5, price_per_hour=3.0),
)


def _cluster(rng, kind):
    name = kind.cluster
    if "pools" in name:
        cluster = Cluster.of_servers(
            rng.randint(1, 4),
            gpus_per_server=rng.choice([1, 2, 4]),
            servers_per_rack=rng.randint(1, 3) if "racks" in name else None,
        )
    elif "far" in name:
        racks = tuple(
            Rack(machines=rng.randint(1, 3), gpus_per_machine=rng.randint(1, 4))
            for _ in range(rng.randint(1, 3) if "types" not in name else rng.randint(2, 3))
        )
        links = LINK_SETS[rng.choice(["shipped", "congested-1", "congested-2"])]
        form = ClosedForm(links=links, overlap=rng.choice([0.0, 0.5]))
        communication = _slowdowns(rng) if rng.random() < 0.3 else form
        types = TYPES[: rng.randint(2, 4)] if "types" in name else TYPES[:1]
        topology = Topology(name="drawn", racks=racks)
        cluster = Cluster.of_racks(topology, communication, gpu_types=types)
        if "types" in name:
            cluster = replace(cluster, gpu_types=_types_on(cluster.servers))
    else:
        servers = []
        for number in range(rng.randint(2, 4)):
            types_there = rng.sample(TYPES, rng.choice([1, 2, 2, 3])) if "on a" in name else ()
            types_there = types_there or [TYPES[number] if number < 2 else rng.choice(TYPES)]
            gpus = {found.name: rng.choice([1, 2, 2, 4]) for found in types_there}
            servers.append(Server(id=f"s{number}", gpus=gpus))
        types = _types_on(servers)
        cluster = Cluster(name="typed", gpu_types=types, servers=tuple(servers))
    if "loans" in name:
        servers, gpus = rng.randint(1, 8), rng.choice([1, 2, 4])
        speed = rng.choice([1.5, 1.0, 0.5, 0.4, 1 / 3])
        lent = rng.choice([GpuType(name="T4", relative_speed=speed), *TYPES[:2]])
        cluster = cluster.with_lent(servers, gpus_per_server=gpus, gpu_type=lent)
    return cluster


def _types_on(servers):
    there = {name for server in servers for name in server.gpus}
    return tuple(found for found in TYPES if found.name in there)


def _slowdowns(rng):
    slowdowns = [1.0, *sorted(rng.choice([1.0, 1.5, 2.0, 4.0]) for _ in range(2))]
    return slowdowns_of(slowdowns, models=SLOWED, most=79)


def _tenure(rng, kind):
    if kind.tenure == "leases":
        return Leases(
            lease_s=rng.choice([5.0, 20.0, 100.0]), hand_over_s_per_gpu=rng.choice([0.0, 0.5, 1.0])
        )
    if kind.tenure == "rounds":
        return Rounds(
            round_s=rng.choice([10.0, 30.0]),
            restart_s=rng.choice([0.0, 2.0, 5.0]),
            merge_s=rng.choice([0.0, 1.0]),
            copy_efficiency=rng.choice([(1.0,), (1.0, 0.9, 0.5)]),
        )
    if kind.tenure == "epochs":
        return Epochs(epoch_s=rng.choice([10.0, 60.0]), restart_s=rng.choice([0.0, 2.0, 30.0]))
    waits_s = {"forever": 63.0, "forever at once": 0.0, "forever soon": 5.0}
    return Forever(preemption_s=waits_s[kind.tenure])


def _plan(rng, cluster, *, is_careless):
    servers = cluster.inference_servers
    if not servers or (is_careless and rng.random() < 0.5):
        return None
    lent = [rng.choice([0, 0, servers, rng.randint(0, servers)]) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.5:
        # Called back again and again.
        lent += sorted((rng.randint(0, servers) for _ in range(rng.randint(2, 4))), reverse=True)
    if is_careless:
        lent.append(servers + 1)
    return LoanPlan(
        interval_s=float(rng.choice([5, 7, 20, 45])),
        on_loan=tuple(lent),
        # What is lent does not serve.
        busy_share=tuple(
            max(0.0, servers - count) / servers * rng.choice([0.0, 0.3, 1.0]) for count in lent
        ),
    )


def _jobs(rng, kind, cluster, scheme, tenure, *, is_careless):
    """Return jobs that the scheme can run on the cluster, as far as jobs decide that."""
    wide = kind.policy_kind in ("composed", "epochs", "own") and rng.random() < 0.3
    speed = Speed(cluster, ignores_distance=kind.distance == "ignored")
    submitted_s = sorted(float(rng.randint(0, 12) * 5) for _ in range(rng.randint(1, 9)))
    jobs = []
    for submit_s in submitted_s:
        for _ in range(20):
            job = _job(rng, kind, cluster, f"j{len(jobs)}", submit_s, wide=wide)
            if is_careless or _runs(job, scheme, speed, tenure):
                jobs.append(job)
                break
    if not jobs:
        jobs.append(_job(rng, kind, cluster, "only", 0.0, wide=False, gang=1))
    return tuple(jobs)


def _runs(job, scheme, speed, tenure):
    alone = workload_of(job, name="alone")
    try:
        speed.require_runs(alone)
    except UserError:
        return False
    reason = scheme.obstacle(alone, speed.cluster, tenure)
    return reason is None or "job" not in reason


def _job(rng, kind, cluster, name, submit_s, *, wide, gang=None):
    least = gang or rng.choice([1, 1, 2, 3, 4, 6])
    most = least + (rng.choice([0, 0, 1, 4]) if kind.elastic else 0)
    duration_s = rng.choice([rng.randint(1, 60), rng.randint(1, 60), 300])
    estimate = rng.choice([None, None, 0.5, 1.3])
    gpus_per_worker = rng.randint(1, 2) if wide else 1
    work_worker_s = float(duration_s * least)
    measured = None
    if kind.measured != "given" and rng.random() < 0.8:
        measured = _measured(rng, kind, cluster, name, submit_s, least * gpus_per_worker)
        work_worker_s = measured.steps / measured.best_rate * least
    wishes = random.Random(f"{name} {rng.random()}")
    names = [gpu_type.name for gpu_type in cluster.gpu_types]
    asks = wishes.random() < 0.3
    gpu_types = wishes.sample(names, wishes.randint(1, len(names))) if asks else ()
    return Job(
        id=name,
        submit_s=submit_s,
        work_worker_s=work_worker_s,
        min_workers=least,
        max_workers=most,
        gpus_per_worker=gpus_per_worker,
        scaling_loss=rng.choice([0.0, 0.0, 0.2, 1.0]),
        fungible=rng.random() < 0.5,
        heterogeneous=rng.random() < 0.3,
        checkpoints=rng.random() < 0.5,
        estimated_work_worker_s=None if estimate is None else estimate * work_worker_s,
        model=rng.choice(SLOWED) if "far" in kind.cluster else rng.choice([None, *SLOWED]),
        weight=wishes.choice([1.0, 3.0]) if measured is None else measured.weight,
        priority=wishes.choice([0, 0, 1, 2]),
        deadline_s=wishes.choice([None, 30.0, 1000.0]),
        gpu_types=tuple(gpu_types),
        measured=measured,
    )


def _measured(rng, kind, cluster, name, submit_s, gang):
    names = [gpu_type.name for gpu_type in cluster.gpu_types]
    rates = {found: float(rng.choice([0, 1, 1, 2, 4])) for found in names if rng.random() < 0.85}
    if not any(rates.values()):
        rates[rng.choice(names)] = 1.0
    spread = None
    if kind.measured == "spread" and rng.random() < 0.8:
        spread = {found: rate * rng.choice([0.0, 0.5, 1.0, 1.0]) for found, rate in rates.items()}
    steps = float(rng.choice([1, 20, 60, 200]))
    found = in_rounds.gang(name, steps, gang=gang, spread=spread, release_s=submit_s, **rates)
    return replace(found, weight=rng.choice([1.0, 2.0]))


# Runs.


class Outcome(NamedTuple):
    """A simulation that has ended, or why there was none."""

    kernel: Kernel | None
    refusal: str = ""


def run_drawn(drawn):
    """Replay what was drawn under watches, then alone; `AssertionError` names what is wrong.

    The lone run skips rules that say when they would decide as before, keeps the answers of
    composed schemes, and has no observers. Both runs must be the same.
    """
    try:
        kernel = prepared(_watched(drawn), watches(drawn))
    except UserError as error:
        return Outcome(None, str(error))
    kernel.policy.repeats_itself = False
    if isinstance(kernel.policy, ComposedPolicy):
        kernel.policy.keeps_answers = False
    kernel.run()
    require_conserved(kernel)
    require_finite(kernel)
    require_counted(kernel, drawn)
    require_same(kernel, prepared(drawn, ()).run())
    return Outcome(kernel)


def _watched(drawn):
    """Return the same with a rule whose states are looked at."""
    scheme, keeps_servers = drawn.scheme, drawn.plan is None
    watch = {RoundScheme: WatchedRounds, PlacementScheme: WatchedPlacements}.get(type(scheme))
    if watch is None:
        return drawn

    def make():
        return watch(scheme.make(), drawn.workload, keeps_servers=keeps_servers)

    return replace(drawn, scheme=replace(scheme, make=make))


def prepared(drawn, observers):
    """Return what was drawn, ready to run."""
    return prepare(
        drawn.workload,
        drawn.cluster,
        drawn.scheme,
        plan=drawn.plan,
        options=drawn.options,
        tenure=drawn.tenure,
        ignores_distance=drawn.ignores_distance,
        observers=observers,
    )


def watches(drawn):
    """Return who looks on."""
    found = [Watch(drawn.plan, getattr(drawn.scheme, "quotas", IGNORE))]
    if "captures" in drawn.observers:
        kinds = frozenset({"reclaim", "allocation", "heterogeneous", "network", "preemption"})
        found.append(CaptureObserver(lambda kind, instance: None, kinds))
    if "series" in drawn.observers:
        found.append(SeriesObserver())
    if preempts(drawn.kind.policy, "preempter"):
        found.append(PreemptsLower())
    return found


def require_counted(kernel, drawn):
    """Check that allocations, losses and moves of a job add up, and that its work was done."""
    metrics, kind = measure(kernel), drawn.kind
    keeps = kind.policy_kind == "placement" and kind.tenure.startswith("forever")
    assert metrics.finished == metrics.jobs == len(kernel.runs)
    assert metrics.preemptions == sum(run.preemptions for run in kernel.runs)
    assert metrics.queue_mean_s <= metrics.jct_mean_s
    for run in kernel.runs:
        assert run.job.submit_s <= run.start_s < run.completion_s
        if kernel.cluster.topology is not None:
            assert run.allocations == sum(run.allocations_by_tier)
        if keeps and drawn.plan is None:
            assert run.losses == run.preemptions == 0, "nobody gives back what it has for ever"
        if (kind.policy_kind, kind.tenure) == ("placement", "leases"):
            assert run.losses < run.allocations <= 1 + run.losses + run.migrations


def require_finite(kernel):
    """Check that all figures are numbers."""
    metrics = measure(kernel)
    for field in fields(metrics):
        value = getattr(metrics, field.name)
        for number in value.values() if isinstance(value, Mapping) else [value]:
            assert number is None or 0 <= number < math.inf, (field.name, value)
    for name in ("gpu_usage", "overall_usage", "loan_usage", "cru", "computing_usage"):
        value = getattr(metrics, name)
        assert value is None or value <= 1 + TOLERANCE, (name, value)


def require_same(one, other):
    """Check that two simulations are the same, but for rounding and wall time."""

    def require(what, mine, theirs):
        assert theirs == pytest.approx(mine, rel=1e-9, abs=1e-6), what

    for mine, theirs in zip(one.runs, other.runs, strict=True):
        for name in SUMS_OF_RUN:
            require(f"{name} of job {mine.job.id}", getattr(mine, name), getattr(theirs, name))
    for name in {field.name for field in fields(one.totals)} - {"decisions", "decision_s"}:
        require(name, getattr(one.totals, name), getattr(other.totals, name))


SUMS_OF_RUN = {field.name for field in fields(JobRun)} - {
    *("job", "order", "best_rates", "tier", "parts", "copies", "beside", "last_gpus", "kept_gpus"),
    *("version", "updated_s", "began_s", "pauses_until_s", "lease_ends_s", "waiting_since_s"),
    *("resumes_by_s", "rated_s", "left", "rest", "rate", "efficiency"),
}
"""What is added up of a job."""


def failure_of(seed):
    """Run a seed; return what is wrong, empty if nothing is, and its outcome."""
    drawn = draw(seed)
    try:
        return "", run_drawn(drawn)
    except Exception as error:  # whatever it is, the seed must be named
        return f"seed {seed} ({drawn.kind}): {type(error).__name__}: {error}", None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    found = draw(parser.parse_args().seed)
    print(found)
    outcome = run_drawn(found)
    print(outcome.refusal or [run.completion_s for run in outcome.kernel.runs])
