"""The fastest rates and the earliest completion of a job that has the cluster to itself."""

import math
from collections.abc import Mapping
from fractions import Fraction

from lyra_opt.heterogeneous.checker import due_steps, steps_in_round
from lyra_opt.heterogeneous.instance import GangJob, Instance, Objective


def best_rate_of(gang: int, gpus: Mapping[str, int], rates: Mapping[str, float]) -> float:
    """Return the most steps per second of a gang on the given GPUs, 0 if the gang does not fit.

    The gang takes types from fastest to slowest until it is complete; the last type sets its rate.
    """
    for name in sorted(gpus, key=lambda name: -rates.get(name, 0.0)):
        gang -= gpus[name]
        if gang <= 0:
            return rates.get(name, 0.0)
    return 0.0


def best_rates_by_server(instance: Instance, job: GangJob) -> list[float]:
    """Return the most steps per second of a gang on each single server, 0 if it does not fit."""
    known: dict[tuple[tuple[str, int], ...], float] = {}
    rates = []
    for server in instance.servers:
        shape = tuple(sorted(server.gpus.items()))
        if shape not in known:
            known[shape] = best_rate_of(job.gang, server.gpus, job.throughput)
        rates.append(known[shape])
    return rates


def best_spread_rate(instance: Instance, job: GangJob) -> float:
    """Return the most steps per second of a gang on several servers, 0 if it cannot be spread.

    Types are added from fastest to slowest until they hold the gang and are on at least two
    servers. A gang can then take one GPU on each of two servers and any other GPUs of these types.
    """
    if job.gang < 2:
        return 0.0
    rates = job.throughput if job.spread_throughput is None else job.spread_throughput
    gpus, servers = 0, set()
    for name in sorted(instance.gpus_of_type, key=lambda name: -rates.get(name, 0.0)):
        gpus += instance.gpus_of_type[name]
        servers |= {server.id for server in instance.servers if name in server.gpus}
        if gpus >= job.gang and len(servers) > 1:
            return rates.get(name, 0.0)
    return 0.0


def most_steps_a_round(instance: Instance, job: GangJob) -> Fraction:
    """Return the most training steps that a job, with all its copies, can do in one round.

    Complexity O(servers types log types).
    """
    by_server = best_rates_by_server(instance, job)
    run_s = Fraction(instance.round_s) - Fraction(instance.restart_s)
    if instance.forking:
        steps = sum(map(Fraction, by_server), Fraction(0)) * run_s
    else:
        steps = Fraction(max(*by_server, best_spread_rate(instance, job), 0.0)) * run_s
    if instance.objective is not Objective.ROUND_PROGRESS or not job.current:
        return steps
    stays = steps_in_round(instance, job, job.current)
    if not instance.forking:
        return max(steps, stays)
    if len(job.current) > 1:
        return steps
    # A copy that stays saves its restart, but runs no faster than the best copy on its server.
    (server,) = job.current
    position = [place.id for place in instance.servers].index(server)
    return steps + max(Fraction(0), stays - Fraction(by_server[position]) * run_s)


def earliest_completion(instance: Instance, job: GangJob) -> int | None:
    """Return the earliest round in which a job can complete; None if it never can."""
    steps = most_steps_a_round(instance, job)
    if not steps:
        return None
    return instance.first_round(job) + math.ceil(due_steps(job) / steps) - 1
