"""Placement policies for waiting gangs: their interface and their input.

A policy receives a `PlacementState` and returns `Grant`s. The same policy objects solve standalone
instances (`lyra_opt.network.heuristics.policy_solver`) and run the simulated cluster
(`lyra_opt.simulation.policies.placing_gangs`), so each rule is written once. States are arrays,
because a simulation builds one at every event.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lyra_opt.core.errors import require_returned
from lyra_opt.core.solver import Answering
from lyra_opt.network.links import Tier


@dataclass(slots=True, kw_only=True)
class MachineState:
    """The machines of the cluster, with machines of a rack adjacent.

    Parameters
    ----------
    gpus, free_gpus
        Number of GPUs, and of free GPUs, of each machine; int64, shape (machines,).
    first_machine_of_rack
        Index of the first machine of each rack, then the number of machines; int64, shape (racks +
        1,).
    affinity
        Gang size for which each machine is reserved, 0 if unreserved; int64, shape (machines,).
        Policies may change it, and later decisions see the change.

    Attributes
    ----------
    rack_of_machine
        Rack of each machine.
    largest_machine_gpus, largest_rack_gpus
        GPUs of the largest machine and rack (Dally's g_m and g_r).
    """

    gpus: np.ndarray
    free_gpus: np.ndarray
    first_machine_of_rack: np.ndarray
    affinity: np.ndarray
    rack_of_machine: list[int] = field(init=False)
    largest_machine_gpus: int = field(init=False)
    largest_rack_gpus: int = field(init=False)

    def __post_init__(self) -> None:
        # These values are computed once, because a simulation needs them at every decision.
        first = self.first_machine_of_rack
        self.rack_of_machine = np.repeat(np.arange(len(first) - 1), np.diff(first)).tolist()
        self.largest_machine_gpus = int(self.gpus.max())
        self.largest_rack_gpus = int(np.add.reduceat(self.gpus, first[:-1]).max())


@dataclass(slots=True, kw_only=True)
class WaitingGangs:
    """The gangs that wait for GPUs, as arrays; their order breaks ties.

    Parameters
    ----------
    ids
        Ids of the jobs, for messages.
    gang
        Number of GPUs of each gang; int64, shape (jobs,).
    efficiency
        Efficiency at each tier, 0 where the gang cannot run; float64, shape (jobs, 3).
    score
        Dally's Nw_sens, 0 to 1.
    waiting_s
        Seconds since each gang last held GPUs, or since it was submitted.
    weight
        Weight of each job's computing GPUs.
    remaining_s
        Remaining run time without network costs, in seconds, above 0.
    attained_gpu_s
        GPU-seconds received so far.
    needs_consolidation
        Whether Tiresias keeps the job's model on one machine; bool.
    rack_timer_s, network_timer_s
        Timers stated with the job, inf to wait for ever; policies with their own timers ignore
        them.

    All arrays except `efficiency` have the shape (jobs,), and float64 unless stated otherwise.
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
    """Gangs that hold GPUs, for policies that migrate gangs.

    Parameters
    ----------
    ids, gang, efficiency
        As in `WaitingGangs`.
    tier
        Tier that each gang spans; int64, shape (jobs,).
    placements
        GPUs by machine of each gang.
    """

    ids: Sequence[str]
    gang: np.ndarray
    efficiency: np.ndarray
    tier: np.ndarray
    placements: Sequence[dict[int, int]]


@dataclass(slots=True, kw_only=True)
class PlacementState:
    """The machines and waiting gangs on which a policy decides.

    Parameters
    ----------
    now_s
        Time of the decision, in seconds.
    lease_s
        Time for which a gang may hold its GPUs before it must return them; also the unit of Dally's
        timers.
    waiting_weight_per_s
        Weight that a job gains per second of waiting, in the objective epoch.
    machines, waiting
        The machines of the cluster, and the gangs without GPUs.
    """

    now_s: float
    lease_s: float
    machines: MachineState
    waiting: WaitingGangs
    waiting_weight_per_s: float = 1e-6


@dataclass(frozen=True, slots=True)
class Grant:
    """The GPUs that a decision gives to a gang.

    Parameters
    ----------
    job
        Position of the gang among the waiting gangs, or among the running gangs if it migrates.
    tier
        Tier that the machines span; the gang is not split further.
    gpus
        Number of GPUs by machine, in total the gang.
    """

    job: int
    tier: Tier
    gpus: dict[int, int]


def require_grants(method: Any, grants: Sequence[Grant], gangs: range, machines: range) -> None:
    """Check that a policy method returned grants with valid positions.

    Raises
    ------
    ReturnedError
        If a grant contains something else than a position among `gangs` or `machines`, such as an
        id.
    """
    jobs = (grant.job for grant in grants)
    require_returned(method, jobs, gangs, "positions of gangs, not ids")
    for grant in grants:
        require_returned(method, grant.gpus, machines, "positions of machines, not ids")


class PlacementPolicy(Answering, ABC):
    """A policy that decides which waiting gangs start, and on which GPUs.

    An object serves one run, so it may remember earlier decisions. `prepare` is called once, before
    the first decision.
    """

    problem = "network"

    name: str
    repeats_itself = False
    """Whether a gang alone in the cluster gets the same GPUs whenever it has waited equally long,
    whatever its progress; a simulation then skips leases that are all alike."""

    def prepare(self, machines: MachineState, lease_s: float, rng: np.random.Generator) -> None:
        """Read the cluster before the first decision."""

    @abstractmethod
    def decide(self, state: PlacementState) -> list[Grant]:
        """Return a grant for each gang that starts; other gangs keep waiting.

        No GPU is given twice, and each gang gets all its GPUs or none. `Grant.tier` is the tier
        that its machines span, and its efficiency there is above 0. Only `MachineState.affinity` of
        `state` may be changed.
        """

    def next_decision_s(self, state: PlacementState) -> float:  # noqa: ARG002
        """Return the seconds after which the policy may accept a placement that it just refused.

        Called after `decide`, with the remaining GPUs and waiting gangs. Infinite if only other
        events can change the decision.
        """
        return math.inf

    def held_s(self, state: PlacementState) -> list[tuple[float, float]] | None:  # noqa: ARG002
        """Return how long each waiting gang must wait for a rack and for the network, in seconds.

        Used for captured decisions; None if the policy has no timers of its own.
        """
        return None

    def migrate(self, state: PlacementState, running: RunningGangs) -> list[Grant]:  # noqa: ARG002
        """Return grants that move running gangs to GPUs that are free now.

        Called after `decide`, with the remaining GPUs.
        """
        return []
