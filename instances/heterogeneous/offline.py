"""Family ``offline``: gangs that compete for heterogeneous GPUs within a horizon of rounds.

Instances that differ only in objective, GPUs per server or forking have jobs that are otherwise
equal.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.rules import require_choice, require_integer, require_number
from lyra_opt.heterogeneous.heuristics.gavel import at_attainable_rates
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, Instance, Objective, PackedRate
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, Utility
from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.family_parameters import (
    DEFAULT_GPU_TYPES,
    DEFAULT_THROUGHPUTS,
    HeterogeneousParameters,
)
from lyra_opt.instances.heterogeneous.clusters import cluster_of, known_gpu_types, read_gpu_types
from lyra_opt.instances.heterogeneous.generated_jobs import GANG_PERCENT, GANGS
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs, load_throughputs
from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
from lyra_opt.instances.parameters import parameters_of
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.simulation.cluster import Cluster, GpuType

PACKING_VERSION = 1
"""The version of the packed rates, raised whenever a seed gives other rates."""

PACKINGS = NO, DRAWN, MEASURED = "no", "drawn", "measured"
LEAST_PERCENT = 30


def with_packing(
    instance: Instance,
    packing: str,
    table: ThroughputTable,
    gpu_types: Sequence[GpuType],
    *,
    seed: int,
) -> Instance:
    """Return an instance of a share objective in which two gangs of equal size may share GPUs.

    Parameters
    ----------
    packing
        ``no`` for no packing, ``measured`` for the rates of the table, or ``drawn``. With
        ``drawn``, jobs with equal gang size and rates form a kind. For each pair of kinds with
        equal gang size and for each GPU type, sharing leaves a random 30 to 100 % of the rate.
    table
        The throughput table of the jobs.
    gpu_types
        The GPU types of the cluster.
    seed
        The random seed.

    Raises
    ------
    FieldError
        If `packing` is unknown, or the table has no rates of pairs.
    """
    require_choice("packing", packing, PACKINGS)
    if packing == NO:
        return instance
    if packing == MEASURED:
        if not table.packed:
            rule = f"must be drawn or no, because table {table.name} has no rates of pairs of jobs"
            raise FieldError("packing", packing, rule)
        return replace(instance, packed=table.packed_rates(instance.jobs, gpu_types))
    kind_of: dict[object, str] = {}
    jobs = tuple(
        replace(
            job, kind=kind_of.setdefault((job.gang, *job.throughput.items()), f"{len(kind_of)}")
        )
        for job in instance.jobs
    )
    stream = IntegerStream(workload="packing", version=PACKING_VERSION, seed=seed)
    firsts = {job.kind: job for job in reversed(jobs)}
    kinds = [firsts[kind] for kind in kind_of.values()]
    packed = tuple(
        PackedRate(
            kind=str(job.kind),
            beside=str(other.kind),
            throughput={
                name: rate * stream.between(LEAST_PERCENT, 100) / 100
                for name, rate in job.throughput.items()
            },
        )
        for job in kinds
        for other in kinds
        if job.gang == other.gang
    )
    return replace(instance, jobs=jobs, packed=packed)


VERSION = 1
"""The version of the generator, raised whenever a seed gives another instance."""

DEADLINE_PERCENT = 50
SLACK_FACTORS = (1, 2, 4)
"""Deadlines as multiples of the running time on reference GPUs, with equal probability."""

LATE_WORTH_DIVISOR = 5

_PARTS = 1_000


def offline_instance(  # noqa: PLR0913 - a family's parameters, each by keyword
    cluster: Cluster,
    *,
    jobs: int,
    rounds: int,
    seed: int,
    objective: Objective = Objective.UTILITY,
    round_s: float = 360.0,
    forking: bool = False,
    latest_release_percent: int = 50,
    largest_gang: int = GANGS[-1],
    name: str | None = None,
    table: ThroughputTable | None = None,
) -> Instance:
    """Return random jobs with release times and a horizon of rounds, on a given cluster.

    Gang sizes, models and batch sizes have the distributions of `gavel_like`; no gang is larger
    than the most GPUs of one type. The running time on reference GPUs (V100) is uniform from half a
    round to half the horizon. The release round is uniform up to `latest_release_percent` of the
    horizon. Share objectives ignore releases and have one rate per type: the rate on several
    servers if no server can hold the gang.

    Parameters
    ----------
    cluster
        The cluster; jobs get rates on its GPU types.
    jobs, rounds
        At least 1 job, and at least 2 rounds.
    seed
        The random seed; each property has its own random stream.
    objective, round_s, forking
        The fields of these names of the instance.
    latest_release_percent
        The latest release time as a percentage of the horizon; 0 releases all jobs at time 0.
    largest_gang
        The largest gang size, at least 1; larger gangs are never drawn.
    name
        The name of the instance; None for a name that lists objective, cluster, sizes and seed.
    table
        The throughput table; None for Gavel's.

    Raises
    ------
    FieldError
        If a value breaks its rule.
    """
    require_integer("jobs", jobs, minimum=1)
    require_integer("rounds", rounds, minimum=2)
    require_integer("seed", seed, minimum=0)
    require_number("round_s", round_s, minimum=0, above=True)
    require_integer("latest_release_percent", latest_release_percent, minimum=0, maximum=100)
    require_integer("largest_gang", largest_gang, minimum=1)
    table = gavel_throughputs() if table is None else table
    largest_gang = min(largest_gang, max(cluster.gpus_of_type.values()))
    usable = sum(gang <= largest_gang for gang in GANGS)

    def stream(purpose: str) -> IntegerStream:
        return IntegerStream(workload="offline", version=VERSION, purpose=purpose, seed=seed)

    times, gangs, models = stream("times"), stream("gangs"), stream("models")
    releases, deadlines = stream("releases"), stream("deadlines")
    asks_for_shares = objective in SHARE_OBJECTIVES
    servers = cluster.problem_servers()
    on_a_server = {
        kind.name: max(server.gpus.get(kind.name, 0) for server in servers)
        for kind in cluster.problem_types
    }
    drawn = []
    for number in range(jobs):
        gang = GANGS[gangs.weighted(GANG_PERCENT[:usable])]
        choices = table.types_for(gang, cluster.gpu_types)
        parts = times.between(_PARTS // 2, _PARTS * rounds // 2)
        reference_s = round_s * parts / _PARTS
        job = table.gang_of(
            f"j{number}",
            choices[models.below(len(choices))],
            gang=gang,
            reference_s=reference_s,
            release_s=round_s * releases.between(0, rounds * latest_release_percent // 100),
            gpu_types=cluster.gpu_types,
            utility=_drawn_utility(deadlines, gang, reference_s, round_s),
        )
        drawn.append(at_attainable_rates(job, on_a_server) if asks_for_shares else job)
    return Instance(
        name=name
        or f"offline-v{VERSION}-{objective}-{cluster.name}-{jobs}jobs-{rounds}rounds-seed{seed}",
        objective=objective,
        gpu_types=cluster.problem_types,
        servers=servers,
        jobs=tuple(drawn),
        round_s=round_s,
        horizon_rounds=rounds,
        forking=forking,
    )


def _drawn_utility(stream: IntegerStream, gang: int, reference_s: float, round_s: float) -> Utility:
    factor = SLACK_FACTORS[stream.below(len(SLACK_FACTORS))]
    if not stream.percent(DEADLINE_PERCENT):
        return InverseJct(scale=gang * reference_s)
    deadline_s = max(round_s, factor * reference_s)
    value = gang * reference_s / deadline_s
    return Deadline(deadline_s=deadline_s, value=value, late_value=value / LATE_WORTH_DIVISOR)


class OfflineFamily(ParameterisedFamily):
    """Family ``offline``: gangs that compete for heterogeneous GPUs within a horizon of rounds."""

    problem = "heterogeneous"
    parameters = HeterogeneousParameters
    optional = tuple(name for name in parameters_of(HeterogeneousParameters) if name != "jobs")

    def _require(self, parameters: HeterogeneousParameters) -> None:
        if parameters.forking == "yes" and parameters.objective in SHARE_OBJECTIVES:
            raise UserError(
                f'--forking is "yes": must be no for the objective {parameters.objective}'
            )

        if parameters.packing != NO and parameters.objective not in SHARE_OBJECTIVES:
            raise UserError(
                f"--packing is {parameters.packing!r}: must be no for the objective "
                f"{parameters.objective}"
            )

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance for a seed; `UserError` if the parameters are not valid."""
        checked: HeterogeneousParameters = self.check(parameters)
        name = (
            f"{self.name}-v{self.version}-n{checked.jobs}-rounds{checked.rounds}"
            f"-gpus{checked.gpus_of_type}of{checked.gpus_of_server}"
            f"-release{checked.release_percent}"
        )
        own_types = checked.type_definitions
        known = known_gpu_types() if own_types is None else read_gpu_types(own_types)
        table = load_throughputs(checked.throughputs, gpu_types=known)
        if checked.gpu_types != DEFAULT_GPU_TYPES:
            name += f"-{_in_a_file_name(checked.gpu_types)}"
        name += f"-{_in_a_file_name(table.name)}" if table.name != DEFAULT_THROUGHPUTS else ""
        name += f"-{_in_a_file_name(Path(own_types).stem)}" if own_types is not None else ""
        name += f"-{checked.objective}" if checked.objective != Objective.UTILITY else ""
        name += f"-gangs{checked.largest_gang}" if checked.largest_gang < GANGS[-1] else ""
        name += f"-packed-{checked.packing}" if checked.packing != NO else ""
        name += "-forking" if checked.forking == "yes" else ""
        cluster = cluster_of(
            dict.fromkeys(checked.gpu_types.split(","), checked.gpus_of_type),
            gpus_per_server=checked.gpus_of_server,
            gpu_types=known,
            table=table,
        )
        instance = offline_instance(
            cluster,
            jobs=checked.jobs,
            rounds=checked.rounds,
            seed=seed,
            objective=Objective(checked.objective),
            forking=checked.forking == "yes",
            latest_release_percent=checked.release_percent,
            largest_gang=checked.largest_gang,
            name=f"{name}-seed{seed}",
            table=table,
        )
        return with_packing(instance, checked.packing, table, cluster.gpu_types, seed=seed)

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return a warning for objectives whose instances can be infeasible."""
        objective = self.check(parameters).objective
        if objective == Objective.COST:
            return ("an instance whose deadlines cannot all be met has no solution",)
        if objective not in (Objective.MAKESPAN, Objective.MEAN_JCT):
            return ()
        return ("all jobs must complete; an instance with too short a horizon has no solution",)


def _in_a_file_name(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text)


OFFLINE = OfflineFamily(
    "offline",
    version=VERSION,
    summary="gangs that compete for heterogeneous GPUs within a horizon of rounds",
)
