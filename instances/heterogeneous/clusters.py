"""Clusters of unlike GPUs that papers report on, and clusters by numbers of GPUs.

`lyra_opt.registry` lists the built-in ones; other packages register theirs in the entry-point group
``lyra_opt.clusters``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.plugins import NamedMaker, Plugins
from lyra_opt.core.validation import require_integer
from lyra_opt.instances.heterogeneous.gpu_types import gpu_types as all_gpu_types
from lyra_opt.instances.heterogeneous.gpu_types import types_of
from lyra_opt.simulation.cluster import DEFAULT_PRICE_PER_HOUR, Cluster, Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
    from lyra_opt.simulation.cluster import GpuType

GPUS_PER_SERVER = 4
"""Of Hadar's simulated cluster: 60 GPUs on 15 nodes."""


class NamedCluster(NamedMaker):
    """A cluster that the command line knows; `make()` returns it."""


CLUSTERS = Plugins("lyra_opt.clusters", "cluster", NamedCluster)
"""All of them by name."""


def find_cluster(name: str) -> Cluster:
    """Return the cluster called `name`; `UserError` that names all if there is none."""
    cluster: Cluster = CLUSTERS.find(name).make()
    return cluster


def cluster_of(
    gpus: Mapping[str, int],
    *,
    gpus_per_server: int = GPUS_PER_SERVER,
    name: str | None = None,
    assumptions: Sequence[str] = (),
    gpu_types: Mapping[str, GpuType] | None = None,
    table: ThroughputTable | None = None,
) -> Cluster:
    """Return a cluster whose servers have GPUs of one type each.

    Parameters
    ----------
    gpus
        How many of each type, at least 1, the fastest type first: in this order Gavel's rounds go
        through the types. The last server of a type has what remains.
    gpus_per_server
        At least 1.
    name
        None names it by its GPUs, such as ``v100=20,k80=20``.
    assumptions
        What is assumed of it.
    gpu_types
        Those that are known, as `lyra_opt.instances.heterogeneous.gpu_types.gpu_types` returns
        them; None for those of the toolkit.
    table
        Of throughputs, whose types are known too; None where there is none.

    Raises
    ------
    FieldError
        If a value breaks its rule, or a type is not known.
    """
    require_integer("gpus_per_server", gpus_per_server, minimum=1)
    if not gpus:
        raise FieldError("gpus", {}, "must name at least one type")
    known = all_gpu_types() if gpu_types is None else gpu_types
    try:
        types = types_of(gpus, known if table is None else table.types_beside(known))
    except FieldError as error:
        raise FieldError("gpus", error.value, error.rule) from None
    servers = []
    for gpu_type, count in gpus.items():
        require_integer(f"gpus.{gpu_type}", count, minimum=1)
        for number, start in enumerate(range(0, count, gpus_per_server)):
            held = min(gpus_per_server, count - start)
            servers.append(Server(id=f"{gpu_type}-{number}", gpus={gpu_type: held}))
    return cluster_of_servers(servers, types, name=name, assumptions=assumptions)


def cluster_of_servers(
    servers: Sequence[Server],
    types: Sequence[GpuType],
    *,
    name: str | None = None,
    assumptions: Sequence[str] = (),
) -> Cluster:
    """Return a cluster of own servers, which says what its types cost for want of a price.

    Parameters
    ----------
    servers
        With GPUs of these types.
    types
        In their order, the fastest first.
    name
        None names it by its GPUs, such as ``v100=20,k80=20``.
    assumptions
        What else is assumed of it.
    """
    counts = {each.name: sum(server.gpus.get(each.name, 0) for server in servers) for each in types}
    return Cluster(
        name=name or ",".join(f"{gpu_type}={count}" for gpu_type, count in counts.items()),
        gpu_types=tuple(types),
        servers=tuple(servers),
        assumptions=(*assumptions, *_prices_in_words(types)),
    )


def _prices_in_words(types: Sequence[GpuType]) -> tuple[str, ...]:
    """Return which types cost as much as one without a price, where others cost something else."""
    usual = [each.name for each in types if each.price_per_hour == DEFAULT_PRICE_PER_HOUR]
    if not usual or len(usual) == len(types):
        return ()
    return (
        f"Cost {DEFAULT_PRICE_PER_HOUR:g} an hour, by their price or for want of one: "
        f"{', '.join(usual)}.",
    )


def hadar_60() -> Cluster:
    """Return the simulated cluster of Hadar (IPDPS 2024): 15 nodes, three types."""
    return cluster_of(
        {"v100": 20, "p100": 20, "k80": 20},
        name="hadar-60",
        assumptions=(
            "Cluster of 20 V100, 20 P100 and 20 K80 on 15 nodes (Hadar, by a secondary source); "
            "that each node has 4 GPUs of one type follows from it if nodes are alike.",
        ),
    )


def gavel_108() -> Cluster:
    """Return the simulated cluster of Gavel (OSDI 2020), on servers of 4 GPUs."""
    return cluster_of(
        {"v100": 36, "p100": 36, "k80": 36},
        name="gavel-108",
        assumptions=(
            "Cluster of 36 V100, 36 P100 and 36 K80 (Gavel). Assumed: 4 GPUs a server, as in "
            "Hadar's cluster; the scripts of Gavel's simulator have 1 by default, and its rates "
            "are those of gangs on one server wherever they are.",
        ),
    )


def hadare_aws() -> Cluster:
    """Return a testbed like HadarE's at AWS: five nodes of one GPU."""
    return cluster_of(
        {"v100": 2, "t4": 2, "k80": 1},
        gpus_per_server=1,
        name="hadare-aws",
        assumptions=(
            "Testbed of five nodes of 1 GPU at AWS: p3.2xlarge (V100), g4dn.xlarge (T4) and "
            "p2.xlarge (K80), from memory with little confidence. Assumed: 2, 2 and 1 of them; "
            "their numbers were not found.",
        ),
    )


def hadare_lab() -> Cluster:
    """Return a testbed like that of HadarE's laboratory: five nodes of one GPU."""
    return cluster_of(
        dict.fromkeys(("rtx-3090", "titan-rtx", "t4", "rtx-a2000", "t400"), 1),
        gpus_per_server=1,
        name="hadare-lab",
        assumptions=(
            "Testbed of five nodes of 1 GPU in a laboratory: Titan RTX, T4, T400, RTX 3090 and "
            "RTX A2000, from memory with little confidence.",
        ),
    )


HADAR_60 = NamedCluster(
    "hadar-60", "20 V100, 20 P100 and 20 K80, 4 a server (Hadar's simulation)", hadar_60
)
GAVEL_108 = NamedCluster(
    "gavel-108", "36 V100, 36 P100 and 36 K80, 4 a server (Gavel's simulation)", gavel_108
)
HADARE_AWS = NamedCluster(
    "hadare-aws", "2 V100, 2 T4 and 1 K80, 1 a server (like HadarE's testbed at AWS)", hadare_aws
)
HADARE_LAB = NamedCluster(
    "hadare-lab",
    "RTX 3090, Titan RTX, T4, RTX A2000, T400 (like HadarE's in a laboratory)",
    hadare_lab,
)
