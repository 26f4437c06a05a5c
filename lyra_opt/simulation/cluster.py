"""Simulated clusters: servers with GPUs of one or more types, in racks, own or borrowed."""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from lyra_opt.core.errors import FieldError, methods_without_inner_frames
from lyra_opt.core.fields import declared, key
from lyra_opt.core.nearest_names import one_of
from lyra_opt.core.numbers import HOUR_S
from lyra_opt.core.representations import html_of_object, short_repr
from lyra_opt.core.rules import Flag, require_integer, require_number, require_text
from lyra_opt.heterogeneous import instance as heterogeneous
from lyra_opt.simulation.communication import CommunicationModel
from lyra_opt.simulation.quotas import Quotas
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.workload import WHOLE_GPU, Job

LEAST_RELATIVE_SPEED = 1e-6
"""Allowed relative speeds are from this to its inverse. Beyond, a value is surely a slip, and
rounding loses work.
"""

LENT = " (lent)"
"""Suffix for the name of a borrowed GPU type when own servers have a type of the same name."""

REPLICA_TOLERANCE = 1e-9
"""Fraction of a GPU that counts as a rounding error of a relative speed."""


DEFAULT_PRICE_PER_HOUR = 1.0
"""Price of a GPU whose type has no given price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuType:
    """A type of GPU with its speed and price.

    Parameters
    ----------
    name
        The name in results.
    relative_speed
        Work done while a reference GPU does 1, above 0; used for jobs without a measured throughput
        on this type.
    price_per_hour
        Price of one GPU for an hour, above 0.
    memory_mib
        Memory of one GPU in MiB, at least 1; None if unknown. Jobs that ask for memory need it.
    source
        Where speed and price come from, in words; empty if unknown.
    """

    name: str
    relative_speed: float = 1.0
    price_per_hour: float = DEFAULT_PRICE_PER_HOUR
    source: str = ""
    memory_mib: int | None = None

    def __post_init__(self) -> None:
        require_text("name", self.name)
        speed = require_number("relative_speed", self.relative_speed, minimum=0, above=True)
        if not LEAST_RELATIVE_SPEED <= speed <= 1 / LEAST_RELATIVE_SPEED:
            rule = f"must be from {LEAST_RELATIVE_SPEED:g} to {1 / LEAST_RELATIVE_SPEED:g}"
            raise FieldError("relative_speed", self.relative_speed, rule)
        object.__setattr__(self, "relative_speed", speed)
        price = require_number("price_per_hour", self.price_per_hour, minimum=0, above=True)
        object.__setattr__(self, "price_per_hour", price)
        if self.source != "":
            require_text("source", self.source)
        if self.memory_mib is not None:
            require_integer("memory_mib", self.memory_mib, minimum=1)

    def thousandths_for(self, job: Job) -> int:
        """Return the thousandths that a job needs of each of its GPUs, if they are of this type.

        It is 1000 for a job with whole GPUs, and 0 if the job does not take this type or its
        memory does not suffice.
        """
        if not job.takes(self.name):
            return 0
        return job.slice_on(self.memory_mib) if job.is_slice else WHOLE_GPU

    @property
    def replicas(self) -> int:
        """The fewest GPUs of this type that together are at least as fast as a reference GPU."""
        return math.ceil(1 / self.relative_speed - REPLICA_TOLERANCE)

    @property
    def worker_speed(self) -> float:
        """The joint speed of `replicas` GPUs of this type; a reference GPU has speed 1."""
        return max(1.0, self.replicas * self.relative_speed)


TRAINING_GPU = GpuType(name="V100")
"""GPU type of Lyra's training servers (EuroSys 2023), section 7.1."""

INFERENCE_GPU = GpuType(name="T4", relative_speed=1 / 3)
"""Three T4s do the work of one V100; Lyra (EuroSys 2023), section 7.5."""


@declared()
class Server(heterogeneous.GpuServer):
    """A server with GPUs of one or more types; it belongs to the cluster or can be borrowed."""

    is_lent: bool = key(
        Flag(), "whether this is an inference server, present only while on loan", default=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """All own GPUs of one type in a cluster, or all GPUs of one type that it can borrow.

    The GPUs of a pool differ only in location.

    Parameters
    ----------
    number
        Index of the pool in `Cluster.pools`.
    gpu_type
        Type of the GPUs.
    is_lent
        Whether the GPUs are present only while on loan.
    hosts
        The hosts of the pool. A *host* is the share of a server that has GPUs of one type. Hosts
        are numbered pool by pool, and within a pool in the order of servers.
    gpus, servers
        For each host, its number of GPUs and the index of its server.
    """

    number: int
    gpu_type: GpuType
    is_lent: bool
    hosts: range
    gpus: tuple[int, ...]
    servers: tuple[int, ...]


@methods_without_inner_frames
@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster: its own servers, followed by servers that it can borrow.

    Parameters
    ----------
    name
        The name in results.
    gpu_types
        The GPU types of all servers, at least one, with unique names. The order is that in which
        policies try the types.
    servers
        At least one own server; unique ids; own servers before servers that can be borrowed.
    topology
        The racks of all servers, in the order of `servers`; None if racks do not matter.
    communication
        How distance across `topology` slows gangs; None if distance costs nothing.
    network
        The name of the set of links in results.
    assumptions
        Assumptions about the cluster, one sentence each; every result repeats them.
    tenants
        The quotas of the tenants; None if jobs of all tenants are treated alike.

    Raises
    ------
    FieldError
        If a rule is broken; the message names the field, its value and the rule.
    """

    name: str
    gpu_types: tuple[GpuType, ...]
    servers: tuple[Server, ...]
    topology: Topology | None = None
    communication: CommunicationModel | None = None
    network: str = ""
    assumptions: tuple[str, ...] = ()
    tenants: Quotas | None = None

    __repr__ = short_repr
    _repr_html_ = html_of_object

    def __post_init__(self) -> None:
        require_text("name", self.name)
        for field_name in ("gpu_types", "servers"):
            if not getattr(self, field_name):
                raise FieldError(field_name, [], "must not be empty")
        known: set[str] = set()
        for position, gpu_type in enumerate(self.gpu_types):
            if gpu_type.name.casefold() in {name.casefold() for name in known}:
                rule = "must be unique, ignoring upper and lower case"
                raise FieldError(f"gpu_types[{position}].name", gpu_type.name, rule)
            known.add(gpu_type.name)
        ids: set[str] = set()
        own_types: set[str] = set()
        has_lent = False
        for position, server in enumerate(self.servers):
            if server.id in ids:
                raise FieldError(f"servers[{position}].id", server.id, "must be unique")
            ids.add(server.id)
            for name in server.gpus:
                if name not in known:
                    rule = one_of(name, sorted(known), "the gpu_types")
                    raise FieldError(f"servers[{position}].gpus", name, rule)
                if not server.is_lent:
                    own_types.add(name)
                elif name in own_types:
                    rule = "must differ from the GPU types of own servers"
                    raise FieldError(f"servers[{position}].gpus", name, rule)
            if has_lent and not server.is_lent:
                rule = "own servers must come before all lent servers"
                raise FieldError(f"servers[{position}]", server.id, rule)
            has_lent = server.is_lent
        if self.servers[0].is_lent:
            raise FieldError("servers", [], "must contain a server that is not lent")
        if self.topology is not None:
            held = [sum(server.gpus.values()) for server in self.servers]
            if self.topology.gpus_of_machine.tolist() != held:
                rule = "each machine must have as many GPUs as the server at its position"
                raise FieldError("topology", self.topology.name, rule)
        elif self.communication is not None:
            raise FieldError("topology", None, "must be set for a communication model")
        if self.tenants is not None and self.tenants.gpus > self.gpus:
            rule = f"must have at most the {self.gpus:,} own GPUs of the cluster together"
            raise FieldError("tenants", self.tenants.gpus, rule)

    @classmethod
    def of_servers(
        cls,
        servers: int,
        *,
        gpus_per_server: int = 8,
        gpu: GpuType = TRAINING_GPU,
        servers_per_rack: int | None = None,
        inference_servers: int = 0,
        inference_gpus_per_server: int = 8,
        inference_gpu: GpuType = INFERENCE_GPU,
        name: str = "",
    ) -> "Cluster":
        """Return a cluster of equal training servers and, optionally, inference servers to borrow.

        Parameters
        ----------
        servers, gpus_per_server, gpu
            Number, GPUs and GPU type of the training servers.
        servers_per_rack
            Training servers in each rack, which are numbered rack by rack; None if racks do not
            matter. Racks do not slow jobs: only the number of racks that a job spans is counted.
        inference_servers, inference_gpus_per_server
            Number and GPUs of the inference servers; none by default.
        inference_gpu
            GPU type of the inference servers; its speed is relative to the training GPUs.
        name
            The name of the cluster; an empty name becomes one like ``443x8``.
        """
        require_integer("servers", servers, minimum=1)
        require_integer("gpus_per_server", gpus_per_server, minimum=1)
        topology = None
        if servers_per_rack is not None:
            require_integer("servers_per_rack", servers_per_rack, minimum=1)
            whole, rest = divmod(servers, servers_per_rack)
            racks = [servers_per_rack] * whole + [rest] * (rest > 0)
            topology = Topology(
                name="racks",
                racks=tuple(
                    Rack(machines=machines, gpus_per_machine=gpus_per_server) for machines in racks
                ),
            )
        cluster = cls(
            name=name or f"{servers}x{gpus_per_server}",
            gpu_types=(gpu,),
            servers=tuple(
                Server(id=f"training-{number}", gpus={gpu.name: gpus_per_server})
                for number in range(servers)
            ),
            topology=topology,
        )
        require_integer("inference_servers", inference_servers, minimum=0)
        require_integer("inference_gpus_per_server", inference_gpus_per_server, minimum=1)
        return cluster.with_lent(
            inference_servers, gpus_per_server=inference_gpus_per_server, gpu_type=inference_gpu
        )

    @classmethod
    def of_racks(
        cls,
        topology: Topology,
        communication: CommunicationModel,
        *,
        network: str = "",
        gpu_types: tuple[GpuType, ...] = (TRAINING_GPU,),
        assumptions: tuple[str, ...] = (),
    ) -> "Cluster":
        """Return a cluster of machines in racks; a gang runs slower the further it is spread.

        Parameters
        ----------
        topology, communication, network, assumptions
            See the class.
        gpu_types
            GPU types of the machines. Racks take the types in turn, so each rack has one type.
        """
        names = topology.machine_names()
        racks = topology.rack_of_machine.tolist()
        return cls(
            name=topology.name,
            gpu_types=gpu_types,
            servers=tuple(
                Server(id=name, gpus={gpu_types[rack % len(gpu_types)].name: gpus})
                for name, rack, gpus in zip(
                    names, racks, topology.gpus_of_machine.tolist(), strict=True
                )
            ),
            topology=topology,
            communication=communication,
            network=network,
            assumptions=assumptions,
        )

    def with_lent(self, servers: int, *, gpus_per_server: int, gpu_type: GpuType) -> "Cluster":
        """Return this cluster with additional inference servers, which form a rack of their own.

        Parameters
        ----------
        servers, gpus_per_server
            Number and GPUs of the inference servers.
        gpu_type
            Their GPU type. If an own type has the same name, this one gets the suffix ``LENT``.
        """
        if not servers:
            return self
        if any(found.name.casefold() == gpu_type.name.casefold() for found in self.gpu_types):
            # Borrowed GPUs get their own type name, so policies do not confuse them with own GPUs.
            gpu_type = replace(gpu_type, name=gpu_type.name + LENT)
        gpu_types = (*self.gpu_types, gpu_type)
        topology = self.topology
        if topology is not None:
            rack = Rack(machines=servers, gpus_per_machine=gpus_per_server)
            topology = Topology(name=topology.name, racks=(*topology.racks, rack))
        lent = tuple(
            Server(id=f"inference-{number}", gpus={gpu_type.name: gpus_per_server}, is_lent=True)
            for number in range(servers)
        )
        return replace(self, gpu_types=gpu_types, servers=(*self.servers, *lent), topology=topology)

    @cached_property
    def own_servers(self) -> tuple[Server, ...]:
        """The servers that are always present."""
        return tuple(server for server in self.servers if not server.is_lent)

    @cached_property
    def inference_servers(self) -> int:
        """The number of servers that can be borrowed."""
        return len(self.servers) - len(self.own_servers)

    @cached_property
    def inference_gpus(self) -> int:
        """The number of GPUs on servers that can be borrowed."""
        return sum(sum(pool.gpus) for pool in self.pools if pool.is_lent)

    @cached_property
    def gpus(self) -> int:
        """The number of GPUs that are always present."""
        return sum(self.gpus_of_type.values())

    @cached_property
    def gpus_of_type(self) -> dict[str, int]:
        """The number of own GPUs by type name; 0 for a type that only borrowed servers have.

        The order is that of `gpu_types`.
        """
        return self._of_own_servers(sum)

    @cached_property
    def own_gpus(self) -> dict[str, int]:
        """The number of own GPUs by type, without the types that only borrowed servers have."""
        return {name: count for name, count in self.gpus_of_type.items() if count}

    @cached_property
    def lent_type(self) -> GpuType | None:
        """The GPU type of the servers that can be borrowed; None if no server can be borrowed."""
        return next((pool.gpu_type for pool in self.pools if pool.is_lent), None)

    @cached_property
    def most_on_a_server(self) -> dict[str, int]:
        """The largest number of GPUs of each type on any own server."""
        return self._of_own_servers(max)

    def _of_own_servers(self, combine: Callable[[Iterable[int]], int]) -> dict[str, int]:
        return {
            gpu_type.name: combine(server.gpus.get(gpu_type.name, 0) for server in self.own_servers)
            for gpu_type in self.gpu_types
        }

    @cached_property
    def type_of(self) -> dict[str, GpuType]:
        """The GPU types by name."""
        return {gpu_type.name: gpu_type for gpu_type in self.gpu_types}

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """The pools of the cluster: own GPUs by type, then borrowed GPUs by type."""
        found: list[Pool] = []
        first = 0
        for is_lent in (False, True):
            for gpu_type in self.gpu_types:
                having = [
                    (server.gpus[gpu_type.name], place)
                    for place, server in enumerate(self.servers)
                    if server.is_lent == is_lent and gpu_type.name in server.gpus
                ]
                if having:
                    gpus, servers = zip(*having, strict=True)
                    hosts = range(first, first + len(having))
                    found.append(
                        Pool(
                            number=len(found),
                            gpu_type=gpu_type,
                            is_lent=is_lent,
                            hosts=hosts,
                            gpus=gpus,
                            servers=servers,
                        )
                    )
                    first = hosts.stop
        return tuple(found)

    @cached_property
    def price_per_s_of_pool(self) -> tuple[float, ...] | None:
        """The price of a GPU-second in each pool; None if every type has the default price."""
        prices = [pool.gpu_type.price_per_hour for pool in self.pools]
        if set(prices) == {DEFAULT_PRICE_PER_HOUR}:
            return None
        return tuple(price / HOUR_S for price in prices)

    @cached_property
    def host_of(self) -> dict[tuple[str, str], int]:
        """The host (the GPUs of one type on a server) for each pair of server id and GPU type."""
        types = [pool.gpu_type.name for pool in self.pools for _ in pool.hosts]
        return {key: host for host, key in enumerate(zip(self.name_of_host, types, strict=True))}

    @cached_property
    def pool_of_host(self) -> list[int]:
        """The index in `pools` for each host (the GPUs of one type on a server)."""
        return [pool.number for pool in self.pools for _ in pool.hosts]

    @cached_property
    def server_of_host(self) -> list[int]:
        """The index of each host's server in `servers`."""
        return [server for pool in self.pools for server in pool.servers]

    @cached_property
    def name_of_host(self) -> list[str]:
        """The id of each host's server."""
        return [self.servers[server].id for server in self.server_of_host]

    @cached_property
    def gpus_of_host(self) -> list[int]:
        """The number of GPUs on each host."""
        return [gpus for pool in self.pools for gpus in pool.gpus]

    @cached_property
    def rack_of_host(self) -> list[int]:
        """The rack of each host; all 0 if racks do not matter."""
        if self.topology is None:
            return [0] * len(self.server_of_host)
        racks = self.topology.rack_of_machine.tolist()
        return [racks[server] for server in self.server_of_host]

    @cached_property
    def problem_types(self) -> tuple[heterogeneous.GpuType, ...]:
        """All GPU types, in the form that instances of the heterogeneous problem use."""
        return tuple(
            heterogeneous.GpuType(name=gpu_type.name, price_per_hour=gpu_type.price_per_hour)
            for gpu_type in self.gpu_types
        )

    def problem_servers(self, lent: Collection[int] = ()) -> tuple[heterogeneous.GpuServer, ...]:
        """Return own servers, and servers on loan, as objects of the heterogeneous problem."""
        there = {self.server_of_host[host] for host in lent}
        return tuple(
            self._problem_servers[place]
            for place, server in enumerate(self.servers)
            if not server.is_lent or place in there
        )

    @cached_property
    def _problem_servers(self) -> list[heterogeneous.GpuServer]:
        return [heterogeneous.GpuServer(id=server.id, gpus=server.gpus) for server in self.servers]

    def holds(self, job: Job) -> bool:
        """Return whether a job's base demand fits the own GPUs of one type in an empty cluster.

        If the job asks for GPU types, only these types count.
        """
        if not job.gpu_types:  # the common case is fast, because every job is checked
            return self._largest_gang_of(job.gpus_per_worker) >= job.min_workers
        return any(
            self.most_workers(pool.number, job.gpus_per_worker) >= job.min_workers
            for pool in self.pools
            if not pool.is_lent and job.takes(pool.gpu_type.name)
        )

    def _largest_gang_of(self, gpus_per_worker: int) -> int:
        """Return the most workers of a given size that fit the own GPUs of one type (cached)."""
        found = self._largest_gangs.get(gpus_per_worker)
        if found is None:
            found = self._largest_gangs[gpus_per_worker] = max(
                self.most_workers(pool.number, gpus_per_worker)
                for pool in self.pools
                if not pool.is_lent
            )
        return found

    @cached_property
    def _largest_gangs(self) -> dict[int, int]:
        return {}

    def most_workers(self, pool: int, gpus_per_worker: int) -> int:
        """Return how many workers of `gpus_per_worker` GPUs fit a pool (cached)."""
        key = pool, gpus_per_worker
        found = self._most_workers_of.get(key)
        if found is None:
            found = self._most_workers_of[key] = sum(
                gpus // gpus_per_worker for gpus in self.pools[pool].gpus
            )
        return found

    @cached_property
    def _most_workers_of(self) -> dict[tuple[int, int], int]:
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanPlan:
    """The number of inference servers on loan over time, fixed before the simulation starts.

    Parameters
    ----------
    interval_s
        Seconds between two loan decisions.
    on_loan
        Servers on loan from each decision to the next; the last number applies for ever.
    busy_share
        Share of the inference cluster's GPUs that serve requests in each interval; the last share
        applies for ever.
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
            require_number(f"busy_share[{position}]", share, minimum=0, maximum=1)
