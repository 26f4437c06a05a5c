"""Small questions with a horizon: gangs of Gavel's kinds that compete for a few rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.validation import require_integer, require_number
from lyra_opt.heterogeneous.heuristics.gavel import at_attainable_rates
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, Instance, Objective
from lyra_opt.heterogeneous.utility import Deadline, InverseJct
from lyra_opt.instances.heterogeneous.generated_jobs import GANG_PERCENT, GANGS
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs
from lyra_opt.instances.randomness import IntegerStream

if TYPE_CHECKING:
    from lyra_opt.heterogeneous.utility import Utility
    from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
    from lyra_opt.simulation.cluster import Cluster

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
