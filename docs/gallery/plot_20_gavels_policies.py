"""
Gavel's policies on unlike GPUs
===============================

Sixty jobs by the rules of Gavel's generator, on 36 V100, 36 P100 and 36 K80. The policies that know
how fast a job is on each type stand beside one that takes all GPUs for alike.
"""

import lyra_opt as lo

schemes = ["gavel-las", "gavel-las-agnostic", "gavel-throughput", "priced-progress"]
runs = lo.simulate("gavel-108", schemes=schemes, changes={"jobs.parameters.jobs": 60})
summary = runs.frame.set_index("scheme")
(summary[["jct_mean_s", "jct_p95_s", "queue_mean_s"]] / 3600).round(2)  # hours

# %%
# Beside its authors' own simulator, on two traces of its repository: :doc:`/papers/gavel`.

runs.plot()
