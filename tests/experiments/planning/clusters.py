"""Small random clusters as snapshots, and snapshots by hand or from the tables of tests."""

from dataclasses import replace

import numpy as np

from lyra_opt.experiments.planning.planning import plan
from lyra_opt.experiments.planning.questions import Choices, Consolidate, Drain, Fit, selector_of
from lyra_opt.instances.snapshots.placement import Placement, Taint, Toleration
from lyra_opt.instances.snapshots.snapshot import (
    DisruptionBudget,
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


RECORDS = {
    "owner": lambda **given: Owner(**{"kind": "Kind", "name": "old", "namespace": "team", **given}),
    "placement": Placement,
    "tolerations": Toleration,
    "taints": Taint,
    "budgets": DisruptionBudget,
    "among": selector_of,
}
QUESTIONS = {"drain": Drain, "fit": Fit, "consolidate": Consolidate}


def read(value, key=""):
    """Return a value of a table, with records and tuples for its tables and lists."""
    if isinstance(value, list):
        return tuple(read(each, key) for each in value)
    if not isinstance(value, dict):
        return RECORDS[key](value) if key == "among" else value
    fields = {name: read(each, name) for name, each in value.items()}
    return RECORDS[key](**fields) if key in RECORDS else fields


def gangs_of(case):
    """Yield the running gangs of a case."""
    for fields in read(case.get("gangs", [])):
        placement = fields.pop("placement", None)
        made = gang(**fields)
        pods = [replace(pod, placement=placement) if placement else pod for pod in made.pods]
        yield replace(made, pods=tuple(pods))


def planned(case):
    """Return the plan of a case: `nodes`, `gangs`, what it asks `of` them, and how."""
    given = read(case.get("asks", {}))
    if "new" in case:
        fields = read(case["new"])
        changed = {key: fields.pop(key) for key in ("id", "owner", "has_pods") if key in fields}
        placement = fields.pop("placement", Placement())
        made = pending(**fields)
        shapes = (replace(made.shapes[0], placement=placement),)
        given["gang"] = replace(made, shapes=shapes, **changed)
    nodes = [node(each) if isinstance(each, str) else node(**each) for each in read(case["nodes"])]
    snapshot = cluster(nodes, gangs_of(case), budgets=read(case.get("budgets", []), "budgets"))
    question = QUESTIONS[case["of"]](**given)
    snapshot = replace(snapshot, **case.get("snapshot", {}))
    return plan(snapshot, question, Choices(**case.get("choices", {})))
