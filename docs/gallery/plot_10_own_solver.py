"""
A solver of your own
====================

A class with one method is a solver. It is compared with other solvers, its answers are checked, and
it can replace Lyra's rule in the simulated cluster.
"""

import lyra_opt as lo
from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic


class EmptiestFirst(ReclaimHeuristic):
    """Choose the servers with the fewest workers. Guarantee: none."""

    name = "emptiest-first"

    def choose(self, instance, rng):
        """Return their positions."""
        load = {server.id: 0 for server in instance.servers}
        for job in instance.jobs:
            for group in job.workers:
                load[group.server] += group.base + group.flexible
        ranked = sorted(instance.index.on_loan, key=lambda at: load[instance.servers[at].id])
        return [int(server) for server in ranked[: instance.reclaim_servers]]


fleet = lo.generate("reclaim", "rnd-trace", servers=16)
lo.compare(fleet, [EmptiestFirst, "scf", "lyra-greedy", "exact"])[
    ["objective", "dual_bound", "status"]
]

# %%

lo.plot(fleet, [lo.solve(fleet, EmptiestFirst()), lo.solve(fleet, "exact")])
