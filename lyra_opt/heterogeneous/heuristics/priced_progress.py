"""Priced progress: a price per GPU type decides which job runs on which type (our own policy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.arithmetic import product
from lyra_opt.core.rules import require_number
from lyra_opt.heterogeneous.heuristics.policy import (
    FreeGpus,
    RoundDraft,
    RoundPolicy,
    place_on_mixed,
    place_on_type,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, Decision, RoundState

PRICE_STEPS = 60


class PricedProgress(RoundPolicy):
    """Run jobs by their progress per GPU at market prices, with priority for critical jobs.

    This rule is the project's own. The value of a type to a job is the fraction of its remaining
    steps that it would do there in a round, times its weight. If all GPUs are equal, value per GPU
    orders jobs by least remaining GPU time. Jobs are assigned to types by the relaxed problem::

        max sum_jr v_jr x_jr   s.t.   sum_r x_jr <= 1,   sum_j gang_j x_jr <= GPUs of r,   x >= 0

    Subgradient steps on the dual give a price for each type, so that fast GPUs go to the jobs that
    gain most from them. Jobs are then sorted by their gain per GPU at these prices; each takes the
    type with its largest gain that has enough free GPUs. The remaining jobs fill the remaining
    GPUs, sorted by value per GPU.

    A job is critical if its remaining time is nearly as long as the cluster needs for all jobs,
    even if the job never waits. The values of critical jobs are raised until their best value per
    GPU equals the highest of all jobs. Otherwise the longest jobs would run last and determine the
    makespan. The time for all jobs is estimated as the larger of the longest remaining time of a
    job, and the time for all jobs together at their mean speeds on all GPUs.

    Complexity of a decision: O(jobs types (60 + log jobs) + jobs servers log servers). Guarantee:
    none for schedules. `hadar` may have a lower mean JCT where jobs hardly queue. Gavel's makespan
    policy ends sooner, at a far higher mean JCT.

    It decides in every round, also while every job keeps its GPUs. If rounds were skipped, progress
    would be added up in fewer parts, and rounding could later decide between equal values.

    Parameters
    ----------
    criticality
        A job is critical if its remaining time on its fastest type is at least this fraction of the
        time for all jobs; above 1 no job is critical. Smaller values favour the makespan, larger
        values the mean JCT.
    inertia
        Relative bonus for the type that a job already uses, because restarts cost time.
    """

    name = "priced-progress"

    def __init__(self, criticality: float = 0.9, inertia: float = 0.03) -> None:
        self._criticality = require_number("criticality", criticality, minimum=0, above=True)
        self._inertia = require_number("inertia", inertia, minimum=0)
        self._rates: dict[str, list[float]] = {}

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Store the capacity of the cluster."""
        self._types = [gpu_type.name for gpu_type in state.gpu_types]
        free = FreeGpus(state.servers)
        self._capacity = np.array([free.of_type.get(name, 0) for name in self._types])
        self._widest = {
            name: max((server.gpus.get(name, 0) for server in state.servers), default=0)
            for name in self._types
        }
        self._rates = {}  # the speeds depend on the servers, which can be lent or reclaimed

    def decide(self, state: RoundState) -> Decision:
        """Return the placement of each gang in the round."""
        rates = np.array([self._rates_of(active) for active in state.jobs])
        gangs = np.array([active.job.gang for active in state.jobs])
        steps = np.array([active.steps_left for active in state.jobs])
        weights = np.array([active.job.weight for active in state.jobs])
        values = np.minimum(1.0, rates * (state.round_s / steps)[:, None]) * weights[:, None]
        for row, active in enumerate(state.jobs):
            name = _type_of(active)
            if name is not None:
                values[row, self._types.index(name)] *= 1 + self._inertia
        chosen: list[tuple[int, str]] = []
        room = self._capacity.copy()

        def choose(row: int, order: NDArray[np.intp]) -> bool:
            for kind in order.tolist():
                if values[row, kind] > 0 and gangs[row] <= room[kind]:
                    room[kind] -= gangs[row]
                    chosen.append((row, self._types[kind]))
                    return True
            return False

        values = self._raised(values, rates, gangs, steps)
        is_left = np.ones(len(state.jobs), dtype=bool)
        prices = _clearing_prices(values, gangs, room)
        gains = values - gangs[:, None] * prices
        best = gains.max(axis=1) / gangs
        for row in np.argsort(-best, kind="stable").tolist():
            order = np.argsort(-gains[row], kind="stable")
            if best[row] > 0:
                is_left[row] = not choose(row, order[gains[row, order] > 0])
        rows = np.flatnonzero(is_left)
        densities = values.max(axis=1) / gangs
        for row in rows[np.argsort(-densities[rows], kind="stable")].tolist():
            is_left[row] = not choose(row, np.argsort(-values[row], kind="stable"))
        draft = self._placed(state, chosen)
        for row in np.flatnonzero(is_left).tolist():
            if sum(draft.free.of_type.values()) >= gangs[row]:
                job = state.jobs[row].job
                draft.give(job, place_on_mixed(draft.free, job))
        return draft.decision

    def _rates_of(self, active: ActiveJob) -> list[float]:
        """Return the job's speed on each type, using several servers if no single one fits."""
        job = active.job
        if job.id not in self._rates:
            speeds = []
            for name, gpus in zip(self._types, self._capacity.tolist(), strict=True):
                one = job.rate((name,), is_spread=False) if job.gang <= self._widest[name] else 0.0
                several = job.rate((name,), is_spread=True) if job.gang > 1 else 0.0
                speeds.append((one or several) if job.gang <= gpus else 0.0)
            self._rates[job.id] = speeds
        return self._rates[job.id]

    def _raised(
        self,
        values: NDArray[np.float64],
        rates: NDArray[np.float64],
        gangs: NDArray[np.int64],
        steps: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the jobs' values, with critical jobs raised to the highest value per GPU."""
        fastest = rates.max(axis=1)
        usable = fastest > 0
        alone_s = np.where(usable, steps / np.where(usable, fastest, 1.0), 0.0)
        mean_rate = product(rates, self._capacity) / self._capacity.sum()
        shared_s = np.where(usable, steps / np.where(usable, mean_rate, 1.0), 0.0)
        all_s = max(float(alone_s.max()), float((gangs * shared_s).sum() / self._capacity.sum()))
        densities = values.max(axis=1) / gangs
        is_critical = usable & (alone_s >= self._criticality * all_s)
        factors = np.where(is_critical, densities.max() / np.where(usable, densities, 1.0), 1.0)
        return values * factors[:, None]

    def _placed(self, state: RoundState, chosen: list[tuple[int, str]]) -> RoundDraft:
        """Place gangs on their GPU types, first gangs that stay put, then the largest gangs."""
        draft = RoundDraft(state.servers)
        moved = []
        for row, name in chosen:
            active = state.jobs[row]
            if _type_of(active) == name and _is_tight(active, self._widest[name]):
                draft.give(active.job, active.placements[0])
            else:
                moved.append((active.job, name))
        for job, name in sorted(moved, key=lambda each: -each[0].gang):
            draft.give(job, place_on_type(draft.free, job, name))
        return draft


def _clearing_prices(
    values: NDArray[np.float64], gangs: NDArray[np.int64], room: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return a price per GPU of each type at which demand about equals supply.

    Subgradient steps of falling length are taken on the Lagrangian dual of the relaxed problem. The
    prices with the least dual value are kept. If all jobs fit, all prices are 0.
    """
    prices = np.zeros(len(room))
    if not len(values):
        return prices
    densities = values / gangs[:, None]
    best, best_prices = np.inf, prices
    scale = float(densities.max())
    rows = np.arange(len(values))
    for step in range(PRICE_STEPS):
        gains = values - gangs[:, None] * prices
        kind = gains.argmax(axis=1)
        gain = gains[rows, kind]
        is_buying = gain > 0
        dual = float(gain[is_buying].sum() + product(prices, room))
        if dual < best:
            best, best_prices = dual, prices
        demand = np.bincount(kind[is_buying], weights=gangs[is_buying], minlength=len(room))
        slope = room - demand
        norm = float(np.abs(slope).max())
        if not norm:
            break
        prices = np.maximum(0.0, prices - scale * 0.5 * 0.9**step * slope / norm)
    return best_prices


def _type_of(active: ActiveJob) -> str | None:
    """Return the single GPU type that a job runs on; None if it waits or uses several types."""
    if not active.placements:
        return None
    names = {name for types in active.placements[0].values() for name in types}
    return names.pop() if len(names) == 1 else None


def _is_tight(active: ActiveJob, widest: int) -> bool:
    """Return whether a job is on one server, or needs several because no server is large enough."""
    placement: Mapping[str, Mapping[str, int]] = active.placements[0]
    return len(placement) == 1 or active.job.gang > widest
