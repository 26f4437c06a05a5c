r"""Makespans as if work were a fluid: linear programmes that no schedule in rounds beats.

With z_jk the time of job j on GPUs of kind k and T the makespan, shares x = z / T and v = 1 / T
turn "least T" into "greatest v", one programme and no bisection:

.. math::
    \max v \quad\text{s.t.}\quad \sum_k a_{jk} x_{jk} \ge R_j v,\quad
    \sum_j n_j x_{jk} \le C_k,\quad \sum_{k \in K_i} x_{jk} \le m_i .

*Without forking* kinds are GPU types and a job has all of its time once. *With forking* kinds are
the types of each kind of server, of which there are m_i, and a job can be on each at once. See
`formulations/heterogeneous/shares/README.md`, where it is proved that every schedule in rounds
gives such shares. Sources: Gavel's policy for the makespan (which bisects); HadarE's idea of
forking; the programmes with and without it are derived.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.heterogeneous.checker import STEPS_TOLERANCE
from lyra_opt.heterogeneous.exact.shares.programme import JobSets, ShareProgramme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.heterogeneous.exact.shares.solver import Engine
    from lyra_opt.heterogeneous.instance import GangJob, Instance

SAFETY = 1e-11
"""Relative; what is taken off bounds for the rounding of coefficients and of the division."""


@dataclass(frozen=True, slots=True)
class MakespanInterval:
    """Where the optimum of a programme is.

    Parameters
    ----------
    least_s
        Proved by prices; 0 if there are none.
    most_s
        Reached by shares; infinite if there are none.
    """

    least_s: float
    most_s: float


def makespan_programme(
    instance: Instance, jobs: Sequence[GangJob], *, forking: bool
) -> ShareProgramme:
    """Return the programme of some jobs that all are there from the start.

    Parameters
    ----------
    jobs
        At least one, each with a placement on which it runs.
    forking
        Whether copies of a job may run at once, whatever the instance says.
    """
    columns = _server_columns(instance, jobs) if forking else _type_columns(instance, jobs)
    value = np.array(columns.rates).T
    usable = value > 0
    if not usable.any(axis=1).all():
        raise ValueError("a job can run nowhere")
    steps = np.array([job.steps for job in jobs]) * (1.0 - float(STEPS_TOLERANCE))
    return ShareProgramme(
        sets=JobSets.of(len(jobs)),
        usable=usable,
        gain=np.zeros_like(value),
        value=value,
        level=steps,
        need=np.zeros(len(jobs)),
        has_need=np.ones(len(jobs), dtype=bool),
        gang=np.array([job.gang for job in jobs], dtype=np.float64),
        gpus=np.array(columns.gpus, dtype=np.float64),
        has_level=True,
        group=np.array(columns.group, dtype=np.int64),
        limit=np.array(columns.limit, dtype=np.float64),
        kind=np.full(len(jobs), -1),
    )


@dataclass(slots=True)
class _Columns:
    """Kinds of GPUs: rates[k][j], GPUs and group of each, and the limit of each group."""

    rates: list[list[float]]
    gpus: list[int]
    group: list[int]
    limit: list[int]


def _type_columns(instance: Instance, jobs: Sequence[GangJob]) -> _Columns:
    """Return the types; a job's rate on one is the better of those that some gang can have."""
    largest: dict[str, int] = defaultdict(int)  # GPUs of the largest server that has the type
    for server in instance.servers:
        for name in server.gpus:
            largest[name] = max(largest[name], sum(server.gpus.values()))
    names = [name for name, gpus in instance.gpus_of_type.items() if gpus]
    total = sum(instance.gpus_of_type.values())

    def rate(job: GangJob, name: str) -> float:
        rates = [0.0]
        if job.gang <= largest[name]:
            rates.append(job.throughput.get(name, 0.0))
        if 1 < job.gang <= total:
            spread = job.throughput if job.spread_throughput is None else job.spread_throughput
            rates.append(spread.get(name, 0.0))
        return max(rates)

    return _Columns(
        rates=[[rate(job, name) for job in jobs] for name in names],
        gpus=[instance.gpus_of_type[name] for name in names],
        group=[0] * len(names),
        limit=[1],
    )


def _server_columns(instance: Instance, jobs: Sequence[GangJob]) -> _Columns:
    """Return the types of each kind of server; a copy is on one server, one copy on each."""
    kinds: dict[tuple[tuple[str, int], ...], int] = defaultdict(int)
    for server in instance.servers:
        kinds[tuple(sorted(server.gpus.items()))] += 1
    columns = _Columns([], [], [], [])
    for shape, servers in kinds.items():
        held = sum(count for _, count in shape)
        for name, count in shape:
            columns.rates.append(
                [job.throughput.get(name, 0.0) if job.gang <= held else 0.0 for job in jobs]
            )
            columns.gpus.append(servers * count)
            columns.group.append(len(columns.limit))
        columns.limit.append(servers)
    return columns


def divisible_makespan(instance: Instance, engine: Engine, *, forking: bool) -> MakespanInterval:
    """Return where the optimum of the programme of all jobs is, releases and rounds left out.

    Parameters
    ----------
    engine
        What solves programmes, such as `point_of` of a `ShareSolver`.

    Raises
    ------
    ValueError
        If a job can run nowhere.
    """
    programme = makespan_programme(instance, instance.jobs, forking=forking)
    point = engine(programme)
    least_s, most_s = 0.0, math.inf
    if point.prices is not None:
        level = programme.dual_bound(point.prices, tolerance=0.0) * (1 + SAFETY)
        least_s = 1.0 / level if level > 0 else 0.0
    if point.shares is not None:
        shares = programme.repaired(point.shares, point.level)
        level = float((programme.got(shares) / programme.level).min())
        most_s = 1.0 / level if level > 0 else math.inf
    return MakespanInterval(least_s, most_s)
