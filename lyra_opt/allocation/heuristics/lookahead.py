"""Policies that simulate several rules to the end of the schedule and keep the best result."""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from lyra_opt.allocation.heuristics.policy_solver import (
    REMAINING_GPU_WORK,
    REMAINING_GPU_WORK_ROOT_BASE,
    REMAINING_TIME,
    REMAINING_WORK,
    REMAINING_WORK_ROOT_GPUS,
    SHORTEST_JOB,
    Fill,
    SchedulePolicySolver,
    scheduled,
)
from lyra_opt.allocation.instance import Instance, Schedule
from lyra_opt.allocation.schedules.evaluator import FluidState
from lyra_opt.allocation.schedules.kernel import (
    ARRIVED,
    FILL_BASES_FIRST,
    FILL_IN_TURN,
    FILL_ONE_BY_ONE,
    FILL_WITH_FORESIGHT,
    MARGINAL,
    NEVER,
    TARGET,
    decide_by_rule,
)
from lyra_opt.core.result import SolveResult, StoppedBy
from lyra_opt.core.stopwatch import OutOfTimeError, grace, within_time

FILLS = (
    Fill(FILL_BASES_FIRST, REMAINING_WORK),  # srw comes first because ties keep the first
    Fill(FILL_ONE_BY_ONE, REMAINING_GPU_WORK),
    Fill(FILL_WITH_FORESIGHT, REMAINING_WORK),
    Fill(FILL_IN_TURN, REMAINING_WORK_ROOT_GPUS),
    Fill(FILL_ONE_BY_ONE, REMAINING_GPU_WORK_ROOT_BASE),
    Fill(FILL_BASES_FIRST, REMAINING_TIME),
    Fill(FILL_WITH_FORESIGHT, REMAINING_WORK_ROOT_GPUS),
)

LEAST_GAIN = 1e-12
"""Sums of completion times that differ by less than this, relatively, count as equal."""


class BestFill(SchedulePolicySolver):
    """Keep the best of seven schedules, each made by one priority fill from start to end.

    Three kinds of fill give jobs their workers in the order of a key; started jobs always keep
    their base demands. A fill with base demands first works as ``srw`` does. A fill *one by one*
    gives each job all the workers that it can use before the next job may start, and skips a job
    that does not fit. A fill *in turn* does the same, but jobs behind one that does not fit wait
    until it has started. A fill *with foresight* is one by one, but a job that fits also waits if
    starting it would delay some future job more than waiting for that job would delay it. The seven
    fills are

    * base demands first by remaining work (``srw``), and by remaining work / w_max;
    * one by one by remaining GPU work, and by remaining GPU work over the root of w_min;
    * in turn by remaining work times the root of the GPUs per worker;
    * with foresight by remaining work, and by remaining work times the root of the GPUs per worker.

    If jobs queue, filling one by one corresponds to shortest remaining time first, since a started
    job can grow later but cannot be stopped. The policy simulates the future, so it knows later
    releases, as the problem does.

    Source: this project; keys and fills were chosen on the families ``load`` and ``light``.
    Complexity: seven times that of ``srw``; foresight adds one step for each future job that is
    released while a starting job would run. Guarantee: never worse than ``srw``.
    """

    name = "best-fill"

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Schedule]:  # noqa: ARG002
        """Return the best schedule that was computed in time; ties keep the first."""
        start = FluidState(instance)
        best = start.copy(logs=True)
        FILLS[0].run(best, decides=False)
        stopped_by = None
        try:
            for fill in within_time(FILLS[1:]):
                trial = start.copy(logs=True)
                fill.run(trial, decides=False)
                if trial.total_jct_s < best.total_jct_s * (1 - LEAST_GAIN):
                    best = trial
        except OutOfTimeError:
            stopped_by = StoppedBy.TIME
        return scheduled(instance, best.schedule(), stopped_by)


ALL_ORDERS_UP_TO_JOBS = 5
"""For at most this many active jobs every order is tried (120 orders for 5 jobs)."""

SAMPLED_ORDERS = 30
"""Number of random orders that are tried for more active jobs."""

BASE_POLICIES = (
    Fill(FILL_BASES_FIRST, SHORTEST_JOB),
    Fill(FILL_BASES_FIRST, REMAINING_WORK),
    Fill(FILL_ONE_BY_ONE, REMAINING_GPU_WORK),
    Fill(FILL_IN_TURN, REMAINING_WORK_ROOT_GPUS),
    Fill(FILL_WITH_FORESIGHT, REMAINING_WORK),
    Fill(MARGINAL, SHORTEST_JOB),
)
"""Policies that complete a schedule: ``sjf``, ``srw``, three of ``best-fill``, Lyra's greedy."""

FINISHING = BASE_POLICIES[1]
"""The policy that completes the schedule when time runs out: ``srw``."""


class Rollout(SchedulePolicySolver):
    """At each decision, simulate the candidate decisions to the end and take the best one.

    The candidates are the decisions of the base policies and of three fills for every order of the
    active jobs: base demands first, one by one, and in turn (see `BestFill`). Further candidates
    keep the last jobs of an order from starting, since waiting can pay. Each distinct allocation is
    tried once. With more than 5 active jobs, 30 random orders are tried. Each base policy completes
    each candidate: ``sjf``, ``srw``, one by one by remaining GPU work, in turn by remaining work
    times the root of the GPUs per worker, with foresight by remaining work, and Lyra's two phases
    with the marginal greedy per GPU. The least sum of completion times wins; ties keep the first.
    The policy simulates the future, so it knows later releases, as the problem does.

    Source: this project, where it found optima in 92 to 100 of 100 small instances without queues;
    one-step rollout is Bertsekas, Tsitsiklis and Wu (1997). Complexity O(A min(A!, 30)) schedules
    of the base policies per decision. Guarantee: never worse than the best base policy, whose
    decisions are among the candidates.
    """

    name = "rollout"

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Schedule]:
        """Return the schedule of the best decisions; ``srw`` completes it when time runs out."""
        state = FluidState(instance, compiled=True)
        stopped_by, decides = None, False
        try:
            while state.advance():
                decides = True
                best: Any = None
                best_total_s = np.inf
                for targets in _candidates(state, rng):
                    total_s = _finished(state, targets)
                    if total_s < best_total_s * (1 - LEAST_GAIN):
                        best, best_total_s = targets, total_s
                state.arrays.held[TARGET] = best
                state.apply()
                decides = False
        except OutOfTimeError:
            stopped_by = StoppedBy.TIME
            with grace():
                FINISHING.run(state, decides=decides)
        return scheduled(instance, state.schedule(), stopped_by)


def _finished(state: FluidState, targets: Any) -> float:
    """Return the least sum of completion times that a base policy reaches after a decision."""
    decided = state.copy()
    decided.arrays.held[TARGET] = targets
    decided.apply()
    totals_s = []
    for policy in BASE_POLICIES:
        trial = decided.copy()
        policy.run(trial, decides=False)
        totals_s.append(trial.total_jct_s)
    return min(totals_s)


def _candidates(state: FluidState, rng: np.random.Generator) -> Iterator[Any]:
    """Yield distinct candidate decisions, each an array with the number of workers of each job."""
    seen: set[bytes] = set()
    active = state.active
    trial = state.copy()
    ranks = np.zeros(len(state.instance.jobs))
    for policy in BASE_POLICIES:
        policy.key.set_in(trial)
        yield from _decided(trial, policy.rule, active, seen)
    for order in _orders(active, rng):
        ranks[list(order)] = np.arange(len(order))
        trial.set_keys([0.0] * len(ranks), ranks.tolist())
        for rule in (FILL_BASES_FIRST, FILL_ONE_BY_ONE, FILL_IN_TURN):
            yield from _decided(trial, rule, active, seen)
        # Try to keep the last job of the order from starting, then the last two, and so on.
        for job in reversed(order):
            if not state.has_started(job):
                ranks[job] = NEVER
                trial.set_keys([0.0] * len(ranks), ranks.tolist())
                yield from _decided(trial, FILL_BASES_FIRST, active, seen)
                yield from _decided(trial, FILL_ONE_BY_ONE, active, seen)


def _decided(
    trial: FluidState, rule: int, active: Sequence[int], seen: set[bytes]
) -> Iterator[Any]:
    """Yield the workers that a rule gives each job, unless already tried or no job would start."""
    trial.decide(decide_by_rule, rule)
    targets = np.zeros(len(trial.instance.jobs), dtype=np.int64)
    targets[active] = trial.arrays.held[TARGET][active]
    idles = len(active) and not targets.any() and trial.arrays.counts[ARRIVED] == len(targets)
    if not idles and targets.tobytes() not in seen:
        seen.add(targets.tobytes())
        yield targets


def _orders(active: Sequence[int], rng: np.random.Generator) -> Iterator[Sequence[int]]:
    """Yield all orders of few jobs, or random orders of many jobs."""
    if len(active) <= ALL_ORDERS_UP_TO_JOBS:
        yield from permutations(active)
        return
    for _ in range(SAMPLED_ORDERS):
        yield rng.permutation(active).tolist()
