"""What a simulation with leases runs on and replays: a network of tiers, gangs, and leases."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lyra_opt.errors import FieldError, UserError
from lyra_opt.network.communication import ClosedForm, CommunicationModel
from lyra_opt.simulation.workload import require_submission_order
from lyra_opt.validation import require_integer, require_number, require_text

if TYPE_CHECKING:
    from lyra_opt.network.topology import Topology

LEASE_S = 3600.0
"""An hour; so Dally's README suggests, whose sample configuration says 20 units of time."""

HAND_OVER_S_PER_GPU = 1.0
"""For which each GPU of a gang stays idle when it gives them back, for each GPU of the gang; from
Dally's public simulator."""


LEAST_LEASE_S, MOST_LEASE_S = 1.0, 1e9
MOST_HAND_OVER_S_PER_GPU = 1e9
MOST_ELAPSED_S = 1e12
"""Of submissions and work; beyond, a second more is lost in rounding soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkJob:
    """A training job with a gang of fixed size.

    Parameters
    ----------
    id
        Unique in the workload.
    submit_s
        When it is submitted, from 0 to 1e12.
    gang
        Its GPUs, all or none, at least 1.
    work_gpu_s
        GPU-seconds of computing, above 0 and at most 1e12: how long it takes on a single GPU.
    model
        What it trains, as the communication model knows it.
    """

    id: str
    submit_s: float
    gang: int
    work_gpu_s: float
    model: str

    def __post_init__(self) -> None:
        require_text("id", self.id)
        require_text("model", self.model)
        require_integer("gang", self.gang, minimum=1)
        for name in ("submit_s", "work_gpu_s"):
            number = require_number(
                name, getattr(self, name), minimum=0, above=name == "work_gpu_s"
            )
            if number > MOST_ELAPSED_S:
                raise FieldError(name, getattr(self, name), f"must be at most {MOST_ELAPSED_S:g}")
            object.__setattr__(self, name, number)

    @property
    def ideal_s(self) -> float:
        """How long it runs if the network costs nothing; Dally's tau*."""
        return self.work_gpu_s / self.gang


@dataclass(frozen=True, kw_only=True)
class NetworkWorkload:
    """Gangs in the order of submission.

    Parameters
    ----------
    name
        What it is called in results.
    jobs
        At least one, by submission; equal times in file order.
    assumptions
        What is assumed of it, a sentence each; every result repeats them.
    """

    name: str
    jobs: tuple[NetworkJob, ...]
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text("name", self.name)
        if not self.jobs:
            raise FieldError("jobs", [], "must not be empty")
        require_submission_order("submit_s", [(job.id, job.submit_s) for job in self.jobs])

    @property
    def gpu_work_s(self) -> float:
        """GPU-seconds of computing of all jobs."""
        return math.fsum(job.work_gpu_s for job in self.jobs)


@dataclass(frozen=True, kw_only=True)
class NetworkCluster:
    """Racks of machines of GPUs, and what it costs to talk across them.

    Parameters
    ----------
    topology
        The tree.
    communication
        How well a gang computes where it is placed.
    network
        What the links are called in results.
    assumptions
        What is assumed of it, a sentence each; every result repeats them.
    """

    topology: Topology
    communication: CommunicationModel = field(default_factory=ClosedForm)
    network: str = "shipped"
    assumptions: tuple[str, ...] = ()

    def require_runs(self, workload: NetworkWorkload) -> None:
        """Check that each job fits the empty cluster, and that its model is known.

        Raises
        ------
        UserError
            That names the first job that can never run, and why.
        """
        known = self.communication.models()
        for job in workload.jobs:
            if job.gang > self.topology.gpus:
                raise UserError(
                    f"job {job.id} has a gang of {job.gang}, but cluster {self.topology.name} has "
                    f"{self.topology.gpus} GPUs; --drop-oversized leaves such jobs out"
                )
            if job.model not in known:
                raise self.communication.unknown(job.model, job.id)
            self.communication.tier_efficiency(job.model, job.gang, self.topology)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOptions:
    """How the cluster behaves whatever the rule.

    Parameters
    ----------
    lease_s
        For how long a gang holds its GPUs before it gives all of them back, from 1 to 1e9.
    hand_over_s_per_gpu
        For how long released GPUs stay idle, for each GPU of the gang that released them, from 0
        to 1e9.
    seed
        For rules that draw.
    """

    lease_s: float = LEASE_S
    hand_over_s_per_gpu: float = HAND_OVER_S_PER_GPU
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("lease_s", LEAST_LEASE_S, MOST_LEASE_S),
            ("hand_over_s_per_gpu", 0.0, MOST_HAND_OVER_S_PER_GPU),
        ):
            number = require_number(name, getattr(self, name), minimum=least)
            if number > most:
                raise FieldError(name, getattr(self, name), f"must be at most {most:g}")
            object.__setattr__(self, name, number)
