"""
The smallest counterexample
===========================

How small is the smallest instance on which a rule fails? The search tries small instances by
increasing size, reduces each counterexample that it finds, and states what it proves about the
size. In this example all jobs are released at once. The search compares Lyra's rule for elastic
jobs with the least mean completion time.
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
# The instance has two jobs with one worker-second of work each, and two GPUs. If the jobs run at
# the same time, both complete after 1 s. If they run one after the other on both GPUs, they
# complete after 0.5 s and 1 s.

lo.plot(instance, [lo.solve(instance, "lyra"), lo.solve(instance, "exact")])
