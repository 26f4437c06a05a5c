"""Read node lists as clusters: tables with a row per node, its GPUs and their type.

``node_lists.toml`` declares the built-in layouts. Sources: the README files of alibaba/clusterdata
(cluster-trace-gpu-v2020 and -v2023, cluster-trace-v2026-spot-gpu) and the manual page sinfo(1) of
Slurm. Alibaba published no node list with its DLRM trace of 2025.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import InputError, counted
from lyra_opt.core.plugins import Plugins
from lyra_opt.instances.heterogeneous.clusters import cluster_of_servers
from lyra_opt.instances.rows import Row, require_once, rows_below
from lyra_opt.instances.snapshots.slurm_names import generic_resources, hosts
from lyra_opt.instances.snapshots.snapshot import GPU
from lyra_opt.instances.traces import name_of
from lyra_opt.simulation.cluster import TRAINING_GPU, Cluster, GpuType, Server

DECLARATIONS = "node_lists.toml"
LARGEST_FILE_BYTES = 2**24
MOST_NODES = 100_000
MOST_GPUS = 1024
"""Limits of a node list, so that a typing error cannot fill the memory."""

_PART = re.compile(r",(?![^(]*\))")
"""A comma between two generic resources, not within parentheses such as ``(S:0,1)``."""


class NodeTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The layout of a node list.

    Parameters
    ----------
    title
        The name of the layout.
    node
        The column with the name of a node; with `gres`, a list of hosts such as ``n[1-4]``.
    gpus, gpu_type
        The columns with the number of the node's GPUs, and with their type.
    gres
        The column with its generic resources, such as ``gpu:a100:4``, instead of `gpus` and
        `gpu_type`.
    separator
        The character between two columns.
    """

    title: str
    node: str
    gpus: str = ""
    gpu_type: str = ""
    gres: str = ""
    separator: str = ","

    @property
    def columns(self) -> list[str]:
        """The columns that identify the layout and are read."""
        return list(filter(None, (self.node, self.gpus, self.gpu_type, self.gres)))

    @property
    def form(self) -> str:
        """The columns of the layout, separated by commas."""
        return ", ".join(self.columns)

    def gpus_of(self, row: Row) -> tuple[list[str], Counter[str], bool]:
        """Return the names of the nodes of a row, their GPUs by type, and whether any is sliced."""
        if self.gres:
            return self._generic(row)
        count = row.count(self.gpus)
        found: Counter[str] = Counter()
        if count:
            if not row.has(self.gpu_type):
                raise row.error(self.gpu_type, "must name the type of the node's GPUs")
            found[row.text(self.gpu_type)] = count
        return [row.required(self.node)], found, False

    def _generic(self, row: Row) -> tuple[list[str], Counter[str], bool]:
        names, found, is_sliced = [], Counter[str](), False
        try:
            names = hosts(row.required(self.node))
        except ValueError as error:
            raise row.error(self.node, str(error)) from None
        try:
            for part in _PART.split(row.text(self.gres)):
                amounts, types = generic_resources(part)
                found[next(iter(types), GPU)] += amounts[GPU]
                is_sliced |= any(name.startswith("gres/gpu:") for name in amounts)
        except ValueError as error:
            raise row.error(self.gres, str(error)) from None
        return names, +found, is_sliced


LAYOUTS = Plugins("lyra_opt.node_lists", "node list", NodeTable, checks_names=False)
"""All registered layouts of node lists by name."""


@cache
def node_tables() -> dict[str, NodeTable]:
    """Return the built-in layouts of node lists by name."""
    text = (files("lyra_opt.instances.heterogeneous") / DECLARATIONS).read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=dict[str, NodeTable])


def read_nodes(path: str | Path, known: Mapping[str, GpuType]) -> Cluster:
    """Return the cluster that a node list describes.

    The layout is recognised by the columns of the file. Nodes without GPUs are left out, and
    several equal rows of a node count once. A GPU type that is not known is as fast as the
    reference. The assumptions of the cluster state all this.

    Parameters
    ----------
    path
        The file, plain or compressed.
    known
        All known GPU types by name; upper and lower case do not matter.

    Returns
    -------
    Cluster
        Its GPU types are in the order of their speed, the fastest first, and so are its servers;
        ties are in file order.

    Raises
    ------
    InputError
        If the file cannot be read, its columns are unknown, a value breaks its rule (the error
        names row and column), or no node has GPUs.

    Notes
    -----
    Takes O(nodes log nodes) time.
    """
    source = str(path)
    text = read_text(source, LARGEST_FILE_BYTES).removeprefix("\ufeff")
    table = _layout_of(source, text)
    known = {name.casefold(): found for name, found in known.items()}
    types: dict[str, GpuType] = {}
    nodes: dict[str, Counter[str]] = {}
    sliced: set[str] = set()
    for row in _rows(source, text, table):
        names, stated, is_sliced = table.gpus_of(row)
        if stated.total() > MOST_GPUS:
            raise row.error(table.gres or table.gpus, f"must give a node {MOST_GPUS} GPUs at most")
        gpus: Counter[str] = Counter()
        for kind, count in stated.items():
            key = kind.casefold()
            gpus[types.setdefault(key, known.get(key, GpuType(name=kind))).name] += count
        for name in names:
            if nodes.setdefault(name, gpus) != gpus:
                raise row.error(table.node, "must have the same GPUs in all its rows")
        sliced.update(names if is_sliced else ())
        if len(nodes) > MOST_NODES:
            raise InputError(source, f"must have {MOST_NODES:,} nodes at most")
    if not types:
        raise InputError(source, "has no node with GPUs")
    fastest = sorted(types.values(), key=lambda each: -each.relative_speed)
    ranks = {each.name: rank for rank, each in enumerate(fastest)}
    servers = [Server(id=name, gpus=dict(gpus)) for name, gpus in nodes.items() if gpus]
    servers.sort(key=lambda server: min(ranks[name] for name in server.gpus))
    remarks = [f"The nodes of {name_of(source)} are present all the time."]
    if len(servers) < len(nodes):
        without = counted(len(nodes) - len(servers), "node")
        remarks.append(f"Left out of the node list: {without} without whole GPUs.")
    if sliced:
        remarks.append(f"Slices of GPUs (MIG) are left out on {counted(len(sliced), 'node')}.")
    if unknown := ", ".join(each.name for key, each in types.items() if key not in known):
        remarks.append(
            f"GPUs of unknown speed count as fast as a {TRAINING_GPU.name}: {unknown}. "
            "Give their speed in the table gpu_types of the scenario."
        )
    return cluster_of_servers(servers, fastest, name=name_of(source), assumptions=remarks)


def _layout_of(source: str, text: str) -> NodeTable:
    """Return the layout with the most columns among those whose columns the file has."""
    first = text.partition("\n")[0]
    tables: dict[str, NodeTable] = LAYOUTS.all()
    matching = [
        table
        for table in tables.values()
        if {*table.columns} <= {name.strip() for name in first.split(table.separator)}
    ]
    if not matching:
        forms = "; or ".join(f"{table.form} ({name})" for name, table in tables.items())
        raise InputError(source, f"is not a node list: row 1 must have the columns {forms}")
    return max(matching, key=lambda table: len(table.columns))


def _rows(source: str, text: str, table: NodeTable) -> Iterator[Row]:
    rows = csv_rows(source, text, table.separator)
    header = [name.strip() for name in next(rows)]
    require_once(source, header, table.columns)
    yield from rows_below(source, header, rows)
