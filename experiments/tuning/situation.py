"""What timers are tuned for: a cluster and draws of jobs, the same for every candidate."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from lyra_opt.experiments.pool import worker_pool
from lyra_opt.experiments.simulation.carried_out import carry_out
from lyra_opt.simulation.network.class_timers import ClassTimers
from lyra_opt.simulation.scheme import Options, PlacementScheme, Scheme, find_scheme, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload

Candidate: TypeAlias = ClassTimers | Scheme
"""Fixed timers for Dally's order, or a scheme."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A cluster and draws of jobs.

    Parameters
    ----------
    cluster
        Where they run.
    draws
        Jobs of several seeds; every candidate is simulated on all of them, so that candidates
        differ by what they decide alone (common random numbers).
    options
        How the cluster behaves.
    """

    cluster: Cluster
    draws: tuple[Workload, ...]
    options: Options = field(default_factory=Options)


def mean_jct_s(
    workload: Workload, candidate: Candidate, cluster: Cluster, options: Options
) -> float:
    """Return the mean JCT of a draw under a candidate.

    Raises
    ------
    SimulationError
        If the simulation comes to no result, or to one that cannot be right.
    UserError
        If a job can never run.
    """
    if isinstance(candidate, ClassTimers):
        manual = find_scheme("manual")
        assert isinstance(manual, PlacementScheme), "timers are those of a placement rule"
        scheme: Scheme = replace(manual, make=candidate.policy)
    else:
        scheme = candidate
    simulation = prepare(workload, cluster, scheme, options=options)
    carry_out(simulation, scheme=scheme.name)
    return math.fsum(run.jct_s for run in simulation.runs) / len(simulation.runs)


@contextmanager
def evaluator(
    situation: Situation, *, processes: int = 1
) -> Iterator[Callable[[Candidate], tuple[float, ...]]]:
    """Return what simulates a candidate on all draws, and gives the mean JCT of each in seconds.

    Timers that were asked for before are not simulated again.

    Parameters
    ----------
    processes
        Draws at the same time; 1 runs them in this process.
    """
    known: dict[ClassTimers, tuple[float, ...]] = {}
    draws = situation.draws

    def evaluate_by(
        run_each: Callable[..., Iterator[float]], candidate: Candidate
    ) -> tuple[float, ...]:
        if isinstance(candidate, ClassTimers) and candidate in known:
            return known[candidate]
        simulate = partial(
            mean_jct_s,
            candidate=candidate,
            cluster=situation.cluster,
            options=situation.options,
        )
        found = tuple(run_each(simulate, draws))
        if isinstance(candidate, ClassTimers):
            known[candidate] = found
        return found

    workers = min(processes, len(draws))
    if workers == 1:
        yield partial(evaluate_by, map)
        return
    with worker_pool(workers) as pool:
        yield partial(evaluate_by, pool.map)
