r"""Lower bounds on the makespan from linear programmes in which work is divisible.

Let z_jk be the time of job j on GPUs of kind k, and T the makespan. The shares x = z / T and
v = 1 / T turn minimising T into maximising v: one linear programme, and no bisection:

.. math::
    \max v \quad\text{s.t.}\quad \sum_k a_{jk} x_{jk} \ge R_j v,\quad
    \sum_j n_j x_{jk} \le C_k,\quad \sum_{k \in K_i} x_{jk} \le m_i .

*Without forking*, kinds are GPU types and each job has one unit of time. *With forking*, kinds are
the GPU types of each kind of server i, of which there are m_i; a job can run on every server at
once. `formulations/heterogeneous/shares/README.md` proves that every schedule in rounds gives
feasible shares. Sources: Gavel's makespan policy (which bisects) and HadarE's idea of forking; both
programmes are derived here.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lyra_opt.heterogeneous.checker import STEPS_TOLERANCE
from lyra_opt.heterogeneous.exact.shares.programme import JobSets, ShareProgramme
from lyra_opt.heterogeneous.exact.shares.solver import Engine
from lyra_opt.heterogeneous.instance import GangJob, Instance

SAFETY = 1e-11
"""Relative allowance, subtracted from bounds, for rounding of coefficients and of the division."""


def makespan_programme(
    instance: Instance, jobs: Sequence[GangJob], *, forking: bool
) -> ShareProgramme:
    """Return the linear programme for the least makespan of given jobs, all released at time 0.

    Parameters
    ----------
    jobs
        At least one job; each job can run somewhere.
    forking
        Whether copies of a job may run at once; overrides the instance.
    """
    columns = _server_columns(instance, jobs) if forking else _type_columns(instance, jobs)
    value = np.array(columns.rates).T
    usable = value > 0
    if not usable.any(axis=1).all():
        raise ValueError("at least one job cannot run on any GPU of the cluster")
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
    """Coefficients of a makespan programme, by kind of GPU.

    ``rates[k][j]`` is the rate of job j on kind k, ``gpus[k]`` the number of GPUs and ``group[k]``
    the group of kind k. ``limit[i]`` bounds the sum of a job's shares in group i.
    """

    rates: list[list[float]]
    gpus: list[int]
    group: list[int]
    limit: list[int]


def _type_columns(instance: Instance, jobs: Sequence[GangJob]) -> _Columns:
    """Return one column per GPU type, with each job's best rate over one or several servers."""
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
    """Return one column per pair of a server kind and a GPU type, for jobs with several copies.

    Servers of a kind have equal GPUs. A server runs at most one copy of a job.
    """
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


def divisible_makespan(instance: Instance, engine: Engine, *, forking: bool) -> float:
    """Return a proved lower bound, in seconds, on the optimum of the makespan programme.

    The programme ignores releases and rounds. The bound is 0 if the engine returns no prices.

    Parameters
    ----------
    engine
        Function that solves a programme, such as `point_of` of a `ShareSolver`.

    Raises
    ------
    ValueError
        If a job cannot run on any GPU of the cluster.
    """
    programme = makespan_programme(instance, instance.jobs, forking=forking)
    prices = engine(programme).prices
    if prices is None:
        return 0.0
    level = programme.dual_bound(prices, tolerance=0.0) * (1 + SAFETY)
    return 1.0 / level if level > 0 else 0.0
