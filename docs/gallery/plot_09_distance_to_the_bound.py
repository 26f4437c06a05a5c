"""
How far is any schedule from the bound?
=======================================

Prices of GPU time prove what no scheduler goes below on the same jobs and GPUs, not even one
that knows the future. Where the proof is close, there is little left to be won.
"""

import lyra_opt as lo

small = {"cluster.servers": 20, "cluster.loans.servers": 24, "jobs.parameters.days": 2}
runs = lo.simulate("lyra-paper", schemes=["fifo", "sjf", "lyra"], changes=small)
proved = lo.bound(runs).set_index("reading")
proved[["jct_mean_bound_s", "least_run_mean_s", "queue_mean_bound_s", "cpu_s"]].round(2)

# %%
# A *reading* says what a schedule may do: these schemes start a job that they stop anew, so that
# ``restart`` holds for them. Each scheme loses the rest in a way of its own: in waits before the
# start and after it, in lost work, with too few workers. The parts add up to the mean JCT.

parts = ["least_run", "queue_first", "queue_again", "lost_work", "fewer_workers", "pause"]
summary = runs.summary.set_index("scheme")
summary[["jct_mean_s", *(f"{part}_mean_s" for part in parts)]].T.round(0)

# %%

runs.plot()
