"""Family ``epoch``: gangs that wait for a close placement on a partly busy cluster of racks.

The docstring of `epoch_instance` describes the random instances.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.numbers import HOUR_MS, HOUR_S
from lyra_opt.core.rules import require_integer
from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.family_parameters import LARGEST_NETWORK_GPUS, NetworkParameters
from lyra_opt.instances.network.jobs import BATCH
from lyra_opt.instances.parameters import parameters_of
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.network.instance import Instance, Machine, Objective, WaitingJob
from lyra_opt.network.links import LINK_SETS, TIER_OF_LABEL
from lyra_opt.simulation.communication import SCATTERED_MODELS, ClosedForm, CommunicationModel
from lyra_opt.simulation.topology import Topology


@dataclass(frozen=True, slots=True)
class BusyMachine:
    """The free GPUs of a machine on which gangs run.

    Parameters
    ----------
    free_gpus
        The number of GPUs that no gang holds.
    affinity
        The size of the gang that has run on the machine for longest; None if no gang runs there.
    """

    free_gpus: int
    affinity: int | None


def busy_machines(
    topology: Topology, *, busy_percent: int, stream: IntegerStream
) -> list[BusyMachine]:
    """Fill a cluster with random gangs, end some of them, and return the state of each machine.

    Gangs with the sizes of Dally's batch set arrive until the next gang does not fit. A gang goes
    to a random machine among those with the fewest free GPUs that can hold the gang. If no machine
    can, the gang takes all free GPUs of consecutive machines, from a random one on. Then random
    gangs end until at most `busy_percent` of the GPUs are busy; the end of a large gang may leave
    far fewer.

    Parameters
    ----------
    topology
        The cluster.
    busy_percent
        The largest percentage of GPUs that may be busy, from 0 to 100.
    stream
        The source of random numbers.

    Notes
    -----
    Takes O(gangs x machines) time.
    """
    free = topology.gpus_of_machine.tolist()
    sizes, weights = list(BATCH.gangs), list(BATCH.gangs.values())
    running: list[dict[int, int]] = []
    left = sum(free)
    while left:
        gang = sizes[stream.weighted(weights)]
        if gang > left:
            break
        placed = _placed_gang(gang, free, stream)
        for machine, count in placed.items():
            free[machine] -= count
        left -= gang
        running.append(placed)
    most_busy = topology.gpus * busy_percent // 100
    order = list(range(len(running)))
    stream.shuffle(order)
    stay = set(order)
    for ended in order:
        if topology.gpus - left <= most_busy:
            break
        stay.remove(ended)
        for machine, count in running[ended].items():
            free[machine] += count
            left += count
    affinity: dict[int, int] = {}
    for number in sorted(stay):
        for machine in running[number]:
            affinity.setdefault(machine, sum(running[number].values()))
    return [BusyMachine(count, affinity.get(machine)) for machine, count in enumerate(free)]


def _placed_gang(gang: int, free: list[int], stream: IntegerStream) -> dict[int, int]:
    """Return the number of GPUs on each machine for a gang that fits the free GPUs."""
    tightest = min((count for count in free if count >= gang), default=None)
    if tightest is not None:
        machines = [machine for machine, count in enumerate(free) if count == tightest]
        return {machines[stream.below(len(machines))]: gang}
    first = stream.below(len(free))
    placed: dict[int, int] = {}
    for machine in (*range(first, len(free)), *range(first)):
        taken = min(gang, free[machine])
        if taken:
            placed[machine] = taken
            gang -= taken
        if not gang:
            break
    return placed


VERSION = 1
"""The version of the generator, raised whenever a seed gives another instance."""

LONGEST_WAIT_S = 24 * HOUR_S
LEAST_TIMERS_S = (6.0 * HOUR_S, 12.0 * HOUR_S)
"""The least delay timers of Dally's tuner, for a rack and the network: 6 and 12 leases of 1 h."""

NEW_PERCENT = 50
_PARTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """The gang size and the model of a job, with its computing efficiency at each tier."""

    gang: int
    model: str
    efficiency: dict[str, float]


def epoch_instance(
    topology: Topology,
    *,
    jobs: int,
    seed: int,
    communication: CommunicationModel | None = None,
    busy_percent: int = 60,
    objective: Objective = Objective.EPOCH,
    timers_s: tuple[float, float] | None = LEAST_TIMERS_S,
    name: str | None = None,
) -> Instance:
    """Return a random instance: the free GPUs of a cluster, and the gangs that wait for them.

    Function `busy_machines` draws the state of the cluster. Models, gang sizes and work are drawn
    independently, with the distributions of Dally's batch set. Half of the gangs are new. The
    others have done a random share of their work, at a random score between their worst and their
    best efficiency. All gangs have waited for a random time of up to one day.

    Parameters
    ----------
    topology
        The cluster.
    jobs
        The number of waiting gangs, at least 1. No gang is larger than the cluster.
    seed
        The random seed. Each property has its own random stream, so instances that differ only in
        links, objective or timers are otherwise equal.
    communication
        The model of communication cost; None for the closed form on the built-in links.
    busy_percent
        The largest percentage of GPUs that may be busy, as for `busy_machines`.
    objective
        The objective of the instance.
    timers_s
        The delay timers of all gangs for a rack and for the network; None for no delay.
    name
        The name of the instance; None for a name that lists cluster, objective, jobs and seed.

    Raises
    ------
    FieldError
        If a value breaks its rule.
    """
    require_integer("jobs", jobs, minimum=1)
    require_integer("seed", seed, minimum=0)
    require_integer("busy_percent", busy_percent, minimum=0, maximum=100)

    def stream(purpose: str) -> IntegerStream:
        return IntegerStream(workload="epoch", version=VERSION, purpose=purpose, seed=seed)

    machines = busy_machines(topology, busy_percent=busy_percent, stream=stream("cluster"))
    racks = topology.rack_of_machine.tolist()
    sizes = _sizes(topology, communication or ClosedForm(), jobs, stream("sizes"))
    return Instance(
        name=name or f"epoch-v{VERSION}-{topology.name}-{objective}-{jobs}jobs-seed{seed}",
        objective=objective,
        machines=tuple(
            Machine(
                id=machine,
                rack=f"r{rack}",
                gpus=gpus,
                free_gpus=busy.free_gpus,
                affinity=busy.affinity,
            )
            for machine, rack, gpus, busy in zip(
                topology.machine_names(),
                racks,
                topology.gpus_of_machine.tolist(),
                machines,
                strict=True,
            )
        ),
        jobs=tuple(_waiting(sizes, timers_s or (0.0, 0.0), stream("waits"), stream("work"))),
    )


def _sizes(
    topology: Topology, communication: CommunicationModel, jobs: int, stream: IntegerStream
) -> list[_Size]:
    models, model_weights = list(BATCH.models), list(BATCH.models.values())
    gangs = [gang for gang in BATCH.gangs if gang <= topology.gpus]
    gang_weights = [BATCH.gangs[gang] for gang in gangs]
    drawn = []
    for _ in range(jobs):
        gang = gangs[stream.weighted(gang_weights)]
        model = models[stream.weighted(model_weights)]
        by_tier = communication.tier_efficiency(model, gang, topology)
        efficiency = {
            label: by_tier[tier] for label, tier in TIER_OF_LABEL.items() if by_tier[tier] > 0
        }
        drawn.append(_Size(gang=gang, model=model, efficiency=efficiency))
    return drawn


def _waiting(
    sizes: Sequence[_Size], timers_s: tuple[float, float], waits: IntegerStream, work: IntegerStream
) -> list[WaitingJob]:
    jobs = []
    work_ms = BATCH.drawn_work_ms(len(sizes), work)
    for number, (size, worked_ms) in enumerate(zip(sizes, work_ms, strict=True)):
        is_new = waits.percent(NEW_PERCENT)
        done = work.between(1, _PARTS - 1) / _PARTS
        place = work.below(_PARTS + 1) / _PARTS
        worst, best = min(size.efficiency.values()), max(size.efficiency.values())
        score = min(best, worst + place * (best - worst))
        work_gpu_s = worked_ms * HOUR_S / HOUR_MS
        jobs.append(
            WaitingJob(
                id=f"j{number}-{size.model}",
                gang=size.gang,
                efficiency=size.efficiency,
                score=0.0 if is_new else score,
                waiting_s=float(waits.between(0, LONGEST_WAIT_S)),
                rack_timer_s=timers_s[0],
                network_timer_s=timers_s[1],
                remaining_s=work_gpu_s / size.gang * (1.0 if is_new else 1.0 - done),
                attained_gpu_s=0.0 if is_new else work_gpu_s * done / score,
                needs_consolidation=size.model not in SCATTERED_MODELS,
            )
        )
    return jobs


class EpochFamily(ParameterisedFamily):
    """Family ``epoch``: gangs that wait for a close placement on a partly busy cluster of racks."""

    problem = "network"
    parameters = NetworkParameters
    optional = tuple(name for name in parameters_of(NetworkParameters) if name != "jobs")

    def _require(self, parameters: NetworkParameters) -> None:
        machines, gpus_each = parameters.machines_per_rack, parameters.gpus_per_machine
        gpus = parameters.racks * machines * gpus_each
        if gpus > LARGEST_NETWORK_GPUS:
            raise UserError(
                f"--racks is {parameters.racks}: must give at most {LARGEST_NETWORK_GPUS:,} "
                f"GPUs, not {gpus:,}, with {machines} machines per rack and {gpus_each} GPUs per "
                "machine"
            )

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance for a seed; `UserError` if the parameters are not valid."""
        checked: NetworkParameters = self.check(parameters)
        topology = Topology.uniform(
            racks=checked.racks,
            machines_per_rack=checked.machines_per_rack,
            gpus_per_machine=checked.gpus_per_machine,
        )
        waits = checked.timers != "none"
        name = (
            f"{self.name}-v{self.version}-n{checked.jobs}-{topology.name}"
            f"-busy{checked.busy_percent}-{checked.network}"
        )
        name += f"-{checked.objective}" if checked.objective != Objective.EPOCH else ""
        name += "" if waits else "-no-timers"
        return epoch_instance(
            topology,
            jobs=checked.jobs,
            seed=seed,
            communication=ClosedForm(links=LINK_SETS[checked.network]),
            busy_percent=checked.busy_percent,
            objective=Objective(checked.objective),
            timers_s=LEAST_TIMERS_S if waits else None,
            name=f"{name}-seed{seed}",
        )


EPOCH = EpochFamily(
    "epoch",
    version=VERSION,
    summary="gangs of Dally's batch set that wait for GPUs of a partly busy cluster of racks",
)
