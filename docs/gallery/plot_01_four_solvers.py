"""
Solvers for a knapsack: a greedy rule, dynamic programming, PuLP and OR-Tools
=============================================================================

Twelve elastic jobs have their base demands, and some GPUs are free. How many extra workers should
each job get, so that the jobs save the most run time in total? This is phase 2 of Lyra, a
multiple-choice knapsack. A greedy rule, two exact methods of our own and four general solvers
answer the same instance.
"""

import lyra_opt as lo

fleet = lo.generate(
    "allocation",
    "load",
    jobs=12,
    objective="jct_reduction",
    load_percent=250,
    gpus_per_worker="mixed",
)
solvers = [
    "mckp-greedy",
    "mckp-dp",
    "mckp-core",
    "pulp-cbc",
    "pulp-highs",
    "cpsat",
    "mathopt-gscip",
]
table = lo.compare(fleet, solvers)
table[["objective", "dual_bound", "status", "wall_time_s"]].round(4)

# %%
# The general solvers get a model. These are the constraints of the PuLP model for three such jobs,
# with a variable for each number of workers. ``lo.model(three, "cpsat")`` and ``"mathopt"`` return
# the same model for OR-Tools.

three = lo.generate("allocation", "load", jobs=3, objective="jct_reduction", load_percent=250)
for name, constraint in lo.model(three, "pulp").constraints.items():
    print(f"{name}: {constraint}")

# %%
# The greedy rule gives the next GPUs to the job that saves most per GPU. In the end, the free GPUs
# may be too few for a worker of any job.

answers = [lo.solve(fleet, name) for name in ("mckp-greedy", "mckp-dp", "cpsat")]
lo.plot(fleet, answers)
