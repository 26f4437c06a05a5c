"""What a simulation in rounds runs on and replays: unlike GPUs, gangs, and what rounds cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.errors import FieldError
from lyra_opt.simulation.workload import require_submission_order
from lyra_opt.validation import require_number, require_text

if TYPE_CHECKING:
    from lyra_opt.heterogeneous.instance import GangJob, GpuServer, GpuType

ROUND_S = 360.0
"""Gavel (OSDI 2020), in its code; Hadar's is the same, from memory."""

RESTART_S = 10.0
"""What a job pays that moves; Hadar's simulation, from memory with little confidence."""

MERGE_S = 10.0
"""What merging copies costs in a round. Assumed, as much as a restart: not published."""


@dataclass(frozen=True, kw_only=True)
class HeterogeneousWorkload:
    """Gangs in the order of submission.

    Parameters
    ----------
    name
        What it is called in results.
    jobs
        At least one, by release; equal times in file order. None runs at time 0.
    assumptions
        What is assumed of it, a sentence each; every result repeats them.
    """

    name: str
    jobs: tuple[GangJob, ...]
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text("name", self.name)
        if not self.jobs:
            raise FieldError("jobs", [], "must not be empty")
        require_submission_order("release_s", [(job.id, job.release_s) for job in self.jobs])
        for position, job in enumerate(self.jobs):
            if job.current:
                raise FieldError(f"jobs[{position}].current", dict(job.current), "must be empty")

    @property
    def first_submission_s(self) -> float:
        """When the first job is submitted."""
        return self.jobs[0].release_s

    @property
    def last_submission_s(self) -> float:
        """When the last job is submitted."""
        return self.jobs[-1].release_s


@dataclass(frozen=True, kw_only=True)
class HeterogeneousCluster:
    """Servers with GPUs of one or more kinds.

    Parameters
    ----------
    name
        What it is called in results.
    gpu_types, servers
        At least one of each, unique, servers with GPUs of these types alone.
    assumptions
        What is assumed of it, a sentence each; every result repeats them.
    """

    name: str
    gpu_types: tuple[GpuType, ...]
    servers: tuple[GpuServer, ...]
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text("name", self.name)
        for field_name in ("gpu_types", "servers"):
            if not getattr(self, field_name):
                raise FieldError(field_name, [], "must not be empty")
        known: set[str] = set()
        for position, gpu_type in enumerate(self.gpu_types):
            if gpu_type.name in known:
                raise FieldError(f"gpu_types[{position}].name", gpu_type.name, "must be unique")
            known.add(gpu_type.name)
        ids: set[str] = set()
        for position, server in enumerate(self.servers):
            if server.id in ids:
                raise FieldError(f"servers[{position}].id", server.id, "must be unique")
            ids.add(server.id)
            for name in server.gpus:
                if name not in known:
                    rule = f"must be one of the gpu_types: {', '.join(sorted(known))}"
                    raise FieldError(f"servers[{position}].gpus", name, rule)

    @cached_property
    def gpus_of_type(self) -> dict[str, int]:
        """GPUs of each type, by name in file order."""
        return {
            gpu_type.name: sum(server.gpus.get(gpu_type.name, 0) for server in self.servers)
            for gpu_type in self.gpu_types
        }

    @cached_property
    def most_on_a_server(self) -> dict[str, int]:
        """GPUs of each type on the server that has most of them."""
        return {
            gpu_type.name: max(server.gpus.get(gpu_type.name, 0) for server in self.servers)
            for gpu_type in self.gpu_types
        }

    @property
    def gpus(self) -> int:
        """All of them."""
        return sum(self.gpus_of_type.values())

    def rates_of(self, job: GangJob) -> dict[str, float]:
        """Return the best steps a second of a job on each type alone that can hold its gang.

        Types on which it has no rate are left out.
        """
        rates: dict[str, float] = {}
        for name, count in self.gpus_of_type.items():
            found = 0.0
            if job.gang <= self.most_on_a_server[name]:
                found = job.rate((name,), is_spread=False)
            has_several = count > self.most_on_a_server[name]
            if has_several and 1 < job.gang <= count:
                found = max(found, job.rate((name,), is_spread=True))
            if found > 0:
                rates[name] = found
        return rates

    def holds(self, job: GangJob) -> bool:
        """Whether there is a type of GPUs on which alone the job can run.

        A gang that needs GPUs of several types at once would wait for ever under most policies.
        """
        return bool(self.rates_of(job))

    def holds_on_a_server(self, job: GangJob) -> bool:
        """Whether there is a server with GPUs of one type on which alone the job can run."""
        return any(
            job.gang <= count and job.rate((name,), is_spread=False) > 0
            for name, count in self.most_on_a_server.items()
        )


LEAST_EFFICIENCY = 1e-3
"""Of copies; with less a simulation may hardly come to an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOptions:
    """How the cluster behaves whatever the policy.

    Parameters
    ----------
    round_s
        Length of a round, above 0. Rounds begin at its multiples.
    restart_s
        Lost to a gang, or a copy of it, at the start of a round in which it runs elsewhere than in
        the round before, its first one included: a checkpoint is written and read, and the
        program is started.
    merge_s
        Lost to a job at the end of a round in which it has more than one copy.
    copy_efficiency
        phi(1), phi(2), ...: what a step of so many copies is worth, above 0 and at most 1, phi(1)
        = 1; the last one holds for more copies. Averaging models may cost steps.
    seed
        For policies that draw.

    Raises
    ------
    FieldError
        If a value breaks its rule, or restart and merge leave nothing of a round.
    """

    round_s: float = ROUND_S
    restart_s: float = RESTART_S
    merge_s: float = MERGE_S
    copy_efficiency: tuple[float, ...] = (1.0,)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("round_s", "restart_s", "merge_s"):
            number = require_number(name, getattr(self, name), minimum=0, above=name == "round_s")
            object.__setattr__(self, name, number)
        for name in ("restart_s", "merge_s"):
            if getattr(self, name) >= self.round_s:
                rule = f"must be below round_s, {self.round_s:g}"
                raise FieldError(name, getattr(self, name), rule)
        if self.restart_s + self.merge_s >= self.round_s:
            rule = f"must leave some of a round of {self.round_s:g} s beside restart_s"
            raise FieldError("merge_s", self.merge_s, rule)
        if not self.copy_efficiency:
            raise FieldError("copy_efficiency", [], "must not be empty")
        for position, share in enumerate(self.copy_efficiency):
            field_name = f"copy_efficiency[{position}]"
            if require_number(field_name, share, minimum=LEAST_EFFICIENCY) > 1:
                raise FieldError(field_name, share, "must be at most 1")
        if self.copy_efficiency[0] != 1:
            raise FieldError("copy_efficiency[0]", self.copy_efficiency[0], "must be 1")

    def efficiency(self, copies: int) -> float:
        """Return phi of so many copies, at least 1."""
        return self.copy_efficiency[min(copies, len(self.copy_efficiency)) - 1]

    def round_from(self, time_s: float) -> int:
        """Return the number of the first round that begins at a moment or after it."""
        number = math.floor(time_s / self.round_s)
        while number * self.round_s < time_s:
            number += 1
        return number
