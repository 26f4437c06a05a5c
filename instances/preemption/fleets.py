"""Families of random fleets: ``crowded``, ``scattered``, ``drain`` and ``protected-pod``.

Function `draw_fleet` describes the random fleets. The fleet of a seed does not depend on the
question, that is, on the pending pods, the drained nodes, the moves and the objective. Instances
that differ only in the question can therefore be compared in pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.instances.preemption.family import (
    GPUS_PER_NODE,
    OBJECTIVES,
    PreemptionFamily,
    demand_of,
)
from lyra_opt.instances.reclaim.placement import DIST_PER_MILLE, JOB_GPUS, TRACE_PER_MILLE
from lyra_opt.instances.traces import locate, read_trace
from lyra_opt.preemption.instance import GPU, Gang, Instance, Node, PodGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lyra_opt.instances.preemption.parameters import PreemptionParameters
    from lyra_opt.instances.randomness import IntegerStream

PRIORITY_PERCENT = (40, 40, 20)
"""Percentages of the gangs with priority 1, 2 and 3."""

ROUNDS, ENDING_OF = 6, 3
"""Rounds of filling the fleet; between two rounds, one of so many gangs ends."""

MOST_FAILED_DRAWS = 40
"""A round ends below the occupancy after so many drawn jobs that do not fit."""

MINUTE_S = 60.0
CPU_PER_NODE, MEMORY_PER_NODE = 128_000, 512 * 2**30
CPU_PER_GPU = (4_000, 8_000, 12_000, 16_000)
MEMORY_PER_GPU = tuple(gib * 2**30 for gib in (16, 32, 48, 64))
CPU_GANGS_PERCENT = 10
"""Percentage of the jobs without GPUs, whose pods have CPUs and memory for 2 or 4 GPUs."""

SCATTERED_PODS, SCATTERED_GPUS = (4, 16), (1, 2, 4)


@dataclass(frozen=True, slots=True)
class _Job:
    """A job that arrives: its number, its pods, the request of each pod, and its placement."""

    number: int
    pods: int
    request: np.ndarray
    placed: dict[int, int]


class _Fleet:
    """The free resources of a fleet in racks and blocks, and two rules that place pods on them."""

    def __init__(self, parameters: PreemptionParameters, stream: IntegerStream) -> None:
        has_cpus = parameters.resources != "gpu"
        self.resources = (GPU, "cpu", "memory")[: 3 if has_cpus else 1]
        self.capacity = np.array([GPUS_PER_NODE, CPU_PER_NODE, MEMORY_PER_NODE], dtype=np.int64)
        self.capacity = self.capacity[: len(self.resources)]
        self.free = np.tile(self.capacity, (parameters.nodes, 1))
        rack = parameters.rack_nodes
        self._domains = [
            np.arange(0, parameters.nodes, size)
            for size in (rack, rack * parameters.block_racks, parameters.nodes)
        ]
        self._stream = stream

    @property
    def busy_gpus(self) -> int:
        """The number of GPUs that gangs hold."""
        return int(GPUS_PER_NODE * len(self.free) - self.free[:, 0].sum())

    def hold(self, request: np.ndarray, placed: Mapping[int, int], sign: int = 1) -> None:
        """Take the resources of placed pods, or free them if `sign` is -1."""
        nodes, counts = np.array(list(placed)), np.array(list(placed.values()))
        self.free[nodes] -= sign * counts[:, None] * request

    def _room(self, request: np.ndarray) -> np.ndarray:
        """Return the number of pods that fit on each node."""
        wanted = request > 0
        room: np.ndarray = (self.free[:, wanted] // request[wanted]).min(axis=1)
        return room

    def packed(self, pods: int, request: np.ndarray) -> dict[int, int] | None:
        """Return the pods by node under best fit; None if they do not fit.

        A single pod goes to a random node among those with the fewest free GPUs that can hold it.
        A gang goes to the rack with the least room that can hold all of it, otherwise to such a
        block, otherwise to the fleet. In there it takes the nodes with the fewest free GPUs first.
        Ties are broken by file order.
        """
        room = self._room(request)
        if pods == 1:
            fitting = np.flatnonzero(room)
            if not len(fitting):
                return None
            gpus = self.free[fitting, 0]
            tightest = fitting[gpus == gpus.min()]
            return {int(tightest[self._stream.below(len(tightest))]): 1}
        for starts in self._domains:
            totals = np.add.reduceat(room, starts)
            holding = np.flatnonzero(totals >= pods)
            if not len(holding):
                continue
            first = int(starts[holding[np.argmin(totals[holding])]])
            end = int(min([*starts[starts > first][:1], len(room)]))
            nodes = first + np.flatnonzero(room[first:end])
            nodes = nodes[np.argsort(self.free[nodes, 0], kind="stable")]
            taken = np.clip(pods - np.cumsum(room[nodes]) + room[nodes], 0, room[nodes])
            return {int(n): int(count) for n, count in zip(nodes, taken, strict=True) if count}
        return None

    def scattered(self, pods: int, request: np.ndarray) -> dict[int, int] | None:
        """Return the pods by node, each on a random node with room; None if they do not fit."""
        room = self._room(request)
        if room.sum() < pods:
            return None
        placed: dict[int, int] = {}
        for _ in range(pods):
            fitting = np.flatnonzero(room)
            node = int(fitting[self._stream.below(len(fitting))])
            placed[node] = placed.get(node, 0) + 1
            room[node] -= 1
        return placed


def draw_fleet(
    parameters: PreemptionParameters,
    streams: Mapping[str, IntegerStream],
    draw_job: Callable[[], tuple[int, np.ndarray]] | None = None,
    guarded: Sequence[int] = (),
) -> tuple[list[Node], list[Gang]]:
    """Return the nodes of a fleet and the gangs that run on it after repeated filling.

    Jobs arrive until the gangs hold `occupancy_percent` of the GPUs. Then, five times, a random
    third of the gangs ends, and new jobs fill the fleet again. The free GPUs are then fragmented as
    in a cluster that has been in use for some time. Gangs are listed, and have start times, in the
    order of arrival.

    - The GPUs of a job follow `mix` or `trace`. A job with more than 8 GPUs has pods of 8 GPUs; of
      the jobs with 2 or more, `split_percent` have pods of 1 or 2 GPUs instead. A job that does not
      fit is dropped.
    - `scattered_percent` of the gangs are placed at random, and the others by best fit
      (`_Fleet.packed`).
    - Gangs have the priorities 1, 2 and 3 with 40, 40 and 20 %. Of the gangs of several pods,
      `elastic_percent` may shrink to half of their pods (rounded up).
    - With CPU and memory, each GPU of a gang comes with 4, 8, 12 or 16 CPUs and 16 to 64 GiB, and
      10 % of the jobs have no GPUs.

    Parameters
    ----------
    parameters
        The parameters of the family.
    streams
        One source of random numbers per purpose: jobs, placement, ends, minima, priorities,
        protection.
    draw_job
        A function that draws the number of pods of a job and the request of each pod; None for
        jobs as described above.
    guarded
        Nodes on which a protected pod with one GPU runs from the start.
    """
    fleet = _Fleet(parameters, streams["placement"])
    one_gpu = np.array([1, 4_000, 16 * 2**30], dtype=np.int64)[: len(fleet.resources)]
    for node in guarded:
        fleet.hold(one_gpu, {node: 1})
    draw_job = draw_job or _job_drawer(parameters, streams["jobs"])
    most_gpus = GPUS_PER_NODE * parameters.nodes * parameters.occupancy_percent // 100
    running: list[_Job] = []
    arrived = 0
    for round_number in range(ROUNDS):
        if round_number:
            ending = set(streams["ends"].sample(range(len(running)), len(running) // ENDING_OF))
            for position in sorted(ending):
                fleet.hold(running[position].request, running[position].placed, sign=-1)
            running = [job for position, job in enumerate(running) if position not in ending]
        failed = 0
        while fleet.busy_gpus < most_gpus and failed < MOST_FAILED_DRAWS:
            pods, request = draw_job()
            is_scattered = pods > 1 and streams["placement"].percent(parameters.scattered_percent)
            placed = (fleet.scattered if is_scattered else fleet.packed)(pods, request)
            if placed is None:
                failed += 1
                continue
            fleet.hold(request, placed)
            running.append(_Job(arrived, pods, request, placed))
            arrived += 1
    nodes = [
        Node(
            id=f"n{n}",
            capacity=dict(zip(fleet.resources, fleet.capacity.tolist(), strict=True)),
            domains={
                "rack": f"r{n // parameters.rack_nodes}",
                "block": f"b{n // parameters.rack_nodes // parameters.block_racks}",
            },
        )
        for n in range(parameters.nodes)
    ]
    guards = [
        _gang(_Job(0, 1, one_gpu, {n: 1}), fleet.resources, id=f"guard-{n}", is_protected=True)
        for n in guarded
    ]
    return nodes, guards + [
        _gang(
            job,
            fleet.resources,
            id=f"g{job.number}",
            start_s=MINUTE_S * job.number,
            priority=1 + streams["priorities"].weighted(PRIORITY_PERCENT),
            min_pods=-(-job.pods // 2)
            if job.pods > 1 and streams["minima"].percent(parameters.elastic_percent)
            else job.pods,
            is_protected=streams["protection"].percent(parameters.protected_percent),
        )
        for job in running
    ]


def _gang(job: _Job, resources: Sequence[str], **others: Any) -> Gang:
    request = {
        name: amount for name, amount in zip(resources, job.request.tolist(), strict=True) if amount
    }
    groups = [
        PodGroup(node=f"n{n}", count=count, request=request)
        for n, count in sorted(job.placed.items())
    ]
    return Gang(pods=groups, **others)


def _sizes(parameters: PreemptionParameters) -> dict[int, int]:
    """Return the weight of each number of GPUs of a job."""
    if parameters.trace is None:
        weights = {"trace": TRACE_PER_MILLE, "dist": DIST_PER_MILLE}[parameters.mix]
        return dict(zip(JOB_GPUS, weights, strict=True))
    found: dict[int, int] = {}
    for job in read_trace(locate(str(parameters.trace))).jobs:
        found[job.gpus] = found.get(job.gpus, 0) + job.duration_ms
    if not any(found.values()):
        raise UserError(f"--trace is {parameters.trace}: all its jobs have duration 0")
    return found


def _job_drawer(
    parameters: PreemptionParameters, stream: IntegerStream
) -> Callable[[], tuple[int, np.ndarray]]:
    """Return a function that draws the number of pods of a job and the request of each pod."""
    sizes = _sizes(parameters)
    weights = list(sizes.values())

    def draw() -> tuple[int, np.ndarray]:
        gpus = list(sizes)[stream.weighted(weights)]
        is_wide = gpus > GPUS_PER_NODE
        pods, per_pod = (-(-gpus // GPUS_PER_NODE), GPUS_PER_NODE) if is_wide else (1, gpus)
        if gpus > 1 and stream.percent(parameters.split_percent):
            per_pod = stream.between(1, 2)
            pods = gpus // per_pod
        if parameters.resources == "gpu":
            return pods, np.array([per_pod], dtype=np.int64)
        cpu = CPU_PER_GPU[stream.below(len(CPU_PER_GPU))]
        memory = MEMORY_PER_GPU[stream.below(len(MEMORY_PER_GPU))]
        request = np.array([1, cpu, memory], dtype=np.int64) * per_pod
        if stream.percent(CPU_GANGS_PERCENT):
            pods, request = 1, np.array([0, cpu, memory], dtype=np.int64) * 2 * stream.between(1, 2)
        return pods, request

    return draw


FLEET = (
    *("occupancy_percent", "rack_nodes", "block_racks", "mix", "trace", "scattered_percent"),
    *("split_percent", "elastic_percent", "protected_percent", "resources"),
)
"""The parameters of random fleets, besides the number of nodes."""

PURPOSES = ("jobs", "placement", "ends", "minima", "priorities", "protection", "question")
DEMAND = ("pods", "pod_gpus", "shapes", "priority", "level")
RULES = ("moves", "victims", "objective")


class CrowdedFamily(PreemptionFamily):
    """Family ``crowded``: a gang that waits for room on a fleet that has long been in use."""

    required: ClassVar[tuple[str, ...]] = ("nodes",)
    optional: ClassVar[tuple[str, ...]] = (*FLEET, *DEMAND, *RULES)
    shown_always: ClassVar[tuple[str, ...]] = ("nodes", "occupancy_percent", "pods", "pod_gpus")
    default_moves = "none"

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance for a seed; `UserError` if the parameters are not valid."""
        checked: PreemptionParameters = self.check(parameters)
        streams = {
            purpose: self._stream(purpose, seed, nodes=checked.nodes) for purpose in PURPOSES
        }
        rules: dict[str, Any] = {
            "moves": checked.moves or self.default_moves,
            "victims": checked.victims,
            "objective": OBJECTIVES[checked.objective],
        }
        question = self._question(checked, streams)
        return Instance(name=self._name(checked, seed), **rules, **question)

    def _question(
        self, parameters: PreemptionParameters, streams: Mapping[str, IntegerStream]
    ) -> dict[str, Any]:
        """Return nodes, gangs, and the pending gang or the nodes to empty."""
        nodes, gangs = draw_fleet(parameters, streams)
        return {"nodes": nodes, "gangs": gangs, "demand": demand_of(parameters)}


class ScatteredFamily(CrowdedFamily):
    """Family ``scattered``: whole gangs of 4 to 16 pods on random nodes, the hardest fleets.

    Each pod has 1, 2 or 4 GPUs, equally likely. Every gang touches many nodes, so that the choice
    of the nodes does not split into independent parts.
    """

    optional: ClassVar[tuple[str, ...]] = (
        *("occupancy_percent", "rack_nodes", "block_racks", "protected_percent", *DEMAND, *RULES),
    )

    def _question(
        self, parameters: PreemptionParameters, streams: Mapping[str, IntegerStream]
    ) -> dict[str, Any]:
        stream = streams["jobs"]

        def draw_job() -> tuple[int, np.ndarray]:
            gpus = SCATTERED_GPUS[stream.below(len(SCATTERED_GPUS))]
            return stream.between(*SCATTERED_PODS), np.array([gpus], dtype=np.int64)

        whole = replace(parameters, scattered_percent=100, elastic_percent=0)
        nodes, gangs = draw_fleet(whole, streams, draw_job)
        return {"nodes": nodes, "gangs": gangs, "demand": demand_of(parameters)}


class DrainFamily(CrowdedFamily):
    """Family ``drain``: nodes must be emptied, and pods may move to the free GPUs of other nodes.

    Nothing is pending. `drained` says which nodes must be emptied: random nodes, neighbours in file
    order (from a random one on), or any nodes that the solution chooses.
    """

    required = ("nodes", "drained_nodes")
    optional: ClassVar[tuple[str, ...]] = (*FLEET, "drained", *RULES)
    shown_always: ClassVar[tuple[str, ...]] = ("nodes", "occupancy_percent", "drained_nodes")
    default_moves = "any"

    def _require(self, parameters: PreemptionParameters) -> None:
        if parameters.drained_nodes > parameters.nodes:
            raise UserError(
                f"--drained-nodes is {parameters.drained_nodes}: must be at most the "
                f"{parameters.nodes} nodes"
            )
        if parameters.victims not in (None, "any", "none"):
            raise UserError(
                f"--victims is {parameters.victims}: must be any or none for family {self.name}, "
                "because nothing is pending"
            )

    def _question(
        self, parameters: PreemptionParameters, streams: Mapping[str, IntegerStream]
    ) -> dict[str, Any]:
        nodes, gangs = draw_fleet(parameters, streams)
        count = parameters.drained_nodes
        if parameters.drained == "chosen":
            return {"nodes": nodes, "gangs": gangs, "empty_nodes": count}
        if parameters.drained == "random":
            drained = set(streams["question"].sample(range(len(nodes)), count))
        else:
            first = streams["question"].below(len(nodes) - count + 1)
            drained = set(range(first, first + count))
        marked = [replace(node, must_be_empty=n in drained) for n, node in enumerate(nodes)]
        return {"nodes": marked, "gangs": gangs}


class ProtectedPodFamily(CrowdedFamily):
    """Family ``protected-pod``: a small protected pod blocks all nodes but a few.

    As many pods of 8 GPUs are pending as nodes have no protected pod, and the pending gang may
    preempt everybody else. The only solution is to empty these nodes: gangs with a pod there shrink
    if they keep their minimum, and are lost whole otherwise. Rules that look at free GPUs or at the
    cheapest victims first look elsewhere.
    """

    required = ("nodes", "open_nodes")
    optional: ClassVar[tuple[str, ...]] = (
        *(name for name in FLEET if name not in ("protected_percent", "resources")),
        "objective",
    )
    shown_always: ClassVar[tuple[str, ...]] = ("nodes", "occupancy_percent", "open_nodes")

    def _require(self, parameters: PreemptionParameters) -> None:
        if parameters.open_nodes > parameters.nodes:
            raise UserError(
                f"--open-nodes is {parameters.open_nodes}: must be at most the {parameters.nodes} "
                "nodes"
            )

    def _question(
        self, parameters: PreemptionParameters, streams: Mapping[str, IntegerStream]
    ) -> dict[str, Any]:
        count = parameters.open_nodes
        is_open = set(streams["question"].sample(range(parameters.nodes), count))
        guarded = [n for n in range(parameters.nodes) if n not in is_open]
        nodes, gangs = draw_fleet(parameters, streams, guarded=guarded)
        demand = demand_of(replace(parameters, pods=count, priority=4))
        return {"nodes": nodes, "gangs": gangs, "demand": demand}


CROWDED = CrowdedFamily(
    "crowded",
    version=1,
    summary="a gang waits on a fleet of racks that jobs of a real mix have filled and left often",
)
SCATTERED = ScatteredFamily(
    "scattered", version=1, summary="a gang waits, and whole gangs of 4 to 16 pods are all over"
)
DRAIN = DrainFamily(
    "drain", version=1, summary="nodes of a crowded fleet are emptied, and pods may move"
)
PROTECTED_POD = ProtectedPodFamily(
    "protected-pod", version=1, summary="small protected pods block all nodes but --open-nodes"
)
