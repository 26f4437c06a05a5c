"""Base classes of the reclaim families: they draw servers and jobs, and build the instance."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.family_parameters import ReclaimParameters, counted
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.reclaim.instance import Instance, Job, Semantics, Server, Solution, WorkerGroup

GPUS_PER_SERVER = 8

ELASTIC_JOBS_PERCENT = 60
"""Percentage of the jobs with several workers that are elastic, in interchangeable instances."""

Allocation = dict[int, int]
"""The number of workers of one job on each server, by the index of the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Servers with jobs placed on them, without the number of servers to reclaim.

    Every worker holds one GPU and is a base worker; every job has weight 1.

    Parameters
    ----------
    server_ids
        The ids of the servers, in file order.
    gpus_per_server
        The number of GPUs of every server.
    jobs
        The id and the allocation of each job, in file order.
    """

    server_ids: Sequence[str]
    jobs: Sequence[tuple[str, Allocation]]
    gpus_per_server: int = GPUS_PER_SERVER

    @classmethod
    def numbered(cls, servers: int, allocations: Iterable[Allocation]) -> "Layout":
        """Return a layout of 8-GPU servers named s1, s2, ... and jobs named j1, j2, ..."""
        return cls(
            server_ids=numbered_ids("s", servers),
            jobs=[(f"j{number}", job) for number, job in enumerate(allocations, start=1)],
        )


def numbered_ids(prefix: str, count: int) -> list[str]:
    """Return the ids PREFIX1, PREFIX2, ... up to PREFIXCOUNT."""
    return [f"{prefix}{number}" for number in range(1, count + 1)]


class ReclaimFamily(ParameterisedFamily):
    """Base class of the families that generate reclaim instances.

    A subclass draws a `Layout`, and this class turns the layout into an instance. The layout, the
    servers that are not on loan, and the elastic jobs come from three independent random streams,
    which do not depend on the number of servers to reclaim. Instances that differ only in
    ``--reclaim``, ``--semantics`` or ``--off-loan-percent`` therefore have the same servers and
    jobs, and can be compared in pairs.
    """

    problem = "reclaim"
    parameters = ReclaimParameters
    required: ClassVar[tuple[str, ...]] = ("servers", "reclaim")
    optional: ClassVar[tuple[str, ...]] = ("semantics", "min_workers_percent", "off_loan_percent")

    @abstractmethod
    def _layout(self, parameters: ReclaimParameters, seed: int) -> Layout:
        """Return servers with placed jobs, independent of the number of servers to reclaim."""

    @abstractmethod
    def _size_label(self, parameters: ReclaimParameters) -> str:
        """Return the part of an instance's name for the parameters that determine the layout."""

    def check(self, parameters: Mapping[str, Any]) -> ReclaimParameters:
        """Return the parameters after checking them; `UserError` names option, value and rule."""
        sets_own_size = "servers" not in self.required
        checked: ReclaimParameters = super().check(
            counted(parameters, family=self.name, sets_own_size=sets_own_size)
        )
        return checked

    def is_seeded(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether different seeds give different instances for these parameters."""
        return self.is_drawn or self.check(parameters).needs_draws

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance for a seed; `UserError` if the parameters are not valid."""
        checked = self.check(parameters)
        layout = self._layout(checked, seed)
        off_loan = self._off_loan(checked, seed)
        min_workers = self._min_workers(checked, layout, seed)
        return Instance(
            name=self._instance_name(checked, seed),
            semantics=Semantics(checked.semantics),
            reclaim_servers=checked.reclaim,
            servers=tuple(
                Server(id=server, gpus=layout.gpus_per_server, on_loan=position not in off_loan)
                for position, server in enumerate(layout.server_ids)
            ),
            jobs=tuple(
                Job(
                    id=job,
                    workers=tuple(
                        WorkerGroup(server=layout.server_ids[server], base=workers)
                        for server, workers in sorted(allocation.items())
                    ),
                    min_workers=least,
                )
                for (job, allocation), least in zip(layout.jobs, min_workers, strict=True)
            ),
        )

    def _instance_name(self, parameters: ReclaimParameters, seed: int) -> str:
        size = f"{self._size_label(parameters)}-k{parameters.reclaim}"
        name = f"{self.name}-v{self.version}{size}{parameters.variant_label}"
        is_seeded = self.is_drawn or parameters.needs_draws
        return f"{name}-seed{seed}" if is_seeded else name

    def _off_loan(self, parameters: ReclaimParameters, seed: int) -> set[int]:
        """Return the indices of the servers that are not on loan."""
        stream = self._stream("off-loan", seed, servers=parameters.servers)
        return set(stream.sample(range(parameters.servers), parameters.off_loan_servers))

    def _min_workers(
        self, parameters: ReclaimParameters, layout: Layout, seed: int
    ) -> Sequence[int]:
        """Return the minimum number of workers of each job, which is lower for elastic jobs."""
        workers = [sum(allocation.values()) for _, allocation in layout.jobs]
        percent = parameters.min_workers_percent
        if percent is None:
            return workers
        stream = self._stream("min-workers", seed, servers=parameters.servers)
        return [
            -(-count * percent // 100)  # rounded up
            if count > 1 and stream.percent(ELASTIC_JOBS_PERCENT)
            else count
            for count in workers
        ]


@dataclass(frozen=True, kw_only=True)
class FleetFamily(ReclaimFamily):
    """A family that places random jobs on a given number of 8-GPU servers.

    Parameters
    ----------
    place
        A function that draws the allocations of the jobs for a given number of servers.
    require_servers
        A function that raises `UserError` if the family has no instance with so many servers.
    """

    place: Callable[[int, IntegerStream], Sequence[Allocation]]
    require_servers: Callable[[int], object] = lambda _: None

    def _require(self, parameters: ReclaimParameters) -> None:
        self.require_servers(parameters.servers)

    def _layout(self, parameters: ReclaimParameters, seed: int) -> Layout:
        stream = self._stream("layout", seed, servers=parameters.servers)
        return Layout.numbered(parameters.servers, self.place(parameters.servers, stream))

    def _size_label(self, parameters: ReclaimParameters) -> str:
        return f"-s{parameters.servers}"


@dataclass(frozen=True, slots=True)
class SolvedLayout:
    """Servers with placed jobs, an optimal choice of servers to take back, and its objective."""

    layout: Layout
    optimal_servers: range
    optimum: int


@dataclass(frozen=True, kw_only=True)
class SolvedFamily(ReclaimFamily):
    """A family with a known optimum, whose size depends only on ``--reclaim``.

    Parameters
    ----------
    construct
        A function that returns layout and optimum for a number of servers to reclaim.
    require_reclaim
        A function that raises `UserError` if this number of servers to reclaim is not possible.
    """

    required = ("reclaim",)
    optional = ()
    refusals: ClassVar[Mapping[str, str]] = {
        "servers": "--reclaim sets the number of servers",
        "semantics": "its optimum is known for the rigid semantics only",
        "min_workers_percent": "its optimum is known for the rigid semantics only",
        "off_loan_percent": "its optimum is known only if all servers are on loan",
    }
    is_drawn: bool = False
    construct: Callable[[int], SolvedLayout]
    require_reclaim: Callable[[int], object]

    def _require(self, parameters: ReclaimParameters) -> None:
        self.require_reclaim(parameters.reclaim)

    def _layout(self, parameters: ReclaimParameters, seed: int) -> Layout:  # noqa: ARG002
        return self.construct(parameters.reclaim).layout

    def _size_label(self, parameters: ReclaimParameters) -> str:  # noqa: ARG002
        return ""

    def known_optimum(self, parameters: Mapping[str, Any]) -> tuple[Solution, int]:
        """Return the solution that is optimal by construction, and its objective."""
        solved = self.construct(self.check(parameters).reclaim)
        chosen = [solved.layout.server_ids[position] for position in solved.optimal_servers]
        return Solution(tuple(chosen)), solved.optimum
