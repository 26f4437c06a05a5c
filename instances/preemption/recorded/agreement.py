"""Compare the decisions of a rule with recorded decisions of a real program."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from lyra_opt.core.result import Limits
from lyra_opt.core.solver import Solver
from lyra_opt.instances.preemption.recorded.decisions import Decision
from lyra_opt.preemption import Instance, Solution, check


class Agreement(NamedTuple):
    """How often a rule decides as the real program did.

    Parameters
    ----------
    runs
        Number of comparisons: one per decision and seed.
    same_victims, same_cost
        Number of comparisons with the same lost pods, and with the same number of lost GPUs. Alike
        pods of a gang on one node count as equal, and a gang that falls below its minimum is lost
        whole in both decisions.
    different
        For each instance with another cost for at least one seed, the number of such seeds.
    """

    runs: int
    same_victims: int
    same_cost: int
    different: Counter[str]


def agreement(
    rule: Solver, decisions: Sequence[Decision], seeds: Iterable[int] = range(20)
) -> Agreement:
    """Return how often a rule agrees with recorded decisions; it is applied once per seed."""
    runs = same_victims = 0
    different = Counter[str]()
    for seed in seeds:
        for decision in decisions:
            instance, real = decision.instance, decision.solution
            rng = np.random.default_rng(seed)
            found = rule.solve(instance, limits=Limits(), rng=rng).solution
            runs += 1
            same_victims += _victims(found) == _victims(real)
            if found is None or _lost_gpus(instance, found) != _lost_gpus(instance, real):
                different[instance.name] += 1
    return Agreement(runs, same_victims, runs - different.total(), different)


def _victims(solution: Solution | None) -> object:
    return None if solution is None else (solution.lost_gangs, solution.lost_pods)


def _lost_gpus(instance: Instance, solution: Solution) -> int:
    lost = check(instance, solution).lost_resources
    assert lost is not None
    return lost.get("gpu", 0)
