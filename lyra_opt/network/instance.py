"""The network problem: which waiting gangs start now, and how close together.

Source: Dally (arXiv 2401.16492) as its first author's public simulator has it; that publishes a
heuristic alone, the optimisation problem is ours. See `formulations/network/README.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import (
    require_choice,
    require_flag,
    require_integer,
    require_number,
    require_text,
)
from lyra_opt.core.variant import Variant
from lyra_opt.network.links import TIER_OF_LABEL, Tier

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_GPUS = 1_000_000
LARGEST_NUMBER = 1e12
"""Of waits and weights; beyond, sums lose what they are made of."""


class Objective(Variant):
    """What is maximised; the variants of the problem."""

    EPOCH = "epoch", "max", 1e-6
    """Computing GPUs, weighted by how much the network has hurt a job and how long it waits."""
    WORK_RATE = "work_rate", "max", 1e-6
    """Computing GPUs: work that is done a second."""
    FEWEST_TIERS = "fewest_tiers", "max"
    """As many GPUs at work as can be, and gangs across as few tiers as can be for that."""
    LEAST_FRAGMENTATION = "least_fragmentation", "max"
    """As many GPUs at work as can be, and as few machines partly free as can be for that."""


COUNTING_OBJECTIVES = frozenset({Objective.FEWEST_TIERS, Objective.LEAST_FRAGMENTATION})
"""Whose values are integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine and what is free on it.

    Parameters
    ----------
    id
        Unique in the instance.
    rack
        The rack that it stands in.
    gpus
        All of them, at least 1.
    free_gpus
        From 0 to `gpus`.
    affinity
        Size of the gangs that it is kept for, None if for none; only `gandiva-affinity` asks.
    """

    id: str
    rack: str
    gpus: int
    free_gpus: int
    affinity: int | None = None

    def __post_init__(self) -> None:
        require_text("id", self.id)
        require_text("rack", self.rack)
        require_integer("gpus", self.gpus, minimum=1)
        if require_integer("free_gpus", self.free_gpus, minimum=0) > self.gpus:
            rule = f"must be at most the machine's gpus, {self.gpus}"
            raise FieldError("free_gpus", self.free_gpus, rule)
        if self.affinity is not None:
            require_integer("affinity", self.affinity, minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A gang that holds no GPUs.

    Parameters
    ----------
    id
        Unique in the instance.
    gang
        Its GPUs; all or none.
    efficiency
        Share of the time in which it computes, by tier (``machine``, ``rack``, ``network``), above
        0 and at most 1; it cannot run at tiers that are left out. One tier at least.
    score
        Dally's Nw_sens, 0 to 1: 0 for a job that has not run, near 0 for one that the network has
        slowed, 1 for one that it has not; `lyra_opt.simulation.network.sensitivity`.
    waiting_s
        How long it has waited, at least 0.
    rack_timer_s, network_timer_s
        How long it waits before it accepts machines of one rack, and machines of several, at least
        0; None for ever. Gangs that no machine (no rack) could hold do not wait for one.
    weight
        What its computing counts for, above 0; for ``epoch`` and ``work_rate``.
    remaining_s
        How long it would still run if the network cost nothing, above 0; for rules that ask.
    attained_gpu_s
        GPU-seconds that it has had, at least 0; for rules that ask.
    needs_consolidation
        Whether Tiresias counts its model among those that it keeps together; for rules that ask.
    """

    id: str
    gang: int
    efficiency: Mapping[str, float]
    score: float = 0.0
    waiting_s: float = 0.0
    rack_timer_s: float | None = 0.0
    network_timer_s: float | None = 0.0
    weight: float = 1.0
    remaining_s: float = 3600.0
    attained_gpu_s: float = 0.0
    needs_consolidation: bool = True

    def __post_init__(self) -> None:
        require_text("id", self.id)
        require_integer("gang", self.gang, minimum=1)
        if self.gang > MOST_GPUS:
            raise FieldError("gang", self.gang, f"must be at most {MOST_GPUS}")
        if not self.efficiency:
            raise FieldError("efficiency", {}, "must have at least one tier")
        for label in self.efficiency:
            if label not in TIER_OF_LABEL:
                rule = f"unknown key; the known keys are {', '.join(TIER_OF_LABEL)}"
                raise FieldError(f"efficiency.{label}", self.efficiency[label], rule)
            if self.gang == 1 and label != Tier.MACHINE.label:
                rule = "must not be there: a gang of 1 spans nothing"
                raise FieldError(f"efficiency.{label}", self.efficiency[label], rule)
        efficiency = {
            label: self._share(f"efficiency.{label}", self.efficiency[label], above=True)
            for label in TIER_OF_LABEL
            if label in self.efficiency
        }
        object.__setattr__(self, "efficiency", efficiency)
        object.__setattr__(self, "score", self._share("score", self.score))
        for name in ("waiting_s", "attained_gpu_s"):
            self._keep_float(name)
        for name in ("weight", "remaining_s"):
            self._keep_float(name, above=True)
        for name in ("rack_timer_s", "network_timer_s"):
            if getattr(self, name) is not None:
                try:
                    self._keep_float(name)
                except FieldError as error:
                    rule = f"{error.rule}, or null for ever"
                    raise FieldError(name, error.value, rule) from None
        require_flag("needs_consolidation", self.needs_consolidation)

    def _keep_float(self, name: str, *, above: bool = False) -> None:
        number = require_number(name, getattr(self, name), minimum=0, above=above)
        if number > LARGEST_NUMBER:
            raise FieldError(name, number, f"must be at most {LARGEST_NUMBER:g}")
        object.__setattr__(self, name, number)

    @staticmethod
    def _share(name: str, value: object, *, above: bool = False) -> float:
        number = require_number(name, value, minimum=0, above=above)
        if number > 1:
            raise FieldError(name, value, "must be at most 1")
        return number


@dataclass(frozen=True, kw_only=True)
class NetworkInstance:
    """Which waiting gangs start now, and where.

    Parameters
    ----------
    name
        Its name, used to match solutions.
    objective
        What is maximised.
    machines, jobs
        In file order; at least one of each, at most 1,000,000 GPUs.
    waiting_weight_per_s
        What a second of waiting adds to the weight of a job, for ``epoch``; at least 0.

    Raises
    ------
    FieldError
        If any rule is broken; names the field, its value and the rule.
    """

    name: str
    objective: Objective
    machines: tuple[Machine, ...]
    jobs: tuple[WaitingJob, ...]
    waiting_weight_per_s: float = 1e-6

    def __post_init__(self) -> None:
        require_text("name", self.name)
        objective = require_choice("objective", self.objective, [str(o) for o in Objective])
        object.__setattr__(self, "objective", Objective(objective))
        for name in ("machines", "jobs"):
            if not getattr(self, name):
                raise FieldError(name, [], "must have at least one entry")
            seen: set[str] = set()
            for position, entry in enumerate(getattr(self, name)):
                if entry.id in seen:
                    raise FieldError(f"{name}[{position}].id", entry.id, "must be unique")
                seen.add(entry.id)
        gpus = 0
        for position, machine in enumerate(self.machines):
            gpus += machine.gpus
            if gpus > MOST_GPUS:
                rule = f"all machines up to this one must have at most {MOST_GPUS} GPUs"
                raise FieldError(f"machines[{position}].gpus", machine.gpus, rule)
        weight = require_number("waiting_weight_per_s", self.waiting_weight_per_s, minimum=0)
        if weight > 1:
            raise FieldError("waiting_weight_per_s", weight, "must be at most 1")
        object.__setattr__(self, "waiting_weight_per_s", weight)

    @property
    def variant(self) -> Objective:
        """The objective, with its sense."""
        return self.objective

    @cached_property
    def job_position(self) -> dict[str, int]:
        """File position of each job by id."""
        return {job.id: position for position, job in enumerate(self.jobs)}

    @cached_property
    def machine_position(self) -> dict[str, int]:
        """File position of each machine by id."""
        return {machine.id: position for position, machine in enumerate(self.machines)}

    @cached_property
    def racks(self) -> dict[str, tuple[int, ...]]:
        """File positions of the machines of each rack, by name in order of appearance."""
        found: dict[str, list[int]] = {}
        for position, machine in enumerate(self.machines):
            found.setdefault(machine.rack, []).append(position)
        return {rack: tuple(positions) for rack, positions in found.items()}

    @cached_property
    def largest_machine_gpus(self) -> int:
        """GPUs of the largest machine, free or not; Dally's g_m."""
        return max(machine.gpus for machine in self.machines)

    @cached_property
    def largest_rack_gpus(self) -> int:
        """GPUs of the largest rack, free or not; Dally's g_r."""
        return max(
            sum(self.machines[position].gpus for position in positions)
            for positions in self.racks.values()
        )

    @cached_property
    def free_gpus(self) -> int:
        """All GPUs that are free."""
        return sum(machine.free_gpus for machine in self.machines)

    def tier_of(self, machines: Mapping[str, int]) -> Tier:
        """Return what a gang on these machines, at least one, spans."""
        if len(machines) == 1:
            return Tier.MACHINE
        racks = {self.machines[self.machine_position[machine]].rack for machine in machines}
        return Tier.RACK if len(racks) == 1 else Tier.NETWORK

    def tiers_of(self, job: WaitingJob) -> tuple[Tier, ...]:
        """Return the tiers at which a job accepts to run now: it can, and its timers allow it.

        Source: Dally's placement (its simulator); a timer that has run for exactly its time is
        over. Whether GPUs are free is another matter.
        """
        return tuple(
            tier
            for tier in Tier
            if tier.label in job.efficiency and not self._is_held_back(job, tier)
        )

    def _is_held_back(self, job: WaitingJob, tier: Tier) -> bool:
        if tier is Tier.MACHINE:
            return False
        if tier is Tier.RACK:
            timer_s, size = job.rack_timer_s, self.largest_machine_gpus
        else:
            timer_s, size = job.network_timer_s, self.largest_rack_gpus
        if job.gang > size:
            return False
        return timer_s is None or job.waiting_s < timer_s

    @cached_property
    def gpu_points(self) -> int:
        """What a GPU at work counts for in the objectives that count: more than all else does."""
        if self.objective is Objective.FEWEST_TIERS:
            return 2 * len(self.jobs) + 1
        return len(self.machines) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlacement:
    """Where a gang starts.

    Parameters
    ----------
    job
        Its id.
    tier
        What its machines span: ``machine``, ``rack`` or ``network``.
    gpus
        GPUs by machine, as many as its gang.
    """

    job: str
    tier: str
    gpus: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_text("job", self.job)
        require_choice("tier", self.tier, TIER_OF_LABEL)
        if not self.gpus:
            raise FieldError("gpus", {}, "must not be empty")
        for machine, count in self.gpus.items():
            require_text("gpus", machine)
            require_integer(f"gpus.{machine}", count, minimum=1)


@dataclass(frozen=True, slots=True)
class NetworkSolution:
    """Which gangs start where; `check` judges it. Jobs left out go on waiting."""

    placements: tuple[GangPlacement, ...]
