"""The parts of a composed scheme: queue, scaling, reclaiming, preemption, loans, with settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import Settings
from lyra_opt.core.own_files import is_reference
from lyra_opt.core.rules import require_choice, require_flag
from lyra_opt.core.solver import SolverLike
from lyra_opt.simulation.policies.fluid import PricedPreemption
from lyra_opt.simulation.policies.parts import LoanRule, RunTimeCaps, VoluntaryPreemption
from lyra_opt.simulation.policies.selection import Backfill, Serving
from lyra_opt.simulation.queue_orders import GITTINS, ORDERS, PRIORITY, Order, own_order
from lyra_opt.simulation.quotas import Quotas
from lyra_opt.simulation.slices import BEST_FIT, PLACEMENTS

OF_GOODPUT = "goodput:knapsack"
"""The scaling that tunes jobs while they run."""

RECLAIMING = "reclaim:"
"""Prefix of a reclaim solver that takes back what tenants borrowed."""

OF_SOLVERS = ("knapsack:", "policy:", RECLAIMING)
"""Prefixes of parts that name a solver."""

BORROW, PARTITION, IGNORE = QUOTAS = ("borrow", "partition", "ignore")
"""The meanings of quotas: idle GPUs may be borrowed, quotas are limits, or nothing."""


@dataclass(frozen=True, kw_only=True)
class Composition:
    """The parts of a composed scheme: a queue, elastic scaling and reclaiming.

    Parameters
    ----------
    queue
        The order in which waiting jobs are tried: one of `queue_orders.ORDERS`, ``gittins``
        (`lyra_opt.simulation.gittins.GittinsOrder`), or a function ``key(run, view)`` that returns
        a number or a tuple of numbers, smallest first, also as ``my_file.py:NAME``. It is called
        when a job begins to wait. A job that does not fit is skipped.
    reclaimer
        Reclaim solver that chooses which servers on loan to give back: a name, ``my_file.py:NAME``,
        an object or a class; None for a scheme that borrows no servers.
    weighs_lost_work
        Whether a preemption counts as the work that it loses.
    scaling
        How elastic jobs grow: None (not at all); ``knapsack:SOLVER`` (a solver of the allocation
        problem for jct_reduction); ``policy:POLICY`` (an allocation policy that decides step by
        step); either of them as an object, a class or ``my_file.py:NAME``; or ``goodput:knapsack``
        (for jobs that are tuned while they run, see
        `lyra_opt.simulation.goodput.tuning.TunedSpeed`).
    grows_only_without_queue
        Whether jobs grow only while no job waits.
    confines_fungible
        Whether fungible jobs run only on inference servers, and no other jobs run on them; the two
        groups then do not wait for each other.
    keeps_groups_apart
        Whether flexible workers on loan have servers of their own.
    prefers_loans
        Whether all jobs that may use servers on loan try these first. Jobs that can use both kinds
        of GPUs at once still start on own servers.
    run_time_caps
        Caps on the GPUs that long jobs may hold together; None for no caps.
    loan_rule
        Which jobs may use servers on loan; None for all jobs that can, with Lyra's preference.
    shrinks_longer_only
        Whether a waiting base demand may scale in only jobs with more remaining GPU-seconds than
        its own job.
    voluntary_preemption
        When running jobs are stopped for waiting jobs; None for never.
    preempter
        Preemption solver that chooses which jobs of lower priority give way when a waiting job does
        not fit: a name, ``my_file.py:NAME``, an object or a class; None for a scheme in which no
        job gives way. It requires the queue order ``priority``. With it, base and flexible workers
        share servers on loan. On a cluster with quotas only jobs of the same tenant give way.
    priced_preemption
        When running jobs are stopped because waiting jobs gain more; None for never.
    backfill
        Reservations for waiting jobs that no other job may delay; None for no reservations.
    serving
        How running jobs are stopped so that the first jobs of the queue order run; None for never.
        It cannot be combined with `preempter` or `voluntary_preemption`.
    quotas
        What the quotas of tenants mean, on a cluster that has any. ``borrow``: tenants may hold
        GPUs above their quotas that others leave idle, up to their limits. ``partition``: no tenant
        holds more than its quota. In both, the tenant that uses least of its quota is served first
        (`lyra_opt.simulation.tenants.FairQueue`). ``ignore``: all tenants are treated alike.
    takes_back
        Which jobs of tenants above their quotas are stopped if a waiting job fits the quota of its
        own tenant, but not the free GPUs: a preemption solver, as for `preempter`, or
        ``reclaim:SOLVER`` for a reclaim solver, which empties whole servers. None or false: the
        job waits until borrowed GPUs become free.
    placement
        Where workers and slices go on own servers, one of `lyra_opt.simulation.slices.PLACEMENTS`.

    Notes
    -----
    The parts that are objects can be given as tables with the settings that differ from the
    defaults; true means all defaults, false means None.
    """

    queue: str | Order = "first-come"
    reclaimer: SolverLike | None = None
    weighs_lost_work: bool = False
    scaling: SolverLike | None = None
    grows_only_without_queue: bool = False
    confines_fungible: bool = False
    keeps_groups_apart: bool = True
    prefers_loans: bool = False
    run_time_caps: RunTimeCaps | None = None
    loan_rule: LoanRule | None = None
    shrinks_longer_only: bool = False
    voluntary_preemption: VoluntaryPreemption | None = None
    preempter: SolverLike | None = None
    priced_preemption: PricedPreemption | None = None
    backfill: Backfill | None = None
    serving: Serving | None = None
    quotas: str = BORROW
    takes_back: SolverLike | None = "exact"
    placement: str = BEST_FIT

    def __post_init__(self) -> None:
        if not isinstance(self.queue, str):
            own_order(self.queue)
        elif not is_reference(self.queue):
            require_choice("queue", self.queue, [*ORDERS, GITTINS])
        require_choice("quotas", self.quotas, list(QUOTAS))
        require_choice("placement", self.placement, list(PLACEMENTS))
        given: Any = self.takes_back
        if given is False or given is True:  # in a scenario file nothing else can mean None
            object.__setattr__(self, "takes_back", "exact" if given else None)
        if isinstance(self.scaling, str):
            is_known = self.scaling.startswith(OF_SOLVERS) or is_reference(self.scaling)
            if not is_known and self.scaling != OF_GOODPUT:
                rule = "must be knapsack:SOLVER, policy:POLICY or goodput:knapsack"
                raise FieldError("scaling", self.scaling, rule)
        for name in ("prefers_loans", "shrinks_longer_only"):
            require_flag(name, getattr(self, name))
        for name, part in _PARTS.items():
            object.__setattr__(self, name, _part(name, getattr(self, name), part))
        if self.preempter is not None and self.voluntary_preemption is not None:
            rule = "cannot be combined with voluntary_preemption, which ignores priorities"
            raise FieldError("preempter", self.preempter, rule)
        for name in ("preempter", "voluntary_preemption"):
            if self.serving is not None and getattr(self, name) is not None:
                raise FieldError("serving", True, f"cannot be combined with {name}")
        if self.preempter is not None and self.queue != PRIORITY:
            rule = f"requires the queue order {PRIORITY}"
            raise FieldError("preempter", self.preempter, rule)

    def limits(self, quotas: Quotas) -> list[float]:
        """Return the most own GPUs that each tenant or group may hold under this scheme."""
        return quotas.limits(borrows=self.quotas == BORROW)


_PARTS = {
    "run_time_caps": RunTimeCaps,
    "loan_rule": LoanRule,
    "voluntary_preemption": VoluntaryPreemption,
    "priced_preemption": PricedPreemption,
    "backfill": Backfill,
    "serving": Serving,
}


def _part(field: str, given: Any, part: type) -> Any:
    """Return the object for a part given as an object, a table of settings, or true or false."""
    if given is None or isinstance(given, bool):
        return part() if given else None
    if not isinstance(given, part | Mapping):
        raise FieldError(field, given, "must be true, false or a table")
    return Settings(part).check(field, given)
