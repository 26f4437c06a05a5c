"""Shares of time by our own interior point method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.heterogeneous.exact.interior_point import solve_by_interior_point
from lyra_opt.heterogeneous.shares.programme import SharePrices
from lyra_opt.heterogeneous.shares.solver import SharePoint, ShareSolver

if TYPE_CHECKING:
    from lyra_opt.heterogeneous.shares.programme import ShareProgramme


class InteriorPointShares(ShareSolver):
    """All share objectives by our own interior point method, whose code no library shares.

    Exact up to the proof gap. Shares are in the middle of the optimal ones, not at a corner: jobs
    alike get shares alike. Time O(jobs * types^2) a step, some 10 to 40 steps a programme.
    """

    name = "interior-point"

    def merged_point_of(self, programme: ShareProgramme, time_s: float | None) -> SharePoint:
        """Solve a feasible programme."""
        stopwatch = Stopwatch()
        found = solve_by_interior_point(
            programme, lambda: time_s is not None and stopwatch.elapsed_s >= time_s
        )
        return SharePoint(
            found.shares, SharePrices(found.need_price, found.gpu_price), found.iterations
        )
