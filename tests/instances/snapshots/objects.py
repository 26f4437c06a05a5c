"""Objects of the Kubernetes API for tests, as dictionaries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lyra_opt.instances.snapshots.reading import read_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from lyra_opt.instances.snapshots.snapshot import Snapshot

Object = dict[str, Any]


def node(name: str = "n1", *, gpus: int = 8, **more: Any) -> Object:
    allocatable = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus), "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": more.pop("labels", {})},
        "spec": more.pop("spec", {}),
        "status": {"allocatable": allocatable | more.pop("allocatable", {}), **more},
    }


def owner(kind: str, name: str, api_version: str = "batch/v1") -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": name, "controller": True}


def pod(name: str = "p", where: str | None = "n1", *, gpus: int = 1, **more: Any) -> Object:
    """Return a pod; keys that are not of its metadata belong to its spec."""
    owned = more.pop("owned_by", None)
    status = {"phase": "Running" if where else "Pending"} | more.pop("status", {})
    metadata = {"name": name, "namespace": "team"}
    for key in ("namespace", "labels", "annotations", "deletionTimestamp"):
        if key in more:
            metadata[key] = more.pop(key)
    if owned is not None:
        metadata["ownerReferences"] = [owned]  # type: ignore[assignment]
    resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}}
    spec = {"containers": [{"name": "main", "image": "x", "resources": resources}]} | more
    if where:
        spec["nodeName"] = where
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def custom(
    kind: str, api_version: str, name: str, spec: Object | None = None, **more: Any
) -> Object:
    """Return an object of any kind in the namespace ``team``."""
    metadata = {"name": name, "namespace": "team", **more}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}


def listed(*objects: Object) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def snapshot_of(folder: Path, *objects: Object, **options: Any) -> Snapshot:
    """Read objects beside a pod of another namespace, which has ended."""
    path = folder / "cluster.json"
    ended = pod("ended", namespace="kube-system", status={"phase": "Succeeded"})
    path.write_text(json.dumps(listed(*objects, ended)), encoding="utf-8")
    return read_snapshot([path], **options)
