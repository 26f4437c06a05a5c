"""
A fleet of your own
===================

The database of a cluster could have these three tables: the servers, the jobs, and the workers of
each job on each server. Job ``a`` has workers on two servers, so it is preempted if either of them
is given back.
"""

import pandas as pd

import lyra_opt as lo

servers = pd.DataFrame({"id": ["s1", "s2", "s3", "s4"], "gpus": [8, 8, 8, 8]})
jobs = pd.DataFrame({"id": ["a", "b", "c", "d", "e"], "weight": [1, 1, 1, 1, 2]})
workers = pd.DataFrame(
    {
        "job": ["a", "a", "b", "c", "d", "e"],
        "server": ["s1", "s2", "s2", "s3", "s3", "s4"],
        "base": [4, 4, 2, 4, 3, 8],
    }
)
fleet = lo.reclaim.Instance.from_frames(
    servers=servers, jobs=jobs, workers=workers, reclaim_servers=2, name="mine"
)
lo.compare(fleet, ["lyra-greedy", "scf", "exact"])[["objective", "dual_bound", "status"]]

# %%
# The answer has the servers to give back. The checker lists the preempted jobs.

answer = lo.solve(fleet, "exact")
print(answer.solution.servers, lo.verify(fleet, answer))

# %%
# ``lo.save(fleet, "mine.json")`` writes the instance for the command line.

lo.plot(fleet, [lo.solve(fleet, "scf"), answer])
