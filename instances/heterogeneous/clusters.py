"""GPU types with speeds and prices, and clusters of such GPUs, including those of papers.

A GPU type has one speed for all models, although real ratios differ: the measured ratio of P100 to
V100 ranges from 0.2 to 2.3. These speeds replace measurements that do not exist, and every result
says so. File ``gpu_types.toml`` in this folder holds speeds, prices and their sources.

`lyra_opt.registry` lists the built-in clusters; other packages register clusters in the entry-point
group ``lyra_opt.clusters``.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lyra_opt.core.documents import Record, join_path, parse_toml, read_text
from lyra_opt.core.errors import FieldError, MissingFieldError, in_file
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.plugins import NamedMaker, Plugins
from lyra_opt.core.rules import located, require_integer
from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
from lyra_opt.simulation.cluster import DEFAULT_PRICE_PER_HOUR, Cluster, GpuType, Server
from lyra_opt.simulation.workload import Workload

DATA = "gpu_types.toml"
KEYS = ("relative_speed", "price_per_hour", "memory_mib", "source")


def known_gpu_types(
    own: Mapping[str, object] | None = None, *, field: str = "gpu_types"
) -> Mapping[str, GpuType]:
    """Return all GPU types by name: the built-in ones, and those that the user defines.

    Parameters
    ----------
    own
        A table for each type, with `relative_speed`, `price_per_hour`, `memory_mib` and `source`.
        The speed is relative to a V100: a number above 0, or a ratio such as ``"1555/900"``. A
        table with the name of a built-in type overrides the keys that it sets. A new type must set
        its speed.
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
    """Return all GPU types by name: the built-in ones, and those of a TOML file.

    Raises
    ------
    InputError
        If the file cannot be read, or a value breaks its rule.
    """
    source = str(path)
    with in_file(source):
        return known_gpu_types(
            parse_toml(read_text(path, LARGEST_FILE_BYTES), source, "types of GPUs"), field=""
        )


def types_of(names: Iterable[str], known: Mapping[str, GpuType] | None = None) -> list[GpuType]:
    """Return the GPU types with the given names, in the order of the names.

    Parameters
    ----------
    names
        Names of GPU types.
    known
        All GPU types, as `known_gpu_types` returns them; None for the built-in ones.

    Raises
    ------
    FieldError
        If a name is unknown.
    """
    known = _bundled() if known is None else known
    found = []
    for name in names:
        if name not in known:
            raise FieldError("gpu_types", name, f"unknown GPU type; {meant(name, known)}")
        found.append(known[name])
    return found


def speeds_in_words(workload: Workload, cluster: Cluster) -> tuple[str, ...]:
    """Return at most one sentence on the assumed speeds of GPU types other than the reference.

    The sentence concerns jobs without measured rates, and GPUs that are not lent.
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
    return (
        f"Assumed: the speed of jobs without rates, relative to a reference GPU, is: {listed}.",
    )


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
    with located(path):
        return GpuType(name=name, **given) if known is None else replace(known, **given)


def _ratio(value: object) -> object:
    """Return a ratio such as "1555/900" as a number, and any other value unchanged."""
    if isinstance(value, str):
        try:
            return float(Fraction(value))
        except (ValueError, ZeroDivisionError, OverflowError):
            return value
    return value


GPUS_PER_SERVER = 4
"""GPUs per server of Hadar's simulated cluster, which has 60 GPUs on 15 nodes."""


class NamedCluster(NamedMaker):
    """A cluster that is registered under a name; `make()` builds the cluster."""


CLUSTERS = Plugins("lyra_opt.clusters", "cluster", NamedCluster)
"""All registered clusters by name."""


def find_cluster(name: str) -> Cluster:
    """Return the cluster with this name; `UserError` if the name is unknown."""
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
    """Return a cluster with given numbers of GPUs per type; each server has a single type.

    Parameters
    ----------
    gpus
        The number of GPUs of each type, at least 1, the fastest type first. Gavel's rounds consider
        the types in this order. The last server of a type has the remaining GPUs.
    gpus_per_server
        GPUs per server, at least 1.
    name
        The name of the cluster; None for a name such as ``v100=20,k80=20``.
    assumptions
        Assumptions on the cluster, as sentences for results.
    gpu_types
        All GPU types, as `known_gpu_types` returns them; None for the built-in ones.
    table
        A throughput table whose GPU types are known in addition.

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
    """Return a cluster of the given servers, with a remark on GPU types that have no price.

    Parameters
    ----------
    servers
        The servers, with GPUs of the given types.
    types
        The GPU types, the fastest first.
    name
        The name of the cluster; None for a name such as ``v100=20,k80=20``.
    assumptions
        Further assumptions on the cluster, as sentences for results.
    """
    counts = {each.name: sum(server.gpus.get(each.name, 0) for server in servers) for each in types}
    return Cluster(
        name=name or ",".join(f"{gpu_type}={count}" for gpu_type, count in counts.items()),
        gpu_types=tuple(types),
        servers=tuple(servers),
        assumptions=(*assumptions, *_prices_in_words(types)),
    )


def _prices_in_words(types: Sequence[GpuType]) -> tuple[str, ...]:
    """Return a sentence on GPU types with the default price, if other types have other prices."""
    usual = [each.name for each in types if each.price_per_hour == DEFAULT_PRICE_PER_HOUR]
    if not usual or len(usual) == len(types):
        return ()
    return (
        f"These GPU types cost {DEFAULT_PRICE_PER_HOUR:g} per hour, the default price: "
        f"{', '.join(usual)}.",
    )


@cache
def paper_clusters() -> list[NamedCluster]:
    """Return the clusters of papers, as ``clusters.toml`` defines them."""

    def named(name: str, summary: str, **table: Any) -> NamedCluster:
        return NamedCluster(name, summary, lambda: cluster_of(name=name, **table))

    text = (files("lyra_opt.instances.heterogeneous") / "clusters.toml").read_text("utf-8")
    return [named(name, **table) for name, table in tomllib.loads(text).items()]
