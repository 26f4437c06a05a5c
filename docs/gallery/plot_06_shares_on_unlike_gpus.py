"""
Shares on unlike GPUs
=====================

Gavel gives each job a share of time on each type of GPU, so that the worst-off job is as well
off as can be. The linear programme is solved by HiGHS and by GLOP, and water filling goes on
where it stops: what is left goes to those that can have more.
"""

import lyra_opt as lo

jobs = lo.generate("heterogeneous", "offline", jobs=6, objective="max_min_share", seed=3)
lo.compare(jobs, ["lp-highs", "lp-glop", "water-filling", "gavel-rounds"])[
    ["objective", "dual_bound", "status"]
]

# %%
# ``gavel-rounds`` is what is left of the best shares after 400 rounds of Gavel's mechanism, in
# which a GPU is whole or not there.

lo.plot(jobs, [lo.solve(jobs, "lp-highs"), lo.solve(jobs, "water-filling")])
