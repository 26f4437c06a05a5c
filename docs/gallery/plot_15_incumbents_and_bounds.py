"""
Incumbents and bounds over time
===============================

What does a solver know, and when? A solution that is best so far is an *incumbent*; an optimum
is proved where the bound meets it. On a fleet of 60 servers in disorder:
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
# A star is a proof. How long each took depends on the machine and on what else it did.

lo.plot_progress(answers)
