"""
Greedy and dynamic programming beside PuLP and OR-Tools
=======================================================

Twelve elastic jobs hold their base demands, and some GPUs are left: who grows by how many
workers, so that the most seconds are saved? That is Lyra's phase 2, a multiple-choice knapsack.
A greedy rule, two exact methods of our own and four general solvers answer the same fleet.
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
# The general solvers are given a model. These are the constraints that PuLP is told of three such
# jobs, a variable for each number of workers. ``lo.model(three, "cpsat")`` and ``"mathopt"`` say
# the same to OR-Tools.

three = lo.generate("allocation", "load", jobs=3, objective="jct_reduction", load_percent=250)
for name, constraint in lo.model(three, "pulp").constraints.items():
    print(f"{name}: {constraint}")

# %%
# The greedy rule grows whoever saves most per GPU, and may be stuck with GPUs that fit nobody.

answers = [lo.solve(fleet, name) for name in ("mckp-greedy", "mckp-dp", "cpsat")]
lo.plot(fleet, answers)
