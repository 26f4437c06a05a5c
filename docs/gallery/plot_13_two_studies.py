"""
How do I compare two results?
=============================

``lyra-opt diff A B`` pairs the runs of two folders. It shows the difference of each measure with
its 95 % interval. In this example, the same six samples of jobs run under first come, first served,
and under Lyra.
"""

import io
import os
import tempfile
from contextlib import redirect_stdout

import pandas as pd

import lyra_opt as lo
from lyra_opt.__main__ import main

os.chdir(tempfile.mkdtemp())
small = {"cluster.servers": 20, "cluster.loans.servers": 24, "jobs.parameters.days": 1}
for scheme in ("fifo", "lyra"):
    lo.simulate("lyra-paper", schemes=[scheme], seeds=6, changes=small, out=scheme)
with redirect_stdout(io.StringIO()) as said:
    exit_code = main(["diff", "fifo", "lyra", "--format=csv", "--quiet"])
measures = pd.read_csv(io.StringIO(said.getvalue())).set_index("measure")
shown = ["jct_mean_s", "jct_p95_s", "queue_mean_s", "overall_usage"]
measures.loc[shown, ["pairs", "mean_a", "mean_b", "difference", "low", "high"]].round(2)

# %%
# If an interval contains 0, the six samples do not show a difference between the two schemes.

from lyra_opt.core.pictures import Drawing


def draw(figure):
    """Draw the change of each measure, relative to its mean in A, with its interval."""
    panel = figure.subplots()
    found = measures.loc[shown[::-1]]
    changes = found[["difference", "low", "high"]].div(found.mean_a, axis=0) * 100
    reach = [changes.difference - changes.low, changes.high - changes.difference]
    panel.errorbar(changes.difference, found.index, xerr=reach, fmt="o", capsize=4)
    panel.axvline(0, color="black", linewidth=0.8)
    panel.set(xlabel="lyra less fifo, % of fifo (95 % interval)", ylim=(-0.5, len(shown) - 0.5))


Drawing(8, 3, draw).figure()
