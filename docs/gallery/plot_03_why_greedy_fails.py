"""
Why greedy fails
================

Lyra's rule shares the weight of a job equally among its servers, and takes the servers that are
cheapest so. A job on many servers makes each of them look cheap, and is lost whole all the
same. The family ``decoy`` is built on that: the rule preempts 8 jobs for each server that is given
back, and the optimum one job in all.
"""

import lyra_opt as lo

fleet = lo.generate("reclaim", "decoy", reclaim=1)
lo.compare(fleet, ["lyra-greedy", "marginal", "peeling", "exact"])[
    ["objective", "dual_bound", "status"]
]

# %%
# The ratio grows without end.

for size in (1, 2, 4):
    decoy = lo.generate("reclaim", "decoy", reclaim=size)
    paid = lo.solve(decoy, "lyra-greedy").objective
    least = lo.solve(decoy, "exact").objective
    print(f"{size} given back: {paid} jobs are preempted, against {least}")

# %%
# ``peeling`` starts from all servers and gives back those that rescue most, so that a job that
# is lost anyway costs nothing more.

lo.plot(fleet, [lo.solve(fleet, "lyra-greedy"), lo.solve(fleet, "exact")])
