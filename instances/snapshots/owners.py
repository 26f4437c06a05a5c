"""Which pods form a gang, and which object must be stopped to stop them.

Three tables give the rules: `KINDS` for the kinds of owners, `POD_GROUP_MARKS` and `OWNER_MARKS`
for the marks on pods that name their gang or owner. Sources: the API types of Kubernetes, Volcano,
KAI, scheduler-plugins, Kueue, LeaderWorkerSet, JobSet, KubeRay and the Kubeflow training operator.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from lyra_opt.instances.snapshots.kubernetes_objects import KubernetesObject, Metadata, Pod
from lyra_opt.instances.snapshots.snapshot import Owner

Form: TypeAlias = Literal["gang", "single", "fixed"]
"""How the pods of an owner stand: together, each on its own, or on their nodes for good."""


class OwnerKind(msgspec.Struct, frozen=True):
    """A kind of owners: how its pods stand, and the field that suspends it, if there is one."""

    kind: str
    pods: Form
    suspend: str = ""


_KINDS = files("lyra_opt.instances.snapshots").joinpath("owner_kinds.toml").read_text("utf-8")
OWNER_KINDS = msgspec.toml.decode(_KINDS, type=dict[str, OwnerKind])
"""The kinds of owners by the name that ``kubectl`` takes."""

KINDS: Mapping[tuple[str, str], tuple[str, Form]] = {
    (each.kind, resource.partition(".")[2]): (resource, each.pods)
    for resource, each in OWNER_KINDS.items()
}
"""By kind and API group of an owner: the name that ``kubectl`` takes, and how its pods stand."""

NATIVE, VOLCANO, KAI, COSCHEDULING = (
    "scheduling.k8s.io",
    "scheduling.volcano.sh",
    "scheduling.run.ai",
    "scheduling.x-k8s.io",
)
POD_GROUP_SYSTEMS = (NATIVE, KAI, VOLCANO, COSCHEDULING)
WORKLOAD = "kueue.x-k8s.io"


POD_GROUP_MARKS = (
    ("pod-group-name", KAI),
    ("scheduling.k8s.io/group-name", VOLCANO),
    ("scheduling.x-k8s.io/pod-group", COSCHEDULING),
    ("pod-group.scheduling.sigs.k8s.io", COSCHEDULING),
    ("kueue.x-k8s.io/pod-group-name", WORKLOAD),
    ("kueue.x-k8s.io/workload", WORKLOAD),
)
"""The labels or annotations that name the PodGroup or Workload of a pod, first that exists, with
the API group of the object; PodGroups of Kubernetes itself come before them."""


class OwnerMark(NamedTuple):
    """A label that names an owner of a pod, which the controllers may not show.

    Parameters
    ----------
    label
        The label.
    kind, group
        Kind and API group of the owner.
    part
        A label whose value distinguishes several gangs of this owner.
    """

    label: str
    kind: str
    group: str
    part: str = ""


OWNER_MARKS = (
    OwnerMark("jobset.sigs.k8s.io/jobset-name", "JobSet", "jobset.x-k8s.io"),
    OwnerMark(
        "leaderworkerset.sigs.k8s.io/name",
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io",
        "leaderworkerset.sigs.k8s.io/group-index",
    ),
    OwnerMark("ray.io/cluster", "RayCluster", "ray.io"),
)
"""The labels that name owners, first that exists; without one the controllers count."""

KUBEFLOW_JOB = "training.kubeflow.org/job-name"
"""The label that joins the launcher of an MPIJob, which a Job controls, with its workers."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An object by kind, API group, namespace and name."""

    kind: str
    group: str
    namespace: str
    name: str

    @property
    def resource(self) -> str:
        """The name that ``kubectl`` takes for its kind."""
        if self.kind == "Pod":
            return "pods"
        known = KINDS.get((self.kind, self.group))
        return known[0] if known else f"{self.kind.lower()}.{self.group}".rstrip(".")

    def as_owner(self, workload: str) -> Owner:
        """Return the object as the owner of a gang, which a Kueue Workload may admit."""
        return Owner(
            kind=self.kind,
            name=self.name,
            namespace=self.namespace,
            resource=self.resource,
            workload=workload,
        )


def group_of(api_version: str) -> str:
    """Return the API group in an ``apiVersion``; the core group is empty."""
    return api_version.rpartition("/")[0]


def reference_to(each: KubernetesObject) -> Reference:
    """Return the reference to an object."""
    metadata = each.metadata
    return Reference(each.kind, group_of(each.api_version), metadata.namespace, metadata.name)


def controller_of(metadata: Metadata, *, any_owner: bool = False) -> Reference | None:
    """Return the controller of an object; with `any_owner`, its only owner also counts."""
    owners = metadata.owner_references or ()
    found = next((owner for owner in owners if owner.controller), None)
    if found is None and any_owner and len(owners) == 1:
        found = owners[0]
    if found is None:
        return None
    return Reference(found.kind, group_of(found.api_version), metadata.namespace, found.name)


def pod_group_of(pod: Pod) -> tuple[Reference, str] | None:
    """Return the PodGroup or Workload that a pod names, and the part of it; None without one."""
    namespace, spec = pod.metadata.namespace, pod.spec
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return Reference("PodGroup", NATIVE, namespace, spec.scheduling_group.pod_group_name), ""
    if (workload := spec.workload_ref) is not None:
        part = "-".join(filter(None, (workload.pod_group, workload.pod_group_replica_key)))
        return Reference("Workload", NATIVE, namespace, workload.name), part
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    for mark, group in POD_GROUP_MARKS:
        if name := labels.get(mark) or annotations.get(mark):
            kind = "Workload" if group == WORKLOAD else "PodGroup"
            return Reference(kind, group, namespace, name), ""
    return None


@dataclass(slots=True)
class Owners:
    """The owners of all objects in a snapshot.

    Parameters
    ----------
    objects
        The objects that may own others.
    given
        How the pods of further kinds stand, as the user states.
    asked
        The kinds of all owners for which `form_of` was called.
    """

    objects: Mapping[Reference, KubernetesObject]
    given: Mapping[str, Form]
    asked: set[str] = field(default_factory=set)

    def form_of(self, reference: Reference) -> Form | None:
        """Return how the pods of an owner stand; None if its kind is unknown."""
        known = KINDS.get((reference.kind, reference.group))
        self.asked.add(reference.kind)
        return self.given.get(reference.kind) or (known[1] if known else None)

    def topmost(self, reference: Reference) -> Reference:
        """Return the topmost owner of a known kind above an object, or the object itself.

        A CronJob does not count: it starts no new Job when one of its Jobs is stopped.
        """
        while (each := self.objects.get(reference)) is not None:
            above = controller_of(each.metadata)
            if above is None or self.form_of(above) is None:
                break
            reference = above
        return reference

    def owner_of(self, pod: Pod) -> tuple[Reference, str] | None:
        """Return the topmost owner of a pod and the part of it; None without a controller.

        The name of a Deployment follows from that of its ReplicaSet if the latter is missing.
        """
        labels = pod.metadata.labels or {}
        for label, kind, group, part in OWNER_MARKS:
            if name := labels.get(label):
                marked = Reference(kind, group, pod.metadata.namespace, name)
                return self.topmost(marked), labels.get(part, "") if part else ""
        found = controller_of(pod.metadata)
        if found is None:
            return None
        template = labels.get("pod-template-hash")
        if found.kind == "ReplicaSet" and template and found not in self.objects:
            name = found.name.removesuffix(f"-{template}")
            found = Reference("Deployment", found.group, found.namespace, name)
        return self.topmost(found), ""
