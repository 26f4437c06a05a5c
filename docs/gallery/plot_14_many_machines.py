"""
Many machines
=============

The workers of a Dask scheduler execute the runs of a study, a scenario or a paper. Everything else
is as on one machine. In this example, the scheduler and its two workers are on this machine; for
other machines, use ``scheduler="tls://HOST:8786"``.
"""

from distributed import LocalCluster

import lyra_opt as lo

small = {"cluster.servers": 20, "cluster.loans.servers": 24, "jobs.parameters.days": 1}
with LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=None
) as machines:
    runs = lo.simulate(
        "lyra-paper",
        schemes=["fifo", "lyra"],
        seeds=2,
        changes=small,
        scheduler=machines.scheduler_address,
    )
runs.frame.groupby("scheme")[["jct_mean_s", "queue_mean_s"]].mean().round(0)

# %%
# The same seed gives the same answer on every machine.

here = lo.simulate("lyra-paper", schemes=["fifo", "lyra"], seeds=2, changes=small)
print((here.frame.jct_mean_s == runs.frame.jct_mean_s).all())
runs.plot()
