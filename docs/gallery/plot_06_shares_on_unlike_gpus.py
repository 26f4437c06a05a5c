"""
Time shares on heterogeneous GPUs
=================================

Gavel gives each job a share of time on each type of GPU, so that the worst-off job gets as much as
possible. HiGHS and GLOP solve the linear programme. Water filling then gives the remaining time to
the jobs that can still get more.
"""

import lyra_opt as lo

jobs = lo.generate("heterogeneous", "offline", jobs=6, objective="max_min_share", seed=3)
lo.compare(jobs, ["lp-highs", "lp-glop", "water-filling", "gavel-rounds"])[
    ["objective", "dual_bound", "status"]
]

# %%
# ``gavel-rounds`` measures the shares that jobs get in 400 of Gavel's rounds. In a round, a job
# holds whole GPUs or none.

lo.plot(jobs, [lo.solve(jobs, "lp-highs"), lo.solve(jobs, "water-filling")])
