"""
Jobs that survive a loss
========================

In *interchangeable* instances a job goes on while at least ``min_workers`` of its workers
remain. The literal rule of Lyra does not know that, and preempts jobs that could live; one that
counts slack does better, and the proved optimum says how much better is possible.
"""

import lyra_opt as lo

fleet = lo.generate("reclaim", "rnd-dist", servers=16, semantics="interchangeable", seed=1)
solvers = ["lyra-greedy", "lyra-greedy-elastic", "peeling", "exact"]
lo.compare(fleet, solvers)[["objective", "dual_bound", "status"]]

# %%

lo.plot(fleet, [lo.solve(fleet, name) for name in ("lyra-greedy", "exact")])
