"""The fields of Kubernetes objects that a plan needs.

Decoding an object as one of these classes keeps only their fields. A class whose attribute is
a `Present` records that something exists, but none of its content. Fields have the names of the
APIs, in snake case. Sources: k8s.io/api (core, apps, batch, policy, resource, scheduling up to
v1alpha3), Kueue v1beta2, Volcano v1beta1, KAI v2alpha2 and v1alpha2, scheduler-plugins v1alpha1.
"""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from lyra_opt.instances.snapshots.placement import Requirement, Taint, Toleration

Time = Annotated[datetime, Meta(tz=True)]
Quantities = dict[str, str | int | float]
PreemptionPolicy = Literal["", "Never", "PreemptLowerPriority"]


class Fields(Struct, rename="camel", omit_defaults=True):
    """An object of which only some fields are read."""


class Present(Fields):
    """An object whose existence counts and whose content is not read."""


class OwnerReference(Fields):
    """The owner of an object; at most one is its controller."""

    kind: str
    name: str
    api_version: str = ""
    controller: bool | None = None


class Metadata(Fields):
    """Name, labels, annotations, owners and times of an object."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None

    def marks(self) -> dict[str, str]:
        """Return the labels and annotations; of equal keys, the annotation."""
        return {**(self.labels or {}), **(self.annotations or {})}


class KubernetesObject(Fields):
    """An object with its kind; the base of all kinds.

    Objects of which nothing else is read, such as a Job, are decoded as this class.
    """

    metadata: Metadata
    kind: str = ""
    api_version: str = ""


class Condition(Fields):
    """A condition of a node or of a Kueue Workload, such as ``Ready`` or ``Finished``."""

    type: str
    status: str
    last_heartbeat_time: Time | None = None


class NodeSpec(Fields):
    """Cordon and taints of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeStatus(Fields):
    """Resources and conditions of a node."""

    allocatable: Quantities | None = None
    conditions: list[Condition] | None = None


class Node(KubernetesObject, kw_only=True):
    """A node."""

    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class Resources(Fields):
    """Requests and limits of a container or of a whole pod."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(Fields):
    """A container; an init container that restarts always is a sidecar."""

    resources: Resources = field(default_factory=Resources)
    restart_policy: str | None = None


class NodeSelectorTerm(Fields):
    """Conditions that a node must meet together."""

    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(Fields):
    """Terms of which a node must meet one."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(Fields):
    """The required node affinity of a pod."""

    required: NodeSelector | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinity(Fields):
    """The required (anti-)affinity between pods, which is only counted."""

    required: list[Present] | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Fields):
    """The affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SchedulingGroup(Fields):
    """The PodGroup of Kubernetes 1.36 to which a pod belongs."""

    pod_group_name: str | None = None


class WorkloadReference(Fields):
    """The pod group in a Workload of Kubernetes 1.35 to which a pod belongs."""

    name: str
    pod_group: str = ""
    pod_group_replica_key: str = ""


class Volume(Fields):
    """A volume of a pod; only persistent volume claims are counted."""

    persistent_volume_claim: Present | None = None


class PodResourceClaim(Fields):
    """A claim for devices in a pod, by name or from a template."""

    name: str
    resource_claim_name: str | None = None


class PodSpec(Fields):
    """The request, the placement and the priority of a pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: PreemptionPolicy | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    resource_claims: list[PodResourceClaim] | None = None
    scheduling_gates: list[Present] | None = None
    topology_spread_constraints: list[Present] | None = None
    volumes: list[Volume] | None = None


class PodStatus(Fields):
    """The state of a pod."""

    phase: Literal["", "Pending", "Running", "Succeeded", "Failed", "Unknown"] = ""
    start_time: Time | None = None
    nominated_node_name: str | None = None
    resource_claim_statuses: list[PodResourceClaim] | None = None


class Pod(KubernetesObject, kw_only=True):
    """A pod."""

    spec: PodSpec
    status: PodStatus = field(default_factory=PodStatus)


class PriorityClass(KubernetesObject, kw_only=True):
    """A priority class."""

    value: int
    global_default: bool = False
    preemption_policy: PreemptionPolicy | None = None


class LabelSelector(Fields):
    """Conditions on the labels of pods; without any it selects all pods."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


class BudgetSpec(Fields):
    """The pods that a budget protects."""

    selector: LabelSelector | None = None


class BudgetStatus(Fields):
    """The number of pods that may be evicted now."""

    disruptions_allowed: int | None = None


class PodDisruptionBudget(KubernetesObject, kw_only=True):
    """A budget for disruptions."""

    spec: BudgetSpec = field(default_factory=BudgetSpec)
    status: BudgetStatus = field(default_factory=BudgetStatus)


class Gang(Fields):
    """The minimum of a PodGroup of Kubernetes."""

    min_count: int


class SchedulingPolicy(Fields):
    """The policy of a PodGroup of Kubernetes: a gang, or else single pods."""

    gang: Gang | None = None


class DisruptionMode(Fields):
    """Whether a group is lost only as a whole (v1alpha3; v1alpha2 has Pod and PodGroup)."""

    all: Present | None = None


class TopologyKey(Fields):
    """A label of nodes whose value the pods of a group must share."""

    key: str


class SchedulingConstraints(Fields):
    """The topology that a PodGroup of Kubernetes requires."""

    topology: list[TopologyKey] | None = None


class TopologyConstraint(Fields):
    """The topology that a PodGroup of KAI requires."""

    required_topology_level: str = ""


class SubGroup(Fields):
    """A part of a PodGroup of KAI with a minimum of its own."""

    min_member: int = 0


class NetworkTopology(Fields):
    """The topology that a PodGroup of Volcano asks for, in tiers of HyperNodes."""

    mode: Literal["", "hard", "soft"] = ""


class PodGroupSpec(Fields):
    """The specifications of the PodGroups of Kubernetes, Volcano, KAI and scheduler-plugins."""

    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    sub_groups: list[SubGroup] | None = None
    sub_group_policy: list[Present] | None = None
    queue: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: PreemptionPolicy | None = None
    preemptibility: Literal["", "preemptible", "semi-preemptible", "non-preemptible"] = ""
    scheduling_policy: SchedulingPolicy | None = None
    disruption_mode: Literal["", "Pod", "PodGroup"] | DisruptionMode | None = None
    scheduling_constraints: SchedulingConstraints | None = None
    topology_constraint: TopologyConstraint | None = None
    network_topology: NetworkTopology | None = None


class PodGroup(KubernetesObject, kw_only=True):
    """A PodGroup of Kubernetes, Volcano, KAI or scheduler-plugins."""

    spec: PodGroupSpec = field(default_factory=PodGroupSpec)


class TopologyRequest(Fields):
    """The topology that a pod set of Kueue requires."""

    required: str | None = None


class PodTemplate(Fields):
    """The pod of a pod set."""

    spec: PodSpec


class PodSet(Fields):
    """Pods of a Kueue Workload that are alike."""

    count: int
    template: PodTemplate
    name: str = "main"
    min_count: int | None = None
    topology_request: TopologyRequest | None = None


class WorkloadSpec(Fields):
    """The pods, the queue and the priority of a Kueue Workload."""

    pod_sets: list[PodSet]
    queue_name: str = ""
    priority: int | None = None
    active: bool = True


class WorkloadStatus(Fields):
    """Whether a Kueue Workload is admitted or finished."""

    admission: Present | None = None
    conditions: list[Condition] | None = None


class Workload(KubernetesObject, kw_only=True):
    """A Workload of Kueue."""

    spec: WorkloadSpec
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


class BindRequestSpec(Fields):
    """The node that KAI has chosen for a pod."""

    pod_name: str
    selected_node: str


class BindRequestStatus(Fields):
    """The state of a binding by KAI."""

    phase: Literal["", "Pending", "Succeeded", "Failed"] = ""


class BindRequest(KubernetesObject, kw_only=True):
    """A decision of KAI that the pod does not show yet."""

    spec: BindRequestSpec
    status: BindRequestStatus = field(default_factory=BindRequestStatus)


class ExactDeviceRequest(Fields):
    """A number of devices of one class."""

    device_class_name: str
    allocation_mode: str = "ExactCount"
    count: int = 1


class DeviceRequest(Fields):
    """A request for devices."""

    exactly: ExactDeviceRequest | None = None


class DeviceClaim(Fields):
    """The requests of a claim."""

    requests: list[DeviceRequest] | None = None


class ResourceClaimSpec(Fields):
    """The devices that a claim asks for."""

    devices: DeviceClaim = field(default_factory=DeviceClaim)


class AllocatedDevice(Fields):
    """A device that a claim holds."""

    driver: str


class DeviceAllocation(Fields):
    """The devices that a claim holds."""

    results: list[AllocatedDevice] | None = None


class Allocation(Fields):
    """The allocation of a claim."""

    devices: DeviceAllocation = field(default_factory=DeviceAllocation)


class ResourceClaimStatus(Fields):
    """The state of a claim."""

    allocation: Allocation | None = None


class ResourceClaim(KubernetesObject, kw_only=True):
    """A claim for devices (DRA)."""

    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = field(default_factory=ResourceClaimStatus)


class ResourcePool(Fields):
    """The pool of a slice; only slices of its newest generation are valid."""

    name: str
    generation: int = 0


class ResourceSliceSpec(Fields):
    """The devices of a driver on a node."""

    driver: str
    pool: ResourcePool
    node_name: str | None = None
    devices: list[Present] | None = None


class ResourceSlice(KubernetesObject, kw_only=True):
    """Devices that claims can hold (DRA)."""

    spec: ResourceSliceSpec
