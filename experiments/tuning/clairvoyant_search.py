"""Search for a good schedule when all jobs are known in advance.

Together with the proved bounds of `lyra_opt.simulation.bounds`, the schedule found brackets the
mean JCT of the best schedule. The search chooses a job order and delay timers, and
`DelayScheduling` carries them out. Each job has timers of its own. Jobs choose GPUs either in
Dally's order or by increasing

    remaining time at the best tier * gang ** exponent * factor of the job.

Exponent 0 is shortest remaining time first; exponent 1 is smallest remaining area first. With
Dally's order, only the timers use the future, so the search separates the loss due to timers from
the loss due to the order.

The search first tries every exponent with every pair of timers for all jobs. It then changes the
timers or the factors of a few jobs at a time and keeps a change unless the mean JCT grows. Every
candidate is simulated, so the mean JCT found belongs to a schedule that can be carried out. There
is no guarantee on its quality; the proved bound says how far it is from the best at most.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from lyra_opt.core.rules import require_integer
from lyra_opt.network.heuristics.delay_scheduling import DelayScheduling, TimerRule, most_hurt_first
from lyra_opt.network.heuristics.policy import PlacementState, WaitingGangs
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.policies.placing_gangs import PlacingGangs
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.workload import Workload

PAIRS = (
    (0.0, 0.0),
    (0.0, math.inf),
    (1.0, 2.0),
    (2.0, 4.0),
    (6.0, 12.0),
    (math.inf, 0.0),
    (math.inf, math.inf),
)
"""Pairs of rack timer and network timer, in leases, from which each job gets one pair."""

EXPONENTS = (0.75, 1.0)
MOST_CHANGED_JOBS = 3
FACTOR_SPREAD = 0.7
"""Standard deviation of the logarithm of the random change of a job's factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderAndTimers:
    """A job order and the delay timers of each job: one candidate of the search.

    Parameters
    ----------
    exponent
        Exponent of the gang size in the order; None for Dally's order, which uses no factors.
    factors
        Factor of each job, in order of submission; float64, above 0.
    pairs
        For each job the index of its timers in `PAIRS`; int64.
    """

    exponent: float | None
    factors: np.ndarray
    pairs: np.ndarray

    def policy(self, workload: Workload) -> DelayScheduling:
        """Return the placement policy of the candidate, for one run of its workload."""
        place_of = {job.id: place for place, job in enumerate(workload.jobs)}
        timers = _TimersByJob(place_of, self.pairs)
        if self.exponent is None:
            return DelayScheduling("clairvoyant-timers", timers, most_hurt_first)
        exponent, factors = self.exponent, self.factors

        def least_left_first(waiting: WaitingGangs) -> np.ndarray:
            left_s = waiting.remaining_s / waiting.efficiency.max(axis=1)
            own = factors[[place_of[name] for name in waiting.ids]]
            return np.argsort(left_s * waiting.gang**exponent * own, kind="stable")

        return DelayScheduling("clairvoyant", timers, least_left_first)


class _TimersByJob(TimerRule):
    def __init__(self, place_of: dict[str, int], pairs: np.ndarray) -> None:
        self._place_of, self._pairs = place_of, pairs.tolist()

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        rack, network = PAIRS[self._pairs[self._place_of[state.waiting.ids[job]]]]
        return rack * state.lease_s, network * state.lease_s


def search_schedule(
    workload: Workload,
    cluster: Cluster,
    rng: np.random.Generator,
    *,
    leases: Leases,
    changes: int,
    keeps_order: bool = False,
) -> tuple[OrderAndTimers, float]:
    """Search for a job order and timers with a small mean JCT; return them and the JCT in seconds.

    Parameters
    ----------
    workload, cluster, leases
        The workload, cluster and lease model to simulate.
    rng
        Random generator for the changes.
    changes
        Number of random changes to try after the plain candidates; at least 0.
    keeps_order
        Whether jobs choose in Dally's order.

    Raises
    ------
    UserError
        If a job can never run.

    Notes
    -----
    Source: this project. Complexity: one simulation per candidate. There are ``len(PAIRS)`` plain
    candidates with Dally's order, and ``len(PAIRS)`` for each exponent otherwise.
    """
    require_integer("changes", changes, minimum=0)
    jobs = len(workload.jobs)

    def mean_jct_s(candidate: OrderAndTimers) -> float:
        policy = PlacingGangs(lambda: candidate.policy(workload), reclaimer=None)
        simulation = Kernel(workload, cluster, policy, tenure=leases)
        return math.fsum(run.jct_s for run in simulation.run().runs) / jobs

    plain = [
        OrderAndTimers(exponent=exponent, factors=np.ones(jobs), pairs=np.full(jobs, pair))
        for exponent in ((None,) if keeps_order else EXPONENTS)
        for pair in range(len(PAIRS))
    ]
    values = [mean_jct_s(each) for each in plain]
    best_s = min(values)
    best = plain[values.index(best_s)]
    for _ in range(changes):
        changed = _changed(best, rng)
        value_s = mean_jct_s(changed)
        if value_s <= best_s:
            best, best_s = changed, value_s
    return best, best_s


def _changed(best: OrderAndTimers, rng: np.random.Generator) -> OrderAndTimers:
    """Return a copy of the best candidate in which a few jobs have other timers or factors."""
    jobs = len(best.pairs)
    few = rng.choice(
        jobs, size=min(jobs, int(rng.integers(1, MOST_CHANGED_JOBS + 1))), replace=False
    )
    if best.exponent is None or rng.random() < 0.5:
        pairs = best.pairs.copy()
        pairs[few] = rng.integers(len(PAIRS), size=len(few))
        return replace(best, pairs=pairs)
    factors = best.factors.copy()
    factors[few] *= np.exp(FACTOR_SPREAD * rng.standard_normal(len(few)))
    return replace(best, factors=factors)
