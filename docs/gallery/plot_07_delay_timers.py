"""
Delay timers
============

In Dally, a gang waits some time for GPUs that are close together, before it accepts GPUs that are
farther apart. The gang that the network slows most chooses first. In this example, that gang takes
a whole rack at 15 % of its speed, and two other gangs wait that could each run on one machine.
"""

from pathlib import Path

import lyra_opt as lo
import lyra_opt.instances

library = Path(lo.instances.__path__[0]) / "library"
hurt_first = lo.load(library / "hurt-first.json")
lo.compare(hurt_first, ["dally", "priced-placement", "pulp-highs-patterns"])[
    ["objective", "dual_bound", "status"]
]

# %%
# Do the timers help? Eighty jobs run on two racks under Dally, under the same rule without waiting,
# and under the same rule with unlimited waiting.

runs = lo.simulate(
    "tuner-regret", schemes=["dally", "no-wait", "consolidated"], changes={"axes": {}}
)
(runs.frame.set_index("scheme")[["jct_mean_s", "queue_mean_s"]] / 3600).round(1)  # hours

# %%

lo.plot(hurt_first, [lo.solve(hurt_first, "dally"), lo.solve(hurt_first, "priced-placement")])
