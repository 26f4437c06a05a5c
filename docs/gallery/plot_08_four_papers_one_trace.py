"""
FIFO, Lyra, Hadar and Dally on the same jobs
============================================

One day of jobs is generated from the statistics that Lyra publishes about its trace. The cluster
has 8 servers with eight GPUs each. As in the papers, a job holds its GPUs until its end (``fifo``,
``lyra``), for rounds (``hadar``) or for leases (``dally``). With rounds and leases, a job keeps its
progress when it gives up its GPUs, so long jobs can make room for short ones.
"""

import lyra_opt as lo

runs = lo.simulate(
    "plain",
    changes={"jobs.workload": "lyra-like", "jobs.parameters.days": 1, "cluster.servers": 8},
    schemes=["fifo", "lyra", "hadar", "dally"],
)
summary = runs.frame.set_index("scheme")
(summary[["jct_mean_s", "jct_p95_s", "queue_mean_s"]] / 3600).round(2)  # hours

# %%
# With ``jobs="philly_jobs.csv.gz"`` the same schemes run on Microsoft's trace, if it is in the
# folder that ``LYRA_OPT_TRACES`` names. These are single runs of one day, so a difference of a few
# percent means nothing. :doc:`The findings </findings/cluster>` compare the schemes on months of
# jobs.

runs.plot()

# %%
# This picture of the same times is for one column of a paper: it is 3.17 inches wide, has 8-point
# text, and is readable without colours. ``file="waiting.pdf"`` writes it with embedded fonts, and
# its data as CSV.

runs.plot("distributions", style="paper")
