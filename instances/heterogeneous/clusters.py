"""Types of GPUs, clusters of them that papers report on, and clusters by numbers of GPUs.

A type's speed is one for all models, although models differ: on GPUs that were measured the ratio
of P100 to V100 ranges from 0.2 to 2.3. It is a stand-in for tables that nobody has, and every
result says so. The figures and their sources are data: ``gpu_types.toml`` beside this file.

`lyra_opt.registry` lists the built-in clusters; other packages register theirs in the entry-point
group ``lyra_opt.clusters``.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import Record, join_path, parse_toml, read_text
from lyra_opt.core.errors import FieldError, InputError, MissingFieldError
from lyra_opt.core.plugins import NamedMaker, Plugins
from lyra_opt.core.rules import require_integer
from lyra_opt.core.texts import meant
from lyra_opt.simulation.cluster import DEFAULT_PRICE_PER_HOUR, Cluster, GpuType, Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
    from lyra_opt.simulation.workload import Workload

DATA = "gpu_types.toml"
KEYS = ("relative_speed", "price_per_hour", "source")


def known_gpu_types(
    own: Mapping[str, object] | None = None, *, field: str = "gpu_types"
) -> Mapping[str, GpuType]:
    """Return all types by name: those of the toolkit, and one's own.

    Parameters
    ----------
    own
        A table for each type, with `relative_speed` (a number above 0, or a ratio such as
        ``"1555/900"``: work done while a V100 does 1), `price_per_hour` and `source`. One named as
        the toolkit's own replaces what it gives of it; another needs its speed.
    field
        Path of `own` in its document, for errors.

    Raises
    ------
    FieldError
        If a value breaks its rule.
    """
    found = dict(_bundled())
    for name, fields in (own or {}).items():
        found[name] = _parsed(name, fields, join_path(field, name), found.get(name))
    return MappingProxyType(found)


LARGEST_FILE_BYTES = 2**20


def read_gpu_types(path: str | Path) -> Mapping[str, GpuType]:
    """Return all types by name: those of the toolkit, and those of a TOML file, a table each.

    Raises
    ------
    InputError
        If the file cannot be read, or a value of it breaks its rule.
    """
    source = str(path)
    try:
        return known_gpu_types(
            parse_toml(read_text(path, LARGEST_FILE_BYTES), source, "types of GPUs"), field=""
        )
    except FieldError as error:
        raise InputError(source, str(error)) from None


def types_of(names: Iterable[str], known: Mapping[str, GpuType] | None = None) -> list[GpuType]:
    """Return types by their names.

    Parameters
    ----------
    names
        In any order, which is kept.
    known
        As `known_gpu_types` returns them; None for those of the toolkit.

    Raises
    ------
    FieldError
        If there is no such type.
    """
    known = _bundled() if known is None else known
    found = []
    for name in names:
        if name not in known:
            raise FieldError("gpu_types", name, f"unknown GPU type; {meant(name, known)}")
        found.append(known[name])
    return found


def speeds_in_words(workload: Workload, cluster: Cluster) -> tuple[str, ...]:
    """Return how fast jobs without rates are on own GPUs, where these differ from the reference.

    A sentence for results, or none.
    """
    lent = {pool.gpu_type.name for pool in cluster.pools if pool.is_lent}
    unlike = [
        gpu_type
        for gpu_type in cluster.gpu_types
        if gpu_type.relative_speed != 1 and gpu_type.name not in lent
    ]
    if not unlike or all(job.measured is not None for job in workload.jobs):
        return ()
    listed = "; ".join(
        f"{gpu_type.name} {gpu_type.relative_speed:.2f}"
        + (f" ({gpu_type.source})" if gpu_type.source else "")
        for gpu_type in unlike
    )
    return (f"Assumed: jobs without rates are as fast as on a reference GPU times: {listed}.",)


@cache
def _bundled() -> Mapping[str, GpuType]:
    text = (files("lyra_opt.instances.heterogeneous") / DATA).read_text(encoding="utf-8")
    tables = parse_toml(text, DATA, "types of GPUs")
    return MappingProxyType(
        {name: _parsed(name, fields, name, None) for name, fields in tables.items()}
    )


def _parsed(name: str, fields: object, path: str, known: GpuType | None) -> GpuType:
    record = Record(fields, path, KEYS)
    given: dict[str, Any] = record.chosen(*KEYS)
    if known is None and "relative_speed" not in given:
        raise MissingFieldError(join_path(path, "relative_speed"))
    if "relative_speed" in given:
        given["relative_speed"] = _ratio(given["relative_speed"])
        given.setdefault("source", "")
    try:
        return GpuType(name=name, **given) if known is None else replace(known, **given)
    except FieldError as error:
        raise error.inside(path) from None


def _ratio(value: object) -> object:
    """Return a ratio in a text as a number; anything else as it is, for the type to judge."""
    if isinstance(value, str):
        try:
            return float(Fraction(value))
        except (ValueError, ZeroDivisionError, OverflowError):
            return value
    return value


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
        Those that are known, as `lyra_opt.instances.heterogeneous.clusters.known_gpu_types` returns
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
    known = known_gpu_types() if gpu_types is None else gpu_types
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


def _of_a_paper(
    name: str,
    summary: str,
    gpus: Mapping[str, int],
    assumption: str,
    *,
    gpus_per_server: int = GPUS_PER_SERVER,
) -> NamedCluster:
    def make() -> Cluster:
        return cluster_of(
            gpus, gpus_per_server=gpus_per_server, name=name, assumptions=(assumption,)
        )

    return NamedCluster(name, summary, make)


HADAR_60 = _of_a_paper(
    "hadar-60",
    "20 V100, 20 P100 and 20 K80, 4 a server (Hadar's simulation)",
    {"v100": 20, "p100": 20, "k80": 20},
    "Cluster of 20 V100, 20 P100 and 20 K80 on 15 nodes (Hadar, by a secondary source); "
    "that each node has 4 GPUs of one type follows from it if nodes are alike.",
)
"""The simulated cluster of Hadar (IPDPS 2024): 15 nodes, three types."""

GAVEL_108 = _of_a_paper(
    "gavel-108",
    "36 V100, 36 P100 and 36 K80, 4 a server (Gavel's simulation)",
    {"v100": 36, "p100": 36, "k80": 36},
    "Cluster of 36 V100, 36 P100 and 36 K80 (Gavel). Assumed: 4 GPUs a server, as in "
    "Hadar's cluster; the scripts of Gavel's simulator have 1 by default, and its rates "
    "are those of gangs on one server wherever they are.",
)
"""The simulated cluster of Gavel (OSDI 2020), on servers of 4 GPUs."""

HADARE_AWS = _of_a_paper(
    "hadare-aws",
    "2 V100, 2 T4 and 1 K80, 1 a server (like HadarE's testbed at AWS)",
    {"v100": 2, "t4": 2, "k80": 1},
    "Testbed of five nodes of 1 GPU at AWS: p3.2xlarge (V100), g4dn.xlarge (T4) and "
    "p2.xlarge (K80), from memory with little confidence. Assumed: 2, 2 and 1 of them; "
    "their numbers were not found.",
    gpus_per_server=1,
)
"""A testbed like HadarE's at AWS: five nodes of one GPU."""

HADARE_LAB = _of_a_paper(
    "hadare-lab",
    "RTX 3090, Titan RTX, T4, RTX A2000, T400 (like HadarE's in a laboratory)",
    dict.fromkeys(("rtx-3090", "titan-rtx", "t4", "rtx-a2000", "t400"), 1),
    "Testbed of five nodes of 1 GPU in a laboratory: Titan RTX, T4, T400, RTX 3090 and "
    "RTX A2000, from memory with little confidence.",
    gpus_per_server=1,
)
"""A testbed like that of HadarE's laboratory: five nodes of one GPU."""
