"""Devices that pods hold or ask for by ResourceClaims (dynamic resource allocation, DRA).

The driver is the name of the resource. Device classes are not read, so that the class of a claim
that waits must have the name of a driver, as ``gpu.nvidia.com``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lyra_opt.instances.snapshots.kubernetes_objects import ResourceClaim, ResourceSlice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.instances.snapshots.kubernetes_files import Objects
    from lyra_opt.instances.snapshots.kubernetes_objects import Pod

ADD = "add kubectl get resourceclaims,resourceslices -A -o json"


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
