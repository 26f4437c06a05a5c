"""The reader of Kubernetes snapshots: ``kubectl get ... -o json`` and KAI's ``snapshot.zip``."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import InputError, UserError, counted
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.nearest_names import meant
from lyra_opt.instances.snapshots.kubernetes_files import (
    Objects,
    allowed_fields,
    objects_of,
    titled,
)
from lyra_opt.instances.snapshots.kubernetes_gangs import Groups, Notes, PlacedPod
from lyra_opt.instances.snapshots.kubernetes_objects import (
    BindRequest,
    LabelSelector,
    Metadata,
    Node,
    Pod,
    PodDisruptionBudget,
    PodSet,
    Workload,
)
from lyra_opt.instances.snapshots.pod_requests import DeviceClaims, Shared, amounts
from lyra_opt.instances.snapshots.reader import SnapshotReader, blaming
from lyra_opt.instances.snapshots.snapshot import (
    GPU,
    GPU_TYPES,
    DisruptionBudget,
    Snapshot,
    SnapshotNode,
    places,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from lyra_opt.instances.snapshots.owners import Form
    from lyra_opt.instances.snapshots.reader import SnapshotFile

WHOLE_GPUS = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "gpu.nvidia.com",
    "gpu.amd.com",
    "gpu.intel.com",
)
"""Resources of device plugins and names of DRA drivers that count whole GPUs."""

FRACTIONS = ("gpu-fraction", "gpu-memory")
"""Annotations of KAI for a part of a GPU."""

ENDED = ("Succeeded", "Failed")


class KubernetesReader(SnapshotReader):
    """The reader of objects of the Kubernetes API in JSON, and of KAI's snapshots."""

    name = "kubernetes"
    collect = (
        'kubectl get "$(kubectl api-resources --verbs=list --output=name | grep -xE '
        "'nodes|pods|replicationcontrollers|(priorityclasses|poddisruptionbudgets|podgroups"
        "|workloads|jobs|(pytorch|tf|mpi|xgboost|paddle|jax|train|ray)jobs|rayclusters|rayservices"
        "|jobsets|leaderworkersets|deployments|replicasets|statefulsets|daemonsets|bindrequests"
        "|resourceclaims|resourceslices)[.].*' | paste -sd, -)\" --all-namespaces --output=json"
        "  # or the snapshot.zip of KAI"
    )

    example = "kubectl get nodes,pods -A -o json"

    def recognises(self, file: SnapshotFile) -> bool:
        """Return whether a file is a zip archive or mentions fields of the Kubernetes API."""
        content = file.content
        if content.startswith(b"PK\x03\x04") or b'"rawObjects"' in content:
            return True
        return content.lstrip()[:1] == b"{" and b'"apiVersion"' in content

    def read(self, files: Sequence[SnapshotFile], owners: Mapping[str, Form]) -> Snapshot:
        """Return the snapshot that the files describe together."""
        objects = objects_of(files)
        sources = ", ".join(file.source for file in files)
        return _Cluster(objects, sources, owners).snapshot()

    def allowed(self, files: Sequence[SnapshotFile]) -> tuple[dict[str, Any], Collection[str]]:
        """Return the fields of the objects that are read."""
        return allowed_fields(files)


class _Cluster:
    """The nodes and pods of a cluster while its snapshot is made."""

    def __init__(self, objects: Objects, sources: str, given: Mapping[str, Form]) -> None:
        self._objects, self._sources = objects, sources
        self._assumed, self._ignored = Notes(), Notes()
        self._groups = Groups(objects, given, self._assumed, self._ignored)
        self._shared = Shared()
        self._claims = DeviceClaims(objects)
        self._held: dict[str, Counter[str]] = defaultdict(Counter)
        self._times: list[datetime] = []
        self._bound = {
            (each.metadata.namespace, each.spec.pod_name): each.spec.selected_node
            for _, each in objects.of(BindRequest)
            if each.status.phase != "Failed"
        }

    def snapshot(self) -> Snapshot:
        """Return the snapshot."""
        capacities = self._capacities()
        whole = {name for each in capacities.values() for name in each if name in WHOLE_GPUS}
        if len(whole) == 1:
            self._shared.renamed = {whole.pop(): GPU}
        self._add_pods(capacities)
        self._add_waiting_workloads()
        owners = self._groups.owners
        for kind in owners.given.keys() - owners.asked:
            rule = f"no pod has an owner of this kind; {meant(kind, sorted(owners.asked))}"
            raise UserError(f"owner {kind}: {rule}")
        groups = list(self._groups.groups.values())
        for group in groups:
            self._groups.settle(group)
        running, pending = self._groups.running_gang, self._groups.pending_gang
        classes = self._groups.priorities.classes.values()
        for kind, number in sorted(self._objects.unknown.items()):
            self._ignored.add("object", f"of kind {kind}", number)
        return Snapshot(
            system="kubernetes",
            version="Kubernetes objects: " + ", ".join(sorted(self._objects.versions)),
            nodes=tuple(self._nodes(capacities)),
            gangs=tuple(running(group) for group in groups if group.running),
            pending=tuple(pending(group) for group in groups if group.pending),
            budgets=tuple(self._budgets()),
            priorities=FrozenDict(
                {
                    **self._priorities_of_pods(),
                    **{each.metadata.name: each.value for each in classes},
                }
            ),
            gpu_name=next(iter(self._shared.renamed), ""),
            assumptions=self._assumed.sentences(),
            not_read=tuple(f"Not read: {each}" for each in self._ignored.sentences()),
            newest_s=max(self._times).timestamp() if self._times else None,
        )

    def _capacities(self) -> dict[str, Counter[str]]:
        """Return the amount of each resource on each node, with the names of their sources."""
        found: dict[str, Counter[str]] = {}
        for source, node in self._objects.of(Node):
            name = node.metadata.name
            if name in found:
                raise InputError(source, f"two nodes have the name {name}")
            with blaming(source, f"Node {name}"):
                devices = self._claims.capacity.get(name, Counter())
                found[name] = amounts(node.status.allocatable) + devices  # drops zeros
        if not found:
            raise InputError(self._sources, "contains no nodes: add kubectl get nodes -o json")
        files = len({source for source, _ in self._objects.of(Node)})
        if files > 1:
            self._assumed.add("node", f"in {files} files: taken as one cluster", len(found))
        return found

    def _nodes(self, capacities: dict[str, Counter[str]]) -> list[SnapshotNode]:
        nodes = []
        for _, node in self._objects.of(Node):
            name, conditions = node.metadata.name, node.status.conditions or ()
            labels = node.metadata.labels or {}
            closed = ""
            if any(each.type == "Ready" and each.status != "True" for each in conditions):
                closed = "not ready"
            elif node.spec.unschedulable:
                closed = "cordoned"
            self._times += filter(None, (each.last_heartbeat_time for each in conditions))
            nodes.append(
                SnapshotNode(
                    name=name,
                    capacity=FrozenDict(self._shared.with_names(capacities[name])),
                    held=FrozenDict(self._held[name]),
                    labels=FrozenDict(labels),
                    taints=node.spec.taints or (),
                    closed_because=closed,
                    gpu_type=next((labels[each] for each in GPU_TYPES if each in labels), ""),
                )
            )
        return nodes

    def _add_pods(self, capacities: dict[str, Counter[str]]) -> None:
        """Add each pod to its gang, or to what is held on its node."""
        nodes = {node.metadata.name for _, node in self._objects.of(Node)}
        resources = {name for each in capacities.values() for name in each}
        seen: set[tuple[str, str]] = set()
        leaving: Counter[str] = Counter()
        for source, pod in self._objects.of(Pod):
            metadata = pod.metadata
            title = titled("Pod", metadata.namespace, metadata.name)
            if (metadata.namespace, metadata.name) in seen:
                raise InputError(source, f"{title} occurs twice in the files")
            seen.add((metadata.namespace, metadata.name))
            self._times += filter(None, (metadata.creation_timestamp, pod.status.start_time))
            if pod.status.phase in ENDED:
                continue
            placed = self._placed(source, pod, title)
            if metadata.deletion_timestamp is not None:
                leaving.update({"pods": 1, GPU: placed.request.get(GPU, 0)} if placed.node else {})
            elif placed.node and placed.node not in nodes:
                raise InputError(
                    source,
                    f"{title} stands on node {placed.node}, which no file contains: "
                    f"add kubectl get nodes -o json of the same moment",
                )
            elif self._groups.is_fixed(pod):
                if placed.node:
                    self._held[placed.node].update(placed.request)
            elif not placed.node and pod.status.phase not in ("Pending", ""):
                rule = f"status.phase is {pod.status.phase}, but spec.nodeName is empty"
                raise InputError(source, f"{title}: {rule}; collect the pods again")
            else:
                for name in placed.request.keys() & set(WHOLE_GPUS) - resources:
                    self._assumed.add("pod", f"with {name}, which no node has: it is not counted")
                self._note_ignored(pod)
                self._groups.add(placed)
        if not seen:
            raise InputError(self._sources, "contains no pods: add kubectl get pods -A -o json")
        namespaces = {namespace for namespace, _ in seen}
        if len(namespaces) == 1 and "kube-system" not in namespaces:
            self._assumed.add(
                "pod",
                f"in the only namespace {namespaces.pop()}: taken to be all pods of the cluster "
                f"(kubectl leaves out other namespaces without -A)",
                len(seen),
            )
        if leaving:
            self._assumed.add(
                "pod",
                f"being deleted, with {counted(leaving[GPU], 'GPU')}: their room is taken as free",
                leaving["pods"],
            )

    def _priorities_of_pods(self) -> dict[str, int]:
        """Return the value of each priority class that a pod names, in case no file has classes."""
        specs = (pod.spec for _, pod in self._objects.of(Pod))
        return {
            spec.priority_class_name: spec.priority
            for spec in specs
            if spec.priority_class_name and spec.priority is not None
        }

    def _add_waiting_workloads(self) -> None:
        """Add the Kueue Workloads whose jobs have no pods yet, with the pods of their templates."""
        with_pods = {id(group.workload) for group in self._groups.groups.values()}
        for source, workload in self._objects.of(Workload):
            if id(workload) in with_pods or not _is_waiting(workload):
                continue
            metadata, pod_sets = workload.metadata, workload.spec.pod_sets
            if any(each.template.spec.resource_claims for each in pod_sets):
                self._ignored.add("waiting Workload", "with ResourceClaims")
                continue
            title = titled("Workload", metadata.namespace, metadata.name)
            with blaming(source, title):
                numbered = [(each, index) for each in pod_sets for index in places(each.count)]
            pods = [
                self._placed(source, _pod_of(metadata.namespace, each, index), title)
                for each, index in numbered
            ]
            self._groups.add_waiting(workload, pods)

    def _placed(self, source: str, pod: Pod, title: str) -> PlacedPod:
        """Return a pod with its request, its placement and its node."""
        marks = pod.metadata.annotations or {}
        if part := next((mark for mark in FRACTIONS if mark in marks), None):
            raise InputError(
                source,
                f"{title} shares a GPU (annotation {part}): the state of single GPUs is not read",
            )
        node = pod.spec.node_name
        if not node:
            node = self._bound.get((pod.metadata.namespace, pod.metadata.name), "")
        with blaming(source, title):
            request = self._shared.request(pod.spec, self._claims.devices_of(pod))
            placement = self._shared.placement(pod.spec)
        return PlacedPod(source, pod, request, placement, node)

    def _note_ignored(self, pod: Pod) -> None:
        """Note the fields of a pod that limit where it may run and are not read."""
        spec, affinity = pod.spec, pod.spec.affinity
        if affinity is not None:
            between = (affinity.pod_affinity, affinity.pod_anti_affinity)
            if any(each is not None and each.required for each in between):
                self._ignored.add("pod", "with required affinities between pods")
        if spec.topology_spread_constraints:
            self._ignored.add("pod", "with topology spread constraints")
        if any(volume.persistent_volume_claim is not None for volume in spec.volumes or ()):
            self._ignored.add("pod", "with persistent volumes, which can pin a pod to some nodes")
        if not spec.node_name:
            if spec.scheduling_gates:
                self._ignored.add("pending pod", "with scheduling gates")
            if pod.status.nominated_node_name:
                self._assumed.add(
                    "pending pod", "with a nominated node: the room reserved there is taken as free"
                )

    def _budgets(self) -> list[DisruptionBudget]:
        """Return the budgets that select pods of running gangs."""
        pods: dict[str, list[tuple[Mapping[str, str], str]]] = defaultdict(list)
        for group in self._groups.groups.values():
            for each in group.running:
                metadata = each.pod.metadata
                pods[metadata.namespace].append((metadata.labels or {}, group.id))
        budgets = []
        for _, budget in self._objects.of(PodDisruptionBudget):
            selector, namespace = budget.spec.selector, budget.metadata.namespace
            if selector is None:
                continue
            found = (gang for labels, gang in pods[namespace] if _selects(selector, labels))
            if not (gangs := tuple(dict.fromkeys(found))):
                continue
            most = budget.status.disruptions_allowed
            if most is None:
                text = "without a status: it is taken to allow none"
                self._assumed.add("disruption budget", text)
            name = f"{namespace}/{budget.metadata.name}"
            budgets.append(DisruptionBudget(id=name, gangs=gangs, most=max(0, most or 0)))
        return budgets


def _is_waiting(workload: Workload) -> bool:
    """Return whether a Kueue Workload waits for admission."""
    conditions = workload.status.conditions or ()
    if any(each.type == "Finished" and each.status == "True" for each in conditions):
        return False
    return workload.status.admission is None and workload.spec.active


def _pod_of(namespace: str, pod_set: PodSet, index: int) -> Pod:
    """Return a pod that a waiting Workload will have."""
    metadata = Metadata(name=f"{pod_set.name}-{index}", namespace=namespace)
    return Pod(metadata=metadata, spec=pod_set.template.spec)


def _selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return whether a selector holds for the labels of a pod; an empty one always does."""
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(each.accepts(labels.get(each.key)) for each in selector.match_expressions or ())


KUBERNETES = KubernetesReader()
