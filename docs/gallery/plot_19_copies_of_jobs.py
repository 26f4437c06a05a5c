"""
Copies of jobs
==============

HadarE runs several copies of a job at once on heterogeneous GPUs, and divides the work of the job
among them. So no GPU is idle while work remains. Hadar runs one copy of each job. This is the first
workload of HadarE's testbed on AWS, with two V100, two T4 and a K80:
"""

import lyra_opt as lo

runs = lo.simulate("hadare-aws", schemes=["hadar", "hadare", "gavel-las"])
summary = runs.frame.set_index("scheme")
(summary[["makespan_s", "jct_mean_s", "queue_mean_s"]] / 3600).round(2)  # hours

# %%

runs.plot()
