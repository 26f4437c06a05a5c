"""
A study, and how to read it
===========================

A study is a file that lists solvers and instances. Every run is a row of one store, including
failed runs, and ``--resume`` continues after an interruption.
"""

import os
import tempfile
from pathlib import Path

import lyra_opt as lo
from lyra_opt.__main__ import main

STUDY = """
format = "lyra-opt/study"
version = 2
name = "fragmented"
problem = "reclaim"
description = "Rules against proved optima, from fleets in order to fragmented ones."
seeds = 4
time_limit_s = 10.0
headline = ["lyra-greedy", "peeling"]

[[instances]]
group = "realistic"
families = ["bf-dist", "rnd-dist", "messy-dist"]
servers = [20, 40]
reclaim_percent = [30]

[[solvers]]
names = ["lyra-greedy", "peeling", "exact"]
"""

os.chdir(tempfile.mkdtemp())
Path("fragmented.toml").write_text(STUDY)
exit_code = main(["study", "fragmented.toml", "--out", "fragmented", "--quiet"])
runs = lo.load_study("fragmented")
runs.groupby(["family", "configuration"]).excess_percent.agg(["mean", "max", "count"]).round(1)

# %%
# *Excess* is the difference between an objective and the proved optimum, relative to the optimum.
# ``lyra-opt report fragmented`` writes a page about it. A mean hides that a rule fails on some
# fleets only, so this picture has a mark for each instance.

from lyra_opt.core.pictures import COLOURS, Drawing


def draw(figure):
    """Draw a mark for each instance, a panel for each rule."""
    panels = figure.subplots(1, 2, sharey=True)
    for panel, rule in zip(panels, ("lyra-greedy", "peeling"), strict=True):
        for at, (_, group) in enumerate(runs[runs.configuration == rule].groupby("family")):
            for number, (servers, sized) in enumerate(group.groupby("servers")):
                places = [at + 0.3 * number + 0.03 * each for each in range(len(sized))]
                label = f"{servers} servers" if at == 0 else None
                panel.plot(
                    places, sized.excess_percent, "os"[number], color=COLOURS[number], label=label
                )
        panel.set_xticks([0.2, 1.2, 2.2], sorted(runs.family.unique()))
        panel.set(title=rule, xlabel="family, four instances of each size")
    panels[0].set_ylabel("excess over the proved optimum (%)")
    panels[1].legend(loc="upper left", bbox_to_anchor=(1.01, 1))


Drawing(9, 3.5, draw).figure()
