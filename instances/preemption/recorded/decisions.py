"""Read recorded decisions of real schedulers as preemption instances with their victims.

A recording is a gzip file with one JSON object per line. Its first line can be a header, with the
program, its version, the date, the script and the settings. Each other line is a decision: the
nodes, the running gangs, the pending gang, and the lost pods. ``README.md`` explains the keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.documents import parse_json, read_text
from lyra_opt.core.errors import InputError
from lyra_opt.preemption import Demand, Gang, Instance, Node, PodGroup, Shape, Solution

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from lyra_opt.core.documents import JsonObject

RECORDINGS = ("kube-pods", "kube-gang", "slurm")
"""The recordings, each named as the solver that imitates the program in this mode."""

OBJECTIVE = ("unplaced", "lost:gpu")
"""The objective of recorded instances by default: pods without a node, then lost GPUs."""

BESIDES_GPUS = {
    "kube-scheduler": ({"cpu": 128_000, "memory": 2**40}, {"cpu": 1000}),
    "slurm-wlm": ({}, {}),
}
"""Resources of each node and of each pod besides GPUs, by program, in milli-CPUs and bytes. They
are larger than the pods need, but kube-scheduler uses them to score nodes."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of a real scheduler.

    Parameters
    ----------
    recording
        The mode of the program: a member of `RECORDINGS`.
    program
        The program and its version.
    settings
        How the program was configured.
    instance
        The cluster and the pending gang.
    solution
        The lost pods, where a gang below its minimum counts as lost whole, and the places of the
        pending pods. No rule of a real program knows the minimum of gangs.
    """

    recording: str
    program: str
    settings: str
    instance: Instance
    solution: Solution


@cache
def recorded_decisions(
    recording: str, objective: tuple[str, ...] = OBJECTIVE
) -> tuple[Decision, ...]:
    """Return the decisions of a recording, a member of `RECORDINGS`, in recorded order."""
    folder = files("lyra_opt.instances.preemption.recorded")
    return read_decisions(str(folder / f"{recording}.jsonl.gz"), objective)


def read_decisions(path: str | Path, objective: Sequence[str] = OBJECTIVE) -> tuple[Decision, ...]:
    """Return the decisions of a file in which the pending gang started.

    Raises
    ------
    InputError
        If a line is not a decision.
    """
    found = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        where = f"{path}, line {number}"
        record = parse_json(line, where)
        if number == 1 and "case" not in record:
            continue
        try:
            if record["decision"]["started"]:
                found.append(_decision(record, objective))
        except KeyError as missing:
            raise InputError(where, f"the decision lacks the key {missing}") from None
    return tuple(found)


def _decision(record: JsonObject, objective: Sequence[str]) -> Decision:
    decided = record["decision"]
    program = decided["who"]
    settings = decided["mode"] if "mode" in decided else decided["preempt"]
    if program.startswith("slurm"):
        recording = "slurm"
    else:
        recording = "kube-gang" if settings.startswith("PodGroups") else "kube-pods"
    instance = _instance(record, *BESIDES_GPUS[program.partition(" ")[0]], objective)
    return Decision(recording, program, settings, instance, _solution(record, instance))


def _instance(
    record: JsonObject,
    node_has: Mapping[str, int],
    pod_has: Mapping[str, int],
    objective: Sequence[str],
) -> Instance:
    pending = record["pending"]
    return Instance(
        name=record["case"],
        nodes=[
            Node(
                id=name,
                capacity={**node_has, **node["capacity"]},
                domains=node.get("domains", {}),
            )
            for name, node in record["nodes"].items()
        ],
        gangs=[
            Gang(
                id=name,
                priority=gang["priority"],
                pods=[
                    PodGroup(node=node, request={**pod_has, **dict(request)}, count=count)
                    for node, request, count in _groups(gang["pods"])
                ],
                min_pods=gang.get("min"),
                start_s=_start_s(gang),
            )
            for name, gang in record["gangs"].items()
        ],
        demand=Demand(
            priority=pending["priority"],
            shapes=[
                Shape(
                    id=f"shape{position}" if position else "pod",
                    count=shape["count"],
                    request={**pod_has, **shape["request"]},
                    max_per_node=1 if pending.get("one_pod_per_node") else None,
                )
                for position, shape in enumerate(pending["pods"])
            ],
        ),
        objective=objective,
    )


def _start_s(gang: JsonObject) -> float:
    """Return the start time; the first recordings called the age in seconds ``start_s``."""
    return -float(gang.get("age_s", gang.get("start_s", 0.0)))


def _groups(pods: Sequence[JsonObject]) -> Iterator[tuple[str, tuple[tuple[str, int], ...], int]]:
    """Yield node, request and number of consecutive pods that are alike."""
    for (node, request), alike in groupby(
        pods, lambda pod: (pod["node"], tuple(pod["request"].items()))
    ):
        yield node, request, len(list(alike))


def _solution(record: JsonObject, instance: Instance) -> Solution:
    index, decided = instance.index, record["decision"]
    lost = np.zeros(len(index.group_node), dtype=np.int64)
    victims: Any = decided["lost"]
    for gang in victims:
        position = instance.gang_position[gang]
        first = int(index.first_group[position])
        ends = np.cumsum(index.group_count[first : int(index.first_group[position + 1])])
        pods = victims[gang] if isinstance(victims, dict) else range(int(ends[-1]))
        for pod in pods:
            lost[first + int(np.searchsorted(ends, pod, side="right"))] += 1
    placed = np.zeros((1, len(instance.nodes)), dtype=np.int64)
    on = decided["on"]
    for node in on.values() if isinstance(on, dict) else nodes_of_hostlist(on):
        placed[0, instance.node_position[node]] += 1
    return Solution.of_counts(instance, lost=lost, placed=placed)


def nodes_of_hostlist(hosts: str) -> list[str]:
    """Return the names that a hostlist of Slurm means, such as ``n[001-003,007]`` or ``n001``."""
    found = []
    for prefix, ranges in re.findall(r"([^,\[\]]+)(?:\[([^\]]*)\])?", hosts):
        for part in ranges.split(",") if ranges else [""]:
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1) if part else [None]
            found += [
                prefix if number is None else f"{prefix}{number:0{len(first)}d}"
                for number in numbers
            ]
    return found
