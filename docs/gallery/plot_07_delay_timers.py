"""
Delay timers
============

Dally lets a gang wait for GPUs close together before it accepts some further apart, and lets
the gang choose first that the network has hurt most. Here that one takes a whole rack at 15 %
of its speed, and two others wait that would have run on a machine.
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
# Do the timers pay? Eighty jobs on two racks, with links that are fast and links that are not,
# by Dally, by the same rule that never waits, and by one that waits for ever.

runs = lo.simulate(
    "tuner-regret", schemes=["dally", "no-wait", "consolidated"], changes={"axes": {}}
)
(runs.frame.set_index("scheme")[["jct_mean_s", "queue_mean_s"]] / 3600).round(1)  # hours

# %%

lo.plot(hurt_first, [lo.solve(hurt_first, "dally"), lo.solve(hurt_first, "priced-placement")])
