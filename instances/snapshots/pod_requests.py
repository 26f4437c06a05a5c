"""The amounts of resources that a pod holds, and the nodes on which it may run.

Devices that pods hold or ask for by ResourceClaims (dynamic resource allocation, DRA) are resources
with the name of their driver. Device classes are not read, so that the class of a claim that waits
must have the name of a driver, as ``gpu.nvidia.com``.

Sources: k8s.io/component-helpers, ``resource/helpers.go`` (``PodRequests``), and the
Kubernetes documentation on sidecar containers and on resources of whole pods.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from lyra_opt.core.errors import show_value
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.rules import LARGEST_INTEGER
from lyra_opt.instances.snapshots.kubernetes_files import Objects
from lyra_opt.instances.snapshots.kubernetes_objects import (
    Pod,
    PodSpec,
    Quantities,
    ResourceClaim,
    Resources,
    ResourceSlice,
)
from lyra_opt.instances.snapshots.placement import Placement
from lyra_opt.instances.snapshots.quantities import amount

ADD = "add kubectl get resourceclaims,resourceslices -A -o json"


def amounts(quantities: Quantities | None) -> Counter[str]:
    """Return the amount of each resource; `ValueError` for an invalid quantity."""
    if not quantities:
        return Counter()
    found = Counter({name: amount(name, quantity) for name, quantity in quantities.items()})
    for name, number in found.items():
        if number > LARGEST_INTEGER:
            rule = f"must be at most {LARGEST_INTEGER} (2**53 - 1), counted in the smallest unit"
            raise ValueError(f"{name}: {show_value(quantities[name])} {rule}")
    return found


def _request_of(resources: Resources) -> Counter[str]:
    """Return the request of a container; a limit without a request is also the request."""
    return amounts({**(resources.limits or {}), **(resources.requests or {})})


def effective_request(spec: PodSpec) -> Counter[str]:
    """Return the amount of each resource that a pod holds; `ValueError` for a bad quantity.

    The containers and all sidecars run together. Before them the init containers run one after
    the other, each beside the sidecars that are listed before it. The larger of both sums counts
    for each resource. A request of the whole pod takes the place of the sum, and the overhead of
    its runtime is added.
    """
    sidecars: Counter[str] = Counter()
    starting: Counter[str] = Counter()
    for container in spec.init_containers or ():
        request = _request_of(container.resources)
        starting |= sidecars + request
        if container.restart_policy == "Always":
            sidecars += request
    running = sidecars
    for container in spec.containers or ():
        running += _request_of(container.resources)
    total = running | starting
    if spec.resources is not None:
        total = Counter({**total, **amounts(spec.resources.requests)})
    return total + amounts(spec.overhead)


def _placement_of(spec: PodSpec) -> Placement:
    """Return the nodes on which a pod may run."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    terms = tuple(
        (*(term.match_expressions or ()), *(term.match_fields or ()))
        for term in (required.node_selector_terms or () if required is not None else ())
    )
    selector = tuple(sorted((spec.node_selector or {}).items()))
    return Placement(selector, terms, spec.tolerations or ())


class Shared:
    """The requests and placements of pods, of which each is made once for all pods alike.

    `renamed` has the names of resources that differ from those of their source.
    """

    def __init__(self) -> None:
        self.renamed: Mapping[str, str] = {}
        self._requests: dict[bytes, Mapping[str, int]] = {}
        self._placements: dict[bytes, Placement] = {}

    def request(self, spec: PodSpec, devices: Mapping[str, int]) -> Mapping[str, int]:
        """Return the request of a pod with its claimed devices, and with 1 of ``pods``."""
        parts = (spec.containers, spec.init_containers, spec.resources, spec.overhead)
        key = msgspec.json.encode((parts, devices))
        if (known := self._requests.get(key)) is None:
            request = effective_request(spec) + Counter(devices)
            known = FrozenDict(self.with_names({**request, "pods": 1}))
            self._requests[key] = known
        return known

    def with_names(self, amounts: Mapping[str, int]) -> dict[str, int]:
        """Return amounts with the names of resources that the snapshot uses."""
        return {self.renamed.get(name, name): number for name, number in amounts.items()}

    def placement(self, spec: PodSpec) -> Placement:
        """Return the nodes on which a pod may run."""
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        key = msgspec.json.encode((spec.node_selector, affinity, spec.tolerations))
        if (known := self._placements.get(key)) is None:
            known = self._placements[key] = _placement_of(spec)
        return known


class DeviceClaims:
    """The claims and slices of a cluster.

    Parameters
    ----------
    objects
        The objects in the files.
    """

    def __init__(self, objects: Objects) -> None:
        self._claims = {
            (each.metadata.namespace, each.metadata.name): each
            for _, each in objects.of(ResourceClaim)
        }
        self._charged: set[tuple[str, str]] = set()
        self.capacity: dict[str, Counter[str]] = {}
        """The number of devices of each driver on each node."""
        newest: dict[tuple[str, str], int] = {}
        slices = [each.spec for _, each in objects.of(ResourceSlice)]
        for spec in slices:
            pool = (spec.driver, spec.pool.name)
            newest[pool] = max(newest.get(pool, 0), spec.pool.generation)
        for spec in slices:
            if spec.node_name and spec.pool.generation == newest[spec.driver, spec.pool.name]:
                devices = self.capacity.setdefault(spec.node_name, Counter())
                devices[spec.driver] += len(spec.devices or ())
        self._drivers = {spec.driver for spec in slices}

    def devices_of(self, pod: Pod) -> Mapping[str, int]:
        """Return the number of devices of each driver that a pod holds or asks for.

        A claim that several pods share is charged to the first of them. `ValueError` if a claim
        or the slices are missing, or the number of devices is not stated.
        """
        devices: Counter[str] = Counter()
        generated = {
            each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()
        }
        for used in pod.spec.resource_claims or ():
            name = used.resource_claim_name or generated.get(used.name) or ""
            key = pod.metadata.namespace, name
            claim = self._claims.get(key)
            if claim is None or not self._drivers:
                raise ValueError(f"uses the ResourceClaim {name or used.name} for devices: {ADD}")
            if key not in self._charged:
                self._charged.add(key)
                devices += self._devices_in(claim)
        return devices

    def _devices_in(self, claim: ResourceClaim) -> Counter[str]:
        """Return the devices that a claim holds, or those that it asks for."""
        if claim.status.allocation is not None:
            results = claim.status.allocation.devices.results or ()
            return Counter(each.driver for each in results)
        wanted: Counter[str] = Counter()
        for request in claim.spec.devices.requests or ():
            exactly = request.exactly
            if exactly is None or exactly.allocation_mode != "ExactCount":
                raise ValueError(f"ResourceClaim {claim.metadata.name} asks for no exact number")
            if exactly.device_class_name not in self._drivers:
                raise ValueError(
                    f"ResourceClaim {claim.metadata.name} asks for devices of the class "
                    f"{exactly.device_class_name}, which is not the name of a driver"
                )
            wanted[exactly.device_class_name] += exactly.count
        return wanted
