"""Family ``epoch``: gangs that wait for GPUs close together beside a partly busy cluster.

See `epoch_instance` for what is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.rules import require_integer
from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.family_parameters import LARGEST_NETWORK_GPUS, NetworkParameters
from lyra_opt.instances.network.jobs import BATCH, HOUR_MS
from lyra_opt.instances.parameters import parameters_of
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.network.instance import Instance, Machine, Objective, WaitingJob
from lyra_opt.network.links import LINK_SETS, TIER_OF_LABEL
from lyra_opt.simulation.communication import SCATTERED_MODELS, ClosedForm
from lyra_opt.simulation.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.simulation.communication import CommunicationModel


@dataclass(frozen=True, slots=True)
class BusyMachine:
    """What is left of a machine.

    Parameters
    ----------
    free_gpus
        GPUs that no gang holds.
    affinity
        Size of the gang that has held GPUs of it for longest; None for an empty machine.
    """

    free_gpus: int
    affinity: int | None


def busy_machines(
    topology: Topology, *, busy_percent: int, stream: IntegerStream
) -> list[BusyMachine]:
    """Return the machines of a cluster that was filled with gangs, of which some have ended.

    Gangs of the sizes of Dally's batch set come until the next one does not fit. Each goes to a
    machine that holds it, drawn among those that fit it best, else it takes what is free from a
    machine on that is drawn. Then gangs end, drawn one by one, until at most so many GPUs are
    busy; the last one to end may leave far fewer.

    Parameters
    ----------
    topology
        The cluster.
    busy_percent
        Share of its GPUs that may be busy, 0 to 100.
    stream
        Of the draws.

    Notes
    -----
    Time O(gangs machines).
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
    """Return GPUs by machine for a gang for which there are enough."""
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
"""Goes up when a seed gives another instance."""

HOUR_S = 3600
LONGEST_WAIT_S = 24 * HOUR_S
LEAST_TIMERS_S = (6.0 * HOUR_S, 12.0 * HOUR_S)
"""For a rack and for the network: the floors of Dally's tuner, 6 and 12 leases of an hour."""

NEW_PERCENT = 50
_PARTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """Gang and model of a job, and how well it runs at each tier."""

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
    """Return what a scheduler sees at one moment: free GPUs, and gangs that wait for them.

    The cluster is that of `busy_machines`. Models and gangs have the shares of Dally's batch set,
    drawn apart, and work is drawn as there. Half of the gangs are new; the others have done a share
    of their work, all shares as likely, at a score between their worst efficiency and their best.
    All have waited for up to a day, all times as likely.

    Parameters
    ----------
    topology
        The cluster.
    jobs
        Waiting gangs, at least 1, no larger than the cluster.
    seed
        Of all draws; each property is drawn from a stream of its own, so that instances that
        differ in links, objective or timers alone are otherwise the same.
    communication
        How well gangs compute; None takes the closed form on the shipped links.
    busy_percent
        See `busy_machines`.
    objective
        Of the instance.
    timers_s
        How long gangs wait for a rack and for the network; None does not make them wait.
    name
        None names it by what it is.

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
    """See the module."""

    problem = "network"
    parameters = NetworkParameters
    optional = tuple(name for name in parameters_of(NetworkParameters) if name != "jobs")

    def _require(self, parameters: NetworkParameters) -> None:
        machines, gpus_each = parameters.machines_per_rack, parameters.gpus_per_machine
        gpus = parameters.racks * machines * gpus_each
        if gpus > LARGEST_NETWORK_GPUS:
            raise UserError(
                f"--racks is {parameters.racks}: must come to at most {LARGEST_NETWORK_GPUS:,} "
                f"GPUs, with {machines} machines a rack and {gpus_each} GPUs a machine it is "
                f"{gpus:,}"
            )

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance."""
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
    summary="gangs of Dally's batch that wait beside a partly busy cluster of racks",
)
