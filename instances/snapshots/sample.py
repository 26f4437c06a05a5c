"""Write a preemption instance as ``kubectl get nodes,pods,... -A -o json`` would print its cluster.

``lyra-opt plan example`` writes the cluster of an instance of the family ``crowded``. The
documentation, the tests and the benchmark use it. Each gang is a Job; a gang that can shrink has
a PodGroup of scheduler-plugins with its minimum.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lyra_opt.instances.snapshots.snapshot import GPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lyra_opt.preemption import Gang, Instance

NAMESPACES = ("research", "search", "speech")
"""The namespaces, over which gangs are spread by the length and last letter of their ids."""

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
NEWEST_S = 1_790_000_000
"""The time of the snapshot, in seconds since 1970; gangs start `Gang.start_s` seconds before."""

NODE_BYTES, POD_BYTES = 16_000, 6_000
"""The usual sizes of nodes and pods in the output of kubectl."""


def kubectl_list(instance: Instance) -> dict[str, Any]:
    """Return the ``List`` of an instance's nodes, pods, owners and priority classes.

    Levels of domains become labels ``example.com/LEVEL``. The demand becomes pending pods of the
    Job ``pending``, and budgets are left out.
    """
    items: list[dict[str, Any]] = []
    items += [
        _node(each.id, each.capacity, each.domains, each.is_usable) for each in instance.nodes
    ]
    priorities = {gang.priority for gang in instance.gangs}
    for gang in instance.gangs:
        items += _gang(gang)
    if demand := instance.demand:
        priorities.add(demand.priority)
        size = sum(shape.count for shape in demand.shapes)
        items += _owner("pending", size, size)
        number = 0
        for shape in demand.shapes:
            for _ in range(shape.count):
                items.append(_pod("pending", number, dict(shape.request), demand.priority))
                number += 1
    items += [
        _object("scheduling.k8s.io/v1", "PriorityClass", f"p{each}", value=each)
        for each in sorted(priorities)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _namespace(owner: str) -> str:
    return NAMESPACES[(len(owner) + ord(owner[-1])) % len(NAMESPACES)]


def _object(version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def _node(
    name: str, capacity: Mapping[str, int], domains: Mapping[str, str], is_usable: bool
) -> dict[str, Any]:
    found = _object("v1", "Node", name)
    found["metadata"]["labels"] = {
        "kubernetes.io/hostname": name,
        **{f"example.com/{level}": domain for level, domain in domains.items()},
    }
    found["spec"] = {} if is_usable else {"unschedulable": True}
    found["status"] = {
        "allocatable": _quantities({"cpu": 96_000, "memory": 2**40, "pods": 110, **capacity}),
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return found


def _quantities(amounts: dict[str, int]) -> dict[str, str]:
    names = {GPU: "nvidia.com/gpu"}
    return {
        names.get(name, name): f"{amount}m" if name == "cpu" else str(amount)
        for name, amount in amounts.items()
    }


def _owner(name: str, size: int, min_pods: int) -> list[dict[str, Any]]:
    """Return the Job of a gang, and its PodGroup if it can shrink."""
    job = _object("batch/v1", "Job", name, spec={"parallelism": size, "completions": size})
    job["metadata"] |= {"namespace": _namespace(name), "uid": f"job-{name}"}
    if min_pods == size:
        return [job]
    spec = {"minMember": min_pods}
    group = _object("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, spec=spec)
    group["metadata"]["namespace"] = _namespace(name)
    return [job, group]


def _gang(gang: Gang) -> Iterator[dict[str, Any]]:
    yield from _owner(gang.id, gang.size, gang.min_pods)
    number = 0
    for group in gang.pods:
        for _ in range(group.count):
            pod = _pod(gang.id, number, dict(group.request), gang.priority)
            start = datetime.fromtimestamp(NEWEST_S - gang.start_s, UTC)
            pod["spec"]["nodeName"] = group.node
            pod["status"] = {"phase": "Running", "startTime": f"{start:%Y-%m-%dT%H:%M:%SZ}"}
            if gang.is_protected:
                pod["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
            if gang.min_pods < gang.size:
                pod["metadata"]["labels"][POD_GROUP_LABEL] = gang.id
            number += 1
            yield pod


def _pod(owner: str, number: int, request: dict[str, int], priority: int) -> dict[str, Any]:
    found = _object("v1", "Pod", f"{owner}-{number}")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"job-{owner}"}
    found["metadata"] |= {
        "namespace": _namespace(owner),
        "labels": {"batch.kubernetes.io/job-name": owner},
        "ownerReferences": [{**reference, "controller": True}],
    }
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
