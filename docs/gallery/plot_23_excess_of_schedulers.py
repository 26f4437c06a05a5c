"""
How many more GPUs than necessary do schedulers preempt?
========================================================

A real kube-scheduler 1.36.2 and a real Slurm 22.05.8 chose victims on small clusters, and their
decisions were recorded. The excess is the difference between the number of lost GPUs and the proved
optimum, in % of the optimum. A gang that falls below its minimum is lost whole.
"""

import pandas as pd

import lyra_opt as lo
from lyra_opt.instances.preemption.recorded import recorded_decisions
from lyra_opt.preemption import check

RECORDINGS = {"kube-pods": "kube-scheduler, pods", "kube-gang": "kube-scheduler, gangs"}
RECORDINGS |= {"slurm": "Slurm"}
RULES = ("slurm", "kai", "kueue", "volcano-gang")

rows = []
for recording, program in RECORDINGS.items():
    for decision in recorded_decisions(recording):
        least = lo.solve(decision.instance, "exact").objective
        found = {f"{program} (real)": check(decision.instance, decision.solution).objective}
        if recording == "kube-pods":  # the other mode decided on the same clusters
            found |= {rule: lo.solve(decision.instance, rule).objective for rule in RULES}
        rows += [(recording, name, 100 * (paid / least - 1)) for name, paid in found.items()]
excess = pd.DataFrame(rows, columns=["clusters", "rule", "excess (%)"])
of_rule = excess.groupby(["clusters", "rule"], sort=False)["excess (%)"]
of_rule.agg(
    cases="size", optimal=lambda each: (each == 0).mean(), mean="mean", median="median"
).round(2)

# %%
# The rows marked as real are decisions of the program itself. The other rows are imitations of
# other schedulers, on the clusters on which kube-scheduler decided. Among these four imitations,
# only ``slurm`` was compared with its program. A curve shows the share of the cases in which the
# excess is at most the value on the axis. It begins at the share of optimal decisions.

from lyra_opt.core.pictures import COLOURS, Drawing

REAL = excess[excess.rule.str.endswith("(real)")]
PANELS = {"real programs": REAL, "imitations": excess.drop(REAL.index)}


def draw(figure):
    """Draw the distribution of the excess, with a panel for real programs and for imitations."""
    panels = figure.subplots(1, 2, sharey=True)
    for panel, (title, rows_of) in zip(panels, PANELS.items(), strict=True):
        for number, (rule, values) in enumerate(rows_of.groupby("rule", sort=False)):
            ordered = values["excess (%)"].sort_values().to_numpy()
            shares = [100 * (place + 1) / len(ordered) for place in range(len(ordered))]
            style = ("-", "--", ":", "-.")[number]
            panel.step(ordered, shares, style, where="post", color=COLOURS[number], label=rule)
        panel.set_xscale("symlog", linthresh=10)
        panel.set_xticks([0, 10, 100, 1000], ["0", "10", "100", "1,000"])
        panel.set(title=title, xlabel="excess over the optimum (%)", xlim=(0, 1500))
        panel.legend(loc="lower right")
    panels[0].set(ylabel="share of the cases (%)", ylim=(0, 101))


Drawing(9, 3.8, draw).figure()
