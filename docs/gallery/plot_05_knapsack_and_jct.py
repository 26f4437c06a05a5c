"""
Lyra's knapsack compared with the least mean JCT
================================================

Lyra gives extra workers to jobs by a knapsack, whose value is the run time that each job would
save. The knapsack is solved exactly at every event. But users wait for the mean job completion time
(JCT), and a sequence of optimal knapsacks does not minimise it. This is Lyra's own example of two
jobs on eight GPUs:
"""

from pathlib import Path

import lyra_opt as lo
import lyra_opt.instances

library = Path(lo.instances.__path__[0]) / "library"
queue = lo.load(library / "lyra-table-2.json")
lo.compare(queue, ["lyra", "srw", "best-fill", "exact"])[["objective", "dual_bound", "status"]]

# %%
# ``srw`` gives GPUs to jobs in order of smallest remaining work. These are random instances:

import pandas as pd

rows = []
for seed in range(6):
    drawn = lo.generate("allocation", "load", jobs=5, load_percent=200, seed=seed)
    found = lo.compare(drawn, ["lyra", "srw", "best-fill", "exact"])
    rows.append((found.objective / found.objective["exact"] - 1).rename(f"seed {seed}"))
(100 * pd.DataFrame(rows)).round(1)  # percent above the proved optimum

# %%

lo.plot(queue, [lo.solve(queue, "lyra"), lo.solve(queue, "exact")])
