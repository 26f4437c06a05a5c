"""The fields of Slurm's output that a snapshot reads, as records.

The JSON differs between versions: openapi v0.0.38 (Slurm 22.05), and the data parsers v0.0.39 to
v0.0.46. A field has the name of the JSON; an annotation is its name in the text of ``scontrol
show`` (`lyra_opt.instances.snapshots.slurm_text`), if both have the same content. `decoded` makes
the values of all versions alike.

Source: ``src/plugins/data_parser/*/parsers.c`` of SchedMD/slurm, and the output of Slurm 22.05.8.
"""

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from lyra_opt.core.errors import InputError
from lyra_opt.core.rules import LARGEST_INTEGER
from lyra_opt.instances.rows import LARGEST_SECONDS
from lyra_opt.instances.snapshots.json_errors import damage, mistyped
from lyra_opt.instances.snapshots.slurm_names import count, hosts, seconds, span, words


class Count(int):
    """A number, 0 if it is not set."""


class Time(int):
    """A time in seconds since 1970, 0 if it is not set."""


class Span(int):
    """A time in seconds, 0 if it is not set."""


class Task(str):
    """The tasks of an array job, empty if it is not one; the first digits are the next task."""

    __slots__ = ()


class Words(tuple[str, ...]):
    """Names or flags."""

    __slots__ = ()


class Hosts(tuple[str, ...]):
    """Names of nodes."""

    __slots__ = ()


PARSERS: dict[type, Callable[[str], Any]] = {
    Count: count,
    Time: seconds,
    Span: span,
    Words: words,
    Hosts: hosts,
}
"""How a text becomes a value of each type."""


def decoded(kind: type, value: Any) -> Any:
    """Return a value of JSON or text as one of the types above.

    Since v0.0.39, numbers may be objects with ``set``, ``infinite`` and ``number``. Lists may be
    texts. `ValueError` if the value does not fit.
    """
    if isinstance(value, dict):
        is_set = value.get("set", True) and not value.get("infinite")
        value = value.get("number") if is_set else None
    if kind is Task:
        return Task("" if value is None else value)
    if isinstance(value, str):
        value = PARSERS[kind](value)
    most = {Count: LARGEST_INTEGER, Time: LARGEST_SECONDS, Span: LARGEST_SECONDS}.get(kind)
    if most and isinstance(value, int | float | None) and 0 <= (value or 0) <= most:
        return kind(value or 0)
    are_words = isinstance(value, list | None) and all(isinstance(e, str) for e in value or ())
    if are_words and not most:
        return kind(value or ())
    wanted = f"a number from 0 to {most}" if most else "a text or a list of texts"
    raise ValueError(f"must be {wanted}")


class NodeCpus(msgspec.Struct):
    """The CPUs of a job on a node."""

    count: Count = Count()


class NodeMemory(msgspec.Struct):
    """The memory of a job on a node, in MiB."""

    allocated: Count = Count()


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

    job_id: Annotated[int, "JobId"]
    job_state: Annotated[Words, "JobState"]
    array_job_id: Annotated[Count, "ArrayJobId"] = Count()
    array_task_id: Annotated[Task, "ArrayTaskId"] = Task()
    array_task_string: str | None = ""
    het_job_id: Annotated[Count, "HetJobId"] = Count()
    partition: Annotated[Words, "Partition"] = Words()
    qos: Annotated[str | None, "QOS"] = ""
    account: Annotated[str | None, "Account"] = ""
    user_name: str | None = ""
    name: str | None = ""
    nodes: Annotated[Hosts, "NodeList"] = Hosts()
    node_count: Annotated[Count, "NumNodes"] = Count()
    max_nodes: Count = Count()
    cpus: Annotated[Count, "NumCPUs"] = Count()
    tasks: Annotated[Count, "NumTasks"] = Count()
    gres_detail: list[str | None] | None = None
    tres_alloc_str: Annotated[str | None, "AllocTRES"] = ""
    tres_req_str: Annotated[str | None, "ReqTRES"] = ""
    tres_per_node: Annotated[str | None, "TresPerNode"] = ""
    tres_per_job: Annotated[str | None, "TresPerJob"] = ""
    tres_per_task: Annotated[str | None, "TresPerTask"] = ""
    features: Annotated[str | list[list[str]] | None, "Features"] = ""
    excluded_nodes: Annotated[Hosts, "ExcNodeList"] = Hosts()
    required_nodes: Annotated[Hosts, "ReqNodeList"] = Hosts()
    shared: Words = Words()
    exclusive: Annotated[Words, "Exclusive"] = Words()
    requeue: Annotated[bool | None, "Requeue"] = True
    batch_flag: Annotated[bool | None, "BatchFlag"] = True
    start_time: Annotated[Time, "StartTime"] = Time()
    run_time: Annotated[Span, "RunTime"] = Span()
    submit_time: Annotated[Time, "SubmitTime"] = Time()
    last_sched_evaluation: Annotated[Time, "LastSchedEval"] = Time()
    job_resources: JobResources | None = None
    source: str = ""


class SlurmNode(msgspec.Struct, kw_only=True):
    """A node of the cluster."""

    name: Annotated[str, "NodeName"]
    state: Annotated[Words, "State"]
    state_flags: Words = Words()
    cpus: Annotated[Count, "CPUTot"] = Count()
    effective_cpus: Annotated[Count, "CPUEfctv"] = Count()
    real_memory: Annotated[Count, "RealMemory"] = Count()
    specialized_memory: Annotated[Count, "MemSpecLimit"] = Count()
    gres: Annotated[str | None, "Gres"] = ""
    gres_used: Annotated[str | None, "GresUsed"] = ""
    partitions: Annotated[Words, "Partitions"] = Words()
    features: Annotated[Words, "AvailableFeatures"] = Words()
    source: str = ""


class PartitionPriority(msgspec.Struct):
    """The priorities of a partition."""

    tier: Count = Count()


class SlurmPartition(msgspec.Struct):
    """A partition; JSON names its mode of preemption since v0.0.45."""

    name: Annotated[str, "PartitionName"]
    priority: PartitionPriority
    preempt_mode: Annotated[Words, "PreemptMode"] = Words()
    is_exclusive: bool = False


class PreemptedQos(msgspec.Struct):
    """The QOS that a QOS may preempt."""

    names: Words = msgspec.field(name="list", default=Words())


class SlurmQos(msgspec.Struct):
    """A quality of service."""

    name: str
    preempt: PreemptedQos


class SlurmSwitch(msgspec.Struct):
    """A switch of the topology with its level, or a block, and its nodes."""

    name: str
    depth: str
    nodes: Hosts


class Records(msgspec.Struct, kw_only=True):
    """Everything that the files of a snapshot say, before it is interpreted."""

    jobs: list[SlurmJob] = []
    nodes: list[SlurmNode] = []
    partitions: list[SlurmPartition] = []
    qos: list[SlurmQos] = []
    switches: list[SlurmSwitch] = []
    last_update: Time = Time()

    def set_source(self, source: str) -> None:
        """Store in each job and node the name of its file, for messages."""
        records: tuple[SlurmJob | SlurmNode, ...] = (*self.jobs, *self.nodes)
        for record in records:
            record.source = source

    def add(self, other: "Records") -> None:
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
        output = msgspec.json.decode(content, type=_Output, dec_hook=decoded)
    except msgspec.ValidationError as error:
        raise InputError(source, f"is not output of Slurm: {mistyped(error)}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(source, damage(error)) from None
    if output.errors:
        first = output.errors[0]
        reason = first.get("description") or first.get("error") if isinstance(first, dict) else None
        raise InputError(source, f"reports that the command failed: {reason or first}")
    if output.sinfo:
        rule = "lists groups of nodes that may differ; collect scontrol show nodes --json"
        raise InputError(source, f"sinfo {rule}")
    if not any(getattr(output, name) for name in LISTS) and not output.meta:
        raise InputError(source, "has no jobs, nodes, partitions or QOS")
    plugin = output.meta.get("plugin") or {}
    slurm = output.meta.get("slurm") or output.meta.get("Slurm") or {}
    parser = plugin.get("data_parser") or plugin.get("type")
    return output, f"Slurm {slurm.get('release', '')}, {parser}" if parser else "Slurm"
