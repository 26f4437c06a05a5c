"""
FIFO, Lyra, Hadar and Dally on the same jobs
============================================

A day of jobs with the figures that Lyra publishes of its trace, on 8 servers of eight GPUs. Each
scheme keeps what its paper says of how long a job holds its GPUs: until its end (``fifo``,
``lyra``), for rounds (``hadar``), for leases (``dally``). Under rounds and leases a job keeps what
it did when it gives its GPUs back, so that long jobs make room for short ones.
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
# With ``jobs="philly_jobs.csv.gz"`` the same schemes meet on Microsoft's trace, if it is in the
# folder that ``LYRA_OPT_TRACES`` names. One day and one run: a difference of a few percent says
# nothing. :doc:`The findings </findings/cluster>` hold the same schemes against months of jobs.

runs.plot()

# %%
# The same times for one column of a paper: 3.17 inches wide, in 8-point text, and readable without
# colours. With ``file="waiting.pdf"`` it is written with embedded fonts, and its data as CSV.

runs.plot("distributions", style="paper")
