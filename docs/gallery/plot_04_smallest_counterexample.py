"""
The smallest counterexample
===========================

On how small an instance does a rule fail? The search tries small instances size by size,
reduces what it finds, and says what is proved of it. Here all jobs are there at once, and
Lyra's rule for elastic jobs meets the least mean completion time.
"""

import os
import tempfile

import lyra_opt as lo
from lyra_opt.__main__ import main

os.chdir(tempfile.mkdtemp())
search = (
    "counterexample --heuristic lyra --against optimum --max release=0 --quiet --out worst.json"
)
exit_code = main(search.split())
instance = lo.load("worst.json")

# %%
# Two jobs of one worker-second on two GPUs. Run side by side both complete after a second; one
# after the other, each on both GPUs, they complete after half a second and after one.

lo.plot(instance, [lo.solve(instance, "lyra"), lo.solve(instance, "exact")])
