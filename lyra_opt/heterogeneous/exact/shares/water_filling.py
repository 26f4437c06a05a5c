r"""Gavel's hierarchical fairness: water filling over entities and their jobs.

A plain max-min solution may leave GPUs unused although some jobs could have more without harm to
others. Water filling raises all jobs together until some are *saturated*: they can rise no further
unless another job falls. It freezes these jobs and continues with the rest.

Source: Gavel (OSDI 2020), hierarchical policy. Gavel finds saturated jobs by an integer programme
with big-M rows and a rise of 1e-4. Here dual prices find them and prove it. Let y be prices of the
needs with sum y_j w_j = 1, and let v be the rise of the level, at most v + e by these prices. Then
no job can rise by more than e / y_j while no other falls. In each round at least one price is above
0. A saturated job with price 0 is found in a later round, in which the level does not rise. So the
levels do not depend on which prices an engine returns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.errors import FieldError
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.rules import require_choice, require_number, require_text
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.core.stopwatch import require_time
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.highs_model import LpHighs
from lyra_opt.heterogeneous.exact.shares.programme import SharePrices, ShareProgramme
from lyra_opt.heterogeneous.exact.shares.solver import Engine
from lyra_opt.heterogeneous.instance import InnerPolicy, Instance, Objective, TimeShares

SATURATED = 1e-6
"""A job is frozen if it provably can rise by at most this fraction of its best type's value."""
SLACK = 1e-9
"""Relative amount by which later programmes may miss levels, so that they have an interior."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGroup:
    """The jobs of an entity, such as a team, with the rule for dividing time among them.

    Parameters
    ----------
    name
        Name of the entity, for error messages.
    jobs
        Ids of at least one job, in the order in which ``fifo`` serves them.
    weight
        Weight of the entity, above 0.
    policy
        Rule for dividing time among the jobs.
    """

    name: str
    jobs: tuple[str, ...]
    weight: float = 1.0
    policy: InnerPolicy = InnerPolicy.FAIRNESS

    def __post_init__(self) -> None:
        require_text("name", self.name)
        weight = require_number("weight", self.weight, minimum=0, above=True)
        object.__setattr__(self, "weight", weight)
        policy = require_choice("policy", self.policy, [str(policy) for policy in InnerPolicy])
        object.__setattr__(self, "policy", InnerPolicy(policy))
        if not self.jobs:
            raise FieldError("jobs", [], "must have at least one entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledShares:
    """Time shares from water filling, with the levels and rounds that led to them.

    Parameters
    ----------
    shares
        Feasible shares, shape (sets, types).
    levels
        Shape (jobs,): the promised gang * throughput / throughput on equal shares. The shares keep
        it within some 1e-9.
    frozen_in_round
        Shape (jobs,): round in which the job was found saturated, from 0.
    rounds
        Number of programmes solved.
    """

    shares: FloatArray
    levels: FloatArray
    frozen_in_round: NDArray[np.int64]
    rounds: int


def fill(
    arrays: ShareArrays, entities: Sequence[JobGroup] | None = None, engine: Engine | None = None
) -> FilledShares:
    """Return the time shares of water filling.

    Parameters
    ----------
    arrays
        The jobs and the cluster.
    entities
        Entities that partition the jobs. None means one entity with all jobs, by their weights. The
        result is then lexicographically max-min: no job's level over its weight can rise unless a
        job falls whose own is no larger.
    engine
        Function that solves programmes, `ShareSolver.point_of` of an exact solver; by default of
        `LpHighs`. Later programmes hardly have an interior, so PDLP is unsuitable.

    Raises
    ------
    FieldError
        If a job is in no entity or in two, or an entity names an unknown job.
    RuntimeError
        If the engine finds no solution, or one too inexact to identify a saturated job.

    Notes
    -----
    At most one programme per job; usually one per distinct level.
    """
    engine = engine or LpHighs().point_of
    if entities is None:
        entities = [JobGroup(name="all", jobs=arrays.job_ids)]
    members = _members(arrays, entities)
    value = arrays.share_value * arrays.weight[arrays.sets.job][:, None]
    best = arrays.sets.most_of_job(value).max(axis=1)
    jobs = len(best)
    levels = np.zeros(jobs)
    frozen_in_round = np.full(jobs, -1, dtype=np.int64)
    shares = np.zeros((len(arrays.sets), value.shape[1]))
    rounds = 0
    while (frozen_in_round < 0).any():
        rise = _rise(arrays, entities, members, frozen_in_round < 0)
        programme = arrays.level_programme(value, rise, need=levels * (1 - SLACK))
        point = engine(programme)
        require_time()
        if point.shares is None or point.prices is None:
            raise RuntimeError("water filling: the LP engine returned no solution")
        found = programme.repaired(point.shares, point.level)
        reached = programme.got(found)
        rising = rise > 0
        most, need_price = _most(arrays.level_programme(value, rise, need=levels), point.prices)
        # Slack may overstate the rise of the level, so a bound from prices without slack limits it.
        level = max(0.0, min(most, float(((reached - levels)[rising] / rise[rising]).min())))
        with np.errstate(divide="ignore", invalid="ignore"):
            still = np.where(need_price > 0, max(0.0, most - level) / need_price, np.inf) / best
        is_frozen = rising & (still <= SATURATED)
        if not is_frozen.any():
            least = float(still[rising].min())
            raise RuntimeError(
                f"water filling: after {rounds} rounds, no further job is proved to be at its "
                f"highest level; the level of every job could rise by {least:.1e} of its "
                f"throughput on its fastest GPU type, more than the tolerance of {SATURATED:g}"
            )
        levels = levels + rise * level
        shares = found
        frozen_in_round[is_frozen] = rounds
        rounds += 1
    return FilledShares(
        shares=shares, levels=levels, frozen_in_round=frozen_in_round, rounds=rounds
    )


def _most(programme: ShareProgramme, prices: SharePrices) -> tuple[float, FloatArray]:
    """Return an upper bound on the rise of the level, and the prices of needs that prove it.

    No job can rise beyond a level by more than the gap between the level and this bound, over its
    price.
    """
    prices = prices.cleaned()
    priced = float((prices.need * programme.level).sum())
    if priced <= 0:
        return np.inf, np.zeros_like(prices.need)
    scaled = prices.times(1.0 / priced)
    return programme.dual_bound(scaled, tolerance=0.0), scaled.need


def _members(arrays: ShareArrays, entities: Sequence[JobGroup]) -> list[list[int]]:
    """Return the positions of the jobs of each entity."""
    position = {job: place for place, job in enumerate(arrays.job_ids)}
    seen: set[str] = set()
    members = []
    for place, entity in enumerate(entities):
        for job in entity.jobs:
            if job not in position:
                raise FieldError(
                    f"entities[{place}].jobs", job, "must be the id of a job of the instance"
                )
            if job in seen:
                raise FieldError(f"entities[{place}].jobs", job, "must be in one entity only")
            seen.add(job)
        members.append([position[job] for job in entity.jobs])
    for job in arrays.job_ids:
        if job not in seen:
            raise FieldError("entities", job, "must belong to an entity")
    return members


def _rise(
    arrays: ShareArrays,
    entities: Sequence[JobGroup],
    members: Sequence[Sequence[int]],
    is_open: NDArray[np.bool_],
) -> FloatArray:
    """Return the speed at which each job's level rises: its part of its entity's weight."""
    rise = np.zeros(len(is_open))
    for entity, positions in zip(entities, members, strict=True):
        waiting = [job for job in positions if is_open[job]]
        if not waiting:
            continue
        if entity.policy is InnerPolicy.FIFO:
            rise[waiting[0]] = entity.weight
        else:
            weights = arrays.weight[waiting]
            rise[waiting] = entity.weight * weights / weights.sum()
    return rise


def groups_of(instance: Instance) -> list[JobGroup] | None:
    """Return the job groups of the instance's entities, in file order; None without entities."""
    if not instance.entities:
        return None
    jobs: dict[str | None, list[str]] = {}
    for job in instance.jobs:
        jobs.setdefault(job.entity, []).append(job.id)
    return [
        JobGroup(
            name=entity.name,
            jobs=tuple(jobs[entity.name]),
            weight=entity.weight,
            policy=entity.policy,
        )
        for entity in instance.entities
        if entity.name in jobs
    ]


class WaterFilling(HeuristicSolver):
    """Compute shares by water filling, over the entities of the instance or else over jobs.

    Without entities the result is lexicographically max-min: it maximises the least share, then
    gives the rest to jobs that can have more. With entities, these share by their weights first, so
    the least share may be below the maximum; see `fill`. The solver claims no proof. Complexity: at
    most one linear programme per job.
    """

    name = "water-filling"
    problem = "heterogeneous"
    variants = (Objective.MAX_MIN_SHARE,)
    modules = ("highspy",)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[TimeShares]:  # noqa: ARG002
        """Return the time shares of water filling."""
        arrays = ShareArrays.of(instance)
        filled = fill(arrays, groups_of(instance))
        solution = arrays.solution(filled.shares)
        return SolveResult(
            status=Status.FEASIBLE,
            solution=solution,
            objective=self.objective_of(instance, solution),
            counters={"programmes": filled.rounds},
        )
