"""Compare the decisions of a rule with recorded decisions of a real program."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.result import Limits
from lyra_opt.preemption import check

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.core.solver import Solver
    from lyra_opt.instances.preemption.recorded.decisions import Decision
    from lyra_opt.preemption import Instance, Solution


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a rule decides as the real program did.

    Parameters
    ----------
    cases, runs
        Number of decisions, and of comparisons: one per decision and seed.
    same_victims, same_cost
        Number of comparisons with the same lost pods, and with the same number of lost GPUs. Alike
        pods of a gang on one node count as equal, and a gang that falls below its minimum is lost
        whole in both decisions.
    different
        For each instance with another cost for at least one seed, the number of such seeds.
    """

    cases: int
    runs: int
    same_victims: int
    same_cost: int
    different: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        shares = (
            f"same {what} in {count / self.runs:.1%}"
            for what, count in (("victims", self.same_victims), ("cost", self.same_cost))
        )
        return f"{self.cases} cases, {self.runs} comparisons: {', '.join(shares)}"


def agreement(
    rule: Solver, decisions: Sequence[Decision], seeds: Iterable[int] = range(20)
) -> Agreement:
    """Return how often a rule agrees with recorded decisions; it is applied once per seed."""
    same_victims = same_cost = runs = 0
    different: Counter[str] = Counter()
    for seed in seeds:
        for decision in decisions:
            instance, real = decision.instance, decision.solution
            rng = np.random.default_rng(seed)
            found = rule.solve(instance, limits=Limits(), rng=rng).solution
            runs += 1
            if found is not None and _lost_gpus(instance, found) == _lost_gpus(instance, real):
                same_cost += 1
            else:
                different[instance.name] += 1
            same_victims += found is not None and (found.lost_gangs, found.lost_pods) == (
                real.lost_gangs,
                real.lost_pods,
            )
    return Agreement(len(decisions), runs, same_victims, same_cost, different)


def _lost_gpus(instance: Instance, solution: Solution) -> int:
    lost = check(instance, solution).lost_resources
    assert lost is not None
    return lost.get("gpu", 0)
