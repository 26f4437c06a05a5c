"""The event loop of a simulation: one clock and one accounting for every scheme.

The cluster (`lyra_opt.simulation.cluster`), the speed of jobs (`lyra_opt.simulation.speed`), the
tenure (`lyra_opt.simulation.tenure`), the policy (`lyra_opt.simulation.policy`) and the observers
(`lyra_opt.simulation.view.Observer`) are chosen independently.

Events are ordered by time. At one time, GPUs become free and jobs complete or reach the end of
their tenure first, in the order in which these events were scheduled; then loans change; then jobs
are submitted. The policy is called once after all events of one time.
"""

from __future__ import annotations

import math
from heapq import heappop
from typing import TYPE_CHECKING, Any, TypeVar

from lyra_opt.core.errors import UserError, failure_of
from lyra_opt.simulation.decisions import DecisionError
from lyra_opt.simulation.job_run import NUMBERS, added
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.tenure import Forever
from lyra_opt.simulation.view import WORK_TOLERANCE, PolicyError, View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.simulation.cluster import Cluster, LoanPlan
    from lyra_opt.simulation.job_run import JobRun, Totals
    from lyra_opt.simulation.policy import Policy
    from lyra_opt.simulation.tenure import Tenure
    from lyra_opt.simulation.view import Observer
    from lyra_opt.simulation.workload import Workload


Answer = TypeVar("Answer")

MOST_VAIN_WAKE_UPS = 1000
"""Consecutive wake-ups, plus ten for each job, after which a policy that starts no job is an error.
Only wake-ups at which nothing else happens count.
"""


class Kernel(View):
    """One simulation of a workload on a cluster under a policy; `run` carries it out.

    Parameters
    ----------
    workload, cluster
        The jobs that are submitted, and the cluster on which they run.
    policy
        The policy that decides; a policy object serves one run.
    speed
        How fast jobs run; by default as the cluster specifies.
    tenure
        How long jobs keep their GPUs, and what it costs to give them back; by default for ever.
    plan
        The number of servers on loan over time, for clusters with inference servers.
    observers
        Objects that are told of every event.
    seed
        Random seed for policies.

    Raises
    ------
    UserError
        If a job can never run, or the plan is missing or lends more servers than exist.
    """

    policy: Policy

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        policy: Policy,
        *,
        speed: Speed | None = None,
        tenure: Tenure | None = None,
        plan: LoanPlan | None = None,
        observers: Sequence[Observer] = (),
        seed: int = 0,
    ) -> None:
        speed = speed or Speed(cluster, packed=workload.packed)
        speed.require_runs(workload)
        borrows = policy.reclaimer is not None
        super().__init__(
            workload,
            cluster,
            policy,
            speed=speed,
            tenure=tenure or Forever(),
            borrows=borrows and plan is not None,
            observers=observers,
            seed=seed,
        )
        self._ask_s = self._loans_move_s = math.inf
        self._tick = 0
        if not cluster.inference_servers:
            plan = None
        elif plan is None:
            if borrows:
                raise UserError(
                    f"scheme {policy.name} borrows servers, but no loan plan is given; give one"
                )
        elif max(plan.on_loan) > cluster.inference_servers:
            raise UserError(
                f"the loan plan lends {max(plan.on_loan)} servers, but the cluster has only "
                f"{cluster.inference_servers} inference servers"
            )
        self._plan = plan
        if plan is not None:
            self.loans.is_planned, self.loans.is_active, self.loans.is_final = True, borrows, False
            self._loans_move_s = self.now_s

    def run(self) -> Kernel:
        """Replay the workload until its last job completes, and return the simulation.

        Raises
        ------
        PolicyError
            If the policy breaks a rule, or leaves jobs waiting for ever.
        """
        policy, runs, events = self.policy, self.runs, self._events
        hosts, loans, observers = self.hosts, self.loans, self._observers
        decides_at_s = self.tenure.decides_at_s
        asks_at_events = policy.asks_at_events
        for observer in observers:
            observer.begins(self)
        policy.begin(self)
        skips = policy.repeats_itself and math.isfinite(self._length_s) and not loans.is_planned
        quiet = QuietLeases(self, self._skip) if skips else None
        arrived = vain = at_once = 0
        most_vain = MOST_VAIN_WAKE_UPS + 10 * len(runs)
        arrival_s = runs[0].job.submit_s
        while self.jobs_there or not self.is_all_submitted:
            while events and (top := events[0])[2] is not None and top[2].version != top[3]:
                heappop(events)
            now_s = arrival_s
            if events and events[0][0] < now_s:
                now_s = events[0][0]
            if policy.wake_s < now_s:
                now_s = max(policy.wake_s, self.now_s)
            if self._ask_s < now_s:
                now_s = self._ask_s
            if self._loans_move_s < now_s and (now_s < math.inf or not loans.is_final):
                now_s = self._loans_move_s
            if now_s == math.inf:
                raise self.stuck("no GPU is in use, and the policy did not ask to be called again")
            if now_s > self.now_s:
                for observer in observers:
                    observer.passes(self, now_s)
                self._count(self.totals, now_s - self.now_s)
                self.now_s = now_s
                at_once = 0
            is_asked = is_woken = policy.wake_s <= now_s
            if self._ask_s <= now_s:
                is_asked, self._ask_s = True, math.inf
            happens = False
            while events and events[0][0] <= now_s:
                _, number, run, what = heappop(events)
                if run is None:
                    if self._handed_over:
                        self._handed_over.pop(number, None)
                    hosts.give(what)
                    happens = True
                elif run.version == what:
                    happens |= self._end(run)
            if self._loans_move_s <= now_s:
                self._move_servers()
                happens = True
            while arrival_s <= now_s:
                self.jobs_there += 1
                self.await_gpus(runs[arrived])
                arrived += 1
                happens = True
                self.is_all_submitted = arrived == len(runs)
                arrival_s = math.inf if self.is_all_submitted else runs[arrived].job.submit_s
            self.has_news |= happens
            if asks_at_events and (happens or is_asked):
                ask_s = decides_at_s(now_s)
                is_asked = ask_s <= now_s
                if not is_asked:
                    self._ask_s, policy.wake_s = ask_s, math.inf
            if is_asked:
                before = self._sequence
                self._decide()
                at_once += 1
                is_vain = is_woken and not happens and self._sequence == before
                # A round-based policy may keep all running jobs for many rounds without any change.
                vain = vain + 1 if is_vain and (asks_at_events or not self.running) else 0
                if max(vain, at_once) > most_vain:
                    raise self.stuck(f"the policy was called {most_vain} times and started no job")
            if quiet is not None and self.jobs_there == len(events) == 1 and self.is_all_submitted:
                quiet.skip()
        self._count_there()
        for observer in observers:
            observer.ends(self)
        return self

    def _decide(self) -> None:
        policy = self.policy
        policy.wake_s = math.inf
        self._answer(policy.decide, self)
        self.has_news = False
        if not policy.wake_s >= self.now_s:
            raise self.error(
                None, f"wake_s must be at least the current time, not {policy.wake_s:g} s"
            )

    def _answer(self, ask: Callable[..., Answer], *question: Any) -> Answer:
        """Call the policy, check that its decision is complete, and convert failures to errors."""
        try:
            found = ask(*question)
        except (PolicyError, UserError):
            raise
        except DecisionError as error:
            raise self.error(None, str(error)) from error
        except (Exception, SystemExit) as error:
            raise self.error(None, f"fails: {failure_of(error)}") from error
        if self._lifted:
            run = next(iter(self._lifted.values()))
            raise self.error(run, "is taken off its GPUs by `lift`, but `put` does not place it")
        unused = sum(self.hosts.held_of_pool) - self._running_gpus
        if self.slices is not None:
            unused -= self.slices.opened
            if parts := self.slices.held - self.slices.running:
                rule = f"{parts} thousandths of GPUs are reserved, but no job starts on them"
                raise self.error(None, rule)
        if unused:
            raise self.error(None, f"{unused} GPUs are reserved, but no job starts on them")
        return found

    def _end(self, run: JobRun) -> bool:
        """Complete a job, or let it wait again; return whether its GPUs are free at once."""
        before = run.left
        free_s = self._release(run)
        if run.completes:
            self._finish(run)
            return free_s <= self.now_s
        if run.left >= before:
            raise self.error(
                run,
                f"makes no progress in a lease of {self.tenure.length_s:g} s because of rounding, "
                "so it would never complete; use longer leases",
            )
        run.losses += 1
        run.resumes_by_s = free_s
        run.waiting_since_s = self.now_s
        self.await_gpus(run)
        return free_s <= self.now_s

    def _skip(self, run: JobRun, skipped_s: float, before: Totals) -> None:
        """Advance the clock over identical leases of the last job, whose sums are already counted.

        Parameters
        ----------
        before
            The totals before the skipped leases were counted.
        """
        end_s, number, _, version = self._events[0]
        self._events[0] = (end_s + skipped_s, number, run, version)
        until_s = self.now_s + skipped_s
        self._skipped = before, until_s
        for observer in self._observers:
            observer.passes(self, until_s)
        self._skipped = None
        self.now_s = until_s
        for name in ("began_s", "updated_s", "pauses_until_s", "lease_ends_s"):
            setattr(run, name, getattr(run, name) + skipped_s)

    def _move_servers(self) -> None:
        """Lend or reclaim the servers that the plan moves at this time."""
        plan, loans, hosts, tick = self._plan, self.loans, self.hosts, self._tick
        assert plan is not None, "only plans have ticks"
        self._tick += 1
        self._loans_move_s = self.workload.jobs[0].submit_s + self._tick * plan.interval_s
        loans.is_final = tick >= len(plan.on_loan) - 1
        busy_share = plan.busy_share[min(tick, len(plan.busy_share) - 1)]
        loans.serving_gpus = busy_share * self.cluster.inference_gpus
        change = plan.on_loan[min(tick, len(plan.on_loan) - 1)] - loans.on_loan
        if not (loans.is_active and change):
            return
        self._count_there()
        loans.on_loan += change
        if change > 0:
            lent = (host for pool in self.cluster.pools if pool.is_lent for host in pool.hosts)
            hosts.lend([host for host in lent if not hosts.size[host]][:change])
            self.totals.loans += 1
        else:
            self._vacate(-change)
        self.policy.servers_moved(self)

    def _vacate(self, count: int) -> None:
        """Let the policy vacate borrowed servers, check its choice, and withdraw the servers."""
        hosts, totals = self.hosts, self.totals
        held_before = hosts.held_gpus
        held_of = added(run.gpus for run in self._hosted.values())
        totals.hosted_at_reclaims += len(self._hosted)
        self._is_reclaiming = True
        chosen = self._answer(lambda: list(self.policy.reclaim(self, count)))
        self._is_reclaiming = False
        given = len(set(chosen).intersection(hosts.lent()))
        if not len(chosen) == given == count:
            rule = f"must give back {count} borrowed servers, but gives back {given}: {chosen}"
            raise self.error(None, rule)
        for handed in self._handed_over.values():
            for host in handed.keys() & set(chosen):
                hosts.give({host: handed.pop(host)})
        for host in chosen:
            if hosts.free[host] != hosts.size[host]:
                raise self.error(None, f"gives back host {host}, but jobs still run on it")
        totals.reclaims += 1
        totals.returned_servers += count
        totals.vacated_gpus += sum(hosts.size[host] for host in chosen)
        # GPUs of jobs that move between the remaining servers are not collateral damage.
        totals.collateral_gpus += max(
            0, held_before - hosts.held_gpus - sum(held_of.get(host, 0) for host in chosen)
        )
        hosts.withdraw(chosen)


_SUMS_OF_RUN = (
    "queued_s",
    "running_s",
    "paused_s",
    "restarting_s",
    "rated_s",
    "fewer_workers_s",
    "slower_type_s",
    "slower_placement_s",
    "idle_copies_s",
    "held_gpu_s",
    "paused_gpu_s",
    "distance_gpu_s",
    "cost",
    "allocations",
    "losses",
    "preemptions",
    "migrations",
)


class _Mark:
    """A snapshot of the sums of a job and of the simulation at the begin of a lease."""

    def __init__(self, run: JobRun, totals: Totals, now_s: float) -> None:
        self.gpus, self.began_s, self.left = run.gpus, now_s, run.left
        self._sums = [
            (target, name, getattr(target, name))
            for target, names in ((run, _SUMS_OF_RUN), (totals, NUMBERS))
            for name in names
        ]
        lists = (run.allocations_by_tier, run.gpu_s_by_tier, totals.held_gpu_s)
        self._lists: list[tuple[list[Any], list[Any]]] = [(found, list(found)) for found in lists]

    def repeat(self, times: int) -> None:
        """Add the growth since this mark to every sum, `times` more times."""
        for target, name, before in self._sums:
            now = getattr(target, name)
            setattr(target, name, now + times * (now - before))
        for values, earlier in self._lists:
            values[:] = [
                now + times * (now - before) for now, before in zip(values, earlier, strict=True)
            ]


class QuietLeases:
    """Skips leases of the last job when every lease repeats the one before.

    The lease has just begun on the same GPUs as the lease before, and no other event is due. Every
    such lease adds the same amounts, so all but the last leases are counted at once.

    Parameters
    ----------
    view
        The simulation; its policy sets `repeats_itself`.
    passes
        Advances the clock over the skipped leases; takes the job, the seconds and the totals
        before.
    """

    def __init__(self, view: View, passes: Callable[[JobRun, float, Totals], None]) -> None:
        self._view = view
        self._passes = passes
        self._previous: _Mark | None = None

    def skip(self) -> None:
        """Skip as many identical leases of the last job as possible.

        All jobs are submitted, one is left, and the end of its lease is the only event due.
        """
        view = self._view
        if len(view.running) != 1:
            return
        run = next(iter(view.running.values()))
        if run.began_s < view.now_s:
            return
        previous = self._previous
        self._previous = _Mark(run, view.totals, view.now_s)
        if previous is None or previous.gpus != run.gpus:
            return
        done = previous.left - run.left
        # The last two leases are not skipped, and twice `WORK_TOLERANCE` leaves room for rounding.
        # If the policy was called twice at one time, `done` is 0, and no lease can be skipped.
        certain = run.left - 2 * WORK_TOLERANCE * run.work
        times = math.ceil(certain / done) - 2 if done > 0 else 0
        if times < 1:
            return
        before = view.totals.copy()
        previous.repeat(times)
        run.left -= times * done
        self._passes(run, times * (view.now_s - previous.began_s), before)
        self._previous = None
