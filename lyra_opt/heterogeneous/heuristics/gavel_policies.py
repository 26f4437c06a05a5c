"""Gavel's policies by name: what the shares are best for, and what is known of unlike GPUs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous.heuristics.gavel import (
    LEAST_RESET_S,
    GavelRounds,
    isolated_shares,
    solver_shares,
)
from lyra_opt.heterogeneous.instance import Entity, Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from lyra_opt.heterogeneous.heuristics.policy import RoundState
    from lyra_opt.heterogeneous.instance import Instance, TimeShares

water_filled_shares = partial(solver_shares, solver="water-filling")


HIERARCHICAL = "gavel-hierarchical"
HALVES = (Entity(name="first"), Entity(name="second"))


class HierarchicalRounds(GavelRounds):
    """Gavel's rounds near the shares of water filling over entities, each with jobs of its own.

    Source: Gavel (OSDI 2020), its hierarchical policy. What an entity gets among others, and how it
    divides that, is up to it: see `lyra_opt.heterogeneous.exact.shares.water_filling`. Complexity
    and guarantee as of `GavelRounds`, with at most one linear programme for each job.

    Parameters
    ----------
    entities
        Tables with ``name``, ``weight`` and ``policy``, as those of instances. A job that names
        none of them belongs to one in turn, by its place in the order of submission: no public
        trace says whose a job is. By default two that are alike.
    least_reset_s, newcomers_run, packs
        See `GavelRounds`.
    """

    def __init__(
        self,
        entities: Sequence[Entity | Mapping[str, Any]] = HALVES,
        *,
        least_reset_s: float = LEAST_RESET_S,
        newcomers_run: bool = True,
        packs: bool = False,
    ) -> None:
        super().__init__(
            Objective.MAX_MIN_SHARE,
            water_filled_shares,
            least_reset_s,
            newcomers_run=newcomers_run,
            packs=packs,
            name=HIERARCHICAL,
        )
        if isinstance(entities, str) or not entities:
            raise FieldError("entities", entities, "must be a list of at least one entity")
        self._entities = tuple(
            entity if isinstance(entity, Entity) else _entity(place, entity)
            for place, entity in enumerate(entities)
        )
        self._names = [entity.name for entity in self._entities]
        if len(set(self._names)) < len(self._names):
            raise FieldError("entities", self._names, "must have a name each of their own")

    def _question(self, state: RoundState) -> Instance:
        instance = super()._question(state)
        jobs = tuple(
            job
            if job.entity in self._names
            else replace(job, entity=self._names[active.order % len(self._names)])
            for job, active in zip(instance.jobs, state.jobs, strict=True)
        )
        return replace(instance, jobs=jobs, entities=self._entities)


def _entity(place: int, given: Mapping[str, Any]) -> Entity:
    try:
        return Entity(**given)
    except FieldError as error:
        raise error.inside(f"entities[{place}]") from None
    except TypeError:
        rule = "must be a table with name, and weight and policy if need be"
        raise FieldError(f"entities[{place}]", given, rule) from None


class _Policy(NamedTuple):
    """What makes one of Gavel's policies."""

    objective: Objective
    aim: str
    """What its shares make so, in a clause."""
    shares: Callable[[Instance], TimeShares | None] = solver_shares
    knows_types: bool = True

    @property
    def summary(self) -> str:
        """One line on it."""
        unknowing = "" if self.knows_types else ", type-blind"
        return f"rounds near the shares with {self.aim}{unknowing} (Gavel)"


_LAS = _Policy(Objective.MAX_MIN_SHARE, "the least normalised throughput greatest")
_FTF = _Policy(
    Objective.FINISH_TIME_FAIRNESS, "the worst ratio to an equal part's finish time least"
)
_MAKESPAN = _Policy(Objective.MAKESPAN_SHARE, "all done soonest")
_WATER_FILLING = _Policy(
    Objective.MAX_MIN_SHARE,
    "the least throughputs greatest, one after another",
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
    } | {HIERARCHICAL: HierarchicalRounds}


def gavel_summaries() -> dict[str, str]:
    """Return one line on each of Gavel's policies, by name."""
    return {name: policy.summary for name, policy in _POLICIES.items()} | {
        HIERARCHICAL: "rounds near the shares of entities by weight, then of their jobs (Gavel)"
    }
