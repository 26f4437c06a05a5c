"""Families ``net`` and ``net-joined``: every fast heuristic is drawn away from the optimum.

For ``--reclaim k``, with q = k + 1 a prime of at least 7, servers in this file order:

* the *block*, k = q - 1 servers that share 8 jobs;
* the *net*, the q^2 points (x, y) of the affine plane over the integers modulo q, at position
  ``q x + y`` after the block. The lines of 8 parallel classes are jobs: first the verticals
  x = c, then y = m x + c for m = 0 to 6. Each spans q servers, and each server has 8.

The density of the net, 8/q jobs a server, is below the block's 8/(q - 1), so that costs by
share lead into the net, where any two servers have at most one job in common. Every server has
8 jobs, so that nothing costs less than 8, which is what the block costs.

``net`` falls into two components, which gives the block away to a method that looks for them.
``net-joined`` has one more job, with one worker on the first server of the block and one on the
first of the net, and servers of 9 GPUs. The block then costs 9. Nothing costs 8: all chosen
servers would have the same 8 jobs, which only servers of the block other than the first have,
and there are k - 1 of them. So 9 is the optimum.

Source: this project.
"""

from __future__ import annotations

from functools import partial
from math import isqrt

from lyra_opt.core.errors import UserError
from lyra_opt.instances.reclaim.family import (
    GPUS_PER_SERVER,
    Allocation,
    Layout,
    SolvedFamily,
    SolvedLayout,
    numbered_ids,
)
from lyra_opt.instances.reclaim.parameters import LARGEST_FLEET

PARALLEL_CLASSES = 8
SMALLEST_ORDER = 7
"""A plane of order q has q + 1 parallel classes, and 8 are needed."""


def _require_reclaim(reclaim: int, *, family: str) -> None:
    order = reclaim + 1
    servers = reclaim + order**2
    if order < SMALLEST_ORDER or servers > LARGEST_FLEET or not _is_prime(order):
        raise UserError(
            f"--reclaim is {reclaim}: must be one less than a prime of at least {SMALLEST_ORDER}, "
            f"with at most {LARGEST_FLEET} servers in all, for family {family}"
        )


def _construct(reclaim: int, *, is_joined: bool) -> SolvedLayout:
    """Return the instance for k = `reclaim`, with the block as its optimum."""
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
    summary="block beside an affine net that misleads fast heuristics, optimum 8; K + 1 prime",
    construct=partial(_construct, is_joined=False),
    require_reclaim=partial(_require_reclaim, family="net"),
)
NET_JOINED = SolvedFamily(
    "net-joined",
    version=1,
    summary="net with one more job that joins its two parts, optimum 9; K + 1 prime",
    construct=partial(_construct, is_joined=True),
    require_reclaim=partial(_require_reclaim, family="net-joined"),
)
