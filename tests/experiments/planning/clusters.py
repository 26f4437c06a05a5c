"""Small random clusters as snapshots, and helpers that build snapshots by hand."""

import numpy as np

from lyra_opt.instances.snapshots.snapshot import (
    Owner,
    PendingGang,
    PendingPods,
    RunningGang,
    RunningPod,
    Snapshot,
    SnapshotNode,
)

RACK = "example.com/rack"


def gang(name, places, gpus=1, **fields):
    """Return a running job with one pod on each node of `places`."""
    pods = tuple(
        RunningPod(name=f"{name}-{number}", node=node, request={"gpu": gpus})
        for number, node in enumerate(places)
    )
    owner = Owner(kind="Job", name=name, namespace="team", resource="jobs.batch")
    return RunningGang(
        **{"id": f"team/{name}", "owner": owner, "pods": pods, "min_pods": len(pods), **fields}
    )


def node(name, gpus=4, rack="r0", **fields):
    """Return a node with GPUs in a rack."""
    return SnapshotNode(name=name, capacity={"gpu": gpus}, labels={RACK: rack}, **fields)


def pending(pods, gpus, priority, **fields):
    """Return a pending job whose pods are alike."""
    names = tuple(f"new-{number}" for number in range(pods))
    owner = Owner(kind="Job", name="new", namespace="team", resource="jobs.batch")
    shape = PendingPods(names=names, request={"gpu": gpus})
    return PendingGang(
        id="team/new", owner=owner, shapes=(shape,), min_pods=pods, priority=priority, **fields
    )


def cluster(nodes, gangs=(), **fields):
    """Return a Kubernetes snapshot."""
    return Snapshot(
        system="kubernetes", version="v1", nodes=tuple(nodes), gangs=tuple(gangs), **fields
    )


def random_cluster(seed, most_nodes=5, most_gangs=5):
    """Return a random cluster with at most ten pods, and the generator for further draws."""
    rng = np.random.default_rng(seed)
    nodes = [
        node(f"n{number}", 4, f"r{number % 2}", closed_because=rng.choice(["", "", "", "cordoned"]))
        for number in range(rng.integers(2, most_nodes + 1))
    ]
    free = {each.name: 4 for each in nodes}
    gangs = []
    for number in range(rng.integers(1, most_gangs + 1)):
        gpus = int(rng.choice([1, 2, 4]))
        places = []
        for _ in range(rng.integers(1, 4)):
            fitting = [name for name, room in free.items() if room >= gpus]
            if fitting and sum(len(each.pods) for each in gangs) + len(places) < 10:
                places.append(str(rng.choice(fitting)))
                free[places[-1]] -= gpus
        if places:
            gangs.append(
                gang(
                    f"j{number}",
                    places,
                    gpus,
                    priority=int(rng.choice([0, 5, 10])),
                    min_pods=int(rng.integers(1, len(places) + 1)),
                    protected_because="kept" if rng.random() < 0.15 else "",
                )
            )
    return cluster(nodes, gangs), rng
