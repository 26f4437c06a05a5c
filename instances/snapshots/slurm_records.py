"""The fields of Slurm's JSON output that a snapshot reads, as records.

The JSON differs between versions: openapi v0.0.38 (Slurm 22.05), and the data parsers v0.0.39 to
v0.0.46. A field that has several types has all of them here. Text becomes the same records
(`lyra_opt.instances.snapshots.slurm_text`).

Source: ``src/plugins/data_parser/*/parsers.c`` of SchedMD/slurm, and the output of Slurm 22.05.8.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from lyra_opt.core.errors import InputError


class OptionalNumber(msgspec.Struct):
    """A number that may not be set, as the data parsers since v0.0.39 print it."""

    set: bool = True
    infinite: bool = False
    number: int | float | None = None


Number: TypeAlias = int | float | OptionalNumber | None
Texts: TypeAlias = str | list[str] | None


class NodeCpus(msgspec.Struct):
    """The CPUs of a job on a node."""

    count: Number = None


class NodeMemory(msgspec.Struct):
    """The memory of a job on a node, in MiB."""

    allocated: Number = None


class Allocation(msgspec.Struct):
    """The resources of a job on a node."""

    name: str
    cpus: NodeCpus
    memory: NodeMemory


class AllocatedNodes(msgspec.Struct):
    """The resources of a job on each of its nodes."""

    allocation: list[Allocation] = []


class JobResources(msgspec.Struct):
    """The resources of a job; before v0.0.41 `nodes` was only a list of hosts."""

    nodes: AllocatedNodes | str | None = None


class SlurmJob(msgspec.Struct, kw_only=True):
    """A job, a task of an array job, or a component of a heterogeneous job."""

    job_id: int
    job_state: str | list[str]
    array_job_id: Number = None
    array_task_id: Number = None
    array_task_string: str | None = ""
    het_job_id: Number = None
    partition: Texts = ""
    qos: str | None = ""
    account: str | None = ""
    user_name: str | None = ""
    nodes: Texts = ""
    node_count: Number = None
    max_nodes: Number = None
    cpus: Number = None
    tasks: Number = None
    gres_detail: list[str | None] | None = None
    tres_alloc_str: str | None = ""
    tres_req_str: str | None = ""
    tres_per_node: str | None = ""
    tres_per_job: str | None = ""
    tres_per_task: str | None = ""
    features: str | list[list[str]] | None = ""
    excluded_nodes: Texts = ""
    required_nodes: Texts = ""
    shared: Texts = ""
    exclusive: Texts = ""
    requeue: bool | None = True
    batch_flag: bool | None = True
    start_time: Number = None
    submit_time: Number = None
    last_sched_evaluation: Number = None
    job_resources: JobResources | None = None
    source: str = ""


class SlurmNode(msgspec.Struct, kw_only=True):
    """A node of the cluster."""

    name: str
    state: str | list[str]
    state_flags: list[str] | None = None
    cpus: Number = 0
    effective_cpus: Number = None
    real_memory: Number = 0
    specialized_memory: Number = 0
    gres: str | None = ""
    gres_used: str | None = ""
    partitions: Texts = ""
    features: Texts = ""
    source: str = ""


class PartitionPriority(msgspec.Struct):
    """The priorities of a partition."""

    tier: int = 0


class SlurmPartition(msgspec.Struct):
    """A partition; JSON names its mode of preemption since v0.0.45."""

    name: str
    priority: PartitionPriority
    preempt_mode: Texts = ""
    is_exclusive: bool = False


class PreemptedQos(msgspec.Struct):
    """The QOS that a QOS may preempt."""

    names: list[str] = msgspec.field(name="list", default_factory=list)


class SlurmQos(msgspec.Struct):
    """A quality of service."""

    name: str
    preempt: PreemptedQos


class SlurmSwitch(msgspec.Struct):
    """A switch of the topology with its level, or a block, and its nodes."""

    name: str
    depth: str
    nodes: Texts


class Records(msgspec.Struct, kw_only=True):
    """Everything that the files of a snapshot say, before it is interpreted."""

    jobs: list[SlurmJob] = []
    nodes: list[SlurmNode] = []
    partitions: list[SlurmPartition] = []
    qos: list[SlurmQos] = []
    switches: list[SlurmSwitch] = []
    last_update: Number = None

    def add(self, other: Records) -> None:
        """Add the records of another file."""
        for name in LISTS:
            getattr(self, name).extend(getattr(other, name))
        self.last_update = self.last_update or other.last_update


LISTS = ("jobs", "nodes", "partitions", "qos", "switches")
"""The fields of `Records` that are lists."""


class _Output(Records, kw_only=True):
    """The output of a command with ``--json``."""

    sinfo: list[Any] = []
    meta: dict[str, Any] = {}
    errors: list[Any] = []


def records_of_json(source: str, content: bytes) -> tuple[Records, str]:
    """Return the records in the JSON of a command, and the version of its format in words.

    Raises
    ------
    InputError
        If the JSON is damaged, is not output of Slurm, or reports an error.
    """
    try:
        output = msgspec.json.decode(content, type=_Output)
    except msgspec.MsgspecError as error:
        raise InputError(source, f"is not output of Slurm: {error}") from None
    if output.errors:
        raise InputError(source, f"reports that the command failed: {output.errors[0]}")
    if output.sinfo:
        rule = "lists groups of nodes that may differ; collect scontrol show nodes --json"
        raise InputError(source, f"sinfo {rule}")
    if not any(getattr(output, name) for name in LISTS) and not output.meta:
        raise InputError(source, "has no jobs, nodes, partitions or QOS")
    plugin = output.meta.get("plugin") or {}
    slurm = output.meta.get("slurm") or output.meta.get("Slurm") or {}
    parser = plugin.get("data_parser") or plugin.get("type")
    return output, f"Slurm {slurm.get('release', '')}, {parser}" if parser else "Slurm"
