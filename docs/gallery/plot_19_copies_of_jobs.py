"""
Copies of jobs
==============

HadarE lets copies of a job run at once on unlike GPUs, and splits its work among them, so that no
GPU idles while anything is left to do. Under Hadar a job runs in one place. The first workload of
its testbed at AWS, two V100, two T4 and a K80:
"""

import lyra_opt as lo

runs = lo.simulate("hadare-aws", schemes=["hadar", "hadare", "gavel-las"])
summary = runs.frame.set_index("scheme")
(summary[["makespan_s", "jct_mean_s", "queue_mean_s"]] / 3600).round(2)  # hours

# %%

runs.plot()
