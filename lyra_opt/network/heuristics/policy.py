"""Rules that decide which waiting gangs start where, and what they decide on.

A policy sees a `PlacementState` and returns `Grant`s. The same objects answer standalone instances
(`lyra_opt.network.heuristics.policy_solver`) and run the simulated cluster
(`lyra_opt.simulation.policies.placing_gangs`): no rule is written twice. States are arrays, because
a simulation makes one at every event.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.errors import require_returned
from lyra_opt.core.solver import Answering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.network.links import Tier


@dataclass(slots=True, kw_only=True)
class MachineState:
    """Machines, those of a rack next to each other.

    Parameters
    ----------
    gpus, free_gpus
        Of each machine, free or not, and free; int64, shape (machines,).
    first_machine_of_rack
        First machine of each rack, then the number of machines; int64, shape (racks + 1,).
    affinity
        Size of the gangs that each machine is kept for, 0 for none; int64, shape (machines,).
        A policy may write it, and finds it as it left it.

    Attributes
    ----------
    rack_of_machine
        Rack of each machine.
    largest_machine_gpus, largest_rack_gpus
        Dally's g_m and g_r.
    """

    gpus: np.ndarray
    free_gpus: np.ndarray
    first_machine_of_rack: np.ndarray
    affinity: np.ndarray
    rack_of_machine: list[int] = field(init=False)
    largest_machine_gpus: int = field(init=False)
    largest_rack_gpus: int = field(init=False)

    def __post_init__(self) -> None:
        # Kept, because a simulation asks for them at every decision.
        first = self.first_machine_of_rack
        self.rack_of_machine = np.repeat(np.arange(len(first) - 1), np.diff(first)).tolist()
        self.largest_machine_gpus = int(self.gpus.max())
        self.largest_rack_gpus = int(np.add.reduceat(self.gpus, first[:-1]).max())


@dataclass(slots=True, kw_only=True)
class WaitingGangs:
    """Gangs that hold no GPUs, in a documented order that breaks ties.

    Parameters
    ----------
    ids
        Names, for messages.
    gang
        GPUs of each; int64, shape (jobs,).
    efficiency
        At each tier, 0 where it cannot run; float64, shape (jobs, 3).
    score
        Dally's Nw_sens, 0 to 1.
    waiting_s
        How long each has waited since it last held GPUs, or since it was submitted.
    weight
        What its computing counts for.
    remaining_s
        How long it would still run if the network cost nothing, above 0.
    attained_gpu_s
        GPU-seconds that it has had.
    needs_consolidation
        Whether Tiresias counts its model among those that it keeps together; bool.
    rack_timer_s, network_timer_s
        Timers given with the job, inf for ever; rules with timers of their own do not ask.

    All arrays but `efficiency` have the shape (jobs,), float64 where nothing else is said.
    """

    ids: Sequence[str]
    gang: np.ndarray
    efficiency: np.ndarray
    score: np.ndarray
    waiting_s: np.ndarray
    weight: np.ndarray
    remaining_s: np.ndarray
    attained_gpu_s: np.ndarray
    needs_consolidation: np.ndarray
    rack_timer_s: np.ndarray
    network_timer_s: np.ndarray

    def __len__(self) -> int:
        return len(self.gang)


@dataclass(slots=True, kw_only=True)
class RunningGangs:
    """Gangs that hold GPUs, for policies that migrate them.

    Parameters
    ----------
    ids, gang, efficiency
        As in `WaitingGangs`.
    tier
        What each spans; int64, shape (jobs,).
    placements
        GPUs by machine of each.
    """

    ids: Sequence[str]
    gang: np.ndarray
    efficiency: np.ndarray
    tier: np.ndarray
    placements: Sequence[dict[int, int]]


@dataclass(slots=True, kw_only=True)
class PlacementState:
    """What a policy decides on.

    Parameters
    ----------
    now_s
        Time of the decision.
    lease_s
        For how long a gang may hold its GPUs before it has to give them back; the unit in which
        Dally's timers are counted.
    waiting_weight_per_s
        What a second of waiting adds to the weight of a job in the epoch's objective.
    machines, waiting
        Of the cluster, and gangs without GPUs.
    """

    now_s: float
    lease_s: float
    machines: MachineState
    waiting: WaitingGangs
    waiting_weight_per_s: float = 1e-6


@dataclass(frozen=True, slots=True)
class Grant:
    """GPUs for a gang.

    Parameters
    ----------
    job
        Its position among the waiting gangs, or, to migrate it, among the running ones.
    tier
        What its machines span; no gang is split beyond it.
    gpus
        By machine, as many as its gang.
    """

    job: int
    tier: Tier
    gpus: dict[int, int]


def require_grants(method: Any, grants: Sequence[Grant], gangs: range, machines: range) -> None:
    """Check that the grants that a method of a policy returned hold positions.

    Raises
    ------
    ReturnedError
        Naming what is not a position among `gangs` or `machines`, such as an id.
    """
    jobs = (grant.job for grant in grants)
    require_returned(method, jobs, gangs, "positions of gangs, not ids")
    for grant in grants:
        require_returned(method, grant.gpus, machines, "positions of machines, not ids")


class PlacementPolicy(Answering, ABC):
    """A rule that says which waiting gangs start where.

    An object is for one run: it may remember what it has decided. `prepare` is called once,
    before the first decision.
    """

    problem = "network"

    name: str
    repeats_itself = False
    """Whether it gives a gang that is alone in the cluster the same GPUs whenever it has waited for
    the same time, however much it has done; then a simulation skips leases that are all alike."""

    def prepare(self, machines: MachineState, lease_s: float, rng: np.random.Generator) -> None:
        """Look at the cluster before the first decision."""

    @abstractmethod
    def decide(self, state: PlacementState) -> list[Grant]:
        """Return who starts where; gangs left out go on waiting.

        No GPU is given twice, each gang gets all its GPUs or none, `Grant.tier` is what its
        machines span, and its efficiency there is above 0. `state` is not changed, but for
        `MachineState.affinity`.
        """

    def next_decision_s(self, state: PlacementState) -> float:  # noqa: ARG002
        """Return the seconds after which the rule may accept what it has just refused.

        Asked after `decide`, with the GPUs left and the gangs that still wait. Infinite where only
        other events can change its mind.
        """
        return math.inf

    def held_s(self, state: PlacementState) -> list[tuple[float, float]] | None:  # noqa: ARG002
        """Return how long each waiting gang is held back from a rack and from the network.

        For captured decisions; None where the rule has no timers but those given with the jobs.
        """
        return None

    def migrate(self, state: PlacementState, running: RunningGangs) -> list[Grant]:  # noqa: ARG002
        """Return where running gangs go instead, onto GPUs that are free now.

        Asked after `decide`, with the GPUs left.
        """
        return []
