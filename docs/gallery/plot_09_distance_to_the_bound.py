"""
How far is any schedule from the bound?
=======================================

Prices of GPU time prove a lower bound for all schedulers on the same jobs and GPUs, even for one
that knows the future. A scheme that is close to the bound leaves little to gain.
"""

import lyra_opt as lo

small = {"cluster.servers": 20, "cluster.loans.servers": 24, "jobs.parameters.days": 2}
runs = lo.simulate("lyra-paper", schemes=["fifo", "sjf", "lyra"], changes=small)
proved = lo.bound(runs).set_index("reading")
proved[["jct_mean_bound_s", "least_run_mean_s", "queue_mean_bound_s", "cpu_s"]].round(2)

# %%
# A *reading* says whether preempted jobs lose their work. Under these schemes a preempted job
# starts again from the beginning, so the bound for ``restart`` applies. The mean JCT is the sum of
# the least run time and of the times lost by waiting before and after the start, by repeating work,
# and by running with too few workers. The shares of these parts differ between the schemes.

parts = ["least_run", "queue_first", "queue_again", "lost_work", "fewer_workers", "pause"]
summary = runs.frame.set_index("scheme")
summary[["jct_mean_s", *(f"{part}_mean_s" for part in parts)]].T.round(0)

# %%

runs.plot()
