"""
Jobs that survive a loss
========================

In *interchangeable* instances a job continues while at least ``min_workers`` of its workers remain.
Lyra's published rule ignores this, and preempts jobs that could survive. ``lyra-greedy-elastic``
considers it, and the proved optimum shows how much better is possible.
"""

import lyra_opt as lo

fleets = lo.generate(
    "reclaim", "messy-dist", servers=16, semantics="interchangeable", seeds=range(8)
)
solvers = ["lyra-greedy", "lyra-greedy-elastic", "peeling", "exact"]
sum(lo.compare(fleet, solvers).objective for fleet in fleets)  # jobs preempted in all eight fleets

# %%
# The picture shows the last fleet. The optimum gives back as many servers as the rule, but more
# jobs continue with fewer workers.

fleet = fleets[-1]
lo.plot(fleet, [lo.solve(fleet, name) for name in ("lyra-greedy", "exact")])
