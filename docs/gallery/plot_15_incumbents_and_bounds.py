"""
Incumbents and bounds over time
===============================

The best solution that a running solver has found so far is its *incumbent*. The optimum is proved
when the dual bound meets the incumbent. This example has a fragmented fleet of 60 servers:
"""

import lyra_opt as lo

fleet = lo.generate("reclaim", "messy-dist", servers=60)
answers = [
    lo.solve(fleet, name, time_limit_s=4)
    for name in ("exact", "cpsat", "cpsat-strengthened", "pulp-highs")
]
for answer in answers:
    print(f"{answer.solver}: {answer.status}, {answer.objective}, bound {answer.dual_bound}")

# %%
# A star marks a proof. The times depend on the machine and its other work.

lo.plot_progress(answers)
