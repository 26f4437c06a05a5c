"""The state of a real cluster at one moment, as the readers of snapshots return it.

The classes hold only what a plan needs. Amounts of resources are integers: CPU in milli-CPUs,
memory in bytes, GPUs in devices. The resource of whole GPUs is called ``gpu`` if the cluster has
only one such resource, whoever made the GPUs; all others keep the name of their source, such as
``nvidia.com/mig-1g.10gb``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lyra_opt.core.frozen import FrozenDict
from lyra_opt.instances.snapshots.placement import ANYWHERE, Placement, Taint

GPU = "gpu"
"""The name of the resource that counts whole GPUs, if the cluster has only one such resource."""

GPU_THOUSANDTHS = "lyra-opt/gpu-thousandths"
"""The name of the resource that counts thousandths of GPUs, in logs whose workers hold parts."""

RESERVED = "lyra-opt/reserved"
"""The key of the taint with which a plan keeps other pods off the nodes for a pending gang."""

MOST_PODS = 1_000_000
"""The largest number of pods of one kind that a gang can wait for."""

GPU_TYPES = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
)
"""Labels of Kubernetes' nodes that name the type of their GPUs; anonymised snapshots keep them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotNode:
    """A node of the cluster.

    Parameters
    ----------
    name
        Its name, unique in the cluster.
    capacity
        Amount of each resource for pods, without what `held` counts.
    held
        Amount of each resource of pods that are no gangs and stay, such as those of a DaemonSet.
    labels
        Its labels. The readers of Slurm write the partition, the features, the GPU type and the
        switches of a node as labels.
    taints
        Its taints.
    closed_because
        Why nothing new can be placed on it, such as "cordoned" or "not ready"; empty if it is open.
    gpu_type
        The type of its GPUs, from a label or the GRES; empty if it is not known.
    """

    name: str
    capacity: Mapping[str, int]
    held: Mapping[str, int] = field(default_factory=FrozenDict)
    labels: Mapping[str, str] = field(default_factory=FrozenDict)
    taints: tuple[Taint, ...] = ()
    closed_because: str = ""
    gpu_type: str = ""

    @property
    def not_chosen_because(self) -> str:
        """Why a plan does not choose it to be emptied, such as "cordoned"; empty if it may."""
        is_reserved = any(taint.key == RESERVED for taint in self.taints)
        return self.closed_because or "reserved by an earlier plan" * is_reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object that creates the pods of a gang, which a command stops, or a Slurm job.

    Parameters
    ----------
    kind
        Its kind, such as ``Job``, ``Deployment`` or ``PyTorchJob``; ``Pod`` for a pod without
        a controller, and ``SlurmJob`` for a job of Slurm.
    name
        Its name; the job number in Slurm.
    namespace
        Its namespace, or the account of a Slurm job.
    resource
        The name that ``kubectl`` takes, with the API group, such as ``pytorchjobs.kubeflow.org``.
    workload
        The name of the Kueue Workload that admits it; empty without Kueue.
    """

    kind: str
    name: str
    namespace: str = ""
    resource: str = ""
    workload: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod that holds resources of a node; the part of a Slurm job on one node.

    Parameters
    ----------
    name
        Its name, without the namespace.
    node
        The name of its node.
    request
        Amount of each resource that it holds.
    placement
        The nodes on which it may run.
    """

    name: str
    node: str
    request: Mapping[str, int]
    placement: Placement = ANYWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningGang:
    """Running pods that are useful only together, or a single pod.

    Parameters
    ----------
    id
        Unique in the snapshot: ``namespace/name``, or the job number in Slurm.
    owner
        The object that creates its pods.
    pods
        Its pods that hold a node, in the order of the file.
    min_pods
        Number of pods that must remain.
    priority
        Its priority.
    queue
        The name of its queue, or its account in Slurm.
    start_s
        The time of its start, in seconds since 1970; of the last pod that started.
    annotations
        The annotations of its pods or of its owner whose value is a number or a time, for
        ``--cost annotation:KEY``.
    protected_because
        Why it must not be touched, such as "has no controller"; empty if it may be.
    needs_force
        Whether the option ``--force`` lifts the protection.
    not_preempted_because
        Why the scheduler may not preempt it, although its node may be drained, such as
        "its partition has PreemptMode=OFF"; empty if it may.
    can_be_requeued
        Whether it starts again by itself after it was stopped.
    """

    id: str
    owner: Owner
    pods: tuple[RunningPod, ...]
    min_pods: int
    priority: int = 0
    queue: str = "default"
    start_s: float = 0.0
    annotations: Mapping[str, str] = field(default_factory=FrozenDict)
    protected_because: str = ""
    needs_force: bool = False
    not_preempted_because: str = ""
    can_be_requeued: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPods:
    """Pending pods that are alike.

    Parameters
    ----------
    names
        Their names.
    request
        Amount of each resource that one pod requests.
    placement
        The nodes on which they may run.
    max_per_node
        Largest number of these pods on one node; None for any number.
    """

    names: tuple[str, ...]
    request: Mapping[str, int]
    placement: Placement = ANYWHERE
    max_per_node: int | None = None


def places(count: int) -> range:
    """Return the numbers of `count` pending pods; `ValueError` if they are over `MOST_PODS`."""
    if count > MOST_PODS:
        raise ValueError(f"waits with {count} pods, but at most {MOST_PODS} can wait together")
    return range(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingGang:
    """Pods that wait for room together.

    Parameters
    ----------
    id
        As in `RunningGang`.
    owner
        The object that creates its pods.
    shapes
        Its pods without a node, by shape.
    min_pods
        Number of these pods that must be placed.
    priority
        Its priority.
    queue
        The name of its queue.
    level
        The node label whose value all its pods must share; empty if they may be anywhere.
    never_preempts
        Whether its priority class forbids preemption.
    grouped_by
        The API group of the object that makes its pods a gang, such as ``scheduling.volcano.sh``;
        empty without such an object.
    has_pods
        Whether its pods exist; those of a Kueue Workload are created after its admission.
    job_name
        The name that its user gave to a job of Slurm, which need not be unique.
    since_s
        The time since which it waits, in seconds; 0 if it is not known.
    """

    id: str
    owner: Owner
    shapes: tuple[PendingPods, ...]
    min_pods: int
    priority: int = 0
    queue: str = "default"
    level: str = ""
    never_preempts: bool = False
    grouped_by: str = ""
    has_pods: bool = True
    job_name: str = ""
    since_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many pods of some gangs may be evicted now.

    Parameters
    ----------
    id
        ``namespace/name``.
    gangs
        The ids of the gangs whose pods it selects.
    most
        Number of pods that may be evicted.
    """

    id: str
    gangs: tuple[str, ...]
    most: int


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a real cluster at one moment.

    Parameters
    ----------
    system
        ``kubernetes`` or ``slurm``, on which the commands of a plan depend, or ``placement log``.
    version
        The versions of the formats in the files, in words.
    nodes
        The nodes, sorted as in the file.
    gangs
        The running gangs, in the order of the file.
    pending
        The pending gangs, in the order of the file.
    budgets
        The budgets for disruptions.
    priorities
        The value of each priority class, partition or QOS.
    gpu_name
        The name of the resource `GPU` in the files; empty if no resource has this name.
    assumptions
        Sentences on the defaults that were used because an object is missing.
    not_read
        Sentences on what the files contain and the reader ignores, such as pod affinities.
    newest_s
        The newest time that the files name, in seconds since 1970: the snapshot is at least as
        new; None if they name no time.
    """

    system: str
    version: str
    nodes: tuple[SnapshotNode, ...]
    gangs: tuple[RunningGang, ...] = ()
    pending: tuple[PendingGang, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=FrozenDict)
    gpu_name: str = ""
    assumptions: tuple[str, ...] = ()
    not_read: tuple[str, ...] = ()
    newest_s: float | None = None

    @cached_property
    def node(self) -> Mapping[str, SnapshotNode]:
        """The nodes by name."""
        return FrozenDict({node.name: node for node in self.nodes})

    @cached_property
    def gang(self) -> Mapping[str, RunningGang]:
        """The running gangs by id."""
        return FrozenDict({gang.id: gang for gang in self.gangs})
