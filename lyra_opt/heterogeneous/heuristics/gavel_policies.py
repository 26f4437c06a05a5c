"""Gavel's policies by name: what the shares are best for, and what is known of unlike GPUs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.heterogeneous.heuristics.gavel import GavelRounds, isolated_shares, solver_shares
from lyra_opt.heterogeneous.instance import Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.heterogeneous.heuristics.gavel import Shares
    from lyra_opt.heterogeneous.instance import Instance

water_filled_shares = partial(solver_shares, solver="water-filling")


class _Policy(NamedTuple):
    """What makes one of Gavel's policies."""

    objective: Objective
    aim: str
    """What its shares make so, in a clause."""
    shares: Callable[[Instance], Shares | None] = solver_shares
    knows_types: bool = True

    @property
    def summary(self) -> str:
        """One line on it."""
        unknowing = "" if self.knows_types else ", unlike GPUs taken for alike"
        return f"rounds near the shares with {self.aim}{unknowing} (Gavel)"


_LAS = _Policy(Objective.MAX_MIN_SHARE, "the least normalised throughput greatest")
_FTF = _Policy(
    Objective.FINISH_TIME_FAIRNESS, "the worst ratio to an equal part's finish time least"
)
_MAKESPAN = _Policy(Objective.MAKESPAN_SHARE, "all done soonest")
_WATER_FILLING = _Policy(
    Objective.MAX_MIN_SHARE,
    "the least normalised throughput greatest, then the next",
    water_filled_shares,
)

_POLICIES: Mapping[str, _Policy] = {
    "gavel-las": _LAS,
    "gavel-ftf": _FTF,
    "gavel-throughput": _Policy(Objective.THROUGHPUT, "most steps a second"),
    "gavel-cost": _Policy(Objective.COST, "most steps a second for the money, deadlines kept"),
    "gavel-makespan": _MAKESPAN,
    "gavel-water-filling": _WATER_FILLING,
    "gavel-las-agnostic": _LAS._replace(knows_types=False),
    "gavel-ftf-agnostic": _FTF._replace(knows_types=False),
    "gavel-makespan-agnostic": _MAKESPAN._replace(knows_types=False),
    "gavel-water-filling-agnostic": _WATER_FILLING._replace(knows_types=False),
    "gavel-isolated": _Policy(
        Objective.MAX_MIN_SHARE, "an equal part of the cluster each", isolated_shares, False
    ),
}


def gavel_policies() -> dict[str, Callable[[], GavelRounds]]:
    """Return what makes each of Gavel's policies, by name."""
    return {
        name: partial(
            GavelRounds,
            policy.objective,
            policy.shares,
            knows_types=policy.knows_types,
            name=name,
        )
        for name, policy in _POLICIES.items()
    }


def gavel_summaries() -> dict[str, str]:
    """Return one line on each of Gavel's policies, by name."""
    return {name: policy.summary for name, policy in _POLICIES.items()}
