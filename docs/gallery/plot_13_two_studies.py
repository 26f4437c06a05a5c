"""
Two results compared
====================

What does a change do? ``lyra-opt diff A B`` pairs the runs of two folders and gives every
measure that differs with its 95 % interval over the draws. Here the same four draws of jobs run
under Lyra with its greedy rule for reclaiming, and with the proved optimum in its place.
"""

import os
import tempfile

import lyra_opt as lo
from lyra_opt.__main__ import main

os.chdir(tempfile.mkdtemp())
small = {"cluster.servers": 20, "cluster.loans.servers": 24, "jobs.parameters.days": 1}
for folder, scheme in (("greedy", "lyra"), ("proved", "lyra-exact")):
    lo.simulate("lyra-paper", schemes=[scheme], seeds=4, changes=small, out=folder)
exit_code = main(["diff", "greedy", "proved", "--quiet"])
pairs = [lo.load_study(folder).set_index("seed") for folder in ("greedy", "proved")]

# %%
# Where an interval holds 0 the four draws do not tell the two apart.

from lyra_opt.core.pictures import COLOURS, Drawing


def draw(figure):
    """Draw a line for each draw, from the one scheme to the other."""
    for panel, (measure, title) in zip(
        figure.subplots(1, 2),
        (("preemptions", "preemptions"), ("jct_mean_s", "mean JCT (s)")),
        strict=True,
    ):
        for number, seed in enumerate(pairs[0].index):
            ends = [pair[measure][seed] for pair in pairs]
            panel.plot(["lyra", "lyra-exact"], ends, marker="o", color=COLOURS[number])
        panel.set(ylabel=title, xlabel="scheme, a line a draw", ylim=(0, None))


Drawing(8, 3.5, draw).figure()
