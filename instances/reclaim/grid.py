"""Family ``grid``: servers on a torus, a job between any two neighbours."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.instances.reclaim.family import FleetFamily

if TYPE_CHECKING:
    from lyra_opt.instances.randomness import IntegerStream
    from lyra_opt.instances.reclaim.family import Allocation


def _torus_rows(servers: int) -> int:
    """Return the largest divisor that is at most the square root; `UserError` if that is 1."""
    rows = max(divisor for divisor in range(1, isqrt(servers) + 1) if servers % divisor == 0)
    if rows < 2:
        raise UserError(
            f"--servers is {servers}: must be a product of two integers of at least 2 "
            "for family grid"
        )
    return rows


def _place(servers: int, _stream: IntegerStream) -> list[Allocation]:
    """Return a two-worker job for each edge of the rows x columns torus.

    Server ``row * columns + column`` stands at (row, column). Two rows (or columns) are
    neighbours once, not twice: there are no duplicate edges.
    """
    rows = _torus_rows(servers)
    columns = servers // rows
    edges = {}  # keeps its order, so that the first of two equal edges counts
    for server in range(servers):
        row, column = divmod(server, columns)
        for neighbour in (
            row * columns + (column + 1) % columns,
            (row + 1) % rows * columns + column,
        ):
            edges[frozenset((server, neighbour))] = {server: 1, neighbour: 1}
    return list(edges.values())


GRID = FleetFamily(
    "grid",
    version=1,
    summary="servers on a torus, a job on any two neighbours; no seed",
    place=_place,
    is_drawn=False,
    require_servers=_torus_rows,
)
