"""What a simulation runs on: kinds of GPUs, servers in racks, loans over time, and their rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.errors import FieldError
from lyra_opt.validation import require_integer, require_number, require_text

if TYPE_CHECKING:
    from lyra_opt.simulation.workload import TrainingJob

PREEMPTION_S = 63.0
"""What a preempted job pays when it starts again; Lyra (EuroSys 2023), section 7.5."""

MIXED_EFFICIENCY = 0.7
"""Throughput of a job on both kinds of GPUs, as a share of the ideal; Lyra, section 7.1."""

SCALING_INTERVAL_S = 60.0
"""How often elastic jobs are resized at most. Lyra does not state its own interval."""

REPLICA_TOLERANCE = 1e-9
"""Part of a GPU that is taken for a rounding error of a relative speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """A kind of GPU.

    Parameters
    ----------
    name
        What it is called in results.
    relative_speed
        Work that one does in the time in which a training GPU does 1, above 0 and at most 1.
    """

    name: str
    relative_speed: float = 1.0

    def __post_init__(self) -> None:
        require_text("name", self.name)
        speed = require_number("relative_speed", self.relative_speed, minimum=0, above=True)
        if speed > 1:
            raise FieldError("relative_speed", self.relative_speed, "must be at most 1")
        object.__setattr__(self, "relative_speed", speed)

    @property
    def replicas(self) -> int:
        """Fewest GPUs of this kind that together are at least as fast as a training GPU."""
        return math.ceil(1 / self.relative_speed - REPLICA_TOLERANCE)

    @property
    def worker_speed(self) -> float:
        """Work that so many `replicas` do while a training GPU does 1; at least 1."""
        return max(1.0, self.replicas * self.relative_speed)


INFERENCE_GPU = GpuType(name="T4", relative_speed=1 / 3)
"""Three do what one V100 does; Lyra (EuroSys 2023), section 7.5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Training servers, and the inference servers that can be borrowed.

    Parameters
    ----------
    servers, gpus_per_server
        Of the training cluster.
    servers_per_rack
        Of the training cluster, numbered rack by rack; None where racks do not matter.
    inference_servers, inference_gpus_per_server
        Of the inference cluster; none by default.
    inference_gpu
        What its GPUs are, beside those of the training cluster, whose speed is 1.
    """

    servers: int
    gpus_per_server: int = 8
    servers_per_rack: int | None = None
    inference_servers: int = 0
    inference_gpus_per_server: int = 8
    inference_gpu: GpuType = INFERENCE_GPU

    def __post_init__(self) -> None:
        require_integer("servers", self.servers, minimum=1)
        require_integer("gpus_per_server", self.gpus_per_server, minimum=1)
        if self.servers_per_rack is not None:
            require_integer("servers_per_rack", self.servers_per_rack, minimum=1)
        require_integer("inference_servers", self.inference_servers, minimum=0)
        require_integer("inference_gpus_per_server", self.inference_gpus_per_server, minimum=1)

    @property
    def gpus(self) -> int:
        """GPUs of the training cluster."""
        return self.servers * self.gpus_per_server

    def holds(self, job: TrainingJob) -> bool:
        """Whether the base demand of a job fits the empty training cluster."""
        per_server = self.gpus_per_server // job.gpus_per_worker
        return per_server * self.servers >= job.min_workers

    def rack_of(self, server: int) -> int:
        """Return the rack of a training server; `ValueError` where racks do not matter."""
        if self.servers_per_rack is None:
            raise ValueError("the cluster says nothing of racks")
        return server // self.servers_per_rack


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanPlan:
    """How many inference servers are lent over time, decided before the simulation.

    Parameters
    ----------
    interval_s
        Time between two decisions.
    on_loan
        Servers on loan from each decision on; the last one holds for ever.
    busy_share
        Share of the inference cluster's GPUs that serve in each interval; the last one holds for
        ever.
    """

    interval_s: float
    on_loan: tuple[int, ...]
    busy_share: tuple[float, ...]

    def __post_init__(self) -> None:
        require_number("interval_s", self.interval_s, minimum=0, above=True)
        for field_name in ("on_loan", "busy_share"):
            if not getattr(self, field_name):
                raise FieldError(field_name, [], "must not be empty")
        for position, servers in enumerate(self.on_loan):
            require_integer(f"on_loan[{position}]", servers, minimum=0)
        for position, share in enumerate(self.busy_share):
            if require_number(f"busy_share[{position}]", share, minimum=0) > 1:
                raise FieldError(f"busy_share[{position}]", share, "must be at most 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the cluster behaves whatever the scheme.

    Parameters
    ----------
    seed
        For schemes that draw.
    preemption_s
        Seconds that a preempted job holds its GPUs for before it goes on.
    mixed_efficiency
        Throughput of a job on both kinds of GPUs at once, as a share of the ideal.
    scaling_interval_s
        Least time between two resizings of elastic jobs; 0 resizes at every event.
    """

    seed: int = 0
    preemption_s: float = PREEMPTION_S
    mixed_efficiency: float = MIXED_EFFICIENCY
    scaling_interval_s: float = SCALING_INTERVAL_S

    def __post_init__(self) -> None:
        require_number("preemption_s", self.preemption_s, minimum=0)
        if require_number("mixed_efficiency", self.mixed_efficiency, minimum=0, above=True) > 1:
            raise FieldError("mixed_efficiency", self.mixed_efficiency, "must be at most 1")
        require_number("scaling_interval_s", self.scaling_interval_s, minimum=0)
