"""How far fixed timers are from what one who knows all jobs could have: found, and proved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.experiments.pool import worker_pool
from lyra_opt.experiments.simulation.carried_out import SimulationError
from lyra_opt.experiments.tuning.clairvoyant_search import search_plan
from lyra_opt.experiments.tuning.outcome import AUTO_TUNER, TUNED, Compared, percent
from lyra_opt.experiments.tuning.timer_space import BASELINES
from lyra_opt.simulation.bounds.reading import Reading
from lyra_opt.simulation.bounds.whole import whole_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.experiments.tuning.situation import Situation
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.tenure import Leases
    from lyra_opt.simulation.workload import Workload

TIMERS, SCHEDULE, BOUND = "clairvoyant timers", "best schedule found", "bound of any schedule"
IN_DALLYS_ORDER = (*BASELINES, AUTO_TUNER, TUNED)
"""Rules under which jobs choose as they do with clairvoyant timers."""

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Clairvoyant:
    """What one who knows the jobs of a draw can have, as mean JCT.

    Parameters
    ----------
    timers_s
        Found with timers of their own for all jobs, which choose in Dally's order.
    schedule_s
        Found with any order.
    bound_s
        Proved: no schedule has less.
    """

    timers_s: float
    schedule_s: float
    bound_s: float


def clairvoyant(
    workload: Workload, seed: int, *, cluster: Cluster, leases: Leases, changes: int
) -> Clairvoyant:
    """Bound what can be had of a draw, and search for it; see `search_plan`."""
    timers_s, schedule_s = (
        search_plan(
            workload,
            cluster,
            np.random.default_rng(seed),
            leases=leases,
            changes=changes,
            keeps_order=keeps_order,
        ).mean_jct_s
        for keeps_order in (True, False)
    )
    bound = whole_bound(workload, cluster, reading=Reading.CONSERVED, queue=False)
    return Clairvoyant(timers_s=timers_s, schedule_s=schedule_s, bound_s=bound.jct_mean_bound_s)


def search_all(
    situation: Situation, seeds: Sequence[int], *, changes: int, processes: int = 1
) -> list[Clairvoyant]:
    """Return what can be had of each draw, whose seeds are also those of the searches."""
    search = partial(
        clairvoyant,
        cluster=situation.cluster,
        leases=situation.options.leases,
        changes=changes,
    )
    workers = min(processes, len(situation.draws))
    if workers == 1:
        return list(map(search, situation.draws, seeds))
    with worker_pool(workers) as pool:
        return list(pool.map(search, situation.draws, seeds))


def compared_with(
    compared: Sequence[Compared], found: Sequence[Clairvoyant]
) -> tuple[Compared, ...]:
    """Return what one can have as rows beside rules, whose schedules count as found too.

    Raises
    ------
    SimulationError
        If a schedule beats the bound that is proved.
    """
    timers_s, schedule_s = [], []
    for draw, each in enumerate(found):
        by_rule = {row.name: row.jct_s[draw] for row in compared}
        timers_s.append(min(each.timers_s, *(by_rule[name] for name in IN_DALLYS_ORDER)))
        schedule_s.append(min(each.schedule_s, timers_s[-1], *by_rule.values()))
        if schedule_s[-1] < each.bound_s * (1 - TOLERANCE):
            raise SimulationError(
                f"draw {draw}: a schedule has a mean JCT of {schedule_s[-1]} s, but {each.bound_s} "
                "s is proved to be the least"
            )
    return (
        Compared(name=TIMERS, jct_s=tuple(timers_s)),
        Compared(name=SCHEDULE, jct_s=tuple(schedule_s)),
        Compared(name=BOUND, jct_s=tuple(each.bound_s for each in found)),
    )


def shares_in_words(compared: Sequence[Compared]) -> str:
    """Return what the auto-tuner's distance from the best schedule found is made of."""
    sums = {row.name: math.fsum(row.jct_s) for row in compared}
    whole = sums[AUTO_TUNER] - sums[SCHEDULE]
    if whole <= 0:
        return "No schedule was found that is better than the auto-tuner's."
    tuner, timers, order = (
        percent((sums[worse] - sums[better]) / whole)
        for worse, better in ((AUTO_TUNER, TUNED), (TUNED, TIMERS), (TIMERS, SCHEDULE))
    )
    return (
        f"Of what separates {AUTO_TUNER} from the {SCHEDULE}, {tuner} % are the tuner's against "
        f"the {TUNED}, {timers} % what {TIMERS} add, and {order} % the order in which jobs choose."
    )
