"""Family ``offline``: gangs of Gavel's kinds, or one's own, that compete for unlike GPUs.

Instances that differ in objective, GPUs of a server or forking alone are otherwise the same jobs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.rules import require_choice, require_integer, require_number
from lyra_opt.heterogeneous.heuristics.gavel import at_attainable_rates
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, Instance, Objective, PackedRate
from lyra_opt.heterogeneous.utility import Deadline, InverseJct
from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.family_parameters import (
    DEFAULT_GPU_TYPES,
    DEFAULT_THROUGHPUTS,
    HeterogeneousParameters,
)
from lyra_opt.instances.heterogeneous.clusters import cluster_of, known_gpu_types, read_gpu_types
from lyra_opt.instances.heterogeneous.generated_jobs import GANG_PERCENT, GANGS
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs, load_throughputs
from lyra_opt.instances.parameters import parameters_of
from lyra_opt.instances.randomness import IntegerStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.heterogeneous.utility import Utility
    from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
    from lyra_opt.simulation.cluster import Cluster, GpuType

PACKING_VERSION = 1
"""Goes up when a seed gives other rates."""

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
    """Return an instance of shares of time in which two gangs of a size may share GPUs.

    Parameters
    ----------
    packing
        ``no``; ``measured``, as the table says; or ``drawn``: jobs of equal gangs and rates are of
        a kind, and one has 30 to 100 % of its rate beside one of another kind or its own, each per
        cent as likely, on each type of GPUs anew.
    table
        Of which the jobs were made.
    gpu_types
        Those of the cluster.
    seed
        Of the draws.

    Raises
    ------
    FieldError
        If there is no such packing, or nothing measured.
    """
    require_choice("packing", packing, PACKINGS)
    if packing == NO:
        return instance
    if packing == MEASURED:
        if not table.packed:
            rule = f"must be drawn or no: table {table.name} has no rates of two kinds at once"
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
"""Goes up when a seed gives another instance."""

DEADLINE_PERCENT = 50
SLACK_FACTORS = (1, 2, 4)
"""Deadlines as multiples of the time on reference GPUs, each as likely."""

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
    """Return jobs with a horizon, on a cluster.

    Gangs, models and batch sizes are drawn as `gavel_like` draws them, gangs no larger than the
    most GPUs of a type. A job takes half a round to half the horizon on reference GPUs (V100), each
    as likely, and is released in a round up to `latest_release_percent` of the horizon. Shares of
    time know no releases, and one rate a type: that on several servers where none holds the gang.

    Parameters
    ----------
    cluster
        For whose types the jobs get rates.
    jobs, rounds
        At least 1 job, at least 2 rounds.
    seed
        Of all draws; each property is drawn from a stream of its own.
    objective, round_s, forking
        Of the instance.
    latest_release_percent
        0 releases all jobs at once.
    largest_gang
        Larger gangs are drawn again; at least 1.
    name
        None names it by what it is.
    table
        Of throughputs; None for Gavel's.

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
    """See the module."""

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
        """Return the instance."""
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
        """Return where an instance may have no solution."""
        objective = self.check(parameters).objective
        if objective == Objective.COST:
            return ("where deadlines cannot be kept together, there is no solution",)
        if objective not in (Objective.MAKESPAN, Objective.MEAN_JCT):
            return ()
        return ("all jobs must complete: where the horizon is too short, there is no solution",)


def _in_a_file_name(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text)


OFFLINE = OfflineFamily(
    "offline",
    version=VERSION,
    summary="gangs that compete for GPUs of a few types within a few rounds",
)
