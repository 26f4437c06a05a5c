"""Families whose optimum is known by construction: ``decoy``, ``net`` and ``net-joined``.

Source: this project.
"""

from functools import partial
from math import isqrt

from lyra_opt.core.errors import UserError
from lyra_opt.instances.family_parameters import LARGEST_FLEET
from lyra_opt.instances.reclaim.family import (
    GPUS_PER_SERVER,
    Allocation,
    Layout,
    SolvedFamily,
    SolvedLayout,
    numbered_ids,
)

DECOY_WORKERS_PER_FILLER = 7
LARGEST_RECLAIM = 104
"""For 105 an instance would have more servers than `LARGEST_FLEET`, the limit of all families."""


def _require_decoys(reclaim: int) -> None:
    if not 1 <= reclaim <= LARGEST_RECLAIM:
        raise UserError(
            f"--reclaim is {reclaim}: must be an integer from 1 to {LARGEST_RECLAIM} "
            "for family decoy"
        )


def _decoys(reclaim: int) -> SolvedLayout:
    """Return an instance on which Lyra's greedy preempts 8k jobs where one preemption suffices.

    This is the instance of family ``decoy`` for k = `reclaim`; the block is its optimum.

    For ``--reclaim k`` the servers of 8 GPUs are, in file order:

    * the *block*, k servers that one job fills: Lyra's cost of each server is 1/k;
    * k *decoys*, each with one worker of 8 jobs that span D = 8k + 1 servers: cost 8/D < 1/k;
    * ceil(64 k^2 / 7) *fillers*, each with one job of its own and at most 7 of the other 8k * 8k
      workers of the decoys' jobs, assigned in turn: cost at least 1 at any time.

    The number of servers is n = 2k + ceil(64 k^2 / 7). Choosing a decoy does not change the costs
    of the block and of the other decoys. The greedy therefore takes the k decoys and preempts 8k
    jobs, whatever its tie rule. The block costs 1, and every server hosts a job, so the optimum is
    1. The ratio 8k is 2.65 sqrt(n).

    ``formulations/reclaim/README.md``, section 6, compares this ratio with the worst possible one.
    """
    jobs_per_decoy = GPUS_PER_SERVER
    decoy_jobs = jobs_per_decoy * reclaim
    filler_span = 8 * reclaim
    fillers = -(-decoy_jobs * filler_span // DECOY_WORKERS_PER_FILLER)
    first_decoy, first_filler = reclaim, 2 * reclaim
    block_job = dict.fromkeys(range(reclaim), GPUS_PER_SERVER)
    jobs: list[tuple[str, Allocation]] = [("block", block_job)]
    for job in range(decoy_jobs):
        allocation = {first_decoy + job // jobs_per_decoy: 1}
        for worker in range(filler_span):
            # Fillers outnumber the workers of a job, so these workers are on distinct fillers.
            # Fillers are used in turn, so each filler hosts at most 7 workers.
            allocation[first_filler + (job * filler_span + worker) % fillers] = 1
        jobs.append((f"decoy-{job + 1}", allocation))
    jobs += [(f"private-{filler + 1}", {first_filler + filler: 1}) for filler in range(fillers)]
    layout = Layout(
        server_ids=numbered_ids("block-", reclaim)
        + numbered_ids("decoy-", reclaim)
        + numbered_ids("filler-", fillers),
        jobs=jobs,
    )
    return SolvedLayout(layout, optimal_servers=range(reclaim), optimum=1)


DECOY = SolvedFamily(
    "decoy",
    version=1,
    summary="Lyra's greedy preempts 8K jobs, the optimum is 1; K sets the size",
    construct=_decoys,
    require_reclaim=_require_decoys,
)


PARALLEL_CLASSES = 8
SMALLEST_ORDER = 7
"""An affine plane of order q has q + 1 parallel classes, and the families need 8 classes."""


def _require_prime(reclaim: int, *, family: str) -> None:
    order = reclaim + 1
    servers = reclaim + order**2
    if order < SMALLEST_ORDER or servers > LARGEST_FLEET or not _is_prime(order):
        raise UserError(
            f"--reclaim is {reclaim}: must be one less than a prime of at least {SMALLEST_ORDER}, "
            f"with at most {LARGEST_FLEET} servers in all, for family {family}"
        )


def _net(reclaim: int, *, is_joined: bool) -> SolvedLayout:
    """Return an instance of an affine plane that misleads fast heuristics, with its optimum.

    This is the instance of family ``net`` or ``net-joined`` for k = `reclaim`.

    For ``--reclaim k``, with q = k + 1 a prime of at least 7, the servers are, in file order:

    * the *block*, k = q - 1 servers that share 8 jobs;
    * the *net*, the q^2 points (x, y) of the affine plane over the integers modulo q, at position
      ``q x + y`` after the block. The lines of 8 parallel classes are jobs: first the verticals
      x = c, then y = m x + c for m = 0 to 6. Each job spans q servers, and each server has 8 jobs.

    The net has 8/q jobs per server, fewer than the block with 8/(q - 1). Heuristics that divide the
    cost of a job among its servers therefore choose the net, where any two servers have at most one
    job in common. Every server has 8 jobs, so every choice costs at least 8, and the block costs 8.

    ``net`` has two connected components, so a method that examines components finds the block.
    ``net-joined`` has servers of 9 GPUs and one more job, with one worker on the first server of
    the block and one worker on the first server of the net. The block then costs 9. A choice of
    cost 8 would need k servers with the same 8 jobs and no other job. Only the k - 1 servers of the
    block other than the first have such a set of jobs. So 9 is the optimum.
    """
    order = reclaim + 1
    jobs: list[tuple[str, Allocation]] = [
        (f"block-{number}", dict.fromkeys(range(reclaim), 1))
        for number in range(1, PARALLEL_CLASSES + 1)
    ]
    first_point = reclaim
    for column in range(order):
        points = range(first_point + column * order, first_point + (column + 1) * order)
        jobs.append((f"vertical-{column}", dict.fromkeys(points, 1)))
    for slope in range(PARALLEL_CLASSES - 1):
        for intercept in range(order):
            points_of_line = (
                first_point + x * order + (slope * x + intercept) % order for x in range(order)
            )
            jobs.append((f"slope-{slope}-{intercept}", dict.fromkeys(points_of_line, 1)))
    if is_joined:
        jobs.append(("joining", {0: 1, first_point: 1}))
    layout = Layout(
        server_ids=numbered_ids("block-", reclaim) + numbered_ids("net-", order**2),
        jobs=jobs,
        gpus_per_server=GPUS_PER_SERVER + is_joined,
    )
    return SolvedLayout(
        layout, optimal_servers=range(reclaim), optimum=PARALLEL_CLASSES + is_joined
    )


def _is_prime(number: int) -> bool:
    return number >= 2 and all(number % divisor for divisor in range(2, isqrt(number) + 1))


NET = SolvedFamily(
    "net",
    version=1,
    summary="a block and an affine net that misleads fast heuristics; optimum 8; K + 1 prime",
    construct=partial(_net, is_joined=False),
    require_reclaim=partial(_require_prime, family="net"),
)
NET_JOINED = SolvedFamily(
    "net-joined",
    version=1,
    summary="like net, with one more job that joins block and net; optimum 9; K + 1 prime",
    construct=partial(_net, is_joined=True),
    require_reclaim=partial(_require_prime, family="net-joined"),
)
