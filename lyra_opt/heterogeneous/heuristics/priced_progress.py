"""Ours: a price for each type of GPUs decides who makes progress on which."""

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
    """Runs who makes most progress for the GPUs, each where it helps most, critical jobs too.

    This project's own. A job's value on a type is the part of its remaining steps that it does
    there in a round, times its weight: on equal GPUs the value for each GPU orders jobs by least
    remaining GPU time. Who runs on which type is the relaxed problem of most value::

        max sum_jr v_jr x_jr   s.t.   sum_r x_jr <= 1,   sum_j gang_j x_jr <= GPUs of r,   x >= 0

    A price for each type is found by subgradient steps on its dual, so that a fast GPU goes to
    whom it helps most and not to whom it helps. Jobs then go by what they gain for each GPU beyond
    the prices, each to the type where it gains most of those with room; whoever is left fills what
    is left, in order of value for each GPU.

    A job that even without ever waiting would take nearly as long as the cluster takes for all
    is critical: its values are raised until its best one for each GPU is as high as that of any
    job. Without that the longest jobs would be left over, and the makespan be theirs. What the
    cluster takes for all is estimated: the longest remaining time, or that of all jobs together
    at their mean speeds over all GPUs if that is more.

    Complexity of a decision: O(jobs types (60 + log jobs) + jobs servers log servers). Guarantee:
    none for schedules. `hadar` may have the lower mean JCT where jobs hardly queue, and Gavel's
    shares for the makespan end sooner, at a far higher mean JCT.

    Parameters
    ----------
    criticality
        A job is critical if its remaining time on its fastest type is at least this part of the
        time that the cluster needs for all; above 1 none is. Less favours the makespan, more the
        mean JCT.
    inertia
        By which part a job values more the type that it is on: restarts cost time.
    """

    name = "priced-progress"

    def __init__(self, criticality: float = 0.9, inertia: float = 0.03) -> None:
        self._criticality = require_number("criticality", criticality, minimum=0, above=True)
        self._inertia = require_number("inertia", inertia, minimum=0)
        self._rates: dict[str, list[float]] = {}

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Keep the size of the cluster."""
        self._types = [gpu_type.name for gpu_type in state.gpu_types]
        there = FreeGpus(state.servers)
        self._there = np.array([there.of_type.get(name, 0) for name in self._types])
        self._widest = {
            name: max((server.gpus.get(name, 0) for server in state.servers), default=0)
            for name in self._types
        }

    def decide(self, state: RoundState) -> Decision:
        """Return who runs where in the round."""
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
        room = self._there.copy()

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
        """Return the speed on each type, of several servers where no single one is wide enough."""
        job = active.job
        if job.id not in self._rates:
            speeds = []
            for name, there in zip(self._types, self._there.tolist(), strict=True):
                one = job.rate((name,), is_spread=False) if job.gang <= self._widest[name] else 0.0
                several = job.rate((name,), is_spread=True) if job.gang > 1 else 0.0
                speeds.append((one or several) if job.gang <= there else 0.0)
            self._rates[job.id] = speeds
        return self._rates[job.id]

    def _raised(
        self,
        values: NDArray[np.float64],
        rates: NDArray[np.float64],
        gangs: NDArray[np.int64],
        steps: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return the values, those of critical jobs raised to the best for each GPU of all."""
        fastest = rates.max(axis=1)
        usable = fastest > 0
        alone_s = np.where(usable, steps / np.where(usable, fastest, 1.0), 0.0)
        mean_rate = product(rates, self._there) / self._there.sum()
        shared_s = np.where(usable, steps / np.where(usable, mean_rate, 1.0), 0.0)
        all_s = max(float(alone_s.max()), float((gangs * shared_s).sum() / self._there.sum()))
        densities = values.max(axis=1) / gangs
        is_critical = usable & (alone_s >= self._criticality * all_s)
        factors = np.where(is_critical, densities.max() / np.where(usable, densities, 1.0), 1.0)
        return values * factors[:, None]

    def _placed(self, state: RoundState, chosen: list[tuple[int, str]]) -> RoundDraft:
        """Return where gangs run, those that stay placed first, then the largest first."""
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
    """Return a price for a GPU of each type at which about as many are asked for as there are.

    Subgradient steps on the Lagrangian dual of the relaxed problem, of falling length; the prices
    of the least dual value are kept. All prices are 0 where nobody has to go without.
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
        asked = np.bincount(kind[is_buying], weights=gangs[is_buying], minlength=len(room))
        slope = room - asked
        norm = float(np.abs(slope).max())
        if not norm:
            break
        prices = np.maximum(0.0, prices - scale * 0.5 * 0.9**step * slope / norm)
    return best_prices


def _type_of(active: ActiveJob) -> str | None:
    """Return the one type that a job runs on, None if it does not run or runs on several."""
    if not active.placements:
        return None
    names = {name for types in active.placements[0].values() for name in types}
    return names.pop() if len(names) == 1 else None


def _is_tight(active: ActiveJob, widest: int) -> bool:
    """Whether a job is on one server, or on several since none is wide enough."""
    placement: Mapping[str, Mapping[str, int]] = active.placements[0]
    return len(placement) == 1 or active.job.gang > widest
