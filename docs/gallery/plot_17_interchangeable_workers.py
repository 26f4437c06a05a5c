"""
Jobs that survive a loss
========================

In *interchangeable* instances a job goes on while at least ``min_workers`` of its workers
remain. The literal rule of Lyra does not know that, and preempts jobs that could live; one that
counts slack does better, and the proved optimum says how much better is possible.
"""

import lyra_opt as lo

fleets = lo.generate(
    "reclaim", "messy-dist", servers=16, semantics="interchangeable", seeds=range(8)
)
solvers = ["lyra-greedy", "lyra-greedy-elastic", "peeling", "exact"]
sum(lo.compare(fleet, solvers).objective for fleet in fleets)  # jobs preempted in all eight fleets

# %%
# The last of them: giving back the same number of servers, the optimum lets more jobs go on with
# fewer workers.

fleet = fleets[-1]
lo.plot(fleet, [lo.solve(fleet, name) for name in ("lyra-greedy", "exact")])
