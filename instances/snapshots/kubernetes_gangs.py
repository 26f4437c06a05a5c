"""The gangs of a Kubernetes cluster: which pods stand together, and the rules for each gang."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from lyra_opt.core.errors import InputError, counted
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.instances.snapshots.kubernetes_files import Objects, titled
from lyra_opt.instances.snapshots.kubernetes_objects import (
    DisruptionMode,
    KubernetesObject,
    Pod,
    PodGroup,
    PodGroupSpec,
    PriorityClass,
    Workload,
    WorkloadSpec,
)
from lyra_opt.instances.snapshots.owners import (
    KAI,
    KUBEFLOW_JOB,
    Form,
    Owners,
    Reference,
    controller_of,
    group_of,
    pod_group_of,
    reference_to,
)
from lyra_opt.instances.snapshots.placement import Placement
from lyra_opt.instances.snapshots.snapshot import (
    Owner,
    PendingGang,
    PendingPods,
    RunningGang,
    RunningPod,
)

SYSTEM_PRIORITY = 2_000_000_000
"""The lowest priority of the classes that Kubernetes reserves for its own pods."""

KAI_PROTECTED_PRIORITY = 100
"""The lowest priority at which KAI preempts a PodGroup only if it states so."""

MIRROR = "kubernetes.io/config.mirror"
GPU_VENDORS = ("nvidia.com/", "amd.com/", "gpu.intel.com/", "habana.ai/", "gpu.")
_PROTECTIONS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
_QUEUE_MARKS = (
    "kai.scheduler/queue",
    "scheduling.volcano.sh/queue-name",
    "kueue.x-k8s.io/queue-name",
)
_NUMBER_OR_TIME = re.compile(
    r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that counts, with its request and its node.

    Parameters
    ----------
    source, pod
        The name of the file, and the object.
    request, placement
        As in `RunningPod`.
    node
        The name of its node; empty if it is pending.
    """

    source: str
    pod: Pod
    request: Mapping[str, int]
    placement: Placement
    node: str

    @property
    def title(self) -> str:
        """Kind and name of the pod, for messages."""
        return titled("Pod", self.pod.metadata.namespace, self.pod.metadata.name)

    @property
    def gpus(self) -> bool:
        """Whether the pod requests GPUs or parts of them."""
        return any(name == "gpu" or name.startswith(GPU_VENDORS) for name in self.request)


@dataclass(slots=True)
class Group:
    """The pods of one gang while the snapshot is read.

    Parameters
    ----------
    name
        Its name in its namespace.
    form
        Whether the pods need each other, or this is a single pod.
    owner
        The object to stop; None for pods without a controller.
    pod_group, workload
        The PodGroup and the Kueue Workload, if they are in the files.
    running, pending
        Its pods with and without a node.
    has_pods
        Whether its pods exist.
    id, priority
        Its id and its priority, after `Groups.settle`.
    """

    name: str
    form: Form
    owner: Reference | None
    pod_group: PodGroup | None
    workload: Workload | None
    running: list[PlacedPod] = field(default_factory=list)
    pending: list[PlacedPod] = field(default_factory=list)
    has_pods: bool = True
    id: str = ""
    priority: int = 0

    @property
    def pods(self) -> list[PlacedPod]:
        """All pods of the gang."""
        return self.running + self.pending

    @property
    def objects(self) -> list[KubernetesObject]:
        """The PodGroup, the Workload and the pods, whose labels and annotations count."""
        found = [each for each in (self.pod_group, self.workload) if each is not None]
        return [*found, *(placed.pod for placed in self.pods)]

    def marks(self) -> dict[str, str]:
        """Return all labels and annotations of the gang; those of the PodGroup come first."""
        found: dict[str, str] = {}
        for each in reversed(self.objects):
            found |= each.metadata.marks()
        return found

    def grouped_by(self) -> str:
        """Return the API group of the PodGroup or Workload; empty without one."""
        found = self.pod_group or self.workload
        return group_of(found.api_version) if found is not None and self.form == "gang" else ""

    @property
    def spec(self) -> PodGroupSpec:
        """The specification of the PodGroup, empty without one."""
        return self.pod_group.spec if self.pod_group is not None else PodGroupSpec()

    @property
    def workload_spec(self) -> WorkloadSpec:
        """The specification of the Kueue Workload, empty without one."""
        return self.workload.spec if self.workload is not None else WorkloadSpec([])

    def declared_minima(self) -> list[int]:
        """Return the minima that PodGroup or Workload state; several if parts have their own."""
        if self.pod_group is None:
            pod_sets = self.workload_spec.pod_sets
            counts = [each.count if each.min_count is None else each.min_count for each in pod_sets]
            is_partial = any(each.min_count is not None for each in pod_sets)
            return counts if is_partial or self.workload is None else [sum(counts)]
        spec = self.spec
        if spec.scheduling_policy is not None and spec.scheduling_policy.gang is not None:
            return [spec.scheduling_policy.gang.min_count]
        parts = [*(spec.min_task_member or {}).values()]
        parts += [part.min_member for part in spec.sub_groups or ()]
        if len(parts) > 1 or spec.sub_group_policy:
            return [*parts, 0]
        return [max([spec.min_member or 1, *parts])]

    def is_whole(self) -> bool:
        """Return whether Kubernetes disrupts the PodGroup only as a whole."""
        mode = self.spec.disruption_mode
        return mode == "PodGroup" or (isinstance(mode, DisruptionMode) and mode.all is not None)

    def level(self) -> str:
        """Return the label of nodes whose value all pods must share; empty without a rule."""
        kai, native = self.spec.topology_constraint, self.spec.scheduling_constraints
        if kai is not None and kai.required_topology_level:
            return kai.required_topology_level
        if native is not None and native.topology:
            return native.topology[0].key
        for pod_set in self.workload_spec.pod_sets:
            if pod_set.topology_request is not None and pod_set.topology_request.required:
                return pod_set.topology_request.required
        return self.marks().get("kueue.x-k8s.io/podset-required-topology", "")

    def queue(self) -> str:
        """Return the name of the gang's queue."""
        if named := self.spec.queue or self.workload_spec.queue_name:
            return named
        marks = self.marks()
        return next((marks[mark] for mark in _QUEUE_MARKS if marks.get(mark)), "default")


class Notes:
    """Sentences on what was assumed or ignored, with the number of objects for each."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, noun: str, text: str, number: int = 1) -> None:
        """Count objects to which a text applies."""
        self._counts[noun, text] += number

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence per text."""
        return tuple(
            f"{counted(number, noun)} {text}." for (noun, text), number in self._counts.items()
        )


class Priorities:
    """The priority classes, by which pods and gangs get their priority."""

    def __init__(self, classes: list[PriorityClass], notes: Notes) -> None:
        self.classes = {each.metadata.name: each for each in classes}
        self._default = next((each.value for each in classes if each.global_default), 0)
        self._notes = notes

    def of_class(self, name: str | None, noun: str) -> int:
        """Return the value of a class; the global default without a name."""
        if not name:
            return self._default
        if name in self.classes:
            return self.classes[name].value
        self._notes.add(noun, f"of the priority class {name}, which no file contains: taken as 0")
        return 0

    def of_pod(self, pod: Pod) -> int:
        """Return the priority of a pod."""
        if pod.spec.priority is not None:
            return pod.spec.priority
        return self.of_class(pod.spec.priority_class_name, "pod")

    def of_group(self, group: Group) -> int:
        """Return the priority of a gang: that of its PodGroup or Workload, or of its pods."""
        if group.spec.priority is not None:
            return group.spec.priority
        if group.spec.priority_class_name:
            return self.of_class(group.spec.priority_class_name, "gang")
        if group.workload_spec.priority is not None:
            return group.workload_spec.priority
        return max((self.of_pod(placed.pod) for placed in group.pods), default=self._default)

    def never_preempts(self, group: Group) -> bool:
        """Return whether a gang must not preempt others."""
        policies = [group.spec.preemption_policy]
        for placed in group.pending:
            spec = placed.pod.spec
            named = self.classes.get(spec.priority_class_name or "")
            policies.append(spec.preemption_policy or (named.preemption_policy if named else None))
        return "Never" in policies


class Groups:
    """The gangs to which the pods of a cluster belong.

    Parameters
    ----------
    objects
        The objects in the files.
    given
        How the pods of further kinds of owners stand, by kind.
    assumed, ignored
        The notes on what is assumed and what is not read.
    """

    def __init__(
        self, objects: Objects, given: Mapping[str, Form], assumed: Notes, ignored: Notes
    ) -> None:
        owning = {reference_to(each): each for _, each in objects.of(KubernetesObject)}
        self.owners = Owners(owning, given)
        self.priorities = Priorities([each for _, each in objects.of(PriorityClass)], assumed)
        self.groups: dict[object, Group] = {}
        self._assumed, self._ignored = assumed, ignored
        self._pod_groups = {reference_to(each): each for _, each in objects.of(PodGroup)}
        self.workloads = {reference_to(each): each for _, each in objects.of(Workload)}
        self._workload_of: dict[Reference, Workload] = {}
        for workload in self.workloads.values():
            if (owner := controller_of(workload.metadata, any_owner=True)) is not None:
                self._workload_of[owner] = workload
                self._workload_of.setdefault(self.owners.topmost(owner), workload)
        self._ids: Counter[str] = Counter()

    def is_fixed(self, pod: Pod) -> bool:
        """Return whether a pod cannot leave its node, as those of a DaemonSet."""
        found = controller_of(pod.metadata)
        fixed = found is not None and self.owners.form_of(self.owners.topmost(found)) == "fixed"
        return fixed or MIRROR in (pod.metadata.annotations or {})

    def add(self, placed: PlacedPod) -> None:
        """Add a pod to its gang.

        Raises
        ------
        InputError
            If a pod with GPUs belongs to an owner of an unknown kind.
        """
        pod = placed.pod
        itself = Reference("Pod", "", pod.metadata.namespace, pod.metadata.name)
        owner, part = self.owners.owner_of(pod) or (None, "")
        named = pod_group_of(pod)
        pod_group = workload = None
        form: Form | None = None
        if named is not None:
            pod_group = self._pod_groups.get(named[0])
            workload = self.workloads.get(named[0])
            if pod_group is not None or workload is not None:
                policy = pod_group.spec.scheduling_policy if pod_group is not None else None
                form = "single" if policy is not None and policy.gang is None else "gang"
        if form is None:
            form = self._form_without_object(placed, owner, is_named=named is not None)
        workload = workload or self._workload_of.get(itself)
        if owner is not None and workload is None and form == "gang":
            workload = self._workload_of.get(owner)
        key: object
        if form == "single":
            key, name = itself, itself.name
        elif named is not None:
            key, name = named, "-".join(filter(None, (named[0].name, named[1])))
            if named[0].kind == "Workload" and owner is not None:
                name = owner.name
        elif kubeflow := (pod.metadata.labels or {}).get(KUBEFLOW_JOB):
            key, name = (itself.namespace, KUBEFLOW_JOB, kubeflow), kubeflow
        else:
            assert owner is not None
            key, name = (owner, part), "-".join(filter(None, (owner.name, part)))
        group = self.groups.setdefault(key, Group(name, form, owner, pod_group, workload))
        if group.owner is None or (group.owner.kind == "Job" and owner is not None):
            group.owner = owner
        (group.running if placed.node else group.pending).append(placed)

    def _form_without_object(
        self, placed: PlacedPod, owner: Reference | None, *, is_named: bool
    ) -> Form:
        """Return how a pod stands that has no PodGroup or Workload in the files."""
        known = self.owners.form_of(owner) if owner is not None else None
        if known == "single" or (owner is None and not is_named):
            return "single"
        if known is not None or is_named or KUBEFLOW_JOB in (placed.pod.metadata.labels or {}):
            return "gang"
        assert owner is not None
        if placed.gpus:
            kinds = ", ".join(self.owners.given)
            given = f"; --owner names only {kinds}" if kinds else ""
            raise InputError(
                placed.source,
                f"{placed.title} requests GPUs, and its owner {titled(owner.kind, '', owner.name)} "
                f"is of a kind that is not known. State how its pods stand, as --owner "
                f"{owner.kind}=gang (together), {owner.kind}=single or {owner.kind}=fixed{given}",
            )
        text = f"without GPUs of owners of kind {owner.kind}: each is taken to stand singly"
        self._assumed.add("pod", text)
        return "single"

    def running_gang(self, group: Group) -> RunningGang:
        """Return the running part of a gang."""
        reason, needs_force = self._protection(group)
        running = [each.pod for each in group.running]
        starts = [each.status.start_time or each.metadata.creation_timestamp for each in running]
        last = max(filter(None, starts), default=None)
        return RunningGang(
            id=group.id,
            owner=self._owner_of(group),
            pods=tuple(
                RunningPod(name=name, node=pod.node, request=pod.request, placement=pod.placement)
                for name, pod in ((each.pod.metadata.name, each) for each in group.running)
            ),
            min_pods=len(running) if group.is_whole() else self._minimum(group, len(running)),
            priority=group.priority,
            queue=group.queue(),
            start_s=last.timestamp() if last is not None else 0.0,
            annotations=self._numbers(group),
            protected_because=reason,
            needs_force=needs_force,
            not_preempted_because=self._not_preempted_because(group),
            can_be_requeued=group.owner is not None,
        )

    def pending_gang(self, group: Group) -> PendingGang:
        """Return the pending part of a gang."""
        alike: dict[tuple[Mapping[str, int], Placement], list[str]] = {}
        for each in group.pending:
            alike.setdefault((each.request, each.placement), []).append(each.pod.metadata.name)
        minimum = self._minimum(group, len(group.pods)) - len(group.running)
        return PendingGang(
            id=group.id,
            owner=self._owner_of(group),
            shapes=tuple(
                PendingPods(names=tuple(names), request=request, placement=placement)
                for (request, placement), names in alike.items()
            ),
            min_pods=max(1, min(minimum, len(group.pending))),
            priority=group.priority,
            queue=group.queue(),
            level=group.level(),
            grouped_by=group.grouped_by(),
            has_pods=group.has_pods,
            never_preempts=self.priorities.never_preempts(group),
        )

    def add_waiting(self, workload: Workload, pods: list[PlacedPod]) -> None:
        """Add a Workload that waits, with the pods that Kueue will let its job create."""
        owner = controller_of(workload.metadata, any_owner=True)
        top = self.owners.topmost(owner) if owner is not None else None
        name = workload.metadata.name
        group = Group(name, "gang", top, None, workload, pending=pods, has_pods=False)
        self.groups[reference_to(workload)] = group

    def _minimum(self, group: Group, number: int) -> int:
        """Return how many of `number` pods a gang needs."""
        if group.form == "single":
            return 1
        declared = group.declared_minima()
        if len(declared) != 1:
            return number
        return max(1, min(declared[0], number))

    def settle(self, group: Group) -> None:
        """Set id and priority of a gang whose pods are known, and note what is assumed on it.

        Gangs of the same name have a number in their id.
        """
        wanted = f"{group.objects[0].metadata.namespace}/{group.name}"
        self._ids[wanted] += 1
        number = self._ids[wanted]
        group.id = wanted if number == 1 else f"{wanted} ({number})"
        group.priority = self.priorities.of_group(group)
        declared = group.declared_minima()
        if group.form == "gang" and len(group.pods) > 1 and not declared:
            text = "without a PodGroup or Workload: each is taken to need all of its pods"
            self._assumed.add("job", text)
        if len(declared) > 1:
            text = "whose parts have minima of their own: each is taken to need all of its pods"
            self._assumed.add("job", text)
        if group.spec.preemptibility == "semi-preemptible" and group.running:
            text = "that is semi-preemptible in KAI: pods above its minimum are taken as needed too"
            self._assumed.add("job", text)
        topology = group.spec.network_topology
        if topology is not None and topology.mode == "hard" and group.pending:
            self._ignored.add("pending gang", "with a hard network topology of Volcano")

    def _owner_of(self, group: Group) -> Owner:
        """Return the object that a command stops."""
        owner = group.owner
        above = controller_of(group.pod_group.metadata, any_owner=True) if group.pod_group else None
        if above is not None and self.owners.form_of(above) is not None:
            owner = self.owners.topmost(above)
        if owner is None:
            first = group.pods[0].pod.metadata
            name = first.name if len(group.pods) == 1 else group.name
            owner = Reference("Pod", "", first.namespace, name)
        workload = group.workload.metadata.name if group.workload is not None else ""
        return owner.as_owner(workload)

    def _protection(self, group: Group) -> tuple[str, bool]:
        """Return why a gang must not be touched, and whether ``--force`` lifts that."""
        priorities = [placed.pod.spec.priority or 0 for placed in group.running]
        if max(group.priority, *priorities) >= SYSTEM_PRIORITY:
            return "has a priority of system pods", True
        for each in group.objects:
            for mark, value in each.metadata.marks().items():
                if _PROTECTIONS.get(mark) == value:
                    return f"has {mark}: {value}", False
        return ("has no controller", True) if group.owner is None else ("", False)

    def _not_preempted_because(self, group: Group) -> str:
        """Return why the scheduler may not preempt a gang; empty if it may."""
        if group.pod_group is not None and group.pod_group.api_version.startswith(KAI):
            preemptibility = group.spec.preemptibility
            if preemptibility in ("non-preemptible", "semi-preemptible"):
                return f"is {preemptibility} in KAI"
            if not preemptibility and group.priority >= KAI_PROTECTED_PRIORITY:
                return f"has priority {group.priority}, and KAI preempts none of 100 or more"
        if group.marks().get("volcano.sh/preemptable") == "false":
            return "has volcano.sh/preemptable: false"
        return ""

    def _numbers(self, group: Group) -> Mapping[str, str]:
        """Return the annotations of a gang and its owner whose value is a number or a time."""
        objects = list(group.objects)
        if group.owner is not None and group.owner in self.owners.objects:
            objects.insert(0, self.owners.objects[group.owner])
        found: dict[str, str] = {}
        for each in reversed(objects):
            found |= each.metadata.annotations or {}
        return FrozenDict(
            {key: value for key, value in found.items() if _NUMBER_OR_TIME.fullmatch(value)}
        )
