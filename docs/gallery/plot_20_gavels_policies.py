"""
Gavel's policies on heterogeneous GPUs
======================================

Sixty jobs are drawn by the rules of Gavel's generator, and run on 36 V100, 36 P100 and 36 K80.
``gavel-las-agnostic`` treats all GPUs as equally fast. The other policies know the speed of each
job on each type.
"""

import lyra_opt as lo

schemes = ["gavel-las", "gavel-las-agnostic", "gavel-throughput", "priced-progress"]
runs = lo.simulate("gavel-108", schemes=schemes, changes={"jobs.parameters.jobs": 60})
summary = runs.frame.set_index("scheme")
(summary[["jct_mean_s", "jct_p95_s", "queue_mean_s"]] / 3600).round(2)  # hours

# %%
# :doc:`/papers/gavel` compares these policies with the simulator of Gavel's authors.

runs.plot()
