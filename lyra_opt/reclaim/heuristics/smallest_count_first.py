"""Smallest count first: the servers with the fewest jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic
from lyra_opt.reclaim.instance import Semantics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.reclaim.instance import Instance


class SmallestCountFirst(ReclaimHeuristic):
    """Choose the N_R servers on loan with the fewest jobs, counted once at the start.

    In a rigid instance only jobs with a base worker on the server count. Weights play no part.
    Ties go by file order.

    Source: the baseline "SCF" of Lyra (EuroSys 2023), section 7.1. Complexity
    O(servers log servers). Guarantee: none; it cannot see that two servers share their jobs, so
    n servers that hold the same two jobs lose against n servers with one private job each: n
    preemptions where 2 suffice.
    """

    name = "scf"

    def choose(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Sequence[int]:
        """Return the first N_R servers in order of job count."""
        index = instance.index
        counted = index.base if instance.semantics is Semantics.RIGID else index.gpus
        jobs = np.diff(counted.server_start)[index.on_loan]
        in_order = index.on_loan[np.argsort(jobs, kind="stable")]
        return [int(position) for position in in_order[: instance.reclaim_servers]]
