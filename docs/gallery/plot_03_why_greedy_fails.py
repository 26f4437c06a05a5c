"""
Why the greedy rule fails
=========================

Lyra's rule divides the weight of a job equally among its servers, and takes the servers that look
cheapest. A job on many servers makes each of them look cheap, although the whole job is preempted
if one of them is taken. The family ``decoy`` uses this: the rule preempts 8 jobs for each server
that is given back, and the optimum preempts one job in all.
"""

import lyra_opt as lo

fleet = lo.generate("reclaim", "decoy", reclaim=1)
lo.compare(fleet, ["lyra-greedy", "marginal", "peeling", "exact"])[
    ["objective", "dual_bound", "status"]
]

# %%
# The ratio to the optimum has no upper limit.

for size in (1, 2, 4):
    decoy = lo.generate("reclaim", "decoy", reclaim=size)
    paid = lo.solve(decoy, "lyra-greedy").objective
    least = lo.solve(decoy, "exact").objective
    print(f"{size} given back: {paid} jobs are preempted, against {least}")

# %%
# ``peeling`` starts with all servers chosen, and releases the server that saves most. A job that is
# preempted anyway therefore adds no cost.

lo.plot(fleet, [lo.solve(fleet, "lyra-greedy"), lo.solve(fleet, "exact")])
