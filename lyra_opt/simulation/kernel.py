"""The event loop: one clock, one accounting, whatever the cluster, the speed, the tenure, the rule.

What varies is chosen apart: the cluster (`lyra_opt.simulation.cluster`), how fast jobs run on it
(`lyra_opt.simulation.speed`), for how long they keep their GPUs and what it costs to give them back
(`lyra_opt.simulation.tenure`), who decides (`lyra_opt.simulation.policy`), and who looks on
(`lyra_opt.simulation.observers`).

Events are ordered by time; at one time GPUs that become free and jobs that complete, or whose
tenure ends, come first, in the order in which that was foreseen, then loans, then submissions.
After all events of an instant the policy is asked once.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from lyra_opt.errors import UserError
from lyra_opt.simulation.best_fit import Group
from lyra_opt.simulation.decisions import DecisionError
from lyra_opt.simulation.hosts import Hosts
from lyra_opt.simulation.ledger import Ledger
from lyra_opt.simulation.lending import Lending
from lyra_opt.simulation.policy import Policy
from lyra_opt.simulation.quiet_leases import QuietLeases
from lyra_opt.simulation.run import NEVER
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.tenure import Forever, Tenure
from lyra_opt.simulation.view import PolicyError, View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.simulation.cluster import Cluster, LoanPlan
    from lyra_opt.simulation.observers import Observer
    from lyra_opt.simulation.run import Copies, Part, Run
    from lyra_opt.simulation.totals import Totals
    from lyra_opt.simulation.workload import Workload

WORK_TOLERANCE = 1e-9
"""Part of a lease by which a job may overrun it to complete, and of all its work by which it may
fall short in a round and is complete."""

MOST_VAIN_WAKE_UPS = 1000
"""In a row, and ten for each job, in which a policy that nothing else happens to starts nobody."""


class Kernel(View):
    """One replay of a workload; `run` carries it out.

    Parameters
    ----------
    workload
        What is submitted.
    cluster
        Where it runs.
    policy
        Who decides; an object is for one run.
    speed
        How fast jobs run; by default by all that the cluster says.
    tenure
        For how long jobs keep their GPUs, and what it costs to give them back; by default for
        ever.
    plan
        Loans over time, where servers can be borrowed.
    observers
        Who looks on.
    seed
        Of what policies draw.

    Raises
    ------
    UserError
        If a job can never run, or the plan is missing or lends more servers than there are.
    """

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
        super().__init__(
            policy.name,
            workload,
            cluster,
            speed=speed or Speed(cluster),
            tenure=tenure or Forever(),
            seed=seed,
        )
        self.policy = policy
        self.speed.require_runs(workload)
        self.hosts = Hosts(cluster, policy.counted_pools(self))
        self._ledger = Ledger(self)
        self._lending = Lending(
            self,
            plan,
            borrows=policy.reclaimer is not None,
            begins=self._ledger.close,
            vacates=self._vacate,
        )
        # Time, place in the order of events, and the job whose hold ends with its version, or
        # None with the GPUs that become free.
        self._events: list[tuple[float, int, Run | None, Any]] = []
        self._sequence = 0
        self._left = len(self.runs)
        self._observers = observers
        self._handed_over: dict[int, dict[int, int]] = {}
        self._lifted: dict[int, Run] = {}
        self._running_gpus = 0
        self._length_s = self.tenure.length_s
        self._pauses = type(self.tenure).start_pause_s is not Tenure.start_pause_s
        self._tells_releases = type(policy).gives_back is not Policy.gives_back
        self._is_lent = [pool.is_lent for pool in cluster.pools]
        self._ask_s = math.inf
        self._is_reclaiming = False
        # Those of copies, and those of gangs near and far.
        self._tells_speeds_apart = self._notes_places or self.tenure.has_copies

    # The loop.

    def run(self) -> Kernel:
        """Replay the workload until its last job completes; return the simulation.

        Raises
        ------
        PolicyError
            If the policy breaks a rule, or leaves jobs waiting for ever.
        """
        policy, runs, events, hosts = self.policy, self.runs, self._events, self.hosts
        lending, ledger, observers = self._lending, self._ledger, self._observers
        asks_at_events, decides_at_s = policy.asks_at_events, self.tenure.decides_at_s
        for observer in observers:
            observer.begins(self)
        policy.begin(self)
        skips = (
            policy.repeats_itself
            and math.isfinite(self.tenure.length_s)
            and not self.loans.is_planned
        )
        quiet = QuietLeases(self, self._skip) if skips else None
        arrived = vain = at_once = 0
        most_vain = MOST_VAIN_WAKE_UPS + 10 * len(runs)
        arrival_s = runs[0].job.submit_s
        while self._left:
            while events and (top := events[0])[2] is not None and top[2].version != top[3]:
                heappop(events)
            now_s = arrival_s
            if events and events[0][0] < now_s:
                now_s = events[0][0]
            if policy.wake_s < now_s:
                now_s = max(policy.wake_s, self.now_s)
            if self._ask_s < now_s:
                now_s = self._ask_s
            if lending.next_s < now_s and (now_s < math.inf or not self.loans.is_final):
                now_s = lending.next_s
            if now_s == math.inf:
                raise self.stuck("nothing is held, and it does not ask to be asked again")
            if now_s > self.now_s:
                for observer in observers:
                    observer.passes(self, now_s)
                ledger.count(self.totals, now_s - self.now_s)
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
            if lending.next_s <= now_s:
                if lending.move():
                    policy.servers_moved(self)
                happens = True
            while arrival_s <= now_s:
                self.jobs_there += 1
                policy.waits(self, runs[arrived])
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
                # Who decides in rounds may well let all go on, round after round.
                vain = vain + 1 if is_vain and (asks_at_events or not self.running) else 0
                if max(vain, at_once) > most_vain:
                    raise self.stuck(f"asked again {most_vain} times, it starts nobody")
            if quiet is not None and self._left == len(events) == 1 and self.is_all_submitted:
                quiet.skip()
        ledger.close()
        for observer in observers:
            observer.ends(self)
        return self

    def _decide(self) -> None:
        policy = self.policy
        policy.wake_s = math.inf
        try:
            policy.decide(self)
        except (PolicyError, DecisionError, UserError):
            raise
        except Exception as error:  # somebody's own rule may fail in any way
            raise self.error(None, f"fails: {type(error).__name__}: {error}") from error
        self.has_news = False
        if not policy.wake_s >= self.now_s:
            raise self.error(None, f"asks to be asked again at {policy.wake_s:g} s")
        self._require_nothing_open()

    def _require_nothing_open(self) -> None:
        """Check that no job is between GPUs, and no GPUs are reserved for nothing."""
        if self._lifted:
            run = next(iter(self._lifted.values()))
            raise self.error(run, "is taken off its GPUs to move, and put nowhere")
        if self.hosts.held_gpus != self._running_gpus:
            unused = self.hosts.held_gpus - self._running_gpus
            raise self.error(None, f"{unused} GPUs are reserved, and no job starts on them")

    def observed(self, kind: str, instance: Any) -> None:
        """See `View`."""
        for observer in self._observers:
            observer.decided(kind, instance)

    def captures(self, kind: str) -> bool:
        """See `View`."""
        return any(observer.captures(kind) for observer in self._observers)

    def sums_at(self, time_s: float, names: Sequence[str]) -> list[float]:
        """See `View`."""
        return self._ledger.sums_at(time_s, names)

    # Starting, stopping, moving.

    def start(self, run: Run, parts: list[Part], copies: Copies | None = None) -> None:
        """See `View`."""
        now_s = self.now_s
        if not NEVER < run.waiting_since_s <= now_s:
            raise self.error(run, "is given GPUs twice, or does not wait")
        if run.start_s == NEVER:
            run.start_s = now_s
        elif run.resumes_by_s == math.inf:
            run.restarts += 1
        run.queued_s += now_s - run.waiting_since_s
        run.waiting_since_s = NEVER
        if now_s > run.resumes_by_s:
            run.preemptions += 1
        run.resumes_by_s = math.inf
        pause_s = self.tenure.start_pause_s(run) if self._pauses else 0.0
        self._hold(run, parts, pause_s, copies)

    def stop(self, run: Run) -> None:
        """See `View`."""
        if not run.parts:
            raise self.error(run, "is stopped, but does not run")
        self._release(run, self._free_s(run))
        left = self.tenure.left_when_stopped(run)
        run.lost_work += left - run.left
        run.left = left
        run.losses += 1
        run.preemptions += 1
        run.waiting_since_s = self.now_s
        self.policy.waits(self, run)

    def lift(self, run: Run) -> None:
        """See `View`."""
        if not run.parts:
            raise self.error(run, "is to move, but does not run")
        self._release(run, self._free_s(run), as_event=not self.tenure.swaps)
        self._lifted[run.order] = run

    def put(
        self,
        run: Run,
        parts: list[Part],
        copies: Copies | None = None,
        *,
        restarts: bool = True,
    ) -> None:
        """See `View`."""
        if self._lifted.pop(run.order, None) is None:
            raise self.error(run, "is put elsewhere, but was not taken off its GPUs")
        run.restarts += restarts
        self._hold(run, parts, self.tenure.move_pause_s(run) if restarts else 0.0, copies)

    def work_as_copies(self, run: Run, copies: Copies) -> None:
        """See `View`."""
        run.copies = copies
        run.restarting_s += math.fsum(copies.lost_s)
        self._schedule(run)

    def settle(self, run: Run) -> bool:
        """See `View`."""
        self.account(run)
        if run.left > WORK_TOLERANCE * run.work:
            return False
        self._release(run, self._free_s(run))
        self._finish(run)
        return True

    def _hold(self, run: Run, parts: list[Part], pause_s: float, copies: Copies | None) -> None:
        if not parts:
            raise self.error(run, "is given no GPUs")
        if len(parts) == 1:
            part = parts[0]
            gpus, workers = part.held, part.base + part.flexible
        else:
            gpus = sum(part.held for part in parts)
            workers = sum(part.base + part.flexible for part in parts if part.copy == 0)
        if workers != run.job.min_workers:
            raise self.error(run, f"has {run.job.min_workers} workers, but gets GPUs of {workers}")
        if copies is None and parts[-1].copy:
            raise self.error(run, "has copies, and nothing says how they work together")
        self._running_gpus += gpus
        now_s = self.now_s
        run.parts = parts
        run.kept_gpus = None
        run.workers = workers
        run.held_gpus = gpus
        run.updated_s = run.began_s = now_s
        run.pauses_until_s = now_s + pause_s
        run.lease_ends_s = run.pauses_until_s + self._length_s
        run.allocations += 1
        run.most_copies = max(run.most_copies, parts[-1].copy + 1)
        self.running[run.order] = run
        if copies is None:
            run.restarting_s += pause_s
            self.speed.set_rate(run)
        elif self.speed.placed is not None:
            self.speed.note_copies(run)
        if self._notes_places:
            self._note_place(run)
        if self.loans.is_active:
            self._note_hosted(run)
        if self._tells_speeds_apart:
            self._ledger.holds(run, +1)
        if copies is None:
            self._schedule(run)
        else:
            self.work_as_copies(run, copies)

    def _note_hosted(self, run: Run) -> None:
        is_lent = self._is_lent
        for part in run.parts:
            if is_lent[part.pool]:
                self._hosted[run.order] = run
                run.ran_on_loan = True
                return
        self._hosted.pop(run.order, None)

    def _note_place(self, run: Run) -> None:
        gpus = run.gpus
        self._note_span(run, gpus)
        run.allocations_by_tier[run.tier] += 1
        if run.last_gpus is not None and run.last_gpus != gpus:
            run.migrations += 1
        run.last_gpus = gpus

    def _note_span(self, run: Run, gpus: Mapping[int, int]) -> None:
        if self.speed.placed is None:
            run.tier, _ = self.speed.spans.of(gpus, run.held_gpus)
        if len(gpus) == 1 and run.most_racks:
            return
        racks = self.cluster.rack_of_host
        pools, pool_of = self.cluster.pools, self.hosts.pool_of
        own = {racks[host] for host in gpus if not pools[pool_of[host]].is_lent}
        run.most_racks = max(run.most_racks, len(own))

    def _schedule(self, run: Run) -> None:
        """Say when a job completes or its tenure ends, by its rate now."""
        run.version += 1
        if run.copies is not None:
            after_s = run.copies.completes_after_s(WORK_TOLERANCE * run.work)
            run.completes = after_s is not None
            if after_s is None:
                return
            end_s = run.copies.began_s + after_s
        else:
            if run.rate <= 0:
                raise self.error(run, "cannot run where it is placed")
            begins_s = run.pauses_until_s
            if begins_s < self.now_s:
                begins_s = self.now_s
            left_s = run.left / run.rate
            length_s = self._length_s
            if run.began_s < self.now_s:
                length_s = run.lease_ends_s - begins_s
            run.completes = left_s <= length_s * (1 + WORK_TOLERANCE)
            end_s = begins_s + (left_s if run.completes else length_s)
        self._sequence += 1
        heappush(self._events, (end_s, self._sequence, run, run.version))

    def _skip(self, run: Run, skipped_s: float, before: Totals) -> None:
        """Let time pass in which the one job there is does what has been counted already.

        Parameters
        ----------
        before
            What had been counted before that.
        """
        end_s, number, _, version = self._events[0]
        self._events[0] = (end_s + skipped_s, number, run, version)
        until_s = self.now_s + skipped_s
        self._ledger.skipped = before, until_s
        for observer in self._observers:
            observer.passes(self, until_s)
        self._ledger.skipped = None
        self.now_s = until_s
        for name in ("began_s", "updated_s", "pauses_until_s", "lease_ends_s"):
            setattr(run, name, getattr(run, name) + skipped_s)

    def _free_s(self, run: Run) -> float:
        return self.now_s if self._is_reclaiming else self.tenure.free_s(run, self.now_s)

    def _release(self, run: Run, free_s: float, *, as_event: bool = False) -> bool:
        """Take a job off its GPUs; return whether they are free now."""
        self.account(run)
        if self._tells_releases:
            self.policy.gives_back(self, run)
        hosts = self.hosts
        gpus = run.gpus
        if self._tells_speeds_apart:
            self._ledger.holds(run, -1)
        self._running_gpus -= run.held_gpus
        is_free = free_s <= self.now_s and not as_event
        if is_free:
            hosts.free_up(gpus)
        else:
            hosts.release(gpus)
            self._sequence += 1
            if self.loans.is_active:
                # Servers that are called back are taken out of it.
                self._handed_over[self._sequence] = gpus = dict(gpus)
            heappush(self._events, (free_s, self._sequence, None, gpus))
        run.version += 1
        run.parts = []
        run.kept_gpus = None
        run.workers = run.held_gpus = 0
        run.rate = 0.0
        run.copies = None
        del self.running[run.order]
        self._hosted.pop(run.order, None)
        return is_free

    def _end(self, run: Run) -> bool:
        """End a hold; the job is complete, or waits again. Return whether its GPUs are free now."""
        before = run.left
        free_s = self.tenure.free_s(run, self.now_s)
        is_free = self._release(run, free_s)
        if run.completes:
            self._finish(run)
            return is_free
        if run.left >= before:
            raise self.error(
                run,
                f"does nothing in a lease of {self.tenure.length_s:g} s, as numbers are rounded: "
                "it would never complete",
            )
        run.losses += 1
        run.resumes_by_s = free_s
        run.waiting_since_s = self.now_s
        self.policy.waits(self, run)
        return is_free

    def _finish(self, run: Run) -> None:
        run.rest, run.left = run.left, 0.0
        run.completion_s = self.now_s
        self._left -= 1
        self.jobs_there -= 1
        self.policy.completes(self, run)

    # Resizing.

    def grow(self, run: Run, part: Part, workers: int, gpus: Mapping[int, int]) -> None:
        """See `View`."""
        if not run.parts:
            raise self.error(run, "is to grow, but does not run")
        job, count = run.job, sum(gpus.values())
        if workers < 1 or count < workers * job.gpus_per_worker:
            raise self.error(run, f"is to grow by {workers} workers on {count} GPUs")
        if run.workers + workers > job.max_workers:
            raise self.error(run, f"can use {job.max_workers} workers at most")
        self.account(run)
        if part not in run.parts:
            run.parts.append(part)
        flexible = part.gpus[Group.FLEXIBLE]
        for host, held in gpus.items():
            flexible[host] = flexible.get(host, 0) + held
        self._resize(run, part, workers, count)

    def shrink(self, run: Run, part: Part, workers: int, gpus: Mapping[int, int]) -> None:
        """See `View`."""
        flexible = part.gpus[Group.FLEXIBLE]
        if (
            part not in run.parts
            or not 1 <= workers <= part.flexible
            or not all(1 <= count <= flexible.get(host, 0) for host, count in gpus.items())
        ):
            raise self.error(run, "is to lose flexible workers that it does not have")
        self.account(run)
        for host, count in gpus.items():
            left = flexible[host] - count
            if left:
                flexible[host] = left
            else:
                del flexible[host]
        self.hosts.free_up(gpus)
        self._resize(run, part, -workers, -sum(gpus.values()))

    def _resize(self, run: Run, part: Part, workers: int, gpus: int) -> None:
        if self._notes_places:
            self._ledger.holds(run, -1)
        part.flexible += workers
        part.held += gpus
        if not part.base and not part.flexible:
            run.parts.remove(part)
        if self.loans.is_active:
            self._note_hosted(run)
        run.kept_gpus = None
        run.workers += workers
        run.held_gpus += gpus
        self._running_gpus += gpus
        self.speed.set_rate(run)
        if self._notes_places:
            self._ledger.holds(run, +1)
            self._note_span(run, run.gpus)
        self._schedule(run)

    # Loans.

    def _vacate(self, count: int) -> None:
        """Let the policy vacate borrowed servers, and withdraw them.

        Raises
        ------
        PolicyError
            If it does not.
        """
        hosts, totals = self.hosts, self.totals
        there = set(hosts.lent())
        held_before = hosts.held_gpus
        held_of = {host: hosts.size[host] - hosts.free[host] for host in there}
        for handed in self._handed_over.values():
            for host in handed.keys() & there:
                held_of[host] -= handed[host]
        self._is_reclaiming = True
        try:
            chosen = list(self.policy.reclaim(self, count))
        except (PolicyError, DecisionError, UserError):
            raise
        except Exception as error:  # somebody's own rule may fail in any way
            raise self.error(None, f"fails: {type(error).__name__}: {error}") from error
        self._is_reclaiming = False
        given = len(there.intersection(chosen))
        if not len(chosen) == given == count:
            rule = f"gives back {given} of {count} servers called back: hosts {chosen}"
            raise self.error(None, rule)
        self._require_nothing_open()
        for handed in self._handed_over.values():
            for host in handed.keys() & set(chosen):
                hosts.give({host: handed.pop(host)})
        for host in chosen:
            if hosts.free[host] != hosts.size[host]:
                raise self.error(None, f"does not vacate host {host}, which is called back")
        totals.reclaims += 1
        totals.returned_servers += count
        totals.vacated_gpus += sum(hosts.size[host] for host in chosen)
        # Nothing is vacated elsewhere by those who move within the servers that stay.
        totals.collateral_gpus += max(
            0, held_before - hosts.held_gpus - sum(held_of[host] for host in chosen)
        )
        hosts.withdraw(chosen)
