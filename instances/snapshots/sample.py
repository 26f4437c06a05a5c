"""Write a preemption instance as ``kubectl get nodes,pods,... -A -o json`` would print its cluster.

``lyra-opt plan example`` writes the cluster of an instance of the family ``crowded``. The
documentation, the tests and the benchmark use it. Each gang is a Job; a gang that can shrink has
a PodGroup of scheduler-plugins with its minimum.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from lyra_opt.instances.snapshots.snapshot import GPU
from lyra_opt.preemption import Gang, Instance, Node

NAMESPACES = ("research", "search", "speech")
"""The namespaces, over which gangs are spread by the length and last letter of their ids."""

NEWEST_S = 1_790_000_000
"""The time of the snapshot, in seconds since 1970; gangs start `Gang.start_s` seconds before."""

NODE_BYTES, POD_BYTES = 16_000, 6_000
"""The usual sizes of nodes and pods in the output of kubectl."""


def kubectl_list(instance: Instance) -> dict[str, Any]:
    """Return the ``List`` of an instance's nodes, pods, owners and priority classes.

    Levels of domains become labels ``example.com/LEVEL``. The demand becomes pending pods of the
    Job ``pending``, and budgets are left out.
    """
    items = [_node(each) for each in instance.nodes]
    priorities = {gang.priority for gang in instance.gangs}
    for gang in instance.gangs:
        items += _gang(gang)
    if demand := instance.demand:
        priorities.add(demand.priority)
        requests = [shape.request for shape in demand.shapes for _ in range(shape.count)]
        items += _owner("pending", len(requests), len(requests))
        items += [
            _pod("pending", number, request, demand.priority)
            for number, request in enumerate(requests)
        ]
    items += [
        _object("scheduling.k8s.io/v1", "PriorityClass", f"p{each}", value=each)
        for each in sorted(priorities)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _object(version: str, kind: str, name: str, owner: str = "", **fields: Any) -> dict[str, Any]:
    """Return an object, in the namespace of a gang if it belongs to one."""
    metadata: dict[str, Any] = {"name": name}
    if owner:
        metadata["namespace"] = NAMESPACES[(len(owner) + ord(owner[-1])) % len(NAMESPACES)]
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _node(node: Node) -> dict[str, Any]:
    amounts = {"cpu": 96_000, "memory": 2**40, "pods": 110, **node.capacity}
    ready = [{"type": "Ready", "status": "True"}]
    found = _object("v1", "Node", node.id)
    found["metadata"]["labels"] = {
        "kubernetes.io/hostname": node.id,
        **{f"example.com/{level}": domain for level, domain in node.domains.items()},
    }
    found["spec"] = {} if node.is_usable else {"unschedulable": True}
    found["status"] = {"allocatable": _quantities(amounts), "conditions": ready}
    return found


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {
        "nvidia.com/gpu" if name == GPU else name: f"{amount}m" if name == "cpu" else str(amount)
        for name, amount in amounts.items()
    }


def _owner(name: str, size: int, min_pods: int) -> list[dict[str, Any]]:
    """Return the Job of a gang, and its PodGroup if it can shrink."""
    spec = {"parallelism": size, "completions": size}
    job = _object("batch/v1", "Job", name, name, spec=spec)
    job["metadata"]["uid"] = f"job-{name}"
    if min_pods == size:
        return [job]
    spec = {"minMember": min_pods}
    return [job, _object("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, name, spec=spec)]


def _gang(gang: Gang) -> Iterator[dict[str, Any]]:
    yield from _owner(gang.id, gang.size, gang.min_pods)
    start = datetime.fromtimestamp(NEWEST_S - gang.start_s, UTC)
    groups = [group for group in gang.pods for _ in range(group.count)]
    for number, group in enumerate(groups):
        pod = _pod(gang.id, number, group.request, gang.priority)
        pod["spec"]["nodeName"] = group.node
        pod["status"] = {"phase": "Running", "startTime": f"{start:%Y-%m-%dT%H:%M:%SZ}"}
        if gang.is_protected:
            pod["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
        if gang.min_pods < gang.size:
            pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = gang.id
        yield pod


def _pod(owner: str, number: int, request: Mapping[str, int], priority: int) -> dict[str, Any]:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"job-{owner}"}
    found = _object("v1", "Pod", f"{owner}-{number}", owner)
    found["metadata"]["labels"] = {"batch.kubernetes.io/job-name": owner}
    found["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    found["spec"] = {
        "containers": [{"name": "main", "resources": {"requests": _quantities(request)}}],
        "priority": priority,
        "priorityClassName": f"p{priority}",
    }
    found["status"] = {"phase": "Pending"}
    return found


def padded(document: dict[str, Any], daemons: int) -> dict[str, Any]:
    """Return a ``List`` whose nodes and pods are as long as kubectl usually prints them.

    Each node gets `daemons` further pods of DaemonSets.
    """
    nodes = [item["metadata"]["name"] for item in document["items"] if item["kind"] == "Node"]
    for place in range(daemons):
        reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": f"daemon-{place}"}
        for node in nodes:
            pod = _pod(f"daemon-{place}-{node}", 0, {"cpu": 100}, 0)
            pod["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
            pod["spec"]["nodeName"] = node
            pod["status"] = {"phase": "Running"}
            document["items"].append(pod)
    sizes = {"Node": NODE_BYTES, "Pod": POD_BYTES}
    for item in document["items"]:
        if (size := sizes.get(item["kind"])) is not None:
            missing = size - len(json.dumps(item, indent=4))
            item["status"]["padding"] = ["x" * 40] * (missing // 59)
    return document
