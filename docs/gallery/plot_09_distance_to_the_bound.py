"""
How far is any schedule from the bound?
=======================================

Prices of GPU time prove what no scheduler goes below on the same jobs and GPUs, not even one
that knows the future. Where the proof is close, there is little left to be won.
"""

import lyra_opt as lo

small = {"cluster.servers": 20, "cluster.loans.servers": 24, "jobs.parameters.days": 2}
runs = lo.simulate("lyra-paper", schemes=["fifo", "sjf", "lyra"], changes=small)
proved = lo.bound(runs)
proved

# %%
# Each loses the rest in a way of its own: in waits, in lost work, with too few workers.

runs.plot()
