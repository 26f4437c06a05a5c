"""Families of random fleets: ``crowded``, ``scattered``, ``drain`` and ``protected-pod``.

`draw_fleet` describes the random fleets. The fleet of a seed does not depend on the pending pods,
the drained nodes, the moves and the objective. Instances of a family that differ only in these
parts have the same nodes and running gangs, and can be compared in pairs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.core.numbers import MINUTE_S
from lyra_opt.instances.parameters import option
from lyra_opt.instances.preemption.family import (
    GPUS_PER_NODE,
    OBJECTIVES,
    RESOURCES,
    PreemptionFamily,
    demand_of,
)
from lyra_opt.instances.preemption.parameters import PreemptionParameters
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.reclaim.placement import DIST_PER_MILLE, JOB_GPUS, TRACE_PER_MILLE
from lyra_opt.preemption.instance import Gang, Instance, Node, PodGroup

DrawJob = Callable[[], tuple[int, np.ndarray]]
Streams = Mapping[str, IntegerStream]

# The percentages of gangs that have priority 1, 2 and 3.
PRIORITY_PERCENT = (40, 40, 20)

# Jobs fill the fleet in ROUNDS rounds; before each further round, one in ENDING_OF gangs ends.
ROUNDS, ENDING_OF = 6, 3

RACKS_PER_BLOCK = 8
ELASTIC_PERCENT = 35

# A round ends early once this number of drawn jobs did not fit.
MOST_FAILED_DRAWS = 40

# The capacity of each node: GPUs, CPU in milli-CPUs, and memory in bytes.
CAPACITY = np.array([GPUS_PER_NODE, 128_000, 512 * 2**30], dtype=np.int64)

# For each GPU, a running pod requests 1 to 4 times 4 CPUs, and 1 to 4 times 16 GiB of memory.
ONE_GPU, ONE_CPU_SHARE, ONE_MEMORY_SHARE = np.diag([1, 4_000, 16 * 2**30])
CPU_GANGS_PERCENT = 10
SCATTERED_PODS, SCATTERED_GPUS = (4, 16), (1, 2, 4)
PURPOSES = ("jobs", "placement", "ends", "minima", "priorities", "protection", "question")


class _Job(NamedTuple):
    """A running job: its number in order of arrival, the request of each pod, pods by node."""

    number: int
    request: np.ndarray
    placed: dict[int, int]


class _Fleet:
    """The free resources of a fleet with racks and blocks, and two rules that place pods."""

    def __init__(self, parameters: PreemptionParameters, stream: IntegerStream) -> None:
        nodes, rack = parameters.nodes, parameters.rack_nodes
        self.free = np.tile(CAPACITY, (nodes, 1))
        sizes = (rack, rack * RACKS_PER_BLOCK, nodes)
        self._starts = [np.arange(0, nodes + size, size).clip(0, nodes) for size in sizes]
        self._stream = stream

    def hold(self, job: _Job, sign: int = 1) -> None:
        """Take the resources of a job, or free them if `sign` is -1."""
        nodes, counts = np.array(list(job.placed)), np.array(list(job.placed.values()))
        self.free[nodes] -= sign * counts[:, None] * job.request

    def _room(self, request: np.ndarray) -> np.ndarray:
        """Return the number of pods with this request that fit on each node, (N,)."""
        wanted = request > 0
        room: np.ndarray = (self.free[:, wanted] // request[wanted]).min(axis=1)
        return room

    def packed(self, pods: int, request: np.ndarray) -> dict[int, int] | None:
        """Return the pods by node under best fit; None if they do not fit.

        A single pod goes to a random node among those with the fewest free GPUs that can hold it. A
        gang goes to the rack with the least room that can hold all of it. If no rack can, it goes
        to the block with the least such room, and otherwise anywhere. Its pods take the nodes with
        the fewest free GPUs first. Ties are broken by file order.
        """
        room = self._room(request)
        if pods == 1 and room.any():
            free = np.where(room, self.free[:, 0], GPUS_PER_NODE + 1)
            tightest = np.flatnonzero(free == free.min())
            return {int(tightest[self._stream.below(len(tightest))]): 1}
        for starts in self._starts:
            totals = np.add.reduceat(room, starts[:-1])
            if totals.max() < pods:
                continue
            domain = int(np.where(totals >= pods, totals, totals.sum() + 1).argmin())
            nodes = np.arange(starts[domain], starts[domain + 1])
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
    streams: Streams,
    draw_job: DrawJob,
    guarded: Sequence[int] = (),
    elastic_percent: int = ELASTIC_PERCENT,
) -> dict[str, Any]:
    """Return the nodes of a fleet and the gangs that run on it after repeated filling.

    Jobs arrive until the gangs hold `occupancy_percent` of the GPUs. Then, five times, a random
    third of the gangs ends, and new jobs fill the fleet again. The free GPUs are then fragmented as
    in a cluster that has been in use for some time. Gangs are listed, and have start times, in the
    order of arrival.

    - A job that does not fit is dropped.
    - `scattered_percent` of the gangs are placed at random, and the others by best fit
      (`_Fleet.packed`).
    - 40 % of the gangs have priority 1, 40 % priority 2, and 20 % priority 3. Among the gangs of
      several pods, `elastic_percent` may shrink to half of their pods (rounded up).

    Parameters
    ----------
    parameters
        The parameters of the family.
    streams
        One source of random numbers for each of `PURPOSES`.
    draw_job
        A function that draws the number of pods of a job and the request of each pod.
    guarded
        Nodes on which a protected pod with one GPU runs from the start.
    elastic_percent
        Share of the gangs of several pods that may shrink.
    """
    fleet = _Fleet(parameters, streams["placement"])
    guards = [_Job(node, ONE_GPU, {node: 1}) for node in guarded]
    for guard in guards:
        fleet.hold(guard)
    least_free = GPUS_PER_NODE * parameters.nodes * (100 - parameters.occupancy_percent) // 100
    running: list[_Job] = []
    arrived = 0
    for round_number in range(ROUNDS):
        ending = len(running) // ENDING_OF if round_number else 0
        streams["ends"].shuffle(running)
        for job in running[:ending]:
            fleet.hold(job, sign=-1)
        running = sorted(running[ending:], key=lambda job: job.number)
        failed = 0
        while fleet.free[:, 0].sum() > least_free and failed < MOST_FAILED_DRAWS:
            pods, request = draw_job()
            is_scattered = pods > 1 and streams["placement"].percent(parameters.scattered_percent)
            placed = (fleet.scattered if is_scattered else fleet.packed)(pods, request)
            if placed is None:
                failed += 1
                continue
            running.append(_Job(arrived, request, placed))
            fleet.hold(running[-1])
            arrived += 1
    resources, rack = RESOURCES[parameters.resources], parameters.rack_nodes
    nodes = [
        Node(
            id=f"n{n}",
            capacity=_amounts(resources, CAPACITY),
            domains={"rack": f"r{n // rack}", "block": f"b{n // rack // RACKS_PER_BLOCK}"},
        )
        for n in range(parameters.nodes)
    ]
    gangs = [_gang(job, resources, f"guard-{job.number}", is_protected=True) for job in guards]
    for job in running:
        pods = sum(job.placed.values())
        is_elastic = pods > 1 and streams["minima"].percent(elastic_percent)
        drawn = {
            "priority": 1 + streams["priorities"].weighted(PRIORITY_PERCENT),
            "min_pods": -(-pods // 2) if is_elastic else pods,
            "is_protected": streams["protection"].percent(parameters.protected_percent),
        }
        gangs.append(_gang(job, resources, f"g{job.number}", **drawn))
    return {"nodes": nodes, "gangs": gangs}


def _amounts(resources: Sequence[str], amounts: np.ndarray) -> dict[str, int]:
    return {name: n for name, n in zip(resources, amounts.tolist(), strict=False) if n}


def _gang(job: _Job, resources: Sequence[str], name: str, **others: Any) -> Gang:
    request, placed = _amounts(resources, job.request), sorted(job.placed.items())
    pods = [PodGroup(node=f"n{n}", count=count, request=request) for n, count in placed]
    return Gang(id=name, pods=pods, start_s=MINUTE_S * job.number, **others)


def _job_drawer(parameters: PreemptionParameters, stream: IntegerStream) -> DrawJob:
    """Return a function that draws the number of pods of a job and the request of each pod.

    The GPUs of a job follow `mix`. A job with more than 8 GPUs has pods of 8 GPUs; of the jobs with
    2 or more, `split_percent` have pods of 1 or 2 GPUs instead. With CPU and memory, each GPU of a
    gang comes with 4 to 16 CPUs and 16 to 64 GiB, and 10 % of the jobs are single pods without
    GPUs, with CPU and memory for 2 or 4 GPUs.
    """
    weights = TRACE_PER_MILLE if parameters.mix == "trace" else DIST_PER_MILLE

    def draw() -> tuple[int, np.ndarray]:
        gpus = JOB_GPUS[stream.weighted(weights)]
        pods, per_pod = -(-gpus // GPUS_PER_NODE), min(gpus, GPUS_PER_NODE)
        if gpus > 1 and stream.percent(parameters.split_percent):
            per_pod = stream.between(1, 2)
            pods = gpus // per_pod
        if parameters.resources == "gpu":
            return pods, ONE_GPU * per_pod
        others = stream.between(1, 4) * ONE_CPU_SHARE + stream.between(1, 4) * ONE_MEMORY_SHARE
        if stream.percent(CPU_GANGS_PERCENT):
            return 1, others * 2 * stream.between(1, 2)
        return pods, (ONE_GPU + others) * per_pod

    return draw


FLEET = (
    *("occupancy_percent", "rack_nodes", "objective"),
    *("mix", "scattered_percent", "split_percent"),
)
RULES = ("protected_percent", "moves")
DEMAND = ("pods", "pod_gpus", "shapes", "priority", "level")


class CrowdedFamily(PreemptionFamily):
    """Family ``crowded``: a gang waits for room on a fleet that has been in use for a long time."""

    default_moves: ClassVar[str] = "none"
    required: ClassVar[tuple[str, ...]] = ("nodes",)
    optional: ClassVar[tuple[str, ...]] = (*FLEET, "resources", *RULES, *DEMAND)

    def _require(self, parameters: PreemptionParameters) -> None:
        for name in self.required:
            if (count := getattr(parameters, name)) > parameters.nodes:
                rule = f"must be at most the {parameters.nodes} nodes"
                raise UserError(f"{option(name)} is {count}: {rule}")

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance for a seed; `UserError` if the parameters are not valid."""
        given: PreemptionParameters = self.check(parameters)
        streams = {each: self._stream(each, seed, nodes=given.nodes) for each in PURPOSES}
        found = self._fields(given, streams) | {"objective": OBJECTIVES[given.objective]}
        moves = given.moves or self.default_moves
        found |= {"moves": "any", "victims": "none"} if moves == "only" else {"moves": moves}
        return Instance(name=self._name(given, seed), **found)

    def _fields(self, parameters: PreemptionParameters, streams: Streams) -> dict[str, Any]:
        """Return the nodes, the running gangs, and the pending gang or the nodes to empty."""
        jobs = _job_drawer(parameters, streams["jobs"])
        return {**draw_fleet(parameters, streams, jobs), "demand": demand_of(parameters)}


class ScatteredFamily(CrowdedFamily):
    """Family ``scattered``: gangs of 4 to 16 pods on random nodes, which cannot shrink.

    Each pod has 1, 2 or 4 GPUs, with equal probability. These are the hardest fleets: every gang is
    on many nodes, so the choice of the nodes does not split into independent parts.
    """

    optional = (*FLEET[:3], *RULES, *DEMAND)

    def _fields(self, parameters: PreemptionParameters, streams: Streams) -> dict[str, Any]:
        stream = streams["jobs"]

        def draw_job() -> tuple[int, np.ndarray]:
            gpus = SCATTERED_GPUS[stream.below(len(SCATTERED_GPUS))]
            return stream.between(*SCATTERED_PODS), ONE_GPU * gpus

        scattered = replace(parameters, scattered_percent=100)
        fleet = draw_fleet(scattered, streams, draw_job, elastic_percent=0)
        return {**fleet, "demand": demand_of(parameters)}


class DrainFamily(CrowdedFamily):
    """Family ``drain``: nodes must be emptied, and pods may move to the free GPUs of other nodes.

    No gang is pending, and all pods may move unless `moves` says otherwise. `drained` says whether
    random nodes must be emptied, or nodes that the solution chooses.
    """

    default_moves = "any"
    required = ("nodes", "drained_nodes")
    optional = (*FLEET, "resources", *RULES, "drained")

    def _fields(self, parameters: PreemptionParameters, streams: Streams) -> dict[str, Any]:
        found = draw_fleet(parameters, streams, _job_drawer(parameters, streams["jobs"]))
        if parameters.drained == "chosen":
            return {**found, "empty_nodes": parameters.drained_nodes}
        for n in streams["question"].sample(range(parameters.nodes), parameters.drained_nodes):
            found["nodes"][n] = replace(found["nodes"][n], must_be_empty=True)
        return found


class ProtectedPodFamily(CrowdedFamily):
    """Family ``protected-pod``: a small protected pod blocks all nodes but a few.

    All nodes except ``--open-nodes`` have a protected pod with one GPU. As many pods of 8 GPUs are
    pending as there are open nodes, and the pending gang may preempt all other gangs. The only
    solution is to empty the open nodes: gangs with a pod on them shrink if they keep their minimum,
    and are lost whole otherwise. Rules that prefer free GPUs or the cheapest victims try the other
    nodes first.
    """

    required = ("nodes", "open_nodes")
    optional = FLEET

    def _fields(self, parameters: PreemptionParameters, streams: Streams) -> dict[str, Any]:
        nodes, count = range(parameters.nodes), parameters.open_nodes
        guarded = sorted(streams["question"].sample(nodes, len(nodes) - count))
        demand = demand_of(replace(parameters, pods=count, priority=4))
        jobs = _job_drawer(parameters, streams["jobs"])
        return {**draw_fleet(parameters, streams, jobs, guarded), "demand": demand}


CROWDED = CrowdedFamily(
    "crowded",
    version=1,
    summary="a gang waits on a fleet of racks, after jobs of real sizes have come and gone",
)
SCATTERED = ScatteredFamily(
    "scattered",
    version=1,
    summary="a gang waits; gangs of 4 to 16 pods on random nodes cannot shrink",
)
DRAIN = DrainFamily(
    "drain", version=1, summary="nodes of a crowded fleet are emptied, and pods may move"
)
PROTECTED_POD = ProtectedPodFamily(
    "protected-pod", version=1, summary="small protected pods block all nodes but --open-nodes"
)
