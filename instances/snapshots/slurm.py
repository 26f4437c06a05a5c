"""Read the output of Slurm's commands: jobs, nodes, partitions, QOS and topology."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import InputError, counted
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.instances.snapshots.placement import Placement
from lyra_opt.instances.snapshots.reader import SnapshotFile, SnapshotReader
from lyra_opt.instances.snapshots.slurm_names import (
    MIB,
    generic_resources,
    hosts,
    number,
    trackable_resources,
    words,
)
from lyra_opt.instances.snapshots.slurm_records import Records, SlurmJob, SlurmNode
from lyra_opt.instances.snapshots.snapshot import (
    GPU,
    Owner,
    PendingGang,
    PendingPods,
    RunningGang,
    RunningPod,
    Snapshot,
    SnapshotNode,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lyra_opt.instances.snapshots.owners import Form

CLOSED = {
    "DRAIN": "drained",
    "DRAINED": "drained",
    "DRAINING": "drained",
    "DOWN": "down",
    "FAIL": "failing",
    "FAILING": "failing",
    "MAINT": "in maintenance",
    "MAINTENANCE": "in maintenance",
    "NOT_RESPONDING": "not responding",
    "INVALID_REG": "not registered",
    "POWERED_DOWN": "powered down",
    "POWERING_DOWN": "powered down",
    "REBOOT_ISSUED": "rebooting",
    "RESERVED": "reserved",
    "UNKNOWN": "not registered",
}
"""Why a node takes no new jobs, by its state or a flag of its state."""

RUNNING = ("RUNNING", "SUSPENDED", "RESIZING", "SIGNALING", "STAGE_OUT")
"""The states of jobs that hold their nodes."""

OFF = "OFF"


class SlurmReader(SnapshotReader):
    """The reader of ``squeue`` with ``scontrol show nodes``, as JSON or as text."""

    name = "slurm"
    collect = "squeue --all --json; scontrol show nodes --json; scontrol show partition"

    def recognises(self, file: SnapshotFile) -> bool:
        """Return whether a file begins like output of Slurm."""
        start = file.content[:4096].lstrip()
        names = (
            b"NodeName=",
            b"PartitionName=",
            b"SwitchName=",
            b"BlockName=",
            b"JOBID|",
            b"Name|",
        )
        return (
            start.startswith(names)
            or (start[:1] == b"{" and b'"openapi' in start)
            or any(
                start[:1] == b"{" and key in start
                for key in (b'"data_parser', b'"jobs"', b'"sinfo"', b'"plugin"')
            )
        )

    def read(self, files: Sequence[SnapshotFile], _owners: Mapping[str, Form]) -> Snapshot:
        """Return the snapshot that the files describe together."""
        records, source = _records_of(files), files[0].source
        if not records.nodes:
            raise InputError(source, f"no nodes are given; collect them: {self.collect}")
        try:
            return _Interpretation(records).snapshot()
        except ValueError as error:
            raise InputError(source, str(error)) from None

    def allowed(self, files: Sequence[SnapshotFile]) -> tuple[dict[str, Any], Collection[str]]:
        """Return the fields of jobs, nodes, partitions, QOS and switches that are read."""
        return _records_of(files).allowed()


def _records_of(files: Sequence[SnapshotFile]) -> Records:
    """Return the records of all files."""
    records = Records()
    for file in files:
        records.read(file.source, file.content)
    return records


class _Interpretation:
    """The meaning of the records of a snapshot."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._counts: Counter[str] = Counter()
        self._ranks = _qos_ranks(records.qos)

    def snapshot(self) -> Snapshot:
        """Return the snapshot."""
        records = self._records
        switches = {
            name: fields.get("SwitchName") or fields.get("BlockName", "")
            for fields in records.switches.values()
            if fields.get("Level", "0") == "0"
            for name in hosts(fields.get("Nodes", ""))
        }
        nodes = [self._node(node, switches.get(node.name, "")) for node in records.nodes.values()]
        running: dict[str, list[SlurmJob]] = defaultdict(list)
        pending: list[SlurmJob] = []
        newest_s = records.newest_s
        for job in records.jobs:
            states = words(job.job_state)
            times = (number(job.start_time), number(job.submit_time))
            if any(state in RUNNING for state in states):
                running[_gang_id(job)].append(job)
                newest_s = max(newest_s, *(time or 0 for time in times))
            elif "COMPLETING" in states:
                self._counts["completing"] += 1
            elif "PENDING" in states:
                pending.append(job)
        gangs = [self._gang(name, jobs) for name, jobs in running.items()]
        priorities = {
            name: int(fields.get("PriorityTier", 0)) for name, fields in records.partitions.items()
        }
        return Snapshot(
            system="slurm",
            version="; ".join(records.versions) or "text of scontrol and squeue",
            nodes=tuple(self._with_unknown_use(nodes, gangs)),
            gangs=tuple(gangs),
            pending=tuple(self._pending(job) for job in pending),
            priorities=FrozenDict(self._ranks or priorities),
            assumptions=tuple(self._assumptions()),
            newest_s=newest_s or None,
        )

    def _node(self, node: SlurmNode, switch: str) -> SnapshotNode:
        generic, types = generic_resources(node.gres or "")
        cpus = number(node.effective_cpus) or number(node.cpus) or 0
        memory = (number(node.real_memory) or 0) - (number(node.specialized_memory) or 0)
        states = [*words(node.state), *(node.state_flags or ())]
        names = [state.rstrip("*~#!%$@^-").upper() for state in states]
        if any(state.endswith("*") for state in states):
            names.append("NOT_RESPONDING")
        labels = {f"partition/{name}": "yes" for name in words(node.partitions)}
        labels |= {f"feature/{name}": "yes" for name in words(node.features)}
        if switch:
            labels["switch"] = switch
        return SnapshotNode(
            name=node.name,
            capacity=FrozenDict({"cpu": 1000 * cpus, "memory": memory * MIB, **generic}),
            labels=FrozenDict(labels),
            closed_because=next((CLOSED[name] for name in names if name in CLOSED), ""),
            gpu_type=",".join(sorted(types)),
        )

    def _gang(self, name: str, jobs: Sequence[SlurmJob]) -> RunningGang:
        first = jobs[0]
        partition = self._records.partitions.get(first.partition.partition(",")[0], {})
        mode = partition.get("PreemptMode", "")
        off = mode == OFF and not self._ranks
        return RunningGang(
            id=name,
            owner=_owner(first),
            pods=tuple(pod for job in jobs for pod in self._pods(job)),
            min_pods=sum(len(hosts(job.nodes or "")) for job in jobs),
            priority=self._priority(first),
            queue=first.account or "default",
            start_s=float(number(first.start_time) or 0),
            not_preempted_because="its partition has PreemptMode=OFF" if off else "",
            can_be_requeued=bool(first.requeue),
        )

    def _pods(self, job: SlurmJob) -> list[RunningPod]:
        """Return the part of a job on each of its nodes."""
        names = hosts(job.nodes or "")
        unknown = [name for name in names if name not in self._records.nodes]
        if unknown:
            rule = f"runs on node {unknown[0]}, which is not among the nodes"
            raise ValueError(f"job {job.job_id} {rule}; collect the nodes at the same time")
        cpu, memory = _allocations(job, names)
        gpus = self._gres_by_node(job, names)
        return [
            RunningPod(
                name=f"{job.job_id}@{name}",
                node=name,
                request=FrozenDict({"cpu": cpu[name], "memory": memory[name], **gpus[place]}),
            )
            for place, name in enumerate(names)
        ]

    def _gres_by_node(self, job: SlurmJob, names: Sequence[str]) -> list[Mapping[str, int]]:
        """Return the generic resources of a job on each of its nodes."""
        if job.gres_detail and len(job.gres_detail) == len(names):
            return [generic_resources(text)[0] for text in job.gres_detail]
        if job.tres_per_node:
            return [generic_resources(job.tres_per_node)[0]] * len(names)
        total = trackable_resources(job.tres_alloc_str or "")
        generic = {name: n for name, n in total.items() if name not in ("cpu", "memory")}
        asked = "".join((job.tres_per_job or "", job.tres_per_task or ""))
        if not generic and asked:
            generic = dict(generic_resources(asked)[0])
        if any(amount % len(names) for amount in generic.values()):
            raise ValueError(
                f"job {job.job_id} has {generic} on {len(names)} nodes, and the file does not say "
                "how many on each; collect squeue --all --json"
            )
        return [{name: n // len(names) for name, n in generic.items()}] * len(names)

    def _with_unknown_use(
        self, nodes: Sequence[SnapshotNode], gangs: Sequence[RunningGang]
    ) -> list[SnapshotNode]:
        """Return the nodes; GPUs that Slurm counts as used but no job shows are held for good."""
        known: Counter[str] = Counter()
        for gang in gangs:
            for pod in gang.pods:
                known[pod.node] += pod.request.get(GPU, 0)
        found = []
        for node in nodes:
            used, _ = generic_resources(self._records.nodes[node.name].gres_used or "")
            if (missing := used[GPU] - known[node.name]) > 0:
                self._counts["hidden GPUs"] += missing
                node = replace(node, held=FrozenDict({GPU: missing}))
            found.append(node)
        return found

    def _priority(self, job: SlurmJob) -> int:
        if self._ranks:
            return self._ranks.get(job.qos or "", 0)
        partition = self._records.partitions.get(job.partition.partition(",")[0], {})
        return int(partition.get("PriorityTier", 0))

    def _pending(self, job: SlurmJob) -> PendingGang:
        """Return a pending job: one pod for each node that it needs."""
        nodes = number(job.node_count) or 1
        asked = trackable_resources(job.tres_req_str or "")
        cpus = asked["cpu"] or 1000 * (number(job.cpus) or nodes)
        memory = asked["memory"] or (number(job.memory_per_node) or 0) * MIB * nodes
        per_job = generic_resources(job.tres_per_job or "")[0]
        pods, generic, most = nodes, generic_resources(job.tres_per_node or "")[0], 1
        if not generic and per_job[GPU] and not job.tres_per_node:
            # Slurm spreads the GPUs of a job over any number of nodes.
            self._counts["jobs with GPUs for the whole job"] += 1
            pods, generic, most = per_job[GPU], Counter({GPU: 1}), 0
        elif job.tres_per_task:
            tasks = number(job.tasks) or 1
            per_task = generic_resources(job.tres_per_task)[0]
            pods, generic, most = tasks, per_task, 0
        request = {"cpu": -(-cpus // pods), "memory": -(-memory // pods), **generic}
        selector = [(f"partition/{job.partition.partition(',')[0]}", "yes")]
        selector += [(f"feature/{name}", "yes") for name in words(job.features)]
        shape = PendingPods(
            names=tuple(f"{_job_name(job)}#{place}" for place in range(pods)),
            request=FrozenDict({name: n for name, n in request.items() if n}),
            placement=Placement(selector=tuple(sorted(selector))),
            max_per_node=most or None,
        )
        return PendingGang(
            id=_gang_id(job),
            owner=_owner(job),
            shapes=(shape,),
            min_pods=pods,
            priority=self._priority(job),
            queue=job.account or "default",
        )

    def _assumptions(self) -> list[str]:
        records, found = self._records, []
        if self._ranks:
            found.append("A job may preempt jobs whose QOS is below its own in the QOS list.")
        elif records.partitions:
            found.append("A job may preempt jobs in partitions with a lower PriorityTier.")
        else:
            found.append(
                "No partitions are given, so all jobs have priority 0 and may be preempted; "
                "collect scontrol show partition."
            )
        if count := self._counts["completing"]:
            found.append(f"{counted(count, 'job')} in state COMPLETING: their room counts as free.")
        if count := self._counts["hidden GPUs"]:
            found.append(f"{counted(count, 'GPU')} in use by jobs that are not shown stay in use.")
        if count := self._counts["jobs with GPUs for the whole job"]:
            found.append(
                f"{counted(count, 'pending job')} with --gpus: each GPU may be on any node."
            )
        if records.has_text_jobs:
            found.append("Jobs submitted with --gpus show no GPUs in the text of squeue.")
        return found


def _allocations(job: SlurmJob, names: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the milli-CPUs and the bytes of memory of a job on each of its nodes.

    Data parsers from v0.0.41 list them by node. Otherwise the totals are divided evenly.
    """
    total = trackable_resources(job.tres_alloc_str or "")
    cpus = total["cpu"] or 1000 * (number(job.cpus) or 0)
    memory = total["memory"] or (number(job.memory_per_node) or 0) * MIB * len(names)
    cpu = dict.fromkeys(names, -(-cpus // max(1, len(names))))
    byte = dict.fromkeys(names, -(-memory // max(1, len(names))))
    resources: Any = job.job_resources if isinstance(job.job_resources, dict) else {}
    nodes = resources.get("nodes")
    for each in nodes.get("allocation") or () if isinstance(nodes, dict) else ():
        if each.get("name") in cpu:
            cpu[each["name"]] = 1000 * (number((each.get("cpus") or {}).get("count")) or 0)
            byte[each["name"]] = MIB * (number((each.get("memory") or {}).get("allocated")) or 0)
    return cpu, byte


def _job_name(job: SlurmJob) -> str:
    """Return the number of a job as ``squeue`` shows it: tasks of arrays as ``3_1``."""
    array, task = number(job.array_job_id), number(job.array_task_id)
    return f"{array}_{task}" if array and task is not None else str(job.job_id)


def _gang_id(job: SlurmJob) -> str:
    """Return the id of the gang of a job: the parts of a heterogeneous job are one gang."""
    return str(number(job.het_job_id) or "") or _job_name(job)


def _owner(job: SlurmJob) -> Owner:
    return Owner(
        kind="SlurmJob", name=_gang_id(job), namespace=job.user_name or "", resource=job.name
    )


def _qos_ranks(qos: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """Return the rank of each QOS by whom it may preempt; empty if none preempts another.

    A QOS ranks one above the highest QOS that it may preempt.
    """
    below = {
        name: [each for each in row.get("Preempt", "").split(",") if each in qos]
        for name, row in qos.items()
        if name
    }
    ranks: dict[str, int] = {}

    def rank(name: str, above: frozenset[str]) -> int:
        if name in above:
            raise ValueError(f"QOS {name} may preempt itself through other QOS")
        if name not in ranks:
            inside = [rank(each, above | {name}) for each in below[name]]
            ranks[name] = 1 + max(inside) if inside else 0
        return ranks[name]

    if any(below.values()):
        for name in below:
            rank(name, frozenset())
    return ranks
