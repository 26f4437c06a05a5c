"""Read the output of Slurm's commands: jobs, nodes, partitions, QOS and topology."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import msgspec

from lyra_opt.core.errors import InputError, counted
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.instances.snapshots import slurm_states
from lyra_opt.instances.snapshots.owners import Form
from lyra_opt.instances.snapshots.placement import NAME_FIELD, Placement, Requirement
from lyra_opt.instances.snapshots.reader import SnapshotFile, SnapshotReader, blaming
from lyra_opt.instances.snapshots.slurm_names import (
    MIB,
    generic_resources,
    trackable_resources,
    words,
)
from lyra_opt.instances.snapshots.slurm_records import (
    AllocatedNodes,
    Records,
    SlurmJob,
    SlurmNode,
    SlurmPartition,
    Task,
    records_of_json,
)
from lyra_opt.instances.snapshots.slurm_text import STARTS, records_of_text
from lyra_opt.instances.snapshots.snapshot import (
    GPU,
    Owner,
    PendingGang,
    PendingPods,
    RunningGang,
    RunningPod,
    Snapshot,
    SnapshotNode,
    places,
)

SHARE, WHOLE = "node share", 1_000_000
"""A resource of which each job holds one per node, and a job that shares no nodes all."""

_JSON = re.compile(
    rb'\s*\{\s*"(meta|jobs|nodes|sinfo|partitions|qos|switches|errors|warnings|last_\w+)"'
)


class SlurmReader(SnapshotReader):
    """The reader of ``squeue`` with ``scontrol show nodes`` as JSON, and of ``scontrol show``."""

    name = "slurm"
    collect = (
        "squeue --all --json, scontrol show nodes --json (Slurm 22.05: sinfo --json) and "
        "scontrol show partition; or the text of scontrol --details show job and ... show node"
    )

    example = "squeue --all --json, and scontrol show nodes --json"

    def recognises(self, file: SnapshotFile) -> bool:
        """Return whether a file begins like output of Slurm."""
        start = file.content[:4096].lstrip()
        return start.startswith(tuple(map(str.encode, STARTS))) or bool(_JSON.match(start))

    def read(self, files: Sequence[SnapshotFile], _owners: Mapping[str, Form]) -> Snapshot:
        """Return the snapshot that the files describe together."""
        records, versions = self._records(files)
        sources = ", ".join(file.source for file in files)
        if not records.nodes:
            raise InputError(sources, f"no nodes are given; collect {self.collect}")
        for node in records.nodes:
            if not records.jobs and {"ALLOCATED", "MIXED"} & {*slurm_states.with_flags(node.state)}:
                rule = "is in use, but no jobs are given"
                raise InputError(sources, f"node {node.name} {rule}; collect {self.collect}")
        _require_once(sources, "node", (node.name for node in records.nodes))
        _require_once(sources, "job", (str(job.job_id) for job in records.jobs))
        return _Interpretation(records, sources).snapshot(versions)

    def _records(self, files: Sequence[SnapshotFile]) -> tuple[Records, str]:
        """Return the records of all files, and the versions of their formats."""
        found = Records()
        versions: dict[str, None] = {}
        for file in files:
            if file.content.lstrip()[:1] == b"{":
                records, version = records_of_json(file.source, file.content)
            else:
                with blaming(file.source):
                    records = records_of_text(file.content.decode("utf-8", errors="replace"))
                version = "text of Slurm"
            records.set_source(file.source)
            found.add(records)
            versions[version] = None
        return found, "; ".join(versions)

    def allowed(self, files: Sequence[SnapshotFile]) -> tuple[dict[str, Any], Collection[str]]:
        """Return the records as JSON data, with lists of names instead of Slurm's notation."""
        records, _ = self._records(files)
        for job in records.jobs:
            job.features = _alternatives(job.features) or ""
            job.array_task_id, job.array_task_string = Task(_first_task(job)), ""
        records.set_source("")
        found: dict[str, Any] = msgspec.to_builtins(records, enc_hook=_plain)
        return found, ()


SLURM = SlurmReader()


def _require_once(sources: str, noun: str, names: Iterable[str]) -> None:
    """Raise `InputError` if a name occurs twice, for example because a file is given twice."""
    name, number = next(iter(Counter(names).most_common(1)), ("", 0))
    if number > 1:
        raise InputError(sources, f"{noun} {name} occurs twice in the files; give each file once")


class _Interpretation:
    """The meaning of the records of a snapshot."""

    def __init__(self, records: Records, sources: str) -> None:
        self._records = records
        self._counts: Counter[str] = Counter()
        self._unread: dict[str, None] = {}
        self._nodes = {node.name: node for node in records.nodes}
        self._partitions = {partition.name: partition for partition in records.partitions}
        with blaming(sources):
            self._ranks = _qos_ranks({qos.name: qos.preempt.names for qos in records.qos})
        modes = [partition.preempt_mode for partition in records.partitions]
        self._preempts = not self._ranks and any("OFF" not in mode for mode in modes)
        self._has_whole_nodes = any(map(self._is_exclusive, records.jobs))

    def snapshot(self, versions: str) -> Snapshot:
        """Return the snapshot."""
        running: dict[str, list[SlurmJob]] = defaultdict(list)
        pending: dict[str, list[SlurmJob]] = defaultdict(list)
        completing = []
        newest_s: int = self._records.last_update
        for job in self._records.jobs:
            with blaming(job.source, f"job {job.job_id}"):
                found = slurm_states.meanings("job_state", job.job_state, slurm_states.JOB_STATES)
                if "RUNNING" in job.job_state and job.node_count and not job.nodes:
                    raise ValueError("nodes is empty, but job_state is RUNNING")
            if "leaves" in found:
                completing.append(job)
            elif "holds" in found and job.nodes:
                running[_gang_id(job)].append(job)
                newest_s = max(newest_s, job.start_time + job.run_time)
            elif "waits" in found:
                pending[_gang_id(job)].append(job)
            newest_s = max(newest_s, job.submit_time, job.last_sched_evaluation)
        gangs = [self._gang(name, jobs) for name, jobs in running.items()]
        gangs += self._hidden(gangs, completing)
        self._counts["completing"] = len(completing)
        waiting = [self._pending(name, jobs) for name, jobs in pending.items()]
        tiers = {name: each.priority.tier for name, each in self._partitions.items()}
        return Snapshot(
            system="slurm",
            version=versions,
            nodes=tuple(self._snapshot_nodes()),
            gangs=tuple(gangs),
            pending=tuple(waiting),
            priorities=FrozenDict(self._ranks or tiers),
            gpu_name="gres/gpu",
            assumptions=tuple(self._assumptions()),
            not_read=tuple(self._unread),
            newest_s=float(newest_s) or None,
        )

    def _snapshot_nodes(self) -> Iterator[SnapshotNode]:
        switches: dict[str, dict[str, str]] = defaultdict(dict)
        for switch in self._records.switches:
            label = {"0": "switch", "block": "block"}.get(switch.depth)
            for name in switch.nodes:
                switches[name][label or f"switch-level-{switch.depth}"] = switch.name
        for node in self._nodes.values():
            with blaming(node.source, f"node {node.name}"):
                yield self._node(node, switches[node.name])

    def _node(self, node: SlurmNode, switches: Mapping[str, str]) -> SnapshotNode:
        generic, types = generic_resources(node.gres or "", "gres")
        cpus = node.effective_cpus or node.cpus
        memory = node.real_memory - node.specialized_memory
        capacity = {"cpu": 1000 * cpus, "memory": memory * MIB, **generic}
        if self._has_whole_nodes:
            capacity[SHARE] = WHOLE
        reasons = slurm_states.meanings(
            "state",
            slurm_states.with_flags(node.state + node.state_flags),
            slurm_states.NODE_STATES,
        )
        has = [f"partition/{name}" for name in node.partitions]
        has += [f"feature/{name}" for name in node.features]
        has += [f"gpu/{name}" for name in types]
        if len(types) > 1:
            self._unread["GPUs of several types on a node count as alike."] = None
        if "gres/shard" in generic or "gres/mps" in generic:
            self._unread["A GPU that shards or MPS use counts as free for whole GPUs."] = None
        return SnapshotNode(
            name=node.name,
            capacity=FrozenDict(capacity),
            labels=FrozenDict({**dict.fromkeys(has, "yes"), **switches}),
            closed_because=next(filter(None, reasons), ""),
            gpu_type=",".join(sorted(types)),
        )

    def _gang(self, name: str, jobs: Sequence[SlurmJob]) -> RunningGang:
        first = jobs[0]
        pods = tuple(pod for job in jobs for pod in self._pods(job))
        modes = [each.preempt_mode for each in self._partitions_of(first)]
        is_off = self._preempts and any("OFF" in mode for mode in modes)
        return RunningGang(
            id=name,
            owner=_owner(first),
            pods=pods,
            min_pods=len(pods),
            priority=self._priority(first),
            queue=first.account or "default",
            start_s=float(first.start_time),
            not_preempted_because="its partition has PreemptMode=OFF" if is_off else "",
            can_be_requeued=all(job.requeue and job.batch_flag for job in jobs),
        )

    def _pods(self, job: SlurmJob) -> list[RunningPod]:
        """Return the part of a job on each of its nodes."""
        with blaming(job.source, f"job {job.job_id}"):
            if unknown := [name for name in job.nodes if name not in self._nodes]:
                rule = "is not among the nodes; collect jobs and nodes at the same time"
                raise ValueError(f"its node {unknown[0]} {rule}")
            if len({*job.nodes}) < len(job.nodes):
                raise ValueError("nodes has a node twice")
            requests = _allocations(job)
            if self._has_whole_nodes:
                requests = [{**request, SHARE: 1} for request in requests]
        return [
            RunningPod(name=f"{job.job_id}@{name}", node=name, request=FrozenDict(request))
            for name, request in zip(job.nodes, requests, strict=True)
        ]

    def _hidden(
        self, gangs: Sequence[RunningGang], completing: Sequence[SlurmJob]
    ) -> Iterator[RunningGang]:
        """Yield a gang for each node on which more GPUs are in use than its jobs hold."""
        shown: Counter[str] = Counter()
        leaving = {name for job in completing for name in job.nodes}
        for pod in (pod for gang in gangs for pod in gang.pods):
            shown[pod.node] += pod.request.get(GPU, 0)
        for name, node in self._nodes.items():
            with blaming(node.source, f"node {name}"):
                in_use, _ = generic_resources(node.gres_used or "", "gres_used", is_counted=True)
                used = in_use[GPU]
            if used > shown[name] and name not in leaving:
                self._counts["hidden GPUs"] += used - shown[name]
                whole = {SHARE: 1} if self._has_whole_nodes else {}
                request = FrozenDict({GPU: used - shown[name], **whole})
                yield RunningGang(
                    id=f"hidden@{name}",
                    owner=Owner(kind="SlurmJob", name=f"hidden@{name}"),
                    pods=(RunningPod(name=f"hidden@{name}", node=name, request=request),),
                    min_pods=1,
                    protected_because="is not among the jobs of the snapshot",
                )

    def _partitions_of(self, job: SlurmJob) -> list[SlurmPartition]:
        return [self._partitions[name] for name in job.partition if name in self._partitions]

    def _priority(self, job: SlurmJob) -> int:
        if self._ranks:
            return self._ranks.get(job.qos or "", 0)
        return max((each.priority.tier for each in self._partitions_of(job)), default=0)

    def _is_exclusive(self, job: SlurmJob) -> bool:
        """Return whether a job waits for nodes that it shares with nobody."""
        modes = {mode.lower() for mode in job.shared + job.exclusive}
        is_whole = any(each.is_exclusive for each in self._partitions_of(job))
        return not job.nodes and (is_whole or bool(modes & {"none", "true", "node", "topo"}))

    def _pending(self, name: str, jobs: Sequence[SlurmJob]) -> PendingGang:
        """Return a pending job; the components of a heterogeneous job are its shapes."""
        shapes = []
        for job in jobs:
            with blaming(job.source, f"job {job.job_id}"):
                shapes.append(self._pending_pods(job))
        return PendingGang(
            id=name,
            owner=_owner(jobs[0]),
            shapes=tuple(shapes),
            min_pods=sum(len(shape.names) for shape in shapes),
            priority=self._priority(jobs[0]),
            queue=jobs[0].account or "default",
            job_name=jobs[0].name or "",
        )

    def _pending_pods(self, job: SlurmJob) -> PendingPods:
        """Return the pods of a pending job: one for each node, each task or each GPU."""
        nodes = max(1, job.node_count)
        total = trackable_resources(job.tres_req_str or "", "tres_req_str")
        cpus = total["cpu"] or 1000 * (job.cpus or nodes)
        per_node, types = generic_resources(job.tres_per_node or "", "tres_per_node")
        per_job, types_of_job = generic_resources(job.tres_per_job or "", "tres_per_job")
        per_task, types_of_task = generic_resources(job.tres_per_task or "", "tres_per_task")
        tasks = job.tasks or 1
        is_spread = per_job[GPU] and not per_node and tasks > 1 and job.max_nodes != 1
        generic = Counter({key: -(-n // nodes) for key, n in per_job.items()}) | per_node
        pods, most = nodes, 1
        if self._is_exclusive(job):
            generic[SHARE] = WHOLE
        elif is_spread:
            # Slurm spreads the GPUs of a job over any number of nodes.
            self._counts["jobs with GPUs for the whole job"] += 1
            pods, generic, most = per_job[GPU], Counter({GPU: 1}), 0
        elif per_task and not per_node:
            pods, generic, most = tasks, per_task, 0
        request = {"cpu": -(-cpus // pods), "memory": -(-total["memory"] // pods), **generic}
        return PendingPods(
            names=tuple(f"{job.job_id}#{place}" for place in places(pods)),
            request=FrozenDict({key: n for key, n in request.items() if n}),
            placement=self._placement(job, types | types_of_job | types_of_task),
            max_per_node=most or None,
        )

    def _placement(self, job: SlurmJob, gpu_types: set[str]) -> Placement:
        """Return on which nodes a pending job may run: one term for each way to be satisfied."""
        alternatives = _alternatives(job.features)
        if alternatives is None:
            self._unread[f"Job {job.job_id}: its features {job.features}."] = None
        always = [Requirement(f"gpu/{name}", "Exists") for name in sorted(gpu_types)]
        if job.excluded_nodes:
            always.append(Requirement(NAME_FIELD, "NotIn", job.excluded_nodes))
        if job.required_nodes and len(job.required_nodes) >= (job.node_count or 1):
            always.append(Requirement(NAME_FIELD, "In", job.required_nodes))
        elif job.required_nodes:
            self._unread[f"Job {job.job_id}: the nodes that it requires."] = None
        terms = [
            (
                *([Requirement(f"partition/{partition}", "Exists")] if partition else []),
                *(Requirement(f"feature/{feature}", "Exists") for feature in features),
                *always,
            )
            for partition, features in product(job.partition or [""], alternatives or [[]])
        ]
        return Placement(terms=tuple(terms) if any(terms) else ())

    def _assumptions(self) -> Iterator[str]:
        if self._ranks:
            yield "A job may preempt jobs whose QOS is below its own in the order of preemption."
            for high, (low, rank) in product(self._records.qos, self._ranks.items()):
                if rank < self._ranks[high.name] and low not in high.preempt.names:
                    rule = f"counts as if it may preempt {low}, which it does not list"
                    yield f"QOS {high.name} {rule}."
        elif self._preempts:
            yield "A job may preempt jobs in partitions with a lower PriorityTier."
            if not all(each.preempt_mode for each in self._partitions.values()):
                yield "PreemptMode is not shown; collect scontrol show partition as text."
        elif self._partitions:
            yield (
                "Slurm preempts no jobs of these partitions (PreemptMode=OFF), "
                "so a plan may stop any job with a lower PriorityTier."
            )
        else:
            yield (
                "No partitions are given, so all jobs have priority 0; "
                "collect scontrol show partition."
            )
        if count := self._counts["completing"]:
            yield f"{counted(count, 'job')} in state COMPLETING: their room counts as free."
        if count := self._counts["hidden GPUs"]:
            yield f"{counted(count, 'GPU')} in use by jobs that are not shown stay in use."
        if count := self._counts["jobs with GPUs for the whole job"]:
            yield f"{counted(count, 'pending job')} with --gpus: each GPU may be on any node."


def _plain(value: Any) -> Any:
    """Return a value of the types that records have as one of Python's own."""
    if isinstance(value, str):
        return str(value)
    return int(value) if isinstance(value, int) else list(value)


def _alternatives(features: str | list[list[str]] | None) -> list[list[str]] | None:
    """Return sets of features, of which a node must have one; None if there is no such form."""
    if isinstance(features, list):
        return features
    if not features:
        return []
    if re.search(r"[\[\](){}*]", features) or ("|" in features and re.search("[&,]", features)):
        return None
    return [words(part) for part in features.split("|")]


def _allocations(job: SlurmJob) -> list[dict[str, int]]:
    """Return the resources that a running job holds on each of its nodes.

    CPUs and memory are divided evenly before v0.0.41, which lists them by node.
    """
    names = job.nodes
    total = trackable_resources(job.tres_alloc_str or "", "tres_alloc_str")
    cpus = total["cpu"] or 1000 * job.cpus
    even = {"cpu": -(-cpus // len(names)), "memory": -(-total["memory"] // len(names))}
    found = {name: dict(even) for name in names}
    nodes = job.job_resources.nodes if job.job_resources else None
    for each in nodes.allocation if isinstance(nodes, AllocatedNodes) else ():
        if each.name in found:
            memory = MIB * each.memory.allocated
            found[each.name] = {"cpu": 1000 * each.cpus.count, "memory": memory}
    generic = {name: n for name, n in total.items() if name not in ("cpu", "memory")}
    asked = ("tres_per_node", "tres_per_job", "tres_per_task")
    if job.gres_detail and len(job.gres_detail) == len(names):
        for name, text in zip(names, job.gres_detail, strict=True):
            found[name].update(generic_resources(text or "", "gres_detail", is_counted=True)[0])
    elif generic and not any(amount % len(names) for amount in generic.values()):
        for request in found.values():
            request.update({name: n // len(names) for name, n in generic.items()})
    elif generic or any(generic_resources(getattr(job, name) or "", name)[0] for name in asked):
        rule = "its generic resources on each node are not shown; collect squeue --all --json"
        raise ValueError(rule)
    return list(found.values())


def _gang_id(job: SlurmJob) -> str:
    """Return the id of the gang of a job, as commands take it: ``3_1`` is a task of an array.

    The components of a heterogeneous job are one gang. A pending array is planned as its next task.
    """
    if job.het_job_id:
        return str(job.het_job_id)
    task = _first_task(job)
    return f"{job.array_job_id}_{task}" if job.array_job_id and task else str(job.job_id)


def _first_task(job: SlurmJob) -> str:
    """Return the task of an array job, or the first of those that wait, such as 4 of ``4-9%2``."""
    return re.split(r"\D", job.array_task_id or job.array_task_string or "")[0]


def _owner(job: SlurmJob) -> Owner:
    return Owner(kind="SlurmJob", name=_gang_id(job), namespace=job.user_name or "")


def _qos_ranks(preempts: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the rank of each QOS by whom it may preempt; empty if none preempts another.

    A QOS ranks one above the highest QOS that it may preempt.
    """
    ranks: dict[str, int] = {}

    def rank(name: str, above: frozenset[str]) -> int:
        if name in above:
            raise ValueError(f"QOS {name} may preempt itself through other QOS")
        if name not in ranks:
            inside = [rank(each, above | {name}) for each in preempts[name] if each in preempts]
            ranks[name] = 1 + max(inside) if inside else 0
        return ranks[name]

    if any(preempts.values()):
        for name in preempts:
            rank(name, frozenset())
    return ranks
